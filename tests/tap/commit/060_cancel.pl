# Cancel and statement_timeout at every wait: for the verdict, for locks asked
# first, for a held-up commit, for `applied`.  The outcome that the client is
# told is the true one, and the session goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, fault => 1, conf => "lockstep.commit_wait = executed\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int)');
$c->drain;
my $s = $c->session(1);
my $b = $c->session(2);

sub cancel { $c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')') }

sub present
{
	my ($id, $expected, $name) = @_;
	$c->drain;
	is($c->sql($_, "SELECT count(*) FROM t WHERE id = $id"), $expected, "$name (n$_)") for 1, 2;
	is($s->query('SELECT 1'), 1, 'the session goes on');
}

# ---------- waiting for the verdict: the peer's apply sessions stand still

for my $how ('cancel', 'statement_timeout')
{
	for my $block (0, 1)
	{
		my $id = 10 + 2 * $block + ($how eq 'cancel');
		my $name = "$how at COMMIT's wait for the verdict, " . ($block ? 'in a block' : 'implicit');
		$s->do('SET statement_timeout = 0');
		$s->do('INSERT INTO t VALUES (-' . $id . ')');
		my @pids = $c->apply_pids(2);
		kill 'STOP', @pids;
		$s->do("BEGIN; INSERT INTO t VALUES ($id)") if $block;
		$s->do("SET statement_timeout = '500ms'") if $how ne 'cancel';
		my $start = time;
		$s->send($block ? 'COMMIT' : "INSERT INTO t VALUES ($id)");
		if ($how eq 'cancel')
		{
			ok($s->blocked(0.3), "$name: waits");
			ok($c->wait_sql(1, 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $s->pid, 'Extension'), 'the wait can be seen');
			cancel();
		}
		$s->finish(10);
		cmp_ok(time - $start, '<', 30, "$name: soon");
		LockstepCluster::is_error($s->error, '57014', qr/./, $name);
		kill 'CONT', @pids;
		present($id, 0, "$name: not there");
	}
}
$s->do('SET statement_timeout = 0');

# ---------- waiting for locks asked first

for my $how ('cancel', 'statement_timeout')
{
	$b->do('BEGIN; ALTER TABLE t ADD COLUMN x int');
	$s->do("SET statement_timeout = '500ms'") if $how ne 'cancel';
	$s->send('ALTER TABLE t ADD COLUMN y int');
	if ($how eq 'cancel')
	{
		ok($s->blocked(0.3), 'DDL waits for the DDL of another node');
		cancel();
	}
	$s->finish(10);
	LockstepCluster::is_error($s->error, '57014', qr/./, "$how while asking first");
	$b->do('ROLLBACK');
	$s->do('SET statement_timeout = 0');
	is($s->query('SELECT 1'), 1, 'the session goes on');
	$s->do('CREATE TABLE after_' . $how . ' (id int)', 10);
	pass('and no lock is left behind');
}

# DML waiting for DDL of another node
$b->do('BEGIN; ALTER TABLE t ADD COLUMN x int');
$s->send('INSERT INTO t (id) VALUES (30)');
ok($s->blocked(0.3), 'DML waits for DDL of another node');
cancel();
$s->finish(10);
LockstepCluster::is_error($s->error, '57014', qr/./, 'cancel while it does');
$b->do('ROLLBACK');
present(30, 0, 'cancelled DML: not there');

# ---------- decided, but its predecessor is not applied here: the turn

my $peer = $c->session(2);
$c->set(1, 'lockstep_fault.apply_commit', "'wait'");
$peer->do('INSERT INTO t VALUES (40)');
$s->send('INSERT INTO t VALUES (41)');
if ($s->blocked(0.5))
{
	cancel();
	ok($s->blocked(0.3), 'a decided transaction waits for its turn whatever the client wants');
}
$c->set(1, 'lockstep_fault.apply_commit', "'none'");
$s->finish(20);
my $told = $s->error eq '' ? 1 : $s->error =~ /57014/ ? 0 : -1;
diag($s->error) if $told < 0;
present(41, $told, 'cancel at the turn: what the client was told is true');
present(40, 1, 'its predecessor');

# ---------- commit_wait = applied

$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$s->do('SET lockstep.commit_wait = applied');
$s->send('INSERT INTO t VALUES (50)');
ok($s->blocked(0.5), 'applied: waits for the peer\'s commit');
ok($c->wait_sql(1, 'SELECT count(*) FROM t WHERE id = 50', 1), 'applied: it is committed on the origin meanwhile');
cancel();
$s->finish(10);
unlike($s->error, qr/^(ERROR|FATAL)/m, 'cancel while waiting for applied does not say that it failed');
like($s->error, qr/WARNING/, 'it warns');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
present(50, 1, 'applied: it is there');

# ---------- the backend is terminated while it waits

my @pids = $c->apply_pids(2);
kill 'STOP', @pids;
my $doomed = $c->session(1);
$doomed->do('BEGIN; INSERT INTO t VALUES (60)');
$doomed->send('COMMIT');
ok($doomed->blocked(0.3), 'terminated: it waits');
$c->sql(1, 'SELECT pg_terminate_backend(' . $doomed->pid . ')');
$c->wait_sql(1, 'SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $doomed->pid, 0, 5);
kill 'CONT', @pids;
$c->drain;
my $n = $c->sql(1, 'SELECT count(*) FROM t WHERE id = 60');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 60'), $n, 'terminated while waiting: the same on both nodes');
$c->same('equal in the end');

done_testing;
