# A server that ran without lockstep - not preloaded, or without a node's name - and took writes is
# not attached again as if nothing had happened: whether that run ended cleanly or by a
# crash, and whatever ended the run before it.  One that wrote nothing is.  Crashes of a node itself
# are no such run.  Nor is one attached whose WAL was reset after a crash.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1, replicator_conf => "reconnect_interval = 200ms\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, \'all\')');
$c->drain;

sub conf_without
{
	my ($node, $line) = @_;
	my $path = $c->pgdata($node) . '/postgresql.auto.conf';
	$c->run_owned('sh', '-c', "echo \"$line\" >> $path");
	return;
}
sub conf_with
{
	my ($node) = @_;
	$c->run_owned('sed', '-i', '/^shared_preload_libraries\|^lockstep.node_name/d', $c->pgdata($node) . '/postgresql.auto.conf');
	return;
}
sub plain { my ($sql) = @_; return $c->psql_says($c->port(1), 'app', $sql) }
sub start { $c->cluster('start-node', 1, '--no-wait') }
sub is_out { my ($name) = @_; ok($c->wait_until(sub { $c->reason(1) =~ /has run without lockstep .* may hold changes that no other node has: lockstepctl verify --repair n1, or clone it anew/ }, 30), $name) or diag($c->reason(1)); return }
sub is_online { my ($name) = @_; ok($c->wait_until(sub { $c->node_status(1)->{state} eq 'online' }, 30), $name) or diag($c->reason(1)); return }

# A run without lockstep that does this, and ends like that.
sub run_without
{
	my ($line, $sql, $end) = @_;
	conf_without(1, $line);
	start();
	my $says = plain($sql);
	diag($says) if $says =~ /ERROR/;
	$c->cluster("$end-node", 1);
	conf_with(1);
	start();
	return;
}

# ---------- the node's own crashes

$c->cluster('kill-node', 1);
start();
is_online('a server that was killed is attached again');
kill 'KILL', $c->session(1)->pid;
$c->wait_until(sub { $c->node_log(1) =~ /all server processes terminated; reinitializing/ });
is_online('one whose backend was killed, too');
$c->cluster('kill-node', 1);
start();
$c->cluster('kill-node', 1);
start();
is_online('and one that is killed as soon as it has started, again and again');

# nor one that is killed when it has recovered, before anybody else does anything there
$c->sql(1, 'UPDATE t SET v = \'all\'');
$c->cluster('stop-replicator');
conf_without(1, 'max_worker_processes = 0');
for (1, 2)
{
	$c->cluster('kill-node', 1);
	start();
	ok($c->wait_until(sub { plain('CHECKPOINT') eq '' }), 'it has recovered, and written a checkpoint');
}
$c->cluster('start-replicator', '--no-wait');
is_online('and one that is killed after a checkpoint');
$c->run_owned('sed', '-i', '/^max_worker_processes/d', $c->pgdata(1) . '/postgresql.auto.conf');
$c->cluster('stop-node', 1);
start();
is_online('one that was stopped, of course');

# nor one that is killed as it starts its processes anew, when temporary files have been removed
plain('CHECKPOINT');
$c->set(1, 'lockstep_fault.die_on_message', q{'all server processes terminated; reinitializing'});
my $postmaster = $c->postmaster_pid(1);
kill 'KILL', $c->session(1)->pid;
ok($c->wait_until(sub { $c->is_gone($postmaster) }, 20), 'its postmaster has died');
$c->cluster('kill-node', 1);
ok(unlink($c->pgdata(1) . '/base/pgsql_tmp/pgsql_tmp.lockstep'), 'there was a marker');
$c->run_owned('sed', '-i', '/^lockstep_fault/d', $c->pgdata(1) . '/lockstep.conf');
start();
is_online('and one that is killed while it starts its processes anew');

# nor one that is killed behind its last checkpoint, which is the first of a segment as WAL is archived
my $archived = "$c->{top}/archived";
conf_without(1, "archive_mode = on\narchive_command = 'while [ ! -e $archived ]; do sleep 0.1; done'");
$c->cluster('restart-node', 1);
$c->sql(1, "UPDATE t SET v = 'all'");
kill 'INT', $c->postmaster_pid(1);
ok($c->wait_until(sub { ($c->run_owned("$LockstepCluster::bindir/pg_controldata", '-D', $c->pgdata(1)))[1] =~ /state: +shut down$/m }), 'its shutdown checkpoint is written');
$c->cluster('kill-node', 1);
$c->file('archived', '');
$c->run_owned('sed', '-i', '/^archive_/d', $c->pgdata(1) . '/postgresql.auto.conf');
start();
is_online('one that is killed between its shutdown checkpoint and its end');

# ---------- nothing was written

$c->cluster('stop-node', 1);
run_without("shared_preload_libraries = ''", 'SELECT count(*) FROM t', 'stop');
is_online('a run without lockstep that only read does not count');

# ---------- writes, and a clean end

$c->cluster('stop-node', 1);
run_without("shared_preload_libraries = ''", "INSERT INTO t VALUES (100, 'only n1')", 'stop');
is_out('one that wrote does');
is($c->node_status(1)->{cause} // 'outside_run', 'outside_run', 'by name');
$c->sql(2, "INSERT INTO t VALUES (2, 'all')");
pass('the others go on');
$c->cluster('restart-node', 1, '--no-wait');
is_out('it is known after a restart, too');
my ($out, $err, $rc) = $c->ctl('verify', '--repair=n1');
is($rc, 0, 'verify --repair makes it what the others are') or diag($out, $err);
is_online('and it is attached');
is($c->sql(1, 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM t'), '1,2', 'without what it had written alone');
$c->same('equal');

# ---------- writes, and a crash; after a crash of the node

$c->cluster('kill-node', 1);
run_without("lockstep.node_name = ''", "INSERT INTO t VALUES (101, 'only n1')", 'kill');
is_out('after a crash, and one of its own');
$c->psql_says($c->port(1), 'app', 'SET lockstep.replicate = off; DELETE FROM t WHERE id = 101; SELECT lockstep.clear_outside_run()');
is_online('a superuser who has settled that says so');
$c->same('equal');

# ---------- writes, and a crash before any checkpoint; after a clean end of the node

$c->cluster('stop-node', 1);
run_without("shared_preload_libraries = ''", "INSERT INTO t VALUES (103, 'only n1')", 'kill');
is_out('after a clean end, and a crash without it');
$c->psql_says($c->port(1), 'app', 'SET lockstep.replicate = off; DELETE FROM t WHERE id = 103; SELECT lockstep.clear_outside_run()');
is_online('settled');

# ---------- in single-user mode, after a crash

$c->cluster('kill-node', 1);
unlink $c->pgdata(1) . '/postmaster.pid';
$c->run_owned('sh', '-c', "echo \"INSERT INTO t VALUES (102, 'only n1')\" | $LockstepCluster::bindir/postgres --single -D " . $c->pgdata(1) . " -c shared_preload_libraries='' app");
start();
is_out('by single-user mode, which ended cleanly');
($out, $err, $rc) = $c->ctl('verify', '--repair=n1');
is($rc, 0, 'it is repaired') or diag($out, $err);
is_online('and attached');
$c->same('equal');

# ---------- its WAL is reset

sub reset_wal
{
	my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/pg_resetwal", @_, '-D', $c->pgdata(1));
	is($rc, 0, "pg_resetwal @_") or diag($out);
	return;
}

plain('CHECKPOINT');
$c->cluster('stop-node', 1);
reset_wal();
start();
is_online('after a clean end, of which nothing was lost');
plain('CHECKPOINT');
$c->cluster('kill-node', 1);
unlink $c->pgdata(1) . '/postmaster.pid';
reset_wal('-f');
start();
my $reset = qr/the write-ahead log of this server was reset \(pg_resetwal\) after it had crashed as node "n1", .*: clone it anew \(lockstepctl join\)/;
ok($c->wait_until(sub { $c->reason(1) =~ $reset }, 30), 'after a crash it is not attached: which of its pages are older than its progress is not known') or diag($c->reason(1));
$c->sql(2, "INSERT INTO t VALUES (3, 'all')");
$c->cluster('restart-node', 1, '--no-wait');
ok($c->wait_until(sub { $c->node_log(1) =~ /was reset.*was reset/s && $c->reason(1) =~ $reset }, 30), 'nor after a restart') or diag($c->reason(1));
plain('SELECT lockstep.clear_outside_run()');
is_online('a superuser has the last word');
$c->same('equal');

# ---------- and again

$c->cluster('stop-node', 1);
start();
is_online('in the end');
$c->same('equal');
done_testing;
