# A transaction is refused, and its backend has not read that yet when the transaction that won waits for its lock: the
# backend is told why it was refused, not that the replicator was lost.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)');
$c->drain;

my $loser = $c->session(1);
my $winner = $c->session(2);
my $replicator = $c->replicator_pid;

sub asks
{
	my ($node, $s) = @_;
	$s->send('COMMIT');
	ok($c->wait_sql($node, 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $s->pid, 'Extension'), "n$node asks to commit");
}

for my $round (1 .. 3)
{
	$_->do('BEGIN; UPDATE t SET v = v + 1') for $loser, $winner;
	kill 'STOP', $replicator;
	asks(2, $winner);
	asks(1, $loser);
	kill 'STOP', $loser->pid;
	kill 'CONT', $replicator;
	$winner->finish(10);
	is($winner->error, '', 'the first one commits');
	ok($c->wait_sql(1, "SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.application_name = 'lockstep apply'", 't'),
		'and waits for the lock of the other');
	sleep 0.3;					# its node is asked who is in the way, again and again
	kill 'CONT', $loser->pid;
	$loser->finish(10);
	LockstepCluster::is_error($loser->error, '40001', qr/concurrent|conflict|serialize/, 'the other one is told that it has lost') or diag($loser->error);
	unlike($loser->error, qr/replicator was lost/, 'not that the replicator was lost');
	is($loser->query('SELECT 1'), 1, 'and its session goes on');
	$c->drain;
	is($c->sql($_, 'SELECT v FROM t'), $round, "n$_ has the update of the first") for $c->all;
}

$c->same('the nodes');
done_testing;
