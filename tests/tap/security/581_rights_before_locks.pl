# A role without rights keeps nobody waiting: it is told PostgreSQL's own error before anything
# is asked of the cluster.  Every command of docs/ddl.md that asks for locks is run by a role that
# may connect and look into the schema, while another session has the lock that the command
# would have to wait for: so it would hang, if it asked.
#
# Nor do commands that change nothing (IF EXISTS of what isn't there) wait; and what a role
# may do, it can go on doing, also if the right was given on another node just now.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE ROLE nobody1 LOGIN;
CREATE ROLE somebody LOGIN;
CREATE SCHEMA s AUTHORIZATION somebody;
GRANT USAGE ON SCHEMA public TO nobody1;
CREATE TABLE orders (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO orders SELECT i, 0 FROM generate_series(1, 5) i;
CREATE TABLE lines (id int PRIMARY KEY, o int REFERENCES orders);
CREATE TABLE parted (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE scratch (id int);
CREATE TABLE part_2 (id int, v int);
CREATE INDEX orders_v ON orders (v);
CREATE VIEW orders_view AS SELECT * FROM orders;
CREATE MATERIALIZED VIEW orders_mat AS SELECT * FROM orders;
CREATE UNIQUE INDEX ON orders_mat (id);
CREATE SEQUENCE seq;
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION trigger_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE PROCEDURE proc() LANGUAGE sql AS '';
CREATE AGGREGATE agg(int) (SFUNC = int4pl, STYPE = int);
CREATE TRIGGER tr BEFORE UPDATE ON lines FOR EACH ROW EXECUTE FUNCTION trigger_f();
CREATE RULE ru AS ON DELETE TO part_2 DO INSTEAD NOTHING;
CREATE POLICY po ON lines;
CREATE STATISTICS st ON id, v FROM orders;
CREATE TYPE enum_t AS ENUM ('a');
CREATE TYPE comp_t AS (a int);
CREATE TYPE range_t AS RANGE (SUBTYPE = int);
CREATE DOMAIN dom AS int;
CREATE COLLATION coll FROM "C";
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE OPERATOR FAMILY fam USING btree;
CREATE TEXT SEARCH DICTIONARY dict (TEMPLATE = simple);
CREATE TEXT SEARCH CONFIGURATION conf (COPY = simple);
CREATE SCHEMA other_schema;
CREATE FOREIGN DATA WRAPPER fdw;
CREATE SERVER srv FOREIGN DATA WRAPPER fdw;
CREATE FOREIGN TABLE ft (a int) SERVER srv;
CREATE PUBLICATION pub FOR TABLE orders;
CREATE FUNCTION et_f() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER et ON sql_drop EXECUTE FUNCTION et_f();
ALTER EVENT TRIGGER et DISABLE;
SET ROLE somebody;
CREATE TABLE s.mine (id int PRIMARY KEY, v int);
SQL
$c->drain;

# ---------- denied

my @denied = (
	'LOCK TABLE orders', 'LOCK TABLE orders IN SHARE MODE', 'LOCK TABLE orders_view', 'LOCK TABLE ONLY orders, lines',
	'TRUNCATE orders', 'TRUNCATE orders CASCADE', 'TRUNCATE lines RESTART IDENTITY', 'TRUNCATE ONLY orders, lines',
	'DROP TABLE orders', 'DROP TABLE orders CASCADE', 'DROP TABLE IF EXISTS lines, orders CASCADE',
	'DROP INDEX orders_v', 'DROP INDEX CONCURRENTLY orders_v', 'DROP VIEW orders_view', 'DROP MATERIALIZED VIEW orders_mat', 'DROP SEQUENCE seq',
	'DROP FUNCTION f(int) CASCADE', 'DROP PROCEDURE proc', 'DROP ROUTINE f', 'DROP AGGREGATE agg(int)', 'DROP TRIGGER tr ON lines', 'DROP RULE ru ON part_2', 'DROP POLICY po ON lines',
	'DROP STATISTICS st', 'DROP TYPE enum_t CASCADE', 'DROP TYPE comp_t', 'DROP DOMAIN dom', 'DROP COLLATION coll', 'DROP OPERATOR === (int, int)',
	'DROP OPERATOR FAMILY fam USING btree', 'DROP TEXT SEARCH DICTIONARY dict', 'DROP TEXT SEARCH CONFIGURATION conf', 'DROP SCHEMA other_schema',
	'DROP SCHEMA public CASCADE', 'DROP FOREIGN DATA WRAPPER fdw CASCADE', 'DROP SERVER srv CASCADE', 'DROP FOREIGN TABLE ft', 'DROP PUBLICATION pub', 'DROP EVENT TRIGGER et',
	'DROP LANGUAGE plpgsql CASCADE', 'DROP EXTENSION plpgsql CASCADE', 'DROP ACCESS METHOD heap', 'DROP CAST (int AS bigint)', 'DROP ROLE somebody', 'DROP OWNED BY somebody', 'REASSIGN OWNED BY somebody TO nobody1',
	'ALTER TABLE orders ADD w int', 'ALTER TABLE orders DROP v CASCADE', 'ALTER TABLE orders ALTER v TYPE bigint', 'ALTER TABLE orders RENAME TO o2',
	'ALTER TABLE orders RENAME v TO w', 'ALTER TABLE orders SET SCHEMA other_schema', 'ALTER TABLE orders OWNER TO nobody1', 'ALTER TABLE orders ENABLE ROW LEVEL SECURITY',
	'ALTER TABLE parted ATTACH PARTITION part_2 FOR VALUES FROM (10) TO (20)', 'ALTER TABLE parted DETACH PARTITION parted_1', 'ALTER TABLE parted DETACH PARTITION parted_1 CONCURRENTLY',
	'ALTER TABLE orders CLUSTER ON orders_v', 'ALTER TABLE orders DISABLE TRIGGER ALL', 'ALTER TABLE IF EXISTS orders SET (fillfactor = 50)',
	'ALTER INDEX orders_v RENAME TO ov', 'ALTER INDEX orders_v SET (fillfactor = 50)', 'ALTER VIEW orders_view RENAME TO ov', 'ALTER VIEW orders_view SET (security_barrier)',
	'ALTER MATERIALIZED VIEW orders_mat RENAME TO om', 'ALTER SEQUENCE seq RESTART', 'ALTER SEQUENCE seq OWNED BY orders.v', 'ALTER FUNCTION f(int) VOLATILE', 'ALTER FUNCTION f(int) RENAME TO g',
	'ALTER FUNCTION f(int) OWNER TO nobody1', 'ALTER FUNCTION f(int) SET SCHEMA other_schema', 'ALTER FUNCTION f(int) DEPENDS ON EXTENSION plpgsql', 'ALTER PROCEDURE proc SECURITY DEFINER', 'ALTER AGGREGATE agg(int) RENAME TO agg2', 'ALTER TRIGGER tr ON lines RENAME TO tr2',
	'ALTER RULE ru ON part_2 RENAME TO ru2', 'ALTER POLICY po ON lines USING (true)', 'ALTER POLICY po ON lines RENAME TO po2', 'ALTER STATISTICS st SET STATISTICS 10',
	q{ALTER TYPE enum_t ADD VALUE 'b'}, 'ALTER TYPE comp_t ADD ATTRIBUTE b int', 'ALTER TYPE enum_t RENAME TO e', 'ALTER DOMAIN dom ADD CHECK (VALUE > 0)', 'ALTER DOMAIN dom DROP CONSTRAINT IF EXISTS x',
	'ALTER COLLATION coll RENAME TO c', 'ALTER OPERATOR === (int, int) SET (RESTRICT = eqsel)', 'ALTER OPERATOR FAMILY fam USING btree RENAME TO fam2', 'ALTER TEXT SEARCH DICTIONARY dict (accept = off)',
	'ALTER TEXT SEARCH CONFIGURATION conf DROP MAPPING FOR word', 'ALTER SCHEMA other_schema RENAME TO o', 'ALTER SCHEMA public OWNER TO nobody1', 'ALTER FOREIGN DATA WRAPPER fdw OPTIONS (ADD a \'b\')',
	'ALTER SERVER srv VERSION \'2\'', 'ALTER FOREIGN TABLE ft ADD b int', 'ALTER USER MAPPING FOR somebody SERVER srv OPTIONS (ADD a \'b\')', 'ALTER PUBLICATION pub ADD TABLE lines', 'ALTER PUBLICATION pub OWNER TO nobody1', 'ALTER EVENT TRIGGER et ENABLE',
	'ALTER EXTENSION plpgsql UPDATE', 'ALTER EXTENSION plpgsql ADD TABLE orders', 'ALTER ROLE somebody PASSWORD \'x\'', 'ALTER ROLE somebody SET work_mem = \'1MB\'', 'ALTER ROLE somebody RENAME TO x', 'ALTER DATABASE app SET work_mem = \'1MB\'',
	'ALTER DEFAULT PRIVILEGES FOR ROLE somebody GRANT SELECT ON TABLES TO nobody1', 'ALTER LANGUAGE plpgsql RENAME TO x', 'ALTER TYPE range_t SET SCHEMA other_schema',
	'CREATE TABLE t (a int)', 'CREATE TABLE t AS SELECT 1', 'SELECT 1 AS a INTO t', 'CREATE TABLE IF NOT EXISTS orders (a int)', 'CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (20) TO (30)', 'EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1',
	'CREATE INDEX ON orders (v)', 'CREATE UNIQUE INDEX CONCURRENTLY x ON orders (v)', 'CREATE VIEW v AS SELECT 1', 'CREATE OR REPLACE VIEW orders_view AS SELECT 1', 'CREATE MATERIALIZED VIEW m AS SELECT 1', 'CREATE SEQUENCE q', 'CREATE RULE r AS ON UPDATE TO orders DO INSTEAD NOTHING',
	'CREATE TRIGGER t BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION trigger_f()', 'CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION trigger_f()', 'CREATE POLICY p ON orders', 'CREATE STATISTICS x ON id, v FROM orders',
	'CREATE FUNCTION g() RETURNS int LANGUAGE sql AS \'SELECT 1\'', 'CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql AS \'SELECT 2\'', 'CREATE PROCEDURE p() LANGUAGE sql AS \'\'', 'CREATE AGGREGATE a(int) (SFUNC = int4pl, STYPE = int)',
	'CREATE TYPE e AS ENUM (\'a\')', 'CREATE TYPE c AS (a int)', 'CREATE TYPE r AS RANGE (SUBTYPE = int)', 'CREATE TYPE shell', 'CREATE DOMAIN d AS int', 'CREATE COLLATION c FROM "C"', 'CREATE CONVERSION c FOR \'LATIN1\' TO \'UTF8\' FROM iso8859_1_to_utf8',
	'CREATE CAST (orders AS text) WITH INOUT', 'CREATE TRANSFORM FOR int LANGUAGE sql (FROM SQL WITH FUNCTION f(int))', 'CREATE OPERATOR ==== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)', 'CREATE OPERATOR CLASS c FOR TYPE int USING btree AS OPERATOR 1 <', 'CREATE OPERATOR FAMILY x USING btree', 'ALTER OPERATOR FAMILY fam USING btree ADD OPERATOR 1 < (int, int)',
	'CREATE TEXT SEARCH DICTIONARY d (TEMPLATE = simple)', 'CREATE TEXT SEARCH CONFIGURATION c (COPY = simple)', 'CREATE LANGUAGE x HANDLER plpgsql_call_handler', 'CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION et_f()', 'CREATE EXTENSION pageinspect', 'CREATE ACCESS METHOD a TYPE TABLE HANDLER heap_tableam_handler',
	'CREATE FOREIGN DATA WRAPPER w', 'CREATE SERVER x FOREIGN DATA WRAPPER fdw', 'CREATE USER MAPPING FOR somebody SERVER srv', 'DROP USER MAPPING FOR somebody SERVER srv', 'CREATE FOREIGN TABLE x (a int) SERVER srv', 'IMPORT FOREIGN SCHEMA x FROM SERVER srv INTO public',
	'CREATE PUBLICATION p FOR TABLE orders', 'CREATE SCHEMA x', 'CREATE SCHEMA AUTHORIZATION somebody', 'CREATE ROLE x', 'GRANT somebody TO nobody1', 'REVOKE somebody FROM nobody1', 'GRANT SELECT ON orders TO nobody1',
	'GRANT SELECT (v) ON orders TO nobody1', 'GRANT SET ON PARAMETER work_mem TO nobody1', 'GRANT SELECT ON ALL TABLES IN SCHEMA public TO nobody1',
	'COMMENT ON TABLE orders IS \'x\'', 'COMMENT ON COLUMN orders.v IS \'x\'', 'COMMENT ON FUNCTION f(int) IS \'x\'', 'COMMENT ON SCHEMA public IS \'x\'', 'COMMENT ON ROLE somebody IS \'x\'', 'COMMENT ON INDEX orders_v IS \'x\'', 'COMMENT ON DATABASE app IS \'x\'',
	'SECURITY LABEL ON TABLE orders IS \'x\'',
	'REFRESH MATERIALIZED VIEW orders_mat', 'REFRESH MATERIALIZED VIEW CONCURRENTLY orders_mat', 'CLUSTER orders USING orders_v', 'REINDEX TABLE orders', 'REINDEX INDEX orders_v',
	# not there
	'DROP TABLE nosuch CASCADE', 'ALTER TABLE nosuch ADD a int', 'TRUNCATE nosuch', 'LOCK TABLE nosuch', 'DROP FUNCTION nosuch() CASCADE', 'DROP SCHEMA nosuch CASCADE', 'CREATE INDEX ON nosuch (a)', 'COMMENT ON TABLE nosuch IS \'x\'',
	# not in a transaction block
	'lock table orders',
	# by rows
	'SELECT * FROM orders WHERE id = 1 FOR UPDATE', 'UPDATE orders SET v = 1 WHERE id = 1', 'DELETE FROM orders WHERE id = 1',
);
my @nothing = ('DROP TABLE IF EXISTS nosuch CASCADE', 'ALTER TABLE IF EXISTS nosuch ADD a int', 'DROP FUNCTION IF EXISTS nosuch() CASCADE', 'DROP SCHEMA IF EXISTS nosuch CASCADE', 'DROP TRIGGER IF EXISTS nosuch ON nosuch', 'DROP TYPE IF EXISTS nosuch CASCADE');

my %error;

# Without locks of the cluster, as a server by itself has it.
my $local = $c->session(1);
$local->do('SET lockstep.replicate = off; SET SESSION AUTHORIZATION nobody1');
for my $command (@denied)
{
	$local->query($command =~ /^LOCK/ ? "BEGIN; $command" : $command);
	my $error = $local->error;
	$local->query('ROLLBACK') if $command =~ /^LOCK/;
	($error{$command}) = $error =~ /^(?:psql:.*?: )?(ERROR: .*)$/m;
	ok(defined $error{$command}, "a server by itself denies it: $command") or diag($error);
}

# All that could be asked for is taken: whoever asks, waits.
my $holder = $c->session(2);
$holder->do('SET lockstep.update_order = queued; BEGIN; DROP TABLE scratch CASCADE; UPDATE orders SET v = 1 WHERE id = 1');
my $nobody = $c->session(1);
$nobody->do('SET SESSION AUTHORIZATION nobody1; SET lockstep.update_order = queued; SET statement_timeout = 30000');
for my $command (@denied)
{
	$nobody->query($command =~ /^LOCK/ ? "BEGIN; $command" : $command);
	my ($got) = $nobody->error =~ /^(?:psql:.*?: )?(ERROR: .*)$/m;
	$nobody->query('ROLLBACK') if $command =~ /^LOCK/;
	is($got, $error{$command}, "denied at once: $command");
}
for my $command (@nothing)
{
	$nobody->query($command);
	unlike($nobody->error, qr/ERROR/, "nothing to do: $command");
	is(scalar(() = $nobody->error =~ /NOTICE:.*does not exist, skipping/g), 1, 'said once');
}
my $conflicting = $c->session(1);
$conflicting->do('SET SESSION AUTHORIZATION somebody');
$conflicting->send('ALTER TABLE s.mine ADD w int');
ok($conflicting->blocked(0.5), 'who may, waits');
$holder->do('ROLLBACK');
$conflicting->finish;
is($conflicting->error, '', 'and goes on');

# ---------- allowed

$c->drain;
my $somebody = $conflicting;
for my $command ('CREATE TABLE s.a (id int PRIMARY KEY)', 'COMMENT ON TABLE s.a IS \'a\'', 'CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS \'SELECT 1\'', 'COMMENT ON FUNCTION s.f() IS \'f\'',
	'CREATE OR REPLACE FUNCTION s.f() RETURNS int LANGUAGE sql AS \'SELECT 2\'', 'ALTER FUNCTION s.f() IMMUTABLE', 'ALTER ROLE somebody SET work_mem = \'2MB\'', 'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO nobody1',
	'GRANT SELECT ON s.a TO nobody1', 'GRANT EXECUTE ON FUNCTION s.f() TO nobody1', 'CREATE INDEX CONCURRENTLY ON s.mine (v)', 'TRUNCATE s.a CASCADE', 'BEGIN; LOCK TABLE s.a; COMMIT', 'CREATE TYPE s.t AS ENUM (\'a\')',
	'ALTER TYPE s.t RENAME VALUE \'a\' TO \'b\'', 'DROP TYPE s.t', 'DO $$ BEGIN COMMENT ON SCHEMA s IS \'s\'; CREATE TABLE s.b (id int); COMMENT ON FUNCTION s.f() IS NULL; END $$',
	'DROP TABLE IF EXISTS s.nosuch, s.b', 'CREATE MATERIALIZED VIEW s.m AS SELECT 1 AS a', 'REFRESH MATERIALIZED VIEW s.m', 'CLUSTER', 'CLUSTER s.a USING a_pkey', 'CLUSTER s.a', 'VACUUM FULL s.a', 'REINDEX SCHEMA s', 'REINDEX TABLE CONCURRENTLY s.a',
	'DROP INDEX CONCURRENTLY s.mine_v_idx', 'ALTER SEQUENCE IF EXISTS s.nosuch RESTART', 'CREATE TABLE s.p (i int) PARTITION BY RANGE (i)', 'CREATE TABLE s.p1 PARTITION OF s.p FOR VALUES FROM (0) TO (9)', 'ALTER TABLE s.p DETACH PARTITION s.p1 CONCURRENTLY')
{
	$somebody->query($command);
	unlike($somebody->error, qr/ERROR/, "allowed: $command");
}

# notices and event triggers: once
$c->sql(1, <<'SQL');
CREATE FUNCTION says() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'fired %', tg_tag; END $$;
CREATE EVENT TRIGGER says ON ddl_command_start EXECUTE FUNCTION says();
GRANT CREATE ON DATABASE app TO somebody;
SQL
for my $case (['CREATE SCHEMA made', 1], ['ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM nobody1', 1], ['COMMENT ON SCHEMA made IS NULL', 1], ['DROP SCHEMA IF EXISTS nosuch', 2])
{
	my ($command, $n) = @$case;
	$somebody->query($command);
	is(scalar(() = $somebody->error =~ /NOTICE/g), $n, "$command: notices come once") or diag($somebody->error);
}
$nobody->query('CREATE SCHEMA made2');
like($nobody->error, qr/NOTICE.*fired CREATE SCHEMA.*ERROR.*denied/s, 'as PostgreSQL does, event triggers fire before rights are looked at');
$c->sql(1, 'DROP EVENT TRIGGER says');

# given on another node just now
for my $i (1 .. 5)
{
	$c->sql(2, "CREATE TABLE given$i (id int); GRANT TRUNCATE ON given$i TO nobody1");
	$nobody->query("TRUNCATE given$i");
	is($nobody->error, '', "a right from the other node, $i");
}
$c->same('equal');
# ---------- behind a command that only made others look again

$c->sql(1, <<'SQL', user => 'somebody');
CREATE DOMAIN s.dom AS int;
CREATE FUNCTION s.f2() RETURNS int LANGUAGE sql AS 'SELECT 1';
BEGIN;
ALTER DOMAIN s.dom DROP CONSTRAINT IF EXISTS nothing;
ALTER FUNCTION s.f2() STABLE;
COMMIT;
SQL
is($c->sql(1, "SELECT provolatile FROM pg_proc WHERE oid = 's.f2'::regproc"), 's', 'its own function is altered behind ALTER DOMAIN ... DROP CONSTRAINT IF EXISTS');

done_testing();
