# Of two conflicting transactions the first to be reserved wins, the other gets
# 40001 with a detail that helps; money is neither made nor lost under
# concurrent transfers, at any instant on any node; a local transaction in the
# way yields and keeps its connection; two transactions that block each other on
# different nodes through what no key expresses resolve.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.queue_after = 0\nlockstep.commit_wait = executed\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int);
INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 100) i;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent);
INSERT INTO parent SELECT i FROM generate_series(1, 10) i;
SQL
$c->drain;
my ($a, $b) = ($c->session(1), $c->session(2));

# Both change what the key says, neither has seen the other.  n3 stands still; if
# n2 does, too, the second loses when it asks, else when the first is executed there.
sub race
{
	my ($name, $first, $second, @nodes) = @_;
	$c->frozen([ @nodes ? @nodes : (2, 3) ], sub {
		$a->do('BEGIN');
		$b->do('BEGIN');
		$a->do($first);
		$b->do($second);
		$a->send('COMMIT');
		ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }), "$name: the first is reserved");
		ok($a->blocked(0.3), "$name: it waits to be executed");
		$b->query('COMMIT', 10);
		LockstepCluster::is_error($b->error, '40001', qr/DETAIL:.*n1/s, "$name: the second loses, and is told to whom");
	});
	$a->finish;
	is($a->error, '', "$name: the first wins");
	$c->same("$name: equal");
}

race('same row', 'UPDATE t SET v = 1 WHERE id = 1', 'UPDATE t SET v = 2 WHERE id = 1');
like($b->error, qr/DETAIL:.*\bt\b.*t_pkey/s, 'the detail names table and key');
race('same row, being executed', 'UPDATE t SET v = 3 WHERE id = 1', 'UPDATE t SET v = 4 WHERE id = 1', 3);
race('update and delete', 'DELETE FROM t WHERE id = 2', 'UPDATE t SET v = 2 WHERE id = 2');
race('same primary key', 'INSERT INTO t VALUES (200, 200)', 'INSERT INTO t VALUES (200, 201)');
race('same unique value', 'INSERT INTO t VALUES (210, 210)', 'INSERT INTO t VALUES (211, 210)');
race('parent deleted, child inserted', 'DELETE FROM parent WHERE id = 1', 'INSERT INTO child VALUES (1, 1)');
race('child inserted, parent deleted', 'INSERT INTO child VALUES (2, 2)', 'DELETE FROM parent WHERE id = 2');

# What does not conflict, doesn't.
$c->frozen([3], sub {
	$a->do('BEGIN; UPDATE t SET v = 5 WHERE id = 10; INSERT INTO child VALUES (10, 5)');
	$b->do('BEGIN; UPDATE t SET v = 5 WHERE id = 11; INSERT INTO child VALUES (11, 5)');
	$_->send('COMMIT') for $a, $b;
});
$_->finish for $a, $b;
is($a->error . $b->error, '', 'other rows, and the same parent, are no conflict');

# Seen after it was decided is no conflict either, not seen is one.
$a->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t LIMIT 1');
$c->sql(2, 'SET lockstep.commit_wait = applied; UPDATE t SET v = 9 WHERE id = 20');
$a->query('UPDATE t SET v = 10 WHERE id = 20');
LockstepCluster::is_error($a->error, '40001', qr/./, 'REPEATABLE READ: a row that another node changed meanwhile');
$a->query('ROLLBACK');

# ---------- local transactions in the way of one that is applied

for my $state ('idle in transaction', 'in a statement', 'in a savepoint')
{
	my $victim = $c->session(2);
	my $pid = $victim->pid;
	$victim->do('BEGIN');
	$victim->do('SAVEPOINT s') if $state eq 'in a savepoint';
	$victim->do('UPDATE t SET v = 77 WHERE id = 30');
	$victim->send('SELECT pg_sleep(60)') if $state eq 'in a statement';
	my $start = time;
	my (undef, $err) = $c->try(1, 'SET lockstep.commit_wait = applied; UPDATE t SET v = v + 1 WHERE id = 30');
	my $took = time - $start;
	is($err, '', "$state: the transaction being applied wins");
	cmp_ok($took, '<', 30, sprintf("$state: it does not wait for the local one (%d ms)", $took * 1000));
	$state eq 'in a statement' ? $victim->finish : $victim->query('SELECT 1');
	LockstepCluster::is_error($victim->error, '40001', qr/./, "$state: the local one gets 40001");
	like($victim->error, qr/DETAIL:.*UPDATE ONLY public\.t .*t_pkey.*"n1"/s, "$state: the detail names query, key and node");
	$victim->query('ROLLBACK');
	is($victim->query('SELECT pg_backend_pid()'), $pid, "$state: and keeps its connection");
	$victim->close;
}
my $victim = $c->session(2);
$victim->do('BEGIN; UPDATE t SET v = 77 WHERE id = 30');
$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 30');
$victim->query('COMMIT');
LockstepCluster::is_error($victim->error, '40001', qr/./, 'idle in transaction: COMMIT fails as well');
$victim->close;

# Readers are not in anybody's way.
my $reader = $c->session(2);
$reader->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(v) FROM t');
$c->sql(1, 'SET lockstep.commit_wait = applied; UPDATE t SET v = v + 1');
$reader->do('SELECT sum(v) FROM t; COMMIT');
pass('a reader is left alone');

# ---------- what no key expresses: overlapping ranges

my (undef, $err) = $c->try(1, <<'SQL');
CREATE TABLE ex (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
SQL
SKIP:
{
	skip "exclusion constraints are refused as yet: $err", 4 if $err =~ /0A000/;
	$c->drain;		# $b uses it on n2, which has executed it, but perhaps not committed
	for my $round (1 .. 10)
	{
		$a->do("BEGIN; INSERT INTO ex VALUES ($round * 10 + 1, int4range($round * 100, $round * 100 + 50))");
		$b->do("BEGIN; INSERT INTO ex VALUES ($round * 10 + 2, int4range($round * 100 + 20, $round * 100 + 70))");
		$_->send('COMMIT') for $round % 2 ? ($a, $b) : ($b, $a);
		$_->finish for $a, $b;
		my @failed = grep { $_->error ne '' } $a, $b;
		is(scalar(@failed), 1, "overlapping ranges, round $round: one wins") or diag($a->error . $b->error);
		like($failed[0]->error, qr/ERROR:\s+(40001|23P01)/, "round $round: the other is told") if @failed;
		$_->query('ROLLBACK') for $a, $b;
	}
	$c->same('overlapping ranges');
}

# ---------- transfers

$c->sql(1, 'CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO account SELECT i, 1000 FROM generate_series(1, 50) i');
$c->drain;
my $transfer = $c->file('transfer.sql', <<'SQL');
\set a random(1, 50)
\set b random(1, 50)
\set n random(1, 100)
BEGIN;
UPDATE account SET balance = balance - :n WHERE id = :a;
UPDATE account SET balance = balance + :n WHERE id = :b;
END;
SQL
my $check = $c->file('check.sql', "SELECT 1 / (sum(balance) = 50000)::int FROM account;\n");
my @writers = map { $c->pgbench_start($_, '-n', '-f', $transfer, '-c', 4, '-T', 5, '--max-tries=1000') } $c->all;
my @readers = map { $c->pgbench_start($_, '-n', '-f', $check, '-c', 1, '-T', 5) } $c->all;
for ($c->all)
{
	$writers[$_ - 1]{handle}->finish;
	$readers[$_ - 1]{handle}->finish;
	my ($w, $r) = (${ $writers[$_ - 1]{text} }, ${ $readers[$_ - 1]{text} });
	unlike($w, qr/aborted/, "transfers on n$_ go on") or diag($w);
	cmp_ok(LockstepCluster::processed($w), '>', 0, "transfers on n$_: " . LockstepCluster::processed($w));
	unlike($r, qr/aborted/, "the total on n$_ is the same at every instant") or diag($r);
}
$c->same('after the transfers');
is($c->sql(3, 'SELECT sum(balance) FROM account'), 50000, 'and the total at the end');

# One counter, incremented everywhere: no update is lost.
my $increment = $c->file('increment.sql', "UPDATE t SET v = v + 1 WHERE id = 50;\n");
my $before = $c->sql(1, 'SELECT v FROM t WHERE id = 50');
my @runs = map { $c->pgbench_start($_, '-n', '-f', $increment, '-c', 4, '-t', 25, '--max-tries=10000') } $c->all;
$_->{handle}->finish for @runs;
my $done = 0;
$done += LockstepCluster::processed(${ $_->{text} }) for @runs;
$c->drain;
is($c->sql($_, 'SELECT v FROM t WHERE id = 50') - $before, $done, "n$_: no increment is lost") for $c->all;

done_testing;
