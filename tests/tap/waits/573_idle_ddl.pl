# A transaction that has run DDL and is left open does not keep the other nodes' DDL waiting
# for ever: when it has been idle, or asleep, for idle_ddl_timeout it fails with 40001.
# It is left alone while it works, also by short statements, and while nobody waits.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "idle_ddl_timeout = 2s\n");
$c->sql(1, 'CREATE ROLE mallory LOGIN; CREATE SCHEMA m AUTHORIZATION mallory');
$c->drain;

my $holder = $c->session(1, user => 'mallory');
my $other = $c->session(2);

# ---------- idle

$holder->do('BEGIN; CREATE TABLE m.a (i int)');
ok(!$other->blocked(0), 'nobody waits');
sleep 3;
$holder->do('CREATE TABLE m.a2 (i int)');
$holder->do('COMMIT');
pass('nobody waits for it: it may be idle');

$holder->do('BEGIN; CREATE TABLE m.b (i int)');
$other->send('CREATE TABLE c (i int)');
$other->finish(30);
is($other->error, '', 'the DDL of another node gets through');
$holder->query('SELECT 1');
LockstepCluster::is_error($holder->error, '40001', qr/It held the lock of all DDL and did nothing for \d+ s, while a command of node "n2" \(pid \d+, for public\.c/, 'the idle one is told why');
$holder->query('ROLLBACK');
$c->replicator_logs(qr/WARNING:\s+\[n1\] transaction of pid \d+ \(role "mallory"\) is rolled back: It held the lock of all DDL/, 'and so is the log');

# ---------- asleep

$holder->do('BEGIN; CREATE TABLE m.d (i int)');
$holder->send('SELECT pg_sleep(60)');
$other->do('CREATE TABLE e (i int)', 30);
$holder->finish(30);
LockstepCluster::is_error($holder->error, '40001', qr/It held the lock of all DDL/, 'one that sleeps');
$holder->query('ROLLBACK');

# ---------- idle, but nobody waits for so long at a time

$holder->do('BEGIN; CREATE TABLE m.h (i int)');
$other->do("SET lock_timeout = '800ms'");
for (1 .. 3)
{
	$other->query('CREATE TABLE c2 (i int)');
	LockstepCluster::is_error($other->error, '55P03', qr/lock timeout/, 'one that gives up');
	sleep 3;
}
$holder->do('COMMIT');
$other->do('RESET lock_timeout');

# ---------- at work

$holder->do('BEGIN; CREATE TABLE m.f (i int)');
$holder->send("DO \$\$ DECLARE until timestamptz := clock_timestamp() + interval '5 s'; BEGIN WHILE clock_timestamp() < until LOOP PERFORM 1; END LOOP; END \$\$; COMMIT");
$other->do('CREATE TABLE g (i int)', 60);
$holder->finish(60);
is($holder->error, '', 'one that works is waited for');

# A migration through a slow network is idle at nearly every moment, but never for long.
my $near = $c->session(1);
for ([ 'another node', $other ], [ 'its own node', $near ])
{
	my ($where, $waiting) = @$_;
	$holder->do('BEGIN; CREATE TABLE m.k (i int)');
	$waiting->send('CREATE TABLE l (i int)');
	my $end = time + 6;
	while (time < $end)
	{
		$holder->query('INSERT INTO m.k VALUES (1)');
		select(undef, undef, undef, 0.2);	# the network
	}
	ok($waiting->blocked(0), "$where waits for one that works by short statements");
	$holder->query('COMMIT');
	is($holder->error, '', '... which commits');
	$waiting->finish(30);
	is($waiting->error, '', '... until it has ended');
	$waiting->do('DROP TABLE IF EXISTS l, m.k');
}

$c->drain;
$c->same('all nodes are equal');
done_testing;
