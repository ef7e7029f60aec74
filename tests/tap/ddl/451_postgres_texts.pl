# What PostgreSQL's own tests ask of single commands: notices are given once, and
# errors are PostgreSQL's; rules that are ENABLE ALWAYS or REPLICA; CONCURRENTLY;
# numbers of pg_class; domains over temporary types.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

sub notices { my ($node, $sql) = @_; my (undef, $err) = $c->try($node, $sql); return scalar(() = $err =~ /^(?:psql:.*?: )?NOTICE:/mg) }

# ---------- notices are given once

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, name text)');
$c->drain;
my $long = 'x' x 70;
is(notices(1, "CREATE TABLE $long (id int PRIMARY KEY)"), 1, 'CREATE TABLE of a long name');
is(notices(1, "CREATE VIEW v AS SELECT name AS y$long FROM t"), 1, 'CREATE VIEW');
is(notices(2, "CREATE TEMP TABLE tmp (a int); CREATE VIEW v2 AS SELECT id AS y$long FROM t"), 1, 'in a session with a temporary table');
is(notices(1, "CREATE FUNCTION f(t.name%TYPE) RETURNS t.id%TYPE LANGUAGE sql AS 'SELECT 1'"), 2, 'types by reference');
is(notices(3, "CREATE INDEX CONCURRENTLY z$long ON t (name)"), 1, 'CREATE INDEX CONCURRENTLY');
is(notices(3, "ALTER TABLE t ADD a$long int, ADD b int DEFAULT random()"), 1, 'ALTER TABLE');
is(notices(3, 'DROP TABLE IF EXISTS nowhere, nothing'), 2, 'IF EXISTS');
$c->same('all of that');

# ---------- databases

$c->fails(1, 'DROP DATABASE nowhere', '3D000', qr/database "nowhere" does not exist/, 'DROP DATABASE of one that is not there');
is(notices(1, 'DROP DATABASE IF EXISTS nowhere'), 1, 'IF EXISTS');
is(notices(2, 'DROP DATABASE IF EXISTS nowhere WITH (FORCE)'), 1, 'with FORCE');
$c->fails(1, 'BEGIN; DROP DATABASE IF EXISTS nowhere', '25001', qr/cannot run inside a transaction block/, 'in a transaction block');
$c->fails(1, 'DROP DATABASE IF EXISTS app', '55006', qr/cannot drop the currently open database/, 'one that is there');

# ---------- rules that are ENABLE ALWAYS or REPLICA

$c->sql(1, <<'SQL');
CREATE TABLE r (id int PRIMARY KEY, v int);
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, what text);
CREATE RULE also AS ON UPDATE TO r DO ALSO INSERT INTO log (what) VALUES ('updated ' || NEW.id);
CREATE RULE instead AS ON INSERT TO r WHERE NEW.id > 100 DO INSTEAD INSERT INTO log (what) VALUES ('not inserted ' || NEW.id);
CREATE RULE nothing AS ON DELETE TO r WHERE OLD.v = 7 DO INSTEAD NOTHING;
INSERT INTO r SELECT g, 100 * g FROM generate_series(1, 10) g; INSERT INTO r VALUES (50, 7);
SQL
for my $enable ('ENABLE ALWAYS', 'ENABLE REPLICA', 'ENABLE', 'DISABLE')
{
	$c->sql(2, "ALTER TABLE r $enable RULE also, $enable RULE instead, $enable RULE nothing");
	$c->drain;
	my $before = $c->sql(1, 'SELECT count(*) FROM log');
	$c->sql($_, "UPDATE r SET v = v + 1 WHERE id IN ($_, $_ + 3); INSERT INTO r VALUES (10 * $_ + length('$enable'), 1)") for 1 .. 3;
	$c->sql(3, "INSERT INTO r SELECT 200 + length('$enable')");
	$c->sql(1, 'DELETE FROM r WHERE v = 7');
	$c->same("rules: $enable");
	my $fires = $enable =~ /^ENABLE(?: ALWAYS)?$/;
	is($c->sql(2, 'SELECT count(*) FROM log') - $before, $fires ? 7 : 0, $fires ? 'they act, once' : 'they do not act');
}

# ---------- CONCURRENTLY

$c->sql(1, <<'SQL');
CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE "P 2" PARTITION OF p FOR VALUES FROM (10) TO (20);
CREATE TABLE p3 (a int, b text, CHECK (a IS NOT NULL AND a >= 20 AND a < 30));
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30);
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (30) TO (40) PARTITION BY LIST (b);
CREATE TABLE p4x PARTITION OF p4 FOR VALUES IN ('x');
INSERT INTO p SELECT g, 'x' FROM generate_series(0, 39) g;
CREATE TABLE pd PARTITION OF p DEFAULT;
SQL
$c->drain;
$c->fails(2, 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY', '55000', qr/when a default partition exists/, 'DETACH with a default partition');
$c->sql(2, 'DROP TABLE pd');
$c->fails(2, 'BEGIN; ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY', '25001', qr/transaction block/, 'DETACH in a transaction block');
$c->sql(2, 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY; SET search_path = pg_catalog; ALTER TABLE public.p DETACH PARTITION public."P 2" CONCURRENTLY');
$c->drain;
$c->sql(3, 'ALTER TABLE p DETACH PARTITION p3 CONCURRENTLY; ALTER TABLE p DETACH PARTITION p4 CONCURRENTLY');
$c->drain;
is($c->sql(1, "SELECT string_agg(conrelid::regclass || ': ' || pg_get_constraintdef(oid), E'\\n' ORDER BY conrelid::regclass::text COLLATE \"C\") FROM pg_constraint WHERE conrelid::regclass::text ~ '^\"?[pP]' AND contype = 'c'"),
	<<'TEXT' =~ s/\n\z//r, 'what was detached keeps its bounds');
"P 2": CHECK (((a IS NOT NULL) AND (a >= 10) AND (a < 20)))
p1: CHECK (((a IS NOT NULL) AND (a >= 0) AND (a < 10)))
p3: CHECK (((a IS NOT NULL) AND (a >= 20) AND (a < 30)))
p4: CHECK (((a IS NOT NULL) AND (a >= 30) AND (a < 40)))
p4x: CHECK (((a IS NOT NULL) AND (a >= 30) AND (a < 40)))
TEXT
$c->same('detached');
$c->sql(1, 'CREATE TEMP TABLE tp (a int) PARTITION BY LIST (a); CREATE INDEX tpi ON tp (a); DROP INDEX CONCURRENTLY tpi');

# a partition that was half detached before its database was replicated: no event
# trigger of another node has a say in the rest
$c->sql(1, <<'SQL');
CREATE TABLE fired (what text);
CREATE FUNCTION ev() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (tg_tag); END $$;
CREATE TABLE h (a int) PARTITION BY LIST (a); CREATE TABLE h1 PARTITION OF h FOR VALUES IN (1);
CREATE EVENT TRIGGER ev ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION ev(); ALTER EVENT TRIGGER ev ENABLE ALWAYS;
SQL
$c->drain;
$c->sql_local($_, "SET allow_system_table_mods = on; UPDATE pg_inherits SET inhdetachpending = true WHERE inhrelid = 'h1'::regclass") for 1 .. 3;
$c->sql(2, 'ALTER TABLE h DETACH PARTITION h1 FINALIZE; DROP EVENT TRIGGER ev');
$c->drain;
is($c->sql(3, 'SELECT count(*) FROM fired'), 1, 'FINALIZE fires an ALWAYS event trigger where it was said, and nowhere else');
$c->same('FINALIZE');

# ---------- catalogs

$c->sql(1, "UPDATE pg_class SET reltuples = 12345, relpages = 7 WHERE oid = 'r'::regclass");
is($c->sql(1, "SELECT reltuples FROM pg_class WHERE oid = 'r'::regclass"), 12345, 'the planner\'s numbers may be set');
isnt($c->sql(2, "SELECT reltuples FROM pg_class WHERE oid = 'r'::regclass"), 12345, 'on this node');
$c->fails(1, "UPDATE pg_class SET reltuples = 1, relname = 'rr' WHERE oid = 'r'::regclass", '0A000', qr/system catalog "pg_class"/, 'nothing else');
$c->fails(1, "DELETE FROM pg_class WHERE oid = 'r'::regclass", '0A000', qr/system catalog "pg_class"/, 'nor a DELETE');

# a toast table has another name on each node
$c->sql(1, 'CREATE TABLE wide (id int PRIMARY KEY, v text)');
$c->sql(1, "SET allow_system_table_mods = on; DO \$\$ BEGIN EXECUTE 'ALTER TABLE ' || (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'wide'::regclass) || ' RENAME TO wide_toast'; END \$\$");
$c->sql(1, "REINDEX TABLE pg_toast.wide_toast; INSERT INTO wide SELECT 1, string_agg(random()::text, '') FROM generate_series(1, 1000)");
is($c->sql(2, "SELECT count(*) FROM pg_class WHERE relname = 'wide_toast'"), 0, 'what is done to a toast table stays on its node');

# ---------- domains over temporary types

my $s = $c->session(1);
$s->query('CREATE TEMP TABLE tt (a int); CREATE DOMAIN over AS tt[]; CREATE DOMAIN over_over AS over');
$c->sql(2, 'CREATE DOMAIN other AS int');
$s->query('DROP DOMAIN over_over');
$s->close;
$c->wait_sql(1, "SELECT count(*) FROM pg_type WHERE typname = 'over'", 0);
$c->same('a domain over a temporary type goes with its session');

done_testing;
