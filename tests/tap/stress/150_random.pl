# Everything at once, at random: keys that change, unique values that are swapped,
# foreign keys with cascades, tables without a key, partitions, savepoints,
# overlapping ranges, COPY-sized inserts, TRUNCATE and other DDL, on all nodes at
# the same time; then all nodes are equal and the constraints hold.  With
# LOCKSTEP_LONG longer, and nodes and the replicator are killed meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time usleep);

my $long = $ENV{LOCKSTEP_LONG};
my $seconds = $long ? 60 : 8;
my $seed = $ENV{LOCKSTEP_SEED} // int(rand(1e6));
diag("LOCKSTEP_SEED=$seed");
srand($seed);

my $c = LockstepCluster->new(nodes => 3, durable => $long ? 1 : 0, replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\n");
$c->sql(1, <<'SQL');
CREATE TABLE keyed (id int PRIMARY KEY, u int UNIQUE DEFERRABLE, v int, t text);
INSERT INTO keyed SELECT i, i, 0, repeat('t', i) FROM generate_series(1, 60) i;
CREATE TABLE parent (id int PRIMARY KEY, v int);
CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO parent SELECT i, 0 FROM generate_series(1, 20) i;
CREATE TABLE nokey (a int, b text);
CREATE TABLE part (id int, k int, v int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE part_0 PARTITION OF part FOR VALUES IN (0);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_d PARTITION OF part DEFAULT;
CREATE TABLE expr (id int PRIMARY KEY, t text);
CREATE UNIQUE INDEX expr_lower ON expr (lower(t)) WHERE id > 5;
CREATE TABLE ranges (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TABLE bulk (id int, n int);
CREATE TABLE money (id int PRIMARY KEY, balance int);
INSERT INTO money SELECT i, 100 FROM generate_series(1, 20) i;
SQL
$c->drain;

my %script = (
	'keyed@4' => "UPDATE keyed SET v = v + 1, t = t || 'x' WHERE id = :a;",
	'rekey@3' => "UPDATE keyed SET id = :b + 1000 * (:c % 2) WHERE id = :a;",
	'swap@2' => "BEGIN;\nUPDATE keyed SET u = -u WHERE u = :a;\nUPDATE keyed SET u = :a WHERE u = :b;\nUPDATE keyed SET u = :b WHERE u = -:a;\nCOMMIT;",
	'upsert@3' => "INSERT INTO keyed VALUES (:a, :b + 60 * (:c % 3), :c) ON CONFLICT (id) DO UPDATE SET v = keyed.v + excluded.v;",
	'delete@2' => "DELETE FROM keyed WHERE id = :a;",
	'child@4' => "INSERT INTO child VALUES (:c, 1 + :a % 20) ON CONFLICT DO NOTHING;",
	'parent@2' => "BEGIN;\nDELETE FROM parent WHERE id = 1 + :a % 20;\nINSERT INTO parent VALUES (1 + :a % 20, :b) ON CONFLICT DO NOTHING;\nCOMMIT;",
	'parentkey@1' => "UPDATE parent SET id = 1 + :b % 20 WHERE id = 1 + :a % 20 AND NOT EXISTS (SELECT FROM parent WHERE id = 1 + :b % 20);",
	'nokey@3' => "INSERT INTO nokey VALUES (:a % 5, 'b' || :b % 3);",
	'nokey2@2' => "DELETE FROM nokey WHERE ctid = (SELECT ctid FROM nokey WHERE a = :a % 5 LIMIT 1);",
	'nokey3@2' => "UPDATE nokey SET b = b || 'c' WHERE ctid = (SELECT ctid FROM nokey WHERE a = :a % 5 LIMIT 1);",
	'part@3' => "INSERT INTO part VALUES (:a, :b % 4, :c) ON CONFLICT (id, k) DO UPDATE SET v = :b;",
	'move@2' => "UPDATE part SET k = :b % 4 WHERE id = :a AND k = :c % 4 AND NOT EXISTS (SELECT FROM part WHERE id = :a AND k = :b % 4);",
	'expr@2' => "INSERT INTO expr VALUES (:a, chr(65 + :b % 26)) ON CONFLICT DO NOTHING;",
	'expr2@2' => "DELETE FROM expr WHERE id = :a;",
	'range@2' => "BEGIN;\nDELETE FROM ranges WHERE id = :a;\nINSERT INTO ranges VALUES (:a, int4range(:c, :c + 5)) ON CONFLICT DO NOTHING;\nCOMMIT;",
	'bulk@1' => "INSERT INTO bulk SELECT i, :a FROM generate_series(:a, :a + 50) i;",
	'bulk2@1' => "UPDATE bulk SET n = n + 1 WHERE id = :a;",
	'save@2' => "BEGIN;\nINSERT INTO nokey VALUES (7, 'kept');\nSAVEPOINT s;\nUPDATE keyed SET v = -1 WHERE id = :a;\nDELETE FROM nokey WHERE a = 7;\nROLLBACK TO s;\nUPDATE keyed SET v = v + 2 WHERE id = :b;\nCOMMIT;",
	'abort@1' => "BEGIN;\nUPDATE keyed SET v = -100 WHERE id = :a;\nINSERT INTO nokey VALUES (99, 'never');\nROLLBACK;",
	'transfer@6' => "BEGIN;\nUPDATE money SET balance = balance - :c % 10 WHERE id = 1 + :a % 20;\nUPDATE money SET balance = balance + :c % 10 WHERE id = 1 + :b % 20;\nCOMMIT;",
);
my @files;
for my $name (sort keys %script)
{
	my ($file, $weight) = $name =~ /(\w+)@(\d+)/;
	push @files, '-f', $c->file("$file.sql", "\\set a random(1, 60)\n\\set b random(1, 60)\n\\set c random(1, 300)\n$script{$name}\n") . "\@$weight";
}

# A client ends at an error that is not to be retried (a unique violation, say):
# each is started again until the time is over.
my $end = time + $seconds;
sub start { my ($node) = @_; return { node => $node, until => $end, %{ $c->pgbench_start($node, '-n', @files, '-c', 4, '-T', 2, '--max-tries=100', '--random-seed=' . int(rand(1e6))) } } }
my @load = map { start($_) } $c->all, $c->all;
my ($processed, $rounds, $ddl, %errors) = (0, 0, 0);
my $next_ddl = time + 0.5;
my $next_kill = time + 5;
while (@load)
{
	my @running;
	for my $l (@load)
	{
		if (eval { $l->{handle}->pump_nb; 1 } && $l->{handle}->pumpable)
		{
			push @running, $l;
			next;
		}
		eval { $l->{handle}->finish };
		$processed += LockstepCluster::processed(${ $l->{text} });
		$rounds++;
		$errors{$1}++ while ${ $l->{text} } =~ /ERROR:  ([^"\n]*)/g;
		push @running, start($l->{node}) if time < $end;
	}
	@load = @running;
	if (time > $next_ddl && time < $end)
	{
		my $node = 1 + int(rand(3));
		my @commands = ('TRUNCATE bulk', "ALTER TABLE keyed ADD COLUMN c_$ddl int DEFAULT $ddl", "CREATE TABLE made_$ddl AS SELECT id, v FROM keyed",
			"CREATE INDEX ON nokey (b)", "CREATE VIEW view_$ddl AS SELECT count(*) FROM part", 'ALTER TABLE parent ALTER COLUMN v SET DEFAULT 3',
			"BEGIN; DELETE FROM nokey WHERE a = 1; CREATE TABLE both_$ddl (id int PRIMARY KEY); INSERT INTO both_$ddl VALUES (1); COMMIT");
		$c->try($node, $commands[ int(rand(@commands)) ], timeout => 120);
		$ddl++;
		$next_ddl = time + rand(1.5);
	}
	if ($long && time > $next_kill && time < $end - 5)
	{
		my $what = int(rand(4));
		if ($what == 0)
		{
			$c->cluster('kill-replicator');
			$c->cluster('start-replicator');
		}
		else
		{
			$c->cluster('kill-node', $what);
			$c->cluster('start-node', $what);
		}
		$next_kill = time + 4 + rand(6);
	}
	usleep(50_000);
}
note("$processed transactions in $rounds rounds, $ddl DDL commands; " . join(', ', map { "$errors{$_} x $_" } sort keys %errors));
cmp_ok($processed, '>', 50, 'there was load');
ok($c->wait_state($_, 'online'), "n$_ is online") for $c->all;
$c->same('all nodes are equal');

for my $node ($c->all)
{
	is($c->sql($node, 'SELECT sum(balance) FROM money'), 2000, "n$node: no money was made or lost");
	is($c->sql($node, 'SELECT count(*) FROM nokey WHERE a = 99'), 0, "n$node: what was rolled back is not there");
	is($c->sql($node, 'SELECT count(*) FROM child c WHERE NOT EXISTS (SELECT FROM parent p WHERE p.id = c.p)'), 0, "n$node: no orphans");
	is($c->sql($node, 'SELECT count(*) - count(DISTINCT u) FROM keyed'), 0, "n$node: unique values are unique");
	is($c->sql($node, 'SELECT count(*) FROM ranges a JOIN ranges b ON a.id < b.id AND a.r && b.r'), 0, "n$node: no ranges overlap");
	is($c->sql($node, "SELECT count(*) FROM (SELECT lower(t) FROM expr WHERE id > 5 GROUP BY 1 HAVING count(*) > 1) x"), 0, "n$node: unique expressions are unique");

	# Indexes and heap say the same.
	is($c->sql($node, 'SET enable_seqscan = off; SELECT count(*) FROM keyed WHERE id > -100000'),
		$c->sql($node, 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM keyed WHERE id > -100000'),
		"n$node: index and heap agree");
}

done_testing;
