# A database that belongs to a cluster can't be taken out of it unnoticed: its extension is dropped by nobody and in no way
# while it is replicated; a node on which somebody forced it is found out within seconds, and dropped with what was found;
# and lockstepctl database drop, and a server that has left its cluster, can still do it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IPC::Run ();
use LockstepCluster;
use POSIX ();
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, \'a\'); CREATE ROLE other SUPERUSER');

# ---------- refused, by every way

my $refused = qr/cannot drop the extension lockstep in a database that belongs to a cluster|cannot run .* on a node/;
for my $way (
	[ 'DROP EXTENSION' => 'DROP EXTENSION lockstep' ],
	[ 'IF EXISTS' => 'DROP EXTENSION IF EXISTS lockstep' ],
	[ 'CASCADE' => 'DROP EXTENSION lockstep CASCADE' ],
	[ 'of a schema' => 'DROP SCHEMA lockstep CASCADE' ],
	[ 'in a transaction' => 'BEGIN; SAVEPOINT s; DROP EXTENSION lockstep; COMMIT' ],
	[ 'with others' => 'DROP EXTENSION lockstep, plpgsql' ],
	[ 'by another superuser' => 'SET ROLE other; DROP EXTENSION lockstep' ],
	[ 'of what somebody owns' => 'DROP OWNED BY postgres CASCADE' ],
	[ 'in a function' => 'DO $$ BEGIN DROP EXTENSION lockstep; END $$' ],
	[ 'in a function that catches errors' => 'DO $$ BEGIN DROP EXTENSION lockstep; EXCEPTION WHEN syntax_error THEN NULL; END $$' ],
	[ 'by an event trigger' => <<'SQL' ],
BEGIN;
CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN DROP EXTENSION lockstep CASCADE; END $$;
CREATE EVENT TRIGGER e ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION e();
CREATE TABLE never ();
COMMIT
SQL
	[ 'locally' => 'SET lockstep.replicate = off; DROP EXTENSION lockstep' ],
	[ 'locally, the schema' => 'SET lockstep.replicate = off; DROP SCHEMA lockstep CASCADE' ],
	[ 'locally, of what somebody owns' => 'SET lockstep.replicate = off; REASSIGN OWNED BY postgres TO other; DROP OWNED BY other CASCADE' ],
	[ 'locally, piece by piece' => 'SET lockstep.replicate = off; BEGIN; ALTER EXTENSION lockstep DROP TABLE lockstep.cluster; DROP TABLE lockstep.cluster' ],
	[ 'locally, a function' => 'SET lockstep.replicate = off; BEGIN; ALTER EXTENSION lockstep DROP FUNCTION lockstep.node_info(); DROP FUNCTION lockstep.node_info()' ])
{
	my ($name, $sql) = @$way;
	$c->fails(2, $sql, '0A000|2BP01', qr/$refused|cannot drop|cannot reassign/, "refused: $name");
}
$c->fails(2, 'SELECT lockstep.leave_cluster()', '55006', qr/is being replicated/, 'it does not leave while it is replicated');
$c->fails(2, "SET ROLE pg_monitor; SELECT lockstep.leave_cluster()", '42501', qr/permission denied/, 'nor at anybody\'s wish');
$c->sql(2, "INSERT INTO t VALUES (2, 'b')");
$c->same('the node replicates as before');

# ---------- pg_restore of its own dump

my $dump = "$c->{top}/dump";
IPC::Run::run([ $c->client(2, 'pg_dump'), '-Fc', '-f', $dump, 'app' ]) or die('pg_dump failed');
my $out = '';
IPC::Run::run([ $c->client(2, 'pg_restore'), '--clean', '--if-exists', '-d', 'app', $dump ], '>&', \$out);
isnt($? >> 8, 0, 'pg_restore --clean of a node\'s own dump says that it failed');
like($out, qr/cannot drop the extension lockstep|cannot run DROP SCHEMA/, 'and why');
is($c->node_status(2)->{state}, 'online', 'the node is as it was');
$c->sql(2, "INSERT INTO t VALUES (3, 'c')");
$c->same('and replicates what was restored, and what comes then');
is($c->sql(3, 'SELECT count(*) FROM t'), 3, 'on all nodes');

# ---------- forced: it is found out

my $log = length $c->replicator_log;
$c->sql_local(3, 'DELETE FROM lockstep.cluster; DROP EXTENSION lockstep');
ok($c->wait_until(sub { substr($c->replicator_log, $log) =~ /\[n3\] node .*: database "app" .* any more/ }, 10),
	'a node whose database has left is dropped, with the reason') or diag($c->replicator_log);
$c->sql(1, "INSERT INTO t VALUES (4, 'd')");
ok($c->wait_until(sub { $c->reason(3) =~ /does not have the extension lockstep/ }, 10), 'status says why it stays out') or diag($c->reason(3));
$log = length $c->replicator_log;
my $cluster = $c->sql(2, 'SELECT cluster FROM lockstep.cluster');
$c->sql_local(2, 'DELETE FROM lockstep.cluster');
ok($c->wait_until(sub { substr($c->replicator_log, $log) =~ /\[n2\] node .*: database "app" does not belong to this cluster any more/ }, 10),
	'so is one whose database belongs to no cluster');
$c->sql_local(2, "INSERT INTO lockstep.cluster VALUES ('$cluster')");
ok($c->wait_state(2, 'online', 20), 'it comes back when that is mended');
$c->same('with all that it missed', nodes => [ 1, 2 ]);

# ---------- the connection over which it is asked is lost, again and again

my $replicator = $c->replicator_pid;
for (1 .. 5)
{
	my $old = $c->sql(2, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE query ~ 'lockstep.cluster LIMIT 1' AND pid <> pg_backend_pid()");
	$c->sql(2, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ 'lockstep.cluster LIMIT 1' AND pid <> pg_backend_pid()");
	ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'lockstep.cluster LIMIT 1' AND pid NOT IN (pg_backend_pid(), $old)") eq '1' }, 10),
		'another one is opened');
}
$c->ctl('drop', 'n2');
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online', 20), 'n2 goes and comes');
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE query ~ 'lockstep.cluster LIMIT 1' AND pid <> pg_backend_pid()") eq '1' }, 10),
	'it is asked again');
is($c->replicator_pid, $replicator, 'by the same replicator');

# ---------- what is to go, goes

$c->ctl('drop', 'n2');
$c->fails(2, 'DROP EXTENSION lockstep', '0A000', $refused, 'not by a node\'s being dropped alone');
$c->leave_cluster(2);
$c->sql(2, 'DROP EXTENSION lockstep');
$c->sql(2, "INSERT INTO t VALUES (5, 'alone')");
pass('a server that has left its cluster goes on alone');

# While n1 takes no connections, n3, which has lost its extension, comes back.
my $postmaster = $c->postmaster_pid(1);
kill 'STOP', $postmaster;
my $pid = fork // die;
if ($pid == 0)
{
	POSIX::_exit(($c->ctl('database', 'drop', 'app'))[2]);
}
ok($c->wait_state(3, 'online', 20), 'lockstepctl database drop: a node without the extension comes back');
kill 'CONT', $postmaster;
waitpid $pid, 0;
is($?, 0, 'lockstepctl database drop');
is($c->sql(1, "SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'"), 0, 'drops the extension');
$c->sql(1, "INSERT INTO t VALUES (5, 'alone'); CREATE EXTENSION lockstep; DROP EXTENSION lockstep");
pass('where it belongs to no cluster it comes and goes as any other');
done_testing();
