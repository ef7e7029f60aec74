# A SERIALIZABLE transaction may last: it commits although thousands of others have since its snapshot,
# on its own node and on another one, if none of them has changed what it reads; and it fails if one of them
# has, be it the first.  (How far a snapshot sees was known of the last 4096 only.)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $others = 6000;
my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE r (id int PRIMARY KEY, v int NOT NULL); INSERT INTO r VALUES (1, 0), (2, 0);
	CREATE TABLE w1 (v int); CREATE TABLE w2 (v int);
	CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i;
	CREATE PROCEDURE many(lowest int, n int) LANGUAGE plpgsql AS $$BEGIN
		FOR i IN 1 .. n LOOP UPDATE t SET v = v + 1 WHERE id = lowest + i % 10; COMMIT; END LOOP; END$$');
$c->drain;

my $from = 20;
for my $node (1, 2)
{
	my ($reader, $loser) = ($c->session(1), $c->session(1));

	$from += 20;
	$_->do('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT 1') for $reader, $loser;	# has its snapshot
	$c->sql($node, 'UPDATE r SET v = v + 1 WHERE id = 2');
	$c->sql($node, "CALL many($from, $others)", timeout => 600);		# 13 s on an idle machine
	$c->drain;
	for ([ $reader, 1 ], [ $loser, 2 ])
	{
		my ($s, $row) = @$_;
		$s->do("SELECT v FROM r WHERE id = $row; INSERT INTO w$row VALUES ($node)");
		$s->query('COMMIT');	# its own table, or the two would fail each other within PostgreSQL
	}
	is($reader->error, '', "$others transactions of node $node later it commits");
	LockstepCluster::is_error($loser->error, '40001', qr/read/, "... and fails, if the first of them changed what it reads");
}
$c->same('the nodes are equal');
done_testing;
