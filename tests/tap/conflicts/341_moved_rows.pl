# A row that a transaction of another node moves to another partition is not gone: a statement that waited for it fails
# with 40001, as on the node where it was moved, instead of changing nothing, or adding the row again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
# the second form is applied by the executor, as it has a generated column
my %form = (plain => '', generated => ', w int GENERATED ALWAYS AS (v + 1) STORED');
for my $t (sort keys %form)
{
	$c->sql(1, <<"SQL");
CREATE TABLE $t (id int, part int, v int DEFAULT 0 $form{$t}, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE ${t}_1 PARTITION OF $t FOR VALUES IN (1);
CREATE TABLE ${t}_2 PARTITION OF $t FOR VALUES IN (2);
INSERT INTO $t SELECT i, 1 FROM generate_series(1, 20) i;
SQL
}
$c->drain;

# On node 2 that statement waits for the row that $there, on node 1, has changed: its error, or what it says.
sub outcome
{
	my ($there, $statement) = @_;
	my $s = $c->session(2);
	my $peer = $c->session(1);
	$c->order_at(2, 'APPLY_CLAIMED', 'wait');
	$peer->send($there);
	ok($c->wait_until(sub { $c->was_there(2, 'APPLY_CLAIMED') }), "$there: applied, not committed");
	$s->send($statement);
	$c->wait_sql(2, 'SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' . $s->pid, 1);
	$c->let_go(2, 'APPLY_CLAIMED');
	$peer->finish(20);
	my $out = $s->finish(20);
	return $s->error || $out;
}

my $id = 0;
for my $t (sort keys %form)
{
	for my $statement ("UPDATE $t SET v = v + 1 WHERE id = %d", "DELETE FROM $t WHERE id = %d", "SELECT v FROM $t WHERE id = %d FOR UPDATE",
		"MERGE INTO $t USING (SELECT %d AS i) s ON id = i WHEN MATCHED THEN UPDATE SET v = $t.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (i, 1)")
	{
		$id++;
		like(outcome("UPDATE $t SET part = 2 WHERE id = $id", sprintf($statement, $id)), qr/40001/, "moved: $statement");
	}
}
is($c->sql(1, "SELECT count(*), count(DISTINCT id), sum(v) FROM plain"), '20|20|0', 'no row has been added or changed');
$c->same('nodes are equal');
done_testing;
