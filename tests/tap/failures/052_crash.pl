# Nodes that are killed, as by a crash of their machine, come back and catch up,
# whether they were peers or origins, idle or under load; one that hangs is waited
# for only so long.  The others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE once (id int)');
$c->drain;

# ---------- a node is killed

$c->cluster('kill-node', 3);
my $start = time;
$c->sql(1, 'INSERT INTO t VALUES (20)');
cmp_ok(time - $start, '<', LockstepCluster::soon(40), 'a node that is killed does not hold up the others for long');
ok($c->wait_state(3, 'dropped'), 'it is dropped');
$c->sql(2, "INSERT INTO t SELECT i FROM generate_series(1000, 1999) i");
ok($c->cluster('restart-node', 3), 'it comes back by itself when its server runs again');
$c->same('and catches up');

# Killed under load, again and again.
my $script = $c->file('load.sql', "\\set id random(100000, 100000000)\nINSERT INTO t VALUES (:id) ON CONFLICT DO NOTHING;\nINSERT INTO once VALUES (:id);\n");
my @load = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 2, '-T', 600, '--max-tries=1000') } 1, 2;
for (1 .. 2)
{
	$c->cluster('kill-node', 3);
	usleep(300_000);
	$c->cluster('start-node', 3);
}
for my $node (1, 2)
{
	$load[$node - 1]{handle}->signal('TERM');		# not before the node has been back twice
	eval { $load[$node - 1]{handle}->finish };
	unlike(${ $load[$node - 1]{text} }, qr/aborted/, "load on n$node does not notice") or diag(${ $load[$node - 1]{text} });
}
ok($c->wait_state(3, 'online'), 'online after having been killed under load');
$c->same('and equal: everything was applied once');

# The origin is killed while its clients commit.
@load = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 4, '-T', 4, '--max-tries=1000') } 1, 2;
usleep(1_500_000);
$c->cluster('kill-node', 1);
$_->{handle}->finish for @load;
unlike(${ $load[1]{text} }, qr/aborted/, 'the origin is killed: load on the other node goes on') or diag(${ $load[1]{text} });
ok($c->cluster('start-node', 1) && $c->wait_state(1, 'online'), 'the killed origin comes back');
$c->same('the killed origin is equal');

# A node that hangs.
my @pids = $c->server_pids(3);
kill 'STOP', @pids;
$start = time;
$c->sql(1, 'INSERT INTO t VALUES (30)');
cmp_ok(time - $start, '<', LockstepCluster::soon(40), 'a node that hangs is waited for only so long');
ok($c->wait_state(3, 'dropped'), 'then it is dropped');
kill 'CONT', @pids;
ok($c->wait_state(3, 'online'), 'it comes back when it goes on') or $c->ctl('attach', 'n3');
$c->same('after it hung');

done_testing;
