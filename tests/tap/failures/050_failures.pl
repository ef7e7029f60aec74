# Honest failure: an error of the data on a peer rolls back everywhere and the
# client sees it; a COMMIT that fails drops that node, which then refuses
# writes; a client that is killed leaves nothing; without the replicator reads go
# on and writes fail at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 3, fault => 1, replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, u int, v text); INSERT INTO t VALUES (20)');
$c->drain;

# ---------- a query that fails on a peer

$c->sql_local(3, 'CREATE UNIQUE INDEX planted ON t (u); INSERT INTO t VALUES (-1, 7)');
$c->fails(1, 'INSERT INTO t VALUES (1, 7)', '23505', qr/planted/, 'a unique violation on one peer is the client\'s error');
$c->drain;
is($c->sql($_, 'SELECT count(*) FROM t WHERE id = 1'), 0, "and the row is not on n$_") for $c->all;
$c->sql(1, 'INSERT INTO t VALUES (2, 8)');
is($c->node_status($_)->{state}, 'online', "n$_ is online still") for $c->all;

$c->drain;
$c->sql_local(2, 'DELETE FROM t WHERE id = 2');
my (undef, $err) = $c->try(1, 'UPDATE t SET v = \'x\' WHERE id = 2');
like($err, qr/ERROR/, 'a row that a peer does not have: the transaction fails');
$c->sql_local(3, 'DROP INDEX planted; DELETE FROM t WHERE id = -1');
$c->sql_local(2, 'INSERT INTO t VALUES (2, 8)');
$c->same('repaired');

# ---------- a COMMIT that fails on a peer

$c->set(3, 'lockstep_fault.apply_commit', 'error');
$c->sql(1, 'INSERT INTO t VALUES (10)');
ok($c->wait_state(3, 'dropped'), 'a COMMIT that fails drops that node');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 10'), 1, 'the others have it') if $c->wait_sql(2, 'SELECT count(*) FROM t WHERE id = 10', 1);
$c->sql(2, 'INSERT INTO t VALUES (11)');
pass('and go on');
$c->fails(3, 'INSERT INTO t VALUES (12)', '57P03', qr/HINT/, 'the dropped node refuses writes');
is($c->sql(3, 'SELECT count(*) FROM t WHERE id IN (10, 11)'), 0, 'it reads');
$c->set(3, 'lockstep_fault.apply_commit', 'none');
my ($out, $attach_err, $rc) = $c->ctl('attach', 'n3');
ok($c->wait_state(3, 'online'), 'it comes back when it is attached') or diag("$out $attach_err");
$c->same('and has what it missed');

# ---------- clients that die

for my $how ('client', 'backend')
{
	my $s = $c->session(1);
	$s->do('BEGIN; INSERT INTO t VALUES (40); DELETE FROM t WHERE id = 20');
	$how eq 'client' ? $s->kill : $c->sql(1, 'SELECT pg_terminate_backend(' . $s->pid . ')');
	$c->wait_sql(1, 'SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $s->pid, 0);
	$c->sql(2, 'BEGIN; INSERT INTO t VALUES (40); ROLLBACK; UPDATE t SET v = \'y\' WHERE id = 20', timeout => 60);
	$c->drain;
	is($c->sql($_, 'SELECT count(*) FILTER (WHERE id = 40), count(*) FILTER (WHERE id = 20) FROM t'), '0|1', "killed $how: nothing left on n$_")
		for $c->all;
}

# ---------- the replicator is gone

my $idle = $c->session(1);
my $writer = $c->session(1);
my $asked = $c->session(2);
$writer->do('BEGIN; INSERT INTO t VALUES (50)');
$asked->do('BEGIN; INSERT INTO t VALUES (51)');
my @pids = $c->apply_pids(3);
kill 'STOP', @pids;
$asked->send('COMMIT');
ok($c->wait_for_waiter($asked), 'a COMMIT has asked');
$c->cluster('kill-replicator');
kill 'CONT', @pids;
$asked->finish(20);
LockstepCluster::is_error($asked->error, '08007', qr/./, 'who had asked is told that the outcome is unknown');
$writer->query('COMMIT', 10);
LockstepCluster::is_error($writer->error, '57P03|08006|40001', qr/./, 'who had not asked yet is rolled back');
unlike($writer->error, qr/08007/, 'and not told so');
is($idle->query('SELECT count(*) FROM t WHERE id IN (50, 51)'), 0, 'reads go on');
my $start = time;
$idle->query('INSERT INTO t VALUES (52)', 10);
LockstepCluster::is_error($idle->error, '57P03', qr/HINT/, 'writes fail, with a hint');
$c->fails(2, 'INSERT INTO t VALUES (53)', '57P03', qr/HINT/, 'new sessions\' writes fail');
cmp_ok(time - $start, '<', LockstepCluster::soon(30), 'soon');
$c->fails(2, 'CREATE TABLE no (id int)', '57P03', qr/HINT/, 'DDL fails');
ok($c->cluster('restart-replicator'), 'it is started again');
$idle->do('INSERT INTO t VALUES (54)');
pass('the same session writes again');
is($c->sql(1, 'SELECT count(*) FROM t WHERE id IN (50, 52, 53)'), 0, 'what failed is not there');
$c->same('after the replicator was away');

# The server itself ends and comes back (restart_after_crash): a backend is killed -9.
my $crash = $c->session(2);
$crash->do('BEGIN; INSERT INTO t VALUES (60)');
my $boot = $c->sql(2, 'SELECT boot FROM lockstep.node_info()');
kill 'KILL', $crash->pid;
$c->wait_until(sub { ($out) = $c->try(2, 'SELECT boot FROM lockstep.node_info()'); $out ne '' && $out ne $boot });
ok($c->wait_state(2, 'online'), 'a node comes back after a crash of its server');
$c->sql(2, 'INSERT INTO t VALUES (61)');
$c->same('and takes part');

done_testing;
