# Who waits for whom is told: by a warning in the log when something has stood still for 2 s, again
# with growing pauses and not while its kind goes on; at any time by lockstepctl waits and
# by lockstep.waits, which members of pg_monitor may read.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP ();
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 60s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');
$c->sql(1, 'CREATE TABLE u (id int); CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE nobody LOGIN');
$c->drain;
my ($one, $two, $other) = ($c->session(1), $c->session(2), $c->session(1));

sub waits { my $a = eval { JSON::PP::decode_json(scalar $c->ctl('waits', '--json')) } // {}; return @{ $a->{waits} // [] } }
sub warnings { my @w = $c->replicator_log =~ /^(.*WARNING:  \[waits\].*\n.*DETAIL.*)$/mg; return @w }

is(scalar $c->ctl('waits'), 'nothing waits', 'nothing waits');

# ---------- a lock asked first, behind somebody who thinks

$two->do('BEGIN; LOCK TABLE u IN EXCLUSIVE MODE');
$one->send('BEGIN; LOCK TABLE u IN EXCLUSIVE MODE');
my $wait;
ok($c->wait_until(sub { ($wait) = grep { ($_->{blocker_pid} // 0) == $two->pid } waits(); $wait }, 10), 'a wait for a lock is seen at once');
is_deeply([ @$wait{qw(node pid kind blocker_node)} ], [ 'n1', $one->pid, 'lock', 'n2' ], 'who waits for whom, and what for') or diag(explain($wait));
like($wait->{object}, qr/u/, 'which table');
cmp_ok($wait->{for_ms}, '>=', 0, 'and for how long');
like(scalar $c->ctl('waits'), qr/^node +pid +seq +for +waits .*^n1 +${\$one->pid} +\d+\.\d s +for a lock .* n2 +${\$two->pid} /ms, 'as text, too');
is($c->sql(2, q{SET ROLE watcher; SELECT node, pid, kind, duration >= '0', blocker_node, blocker_pid FROM lockstep.waits WHERE kind = 'lock'}),
	'n1|' . $one->pid . '|lock|t|n2|' . $two->pid, 'a member of pg_monitor reads it on any node');
$c->fails(2, 'SET ROLE nobody; SELECT * FROM lockstep.waits', '42501', qr/permission denied/, 'others may not');
ok($c->wait_until(sub { warnings() > 2 }, 30), 'the log says it, and again');
my @said = map { /has waited (\d+\.\d) s/ ? $1 : 0 } warnings();
cmp_ok($said[0], '>=', 2, 'not before 2 s');
cmp_ok($said[0], '<', LockstepCluster::soon(12), 'but soon');
cmp_ok($said[2] - $said[1], '>', $said[1] - $said[0], 'after pauses that grow') or diag("@said");
like((warnings())[0], qr/1 wait has not gone on for 2\.0 s\n.*pid ${\$one->pid} of node "n1" has waited \d+\.\d s for a lock.* pid ${\$two->pid} of node "n2"/,
	'with who waits for whom, and for how long');

# ---------- a server that hangs: who waits for it is told at once, whatever else stands still

my @pids = $c->server_pids(2);
kill 'STOP', @pids;
my $begin = time;
$other->send('UPDATE t SET v = v + 1 WHERE id = 1');
my $silent = qr/WARNING:  \[waits\] node "n2" has been silent for \d\.\d s, and 1 transaction waits for it/;
ok($c->wait_until(sub { $c->replicator_log =~ $silent }, 10), 'the log names the node that everybody waits for');
cmp_ok(time - $begin, '<', LockstepCluster::soon(15), 'within seconds');
my ($told) = grep { /$silent/ } warnings();		# the lock may have been told again behind it
like($told // '', qr/pid ${\$other->pid} of node "n1" has waited \d\.\d s for a node that executes it, on node "n2"/, 'and who waits');
like(scalar $c->ctl('waits'), qr/^node n2 has been silent for \d+\.\d s, and 1 transactions? waits? for it$/m, 'lockstepctl waits says it, too, though it can not ask that node');
kill 'CONT', @pids;
$other->finish(20);
$two->do('COMMIT');
$one->finish(20);
$one->do('COMMIT');
ok($c->wait_until(sub { $c->ctl('waits') eq 'nothing waits' }, 20), 'in the end nothing waits');

# ---------- a queue that moves is no news

# Each waits for longer than wait_warning, but every 0.4 s one gets the row.
my $queued = '-c lockstep.update_order=queued -c lockstep.queue_timeout=60s';
my @many = map { $c->session(1 + $_ % 2, options => $queued) } 1 .. 8;

sub queue_moves
{
	my $before = warnings();
	my @first = ("BEGIN; UPDATE t SET v = v + 1 WHERE id = 2; SELECT pg_sleep(0.4); COMMIT");
	$_->send(@first) for @many;
	$_->finish(60) for @many;
	return warnings() == $before;
}

# on a machine that stands still itself, it may be news
ok(queue_moves() || queue_moves() || queue_moves(), 'while a queue moves, the log says nothing, however long it is');
cmp_ok($c->sql(1, 'SELECT v FROM t WHERE id = 2'), '>=', 8, 'all had the row');

$c->same('the nodes are equal');
done_testing;
