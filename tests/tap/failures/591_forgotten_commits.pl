# The journal makes a transaction durable: COMMIT does not wait for the node's own WAL
# (lockstep.local_flush), unless the journal does not have all of it.  A server that crashes
# forgets its last commits and gets them back; nobody reads there before that, or writes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepPoints->new(nodes => 2,
	conf => "wal_writer_delay = 10s\nautovacuum = off\nmax_connections = 40\nsuperuser_reserved_connections = 5\n" .
		"lockstep.recovery_wait = 60s\nlockstep.connect_timeout = 2s\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE here (v int);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i;
CREATE ROLE reader LOGIN;
GRANT SELECT, UPDATE ON t TO reader;
SQL
$c->drain;

# The WAL writer flushes nothing while it is looked whether a COMMIT does, or which commits a crash forgets.
sub stop_wal_writer { kill 'STOP', $c->sql(1, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"); return }
sub wal_writer_goes_on { kill 'CONT', $c->sql(1, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"); return }

# ---------- what is flushed

stop_wal_writer();

# Is the WAL of what is executed, in one session, on disk after its COMMIT?
sub flushed_after
{
	my ($before, $work, $after) = @_;
	$c->sql(1, 'CHECKPOINT');
	my $out = $c->sql(1, "$before; $work; SELECT 'flushed ' || (pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()); " . ($after // ''));
	return $out =~ /flushed (\w+)/ ? $1 : $out;
}

my $work = 'UPDATE t SET v = v + 1 WHERE id = 1';
is(flushed_after('SET lockstep.local_flush = on', $work), 'true', 'local_flush = on: COMMIT waits for the WAL of its node');
is(flushed_after('SELECT 1', $work), 'false', 'by default it does not');
is(flushed_after('SELECT 1', "BEGIN; SET LOCAL lockstep.replicate = off; INSERT INTO here VALUES (1); SET LOCAL lockstep.replicate = on; $work; COMMIT"),
	'true', 'but for what a part of the transaction has left on this node alone');
is(flushed_after('SET lockstep.unreplicated = allow', $work), 'true', 'or may have');
is(flushed_after('SELECT 1', "BEGIN; SET LOCAL lockstep.unreplicated = allow; SET LOCAL lockstep.unreplicated = refuse; $work; COMMIT"),
	'true', 'or might have had');
is(flushed_after('SELECT 1', "BEGIN; CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false, slot_name = NONE); $work; COMMIT", 'DROP SUBSCRIPTION s'),
	'true', "and for a command that is each node's own");
$c->sql(1, q{SET lockstep.replicate = off; SELECT pg_replication_origin_create('o')});
is(flushed_after(q{SELECT pg_replication_origin_session_setup('o')},
	"BEGIN; SELECT pg_replication_origin_xact_setup('0/1234', now()); $work; COMMIT"), 'true', 'and for the progress of a subscription');
is(flushed_after('SET lockstep.replicate = off', 'INSERT INTO here VALUES (2)'), 'true', 'what is not replicated is flushed as ever');
$c->sql(1, q{ALTER SYSTEM SET synchronous_standby_names = 'nobody'});
$c->sql(1, 'SELECT pg_reload_conf()');
$c->wait_sql(1, 'SHOW synchronous_standby_names', 'nobody');
is(flushed_after('SET synchronous_commit = local', $work), 'true', 'and where the node has synchronous standbys');
$c->sql(1, 'ALTER SYSTEM RESET synchronous_standby_names');
$c->sql(1, 'SELECT pg_reload_conf()');
$c->wait_sql(1, 'SHOW synchronous_standby_names', '');
$c->sql(1, 'SET lockstep.replicate = off; TRUNCATE here');
wal_writer_goes_on();

# ---------- a crash

# n1 has committed, and told so, what it then has forgotten.  Returns how many it had.
sub forget
{
	my ($how) = @_;
	$c->sql(1, 'SET lockstep.replicate = off; CHECKPOINT');
	stop_wal_writer();
	$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 2') for 1 .. 20;
	my $v = $c->sql(1, 'SELECT v FROM t WHERE id = 2');
	$c->cluster('kill-replicator');
	$c->cluster('kill-node', 1);
	$c->cluster('start-node', 1, '--no-wait');
	my $now = $c->sql(1, 'SELECT v FROM t WHERE id = 2');
	cmp_ok($now, '<', $v, "$how: a server that crashed has forgotten commits, and superusers see that");
	return $v;
}

# Connected as a superuser, as what begins a session would be held.
sub reader
{
	my $s = $c->session(1);
	$s->do('SET SESSION AUTHORIZATION reader');
	return $s;
}

my $v = forget('held');
my $s = reader();
$s->send('SELECT v FROM t WHERE id = 2');
my $copy = reader();
$copy->send('COPY t TO STDOUT');
my $rr = reader();
$rr->send('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 2; COMMIT');
my $writer = reader();
$writer->send('UPDATE t SET v = v + 1 WHERE id = 2');
ok($s->blocked(1) && $copy->blocked(0) && $rr->blocked(0) && $writer->blocked(0), 'readers and writers wait');
ok($c->wait_sql(1, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query ~ '^(SELECT v|COPY|BEGIN|UPDATE)'", 4), 'which is shown');
my $cancelled = reader();
$cancelled->send('SELECT v FROM t WHERE id = 2');
ok($cancelled->blocked(0.2), 'one more');
$c->sql(1, 'SELECT pg_cancel_backend(' . $cancelled->pid . ')');
$cancelled->finish(20);
like($cancelled->error, qr/canceling statement due to user request/, 'can be cancelled');
$c->cluster('start-replicator');
# all are let go at the same time: the writer may be the first
my $seen = join('|', $v, $v + 1);
like($s->finish(30), qr/^(?:$seen)$/, 'the reader gets what was committed');
like($copy->finish(30), qr/^2\t(?:$seen)$/m, 'COPY, too');
like($rr->finish(30), qr/^(?:$seen)$/m, 'REPEATABLE READ, too') or diag($rr->error);
$writer->finish(30);
is($writer->error, '', 'and the writer writes');
is(reader()->query('SELECT v FROM t WHERE id = 2'), $v + 1, 'nobody is held afterwards');
$c->node_logs(1, qr/queries are no longer held after the crash or promotion of this server/, 'which is logged');
$c->same('equal after a crash');

# ---------- the waiting has bounds

$v = forget('bounds');
my @many = map { reader() } 1 .. 12;
$_->send('SELECT v FROM t WHERE id = 2') for @many;
ok($c->wait_until(sub { (grep { !$_->blocked(0) } @many) == 2 }, 20), 'a quarter of max_connections may wait');
my ($refused) = grep { !$_->blocked(0) } @many;
$refused->finish(1);
like($refused->error, qr/this node has not caught up since its server crashed or was promoted.*A quarter of max_connections/s, 'the others are told at once');
$c->sql(1, 'ALTER SYSTEM SET lockstep.recovery_wait = 1000');
$c->sql(1, 'SELECT pg_reload_conf()');
$c->sql(1, 'SELECT pg_terminate_backend(' . $_->pid . ', 5000)') for @many;
$c->wait_sql(1, 'SHOW lockstep.recovery_wait', '1s');
my $begin = time;
$s = reader();
cmp_ok($s->query('SELECT v FROM t WHERE id = 2') || $v, '<', $v, 'without a replicator a node shows what it has after recovery_wait');
cmp_ok(time - $begin, '<', LockstepCluster::soon(20), 'which is bounded');
$c->cluster('start-replicator');
$c->wait_state(1, 'online', 30);
$c->same('equal after it came back');

# the replicator is there, and the node can't catch up
$v = forget('behind');
my $key = $c->session(1);
$key->query('SET lockstep.replicate = off; BEGIN; LOCK TABLE t IN SHARE MODE');
my $late = reader();
$c->order_at(1, 'APPLY_TURN', 'wait');
$c->cluster('start-replicator');
$key->query('ROLLBACK');
ok($c->wait_until(sub { $c->was_there(1, 'APPLY_TURN') }, 30), 'apply stands still');
$late->send('SELECT v FROM t WHERE id = 2');
$late->finish(30);
like($late->error, qr/this node has not caught up since its server crashed or was promoted.*It has applied transaction \d+, and may have forgotten transactions up to \d+/s,
	'a reader of a node that catches up for longer than recovery_wait fails');
$c->let_go(1, 'APPLY_TURN');
$c->wait_state(1, 'online', 60);
is(reader()->query('SELECT v FROM t WHERE id = 2'), $v, 'and gets everything later');
$c->sql(1, 'ALTER SYSTEM RESET lockstep.recovery_wait');
$c->sql(1, 'SELECT pg_reload_conf()');

# a stop is no crash
$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 2');
$c->cluster('kill-replicator');
$c->cluster('restart-node', 1, '--no-wait');
is(reader()->query('SELECT v FROM t WHERE id = 2'), $v + 1, 'a server that was stopped has everything, and holds nobody');
$c->cluster('start-replicator');
$c->wait_state($_, 'online', 30) for 1, 2;

# ---------- decided, not durable yet, and its origin crashes

$v = $c->sql(1, 'SELECT v FROM t WHERE id = 3');
$c->order_at('replicator', 'GROUP_TAKEN', 'wait');
my $first = $c->session(1);
$first->send('UPDATE t SET v = v + 1 WHERE id = 3');
ok($c->wait_until(sub { $c->was_there('replicator', 'GROUP_TAKEN') }, 20), 'a transaction is decided, but not durable');
my $boot = $c->sql(1, 'SELECT boot FROM lockstep.node_info()');
kill 'KILL', $first->pid;
ok($c->wait_until(sub { my ($out) = $c->try(1, 'SELECT boot FROM lockstep.node_info()'); $out ne '' && $out ne $boot }, 20), 'a backend of its origin was killed, the server starts anew');
my ($told, $until) = (0, time + LockstepCluster::soon(10));
while (time < $until && $told < 10)
{
	my (undef, $error) = $c->try(1, "SET statement_timeout = '1s'; SET lockstep.failover_wait = 0; UPDATE t SET v = v + 1 WHERE id = 3");
	last if $error !~ /57P03|57014/;	# it may be too slow even to be refused
	usleep(50_000);
	$told++ if $error =~ /57P03/;
}
cmp_ok($told, '>', 3, 'no transaction begins there that does not see it');
$c->let_go('replicator', 'GROUP_TAKEN');
ok($c->wait_state(1, 'online', 30), 'then the node comes back');
$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 3');
$c->drain;
is($c->sql(2, 'SELECT v FROM t WHERE id = 3'), $v + 2, 'no update is lost');
$c->same('equal at the end');
done_testing;
