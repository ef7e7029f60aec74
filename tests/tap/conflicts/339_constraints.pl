# Constraints under concurrency: three nodes at once do what meets in unique and exclusion
# constraints, foreign keys with their actions, deferred constraints, checks, partitions,
# and DDL beside it all.  Clients repeat what fails with 40001 and the like.  Afterwards
# every constraint holds on every node, and all nodes are equal.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.queue_after = 0\n");
$c->sql(1, <<'SQL');
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE TABLE u (id int PRIMARY KEY, a int UNIQUE, b int, c int, UNIQUE (b) DEFERRABLE INITIALLY DEFERRED);
CREATE UNIQUE INDEX u_partial ON u (c) WHERE c > 0;
CREATE UNIQUE INDEX u_expression ON u ((a % 50)) WHERE a > 1000;
INSERT INTO u SELECT i, i, i, -i FROM generate_series(1, 40) i;
CREATE TABLE ex (id int PRIMARY KEY, room int, during int4range, EXCLUDE USING gist (during WITH &&));
CREATE TABLE parent (id int PRIMARY KEY, code int UNIQUE, v int);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE child_null (id int PRIMARY KEY, p int REFERENCES parent (code) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE child_deferred (id int PRIMARY KEY, p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
INSERT INTO parent SELECT i, i, 0 FROM generate_series(1, 20) i;
CREATE TABLE ck (id int PRIMARY KEY, v positive, w int, CHECK (w < 1000));
INSERT INTO ck SELECT i, i, i FROM generate_series(1, 20) i;
CREATE TABLE part (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (50);
CREATE TABLE part2 PARTITION OF part FOR VALUES FROM (50) TO (100);
INSERT INTO part SELECT i, 0 FROM generate_series(0, 99, 3) i;
CREATE TABLE ddl (id int PRIMARY KEY, v int, ref int);
INSERT INTO ddl SELECT i, i, i FROM generate_series(1, 20) i;
SQL
$c->drain;

# Each line a transaction.  :i, :j are random keys.
my %mix = (
	unique => <<'SQL',
INSERT INTO u VALUES (:i + 100, :j, :i, :j) ON CONFLICT (id) DO UPDATE SET c = :i;
UPDATE u SET a = :j WHERE id = :i;
UPDATE u SET c = :j WHERE id = :i;
DELETE FROM u WHERE id = :i + 100;
BEGIN; UPDATE u SET b = -1 - :i WHERE b = :i; UPDATE u SET b = :i WHERE b = :j; UPDATE u SET b = :j WHERE b = -1 - :i; COMMIT;
UPDATE u SET a = a + 1000 WHERE id = :i AND a < 1000;
SQL
	exclusion => <<'SQL',
INSERT INTO ex VALUES (:i * 100 + :j, 1, int4range(:i, :i + 3));
DELETE FROM ex WHERE during && int4range(:j, :j + 5);
UPDATE ex SET during = int4range(:j, :j + 2) WHERE id % 40 = :i;
SQL
	foreign => <<'SQL',
INSERT INTO child VALUES (:i * 100 + :j, :i % 25) ON CONFLICT DO NOTHING;
INSERT INTO child_null VALUES (:i * 100 + :j, :i % 25) ON CONFLICT DO NOTHING;
BEGIN; INSERT INTO child_deferred VALUES (:i * 100 + :j, :i % 25) ON CONFLICT DO NOTHING; INSERT INTO parent VALUES (:i % 25, :i % 25, 1) ON CONFLICT DO NOTHING; COMMIT;
DELETE FROM child_deferred WHERE id % 7 = :j % 7;
DELETE FROM parent WHERE id = :j % 25;
INSERT INTO parent VALUES (:j % 25, :j % 25, 2) ON CONFLICT DO NOTHING;
UPDATE parent SET id = :i % 25 WHERE id = :j % 25;
UPDATE parent SET code = :i % 25 WHERE id = :j % 25;
UPDATE parent SET v = v + 1 WHERE id = :i % 25;
DELETE FROM child WHERE id % 11 = :i % 11;
SQL
	check => <<'SQL',
UPDATE ck SET v = v + :j - 20 WHERE id = :i;
UPDATE ck SET w = w + :j WHERE id = :i;
UPDATE ck SET w = 1 WHERE id = :j;
SQL
	partition => <<'SQL',
UPDATE part SET id = :j * 2 WHERE id = :i;
UPDATE part SET id = :j, v = v + 1 WHERE id = :i * 2;
INSERT INTO part VALUES (:i * 2, 0) ON CONFLICT (id) DO UPDATE SET v = part.v + 1;
DELETE FROM part WHERE id = :j;
SQL
	ddl => <<'SQL',
UPDATE ddl SET v = v + 1 WHERE id = :i % 20;
INSERT INTO ddl VALUES (:i + 100, :j, 1) ON CONFLICT (id) DO UPDATE SET v = ddl.v + 1;
DELETE FROM ddl WHERE id = :j + 100;
SQL
);

my @commands = (
	'ALTER TABLE ddl ADD COLUMN x int DEFAULT 7',
	'ALTER TABLE ddl DROP COLUMN x',
	'CREATE INDEX ddl_v ON ddl (v)',
	'DROP INDEX ddl_v',
	'ALTER TABLE ddl ADD CONSTRAINT bounded CHECK (v > -1000) NOT VALID',
	'ALTER TABLE ddl VALIDATE CONSTRAINT bounded',
	'ALTER TABLE ddl DROP CONSTRAINT bounded',
	'ALTER TABLE ddl ADD CONSTRAINT refers FOREIGN KEY (ref) REFERENCES ddl NOT VALID',
	'ALTER TABLE ddl DROP CONSTRAINT refers',
	'ALTER TABLE ddl ALTER COLUMN v TYPE bigint',
	'ALTER TABLE ddl ALTER COLUMN v TYPE int',
	'ALTER TABLE ddl RENAME COLUMN ref TO ref2',
	'ALTER TABLE ddl RENAME COLUMN ref2 TO ref',
	'TRUNCATE ddl',
	'ALTER TABLE ddl RENAME TO ddl2; ALTER TABLE ddl2 RENAME TO ddl',
	'ALTER TABLE part DETACH PARTITION part2; ALTER TABLE part ATTACH PARTITION part2 FOR VALUES FROM (50) TO (100)',
	'DROP TABLE ddl; CREATE TABLE ddl (id int PRIMARY KEY, v int, ref int)');

# Errors that these transactions may get; all others are failures of the test.
my $expected = qr/^(?:23505|23503|23514|23P01|23502|25P02|40001|40P01|42P01|42703|0A000)$/;

# One client, in a process of its own: psql sessions that send line by line.
sub client
{
	my ($node, $seed, @lines) = @_;
	srand($seed);
	my $script = "SET lockstep.commit_wait = executed;\n\\set VERBOSITY verbose\n";
	my $count = $ENV{LOCKSTEP_LONG} ? 3000 : 400;
	for (1 .. $count)
	{
		my $line = $lines[ int rand @lines ];
		my ($i, $j) = (1 + int rand 40, 1 + int rand 40);
		$line =~ s/:i\b/$i/g;
		$line =~ s/:j\b/$j/g;
		$line =~ s/; /;\n/g;
		$script .= "$line\n" . ($line =~ /^BEGIN/ ? "\\if :ERROR\nROLLBACK;\n\\endif\n" : '');
	}
	my $file = $c->file("client$node-$seed.sql", $script);
	my $h = IPC::Run::start([ "$LockstepCluster::bindir/psql", '-XAtq', '-d', $c->conninfo($node), '-f', $file ],
		'<', '/dev/null', '>', '/dev/null', '2>', "$file.err");
	return { handle => $h, err => "$file.err", node => $node };
}

for my $name (sort keys %mix)
{
	my $seed = $ENV{LOCKSTEP_SEED} // int(rand(1e6));
	my @lines = split /\n/, $mix{$name};
	my @clients = map { my $n = $_; map { client($n, $seed + 10 * $n + $_, @lines) } 1, 2 } $c->all;
	if ($name eq 'ddl')
	{
		srand($seed);
		for my $round (1 .. ($ENV{LOCKSTEP_LONG} ? 100 : 25))
		{
			my $command = $commands[ int rand @commands ];
			my (undef, $err) = $c->try(1 + int rand 3, "BEGIN; $command; COMMIT", timeout => 60);
			my ($state) = $err =~ /(?:ERROR|FATAL):\s+(\w{5})/;
			ok($err eq '' || $err =~ /already exists|does not exist/ || $state =~ $expected, "$command" . ($err ? " ($state)" : '')) or diag($err);
		}
	}
	my (%seen, @unexpected);
	for my $client (@clients)
	{
		$client->{handle}->finish;
		my $err = LockstepCluster::_slurp($client->{err});
		for my $error (split /^(?=.*(?:ERROR|FATAL):)/m, $err)
		{
			my ($state) = $error =~ /(?:ERROR|FATAL):\s+(\w{5})/ or next;
			$seen{$state}++;
			push @unexpected, "n$client->{node}: $error" unless $state =~ $expected;
		}
		fail("$name: a client on n$client->{node} lost its connection") if $err =~ /server closed|connection/;
	}
	is(@unexpected, 0, "$name: only errors that are expected (" . join(', ', map { "$_: $seen{$_}" } sort keys %seen) . "; seed $seed)") or diag(@unexpected);
	$c->same("$name: all nodes are equal");
}

# ---------- every constraint holds, checked by queries of its own, on every node

my %holds = (
	'unique a' => 'SELECT a FROM u GROUP BY a HAVING count(*) > 1 AND a IS NOT NULL',
	'deferred unique b' => 'SELECT b FROM u GROUP BY b HAVING count(*) > 1 AND b IS NOT NULL',
	'partial unique c' => 'SELECT c FROM u WHERE c > 0 GROUP BY c HAVING count(*) > 1',
	'unique expression' => 'SELECT a % 50 FROM u WHERE a > 1000 GROUP BY 1 HAVING count(*) > 1',
	'no overlapping ranges' => 'SELECT x.id FROM ex x JOIN ex y ON x.id < y.id AND x.during && y.during',
	'child has a parent' => 'SELECT * FROM child c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent WHERE id = c.p)',
	'child_null has a parent' => 'SELECT * FROM child_null c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent WHERE code = c.p)',
	'child_deferred has a parent' => 'SELECT * FROM child_deferred c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent WHERE id = c.p)',
	'domain and check' => 'SELECT * FROM ck WHERE v <= 0 OR w >= 1000',
	'rows are in their partitions' => 'SELECT * FROM part1 WHERE id >= 50 UNION ALL SELECT * FROM part2 WHERE id < 50');
for my $node ($c->all)
{
	is($c->sql($node, "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; $holds{$_}"), '', "n$node: $_") for sort keys %holds;
}
is(join(' ', map { $c->node_status($_)->{state} } $c->all), 'online online online', 'and no node was dropped');
done_testing;
