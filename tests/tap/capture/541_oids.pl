# Commands that store values made from OIDs of objects, which each node has of its
# own: all nodes store what the origin stored.  What can't be so is refused.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

# the nodes' OIDs differ from here on
$c->sql_local($_, join ' ', map { "CREATE TEMP TABLE x$_ (i int);" } 1 .. 10 * $_) for 1 .. 3;
$c->sql(1, <<'SQL');
CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE t0 (id int PRIMARY KEY);
CREATE TABLE f (id int PRIMARY KEY, o oid, rc regclass, ty regtype, ns regnamespace, e mood, ts timestamptz);
INSERT INTO f SELECT i, 'f'::regclass::oid, 'f', 'mood', 'public', 'b', now() FROM generate_series(1, 3) i;
SQL
$c->drain;
isnt($c->sql(1, "SELECT 'f'::regclass::oid"), $c->sql(2, "SELECT 'f'::regclass::oid"), 'the OIDs differ');

my @commands = (
	'ALTER TABLE f ALTER COLUMN o TYPE text USING o::regclass::text',
	'ALTER TABLE f ALTER COLUMN rc TYPE oid USING rc::oid',
	'ALTER TABLE f ALTER COLUMN ty TYPE oid',
	"ALTER TABLE f ADD a oid DEFAULT 'f'::regclass::oid",
	"ALTER TABLE f ADD b text DEFAULT 'f'::regclass::oid::text",
	"ALTER TABLE f ADD c bigint GENERATED ALWAYS AS ('f'::regclass::oid::bigint) STORED",
	'ALTER TABLE f ADD d oid GENERATED ALWAYS AS (tableoid) STORED',
	'ALTER TABLE f ADD h int GENERATED ALWAYS AS (hashenum(e)) STORED',
	'ALTER TABLE f ADD i oid GENERATED ALWAYS AS (ns::oid) STORED',
	"ALTER TABLE f ADD j oid DEFAULT pg_relation_filenode('f')",
	'ALTER TABLE f ADD k oid DEFAULT pg_my_temp_schema()',
	"ALTER TABLE f ADD l oid DEFAULT 'now'::regproc::oid, ADD m oid DEFAULT 'mood'::regtype",
	"ALTER TABLE f ADD n text DEFAULT pg_typeof(NULL::mood)::oid::text",
	"ALTER TABLE f ADD p text DEFAULT (SELECT 1)" => 'refused by PostgreSQL',
	'ALTER TABLE f ADD q text', 'ALTER TABLE f ALTER COLUMN q TYPE text USING ctid::text || xmin::text || tableoid::text',
	'ALTER TABLE f ADD r oid DEFAULT to_regclass(\'f\')',
	'ALTER TABLE f ADD s int DEFAULT pg_backend_pid()',
	"ALTER TABLE f ADD u text DEFAULT format_type('mood'::regtype, NULL) || 'f'::regclass::oid",
	'BEGIN; SELECT pg_sleep(0.01); ALTER TABLE f ADD v timestamptz DEFAULT statement_timestamp(); COMMIT',
	'ALTER TABLE f ADD w oid[] DEFAULT ARRAY[\'f\'::regclass, \'t0\'::regclass]::oid[]',
	'ALTER TABLE f ALTER COLUMN a TYPE regclass USING a',
	'ALTER TABLE f ADD x int, ADD y bigint GENERATED ALWAYS AS (x + \'f\'::regclass::oid::bigint) STORED',
	"ALTER TABLE f ADD z oid DEFAULT lo_creat(-1)",
	"CREATE TABLE f1 AS SELECT 1 AS id, 'f'::regclass::oid o, pg_backend_pid() p",
	"SELECT 'f'::regclass::oid o INTO f2",
	"CREATE MATERIALIZED VIEW f3 AS SELECT 'f'::regclass::oid o, oid FROM pg_class WHERE relname = 'f'",
	"CREATE TABLE f4 (id int PRIMARY KEY, o oid DEFAULT 'f'::regclass::oid, g bigint GENERATED ALWAYS AS ('f'::regclass::oid::bigint) STORED, t oid GENERATED ALWAYS AS (tableoid) STORED)",
	"CREATE DOMAIN dom AS oid DEFAULT 'f'::regclass::oid", 'ALTER TABLE f4 ADD d dom',
	"CREATE FUNCTION imm() RETURNS oid IMMUTABLE LANGUAGE sql AS \$\$SELECT 'f'::regclass::oid\$\$", 'ALTER TABLE f4 ADD i oid DEFAULT imm()',
	'ALTER TABLE f4 ADD j oid GENERATED ALWAYS AS (imm()) STORED',
);
while (my $command = shift @commands)
{
	my $refused = @commands && $commands[0] =~ /^refused/ ? shift @commands : undef;
	my (undef, $err) = $c->try(1, $command);
	ok(($err =~ /ERROR/) == defined $refused, $command) or diag $err;
}
$c->drain;
$c->sql($_, "INSERT INTO f4 (id) VALUES ($_); INSERT INTO f (id, e, x) VALUES (10 + $_, 'a', 1); INSERT INTO f (id, e) SELECT 100 * $_ + i, 'b' FROM generate_series(1, 5) i; UPDATE f SET x = 5 WHERE id = 3 - $_; UPDATE f4 SET id = id + 10 WHERE id = $_ - 1") for 1 .. 3;
$c->same('what was stored');
is($c->sql(2, 'SELECT o, rc, c FROM f WHERE id = 3'), $c->sql(1, "SELECT 'f', 'f'::regclass::oid, 'f'::regclass::oid"), 'as the origin has it');

# no more rows than need be travel
sub queries { my ($sql) = @_; return $c->sql(1, "BEGIN; $sql; SELECT coalesce(sum(rows) FILTER (WHERE form <> 's'), 0) FROM lockstep.forwarded; ROLLBACK") }
is(queries($_), 0, "its rows stay: $_") for 'ALTER TABLE f ADD now timestamptz DEFAULT now()', 'ALTER TABLE f ALTER COLUMN ts TYPE timestamp', 'ALTER TABLE f ALTER COLUMN id TYPE bigint',
	"ALTER TABLE f ADD v2 tsvector GENERATED ALWAYS AS (to_tsvector('english', q)) STORED", "ALTER TABLE f ADD i4 int GENERATED ALWAYS AS (length(q) + id) STORED";

# unique indexes and partitions that would mean another thing on each node
$c->fails(1, $_, '0A000', qr/OID/, $_) for "CREATE UNIQUE INDEX ON f (id) WHERE rc = 'f'::regclass::oid", "CREATE UNIQUE INDEX CONCURRENTLY ON f ((rc = 'f'::regclass::oid), id)",
	"ALTER TABLE f ADD EXCLUDE USING btree (id WITH =) WHERE (rc <> 'f'::regclass::oid)", "CREATE TABLE x (o oid, EXCLUDE USING btree ((o = 'f'::regclass) WITH =))",
	"CREATE TABLE x (o oid) PARTITION BY LIST ((o = 'f'::regclass::oid))",
	"CREATE TABLE x (o oid) PARTITION BY LIST (o); CREATE TABLE x1 PARTITION OF x FOR VALUES IN ('f'::regclass::oid)";
$c->sql(1, 'DROP TABLE IF EXISTS x');
$c->sql(1, "CREATE UNIQUE INDEX ON f (id) WHERE e = 'b'; CREATE INDEX ON f (id) WHERE rc = 'f'::regclass::oid; CREATE TABLE p (rc regclass) PARTITION BY LIST (rc); CREATE TABLE p1 PARTITION OF p FOR VALUES IN ('f'); INSERT INTO p VALUES ('f')");
$c->sql(1, "CREATE FUNCTION seven() RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 7'; CREATE TABLE q (i int) PARTITION BY RANGE (i); CREATE TABLE q1 PARTITION OF q FOR VALUES FROM (seven()) TO (10); INSERT INTO q VALUES (8)");
$c->same('in the end');
is($c->sql($_, "SELECT rc FROM p WHERE rc = 'f'::regclass"), 'f', "a partition by name on n$_") for 1 .. 3;

# ALTER TYPE ... CASCADE computes rows of tables OF the type
$c->sql(1, "CREATE DOMAIN tok AS uuid DEFAULT gen_random_uuid(); CREATE TYPE ct AS (id int, o regclass); CREATE TABLE tt OF ct (PRIMARY KEY (id)); CREATE TABLE te OF ct; INSERT INTO tt VALUES (1, 'f'), (2, 'f')");
$c->drain;
$c->sql(2, 'ALTER TYPE ct ADD ATTRIBUTE t tok CASCADE');
$c->same('a default that is computed');
is($c->sql(3, 'SELECT count(DISTINCT t) FROM tt'), 2, 'for each row');
$c->sql(1, 'ALTER TYPE ct ALTER ATTRIBUTE o TYPE oid CASCADE');
$c->same('OIDs that remain');

# equal rows are found, and repaired if they aren't
$c->sql_local(2, 'UPDATE f SET x = 77 WHERE id = 1');
my ($said, $err, $status) = $c->ctl('verify', '--repair', 'n2');
is($status, 0, 'a node with generated columns is repaired') or diag $said, $err;
$c->wait_state(2, 'online');
$c->same('after a repair');

done_testing;
