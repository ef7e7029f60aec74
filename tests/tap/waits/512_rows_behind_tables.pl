# With lockstep.update_order = queued a request for rows waits for an earlier request for all of their table,
# so that nobody takes the rows again and again in front of it, and the two do not meet at
# their COMMITs, each in the other's way.  Rows alone keep nobody from the table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
CREATE TABLE p (id int PRIMARY KEY, v int NOT NULL) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
INSERT INTO p SELECT i, 0 FROM generate_series(1, 20) i;
CREATE TABLE o (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO o VALUES (1, 0);
SQL
$c->drain;
my ($whole, $rows, $other) = map { $c->session($_) } 1, 2, 2;
$_->do('SET lockstep.update_order = queued; SET lockstep.queue_timeout = 0') for $whole, $rows, $other;

sub ok_session { my ($s, $name) = @_; unlike($s->error, qr/ERROR|FATAL/, $name) }

# ---------- the table first

for my $t ('t', 'p')
{
	$whole->do("BEGIN; LOCK TABLE $t");
	$rows->send("BEGIN; UPDATE $t SET v = v + 10 WHERE id = 1 RETURNING v");
	ok($rows->blocked(0.3), "$t: a row waits for who has the table");
	$other->do('BEGIN; UPDATE o SET v = v + 1 WHERE id = 1; COMMIT');
	ok_session($other, "$t: another table's does not");
	$whole->do("UPDATE $t SET v = v + 1");
	my $start = time;
	$whole->do('COMMIT');
	ok_session($whole, "$t: the table's transaction commits");
	cmp_ok(time - $start, '<', LockstepCluster::soon(3), "$t: at once");
	is($rows->finish, 11, "$t: then the row is had, as it is by then");
	$rows->do('COMMIT');
	ok_session($rows, "$t: and nobody fails");
}

# ---------- rows first: they keep nobody from the table; a circle ends at once, and once

$rows->do('BEGIN; UPDATE t SET v = v + 10 WHERE id = 2');
$whole->send('BEGIN; LOCK TABLE t; UPDATE t SET v = v + 1; COMMIT');
ok($c->wait_for_waiter($whole, 'reservation'), 'who has the table waits for the row at its COMMIT');
my $start = time;
$rows->query('UPDATE t SET v = v + 10 WHERE id = 3');
like($rows->error, qr/40P01.*waits for .* behind a transaction of node "n1" .* which waits for this one/s, 'the circle is found when it closes');
$whole->finish;
ok_session($whole, 'who has the table gets through');
cmp_ok(time - $start, '<', LockstepCluster::soon(3), 'at once');
$_->do('ROLLBACK') for $rows, $whole;

$rows->do('BEGIN; UPDATE t SET v = v + 10 WHERE id = 4');
$whole->do('ALTER TABLE t ADD w int');
ok_session($whole, 'a row that is held does not keep DDL out');
$rows->query('COMMIT');
like($rows->error, qr/40001|could not serialize/, 'the row is lost to it');
$rows->do('ROLLBACK');

# ---------- what the session has itself

$whole->do('BEGIN; LOCK TABLE t; UPDATE t SET v = v + 1 WHERE id = 5');
ok_session($whole, 'who has the table has its rows');
$rows->send('BEGIN; UPDATE t SET v = v + 1 WHERE id = 6');
ok($rows->blocked(0.3), 'others wait');
$whole->do('UPDATE t SET v = v + 1 WHERE id = 6; ROLLBACK');
$rows->finish;
$rows->do('COMMIT');
ok_session($rows, 'and go on when it is rolled back');
$c->same('nodes are equal');
done_testing;
