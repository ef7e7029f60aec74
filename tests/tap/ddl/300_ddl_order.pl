# What a transaction uses was created a moment ago by another one with which it
# shares no key: a type, a function, a role, a schema.  The peers, which run
# transactions side by side, must not run it too early; and no statement that
# they have prepared may outlive the table it was prepared for.
# Without the dependency on DDL this fails within a few rounds ("type ... does
# not exist", "This happened on node n2"), or drops the node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $rounds = $ENV{LOCKSTEP_LONG} ? 200 : 10;

for my $i (1 .. $rounds)
{
	my $type = $i % 2 ? 'int' : 'text';
	$c->sql(1, join(";\n",
		"CREATE TYPE pair AS (a int, b text[])",
		"CREATE TABLE pairs (p pair, more pair[])",
		"INSERT INTO pairs VALUES (ROW(1, '{x}'), '{}')",
		"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE VIEW v AS SELECT f(), p FROM pairs",
		"CREATE ROLE r$i",
		"GRANT SELECT (p) ON pairs TO r$i",
		"REVOKE ALL ON pairs FROM r$i",
		"DROP ROLE r$i",
		# the same text, with parameters of other types
		"CREATE TABLE t (id int PRIMARY KEY, v $type)",
		"INSERT INTO t VALUES ($i, '7')",
		"UPDATE t SET v = '8'",
		"DROP TABLE t",
		"DROP VIEW v",
		"DROP FUNCTION f()",
		"DROP TABLE pairs",
		"DROP TYPE pair"));
}
pass("$rounds rounds of DDL and its users on node 1");

# Rows of one node, DDL of another: what one has prepared there the other makes wrong.
$c->sql(1, 'CREATE TABLE w (id int PRIMARY KEY, v int)');
for my $i (1 .. $rounds)
{
	my $type = $i % 2 ? 'text' : 'int';
	$c->drain;
	$c->sql(2, "INSERT INTO w VALUES ($i, '$i')");
	$c->sql(1, "ALTER TABLE w ALTER v TYPE $type USING v::$type");
	$c->sql(1, "UPDATE w SET v = '7' WHERE id = $i");
}
$c->same('rows and DDL of different nodes');
is($c->sql(1, 'SELECT count(*) FROM w'), $rounds, 'all rows are there');

done_testing();
