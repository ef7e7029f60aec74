# Row locks across nodes: what SELECT FOR UPDATE, NO KEY UPDATE, SHARE and KEY SHARE
# exclude on one node they exclude on another, if the transaction that locked writes
# anything; the lock goes with its savepoint; a foreign key's own locks stay out of it;
# the error names key and node; SERIALIZABLE reads one row by its key, not the table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.queue_after = 0\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int);
INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 200) i;
CREATE TABLE other (id int PRIMARY KEY, v int);
CREATE TABLE nokey (a int, b int);
INSERT INTO nokey VALUES (1, 1), (2, 2);
CREATE TABLE part (id bigint, v varchar, PRIMARY KEY (id, v)) PARTITION BY LIST (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part2 PARTITION OF part FOR VALUES IN (2);
INSERT INTO part VALUES (1, 'a'), (1, 'b'), (2, 'a');
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE);
INSERT INTO parent SELECT i, 0 FROM generate_series(1, 10) i;
CREATE FUNCTION read_one(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN SELECT v INTO r FROM t WHERE id = n; RETURN r; END $$;
SQL
$c->drain;
my ($a, $b) = ($c->session(1), $c->session(2));
my $n = 0;

# Both transactions are open; a commits, then b.  Does b fail?
sub race
{
	my ($level, $first, $second) = @_;
	$n++;
	# each node has what was committed on the other
	for my $s ([ $a, $b ], [ $b, $a ])
	{
		my $seq = $s->[0]->do('SELECT lockstep.applied_seq()');
		$s->[1]->do("SELECT lockstep.wait_for($seq)");
	}
	$a->do("BEGIN ISOLATION LEVEL $level");
	$b->do("BEGIN ISOLATION LEVEL $level");
	$a->do($_) for (ref $first ? @$first : $first);
	$b->query($_) for (ref $second ? @$second : $second);
	$a->do('COMMIT');
	my $error = $b->error;
	$b->query('COMMIT');
	$error = $b->error if $error !~ /^ERROR/m;
	$b->query('ROLLBACK');
	return $error;
}

sub loses
{
	my ($name, $first, $second, $like, $level) = @_;
	my $error = race($level // 'READ COMMITTED', $first, $second);
	LockstepCluster::is_error($error, '40001', $like // qr/./, "$name: the second gets 40001");
}

sub passes
{
	my ($name, $first, $second, $level) = @_;
	unlike(race($level // 'READ COMMITTED', $first, $second), qr/ERROR/, "$name: no conflict");
}

sub writes { $n++; return "INSERT INTO other VALUES ($n * 2 + $_[0], 0)" }
sub locks { my ($mode, $id) = @_; return [ 'SELECT * FROM t WHERE id = ' . ($id // 1) . " FOR $mode", writes(0) ] }

# ---------- PostgreSQL's own table of row locks

my @modes = ('KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE');
my @conflicts = ('...x', '..xx', '.xxx', 'xxxx');
for my $i (0 .. 3)
{
	for my $j (0 .. 3)
	{
		my $check = substr($conflicts[$i], $j, 1) eq 'x' ? \&loses : \&passes;
		$check->("FOR $modes[$i] and FOR $modes[$j]", locks($modes[$i]), locks($modes[$j]));
	}
}
loses('FOR UPDATE, then the row is updated elsewhere', locks('UPDATE'), 'UPDATE t SET v = v + 1 WHERE id = 1');
loses('FOR SHARE, then it is updated', locks('SHARE'), 'UPDATE t SET v = v + 1 WHERE id = 1');
passes('FOR KEY SHARE, then it is updated', locks('KEY SHARE'), 'UPDATE t SET v = v + 1 WHERE id = 1');
loses('FOR KEY SHARE, then it is deleted', locks('KEY SHARE', 100), 'DELETE FROM t WHERE id = 100');
loses('updated, then FOR SHARE', 'UPDATE t SET v = v + 1 WHERE id = 2', locks('SHARE', 2), qr/DETAIL:.*t_pkey.*n1/s);
passes('other rows', locks('UPDATE', 3), locks('UPDATE', 4));
passes('locks of a transaction that writes nothing', 'SELECT * FROM t WHERE id = 5 FOR UPDATE', locks('UPDATE', 5));

# In a savepoint that is rolled back the lock is gone.
passes('rolled back', [ 'SAVEPOINT s', 'SELECT * FROM t WHERE id = 6 FOR UPDATE', 'ROLLBACK TO s', writes(0) ], locks('UPDATE', 6));
loses('released', [ 'SAVEPOINT s', 'SELECT * FROM t WHERE id = 7 FOR UPDATE', 'RELEASE s', 'SAVEPOINT s', 'SELECT * FROM t WHERE id = 8 FOR UPDATE', 'ROLLBACK TO s', writes(0) ], locks('UPDATE', 7));
passes('and the other one', [ 'SAVEPOINT s', 'SELECT * FROM t WHERE id = 7 FOR UPDATE', 'RELEASE s', 'SAVEPOINT s', 'SELECT * FROM t WHERE id = 8 FOR UPDATE', 'ROLLBACK TO s', writes(0) ], locks('UPDATE', 8));

# Whatever locks: a cursor, a function, a join.
loses('by a cursor', [ 'DECLARE c CURSOR FOR SELECT * FROM t WHERE id = 9 FOR UPDATE', 'FETCH c', writes(0) ], locks('UPDATE', 9));
loses('in a join', [ 'SELECT * FROM t JOIN parent p ON p.id = t.id WHERE t.id = 10 FOR UPDATE OF t', writes(0) ], locks('UPDATE', 10));
loses('many rows', [ 'SELECT * FROM t WHERE id BETWEEN 11 AND 20 FOR UPDATE', writes(0) ], locks('UPDATE', 15));
loses('a table without a key', [ 'SELECT * FROM nokey WHERE a = 1 FOR UPDATE', writes(0) ], [ 'SELECT * FROM nokey WHERE a = 2 FOR UPDATE', writes(0) ]);
loses('a partition', [ "SELECT * FROM part WHERE id = 1 AND v = 'a' FOR UPDATE", writes(0) ], [ "UPDATE part SET v = 'c' WHERE id = 1 AND v = 'a'" ]);
passes('another partition', [ "SELECT * FROM part WHERE id = 2 FOR UPDATE", writes(0) ], [ "UPDATE part SET v = 'd' WHERE id = 1 AND v = 'b'" ]);
loses('more than max_row_keys', [ 'SET LOCAL lockstep.max_row_keys = 5', 'SELECT * FROM t WHERE id BETWEEN 21 AND 40 FOR UPDATE', writes(0) ], 'UPDATE t SET v = 1 WHERE id = 150');

# A foreign key's check locks the parent: that is its key, not more.
$n++;
passes('foreign key and update of the parent', "INSERT INTO child VALUES ($n, 1)", 'UPDATE parent SET v = v + 1 WHERE id = 1');

# ---------- SERIALIZABLE: one row is read, or the table

my $ser = 'SERIALIZABLE';
sub reads { return [ $_[0], writes(0) ] }
sub updates { return 'UPDATE t SET v = v + 1 WHERE id = ' . $_[0] }

loses('reads a row that was changed', updates(50), reads('SELECT v FROM t WHERE id = 50'), qr/read\/write dependencies.*DETAIL:.*t_pkey.*read.*n1/s, $ser);
passes('reads another', updates(50), reads('SELECT v FROM t WHERE id = 51'), $ser);
passes('reads it, and then it is changed', reads('SELECT v FROM t WHERE id = 50'), updates(50), $ser);
passes('two parameters, one row', updates(50), [ "PREPARE p$n AS SELECT v FROM t WHERE id = \$1 AND v >= \$2", "EXECUTE p$n(51, 0)", writes(0) ], $ser);
loses('the same, that row', updates(50), [ "PREPARE q$n AS SELECT v FROM t WHERE id = \$1 AND v >= \$2", "EXECUTE q$n(50, 0)", writes(0) ], undef, $ser);
passes('in a function', updates(50), reads('SELECT read_one(51)'), $ser);
loses('in a function, that row', updates(50), reads('SELECT read_one(50)'), undef, $ser);
loses('a scan', updates(50), reads('SELECT sum(v) FROM t'), qr/DETAIL:.*public\.t\b/s, $ser);
loses('a scan of a few', updates(50), reads('SELECT sum(v) FROM t WHERE id > 100'), undef, $ser);
loses('a row that is not there yet', 'INSERT INTO t VALUES (1000, 1000, 0)', reads('SELECT v FROM t WHERE id = 1000'), undef, $ser);
loses('a subquery', updates(50), reads('SELECT (SELECT max(v) FROM t)'), undef, $ser);
loses('a nested loop', updates(50), reads('SELECT count(*) FROM parent p JOIN t USING (id)'), undef, $ser);
loses('COPY', updates(50), reads('COPY t TO STDOUT'), undef, $ser);
loses('a cursor', updates(50), [ 'DECLARE c CURSOR FOR SELECT * FROM t', 'FETCH c', writes(0) ], undef, $ser);
loses('in a savepoint that is rolled back', updates(50), [ 'SAVEPOINT s', 'SELECT v FROM t WHERE id = 50', 'ROLLBACK TO s', writes(0) ], undef, $ser);
passes('by nobody else: another table', updates(50), reads('SELECT count(*) FROM parent'), $ser);
loses('UPDATE of all', updates(50), 'UPDATE t SET v = 7', undef, $ser);
passes('UPDATEs of rows by key', updates(50), updates(51), $ser);
passes('an INSERT reads nothing', updates(50), 'INSERT INTO t VALUES (1001, 1001, 0)', $ser);
$n++;
loses('ON CONFLICT DO NOTHING has read', 'INSERT INTO t VALUES (1002, 1002, 0)', [ 'INSERT INTO t VALUES (50, 50, 0) ON CONFLICT DO NOTHING', writes(0) ], undef, $ser);
passes('upserts of two rows', 'INSERT INTO t VALUES (60, 60, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1', 'INSERT INTO t VALUES (61, 61, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1', $ser);
$n++;
passes('a foreign key reads its parent by key', 'UPDATE parent SET v = v + 1 WHERE id = 3', "INSERT INTO child VALUES ($n + 5000, 2)", $ser);
loses('a row in a partition', "INSERT INTO part VALUES (2, 'z')", reads("SELECT * FROM part WHERE id = 2 AND v = 'z'"), undef, $ser);
loses('all partitions', "INSERT INTO part VALUES (2, 'y')", reads('SELECT count(*) FROM part'), undef, $ser);
passes('the other partition', "INSERT INTO part VALUES (2, 'x')", reads('SELECT count(*) FROM part WHERE id = 1'), $ser);
loses('the table is altered', 'ALTER TABLE nokey ADD COLUMN c int', [ 'SELECT v FROM t WHERE id = 50', 'SELECT a FROM nokey', writes(0) ], undef, $ser);
loses('more rows than max_row_keys', updates(190), [ 'SET LOCAL lockstep.max_row_keys = 3', (map { "SELECT v FROM t WHERE id = $_" } 90 .. 95), writes(0) ], undef, $ser);
loses('a reader of a table changed beyond max_row_keys', [ 'SET LOCAL lockstep.max_row_keys = 3', 'UPDATE t SET v = 5 WHERE id BETWEEN 70 AND 80' ], reads('SELECT v FROM t WHERE id = 75'), undef, $ser);
unlike(race("$ser READ ONLY", 'SELECT sum(v) FROM t', 'SELECT sum(v) FROM t'), qr/ERROR/, 'read-only transactions');

# Mixed: a SERIALIZABLE reader meets a READ COMMITTED writer.
$c->drain;
$b->do('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT v FROM t WHERE id = 50');
$c->sql(3, 'UPDATE t SET v = v + 1 WHERE id = 50');
$b->do(writes(0));
$b->query('COMMIT');
LockstepCluster::is_error($b->error, '40001', qr/n3/, 'a reader meets a READ COMMITTED writer of a third node');

$c->same('all nodes are equal');
done_testing;
