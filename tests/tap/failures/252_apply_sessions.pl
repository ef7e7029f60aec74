# Apply sessions of a node that end or stand still one by one, while the server
# itself is well.  One that is terminated is replaced, whatever it was doing,
# and the node stays; one that is stopped puts its node out after a while, so
# that the others don't wait for ever; one that works long, or waits, does not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 3, fault => 1, replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\nreconnect_interval = 200ms\nmax_apply_delay = 20s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g; CREATE TABLE big (id int, v text)');
$c->drain;

sub terminate { my ($node, $which) = @_; $c->sql($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND $which") }

my $sessions = $c->apply_pids(2);

# As many as there were are back.
sub sessions_are_back
{
	my ($node, $name) = @_;
	ok($c->wait_until(sub { $c->apply_pids($node) == $sessions }, 10), "$name: the apply sessions are complete again");
	is($c->node_status($node)->{state}, 'online', "$name: the node stays");
}

# ---------- terminated while idle

terminate(2, 'true');
sessions_are_back(2, 'idle');
$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 1');
$c->same('idle: equal');

# ---------- terminated while it executes: a lock of node 2 is in the way (a
# reader, for the time of max_apply_delay, in which the session is to be found)

my $reader = $c->session(2);
my $writer = $c->session(1);
for my $round (1 .. 2)
{
	$reader->do('BEGIN; SELECT count(*) FROM big');
	$writer->send("ALTER TABLE big ADD COLUMN c$round int");
	ok($c->wait_until(sub { terminate(2, "wait_event_type = 'Lock'") =~ /t/ }, 5), "executing, round $round: ended");
	$reader->do('COMMIT');
	$writer->finish(20);
	is($writer->error, '', "executing, round $round: it was executed again");
	sessions_are_back(2, "executing, round $round");
}

# ---------- terminated when it has executed and waits for the decision: n3 is slow

my @third = $c->apply_pids(3);
kill 'STOP', @third;
$writer->send('UPDATE t SET v = v + 1 WHERE id = 2');
ok($c->wait_until(sub { terminate(2, 'backend_xid IS NOT NULL') =~ /t/ }, 20), 'executed: ended');
usleep(200_000);
kill 'CONT', @third;
$writer->finish(20);
is($writer->error, '', 'executed: it was executed again');
sessions_are_back(2, 'executed');
sessions_are_back(3, 'executed, the slow one');

# ---------- terminated in its COMMIT

$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$writer->do('UPDATE t SET v = v + 1 WHERE id = 3');
ok($c->wait_until(sub { terminate(2, "state = 'active'") =~ /t/ }, 20), 'committing: ended');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
sessions_are_back(2, 'committing');
$c->same('committing: equal');
is($c->sql(2, 'SELECT v FROM t WHERE id = 3'), 1, 'committing: applied once');

# ---------- under load, at random

my $bench = $c->pgbench_start(1, '-n', '-c', 4, '-T', 600, '-f', $c->file('load.sql', '\set id random(1, 100)' . "\nUPDATE t SET v = v + 1 WHERE id = :id;\n"));
my $ended = 0;
ok($c->wait_until(sub {
	$ended++ if terminate(2 + $ended % 2, '(random() < 0.1)') =~ /t/;
	usleep(250_000);
	return $ended > 8;
}), 'load: sessions were ended');
$bench->{handle}->signal('TERM');
eval { $bench->{handle}->finish };
unlike(${ $bench->{text} }, qr/aborted|ERROR|FATAL/, "load: no client noticed ($ended times)");
is($c->node_status($_)->{state}, 'online', "load: n$_ stays") for 2, 3;
$c->same('load: equal');

# ---------- long work on a peer is not standing still

$c->sql(1, <<'SQL');
CREATE FUNCTION slow(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE start timestamptz := clock_timestamp();
BEGIN
	IF current_setting('lockstep.node_name') = 'n2' THEN
		WHILE clock_timestamp() < start + interval '6 s' LOOP NULL; END LOOP;
	END IF;
	RETURN i;
END $$;
INSERT INTO big (id) VALUES (1);
SQL
my $start = time;
$c->sql(1, 'CREATE INDEX big_slow ON big (slow(id))');
cmp_ok(time - $start, '>', 5, 'DDL that takes long on a peer');
is($c->node_status(2)->{state}, 'online', 'long work: the node stays');

# ---------- stopped: the server answers, its apply sessions don't

# a node that is out is tried again so much later that it is seen out
$c->edit_replicator_conf(sub { s/^reconnect_interval = .*/reconnect_interval = 3s/m or die $_ });
is(($c->ctl('reload'))[2], 0, 'stopped: reload');
my @second = $c->apply_pids(2);
kill 'STOP', @second;
$start = time;
$writer->do('UPDATE t SET v = v + 1 WHERE id = 4', 30);
cmp_ok(time - $start, '<', LockstepCluster::soon(40), 'stopped: the commit does not wait for ever');
is($writer->error, '', 'stopped: it is committed');
my $n2 = $c->node_status(2);
is($n2->{state}, 'dropped', 'stopped: the node is out');
like($n2->{reason}, qr/apply session \d+ has been stopped for \d s/, 'stopped: the reason says so');
is($n2->{cause}, 'apply_stopped', 'and the cause');
is($c->node_status(3)->{state}, 'online', 'stopped: the other one is not');
kill 'CONT', @second;
ok($c->wait_state(2, 'online', 20), 'stopped: it comes back when they go on');
$c->same('stopped: equal');

# stopped in its COMMIT
$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$writer->do('UPDATE t SET v = v + 1 WHERE id = 5');
@second = $c->apply_pids(2);
kill 'STOP', @second;
ok($c->wait_state(2, 'dropped', 15), 'stopped in its COMMIT: the node is out');
kill 'CONT', @second;
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
ok($c->wait_state(2, 'online', 20), 'stopped in its COMMIT: it comes back');
$c->same('equal in the end');

# a client's backend that is stopped while it is in the way
my $holder = $c->session(2);
$holder->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 6');
kill 'STOP', $holder->pid;
$start = time;
$writer->do('UPDATE t SET v = v + 1 WHERE id = 6', 30);
cmp_ok(time - $start, '<', LockstepCluster::soon(40), 'stopped in the way: the commit does not wait for ever');
is($writer->error, '', 'stopped in the way: it is committed');
my $pid = $holder->pid;
like($c->node_status(2)->{reason}, qr/process $pid, which is in the way of apply session \d+, has been stopped/, 'stopped in the way: the reason says so');
kill 'CONT', $holder->pid;
ok($c->wait_state(2, 'online', 20), 'stopped in the way: the node comes back');
$holder->send('COMMIT');
$holder->finish(10);
LockstepCluster::is_error($holder->error, '40001|57P03|08007|57P01', qr/./, 'stopped in the way: its transaction is not committed');
$c->same('stopped in the way: equal');

# ---------- the journal, for people and programs

my ($json) = $c->ctl('journal', '--json', '--limit', 3, '--journal-directory', "$c->{dir}/journal");
my @records = map { JSON::PP::decode_json($_) } split /\n/, $json;
is(scalar(grep { exists $_->{seq} } @records), 3, 'journal --json: one object a line');
like($records[0]{time} // '', qr/^20(?!70)/, 'records about databases have a time');
unlike(scalar($c->ctl('journal', '--journal-directory', "$c->{dir}/journal")), qr/1970-01-01/, 'nothing happened in 1970');

done_testing;
