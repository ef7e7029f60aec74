# Commands of two sessions of one node, of which one's effect depends on the other's where no lock of PostgreSQL orders
# them: the second waits until the first has committed, as it would for another node's, so all nodes have the same.
# The wait has an end: a circle with PostgreSQL's locks is found, an idle one that holds all up is rolled back.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "idle_ddl_timeout = 1min\n");
$c->sql(1, <<'SQL');
CREATE SCHEMA s1;
CREATE ROLE r1;
CREATE ROLE r2;
GRANT ALL ON SCHEMA s1, public TO r1, r2;
CREATE TABLE y (a int PRIMARY KEY);
CREATE TABLE src (a int PRIMARY KEY, b int);
CREATE TABLE other (c int PRIMARY KEY, d int);
CREATE INDEX src_b_idx ON other (d);
CREATE TABLE g (a int PRIMARY KEY);
CREATE TABLE src_d_seq (a int PRIMARY KEY);
CREATE TYPE foo AS (p int);
CREATE TYPE en AS ENUM ('a');
CREATE FUNCTION f(x bigint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION f2(x bigint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE OPERATOR public.&&& (LEFTARG = int, RIGHTARG = int, FUNCTION = int4mi);
GRANT SELECT ON y TO r2;
SQL
$c->drain;

# what the first transaction does, and what another session does before it commits
my @cases = (
	[ 'default privileges' => 'CREATE TABLE s1.t (a int PRIMARY KEY)', 'ALTER DEFAULT PRIVILEGES IN SCHEMA s1 GRANT SELECT ON TABLES TO r1' ],
	[ 'default privileges first' => 'ALTER DEFAULT PRIVILEGES IN SCHEMA s1 GRANT SELECT ON TABLES TO r2', 'CREATE TABLE s1.t2 (a int PRIMARY KEY)' ],
	[ 'all tables in a schema' => 'GRANT SELECT ON ALL TABLES IN SCHEMA s1 TO r2', 'CREATE TABLE s1.u (a int PRIMARY KEY)' ],
	[ 'drop what is not there yet' => 'DROP TABLE IF EXISTS x', 'CREATE TABLE x (a int PRIMARY KEY)' ],
	[ 'create what is still there' => 'CREATE TABLE IF NOT EXISTS x (a int PRIMARY KEY)', 'DROP TABLE x' ],
	[ 'alter what is not there yet' => 'ALTER TABLE IF EXISTS x ADD COLUMN b int', 'CREATE TABLE x (a int PRIMARY KEY)' ],
	[ 'an index that is there' => 'CREATE INDEX IF NOT EXISTS src_b_idx ON src (b)', 'DROP INDEX src_b_idx' ],
	[ 'LIKE' => 'CREATE TABLE l (LIKE src INCLUDING ALL)', 'CREATE INDEX src_more ON src (b, a)' ],
	[ 'another function fits better' => 'CREATE VIEW v AS SELECT f(1)', 'CREATE FUNCTION f(x int) RETURNS int LANGUAGE sql AS $$SELECT 2$$' ],
	[ 'in an index' => 'CREATE INDEX fx ON src ((f2(b)))', 'CREATE FUNCTION f2(x int) RETURNS int IMMUTABLE LANGUAGE sql AS $$SELECT 2$$' ],
	[ 'in a policy' => 'CREATE POLICY po ON g USING (f(a::bigint) > 0)', 'CREATE FUNCTION s1.f(x bigint) RETURNS int LANGUAGE sql AS $$SELECT 2$$', 's1, public' ],
	[ 'an operator' => 'CREATE VIEW vo AS SELECT a &&& 3 AS x FROM g', 'CREATE OPERATOR s1.&&& (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)', 's1, public' ],
	[ 'a type' => 'CREATE TABLE public.q (a int PRIMARY KEY, b foo)', 'CREATE TYPE s1.foo AS (p2 int)', 's1, public' ],
	[ 'a name that is made up' => 'ALTER TABLE src ADD COLUMN d serial', 'DROP TABLE src_d_seq' ],
	[ 'DROP OWNED' => 'DROP OWNED BY r2', 'GRANT SELECT ON g TO r2' ],
	[ 'REASSIGN OWNED' => 'REASSIGN OWNED BY r2 TO r1', 'ALTER TABLE g OWNER TO r2' ],
	[ 'a function that is not there yet' => 'DROP FUNCTION IF EXISTS ff(int)', 'CREATE FUNCTION ff(x int) RETURNS int LANGUAGE sql AS $$SELECT 2$$' ],
	[ 'a schema' => 'CREATE SCHEMA IF NOT EXISTS s1', 'DROP SCHEMA s1 CASCADE' ],
	[ 'a label' => q{ALTER TYPE en ADD VALUE IF NOT EXISTS 'b' BEFORE 'a'}, q{ALTER TYPE en ADD VALUE IF NOT EXISTS 'c' BEFORE 'a'} ],
);
for (@cases)
{
	my ($name, $first, $second, $path) = @$_;
	my ($a, $b) = map { $c->session(1) } 1, 2;
	$a->do("SET search_path = $path") if $path;
	$a->do("BEGIN; $first");
	$b->send($second);
	ok($c->wait_for_waiter($b), "$name: waits");
	$a->do('COMMIT');
	$b->finish;
	is($b->error =~ s/^NOTICE.*\n?//mgr =~ s/^(LOCATION|DETAIL).*\n?|^drop cascades.*\n?|^and .*\n?|^(table|view) .*\n?//mgr, '', "$name: and goes on");
	$c->same("$name: nodes are equal");
	$_->close for $a, $b;
}

# ---------- what need not wait

my ($a, $b) = map { $c->session(1) } 1, 2;
$c->sql(1, 'CREATE DATABASE second');
$a->do('BEGIN; CREATE TABLE mine (a int PRIMARY KEY)');
$c->sql(1, 'CREATE TABLE theirs (a int PRIMARY KEY)', db => 'second');
my $role = $c->session(1);
$role->send('CREATE ROLE r3');
ok($c->wait_for_waiter($role), 'a command on what databases have in common waits for those of all');
$a->do('CREATE TEMP TABLE own (a int)');
$b->do('CREATE TEMP TABLE own (a int); DROP TABLE own');
$a->do('COMMIT');
$role->finish;
is($role->error, '', 'and goes on');

$c->sql(1, <<'SQL');
CREATE TABLE long (a int PRIMARY KEY, b int);
INSERT INTO long VALUES (1, 1);
CREATE FUNCTION slow(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN x; END $$;
SQL
$a->send('CREATE INDEX ON long (slow(b))');
$c->wait_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}, 1);
$b->do('CREATE INDEX ON src (b)');
ok($a->blocked(0), 'indexes are made at the same time');
$a->finish;
is($a->error, '', 'both');

# ---------- the wait has an end

$a->do('BEGIN; CREATE TABLE circle (a int PRIMARY KEY)');
$b->do('BEGIN; UPDATE long SET b = 2');
$b->send('CREATE TABLE circle2 (a int PRIMARY KEY)');
ok($c->wait_for_waiter($b), 'one waits for the commands of the other');
$a->send('ALTER TABLE long ADD COLUMN c int');
$_->finish(30) for $a, $b;
is((grep { $_->error =~ /40P01/ } $a, $b), 1, 'which waits for its table: one gets 40P01') or diag($a->error, $b->error);
$_->query('ROLLBACK') for $a, $b;

$c->edit_replicator_conf(sub { s/^idle_ddl_timeout = .*/idle_ddl_timeout = 2s/m });
$c->ctl('reload');
$a->do('BEGIN; CREATE TABLE idle (a int PRIMARY KEY)');
$b->do('CREATE TABLE busy (a int PRIMARY KEY)');
$a->query('COMMIT');
like($a->error, qr/40001.*idle_ddl_timeout|40001.*did nothing for \d+ s/s, 'who does nothing while others wait is rolled back');
is($c->sql(1, q{SELECT to_regclass('idle') IS NULL AND to_regclass('busy') IS NOT NULL}), 't', 'and nobody else');
$c->same('nodes are equal');
done_testing;
