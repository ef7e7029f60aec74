# A database that is added may be in use: lockstepctl database add sees to it that what was written before
# capture began has to be over, and a database that could not be added is left
# as it was, open for writes.  A server that does not answer while it is looked
# at holds nothing up; one that has much to read is waited for.  The names of
# hosts may be names.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepPoints->new(nodes => 2, replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\nreconnect_interval = 200ms\n");
my @psql = map { my $n = $_; sub { $c->sql($n, $_[0], db => $_[1] // 'other') } } 0, 1, 2;

sub make_other
{
	for my $n (1, 2)
	{
		$c->sql($n, 'DROP DATABASE IF EXISTS other WITH (FORCE)', db => 'postgres', options => '-c lockstep.replicate=off');
		$c->sql($n, 'CREATE DATABASE other', db => 'postgres', options => '-c lockstep.replicate=off');
		$psql[$n]->('CREATE TABLE t (id int)');
	}
}

# In the background: its result when it is read.
sub add_start { open(my $f, '-|', "$LockstepCluster::bindir/lockstepctl --socket $c->{dir}/admin.sock --json database add other 2>&1") or die; return $f }
sub add_result { my ($f) = @_; local $/; my $text = <$f>; close $f; return $text }

# ---------- nodes commit meanwhile: one may have applied more than its answer says

make_other();
$c->sql(1, 'CREATE TABLE meanwhile (id int)');
$c->order_at(2, 'TURN_OPENED', 'wait');
my $add = add_start();
ok($c->wait_until(sub { $c->was_there(2, 'TURN_OPENED') }), 'the second node has been asked how far it is');
$c->sql(1, 'INSERT INTO meanwhile VALUES (1)');
$c->drain;
$c->let_go(2, 'TURN_OPENED');
like(add_result($add), qr/"ok": ?true/, 'the database is added');
$c->ctl('database', 'drop', 'other');

# ---------- a transaction that began before

make_other();
my $writer = $c->session(1, db => 'other');
$writer->do('BEGIN; INSERT INTO t VALUES (1)');
$add = add_start();
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'", db => 'other') == 1 }, 10), 'the extension is there');
usleep(300_000);
is($c->sql(1, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%fingerprint()%' AND application_name = 'lockstep control' AND datname = 'other'", db => 'postgres'), 0,
	'its content is not read while a transaction that began before may write');
$writer->do('ROLLBACK');
like(add_result($add), qr/"ok": true/, 'added when it is over');
$psql[1]->('INSERT INTO t VALUES (2)');
$c->same('replicated', db => 'other');
$c->ctl('database', 'drop', 'other');

# it has committed what the other node does not have
make_other();
$writer = $c->session(1, db => 'other');
$writer->do('BEGIN; INSERT INTO t VALUES (1)');
$add = add_start();
$c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'", db => 'other') == 1 }, 10);
$writer->do('COMMIT');
like($writer->error . add_result($add), qr/content is not the same on all nodes: node \\"n2\\" differs in rows public\.t/, 'what it commits is seen');

# ---------- and the database is as it was

is($psql[$_]->("SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'"), 0, "failed add: no extension on n$_") for 1, 2;
$psql[1]->('INSERT INTO t VALUES (3)');
is($psql[1]->('SELECT count(*) FROM t'), 2, 'failed add: the database takes writes');

# one that does not end is named
make_other();
$writer = $c->session(2, db => 'other');
$writer->do('BEGIN; INSERT INTO t VALUES (1)');
my $pid = $writer->pid;
like(add_result(add_start()), qr/n2.*a transaction that may have written before.*end that of process $pid/, 'one that does not end is named');
$writer->do('COMMIT');
is($psql[$_]->("SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'"), 0, "no extension on n$_") for 1, 2;

# a reader is in nobody's way
make_other();
my $reader = $c->session(1, db => 'other');
$reader->do('BEGIN; SELECT count(*) FROM t');
like(add_result(add_start()), qr/"ok": true/, 'a transaction that only reads is not waited for');
$reader->do('COMMIT');
$c->ctl('database', 'drop', 'other');

# ---------- reading takes longer than node_timeout

make_other();
$psql[$_]->('INSERT INTO t SELECT g FROM generate_series(1, 1200000) g') for 1, 2;
my $start = time;
like(add_result(add_start()), qr/"ok": true/, 'a large database is added');
diag(sprintf('reading took %.1f s', time - $start));
$c->ctl('database', 'drop', 'other');
my @stopped;
# (The server itself looks every 2 ms, and stops who reads: the reading may take less than a second.)
my $watch = $c->session(2, db => 'postgres');
$watch->send(<<'SQL');
DO $$
DECLARE
	reader int;
BEGIN
	FOR i IN 1 .. 10000 LOOP
		PERFORM pg_stat_clear_snapshot();
		SELECT pid INTO reader FROM pg_stat_activity WHERE query LIKE '%FROM lockstep.fingerprint()%' AND state = 'active'
			AND application_name = 'lockstep control';
		IF FOUND THEN
			EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'cat > /dev/null; kill -STOP ' || reader);
			RETURN;
		END IF;
		PERFORM pg_sleep(0.002);
	END LOOP;
	RAISE 'not seen';
END$$
SQL
ok($watch->blocked(0.1), 'it looks');
$add = add_start();
$watch->finish;
@stopped = $c->server_pids(2);
kill 'STOP', @stopped;
is($watch->error, '', 'stopped while it is read');
$start = time;
like(add_result($add), qr/n2.*(does not answer|lost the connection|is not online)/, 'a server that stops while it is read is noticed');
cmp_ok(time - $start, '<', 50, 'in time');
kill 'CONT', @stopped;
ok($c->wait_state(2, 'online', 20), 'it comes back');

# ---------- hosts by name

my $conf = "$c->{dir}/replicator.conf";
open(my $f, '<', $conf) or die;
my $text = do { local $/; <$f> };
close $f;
ok($text =~ s/host=127\.0\.0\.1/host=localhost/g, 'the nodes are called by a name');
open($f, '>', $conf) or die;
print $f $text;
close $f;
$c->cluster('restart-replicator');
ok($c->wait_state($_, 'online', 20), "n$_ is found by name") for 1, 2;
$c->sql(1, 'CREATE TABLE named (id int); INSERT INTO named VALUES (1)');
$c->same('equal in the end');

done_testing;
