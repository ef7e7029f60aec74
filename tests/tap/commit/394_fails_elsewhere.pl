# What runs users' functions where it is applied may fail there: also with
# commit_wait = ordered that is an error of the transaction, and drops no node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# they fail on the other node only
$c->sql(1, <<'SQL');
CREATE FUNCTION outer_(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$BEGIN IF current_setting('lockstep.node_name') <> 'n1' THEN RAISE EXCEPTION 'not here' USING ERRCODE = '42704'; END IF; RETURN $1; END$$;
CREATE FUNCTION is_true(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN outer_($1) > 0; END$$;
CREATE DOMAIN dom AS int CHECK (is_true(VALUE));
CREATE TYPE pair AS (a dom, b int);
CREATE TABLE expression (id int PRIMARY KEY, x int);
CREATE INDEX ON expression (outer_(x));
CREATE TABLE predicate (id int PRIMARY KEY, x int);
CREATE INDEX ON predicate (x) WHERE is_true(x);
CREATE TABLE generated (id int PRIMARY KEY, x int, g int GENERATED ALWAYS AS (outer_(x)) STORED);
CREATE TABLE arrays (id int PRIMARY KEY, x dom[]);
CREATE TABLE composite (id int PRIMARY KEY, x pair);
CREATE TABLE plain (id int PRIMARY KEY, x int);
SQL
for ([ expression => 1 ], [ predicate => 1 ])
{
	my ($table, $value) = @$_;

	$c->fails(1, "SET lockstep.commit_wait = ordered; INSERT INTO $table VALUES (1, $value)", '42704', qr/not here/, "$table: an error");
}
# a domain inside of a value has been checked where the row was made, and is not checked again
# and the value of a generated column travels
$c->sql(1, "SET lockstep.commit_wait = ordered; INSERT INTO arrays VALUES (1, '{1}'); INSERT INTO composite VALUES (1, ROW(1, 2)); INSERT INTO generated VALUES (1, 1)");

# so it is with errors by which a server tells its own trouble, or lockstep how far it is: a function of any user can raise them
$c->sql(1, <<'SQL');
CREATE ROLE anybody;
GRANT CREATE ON SCHEMA public TO anybody;
SET ROLE anybody;
CREATE FUNCTION load_nothing() RETURNS void LANGUAGE plpgsql AS $$BEGIN LOAD '$libdir/plugins/nothing'; END$$;
CREATE FUNCTION raise_(code text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('lockstep.node_name') = 'n1' THEN RETURN code; END IF;
	IF code = 'load' THEN PERFORM public.load_nothing(); END IF;
	RAISE EXCEPTION 'not here' USING ERRCODE = code;
END$$;
CREATE FUNCTION through_sql(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.raise_($1)';
CREATE FUNCTION caught(code text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.raise_(code);
	RETURN code;
EXCEPTION WHEN system_error THEN
	RETURN code;
END$$;
CREATE TABLE raises (id int PRIMARY KEY, code text);
CREATE INDEX ON raises (raise_(code));
CREATE TABLE raises_in_sql (id int PRIMARY KEY, code text);
CREATE INDEX ON raises_in_sql (through_sql(code));
CREATE TABLE catches (id int PRIMARY KEY, code text);
CREATE INDEX ON catches (caught(code));
CREATE TABLE changed (id int PRIMARY KEY, code text);
INSERT INTO changed VALUES (1, 'XX001');
SQL
for my $code (qw(08006 53100 53300 57P01 57P03 58000 58030 F0000 LS001 LS002 LS004 LS005 LS006 XX000 XX001))
{
	$c->fails(1, "INSERT INTO raises VALUES (1, '$code')", '38000', qr/not here.*This happened on node "n2"/s, "raised as $code: an error");
}
$c->fails(1, "INSERT INTO raises VALUES (1, 'load')", '38000', qr/could not access file/, 'the server raises it, called by a function');
# what may pass is tried again, but not without end
for my $code (qw(53200 40001 40P01 55P03 57014))
{
	$c->fails(1, "SET statement_timeout = '30s'; INSERT INTO raises VALUES (1, '$code')", '38000', qr/not here.*This happened on node "n2"/s, "raised as $code: an error, after a while");
}
$c->fails(1, "INSERT INTO raises_in_sql VALUES (1, '58000')", '38000', qr/not here/, 'called by a function in SQL');
$c->fails(1, 'CREATE INDEX ON changed (raise_(code))', '38000', qr/not here/, 'called by a command');
$c->sql(1, "INSERT INTO catches VALUES (1, '58000')");
is($c->node_status(2)->{state}, 'online', 'the other node is online');
unlike($c->replicator_log, qr/could not apply/, 'nothing was decided that it can not apply');
$c->sql(1, 'SET lockstep.commit_wait = ordered; INSERT INTO plain VALUES (1, 1)');
$c->same('afterwards');

# a function in SQL is what its body is, there as here, whether it says that it is immutable or not
$c->sql(1, <<'SQL');
CREATE FUNCTION plus_one(a int) RETURNS int LANGUAGE sql AS $$ SELECT a + 1; $$;
CREATE FUNCTION plus_two(a int) RETURNS int LANGUAGE sql RETURN a + 2;
CREATE FUNCTION plus_three(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a + 3; END;
CREATE TABLE parts (b int) PARTITION BY RANGE (plus_one(b), plus_two(b), plus_three(b));
CREATE TABLE part PARTITION OF parts FOR VALUES FROM (1, 2, 3) TO (100, 200, 300);
CREATE INDEX ON part (plus_one(b), plus_two(b), plus_three(b)) WHERE plus_one(b) > 3;
INSERT INTO parts SELECT generate_series(1, 20);
SQL
$c->same('what is made of functions in SQL');

done_testing();
