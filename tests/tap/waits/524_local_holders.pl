# A command that waits for a transaction of its own node has nothing of the cluster: while ALTER TABLE
# waits for a report, all others write, that table too, and create tables, on every node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int, UNIQUE (v));
CREATE INDEX t_i ON t (v, id);
CREATE TABLE part (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (1) TO (10000);
CREATE TABLE refers (id int);
CREATE VIEW w AS SELECT * FROM t;
CREATE MATERIALIZED VIEW m AS SELECT 1 AS a;
CREATE SEQUENCE s;
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
SQL
$c->drain;

my $n = 0;
my $reader = $c->session(1);
my $quick = "SET statement_timeout = '5s'; SET lock_timeout = '5s';";

# What the reader does, and which command waits for it.
for (
	[ 'SELECT count(*) FROM t', 'ALTER TABLE t ADD COLUMN IF NOT EXISTS c int' ],
	[ 'SELECT count(*) FROM t', 'ALTER TABLE t RENAME COLUMN c TO d' ],
	[ 'SELECT count(*) FROM t', 'TRUNCATE t' ],
	[ 'SELECT count(*) FROM t', 'DROP INDEX t_i' ],
	[ 'SELECT count(*) FROM t', 'CREATE POLICY p ON t USING (true)' ],
	[ 'SELECT count(*) FROM t', 'DROP POLICY p ON t' ],
	[ 'SELECT count(*) FROM t', 'CREATE RULE r AS ON DELETE TO refers DO ALSO NOTHING; ALTER TABLE t ALTER v SET NOT NULL' ],
	[ 'SELECT count(*) FROM t', 'BEGIN; LOCK TABLE t; COMMIT' ],
	[ 'INSERT INTO t (id, v) VALUES (-1, -1)', 'CREATE INDEX t_j ON t (v)' ],
	[ 'INSERT INTO t (id, v) VALUES (-2, -2)', 'CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()' ],
	[ 'INSERT INTO t (id, v) VALUES (-3, -3)', 'ALTER TABLE refers ADD FOREIGN KEY (id) REFERENCES t' ],
	[ 'INSERT INTO t (id, v) VALUES (-4, -4)', 'CREATE TABLE refers2 (id int REFERENCES t)' ],
	[ 'SELECT count(*) FROM part1', 'ALTER TABLE part ADD COLUMN v int' ],
	[ 'SELECT count(*) FROM part1', 'ALTER TABLE part DETACH PARTITION part1' ],
	[ 'SELECT count(*) FROM part1', 'ALTER TABLE part ATTACH PARTITION part1 FOR VALUES FROM (1) TO (10000)' ],
	[ 'SELECT count(*) FROM w', 'CREATE OR REPLACE VIEW w AS SELECT id, v FROM t LIMIT 1' ],
	[ 'SELECT count(*) FROM m', 'REFRESH MATERIALIZED VIEW m' ],
	[ "SELECT nextval('s')", 'ALTER SEQUENCE s CACHE 3' ],
	[ 'SELECT count(*) FROM refers', 'DROP TABLE refers' ])
{
	my ($reads, $command) = @$_;
	$reader->do("BEGIN; $reads");
	is($reader->error, '', "$command: $reads");
	my $s = $c->session(1);
	$s->send("SET client_min_messages = error; $command");
	ok($c->wait_sql(1, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'virtualxid'", 1, 10), 'it waits');
	for my $node (1, 2)
	{
		$n++;
		my (undef, $err) = $c->try($node, "$quick CREATE TABLE made$n (id int); INSERT INTO t (id, v) VALUES ($n, $n); INSERT INTO part1 VALUES ($n)");
		is($err, '', "n$node goes on meanwhile");
	}
	$reader->do('COMMIT');
	is($reader->error, '', 'its transaction is not in the way of any');
	$s->finish(30);
	is($s->error, '', 'it is done');
	$s->close;
}
$c->same('the nodes are equal');

# ---------- an index that is dropped concurrently, which keeps its lock from one transaction to the next

$reader->do('BEGIN; SELECT count(*) FROM t');
my ($index, $alter) = ($c->session(1), $c->session(1));
my $waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'virtualxid'";
$index->send('DROP INDEX CONCURRENTLY t_j');
ok($c->wait_sql(1, $waiting, 1, 10), 'the index waits for a reader');
$alter->send('ALTER TABLE t ADD COLUMN f int');
ok($c->wait_sql(1, $waiting, 2, 10), 'ALTER TABLE waits for the index');
is(($c->try($_, "$quick CREATE TABLE made0$_ (id int); INSERT INTO t (id, v) VALUES (-5$_, -5$_)"))[1], '', "n$_ goes on meanwhile") for 1, 2;
$reader->do('COMMIT');
$_->finish(30) for $index, $alter;
is($_->error, '', 'it is done') for $index, $alter;
$c->same('equal, with both');

# ---------- it can be given up

$reader->do('BEGIN; SELECT count(*) FROM t');
$c->fails(1, "SET lock_timeout = '300ms'; ALTER TABLE t ADD COLUMN e int", '55P03', qr/lock timeout/, 'lock_timeout');
$c->fails(1, "SET statement_timeout = '300ms'; ALTER TABLE t ADD COLUMN e int", '57014', qr/statement timeout/, 'statement_timeout');
$c->fails(1, 'BEGIN; LOCK TABLE t NOWAIT', '55P03', qr/could not obtain lock/, 'NOWAIT');
$c->sql(1, 'CREATE ROLE r');
$c->fails(1, 'SET ROLE r; ALTER TABLE t ADD COLUMN e int', '42501', qr/must be owner/, 'who may not alter it does not wait');
$reader->do('COMMIT');
done_testing();
