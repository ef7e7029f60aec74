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

my $c = LockstepPoints->new(nodes => 2, conf => "lockstep.failover_wait = 60s\n");	# a busy machine needs longer than the default to start a replicator
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
unlike(join('', map { $c->node_log($_) } $c->all), qr/in doubt|\b08007\b/, 'nothing is in doubt');

# ---------- not durable

for my $point ('QUESTION', 'EXECUTED', 'DECIDED', 'GROUP_TAKEN')
{
	asked_when_it_ends($point, "INSERT INTO t VALUES (50, '$point')");
	LockstepCluster::is_error($s->error, '40001', qr/rolled back on all nodes.*HINT:.*retried/s, 'one that never was decided is rolled back');
	is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 50'), 0, 'everywhere');
}

# ---------- its verdict was there, and its turn was not, when the replicator ended; or it is in the way of what comes first

# n1 does not apply while this is done, and so has not a transaction of n2; then the replicator is another one.
my @stopped;
sub behind
{
	my ($before, $meanwhile) = @_;
	@stopped = $c->apply_pids(1);
	kill STOP => @stopped;
	$c->sql(2, "SET lockstep.commit_wait = ordered; $before");
	$meanwhile->();
	ok($c->wait_until(sub { !kill 0, $c->replicator_pid }, 20), 'the replicator ends');
}

$c->sql(1, "INSERT INTO t VALUES (70, 'n1'), (71, 'n1')");
$c->drain;
behind("UPDATE t SET v = 'n2' WHERE id = 70",
	sub
	{
		$s->query("SET lockstep.commit_wait = ordered; BEGIN; UPDATE t SET v = 'after n2' WHERE id = 71");
		$c->order_at(1, 'PROGRESS', 'wait');
		$s->send('COMMIT');
		ok($c->wait_until(sub { $c->was_there(1, 'PROGRESS') }, 10), 'a transaction that is decided waits for its turn');
		$c->let_go(1, 'PROGRESS');
		$c->cluster('kill-replicator');
	});
$c->cluster('start-replicator');
$s->finish(20);
is($s->error, '', 'another replicator leads, and has it, too: it is committed');
kill CONT => @stopped;
is($c->sql(1, "SELECT string_agg(v, ', ' ORDER BY id) FROM t WHERE id IN (70, 71)"), 'n2, after n2', 'in its place');
$c->wait_state(1, 'online', 60);

behind("UPDATE t SET v = 'n2 again' WHERE id = 70",
	sub
	{
		$s->query("BEGIN; UPDATE t SET v = 'never' WHERE id = 70");
		$c->order_at('replicator', 'QUESTION', 'kill');
		$s->send('COMMIT');
	});
kill CONT => @stopped;
$c->cluster('start-replicator');
$s->finish(20);
LockstepCluster::is_error($s->error, '40001', qr/before it had decided.*rolled back on all nodes/s, 'one in the way of what is decided is told that it was not');
ok($c->wait_sql(1, 'SELECT v FROM t WHERE id = 70', 'n2 again'), 'and lets it pass');
$s->query('RESET lockstep.commit_wait');
unlike(join('', map { $c->node_log($_) } $c->all), qr/\b08007\b|outcome of the transaction is unknown/, 'nothing is in doubt');

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

# ---------- its question did not get through, and is sent again

# What a replicator says to a backend is for the question that it has, not for one that nobody got.  (A Unix
# socket whose other end is gone takes nothing; TCP takes what is sent first.)
my ($socket) = LockstepCluster::_slurp($c->replicator_conf) =~ /^unix_socket = '(.*)'/m;
$c->set(1, 'lockstep.replicator', "'$socket'");
$s = $c->session(1);
$s->query("BEGIN; INSERT INTO t VALUES (80, 'sent again')");
$c->order_at(1, 'ASKING', 'wait');
$s->send('COMMIT');
ok($c->wait_until(sub { $c->was_there(1, 'ASKING') }, 20), 'a backend is about to ask');
my $behind = $c->session(1);
$behind->send("INSERT INTO t VALUES (80, 'too late')");
ok($behind->blocked(0.3), 'another waits for it');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online with another replicator") for $c->all;
my $asked = $c->sql(1, 'SELECT asked FROM lockstep.blockers(ARRAY[' . $behind->pid . '])');
is($asked, 0, 'a question that has not been sent is not awaited');
$c->order_at('replicator', 'DURABLE', 'wait');
$c->let_go(1, 'ASKING');
ok($c->wait_until(sub { $c->was_there('replicator', 'DURABLE') }, 20), 'it is sent to the other one, which decides');
$c->sql(1, 'SELECT lockstep.deny_verdict(' . $s->pid . ", $asked)");
ok($s->blocked(0.5), 'what was said of it before is not for this question');
$c->let_go('replicator', 'DURABLE');
$s->finish(20);
is($s->error, '', 'it is committed');
$behind->finish(20);
LockstepCluster::is_error($behind->error, '23505', qr/duplicate key/, 'and the other fails');
is($c->sql(2, 'SELECT v FROM t WHERE id = 80'), 'sent again', 'n2 has it');

$c->drain;
$c->same('the nodes are equal');
done_testing;
