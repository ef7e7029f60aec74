# SERIALIZABLE on two nodes: transactions that read and change different rows by their key don't
# fail each other, however the key is written: as a constant, as a parameter, of another
# integer type than the column's; those that meet, do.  What a row that is not there would be,
# is covered; a number that the column can't have, is nobody's row.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.queue_after = 0\n");
my %types = (s => 'smallint', i => 'integer', b => 'bigint', t => 'text', v => 'varchar(20)', n => 'numeric', u => 'uuid', d => 'date');
$c->sql(1, join('', map { "CREATE TABLE $_ (id $types{$_} PRIMARY KEY, v int NOT NULL);" } sort keys %types) . <<'SQL');
INSERT INTO s SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO i SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO b SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO v SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO n SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO u SELECT lpad(i::text, 32, '0')::uuid, 0 FROM generate_series(1, 20) i;
INSERT INTO d SELECT '2000-01-01'::date + i, 0 FROM generate_series(1, 20) i;
CREATE TABLE two (a int, b bigint, v int NOT NULL, PRIMARY KEY (a, b));
INSERT INTO two SELECT i, i, 0 FROM generate_series(1, 20) i;
SQL
$c->drain;
my ($a, $b) = ($c->session(1), $c->session(2));

# Both read and change a row, then commit; b second.
sub commits
{
	my ($read, $change, $key_a, $key_b) = @_;
	for ([ $a, $key_a ], [ $b, $key_b ])
	{
		my ($s, $key) = @$_;
		$s->do('BEGIN ISOLATION LEVEL SERIALIZABLE');
		$s->do($read =~ s/:key/$key/gr);
		$s->do($change =~ s/:key/$key/gr);
	}
	$a->do('COMMIT');
	$b->query('COMMIT');
	my $error = $b->error;
	$b->query('ROLLBACK');
	$c->drain;
	return $error;
}

# Different rows by their key: never.  The first reads what the second changes: always.
sub rows
{
	my ($name, $table, $where, $key_a, $key_b) = @_;
	is(commits("SELECT v FROM $table WHERE $where", "UPDATE $table SET v = v + 1 WHERE $where", $key_a, $key_b), '', "$name: different rows don't meet");
	for ([ $a, $key_a, $key_b ], [ $b, $key_b, $key_a ])
	{
		my ($s, $mine, $other) = @$_;
		$s->do('BEGIN ISOLATION LEVEL SERIALIZABLE');
		$s->do("SELECT v FROM $table WHERE " . $where =~ s/:key/$other/gr);
		$s->do("UPDATE $table SET v = v + 1 WHERE " . $where =~ s/:key/$mine/gr);
	}
	$a->do('COMMIT');
	$b->query('COMMIT');
	LockstepCluster::is_error($b->error, '40001', qr/.*/, "$name: write skew");
	$b->query('ROLLBACK');
	$c->drain;
}

for my $column ('s', 'i', 'b')
{
	rows("$types{$column} column = $_", $column, "id = :key::$_", 3, 4) for 'smallint', 'integer', 'bigint';
	rows("$types{$column} column, constant", $column, 'id = :key', 5, 6);
	rows("$types{$column} column, turned round", $column, ':key::bigint = id', 5, 6);
}
rows('text', 't', "id = ':key'", 3, 4);
rows('varchar', 'v', "id = ':key'", 3, 4);
rows('numeric', 'n', 'id = :key', 3, 4);
rows('uuid', 'u', "id = lpad(':key', 32, '0')::uuid", 3, 4);
rows('date', 'd', "id = '2000-01-0:key'", 3, 4);
rows('two columns', 'two', 'a = :key::bigint AND b = :key', 3, 4);
for my $type ('smallint', 'integer', 'bigint')
{
	$_->do("PREPARE r_$type($type) AS SELECT v FROM i WHERE id = \$1; PREPARE w_$type($type) AS UPDATE i SET v = v + 1 WHERE id = \$1") for $a, $b;
	is(commits("EXECUTE r_$type(:key)", "EXECUTE w_$type(:key)", 7, 8), '', "parameter of type $type: different rows don't meet") for 1 .. 7;
}

# A row that is not there, and one that can't be.
is(commits('SELECT v FROM s WHERE id = 100000', 'INSERT INTO s VALUES (:key, 0)', 100, 101), '', 'a number that the column can\'t have');
for my $where ('id = 300', 'id = 300::bigint')
{
	$b->do("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT v FROM i WHERE $where; UPDATE t SET v = 1 WHERE id = '1'");
	$a->do('INSERT INTO i VALUES (300, 0)');
	$b->query('COMMIT');
	LockstepCluster::is_error($b->error, '40001', qr/has read/, "a row that was not there, $where");
	$b->query('ROLLBACK');
	$a->do('DELETE FROM i WHERE id = 300');
	$c->drain;
}

# READ ONLY and DEFERRABLE say nothing to the replicator and never fail for others.
for my $mode ('READ ONLY', 'READ ONLY DEFERRABLE', 'READ ONLY; SAVEPOINT s')
{
	$b->do("BEGIN ISOLATION LEVEL SERIALIZABLE, $mode; SELECT sum(v) FROM i");
	my $before = $c->status->{counters};
	$a->do('UPDATE i SET v = v + 1');
	$b->do('SELECT sum(v) FROM i; COMMIT');
	is($c->status->{counters}{conflicts}, $before->{conflicts}, "$mode: no conflict");
	is($c->status->{counters}{committed}, $before->{committed} + 1, "$mode: nothing of its own");
}

# What is READ ONLY for a while only has written before, or will.
for ([ 'after it has written', 'UPDATE i SET v = v + 1 WHERE id = 7', 'SET TRANSACTION READ ONLY', 'SELECT v FROM i WHERE id = 8' ],
	[ 'until a savepoint is released', 'SELECT 1', 'SAVEPOINT s', 'SET TRANSACTION READ ONLY', 'SELECT v FROM i WHERE id = 8', 'RELEASE s', 'UPDATE i SET v = v + 1 WHERE id = 7' ])
{
	my ($name, @statements) = @$_;
	$a->do($_) for 'BEGIN ISOLATION LEVEL SERIALIZABLE', @statements;
	$b->do($_) for 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'SELECT v FROM i WHERE id = 7', 'UPDATE i SET v = v + 1 WHERE id = 8';
	$b->do('COMMIT');
	$a->query('COMMIT');
	LockstepCluster::is_error($a->error, '40001', qr/.*/, "READ ONLY $name: write skew");
	$a->query('ROLLBACK');
	$c->drain;
}

$c->same('all nodes are equal');
$c->down;
done_testing;
