# A node that applies slowly (its apply sessions are stopped) while transactions
# are decided first (commit_wait = ordered): beyond max_apply_lag writers wait for
# it, or it is dropped, as slow_node says, and catches up from the journal.  The
# replicator's memory stays bounded, and nothing is lost.  One that is dropped for its lag, comes
# back and is dropped again is tried less and less often; the status says how often, and when;
# attach begins anew.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.commit_wait = ordered\n",
	replicator_conf => "max_apply_lag = 1MB\nslow_node = throttle\nnode_timeout = 60s\nstall_timeout = 60s\nreconnect_interval = 1s\n");
$c->sql(1, "CREATE TABLE t (id int PRIMARY KEY, v text)");
$c->drain;

# ---------- throttle

my @held = $c->apply_pids(3);
kill STOP => @held;
my $s = $c->session(1);
my $count = 0;
while ($count < 500)
{
	$count++;
	$s->send("INSERT INTO t VALUES ($count, repeat('x', 10000))");
	last if $s->blocked(1) && $c->node_status(3)->{lag_bytes} > 1024 * 1024;
	$s->finish;
}
cmp_ok($count, '>', 50, "writers run ahead of a node that stands still ($count transactions)");
cmp_ok($count, '<', 200, 'up to max_apply_lag');
my $node = $c->node_status(3);
is($node->{state}, 'online', 'it is not dropped');
cmp_ok($node->{lag}, '>', 50, 'its lag is shown');
cmp_ok($node->{lag_bytes}, '>', 1024 * 1024, 'in bytes, too');
cmp_ok($node->{lag_bytes}, '<', 1200 * 1024, 'which are bounded');
ok($c->wait_sql(2, 'SELECT count(*) > 50 FROM t', 't'), 'the other one has what was decided');
kill CONT => @held;
$s->finish(60);
is($s->error, '', 'when it goes on, so do the writers');
$c->same('and all are equal');
is($c->node_status(3)->{lag_bytes}, 0, 'no lag is left');

# ---------- drop

my $conf = "$c->{dir}/replicator.conf";
open(my $f, '>>', $conf) or die $!;
print $f "slow_node = drop\n";
close $f;
my (undef, $err, $rc) = $c->ctl('reload');
is($rc, 0, 'slow_node can be changed while it runs') or diag($err);
my $before = $c->memory_kb($c->replicator_pid, 'VmHWM');
@held = $c->apply_pids(3);
kill STOP => @held;
for my $i (1 .. 900)
{
	$s->do("INSERT INTO t VALUES (1000 + $i, repeat('y', 50000))", 30);
	$c->wait_until(sub { $c->node_status(2)->{lag_bytes} < 256 * 1024 }) if $i % 10 == 0;	# n2 is not to be slow, however busy the machine
}
pass('writers are not held up');
$c->replicator_logs(qr/node was dropped: lags \d+ transactions \(\d+ MB\) behind, more than max_apply_lag/, 'the node is dropped');
my $grown = $c->memory_kb($c->replicator_pid, 'VmHWM') - $before;
cmp_ok($grown, '<', $c->replicator_is_sanitized ? 400 * 1024 : 24 * 1024, "45 MB of transactions that it lacks are not in the replicator's memory (+$grown kB)");
kill CONT => @held;
ok($c->wait_state(3, 'online', 60), 'it comes back');
$c->same('and has everything, from the journal');

# ---------- dropped again and again

is($c->node_status(2)->{slow_drops}, 0, 'never slow');
is($c->node_status(2)->{retry_seconds}, undef, 'and nothing to be tried');

my $id = 2000;

# Until n2 has been dropped for its lag so often.
sub be_slow
{
	my ($drops) = @_;
	my @held = $c->apply_pids(2);
	my $status;
	kill STOP => @held;
	for (1 .. 1000)
	{
		$s->do("INSERT INTO t VALUES (" . ++$id . ", repeat('x', 20000))", 30);
		next if $id % 5;		# it is seen before it is tried again
		$status = $c->node_status(2);
		last if $status->{slow_drops} == $drops;
	}
	kill CONT => @held;
	return $status;
}

my @pause = (2, 4, 8);
for my $drops (1 .. 3)
{
	my $status = be_slow($drops);
	is($status->{slow_drops}, $drops, "dropped for its lag $drops times");
	my $pause = $pause[$drops - 1];
	my $times = $drops == 1 ? qr/max_apply_lag;/ : qr/max_apply_lag, $drops times without ten minutes of being online between;/;
	like($status->{reason}, qr/lags \d+ transactions \(\d+ MB\) behind, more than $times it is tried again after $pause\.0 s/,
		'it is tried later each time') or diag($status->{reason});
	cmp_ok($status->{retry_seconds}, '<=', $pause, 'in so many seconds') if defined $status->{retry_seconds};
	last if $drops == 3;
	ok($c->wait_state(2, 'online', 60), 'it comes back by itself');
	is($c->node_status(2)->{slow_drops}, $drops, 'which does not make it quick');
}
(undef, $err, $rc) = $c->ctl('attach', 'n2');
is($rc, 0, 'the operator need not wait') or diag($err);
is($c->node_status(2)->{slow_drops}, 0, 'and it is given the benefit of the doubt');
$s->finish;
$c->same('nothing is lost');

# What ends it otherwise does not count.
$c->cluster('kill-node', 2);
$c->wait_state(2, 'dropped');
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online', 30), 'a crash');
is($c->node_status(2)->{slow_drops}, 0, 'is no slowness');

done_testing;
