# The waits after the verdict - for the turn, for `applied` - end in time, and
# what the client is told is true: a transaction that the cluster has committed
# is never said to have failed, whatever cancel, statement_timeout or error
# comes then; and none of them brings the server down.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, fault => 1);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
my $s = $c->session(1);
my $peer = $c->session(2);

# What has been decided before it, and that it is, too.
my $before;
sub decided { return $c->status->{journal}{decided} }
sub is_decided { my ($name) = @_; ok($c->wait_until(sub { decided() > $before }), "$name: it is decided") }

# ---------- the turn: its predecessor, of the other node, is held up here

for my $how ('statement_timeout', 'cancel')
{
	for my $block (0, 1)
	{
		my $id = 10 * ($how eq 'cancel') + 100 * $block + 1;
		my $name = "$how while waiting for the turn, " . ($block ? 'in a block' : 'implicit');

		# connected, and nothing else to wait for
		$s->do('SET statement_timeout = 0');
		$s->do("INSERT INTO t VALUES (-$id)");
		$c->drain;
		$c->set(1, 'lockstep_fault.apply_commit', "'wait'");
		$peer->do("INSERT INTO t VALUES ($id)");
		$before = decided();
		$s->do('BEGIN; INSERT INTO t VALUES (' . ($id + 1) . ')') if $block;
		$s->do("SET statement_timeout = '2s'") if $how ne 'cancel';		# it is decided by then
		my $start = time;
		$s->send($block ? 'COMMIT' : 'INSERT INTO t VALUES (' . ($id + 1) . ')');
		if ($how eq 'cancel')
		{
			is_decided($name);
			ok($s->blocked(0.3), "$name: waits");
			$c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')');
		}
		$s->finish(20);
		cmp_ok(time - $start, '<', 50, "$name: it ends");
		LockstepCluster::is_error($s->error, '08007', qr/committed by the cluster.*number \d+ in the journal.*Do not retry/s, "$name: 08007");
		like($s->error, qr/statement_timeout/, "$name: the cause is told") if $how ne 'cancel';
		ok($c->wait_sql(2, "SELECT count(*) FROM t WHERE id = $id + 1", 1), "$name: the other node has it");
		$c->set(1, 'lockstep_fault.apply_commit', "'none'");
		$c->drain;
		is($c->sql(1, "SELECT count(*) FROM t WHERE id IN ($id, $id + 1)"), 2, "$name: this node got it by apply");
		is($s->query('SELECT 1'), 1, 'the session goes on');
	}
}

# a timeout that comes while the turn does is no error, and hits nothing later
$s->do('SET statement_timeout = 0');
$c->set(1, 'lockstep_fault.apply_commit', "'wait'");
$peer->do('INSERT INTO t VALUES (500)');
$s->do("SET statement_timeout = '2s'");
$s->send('INSERT INTO t VALUES (501)');
ok($s->blocked(2.2), 'late timeout: it waits on');
$c->set(1, 'lockstep_fault.apply_commit', "'none'");
$s->finish(20);
is($s->error, '', 'late timeout: the transaction is committed, and so it is told');
is($s->query('SELECT 1'), 1, 'late timeout: the next statement does not meet it');
$s->do('SET statement_timeout = 0');

# a transaction that was told to give way before it was decided goes by itself,
# unless what waits for it was decided before it
for my $case ([ 0, 800 ], [ 1, 810 ])
{
	my ($seq, $id) = @$case;
	my $name = $seq ? 'in the way of one decided before' : 'in the way of one not decided';
	$s->do("INSERT INTO t VALUES (-$id)");
	$c->drain;
	$c->set(1, 'lockstep_fault.apply_commit', "'wait'");
	$peer->do("INSERT INTO t VALUES ($id)");
	$before = decided();
	$s->send("INSERT INTO t VALUES ($id + 1)");
	is_decided($name);
	ok($s->blocked(0.5), "$name: waits for its turn");
	my $pid = $s->pid;
	my $lxid = $c->sql(1, "SELECT split_part(virtualtransaction, '/', 2) FROM pg_locks WHERE pid = $pid AND locktype = 'virtualxid'");
	is($c->sql(1, "SELECT lockstep.yield($pid, 'test', 1, $lxid - 1)"), 'f', "$name: what meant a transaction before it does not meet it");
	is($c->sql(1, "SELECT lockstep.yield($pid, 'test', $seq, $lxid)"), 't', "$name: is told to give way");
	ok($s->blocked(2.5), "$name: waits on") unless $seq;
	$c->set(1, 'lockstep_fault.apply_commit', "'none'") unless $seq;
	$s->finish(20);
	if ($seq)
	{
		LockstepCluster::is_error($s->error, '08007', qr/in the way of a transaction that comes before it/, "$name: leaves it to apply");
		$c->set(1, 'lockstep_fault.apply_commit', "'none'");
	}
	else
	{
		is($s->error, '', "$name: commits");
	}
	$c->drain;
	is($c->sql(1, "SELECT count(*) FROM t WHERE id IN ($id, $id + 1)"), 2, "$name: both are there");
	is($s->query('SELECT 1'), 1, "$name: the next statement does not meet it");
}

# ---------- applied

$s->do('SET lockstep.commit_wait = applied');
$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$s->do("SET statement_timeout = '2s'");		# it is committed here by then
my $start = time;
$s->send('INSERT INTO t VALUES (600)');
$s->finish(20);
cmp_ok(time - $start, '<', 50, 'statement_timeout ends the wait for applied');
unlike($s->error, qr/^(ERROR|FATAL)/m, 'which does not say that it failed');
like($s->error, qr/WARNING.*canceling the wait for other nodes due to statement timeout/, 'it warns');
is($s->query('SELECT 1'), 1, 'the session goes on');
is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 600'), 1, 'it is committed');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
$c->drain;

# ---------- an error after the commit record

my $started = $c->sql(1, 'SELECT boot FROM lockstep.node_info()');
$s->do('SET statement_timeout = 0');
$s->do("SET lockstep_fault.fail_on_message = 'canceling the wait'");
$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$s->do("SET statement_timeout = '2s'");
$s->send('INSERT INTO t VALUES (700)');
$s->finish(20);
unlike($s->error, qr/^(ERROR|FATAL|PANIC)|server closed/m, 'an error after the commit is no failure');
is($s->query('SELECT 1'), 1, 'the session goes on after it');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
is($c->sql(1, 'SELECT boot FROM lockstep.node_info()'), $started, 'and the server has not crashed');
unlike($c->node_log(1), qr/PANIC/, 'no PANIC');
$c->node_logs(1, qr/error at the end of a committed transaction was ignored: reporting made to fail/, 'it is in the log');
$s->do('SET statement_timeout = 0; RESET lockstep_fault.fail_on_message');
$s->do('INSERT INTO t VALUES (701)');
$c->same('equal in the end');

done_testing;
