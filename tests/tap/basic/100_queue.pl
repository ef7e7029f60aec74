# The replicator queues per transaction, keyed by (node, pid): the statements of
# 50 transactions interleaved on all nodes do not mix, the journal shows each
# with its origin, pid and queries in their order, and rolled-back ones not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE q (tx int, step int, who text, PRIMARY KEY (tx, step))');
$c->drain;
my $from = $c->status->{journal}{decided} + 1;

my $count = 50;
my @sessions = map { $c->session($_ % 2 + 1) } 0 .. $count - 1;
$_->do('BEGIN') for @sessions;
for my $step (1 .. 4)
{
	for my $tx (sort { ($a * 7919 + $step) % 101 <=> ($b * 7919 + $step) % 101 } 0 .. $count - 1)
	{
		my $s = $sessions[$tx];
		$s->do('SAVEPOINT s') if $step == 3 && $tx % 5 == 1;
		$s->do("INSERT INTO q VALUES ($tx, $step, 'pid ' || pg_backend_pid())");
		$s->do('ROLLBACK TO s') if $step == 3 && $tx % 5 == 1;
	}
}
is($c->sql(1, 'SELECT count(*) FROM q') + $c->sql(2, 'SELECT count(*) FROM q'), 0, 'nothing is visible before COMMIT');
cmp_ok($c->node_status(1)->{sessions}, '>=', $count / 2, 'the replicator knows the sessions');

# Every fourth is rolled back, one is killed.
for my $tx (reverse 0 .. $count - 1)
{
	my $s = $sessions[$tx];
	$tx == 7 ? $s->kill : $tx % 4 == 0 ? $s->do('ROLLBACK') : $s->do('COMMIT');
}
my @committed = grep { $_ % 4 != 0 && $_ != 7 } 0 .. $count - 1;
$c->same('equal after 50 interleaved transactions');
is($c->sql(2, 'SELECT string_agg(DISTINCT tx::text, \',\') FROM q WHERE tx % 4 = 0 OR tx = 7'), '', 'what was rolled back is not there');
is($c->sql(2, 'SELECT count(DISTINCT tx) FROM q'), scalar @committed, 'what was committed is');
is($c->sql(2, "SELECT count(*) FROM (SELECT tx FROM q WHERE tx % 5 = 1 GROUP BY tx HAVING count(*) <> 3) x"), 0, 'savepoints rolled back in their own transaction');
is($c->sql(2, "SELECT count(*) FROM (SELECT tx FROM q WHERE tx % 5 <> 1 GROUP BY tx HAVING count(*) <> 4) x"), 0, 'the others are whole');
is($c->sql(2, 'SELECT count(*) FROM (SELECT tx FROM q GROUP BY tx HAVING count(DISTINCT who) > 1) x'), 0, 'no statement got into another queue');

# The journal: one transaction each, in its own order.
my ($out, $err, $rc) = $c->ctl('journal', "--from=$from", '--journal-directory', "$c->{dir}/journal");
is($rc, 0, 'the journal is printed') or diag($err);
for my $tx (@committed[0, 10, -1])
{
	my $node = 'n' . ($tx % 2 + 1);
	my $pid = $sessions[$tx]->pid;
	like($out, qr/\b$node\b.*\b$pid\b|\b$node\/$pid\b/, "the journal names node and pid of transaction $tx");
}
unlike($out, qr/\b@{[ $sessions[0]->pid ]}\b/, 'and none that was rolled back');
my @order = $out =~ /^seq (\d+) /mg;
is(scalar @order, scalar @committed, 'one record each');
is_deeply(\@order, [ sort { $a <=> $b } @order ], 'in the order of seq');

# A session's transactions follow each other in one queue.
my $s = $sessions[1];
for my $i (1 .. 30)
{
	$s->do("BEGIN; INSERT INTO q VALUES (1000, $i, 'a'); " . ($i % 3 ? 'COMMIT' : 'ROLLBACK'));
}
$c->drain;
is($c->sql(1, 'SELECT count(*) FROM q WHERE tx = 1000'), 20, 'transactions of one session, committed and rolled back in turn');

# Long transactions are streamed; the view shows the queue as it stands.
$s->do('BEGIN');
$s->do("INSERT INTO q SELECT 2000, i, repeat('x', 200) FROM generate_series(1, 20000) i");
$s->do("UPDATE q SET who = 'y' WHERE tx = 1000 AND step = 1");
cmp_ok($s->query('SELECT count(*) FROM lockstep.forwarded'), '>', 0, 'lockstep.forwarded shows it');
$s->do('COMMIT');
is($s->query('SELECT count(*) FROM lockstep.forwarded'), 0, 'and is empty afterwards');
$c->same('a long one');

done_testing;
