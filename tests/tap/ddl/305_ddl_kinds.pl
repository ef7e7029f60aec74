# Kinds of DDL that go in another form than their text, or that only a few
# commands later show whether they arrived: materialized views, volatile
# rewrites, foreign data, publications, event triggers, CLUSTER's mark, settings
# of the session, domains with old values.  Made on three nodes in turn, then on
# all at once; all nodes equal.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

my @kinds = (
	[ 'a base table', "CREATE TABLE b (id int PRIMARY KEY, v text); INSERT INTO b SELECT i, 'v' || i FROM generate_series(1, 50) i" ],
	[ 'a materialized view', 'CREATE MATERIALIZED VIEW m AS SELECT id, v, random() AS r, clock_timestamp() AS t FROM b; CREATE UNIQUE INDEX ON m (id)' ],
	[ 'an empty one, and one without data', 'CREATE MATERIALIZED VIEW m0 AS SELECT 1 AS a WHERE false; CREATE MATERIALIZED VIEW mn AS SELECT 1 AS a WITH NO DATA' ],
	[ 'empty ones, of a name that is in another schema, too, and whose query writes elsewhere', "CREATE SCHEMA before; SET search_path = before, public;
		CREATE MATERIALIZED VIEW m0 AS SELECT 1 AS a WHERE false; CREATE TEMP TABLE m2 (a int); CREATE MATERIALIZED VIEW before.m2 AS SELECT 1 AS a WHERE false;
		CREATE MATERIALIZED VIEW IF NOT EXISTS mn AS SELECT 1 AS a WHERE false; CREATE MATERIALIZED VIEW IF NOT EXISTS mn AS SELECT 1 AS a; RESET search_path;
		CREATE TABLE seen (i int); CREATE FUNCTION see(int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (\$1); RETURN false; END';
		CREATE MATERIALIZED VIEW m3 AS SELECT g FROM generate_series(1, 3) g WHERE see(g); CREATE MATERIALIZED VIEW m4 AS SELECT g, see(g) FROM generate_series(1, 3) g" ],
	[ 'REFRESH', 'DELETE FROM b WHERE id = 1; REFRESH MATERIALIZED VIEW m; REFRESH MATERIALIZED VIEW mn; REFRESH MATERIALIZED VIEW m0' ],
	[ 'REFRESH CONCURRENTLY', "UPDATE b SET v = 'n' WHERE id < 9; REFRESH MATERIALIZED VIEW CONCURRENTLY m" ],
	[ 'REFRESH in a function, rolled back and done', "DO \$\$ BEGIN BEGIN REFRESH MATERIALIZED VIEW m; RAISE EXCEPTION 'x'; EXCEPTION WHEN raise_exception THEN NULL; END;
		EXECUTE 'REFRESH MATERIALIZED VIEW m'; END \$\$" ],
	[ 'emptied', 'REFRESH MATERIALIZED VIEW mn WITH NO DATA; ALTER MATERIALIZED VIEW m0 RENAME TO m9' ],
	[ 'a volatile default', 'ALTER TABLE b ADD COLUMN r float8 DEFAULT random(), ADD COLUMN u uuid DEFAULT gen_random_uuid(), ADD COLUMN n timestamptz DEFAULT now()' ],
	[ 'serial and identity columns', "ALTER TABLE b ADD COLUMN n1 serial; ALTER TABLE b ADD COLUMN n2 bigint GENERATED ALWAYS AS IDENTITY (START 100 INCREMENT 10);
		INSERT INTO b (id) SELECT max(id) + 1 FROM b" ],
	[ 'a volatile conversion', 'ALTER TABLE b ALTER COLUMN r TYPE text USING r || clock_timestamp()::text' ],
	[ 'of partitions and children', "CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT;
		INSERT INTO p VALUES (1), (1), (2); ALTER TABLE p ADD COLUMN r float8 DEFAULT random();
		CREATE TABLE i1 (a int); INSERT INTO i1 VALUES (1); CREATE TABLE i2 () INHERITS (i1); INSERT INTO i2 VALUES (2); ALTER TABLE i1 ADD COLUMN r float8 DEFAULT random()" ],
	[ 'referenced by a foreign key', 'CREATE TABLE f (b int REFERENCES b); INSERT INTO f VALUES (5), (6); ALTER TABLE b ADD COLUMN w float8 DEFAULT random()' ],
	[ 'the time of the transaction', "CREATE TABLE tt (a date DEFAULT 'today', b timestamptz DEFAULT 'now'); INSERT INTO tt DEFAULT VALUES;
		CREATE TABLE tp (t timestamptz) PARTITION BY RANGE (t); CREATE TABLE tp1 PARTITION OF tp FOR VALUES FROM ('yesterday') TO ('tomorrow');
		CREATE TABLE tp2 PARTITION OF tp FOR VALUES FROM (now() + '10 days') TO (now() + '20 days')" ],
	[ 'EXPLAIN ANALYZE', 'EXPLAIN (ANALYZE) CREATE TABLE ea AS SELECT random(); EXPLAIN (ANALYZE) CREATE MATERIALIZED VIEW em AS SELECT random()' ],
	[ 'CLUSTER', 'CLUSTER b USING b_pkey; CREATE INDEX ON p (a); CLUSTER p USING p_a_idx; CREATE TABLE cl (a int PRIMARY KEY); CLUSTER cl USING cl_pkey; CLUSTER' ],
	[ 'foreign data', "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE USER MAPPING FOR SESSION_USER SERVER s OPTIONS (a 'b');
		CREATE FOREIGN TABLE ft (a int NOT NULL, b text OPTIONS (x 'y')) SERVER s; ALTER FOREIGN TABLE ft ADD COLUMN c int; COMMENT ON FOREIGN TABLE ft IS 'f';
		ALTER SERVER s OPTIONS (ADD x 'y'); GRANT USAGE ON FOREIGN SERVER s TO pg_monitor; ALTER FOREIGN TABLE ft RENAME TO ft2" ],
	[ 'publications', 'CREATE PUBLICATION pub FOR TABLE b (id, v) WHERE (id > 3); ALTER PUBLICATION pub ADD TABLE p; ALTER PUBLICATION pub RENAME TO pub2' ],
	[ 'an access method', 'CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler; CREATE TABLE h2 (a int) USING heap2; INSERT INTO h2 VALUES (1)' ],
	[ 'an event trigger, always', "CREATE TABLE log (t text); CREATE FUNCTION ev() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO log VALUES (tg_tag); END';
		CREATE EVENT TRIGGER ev ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'DROP TABLE') EXECUTE FUNCTION ev(); ALTER EVENT TRIGGER ev ENABLE ALWAYS;
		CREATE TABLE el (a int); DROP TABLE el; ALTER EVENT TRIGGER ev ENABLE REPLICA; CREATE TABLE el (a int); DROP EVENT TRIGGER ev" ],
	[ 'settings of the session', "SET work_mem = '7MB'; SET search_path = public, \"O\"; CREATE FUNCTION fc() RETURNS int LANGUAGE sql SET work_mem FROM CURRENT SET search_path FROM CURRENT AS 'SELECT 1';
		CREATE ROLE rc; ALTER ROLE rc SET work_mem FROM CURRENT; ALTER ROLE rc SET search_path FROM CURRENT" ],
	[ 'a function whose body names a temporary table', "CREATE TEMP TABLE tmp (a int); CREATE FUNCTION ft() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM tmp'" ],
	[ 'temporary and permanent ones together', "CREATE TABLE k1 (a int); CREATE TEMP TABLE k2 (a int); CREATE FUNCTION kf(k2) RETURNS int LANGUAGE sql AS 'SELECT \$1.a';
		INSERT INTO k1 VALUES (1); INSERT INTO k2 VALUES (1); SELECT kf(k2) FROM k2; TRUNCATE k1, k2; DROP FUNCTION kf(k2);
		CREATE TABLE k3 (a int); DROP TABLE IF EXISTS k3, k2, k4 CASCADE" ],
	[ 'functions of a view\'s index run as its owner', "CREATE ROLE low; GRANT CREATE ON SCHEMA public TO low; SET ROLE low;
		CREATE FUNCTION who(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN IF current_user <> ''low'' THEN RAISE EXCEPTION ''run as %'', current_user; END IF; RETURN \$1; END';
		CREATE MATERIALIZED VIEW lm AS SELECT 1 AS a; CREATE UNIQUE INDEX ON lm (who(a)); RESET ROLE; REFRESH MATERIALIZED VIEW lm; REFRESH MATERIALIZED VIEW lm" ],
	[ 'a row older than its domain\'s constraint', "CREATE DOMAIN dom int; CREATE TABLE dt (d dom, v text); INSERT INTO dt VALUES (1, 'a'), (1, 'a'), (9, 'b');
		ALTER DOMAIN dom ADD CHECK (value > 5) NOT VALID; UPDATE dt SET v = 'c' WHERE d = 1; DELETE FROM dt WHERE d = 1; UPDATE dt SET d = 7" ],
	[ 'rows made from a catalog', 'CREATE TABLE cat AS SELECT conname, conbin FROM pg_constraint WHERE conbin IS NOT NULL' ],
	[ 'objects that nothing depends on go', "CREATE TYPE ty AS (a int); CREATE FUNCTION fy() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE AGGREGATE ag (int) (SFUNC = int4pl, STYPE = int);
		CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq); CREATE CAST (ty AS text) WITH INOUT; DROP CAST (ty AS text);
		DROP OPERATOR === (int, int); DROP AGGREGATE ag (int); DROP FUNCTION fy(); DROP TYPE ty" ],
	[ 'reassigned and dropped with their owner', 'CREATE ROLE ow; CREATE TABLE owt (a int); ALTER TABLE owt OWNER TO ow; CREATE MATERIALIZED VIEW owm AS SELECT 1 AS a;
		ALTER MATERIALIZED VIEW owm OWNER TO ow; REASSIGN OWNED BY ow TO rc; DROP OWNED BY rc; DROP ROLE ow' ],
);
my $node = 0;
for (@kinds)
{
	my ($name, $sql) = @$_;
	$node = $node % 3 + 1;
	my (undef, $err) = $c->try($node, "SET client_min_messages = error; SET lockstep.commit_wait = applied;\n$sql");
	is($err, '', $name);
}
$c->same('all of that is everywhere');

# On all nodes at once: each its own tables and views, and one view for all.
my @sessions = map { $c->session($_) } 1 .. 3;
for my $round (1 .. 5)
{
	for my $i (1 .. 3)
	{
		$sessions[$i - 1]->send("SET client_min_messages = error; CREATE TABLE own_${i}_$round (a int PRIMARY KEY, r float8 DEFAULT random());"
			. " INSERT INTO own_${i}_$round SELECT generate_series(1, 20);"
			. " ALTER TABLE own_${i}_$round ADD COLUMN c timestamptz DEFAULT clock_timestamp();"
			. " CREATE MATERIALIZED VIEW ownm_${i}_$round AS SELECT * FROM own_${i}_$round;"
			. " CREATE FUNCTION own${i}_$round() RETURNS int LANGUAGE sql AS 'SELECT $round';"
			. " DROP FUNCTION own${i}_$round(); REFRESH MATERIALIZED VIEW em");
	}
	$_->finish for @sessions;
}
$c->drain;
is($c->sql(1, "SELECT count(*) FROM pg_class WHERE relname ~ '^own(m)?_._.\$' AND relkind IN ('r', 'm')"), 30, 'DDL on three nodes at once');
$c->same('and equal');

# ---------- types that do not exist get PostgreSQL's error

$c->sql(1, 'CREATE TABLE typed (i int)');
$c->fails(1, "ALTER TABLE typed $_", '42704', qr/type "nothing" does not exist/, $_)
	for 'ALTER i TYPE nothing', 'ALTER i TYPE nothing USING i + 1', 'ADD j nothing', 'ADD j nothing DEFAULT now()';

# ---------- so does CREATE TABLE AS EXECUTE of what is no SELECT

$c->fails(1, "PREPARE p AS $_; CREATE TABLE none AS EXECUTE p", '42809', qr/prepared statement is not a SELECT/, "AS EXECUTE: $_")
	for 'UPDATE typed SET i = 1', 'INSERT INTO typed VALUES (1) RETURNING i';
is($c->sql(1, 'PREPARE p AS DELETE FROM typed; CREATE TABLE IF NOT EXISTS typed AS EXECUTE p; SELECT 1'), 1, 'but if the table is there');
$c->same('equal with these');

done_testing();
