# A server that hangs costs the others seconds, by default, and status says for how long it has
# been silent and who waits for it; one whose disk stands still for longer, or that
# checkpoints, stays in the cluster.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 2, disk => 1, conf => "lockstep.commit_wait = executed\nwal_buffers = 64kB\nfsync = on\nshared_buffers = 1MB\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int, what text); INSERT INTO t VALUES (1, 0)');
$c->drain;
my $writer = $c->session(1);
ok($c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep probe' AND state = 'idle'", 1), 'a node is asked for nothing');

sub log_is { my ($qr) = @_; return sub { $c->replicator_log =~ $qr } }

# ---------- the disk

my $timeout = 5;		# node_timeout
$c->stop_disk(2, sub {
	$writer->send("INSERT INTO t SELECT i, 0, repeat('x', 5000) FROM generate_series(10, 1000) i");
	ok($c->wait_until(sub { $c->node_status(2)->{waiting} }, 20), 'a transaction waits for a node whose disk stands still');
	my $begin = time;
	usleep(200_000) until time - $begin > $timeout + 1.5;
	is($c->node_status(2)->{state}, 'online', 'it stays online for longer than node_timeout');
	cmp_ok($c->node_status(2)->{silent_ms}, '<', 5000, 'as its server answers');
	ok($writer->blocked(0), 'while that waits');
});
$writer->finish(60);
is($writer->error, '', 'which goes on with the disk');
$c->sql(2, 'CHECKPOINT');
ok($c->wait_until(sub { ($c->node_status(2)->{waiting} // 1) == 0 }), 'nobody waits for the node any more');

# ---------- the server

my @pids = $c->server_pids(2);
my $begin = time;
kill 'STOP', @pids;
eval {
	$writer->send('UPDATE t SET v = v + 1 WHERE id = 1');
	ok($c->wait_until(sub { my $n = $c->node_status(2); $n->{waiting} && ($n->{silent_ms} // 0) > 1500 }, 20),
		'status shows a server that hangs as silent, and that a transaction waits for it');
	my $text = $c->ctl('status');
	like($text, qr/^node +state +for +applied +lag +silent +waiting .*^n2 +online +[\d.]+ \w+ +\d+ +\d+ +\d+\.\d s +1 .*has been silent for [\d.]+ s, and 1 transactions wait for it; a hung server is dropped after 5 s/ms, 'as text, too');
	like($c->sql(1, "SELECT reason || hint FROM lockstep.nodes WHERE name = 'n2'"), qr/has been silent for .*Look at its machine/, '... in the view');
	like($text, qr/^node n2 does not answer:\n +hint: +Look at its machine/m, '... and what to look at');
	ok($c->wait_until(log_is(qr/\[n2\] node was dropped: has not answered for 5 s/), 30), 'it is dropped after node_timeout');
	cmp_ok(time - $begin, '<', LockstepCluster::soon(25), 'which takes seconds');
	$writer->finish(20);
	is($writer->error, '', 'and the others go on');
	1;
} or diag($@);
kill 'CONT', @pids;
ok($c->wait_state(2, 'online', 30), 'it comes back');
$c->same('the nodes are equal');
done_testing;
