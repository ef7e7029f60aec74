# What the replicator must live with: a backend that holds its turn and never
# commits, and a database that is dropped and added anew while a node is out; a
# clean stop under load.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;

# ---------- a backend that has its verdict and does not move

my @held = $c->apply_pids(2);
kill STOP => @held;
my $s = $c->session(1);
my $backend = $s->query('SELECT pg_backend_pid()') =~ /(\d+)/ ? $1 : die 'no pid';
$s->send('INSERT INTO t VALUES (1)');
$c->wait_sql(1, "SELECT count(*) > 0 FROM lockstep.waits WHERE pid = $backend", 't');	# it has asked
kill STOP => $backend;
kill CONT => @held;
ok($c->wait_sql(2, 'SELECT count(*) FROM t', 1), 'it is committed on the other node');
ok($c->wait_until(sub { $c->node_status(1)->{state} ne 'online' }, 15), 'the node whose turn stands still is dropped');
$c->replicator_logs(qr/has not committed seq/, 'with that reason');
$c->sql(2, 'INSERT INTO t VALUES (2)');
kill CONT => $backend;
$s->finish;
ok($c->wait_state(1, 'online'), 'it comes back when the backend goes on');
$c->same('and has everything once');

# ---------- a database of the same name

$c->ctl('database', 'add', 'again');
# The backend that was stopped has left a doubt on n1: what ran meanwhile fails
# with 40001, once.
my (undef, $error) = $c->try(1, 'CREATE TABLE former (i int)', db => 'again');
like($error, qr/^(ERROR:\s+40001: .* whose outcome was in doubt|$)/m, 'the first to come may meet the doubt');
$c->sql(1, 'CREATE TABLE former (i int)', db => 'again') if $error ne '';
$c->drain;
$c->sql(2, 'CHECKPOINT');	# what it has applied is not lost with it
$c->cluster('kill-node', 2);
$c->wait_state(2, 'dropped');
$c->sql(1, 'INSERT INTO former VALUES (1)', db => 'again');
my ($said, $warning) = $c->ctl('database', 'drop', 'again');
like("$said$warning", qr/node "n2" is not online, and will lack what was changed in this database.*roles.*lockstepctl verify/s, 'the operator is told what that node will lack');
$c->sql_local(1, 'DROP DATABASE again');
$c->ctl('database', 'add', 'again');
$c->sql(1, 'CREATE TABLE latter (i int)', db => 'again');
{
	local $ENV{LOCKSTEP_CLUSTER_TIMEOUT} = 3;
	$c->cluster('start-node', 2);
}
ok($c->wait_until(sub { $c->reason(2) =~ /dropped and added anew/ }, 15),
	'a node that has the former one of that name is not attached');
$c->sql_local(2, 'DROP DATABASE again WITH (FORCE)');
$c->sql_local(2, 'CREATE DATABASE again');
$c->sql_local(2, 'CREATE EXTENSION lockstep', db => 'again');
ok($c->wait_state(2, 'online'), 'it is when that has been made anew');
$c->drain;
is($c->sql(2, "SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'public'::regnamespace", db => 'again'),
	'latter', 'and nothing of the former one gets into it');
$c->cluster('restart-node', 2);
is($c->node_status(2)->{state}, 'online', 'after a restart, too');

done_testing;
