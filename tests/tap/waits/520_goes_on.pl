# What is due is begun, and what is to end ends: a transaction that pauses on a node before it
# is tried again is not forgotten when another begins a shorter pause; an apply session that
# rolls back goes on being told so when a cancel request was discarded; one that obeys none,
# and a local transaction that obeys none, are terminated.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.commit_wait = executed\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
CREATE TABLE u (id int PRIMARY KEY, v int);
INSERT INTO u VALUES (1, 0);
SQL
$c->drain;

my $monitor = $c->session(2);
my ($one, $two) = ($c->session(1), $c->session(1));

# The apply session of node 2 that waits for a lock of this backend.
sub waiting_for
{
	my ($pid) = @_;
	my $found = '';
	$c->wait_until(sub { ($found = $monitor->do(<<SQL)) ne '' }, 20);
SELECT pid FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND wait_event_type = 'Lock' AND $pid = ANY (pg_blocking_pids(pid))
SQL
	return $found;
}

sub cancel { my ($pid) = @_; $monitor->do("SELECT pg_cancel_backend($pid)"); return }

# ---------- a pause that is longer than one that begins later

my @holders = map { $c->session(2) } 1 .. 2;
$holders[$_]->do('BEGIN; UPDATE t SET v = v + 100 WHERE id = ' . ($_ + 1)) for 0, 1;
kill 'STOP', map { $_->pid } @holders;		# they don't obey when told to give way
eval {
	$one->send('UPDATE t SET v = v + 1 WHERE id = 1');
	waiting_for($holders[0]->pid);
	$two->send('UPDATE t SET v = v + 1 WHERE id = 2');
	my $other = waiting_for($holders[1]->pid);
	cancel(waiting_for($holders[0]->pid)) for 1 .. 9;	# the next pause is 100 ms
	cancel(waiting_for($holders[0]->pid));
	usleep(5_000);
	cancel($other);							# and this one 1 ms
	kill 'CONT', $holders[1]->pid;
	$two->finish(20);
	is($two->error, '', 'the one with the shorter pause goes on');
	1;
} or diag($@);
kill 'CONT', map { $_->pid } @holders;
ok(!$one->blocked(40), 'and so does the one whose pause is longer');
$one->finish(20);
is($one->error, '', 'it is committed');
$_->query('ROLLBACK') for @holders;

# ---------- a cancel that is discarded

my $thinks = $c->session(2);
$thinks->do('BEGIN; UPDATE u SET v = v + 100 WHERE id = 1');
my $end = time;
$c->frozen([2], sub {
	$one->send('BEGIN; UPDATE t SET v = v + 1 WHERE id = 3; UPDATE u SET v = v + 1 WHERE id = 1; COMMIT');
	$c->wait_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE pid = } . $one->pid . q{ AND wait_event_type = 'Extension'}, 1);
	usleep(300_000);						# its queries are on their way
	$c->sql(1, 'SELECT pg_cancel_backend(' . $one->pid . ')');
	$one->finish(20);
	like($one->error, qr/57014/, 'a transaction is cancelled while another node executes it');
	usleep(300_000);						# and so is the cancel, which comes before the queries are read
});
$two->send('UPDATE t SET v = v + 1 WHERE id = 3');
ok(!$two->blocked(40), 'its rows are free there although a query of it waits for a client that thinks');
$two->finish(60);
is($two->error, '', 'who wants them next gets them');
is($thinks->do('SELECT v FROM u WHERE id = 1'), 100, 'and the client was in nobody\'s way');
$thinks->do('ROLLBACK');

# ---------- no cancel is obeyed at all

# a cancel that comes between two of its blocks is caught further out
my $body = 'PERFORM pg_sleep(0.05);';
$body = "LOOP BEGIN $body EXCEPTION WHEN query_canceled THEN END; END LOOP;" for 1 .. 4;
$c->sql(1, <<"SQL");
CREATE FUNCTION deaf(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \$\$
BEGIN
	IF i = 666 AND current_setting('application_name') = 'lockstep apply' THEN $body END IF;
	RETURN i;
END \$\$;
CREATE TABLE d (id int PRIMARY KEY, v int);
CREATE INDEX ON d (deaf(v));
INSERT INTO d VALUES (1, 1);
SQL
$c->drain;
$one->send('BEGIN; UPDATE t SET v = v + 1 WHERE id = 4; INSERT INTO d VALUES (2, 666); COMMIT');
my $deaf = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND wait_event = 'PgSleep'";
ok($c->wait_sql(2, $deaf, 1), 'an apply session executes what takes no cancel');
$c->sql(1, 'SELECT pg_cancel_backend(' . $one->pid . ')');
$one->finish(20);
like($one->error, qr/57014/, 'it is to be rolled back');
$two->query('UPDATE t SET v = v + 1 WHERE id = 4', 60);
is($two->error, '', 'and is, in the end');
$c->replicator_logs(qr/apply session \d+ is terminated: it was to roll back a transaction of node "n1"/, 'told in the log');
is($c->node_status(2)->{state}, 'online', 'its node stays');

# ---------- nor by a local transaction in the way

my $loop = $c->session(2);
$loop->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 5');
# a cancel that comes while one is being caught is caught further out
my $deaf_loop = 'LOOP END LOOP;';
$deaf_loop = "LOOP BEGIN $deaf_loop EXCEPTION WHEN query_canceled THEN END; END LOOP;" for 1 .. 4;
$loop->send("DO \$\$ BEGIN PERFORM pg_advisory_lock(520); $deaf_loop END \$\$");
ok($c->wait_sql(2, "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 520", 't', 20), 'one runs that takes no cancel');
$two->query('UPDATE t SET v = v + 1 WHERE id = 5', 60);
is($two->error, '', 'a local transaction that catches its cancel is not in the way for ever');
$c->node_logs(2, qr/terminated the connection of process \d+, which is in the way .*and does not end/, 'told in the log');

$c->same('the nodes are equal');
done_testing;
