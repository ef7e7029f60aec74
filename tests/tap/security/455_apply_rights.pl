# The replicator's sessions are a superuser's; the functions of others that they
# call - of generated columns, indexes, domains, commands - have no more rights
# there than at the origin, leave nothing behind for the commit, and what they
# set does not stay.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $mallory = 'SET SESSION AUTHORIZATION mallory;';

$c->sql(1, <<'SQL');
CREATE ROLE mallory;
CREATE SCHEMA m AUTHORIZATION mallory;
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION m.volatile_part() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('DECLARE %I CURSOR WITH HOLD FOR SELECT m.look(''at the commit'')', 'c' || random());
EXCEPTION WHEN others THEN NULL;
END $$;
CREATE FUNCTION m.look(how text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	RAISE LOG 'LOOK % super=%', how, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
	RETURN true;
END $$;
CREATE FUNCTION m.f(i int, how text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	BEGIN
		RESET ROLE;
	EXCEPTION WHEN others THEN NULL;
	END;
	BEGIN
		RESET SESSION AUTHORIZATION;
	EXCEPTION WHEN others THEN NULL;
	END;
	IF session_user = 'postgres' THEN
		PERFORM m.volatile_part(), set_config('array_nulls', 'off', false);
	END IF;
	PERFORM m.look(how);
	RETURN i;
END $$;
SQL

# Where a function has been called on node 2, and by whom.
sub called
{
	my ($how) = @_;
	my @as = $c->node_log(2) =~ /LOOK \Q$how\E super=(\w)/g;

	ok($how =~ /^(using|generated)$/ ? @as == 0 : @as > 0, "$how: it was called, or its values have travelled") if $how ne 'domain' && $how ne 'at the commit';
	is(scalar(grep { $_ eq 't' } @as), 0, "$how: and never as a superuser");
}

my @steps = (
	'using' => "CREATE TABLE m.a (i int); INSERT INTO m.a VALUES (1), (2); ALTER TABLE m.a ALTER i TYPE bigint USING m.f(i::int, 'using')",
	'default' => "ALTER TABLE m.a ADD j int DEFAULT m.f(3, 'default')",
	'check' => "ALTER TABLE m.a ADD CHECK (m.f(i::int, 'check') > 0)",
	'generated' => "CREATE TABLE m.b (i int PRIMARY KEY, g int GENERATED ALWAYS AS (m.f(i, 'generated')) STORED); INSERT INTO m.b VALUES (1)",
	'copied' => "CREATE TABLE m.cp (i int PRIMARY KEY, g int); CREATE INDEX ON m.cp (m.f(i, 'copied')); INSERT INTO m.cp SELECT generate_series(1, 20)",
	'updated' => "CREATE TABLE m.u (i int PRIMARY KEY, j int); CREATE INDEX ON m.u (m.f(j, 'updated')); INSERT INTO m.u VALUES (1, 1); UPDATE m.u SET j = 2",
	'index' => "CREATE TABLE m.i (i int PRIMARY KEY); CREATE INDEX ON m.i (m.f(i, 'index')); INSERT INTO m.i VALUES (1)",
	'planner' => "CREATE TABLE m.p (i int PRIMARY KEY); CREATE INDEX ON m.p (i) WHERE m.f(1, 'planner') > 0; INSERT INTO m.p VALUES (1); UPDATE m.p SET i = 2; DELETE FROM m.p",
	'domain' => "CREATE DOMAIN m.d AS int CHECK (m.f(VALUE, 'domain') > 0); CREATE TYPE m.r AS (x m.d); "
	  . "CREATE TABLE m.d1 (i int PRIMARY KEY, d m.d[], r m.r); INSERT INTO m.d1 VALUES (1, '{1,NULL}', '(1)'); INSERT INTO m.d1 SELECT s, ARRAY[s, s + 1]::m.d[], ROW(s)::m.r FROM generate_series(2, 9) s; UPDATE m.d1 SET d = '{5}', r = '(6)'",
);
while (my ($how, $sql) = splice(@steps, 0, 2))
{
	$c->sql(1, "$mallory $sql");
	$c->drain;
	called($how);
}
called('at the commit');

# comparing nodes reads everybody's tables
my $before = () = $c->node_log(2) =~ /LOOK planner/g;
$c->sql(2, 'SELECT count(*) FROM lockstep.fingerprint()');
my $after = () = $c->node_log(2) =~ /LOOK planner/g;
cmp_ok($after, '>', $before, 'a fingerprint has called the function');
my ($out, $err, $rc) = $c->ctl('verify');
is($rc, 0, 'the nodes were compared') or diag("$out\n$err");
called('planner');
is($c->sql(2, 'SELECT DISTINCT rolsuper FROM pg_roles WHERE rolname = $$mallory$$'), 'f', 'mallory is who he was');

# others' rows come by the same sessions
$c->sql(1, 'CREATE TABLE n (i int PRIMARY KEY, a text[])');
for (1 .. 8)
{
	$c->sql(1, "$mallory INSERT INTO m.i VALUES (100 + $_)");
	$c->sql(1, "INSERT INTO n VALUES ($_, '{NULL}')");
}
$c->same('what the functions have set does not stay');
is($c->sql(2, "SELECT count(*) FROM n WHERE a[1] IS NULL"), 8, 'NULL is no text');

# what is legitimate still is
$c->sql(1, "CREATE ROLE carol; GRANT carol TO mallory WITH ADMIN OPTION; GRANT CREATE ON DATABASE app TO mallory; ALTER ROLE mallory CREATEROLE; $mallory ALTER ROLE carol SET role = 'mallory'");
$c->sql(1, "CREATE TABLE def (i int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED); ALTER TABLE def OWNER TO mallory; ALTER SCHEMA public OWNER TO mallory");
$c->sql(1, "$mallory INSERT INTO def SELECT s, s FROM generate_series(1, 20) s; UPDATE def SET u = 21 - u; CREATE SCHEMA of_mallory CREATE TABLE t (i int REFERENCES public.def); INSERT INTO of_mallory.t SELECT generate_series(1, 9)");
$c->sql(1, "$mallory CREATE EXTENSION hstore SCHEMA of_mallory");
$c->same('deferred constraints, settings of roles, schemas of others, a trusted extension');

# ---------- nor do they apply anything: in COPY the client's query is a call of apply_copy()

$c->sql(1, <<'SQL');
CREATE TABLE public.precious (t text);
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION m.copies(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF session_user = 'postgres' THEN
		BEGIN
			PERFORM lockstep.apply_copy('COPY public.precious FROM STDIN', E'stolen\n');
			RAISE LOG 'STOLEN';
		EXCEPTION WHEN insufficient_privilege THEN RAISE LOG 'NO COPY';
		END;
	END IF;
	RETURN i;
END $$;
CREATE TABLE m.copied (i int PRIMARY KEY);
CREATE INDEX ON m.copied (m.copies(i));
INSERT INTO m.copied SELECT generate_series(1, 5);
SQL
$c->drain;
$c->node_logs(2, qr/NO COPY/, 'a function that COPY calls may not call apply_copy');
unlike($c->node_log(2), qr/LOG:  STOLEN/, 'and did not');
$c->same('what was copied');

$c->down;
done_testing();
