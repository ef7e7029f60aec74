# Commands that name, or silently mean, a temporary object: what would make a permanent
# object depend on one is refused, for the other nodes would take the permanent object of that
# name instead; commands on temporary functions, types and the like stay on their node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1);
my $s = $c->session(1);
$s->do('SET client_min_messages = error');

# A statement in the session of the temporary objects: it works, or is refused.
sub works
{
	my ($sql, $name) = @_;
	$s->query($sql);
	is($s->error, '', $name // $sql);
}

sub refused
{
	my ($sql, $name, $like) = @_;
	$s->query($sql);
	LockstepCluster::is_error($s->error, '0A000', $like // qr/permanent object .*depends? on a temporary/, $name // $sql);
	$s->query('ROLLBACK') if $sql =~ /BEGIN/;
}

# Not ->same(), to which temporary sequences count.
sub equal
{
	my ($name) = @_;
	$c->drain;
	is($c->schema(2), $c->schema(1), $name);
}

# ---------- a temporary object hides a permanent one

$c->sql(1, <<'SQL');
SET client_min_messages = error;
CREATE ROLE bob;
CREATE TABLE foo (a int);
CREATE TABLE t (a int, b text);
CREATE SEQUENCE s;
CREATE DOMAIN d AS int;
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION on_foo(foo) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION on_int(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION same(foo, foo) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION to_text(foo) RETURNS text LANGUAGE sql AS 'SELECT $1.a::text';
CREATE OPERATOR === (LEFTARG = foo, RIGHTARG = foo, FUNCTION = same);
CREATE CAST (foo AS date) WITH INOUT;
CREATE POLICY p ON t USING (a > 0);
SQL
$s->do('CREATE TEMP TABLE foo (a text); CREATE TEMP SEQUENCE s');
refused('CREATE POLICY p2 ON t USING (a::text IN (SELECT a FROM foo))');
refused('ALTER POLICY p ON t USING (a::text IN (SELECT a FROM foo))');
refused('CREATE RULE r AS ON INSERT TO t DO ALSO INSERT INTO foo VALUES (NEW.a)');
refused("ALTER TABLE t ALTER a SET DEFAULT nextval('s')");
refused("ALTER TABLE t ADD CHECK (a <> 's'::regclass::oid::int)");
refused("ALTER DOMAIN d ADD CHECK (VALUE <> 's'::regclass::oid::int)");
refused("CREATE TRIGGER tr AFTER UPDATE ON t FOR EACH ROW WHEN (NEW.a <> 's'::regclass::oid::int) EXECUTE FUNCTION trg()");
refused("CREATE STATISTICS st ON (a + 's'::regclass::oid::int), b FROM t");
refused('CREATE SCHEMA x CREATE TABLE x (LIKE foo)');
refused('CREATE SCHEMA x CREATE TABLE x (a int) CREATE TABLE y (a int, LIKE foo INCLUDING ALL)');
if ($c->version >= 18)
{
	$c->sql(1, 'CREATE FOREIGN DATA WRAPPER w; CREATE SERVER far FOREIGN DATA WRAPPER w');
	refused('CREATE FOREIGN TABLE ft (LIKE foo) SERVER far');
}
$s->query('CREATE FUNCTION f(a.b.c.d.e%TYPE) RETURNS int LANGUAGE sql AS $$SELECT 1$$');
LockstepCluster::is_error($s->error, '42601', qr/improper %TYPE reference/, '%TYPE of too many names');
refused('CREATE FUNCTION f(foo.a%TYPE) RETURNS int LANGUAGE sql AS $$SELECT 1$$');
refused('CREATE FUNCTION f() RETURNS foo.a%TYPE LANGUAGE sql AS $$SELECT NULL::text$$');
refused('CREATE FUNCTION f() RETURNS TABLE (x int, y foo.a%TYPE) LANGUAGE sql AS $$SELECT 1, NULL::text$$');
$s->do("CREATE FUNCTION same(foo, foo) RETURNS bool LANGUAGE sql AS 'SELECT true'");
refused('CREATE OPERATOR !== (LEFTARG = foo, RIGHTARG = foo, FUNCTION = same)');
refused('CREATE VIEW v AS SELECT same(NULL::foo, NULL::foo)');
$s->do('DROP FUNCTION same(foo, foo)');
refused('CREATE AGGREGATE counted(foo) (SFUNC = int8inc_any, STYPE = int8, INITCOND = 0)');
refused('DROP FUNCTION IF EXISTS on_int(foo.a%TYPE)');
works('DROP FUNCTION IF EXISTS on_foo(foo)', 'DROP ... IF EXISTS of what the temporary type does not have');
equal('the permanent ones are untouched');
is($c->sql($_, "SELECT count(*) FROM pg_proc WHERE proname = 'on_foo'"), 1, "function of the permanent type on n$_") for 1, 2;

works('CREATE POLICY p2 ON t USING (a IN (SELECT a FROM public.foo))', 'a policy that names the schema');
works("ALTER TABLE t ALTER a SET DEFAULT nextval('public.s')", 'a default that does');
works('CREATE RULE r AS ON INSERT TO t DO ALSO INSERT INTO public.foo VALUES (NEW.a)', 'a rule that does');
works('CREATE SCHEMA x CREATE TABLE x (LIKE public.foo)', 'LIKE that does');
works('CREATE FUNCTION f(public.foo.a%TYPE) RETURNS int LANGUAGE sql AS $$SELECT 1$$', '%TYPE that does');
works(<<'SQL', 'what belongs to temporary tables');
BEGIN;
CREATE TEMP TABLE own (a serial PRIMARY KEY, b int CHECK (b > 0) DEFAULT nextval('s'), f foo);
CREATE TEMP TABLE child (a int REFERENCES own);
CREATE TRIGGER tr AFTER UPDATE ON own FOR EACH ROW WHEN (NEW.b > 1) EXECUTE FUNCTION trg();
CREATE RULE r AS ON UPDATE TO own DO ALSO INSERT INTO foo VALUES (NEW.a);
CREATE POLICY p ON own USING (a::text IN (SELECT a FROM foo));
CREATE FUNCTION of_own(own) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE VIEW over_own AS SELECT of_own(own) FROM own;
CREATE TABLE made_beside (a int);
DROP VIEW over_own;
DROP FUNCTION of_own(own);
COMMIT;
SQL
equal('and the nodes are equal');

# ---------- commands on temporary functions and types stay here

works('DROP OPERATOR IF EXISTS === (foo, foo); DROP CAST IF EXISTS (foo AS date)', 'DROP ... IF EXISTS of an operator and a cast that the temporary type does not have');
equal('the permanent ones are untouched');
is($c->sql($_, "SELECT count(*) FROM pg_cast WHERE castsource = 'public.foo'::regtype"), 1, "cast of the permanent type on n$_") for 1, 2;
$s->do("CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TYPE pg_temp.ty AS (a int); CREATE TYPE pg_temp.mood AS ENUM ('low'); CREATE DOMAIN pg_temp.dom AS int CONSTRAINT positive CHECK (VALUE > 0)");
works($_)
  for 'REVOKE ALL ON FUNCTION pg_temp.f() FROM PUBLIC',
  'GRANT EXECUTE ON ROUTINE pg_temp.f TO bob',
  'GRANT USAGE ON TYPE pg_temp.ty, mood TO bob',
  'GRANT USAGE ON DOMAIN dom TO bob',
  'GRANT SELECT ON ALL TABLES IN SCHEMA pg_temp TO bob',
  'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_temp TO bob',
  'ALTER FUNCTION pg_temp.f() OWNER TO bob',
  'ALTER FUNCTION pg_temp.f() DEPENDS ON EXTENSION plpgsql',
  'ALTER EXTENSION plpgsql ADD TABLE foo', 'ALTER EXTENSION plpgsql DROP TABLE foo', 'ALTER EXTENSION plpgsql ADD SEQUENCE s',
  'ALTER EXTENSION plpgsql ADD FUNCTION pg_temp.f()', 'ALTER EXTENSION plpgsql DROP FUNCTION pg_temp.f()',
  'ALTER FUNCTION pg_temp.f() RENAME TO f9',
  'ALTER TYPE pg_temp.ty RENAME ATTRIBUTE a TO b',
  'ALTER TYPE ty RENAME TO ty2',
  'ALTER TYPE mood OWNER TO bob',
  'ALTER TYPE mood RENAME TO mood2',
  'ALTER DOMAIN dom OWNER TO bob',
  'ALTER DOMAIN dom RENAME CONSTRAINT positive TO pos',
  "COMMENT ON CONSTRAINT pos ON DOMAIN dom IS 'temporary'",
  'ALTER DOMAIN dom RENAME TO dom2',
  'CREATE CAST (pg_temp.ty2 AS text) WITH INOUT',
  "COMMENT ON CAST (ty2 AS text) IS 'temporary'",
  'DROP CAST (pg_temp.ty2 AS text)',
  'CREATE CAST (foo AS date) WITH INOUT', 'DROP CAST (foo AS date)',
  'CREATE OPERATOR FAMILY pg_temp.fam USING btree', 'ALTER OPERATOR FAMILY pg_temp.fam USING btree RENAME TO fam2', 'DROP OPERATOR FAMILY pg_temp.fam2 USING btree',
  "SECURITY LABEL FOR fault ON TABLE foo IS 'label'",
  "SECURITY LABEL FOR fault ON COLUMN foo.a IS 'label'",
  "SECURITY LABEL FOR fault ON TYPE ty2 IS 'label'",
  "SECURITY LABEL FOR fault ON FUNCTION pg_temp.f9() IS 'label'",
  'CREATE TEXT SEARCH DICTIONARY pg_temp.dict (TEMPLATE = simple)', 'ALTER TEXT SEARCH DICTIONARY pg_temp.dict (accept = false)',
  'DROP TEXT SEARCH DICTIONARY pg_temp.dict';
refused('GRANT SELECT ON ALL TABLES IN SCHEMA pg_temp, public TO bob', 'schemas of both kinds', qr/temporary and permanent/);
works($_)
  for 'GRANT EXECUTE ON FUNCTION on_int(int) TO bob', 'GRANT USAGE ON DOMAIN d TO bob', 'GRANT SELECT ON ALL TABLES IN SCHEMA x TO bob',
  'GRANT EXECUTE ON FUNCTION lockstep.node_info() TO bob', 'ALTER FUNCTION on_int OWNER TO bob', "SECURITY LABEL FOR fault ON TABLE t IS 'label'", 'ALTER DOMAIN d RENAME TO d2', 'CREATE CAST (public.foo AS time) WITH INOUT';
equal('those on permanent ones are replicated');
is($c->sql(2, "SELECT count(*) FROM pg_depend WHERE deptype = 'e' AND objid IN ('public.foo'::regclass, 'public.s'::regclass)"), 0, 'no permanent one is a member of an extension');
works('ALTER EXTENSION plpgsql ADD TABLE public.foo', 'but one that is meant');
is($c->sql(2, "SELECT count(*) FROM pg_depend WHERE deptype = 'e' AND objid = 'public.foo'::regclass"), 1, 'is');
works('ALTER EXTENSION plpgsql DROP TABLE public.foo', 'not for long');
is($c->sql(2, "SELECT proowner::regrole FROM pg_proc WHERE proname = 'on_int'"), 'bob', 'as the owner shows');
is($c->sql(2, "SELECT count(*) FROM pg_cast WHERE castsource = 'public.foo'::regtype"), 2, 'and the casts');
is($c->sql(2, 'SELECT objname FROM pg_seclabels'), 't', 'and the labels');

# ---------- statistics of temporary tables are in a permanent schema

$s->do('CREATE TEMP TABLE counted (a int, b int)');
works($_)
  for 'CREATE STATISTICS st ON a, b FROM counted', 'ALTER STATISTICS st SET STATISTICS 10', "COMMENT ON STATISTICS st IS 'temporary'", 'ALTER STATISTICS st OWNER TO bob', 'ALTER STATISTICS st RENAME TO st2',
  'ALTER STATISTICS public.st2 SET SCHEMA x', 'DROP STATISTICS x.st2';
$s->do('CREATE STATISTICS st_of_t ON a, b FROM t; CREATE STATISTICS st_of_temp ON a, b FROM counted');
refused('DROP STATISTICS st_of_t, st_of_temp', 'those of both kinds', qr/temporary and permanent/);
works($_) for 'ALTER STATISTICS st_of_t SET STATISTICS 10', "COMMENT ON STATISTICS st_of_t IS 'permanent'", 'ALTER STATISTICS st_of_t OWNER TO bob', 'ALTER STATISTICS st_of_t RENAME TO st9';
$s->close;
$c->wait_sql(1, "SELECT count(*) FROM pg_statistic_ext WHERE stxname = 'st_of_temp'", 0);
$c->same('statistics');
is($c->sql(2, "SELECT obj_description(oid) FROM pg_statistic_ext WHERE stxname = 'st9' AND stxowner = 'bob'::regrole"), 'permanent', 'of a permanent table');

# ---------- temporary types that are no table's

{
	my $types = $c->session(1);
	for my $sql ("CREATE TYPE pg_temp.mood AS ENUM ('ok')", 'CREATE CAST (pg_temp.mood AS int) WITH INOUT', "COMMENT ON CAST (pg_temp.mood AS int) IS 'temporary'", 'DROP CAST (pg_temp.mood AS int)')
	{
		$types->query($sql);
		is($types->error, '', $sql);
	}
	$types->close;
}

# ---------- the temporary object goes while the command waits: its name means the permanent one then

$c->sql(1, <<'SQL');
CREATE FOREIGN DATA WRAPPER far_away; CREATE SERVER far_away FOREIGN DATA WRAPPER far_away;
CREATE TABLE gone (a int, b text);
INSERT INTO gone VALUES (1, 'x');
CREATE FUNCTION of_gone(gone) RETURNS int LANGUAGE sql AS 'SELECT 1';
SQL
my $n = 0;
for my $command ("COMMENT ON TABLE gone IS 'seen'", "COMMENT ON COLUMN gone.a IS 'seen'", 'ALTER TABLE gone ADD c int', 'ALTER TABLE gone ALTER a SET DEFAULT 7', 'GRANT SELECT ON gone TO bob',
	'CREATE INDEX gone_a ON gone (a)', 'CREATE TRIGGER tr BEFORE INSERT ON gone FOR EACH ROW EXECUTE FUNCTION trg()', 'CREATE RULE ru AS ON DELETE TO gone DO INSTEAD NOTHING', 'CREATE POLICY po ON gone',
	'CREATE STATISTICS gone_st ON a, b FROM gone', 'CREATE VIEW seen AS SELECT * FROM gone', 'CREATE FUNCTION of_gone2(gone) RETURNS int LANGUAGE sql AS \'SELECT 1\'', "COMMENT ON FUNCTION of_gone(gone) IS 'seen'",
	'LOCK TABLE gone IN SHARE MODE', 'TRUNCATE gone', 'TRUNCATE gone, t', 'ALTER TABLE gone RENAME TO gone9', 'ALTER TABLE gone9 RENAME a TO z', 'DROP TABLE gone9 CASCADE')
{
	my ($table) = $command =~ /(gone9?)\b/;
	my ($waits, $drops) = ($c->session(1), $c->session(1));
	$waits->do("SET client_min_messages = error; CREATE TEMP TABLE $table (a int, b text)");
	$waits->do("CREATE FUNCTION pg_temp.of_gone($table) RETURNS int LANGUAGE sql AS 'SELECT 1'") if $command =~ /of_gone\b/;
	my $schema = $waits->query("SELECT relnamespace::regnamespace FROM pg_class WHERE oid = '$table'::regclass");
	$drops->do('SET client_min_messages = error; BEGIN');
	$drops->do("DROP TABLE $schema.$table CASCADE");
	$waits->do('BEGIN');
	$waits->send($command);
	$n += $waits->blocked(0.3);
	$drops->do('COMMIT');
	$waits->finish;
	is($waits->error, '', $command);
	$waits->do('COMMIT');
	$_->close for $waits, $drops;
}
cmp_ok($n, '>=', 16, 'they waited');
equal('all nodes have what they did');
$c->wait_sql(1, "SELECT count(*) FROM pg_class WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg_temp%')", 0);
$c->same('and all rows');
is($c->sql(2, "SELECT to_regclass('gone')"), '', 'the permanent one was meant');

# NOWAIT does not wait for it
{
	my ($nowait, $drops) = ($c->session(1), $c->session(1));
	$nowait->do('CREATE TEMP TABLE t (a int)');
	my $schema = $nowait->query("SELECT relnamespace::regnamespace FROM pg_class WHERE oid = 't'::regclass");
	$drops->do('BEGIN');
	$drops->do("DROP TABLE $schema.t");
	$nowait->do('BEGIN');
	$nowait->query('LOCK TABLE t NOWAIT');
	LockstepCluster::is_error($nowait->error, '55P03', qr/could not obtain lock on relation "t"/, 'LOCK ... NOWAIT of a temporary table that is being dropped');
	$_->close for $nowait, $drops;
}

# a foreign table, which each node empties by itself
my ($waits, $drops) = ($c->session(1), $c->session(1));
$c->sql(1, 'CREATE FOREIGN TABLE ft (a int) SERVER far_away');
$drops->do('BEGIN');
$drops->do('DROP FOREIGN TABLE ft');
$drops->do('CREATE TABLE ft (a int)');
$drops->do('INSERT INTO ft VALUES (1)');
$waits->send('TRUNCATE ft');
ok($waits->blocked(0.3), 'TRUNCATE of a foreign table waits');
$drops->do('COMMIT');
$waits->finish;
is($waits->error, '', 'and empties the table that took its place');
$c->same('on all nodes');
is($c->sql(2, 'SELECT count(*) FROM ft'), 0, 'it is empty');
$_->close for $waits, $drops;

done_testing();
