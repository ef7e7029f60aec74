# Locks of the cluster that a subtransaction asked for are given back when it is rolled back,
# by ROLLBACK TO, by an error, by a cancel while it waits for them, in a function's exception
# block: nobody on another node waits for a session that is idle in what is left of its
# transaction.  What the surrounding transaction asked for stays.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE orders (id int PRIMARY KEY, v int NOT NULL);
CREATE TABLE other (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO orders SELECT i, 0 FROM generate_series(1, 9) i;
INSERT INTO other SELECT i, 0 FROM generate_series(1, 9) i;
CREATE FUNCTION fails(command text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE command;
  PERFORM 1 / 0;
EXCEPTION WHEN division_by_zero THEN RETURN 'failed';
END $$;
SQL
$c->drain;

my $holder = $c->session(1);
my $queued = $c->session(1);
$queued->do('SET lockstep.update_order = queued');
my $writer = $c->session(2);
$writer->do('SET lockstep.update_order = queued');
my $id = 0;

# Does a writer on the other node get through?  Then it is done at once.
sub writes
{
	my ($table, $row, $patience) = @_;
	my $s = $c->session(2);
	$s->send(sprintf('UPDATE %s SET v = v + 1 WHERE id = %d', $table, $row // 1));
	return (!$s->blocked($patience // 0.7), $s);
}

sub is_free
{
	my ($name, $table, $row) = @_;
	my ($free, $s) = writes($table, $row, 30);
	ok($free, $name);
	$s->finish if $free;
	is($s->error, '', "$name: without an error") if $free;
	$s->close;
}

my @commands = (
	[ 'LOCK TABLE orders', 'LOCK TABLE orders' ],
	[ 'TRUNCATE', 'TRUNCATE orders' ],
	[ 'DDL', 'ALTER TABLE orders ADD w int' ],
	[ 'DROP ... CASCADE', 'DROP TABLE orders CASCADE' ],
);
for (@commands)
{
	my ($name, $command) = @$_;
	$holder->do("BEGIN; SAVEPOINT s; $command; ROLLBACK TO s");
	is_free("$name, ROLLBACK TO", 'orders');
	$holder->do('ROLLBACK');

	$holder->do('BEGIN; SAVEPOINT s');
	$holder->do($command);
	$holder->query('SELECT 1 / 0');
	is_free("$name, another statement fails", 'orders');
	$holder->do('ROLLBACK');

	is($holder->do("BEGIN; SELECT fails('$command')"), 'failed', "$name, exception block");
	is_free("$name, exception block", 'orders');
	$holder->do('ROLLBACK');

	$holder->query("BEGIN; $command");
	$holder->query('SELECT 1 / 0');
	is_free("$name, idle in an aborted transaction", 'orders');
	$holder->do('ROLLBACK');
}
$queued->do('BEGIN; SAVEPOINT s; UPDATE orders SET v = v + 1 WHERE id = 2; ROLLBACK TO s');
is_free('a row that was queued for', 'orders', 2);
$queued->do('UPDATE orders SET v = v + 1 WHERE id = 2');
$writer->send('UPDATE orders SET v = v + 1 WHERE id = 2');
ok($writer->blocked(0.5), 'and asked for again');
$queued->do('COMMIT');
$writer->finish;
is($writer->error, '', 'who waited goes on');

# One that waits, and is cancelled; then another wants the same.
$holder->do('BEGIN; LOCK TABLE orders IN SHARE MODE');
my $waiting = $c->session(2);
$waiting->do('BEGIN; SAVEPOINT s');
$waiting->send('LOCK TABLE orders, other');
ok($waiting->blocked(0.5), 'a lock that waits');
my $third = $c->session(1);
$third->send('UPDATE other SET v = v + 1 WHERE id = 3');
$third->blocked(0.2);
$c->sql(2, 'SELECT pg_cancel_backend(' . $waiting->pid . ')');
$waiting->finish;
LockstepCluster::is_error($waiting->error, '57014', qr/cancel/, 'cancelled');
$third->finish;
is($third->error, '', 'others go on');
$waiting->do('ROLLBACK TO s');
# a grant of what was given back is not taken for a later one
$waiting->send('LOCK TABLE orders');
ok($waiting->blocked(0.5), 'what it asks for next waits');
$holder->do('COMMIT');
$waiting->finish;
is($waiting->error, '', 'until it is granted');
my $blocked = $c->session(1);
$blocked->send('UPDATE orders SET v = v + 1 WHERE id = 4');
ok($blocked->blocked(0.5), 'and keeps others out');
$waiting->do('COMMIT');
$blocked->finish;
is($blocked->error, '', 'to its end');

# What the surrounding transaction asked for stays.
$holder->do('BEGIN; LOCK TABLE orders IN SHARE MODE; SAVEPOINT s; TRUNCATE orders; LOCK TABLE other; ROLLBACK TO s');
is_free('a table that only the savepoint had', 'other');
my ($free, $s) = writes('orders');
ok(!$free, 'what was locked before the savepoint keeps writers out');
$holder->do('COMMIT');
$s->finish;
is($s->error, '', 'to the end of the transaction');

# RELEASE hands them to the surrounding transaction, an outer ROLLBACK TO gives them back.
$holder->do('BEGIN; SAVEPOINT a; SAVEPOINT b; LOCK TABLE orders; RELEASE b');
($free, $s) = writes('orders');
ok(!$free, 'RELEASE keeps them');
$holder->do('ROLLBACK TO a');
$s->finish;
is($s->error, '', 'ROLLBACK TO a savepoint further out does not');
$holder->do('INSERT INTO other VALUES (100, 0); COMMIT');
is($c->sql(1, 'SELECT count(*) FROM other WHERE id = 100'), 1, 'and the transaction goes on');

# lock_timeout and NOWAIT end a wait for another node as they end one for the same node.
sub took
{
	my ($session, $sql) = @_;
	my $begun = time;
	$session->query($sql);
	return ($session->error, time - $begun);
}
my $waiter = $c->session(2);
$holder->do('BEGIN; LOCK TABLE orders IN EXCLUSIVE MODE');
for (
	[ 'LOCK TABLE orders IN SHARE MODE NOWAIT', qr/could not obtain the lock of a table on all nodes.*"public\.orders"/s ],
	[ "SET lock_timeout = '300ms'; LOCK TABLE other, orders IN EXCLUSIVE MODE", qr/lock timeout/ ],
	[ "SET lock_timeout = '300ms'; ALTER TABLE orders ADD x int", qr/lock timeout.*"public\.orders"/s ])
{
	my ($sql, $why) = @$_;
	$waiter->do('BEGIN; SAVEPOINT s');
	my ($err, $seconds) = took($waiter, $sql);
	LockstepCluster::is_error($err, '55P03', $why, $sql);
	cmp_ok($seconds, '<', 20, 'soon');
	$waiter->do('ROLLBACK TO s; INSERT INTO other VALUES (' . ++$id . ' + 500, 0); COMMIT');
	is($waiter->error, '', 'and the transaction goes on');
}
$waiter->do('RESET lock_timeout');
$holder->do('UPDATE orders SET v = v + 1 WHERE id = 1; COMMIT');
is_free('the table is free again', 'orders');

$holder->do('SET lockstep.update_order = queued; BEGIN; UPDATE orders SET v = v + 1 WHERE id = 3');
$waiter->do('SET lockstep.update_order = queued');
for ('NOWAIT', 'SKIP LOCKED')
{
	my ($err, $seconds) = took($waiter, "SELECT v FROM orders WHERE id = 3 FOR UPDATE $_");
	is($err, '', "queued: $_ does not wait for a row of another node");
	cmp_ok($seconds, '<', 20, 'soon');
}
my ($err, $seconds) = took($waiter, "SET lock_timeout = '300ms'; UPDATE orders SET v = v + 1 WHERE id = 3");
LockstepCluster::is_error($err, '55P03', qr/lock timeout.*orders_pkey/s, 'queued: lock_timeout ends the wait for a row');
$holder->do('COMMIT');
$c->same('equal');
done_testing();
