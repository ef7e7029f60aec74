# A node that applies slowly (its apply sessions are stopped) while transactions
# are decided first (commit_wait = ordered): beyond max_apply_lag writers wait for
# it, or it is dropped, as slow_node says, and catches up from the journal.  The
# replicator's memory stays bounded, and nothing is lost.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.commit_wait = ordered\n",
	replicator_conf => "max_apply_lag = 1MB\nslow_node = throttle\nnode_timeout = 60s\nstall_timeout = 60s\n");
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
for my $i (1 .. 600)
{
	$s->do("INSERT INTO t VALUES (1000 + $i, repeat('y', 50000))", 30);
}
pass('writers are not held up');
like($c->replicator_log, qr/node was dropped: lags \d+ transactions \(\d+ MB\) behind, more than max_apply_lag/, 'the node is dropped');
my $grown = $c->memory_kb($c->replicator_pid, 'VmHWM') - $before;
cmp_ok($grown, '<', $c->replicator_is_sanitized ? 400 * 1024 : 16 * 1024, "30 MB of transactions that it lacks are not in the replicator's memory (+$grown kB)");
kill CONT => @held;
ok($c->wait_state(3, 'online', 60), 'it comes back');
$c->same('and has everything, from the journal');

done_testing;
