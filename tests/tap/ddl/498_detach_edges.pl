# DETACH PARTITION CONCURRENTLY where tables are changed while it waits for their
# locks, where only who gave the command may use the partition's schema, and where
# a partitioned table refers to the one that loses a partition.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

sub is_everywhere
{
	my ($name, $state, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->drain;
	is_deeply([ map { $c->sql($_, "SELECT CASE WHEN NOT relispartition THEN 'table' WHEN (SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = c.oid) THEN 'pending' ELSE 'partition' END FROM pg_class c WHERE oid = to_regclass('$name')") } 1 .. 3 ],
		[ ($state) x 3 ], $test);
}

# ---------- what another session of the same node does before it gets the table's lock

sub after_another
{
	my ($first, $command) = @_;
	my $other = $c->session(1);
	$other->do("BEGIN; $first");
	my $s = $c->session(1)->send($command);
	ok($c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " . $s->pid, 1), 'waits for another session of its node');
	$other->do('COMMIT');
	$s->finish(60);
	return $s->error;
}

$c->sql(1, <<'SQL');
CREATE TABLE top (a int, b int) PARTITION BY LIST (a);
CREATE TABLE p PARTITION OF top FOR VALUES IN (1) PARTITION BY LIST (b);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO top VALUES (1, 1), (1, 2);
SQL
$c->drain;
LockstepCluster::is_error(after_another('CREATE TABLE p0 PARTITION OF p DEFAULT', 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY'),
	'55000', qr/cannot detach partitions concurrently when a default partition exists/, 'a default partition');
is_everywhere('p1', 'partition', 'it stays');
LockstepCluster::is_error(after_another('DROP TABLE p0', 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY'),
	'55000|0A000|40001', qr/./, 'none any more, which is not what it had seen');
is_everywhere('p1', 'partition', 'it stays again, everywhere');
$c->sql(3, 'ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY');
is_everywhere('p1', 'table', 'now it goes');

# ---------- schemas

$c->sql(1, <<'SQL');
CREATE ROLE owner;
CREATE SCHEMA hidden;
CREATE TABLE q (a int) PARTITION BY LIST (a);
CREATE TABLE hidden.q1 PARTITION OF q FOR VALUES IN (1);
CREATE TABLE hidden.q2 PARTITION OF q FOR VALUES IN (2);
ALTER TABLE q OWNER TO owner;
SQL
$c->sql(2, 'ALTER TABLE q DETACH PARTITION hidden.q1 CONCURRENTLY');
is_everywhere('hidden.q1', 'table', 'the owner of the table may not use the schema of the partition');
$c->fails(3, 'SET ROLE owner; ALTER TABLE q DETACH PARTITION hidden.q2 CONCURRENTLY', '42501', qr/permission denied for schema hidden/, 'and can not do it');
is_everywhere('hidden.q2', 'partition', 'it stays');

# ---------- a partitioned table refers to it

$c->sql(1, <<'SQL');
CREATE TABLE f (k int PRIMARY KEY) PARTITION BY LIST (k);
CREATE TABLE f1 PARTITION OF f FOR VALUES IN (1);
CREATE TABLE f2 PARTITION OF f FOR VALUES IN (2);
INSERT INTO f VALUES (1), (2);
CREATE TABLE r (id int, k int REFERENCES f) PARTITION BY LIST (id);
CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1) PARTITION BY LIST (k);
CREATE TABLE r11 PARTITION OF r1 FOR VALUES IN (1, 2);
SQL
$c->drain;
{
	my $reader = $c->session(1);	# so that the first step is seen alone
	$reader->do('BEGIN; SELECT count(*) FROM f');
	my $writer = $c->session(2);
	$writer->do('BEGIN; INSERT INTO r11 VALUES (1, 1)');
	my $s = $c->session(1)->send('ALTER TABLE f DETACH PARTITION f1 CONCURRENTLY');
	ok($c->wait_until(sub { !grep { $c->sql($_, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") != 1 } 1 .. 3 }, 60), 'pending');
	$writer->query('COMMIT');
	LockstepCluster::is_error($writer->error, '40001', qr/./, 'who refers to it from a partition, not having known, loses');
	$reader->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'detached');
	is_everywhere('f1', 'table', 'everywhere');
	is($c->sql(3, 'SELECT count(*) FROM r'), 0, 'nobody refers to it');
}
{
	my $writer = $c->session(1);
	$writer->do('BEGIN; INSERT INTO r11 VALUES (1, 2)');
	my $s = $c->session(1)->send('ALTER TABLE f DETACH PARTITION f2 CONCURRENTLY');
	ok($c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " . $s->pid, 1), 'one of its own node, by the name of the partition: it is waited for');
	$writer->do('COMMIT');
	$s->finish(60);
	LockstepCluster::is_error($s->error, '23503', qr/removing partition "f2" violates foreign key constraint/, 'and found');
	is_everywhere('f2', 'partition', 'so it stays');
}

# ---------- the bounds, below the partition

$c->sql(1, <<'SQL');
CREATE TABLE m (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE m1 (b text, a int) PARTITION BY LIST (b);
CREATE TABLE m1x (a int, b text);
ALTER TABLE m1 ATTACH PARTITION m1x FOR VALUES IN ('x');
ALTER TABLE m ATTACH PARTITION m1 FOR VALUES FROM (0) TO (10);
INSERT INTO m VALUES (1, 'x');
SQL
$c->sql(2, 'ALTER TABLE m DETACH PARTITION m1 CONCURRENTLY');
$c->drain;
is($c->sql($_, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'm1x'::regclass AND contype = 'c'"),
	'CHECK (((a IS NOT NULL) AND (a >= 0) AND (a < 10)))', "of columns of other numbers (n$_)") for 1 .. 3;
$c->fails(3, "INSERT INTO m1 VALUES ('x', 10)", '23514', qr/violates check constraint/, 'they hold');
is($c->sql(1, "INSERT INTO m1 VALUES ('x', 9) RETURNING a"), 9, 'and let in what is within');

$c->same('equal in the end');
done_testing;
