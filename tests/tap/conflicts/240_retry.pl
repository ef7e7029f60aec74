# After 40001 the session is ready for the next query when its node has applied the
# winner, so a retry succeeds at once instead of losing again.  Meanwhile no lock is
# held; a cancel, the end of the session and lockstep.retry_wait end the wait.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i');
$c->drain;
my ($winner, $loser) = ($c->session(1), $c->session(2));
my $bounded = 60;				# longer than any test waits: what ends it is something else
$loser->do("SET lockstep.retry_wait = '${bounded}s'");

sub update { my ($id, $v) = @_; return "UPDATE t SET v = v + $v WHERE id = $id" }

# The backend waits without a transaction: nobody has to wait for it.
sub waits
{
	my ($name) = @_;
	ok($loser->blocked(0.3), "$name: the loser is not ready yet");
	ok($c->wait_sql(2, "SELECT count(*) FROM pg_locks WHERE pid = " . $loser->pid . " AND locktype IN ('relation', 'transactionid', 'tuple')", 0),
		"$name: it holds no lock");
}

sub retried
{
	my ($id, $name) = @_;
	$loser->finish;
	LockstepCluster::is_error($loser->error, '40001', qr/n1/, "$name: it lost");
	$loser->query(update($id, 1));
	is($loser->error, '', "$name: the retry succeeds at once");
	$c->drain;
	is($c->sql($_, "SELECT v FROM t WHERE id = $id"), 11, "$name: both are there on n$_") for $c->all;
}

# The winner is decided, and n2 has not applied it.
$winner->do('SET lockstep.commit_wait = ordered');
$c->frozen([2], sub {
	$winner->do(update(1, 10));
	$loser->send(update(1, 1));
	waits('decided');
});
retried(1, 'decided');

# What ends the wait.
$winner->do('SET lockstep.commit_wait = ordered');
my $other = $c->session(2);
$c->frozen([2], sub {
	$winner->do(update($_, 10)) for 4 .. 7;

	my $start = time;
	$loser->send(update(4, 1));
	waits('canceled');
	$c->sql(2, 'SELECT pg_cancel_backend(' . $loser->pid . ')');
	$loser->finish($bounded / 2);
	LockstepCluster::is_error($loser->error, '40001', qr/./, 'canceled: still the error of the conflict');
	is($loser->query('SELECT 1'), 1, 'canceled: the next query is not');

	$loser->do('SET lockstep.retry_wait = 0');
	$loser->query(update(5, 1));
	LockstepCluster::is_error($loser->error, '40001', qr/./, 'retry_wait = 0: does not wait');

	$loser->do("SET lockstep.retry_wait = '200ms'");
	$loser->query(update(6, 1), $bounded / 2);
	LockstepCluster::is_error($loser->error, '40001', qr/./, 'retry_wait: bounds the wait');
	is($loser->query('SELECT 1'), 1, 'retry_wait: the session goes on');

	$other->do("SET lockstep.retry_wait = '${bounded}s'");
	$other->send(update(7, 1));
	ok($other->blocked(0.3), 'terminated: it waits');
	$c->sql(2, 'SELECT pg_terminate_backend(' . $other->pid . ', 10000)');
	is($c->sql(2, 'SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $other->pid), 0, 'terminated: it has gone');
	ok(time - $start < $bounded, 'nothing waited until the bound');
});
$c->same('after all of that');

# Ordered transactions on all nodes that meet on few rows: all get through.
{
	local $ENV{PGOPTIONS} = '-c lockstep.commit_wait=ordered';
	my $script = $c->file('ordered.sql', "\\set id random(10, 14)\nUPDATE t SET v = v + 1 WHERE id = :id;\n");
	my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 2, '-t', 60, '--max-tries=10000') } $c->all;
	my $retries = 0;
	for my $run (@runs)
	{
		$run->{handle}->finish;
		is(LockstepCluster::processed(${ $run->{text} }), 120, 'ordered under load') or diag(${ $run->{text} });
		$retries += $1 if ${ $run->{text} } =~ /total number of retries: (\d+)/;
	}
	note("$retries retries of 360 transactions");
	$c->same('ordered under load');
	is($c->sql(1, 'SELECT sum(v) FROM t WHERE id BETWEEN 10 AND 14'), 360, 'nothing lost');
}

done_testing;
