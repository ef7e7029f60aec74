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
is($c->node_status(2)->{state}, 'online', 'the other node is online');
unlike($c->replicator_log, qr/could not apply/, 'nothing was decided that it can not apply');
$c->sql(1, 'SET lockstep.commit_wait = ordered; INSERT INTO plain VALUES (1, 1)');
$c->same('afterwards');

done_testing();
