# CREATE TABLE (LIKE a temporary table) is written out for the other nodes, as far as
# there is a way to; IMPORT FOREIGN SCHEMA makes the same foreign tables on every node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# ---------- LIKE

my $s = $c->session(1);
$s->do(<<'SQL');
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE FUNCTION ten() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 10';
CREATE TEMP TABLE t (gone int, id int NOT NULL, "Odd name" varchar(12) COLLATE "C" DEFAULT 'x''y', n numeric(8,2)[], m mood DEFAULT 'low', d small,
	ts timestamptz(3) DEFAULT now(), f int DEFAULT ten(), g int GENERATED ALWAYS AS (id * 2) STORED, c char(3), bi bit varying(5), iv interval hour to minute, CONSTRAINT "is small" CHECK (id < 1000), CHECK (f > 0) NO INHERIT);
ALTER TABLE t DROP COLUMN gone;
CREATE TEMP TABLE plain (x int);
CREATE TEMP VIEW tv AS SELECT id, m FROM t;
SQL
$s->do('CREATE TABLE l1 (LIKE t)');
$s->do('CREATE TABLE l2 (first text, LIKE t INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED, last int DEFAULT 7, LIKE plain)');
$s->do('CREATE UNLOGGED TABLE l3 (LIKE pg_temp . plain INCLUDING ALL EXCLUDING INDEXES /* LIKE t */, LIKE t INCLUDING ALL, y int) WITH (fillfactor = 50)');
$s->do('CREATE TABLE l4 (LIKE tv, PRIMARY KEY (id))');
$s->do('BEGIN; CREATE TEMP TABLE in_here (a int DEFAULT 5); CREATE TABLE IF NOT EXISTS l5 (LIKE in_here INCLUDING ALL); INSERT INTO l5 DEFAULT VALUES; COMMIT');
$s->do('DO $$ BEGIN CREATE TABLE l6 (LIKE plain); END $$');
$s->do('CREATE TEMP TABLE still_local (LIKE t INCLUDING ALL)');
$s->do(q{INSERT INTO l2 (id, d, n) VALUES (1, 2, '{1.5,NULL}'); INSERT INTO l1 (id) VALUES (1)});
$c->same('tables that are like temporary ones');
is($c->sql(2, 'SELECT "Odd name", m, d, f, g, last, n FROM l2'), "x'y|low|2|10|2|7|{1.50,NULL}", 'with defaults and generated columns');
for my $node (1, 2)
{
	my (undef, $err) = $c->try($node, 'INSERT INTO l2 (id) VALUES (1000)');
	like($err, qr/23514.*is small/s, "and checks on node $node");
}
# what LIKE says, on this node alone
$s->do('CREATE TEMP TABLE reference (first text, LIKE t INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED, last int DEFAULT 7, LIKE plain)');
my $columns = "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attcollation, attgenerated, pg_get_expr(adbin, adrelid) FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = '%s'::regclass AND attnum > 0 ORDER BY attnum";
is($s->query(sprintf($columns, 'l2')), $s->query(sprintf($columns, 'reference')), 'the columns are those of LIKE');
my $checks = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '%s'::regclass ORDER BY 1";
is($s->query(sprintf($checks, 'l2')), $s->query(sprintf($checks, 'reference')), 'and so are the checks');

if ($c->version >= 18)
{
	$s->do('CREATE TEMP TABLE new_in_18 (id int CONSTRAINT "Not nothing" NOT NULL NO INHERIT, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL, thrice int GENERATED ALWAYS AS (id * 3), CONSTRAINT loose CHECK (id > 5) NOT ENFORCED)');
	$s->do("CREATE TABLE l18 (LIKE new_in_18 INCLUDING GENERATED INCLUDING CONSTRAINTS); CREATE TEMP TABLE reference18 (LIKE new_in_18 INCLUDING GENERATED INCLUDING CONSTRAINTS)");
	is($s->query(sprintf($columns, 'l18')), $s->query(sprintf($columns, 'reference18')), 'virtual columns stay virtual');
	is($s->query(sprintf($checks, 'l18')), $s->query(sprintf($checks, 'reference18')), 'constraints that are not null keep their names');
	$s->do('INSERT INTO l18 VALUES (1)');
}

$s->do('CREATE TEMP TABLE indexed (a int PRIMARY KEY); CREATE TEMP TABLE ident (a int GENERATED ALWAYS AS IDENTITY); CREATE TEMP TABLE told (a int); COMMENT ON COLUMN told.a IS \'told\'; CREATE TEMP TABLE ser (a serial)');
for my $what ('indexed INCLUDING INDEXES', 'ident INCLUDING IDENTITY', 'told INCLUDING COMMENTS', 'ser INCLUDING DEFAULTS', 'indexed INCLUDING ALL')
{
	$s->query("CREATE TABLE refused (LIKE $what)");
	like($s->error, qr/0A000/, "LIKE $what is refused");
}
$s->do('CREATE TABLE l7 (LIKE indexed); CREATE TABLE l8 (LIKE ident); CREATE TABLE l9 (LIKE told INCLUDING CONSTRAINTS); CREATE TABLE l10 (LIKE ser)');
$s->do('DROP TABLE ident, ser');
$c->same('what is not included is no matter');

# ---------- IMPORT FOREIGN SCHEMA, through postgres_fdw: each node from another database of its own server

$c->sql_local($_, 'CREATE SCHEMA far; CREATE TYPE far.kind AS ENUM (\'a\'); CREATE TABLE far.one (id int PRIMARY KEY, v varchar(5) COLLATE "C" DEFAULT \'q\', "Q" timestamptz NOT NULL); CREATE TABLE far.two (a int[]); CREATE TABLE far.left_out (x int); INSERT INTO far.one VALUES (1, \'far\', now())', db => 'postgres') for 1, 2;
$c->sql(1, 'CREATE EXTENSION postgres_fdw; CREATE SCHEMA near');
$c->sql(1, 'CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname \'postgres\'); CREATE USER MAPPING FOR CURRENT_USER SERVER other');
$c->drain;
$c->sql_local($_, "ALTER SERVER other OPTIONS (ADD host '127.0.0.1', ADD port '" . $c->port($_) . "')") for 1, 2;
$c->sql(1, "IMPORT FOREIGN SCHEMA far EXCEPT (left_out) FROM SERVER other INTO near OPTIONS (import_default 'true')");
$c->sql(2, 'BEGIN; CREATE SCHEMA nearer; IMPORT FOREIGN SCHEMA far LIMIT TO (left_out, two) FROM SERVER other INTO nearer; COMMIT');
$c->drain;
is($c->sql($_, "SELECT string_agg(relnamespace::regnamespace || '.' || relname, ' ' ORDER BY 1) FROM pg_class WHERE relkind = 'f'"), 'near.one near.two nearer.left_out nearer.two', "foreign tables on node $_") for 1, 2;
is($c->sql($_, 'SELECT id, v FROM near.one'), '1|far', "which can be read on node $_") for 1, 2;
is($c->sql(1, sprintf($columns, 'near.one')), $c->sql(2, sprintf($columns, 'near.one')), 'with equal columns');
$c->fails(1, 'IMPORT FOREIGN SCHEMA far LIMIT TO (one) FROM SERVER other INTO near', '42P07', qr/already exists/, 'an error is one');
is($c->sql(2, 'SELECT count(*) FROM pg_class WHERE relkind = \'f\''), 4, 'and leaves nothing');
$c->sql_local($_, 'ALTER SERVER other OPTIONS (DROP host, DROP port)') for 1, 2;
$c->same('nodes are equal');
done_testing;
