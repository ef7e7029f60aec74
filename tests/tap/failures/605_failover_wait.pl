# A replicator that restarts is a pause to writers: those that have not asked yet wait for it, for
# at most lockstep.failover_wait.  What it had heard of a transaction is gone: 40001.  A refusal
# that lasts is an error at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.failover_wait = 60s\n");	# a busy machine needs longer than the default to start a replicator
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE s (id serial PRIMARY KEY, n int); CREATE TABLE u (id int PRIMARY KEY)');
$c->drain;
my @s = map { $c->session($_) } 1, 1, 1, 1, 2;
my ($open, $read, $large, $locked, $other) = @s;
$_->query('SELECT 1') for @s;

# ---------- writers wait

$open->query('BEGIN; INSERT INTO t VALUES (1)');
$read->query('BEGIN; SELECT count(*) FROM t');
$large->query("BEGIN; INSERT INTO t SELECT i, repeat(md5(i::text), 100) FROM generate_series(1000, 1200) i");
$locked->query("SET lockstep.update_order = queued; BEGIN; LOCK TABLE u");
$c->cluster('kill-replicator');
$other->send('INSERT INTO t VALUES (2)');
$open->send('COMMIT');
$read->send('INSERT INTO s (n) VALUES (3); COMMIT');
ok($_->blocked(0.5), 'a writer waits') for $other, $open, $read;
is($c->sql(2, 'SELECT count(*) FROM t'), 0, 'readers do not');
ok($c->cluster('start-replicator'), 'the replicator is back');
$_->finish(20) for $other, $open, $read;
is($other->error, '', 'a new write');
is($open->error, '', 'the COMMIT of a transaction that has written before');
is($read->error, '', 'the first write of a transaction that has read before, with a value of a sequence');
$large->query('COMMIT');
LockstepCluster::is_error($large->error, '40001', qr/connection to the replicator was lost/, 'changes that were sent already are lost: to be retried');
$locked->query('INSERT INTO u VALUES (4)', 10);
$locked->query('COMMIT', 10) if $locked->error eq '';
LockstepCluster::is_error($locked->error, '40001', qr/./, 'so is a lock');
$_->query('ROLLBACK') for @s;
$c->drain;
is($c->sql(1, 'SELECT string_agg(id::text, \' \' ORDER BY id) FROM t'), '1 2', 'each is there once');

# ---------- and lose nothing that was committed meanwhile

$open->query('BEGIN; UPDATE t SET v = \'mine\' WHERE id = 1');
$c->sql(2, 'UPDATE t SET v = \'theirs\' WHERE id = 1');
$c->cluster('restart-replicator');
$open->query('COMMIT', 20);
LockstepCluster::is_error($open->error, '40001', qr/./, 'a conflict with what was decided before the restart');
is($c->sql(1, 'SELECT v FROM t WHERE id = 1'), 'theirs', 'is no lost update');
$open->query('BEGIN; UPDATE t SET v = \'mine\' WHERE id = 1');
$c->cluster('restart-replicator');
$c->sql(2, 'UPDATE t SET v = \'theirs, again\' WHERE id = 1');
$open->query('COMMIT', 20);
LockstepCluster::is_error($open->error, '40001', qr/./, 'one with what was decided after it, neither');

# ---------- bounded

$open->query("SET lockstep.failover_wait = '700ms'");
$read->query("SET lockstep.failover_wait = 0");
$c->cluster('kill-replicator');
my $start = time;
$read->query('INSERT INTO t VALUES (10)');
LockstepCluster::is_error($read->error, '57P03', qr/HINT/, 'failover_wait = 0: an error');
cmp_ok(time - $start, '<', LockstepCluster::soon(0.5), 'at once');
$start = time;
$open->query('INSERT INTO t VALUES (10)');
my $took = time - $start;
LockstepCluster::is_error($open->error, '57P03', qr/not reachable.*HINT/s, 'after failover_wait: the same');
ok($took > 0.65 && $took < LockstepCluster::soon(5), "not earlier, not much later ($took s)");
$open->query("SET lockstep.failover_wait = '1h'; SET statement_timeout = '300ms'");
$open->query('INSERT INTO t VALUES (10)', 20);
LockstepCluster::is_error($open->error, '57014', qr/./, 'a timeout ends the wait');
$open->query("SET statement_timeout = 0");
$open->send('INSERT INTO t VALUES (11)');
ok($open->blocked(0.3), 'it waits again');
$c->sql(1, 'SELECT pg_cancel_backend(' . $open->pid . ')');
$open->finish(20);
LockstepCluster::is_error($open->error, '57014', qr/./, 'a cancel ends it');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online") for $c->all;

# ---------- a refusal

$c->ctl('drop', 'n2');
$start = time;
$other->query('INSERT INTO t VALUES (20)');
LockstepCluster::is_error($other->error, '57P03', qr/not online/, 'a node that was dropped refuses');
cmp_ok(time - $start, '<', LockstepCluster::soon(2), 'at once');
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online'), 'it is attached again');

# ---------- a server that restarts

$c->cluster('restart-node', 2, '--no-wait');
my (undef, $error) = $c->try(2, 'INSERT INTO t VALUES (30)');
is($error, '', 'the first write after the restart of a node waits until it takes writes');

# ---------- under load

my $script = $c->file('w.sql', "\\set id random(1, 1000000)\nBEGIN;\nINSERT INTO s (n) VALUES (:id);\nSELECT count(*) FROM t;\nCOMMIT;\n");
my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 4, '-T', 6, '--failures-detailed', '--verbose-errors') } 1, 2;
for (1 .. 3)
{
	select undef, undef, undef, 1;	# load between the restarts
	$c->cluster($_ % 2 ? 'kill-replicator' : 'stop-replicator');
	$c->cluster('start-replicator');
}
$_->{handle}->finish for @runs;
my $said = LockstepCluster::complaints(@runs);
my %states;
$states{$1}++ while $said =~ /ERROR:\s+(.*)/g;
is(scalar(grep { !/replicator was lost before it had decided|replicator is shutting down|could not serialize/ } keys %states), 0,
	'only what had asked, and was not decided, fails, and none is in doubt') or diag(explain(\%states));
unlike($said, qr/57P03|08007|not reachable|does not take writes|not online|in doubt/, 'and nothing is refused');
$c->drain;
$c->same('the nodes are equal');
done_testing;
