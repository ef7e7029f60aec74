# A COMMIT that has asked when the replicator ends: after its restart the client gets the outcome,
# not 08007.  If it was decided, the verdict comes by the apply session of the client's own node; if
# not, the replicator says so.  What cannot be known in lockstep.failover_wait is 08007.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE d (id int)');
$c->drain;
my $s = $c->session(1);
my $id = 0;

sub asked_when_it_ends
{
	my ($point, $statement) = @_;
	$s->query("BEGIN; $statement");
	$c->order_at('replicator', $point, 'kill');
	$s->send('COMMIT');
	ok($c->wait_until(sub { !kill 0, $c->replicator_pid }, 20), "the replicator ends at $point");
	ok($s->blocked(0.3), 'the client waits');
	$c->cluster('start-replicator');
	$s->finish(20);
}

# ---------- decided and durable

for my $point ('GROUP_DURABLE', 'DURABLE', 'VERDICT_GIVEN')
{
	$id++;
	asked_when_it_ends($point, "INSERT INTO t VALUES ($id, '$point')");
	is($s->error, '', 'a durable transaction is committed');
	is($c->sql(1, "SELECT v FROM t WHERE id = $id"), $point, 'by its own backend');
	ok($c->wait_sql(2, "SELECT v FROM t WHERE id = $id", $point), 'and by the other node');
}
asked_when_it_ends('DURABLE', 'ALTER TABLE d ADD COLUMN more int; INSERT INTO d VALUES (1, 2)');
is($s->error, '', 'one with DDL, too');
asked_when_it_ends('DURABLE', "INSERT INTO t SELECT i, repeat(md5(i::text), 1000) FROM generate_series(1000, 1100) i");
is($s->error, '', 'a large one, too');
unlike(join('', map { $c->node_log($_) } $c->all), qr/in doubt|08007/, 'nothing is in doubt');

# ---------- not durable

for my $point ('QUESTION', 'EXECUTED', 'DECIDED', 'GROUP_TAKEN')
{
	asked_when_it_ends($point, "INSERT INTO t VALUES (50, '$point')");
	LockstepCluster::is_error($s->error, '40001', qr/rolled back on all nodes.*HINT:.*retried/s, 'one that never was decided is rolled back');
	is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 50'), 0, 'everywhere');
}

# ---------- it cannot be known

$s->query("SET lockstep.failover_wait = '300ms'");
$s->query("BEGIN; INSERT INTO t VALUES (60, 'x')");
$c->order_at('replicator', 'DURABLE', 'kill');
$s->query('COMMIT', 20);
LockstepCluster::is_error($s->error, '08007', qr/lockstep\.outcome/, 'no replicator for longer than failover_wait');
my ($token) = $s->error =~ /lockstep\.outcome\('([^']+)'\)/;
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online") for $c->all;
is($c->sql(2, "SELECT lockstep.outcome('$token')"), 'committed', 'it was committed');
$s->query("SET lockstep.failover_wait = '1min'");
$s->query("BEGIN; INSERT INTO t VALUES (62, 'x')");
$c->order_at('replicator', 'DURABLE', 'kill');
$s->send('COMMIT');
ok($c->wait_until(sub { !kill 0, $c->replicator_pid }, 20), 'once more');
ok($s->blocked(0.2), 'the client waits');
$c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')');
$s->finish(20);
LockstepCluster::is_error($s->error, '08007', qr/outcome/, 'a cancel ends the wait: it is not known');
$c->cluster('start-replicator');
ok($c->wait_sql($_, 'SELECT v FROM t WHERE id = 62', 'x'), "n$_ has it") for $c->all;

$c->drain;
$c->same('the nodes are equal');
done_testing;
