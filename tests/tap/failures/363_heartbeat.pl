# Heartbeats both ways: a replicator that hangs does not hold a COMMIT for ever; a
# node that is cut off is not read beyond lockstep.max_staleness; a node that hangs
# is dropped, comes back by itself, and says how long catching up takes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.replicator_timeout = 3s\n", replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\nmax_apply_delay = 3s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)');
$c->drain;

# ---------- a long wait is none of that

my $s = $c->session(1);
my $blocker = $c->session(2);
$blocker->do('BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; SELECT count(*) FROM t');
$s->send('ALTER TABLE t ADD COLUMN w int');
ok($s->blocked(0.5), 'DDL waits for a reader on the other node, or has cancelled it');
$s->finish(20);
is($s->error, '', 'and succeeds') ;
$blocker->query('ROLLBACK');

# ---------- staleness

is($c->sql(1, 'SELECT count(*) FROM t', options => '-c lockstep.max_staleness=10s'), 1, 'a node in touch is read');
$c->fails(1, 'SET lockstep.max_staleness = 1500', '22023', qr/every second/, 'what heartbeats can not keep is refused');
ok($c->wait_sql(2, "SELECT lockstep.staleness() < '5s'", 't'), 'it knows how old what it shows may be');
my ($asks, $waits) = map { my $r = $c->session(2); $r->do('SET lockstep.causal_reads = on; SELECT count(*) FROM t'); $r } 1 .. 2;
my @apply = $c->apply_pids(2);
kill 'STOP', @apply;
$c->sql(1, 'SET lockstep.commit_wait = ordered; UPDATE t SET v = 0 WHERE id = 1');
$waits->send('SELECT count(*) FROM t');
ok($waits->blocked(0.5), 'a causal read waits for what its node has not applied');
my $replicator = $c->replicator_pid;
kill 'STOP', $replicator;
ok($c->wait_until(sub { my (undef, $e) = $c->try(2, 'SET lockstep.max_staleness = 2500; SELECT count(*) FROM t'); $e =~ /57P03.*max_staleness/s }, 20),
	'cut off, it is not read beyond lockstep.max_staleness');
is($c->sql(2, 'SELECT count(*) FROM t'), 1, 'without the setting it is');
like($c->sql(2, "SET lockstep.max_staleness = 2500; SELECT node FROM lockstep.status()"), qr/n2/, 'what is about the node itself can be asked');

# ---------- the replicator hangs

$asks->query('SELECT count(*) FROM t', 30);
LockstepCluster::is_error($asks->error, '57P03', qr/causal read.*has been silent for 3000 ms/s, 'a causal read gives up on a replicator that hangs');
$waits->finish(30);
LockstepCluster::is_error($waits->error, '57P03', qr/causal read.*has been silent for 3000 ms/s, 'so does one that waits for what is to be applied');
kill 'CONT', @apply;
my $start = time;
$s->query('UPDATE t SET v = 1 WHERE id = 1', 30);
LockstepCluster::is_error($s->error, '08007', qr/has been silent for 3000 ms.*lockstep\.outcome/s, 'a COMMIT gives up on a replicator that hangs');
kill 'CONT', $replicator;
my ($token) = $s->error =~ /outcome\('([^']+)'\)/;
ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1, 2;
my $fate;
ok($c->wait_until(sub { ($fate) = $c->try(2, "SELECT lockstep.outcome('$token')"); $fate =~ /committed|aborted/ }), "the outcome is told: $fate");
$c->same('all nodes are equal');
is($c->sql(2, 'SELECT v FROM t'), $fate eq 'committed' ? 1 : 0, 'and true');
ok($c->wait_until(sub { my ($n, $e) = $c->try(2, 'SET lockstep.max_staleness = 2500; SELECT count(*) FROM t'); $e eq '' }), 'back in touch, it is read again');

# ---------- a node that hangs

my @server = $c->server_pids(2);
kill 'STOP', @server;
$start = time;
# executed: the UPDATE of before may have proven the table, and then nobody waits
$c->sql(1, 'SET lockstep.commit_wait = executed; UPDATE t SET v = 10 WHERE id = 1', timeout => 60);
cmp_ok(time - $start, '<', 50, 'others wait for a node that hangs, for node_timeout');
is($c->node_status(2)->{state}, 'dropped', 'then it is out');
$c->sql(1, join(';', map { "INSERT INTO t VALUES ($_, $_)" } 100 .. 600));
kill 'CONT', @server;
ok($c->wait_state(2, 'online', 60), 'it comes back by itself');
$c->same('with all it missed');
ok(exists $c->node_status(2)->{seconds_left}, 'the status has a place for the time left');

done_testing;
