# Whoever sets the wall clock of a server, forward or back, ends no wait of ours too early,
# and makes none last longer: commits, queues, holds and the age of what is read don't count by it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 2, clock => 1, replicator_conf => "wait_warning = 0\nnode_timeout = 30s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');
$c->drain;
$c->set_clock(7200);
cmp_ok($c->sql(1, 'SELECT extract(epoch FROM clock_timestamp())::bigint') - time, '>', 7000, 'the servers have the clock that was set');
$c->set_clock(0);

my ($one, $two) = ($c->session(1), $c->session(1));
my $commits = 'SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = \'Extension\' AND pid = ';
my $jump = 0;

# The clock goes forward again and again, by more than any timeout.
sub jumps { for (1 .. 4) { $c->set_clock($jump += 600); usleep(300_000) } return }

# ---------- forward: nothing ends too early

$c->frozen([2], sub {
	$one->send('SET lockstep.commit_wait = executed; UPDATE t SET v = v + 1 WHERE id = 1; RESET lockstep.commit_wait');
	ok($c->wait_sql(1, $commits . $one->pid, 1), 'a COMMIT waits for its verdict');
	jumps();
});
$one->finish(20);
is($one->error, '', '... and is not ended by it');

my $holds = $c->session(2, options => '-c lockstep.update_order=queued');
my $queued = $c->session(1, options => '-c lockstep.update_order=queued -c lockstep.queue_timeout=60s');
$holds->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 2');
$queued->send('UPDATE t SET v = v + 1 WHERE id = 2');
ok($c->wait_sql(1, $commits . $queued->pid, 1), 'another waits in the queue of a row');
jumps();
ok($queued->blocked(0.1), '... and goes on waiting');
$holds->do('COMMIT');
$queued->finish(20);
is($queued->error, '', 'which ends when it is its turn');

my $seq = $c->sql(1, 'SELECT lockstep.applied_seq()');
$one->send("SELECT lockstep.wait_for($seq + 1, '60s')");
jumps();
ok($one->blocked(0.1), 'lockstep.wait_for() goes on waiting');
$two->do('UPDATE t SET v = v + 1 WHERE id = 3');
is($one->finish(20), 't', 'until it has come');

$one->do("SELECT lockstep.hold_commits(0, '60s')");
$two->send('UPDATE t SET v = v + 1 WHERE id = 4');
jumps();
ok($two->blocked(0.1), 'commits are held as long as was said');
is($one->do('SELECT lockstep.release_commits()'), 't', 'and let go');
$two->finish(20);

$c->wait_sql(2, "SELECT lockstep.staleness() < '30s'", 't');
jumps();
is($c->sql(2, "SELECT lockstep.staleness() < '60s'"), 't', 'what the node has is not called old');

# ---------- back: nothing lasts longer

$seq = $c->sql(1, 'SELECT lockstep.applied_seq()');
my $begin = time;
$one->send("SELECT lockstep.wait_for($seq + 1, '1.5s')");
usleep(200_000);
$c->set_clock($jump = -7200);
is($one->finish(20), 'f', 'lockstep.wait_for() ends');
cmp_ok(time - $begin, '>=', 1.4, 'not too early');

$holds->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 5');
$queued->do("SET lockstep.queue_timeout = '4s'");
$queued->send('UPDATE t SET v = v + 1 WHERE id = 5');
ok($c->wait_sql(1, $commits . $queued->pid, 1), 'another waits in the queue');
$c->set_clock(-14400);
ok(!$queued->blocked(40), 'so does the wait in the queue');
$queued->finish(20);
$holds->query('ROLLBACK');

$one->do("SELECT lockstep.hold_commits(0, '1.5s')");
$c->set_clock(-21600);
$two->query('UPDATE t SET v = v + 1 WHERE id = 6', 20);
is($two->error, '', 'so does a hold that nobody lets go');
is($one->do('SELECT lockstep.release_commits()'), 'f', 'which is told');

is($c->node_status($_)->{state}, 'online', "node $_ has stayed online") for $c->all;
unlike($c->replicator_log, qr/WARNING|ERROR/, 'and the replicator had nothing to say');
$c->set_clock(0);
$c->same('the nodes are equal');
done_testing;
