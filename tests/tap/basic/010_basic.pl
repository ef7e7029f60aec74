# What is written on any node is on every node: insert, update and delete, in
# both directions, on two and on three nodes; a rolled-back transaction is
# nowhere; reads talk to nobody; load on all nodes at once leaves equal nodes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

for my $nodes (2, 3)
{
	my $c = LockstepCluster->new(nodes => $nodes);

	$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
	$c->sql($_, "SET lockstep.commit_wait = applied; INSERT INTO t VALUES ($_, 'from n$_')") for $c->all;
	for my $node ($c->all)
	{
		is($c->sql($node, 'SELECT count(*) FROM t'), $nodes, "$nodes nodes: n$node has a row of each");
	}

	$c->sql($nodes, "UPDATE t SET v = v || ', updated' WHERE id = 1");
	$c->drain;
	$c->sql(1, 'DELETE FROM t WHERE id = 2');
	$c->sql(2, "UPDATE t SET id = 100 WHERE id = 1");
	$c->same("$nodes nodes: equal after update and delete");
	is($c->sql($nodes, 'SELECT id, v FROM t WHERE id = 100'), '100|from n1, updated', "$nodes nodes: value arrived");

	$c->sql(1, 'BEGIN; INSERT INTO t VALUES (50); ROLLBACK');
	$c->try(2, 'BEGIN; INSERT INTO t VALUES (51); SELECT 1/0; COMMIT');
	$c->drain;
	is($c->sql($_, 'SELECT count(*) FROM t WHERE id IN (50, 51)'), 0, "$nodes nodes: what was rolled back is not on n$_")
		for $c->all;

	my $before = $c->status->{journal}{decided};
	$c->sql($_, 'SELECT count(*) FROM t; BEGIN; SELECT * FROM t; COMMIT; SELECT now()') for $c->all;
	is($c->status->{journal}{decided}, $before, "$nodes nodes: reads are not decided by anybody");

	$c->sql(1, 'CREATE TABLE load (node int, id int, v int, PRIMARY KEY (node, id))');
	$c->drain;
	my $script = $c->file('load.sql', <<'SQL');
\set id random(1, 1000000000)
INSERT INTO load VALUES (:node, :id, 0) ON CONFLICT DO NOTHING;
UPDATE load SET v = v + 1 WHERE node = :node AND id = :id;
SQL
	my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-D', "node=$_", '-c', 4, '-t', 100) } $c->all;
	for my $run (@runs)
	{
		$run->{handle}->finish;
		is(LockstepCluster::processed(${ $run->{text} }), 400, "$nodes nodes: no conflict among separate rows")
			or diag(${ $run->{text} });
	}
	$c->same("$nodes nodes: equal after load on all of them at once");
	cmp_ok($c->sql($nodes, 'SELECT sum(v) FROM load'), '>=', 390 * $nodes, "$nodes nodes: the load arrived");
	$c->down;
}

done_testing;
