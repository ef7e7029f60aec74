# DDL that waits for DDL of another session of its node waits for a lock of PostgreSQL's: pg_blocking_pids() and
# lock_timeout know it, PostgreSQL finds deadlocks, the cluster those that go through other nodes, and an idle holder is
# rolled back for it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use JSON::PP;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "idle_ddl_timeout = 3s\n");
my ($first, $second, $far) = ($c->session(1), $c->session(1), $c->session(2));
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0); CREATE TABLE u (id int PRIMARY KEY); CREATE TABLE v (id int PRIMARY KEY); CREATE ROLE r');
$c->drain;

sub waits_for
{
	my ($waiter, $holder, $what) = @_;
	return ok($c->wait_until(sub { $c->sql(1, "SELECT pg_blocking_pids(" . $waiter->pid . ')') eq '{' . $holder->pid . '}' }), "$what: pg_blocking_pids()");
}

# A command of the second session waits for the first, until that has run these.
sub waits_until
{
	my ($command, $what, @end) = @_;

	$second->send($command);
	waits_for($second, $first, $what);
	for (@end)
	{
		ok($second->blocked(0), "$what: waits on before $_");
		$first->do($_);
	}
	$second->finish;
	return is($second->error, '', "$what: goes on after $end[-1]");
}

sub one_fails
{
	my ($what, $why, @sessions) = @_;
	my @errors = grep { $_ ne '' } map { $_->error } @sessions;

	is(scalar @errors, 1, "$what: one fails");
	LockstepCluster::is_error($errors[0], '40P01', $why, '... with the reason');
	$_->query('ROLLBACK') for @sessions;
	return;
}

# ---------- seen, and given up

$first->do('BEGIN; CREATE TABLE a (i int)');
$second->do("SET lock_timeout = '1s'");
$second->send('CREATE TABLE b (i int)');
waits_for($second, $first, 'CREATE TABLE');
my ($wait) = grep { $_->{pid} == $second->pid } @{ decode_json(($c->ctl('waits', '--json'))[0])->{waits} };
is("$wait->{object}, $wait->{blocker_pid}", 'ddl lock, ' . $first->pid, 'and lockstepctl waits');
$second->finish;
LockstepCluster::is_error($second->error, '55P03', qr/lock timeout/, 'lock_timeout');
$second->do('RESET lock_timeout');

waits_until('GRANT pg_monitor TO r', 'a command about what databases share', 'ROLLBACK');

# ---------- who has run DDL goes on to what databases share, though others wait

$first->do('BEGIN; CREATE TABLE a (i int)');
waits_until('CREATE TABLE b (i int)', 'the first needs more', 'GRANT pg_monitor TO r', 'ROLLBACK');
$second->do('DROP TABLE b');

# ---------- parallel commands do not wait for each other, a block does for them

$first->do('BEGIN; CREATE INDEX ON u (id)');
waits_until('CREATE INDEX ON v (id)', 'CREATE INDEX behind a block', 'COMMIT');

# ---------- ROLLBACK TO gives it back

$first->do('BEGIN; SAVEPOINT s; CREATE TABLE a (i int)');
waits_until('CREATE TABLE b (i int)', 'behind a savepoint', 'ROLLBACK TO s');
$first->do('ROLLBACK');

# ---------- circles

$first->do('BEGIN; CREATE TABLE d (i int)');
$second->do('BEGIN; UPDATE t SET n = 1');
$second->send('CREATE TABLE e (i int)');
waits_for($second, $first, 'in a circle');
$first->send('UPDATE t SET n = 2');
$_->finish for $first, $second;
one_fails('a circle on one node, found by PostgreSQL', qr/deadlock detected/, $first, $second);

$first->do('BEGIN; CREATE TABLE d (i int)');
$second->do('BEGIN; LOCK TABLE u');
$far->do('BEGIN; LOCK TABLE v');
$second->send('CREATE TABLE e (i int)');
waits_for($second, $first, 'in a circle of two nodes');
$far->send('LOCK TABLE u');
ok($far->blocked, 'the other node waits');
$first->send('ALTER TABLE v ADD COLUMN n int');
$_->finish(20) for $first, $second, $far;
one_fails('a circle through two nodes', qr/deadlock/, $first, $second, $far);

# ---------- an idle holder

$first->do('BEGIN; CREATE TABLE f (i int)');
sleep 4;
$first->do('SELECT 1');
$second->send('CREATE TABLE g (i int)');
$second->finish(30);
is($second->error, '', 'DDL gets through behind an idle holder of its node');
$first->query('SELECT 1');
my $waiter = $second->pid;
LockstepCluster::is_error($first->error, '40001', qr/It held the lock of all DDL and did nothing for \d+ s, while a command of node "n1" \(pid $waiter,/, 'which is told why');
$first->query('ROLLBACK');

# ---------- ... which has begun with a replicator that is gone

$first->do('BEGIN; CREATE TABLE h (i int)');
$c->kill_replicator(1);
$c->start_replicator(1);
$c->wait_state($_, 'online') for $c->all;
$second->send('CREATE TABLE i (i int)');
waits_for($second, $first, 'behind one that the replicator does not know');
$second->finish(30);
is($second->error, '', 'DDL gets through behind it');
$first->query('SELECT 1');
LockstepCluster::is_error($first->error, '40001', qr/It held the lock of all DDL and did nothing/, 'which is told why');
$first->query('ROLLBACK');
$c->drain;
$c->same('all nodes are equal');
done_testing;
