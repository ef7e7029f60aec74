# A cluster as docs/operating.md sets it up: the replicator is started while no database
# is replicated, and the first one is added then.  The first write of each node is taken,
# nobody is dropped, and what the control connection does (heartbeats, who is in the way)
# is done in that database.  Then a second one, a restart, metrics, the rotation of the log.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "databases = ''\n");
is_deeply($c->status->{databases}, [], 'no database is replicated');
is($c->node_status($_)->{state}, 'online', "n$_ is online") for $c->all;
$c->sql(1, 'CREATE EXTENSION lockstep', db => 'postgres');
$c->fails(1, 'CREATE TABLE x (id int)', '55000', qr/database "postgres" is not replicated.*HINT:.*lockstepctl database add/s,
	'one that has the extension, made by hand, is told what to do', db => 'postgres');
my (undef, $err, $rc) = $c->ctl('database', 'add', 'shop');
is($rc, 0, 'the first one is added') or diag($err);

for my $node ($c->all)
{
	my ($out, $e) = $c->try($node, "CREATE TABLE t$node (id int PRIMARY KEY)", db => 'shop');
	is($e, '', "n$node takes its first write");
}
unlike($c->replicator_log, qr/was dropped/, 'no node is dropped');

# Each node hears how far the cluster is, through the control connection.
for my $node ($c->all)
{
	ok($c->wait_until(sub { $c->sql($node, "SELECT lockstep.staleness() < interval '5s'", db => 'shop') eq 't' }), "heartbeats come to n$node");
}

# A transaction of another node that is idle is in the way of DDL: it is found and yields.
my $s = $c->session(2, db => 'shop');
$c->drain;
$s->do("BEGIN; INSERT INTO t1 VALUES (20)");
$c->sql(1, 'ALTER TABLE t1 ADD COLUMN w int', db => 'shop');
$s->query('COMMIT');
like($s->error, qr/40001/, 'who is in the way yields');
unlike($c->replicator_log, qr/could not ask/, 'the replicator asks where it is answered');

# The last one goes, and comes again.
(undef, $err, $rc) = $c->ctl('database', 'drop', 'shop');
is($rc, 0, 'the only database is dropped') or diag($err);
(undef, $err, $rc) = $c->ctl('database', 'add', 'shop');
is($rc, 0, 'and added again') or diag($err);
$c->sql($_, "INSERT INTO t1 VALUES (100 + $_)", db => 'shop') for $c->all;
unlike($c->replicator_log, qr/was dropped|could not ask/, 'no node is dropped');
$c->same('all nodes are equal', db => 'shop');

# ---------- a second one, and what an operator does then: status, metrics, the log after a rotation

$c->sql_local($_, 'DROP DATABASE app', db => 'postgres') for $c->all;

(undef, $err, $rc) = $c->ctl('database', 'add', 'app');
is($rc, 0, 'another database is added, which no server has') or diag($err);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
$c->sql(2, 'INSERT INTO t VALUES (1)');
pass('and written to at once, on each node');
$c->same('it is replicated');
unlike($c->replicator_log, qr/was dropped/, 'no node was dropped meanwhile');

ok($c->wait_sql($_, 'SELECT lockstep.staleness() IS NOT NULL', 't'), "n$_ hears how far the cluster is") for $c->all;

# A server that restarts is found out as ever.
$c->cluster('restart-node', 1);
ok($c->wait_state(1, 'online', 30), 'a node restarts');
$c->sql(1, 'INSERT INTO t VALUES (2)');
$c->same('and goes on');

my ($out) = $c->ctl('metrics');
like($out, qr/^lockstep_node_state\{node="n2",state="online"\} 1$/m, 'metrics: a state');
like($out, qr/^lockstep_committed_total \d+$/m, 'metrics: a counter');
my @wrong = grep { !/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{[^}]*\})? -?\d+)$/ } split /\n/, $out;
is_deeply(\@wrong, [], 'metrics: each line is one of the format');

my $log = "$c->{dir}/replicator.log";
rename($log, "$log.1") or die;
$c->ctl('reload');
kill 'HUP', $c->replicator_pid;
ok($c->wait_until(sub { -e $log && LockstepCluster::_slurp($log) =~ /configuration reloaded/ }), 'SIGHUP opens the log anew after its rotation');

done_testing;
