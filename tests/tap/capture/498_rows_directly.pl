# Rows, and runs of rows, that other nodes change without the executor, and those that are left to it: tables of each
# kind - several indexes, with expressions, predicates, other access methods, constraints that
# are deferred or exclude, generated columns, values out of line, dropped and added columns, lengths
# that cut, partitions, publications - come to the same content, and every index to that of its table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TYPE mood AS ENUM ('bad', 'fair', 'good');
CREATE DOMAIN short AS varchar(12) CHECK (VALUE <> 'never');
CREATE TABLE plain (id int PRIMARY KEY, a int, b text, c numeric(10, 2), d timestamptz(3), e char(7), f varchar(9), g short);
CREATE TABLE several (id int PRIMARY KEY, a int UNIQUE, b text, m mood, x int);
CREATE INDEX ON several (b, x);
CREATE INDEX ON several (m);
CREATE INDEX ON several USING hash (b);
CREATE TABLE pair (a int, b text, v int, PRIMARY KEY (b, a));
CREATE TABLE expressions (id int PRIMARY KEY, a text, b int);
CREATE UNIQUE INDEX ON expressions (lower(a));
CREATE INDEX ON expressions (b) WHERE b > 50;
CREATE TABLE kinds (id int PRIMARY KEY, a int[], b int4range, c int);
CREATE INDEX ON kinds USING gin (a);
CREATE INDEX ON kinds USING brin (c);
CREATE INDEX ON kinds USING gist (b);
CREATE TABLE deferred (id int PRIMARY KEY, place int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE excluded (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TABLE generated (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
CREATE TABLE large (id int PRIMARY KEY, a text, b int);
ALTER TABLE large ALTER a SET STORAGE EXTERNAL;
CREATE TABLE changed (gone int, id int PRIMARY KEY, a int);
INSERT INTO changed SELECT i, i, i FROM generate_series(1, 10) i;
ALTER TABLE changed DROP gone, ADD later text DEFAULT 'as it was' NOT NULL, ADD more int;
CREATE TABLE parts (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
CREATE TABLE keyless (a int, b text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES plain ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE logged (what text);
CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO logged VALUES (TG_OP); RETURN NEW; END $$;
CREATE TABLE watched (id int PRIMARY KEY, v int);
CREATE TRIGGER always BEFORE INSERT OR UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION log_it();
ALTER TABLE watched ENABLE ALWAYS TRIGGER always;
SQL
$c->drain;
my @tables = qw(plain several pair expressions kinds deferred excluded generated large changed parts keyless child watched logged);

# ---------- one by one, each in a transaction of its own and in one with all

my @changes = split(/\n/, <<'SQL');
INSERT INTO plain SELECT 1, NULL, 'eins', 1.005, '2020-01-01 00:00:00.123456', 'abc', 'f', 'kurz'
INSERT INTO plain SELECT 2, 7, 'zwei', NULL, now(), NULL, '', NULL
UPDATE plain SET a = 1, c = 12.345, e = 'x', d = '2021-02-03 04:05:06.7899' WHERE id = 1
UPDATE plain SET b = NULL, g = 'anders' WHERE id = 2
UPDATE plain SET id = 3 WHERE id = 2
INSERT INTO child VALUES (1, 3)
UPDATE plain SET id = 4 WHERE id = 3
INSERT INTO several SELECT 1, 1, 'one', 'good', 1
INSERT INTO several SELECT 2, 2, 'two', 'bad', 2
UPDATE several SET x = 5 WHERE id = 1
UPDATE several SET a = 10, m = 'fair' WHERE id = 2
UPDATE several SET b = 'other', x = NULL WHERE id = 2
UPDATE several SET id = id + 10
DELETE FROM several WHERE a = 10
INSERT INTO pair SELECT 1, 'x', 1
INSERT INTO pair SELECT 2, 'x', 2
UPDATE pair SET v = 3 WHERE a = 2
UPDATE pair SET b = 'y' WHERE a = 1
DELETE FROM pair WHERE a = 2
INSERT INTO expressions SELECT 1, 'Große', 60
UPDATE expressions SET a = 'KLEINE', b = 10 WHERE id = 1
UPDATE expressions SET b = 70 WHERE id = 1
INSERT INTO kinds SELECT 1, '{1,2,3}', '[1,5)', 1
UPDATE kinds SET a = '{4}', c = 5 WHERE id = 1
UPDATE kinds SET b = '[7,9)' WHERE id = 1
UPDATE kinds SET c = 6 WHERE id = 1
BEGIN; INSERT INTO deferred SELECT 1, 1; INSERT INTO deferred SELECT 2, 2; COMMIT
BEGIN; UPDATE deferred SET place = 2 WHERE id = 1; UPDATE deferred SET place = 1 WHERE id = 2; COMMIT
INSERT INTO excluded SELECT 1, '[1,5)'
UPDATE excluded SET r = '[2,3)' WHERE id = 1
INSERT INTO generated SELECT 1, 4
UPDATE generated SET a = 5 WHERE id = 1
INSERT INTO large SELECT 1, repeat('lang', 5000), 1
UPDATE large SET b = 2 WHERE id = 1
UPDATE large SET a = repeat('kurz', 5) WHERE id = 1
UPDATE changed SET a = 20 WHERE id = 2
INSERT INTO changed SELECT 11, 11
UPDATE changed SET later = 'now', more = 3 WHERE id = 3
DELETE FROM changed WHERE id = 4
INSERT INTO parts SELECT 1, 'first'
UPDATE parts SET v = 'second' WHERE id = 1
UPDATE parts SET id = 200 WHERE id = 1
INSERT INTO keyless SELECT 1, 'same'
INSERT INTO keyless SELECT 1, 'same'
UPDATE keyless SET b = 'else' WHERE ctid = '(0,1)'
DELETE FROM keyless WHERE b = 'same'
INSERT INTO watched SELECT 1, 1
UPDATE watched SET v = 2 WHERE id = 1
DELETE FROM plain WHERE id = 4
SQL
$c->sql(1, $_) for @changes;
$c->same('each by itself');
$c->sql(1, 'TRUNCATE ' . join(', ', @tables));
$c->sql(1, "INSERT INTO changed SELECT i, i FROM generate_series(1, 10) i");
$c->sql(1, join(";\n", 'BEGIN', (grep { !/ctid/ } map { s/^BEGIN; |; COMMIT$//gr } @changes), 'COMMIT'));
$c->same('all in one transaction');

# ---------- many, at random, from both nodes

$c->sql(1, 'TRUNCATE ' . join(', ', @tables));
$c->sql(1, <<'SQL');
INSERT INTO plain SELECT i, i, 'x', i, now(), 'e', 'f', 'g' FROM generate_series(1, 200) i;
INSERT INTO several SELECT i, i, 'b' || i % 7, 'good', i FROM generate_series(1, 200) i;
INSERT INTO expressions SELECT i, 'Name' || i, i FROM generate_series(1, 200) i;
CREATE PUBLICATION everything FOR ALL TABLES;
SQL
$c->drain;
my $load = $c->file('load.sql', <<'SQL');
\set id random(1, 200)
\set x random(1, 1000000)
BEGIN;
UPDATE plain SET a = :x, b = repeat('y', :x % 300) WHERE id = :id;
UPDATE several SET b = 'b' || :x % 9, x = :x WHERE id = :id;
UPDATE expressions SET b = :x % 100, a = 'New' || :id || ' ' || :x WHERE id = :id;
INSERT INTO pair SELECT :x, 'load', :id ON CONFLICT DO NOTHING;
DELETE FROM pair WHERE a % 50 = :id % 50 AND a < :x - 200000;
COMMIT;
SQL
my @load = map { $c->pgbench_start($_, '-n', '-c', 3, '-T', 4, '--max-tries=100', '-f', $load) } 1, 2;
$_->{handle}->finish for @load;
$c->same('from both nodes');

# ---------- many new rows, which come as COPY

$c->sql(1, 'TRUNCATE ' . join(', ', @tables));
$c->sql(1, <<'SQL');
CREATE MATERIALIZED VIEW summary AS SELECT count(*) FROM plain;
BEGIN;
INSERT INTO plain SELECT i, NULLIF(i % 5, 0), repeat('x', i % 90), i / 3.0, '2020-01-01 00:00:00.123456'::timestamptz + i * interval '1 hour', 'e', 'f', 'g' FROM generate_series(1, 700) i;
INSERT INTO several SELECT i, NULLIF(i, 3), E'tab\t' || i % 7, 'good', i FROM generate_series(1, 700) i;
INSERT INTO pair SELECT i, E'line\n', i FROM generate_series(1, 256) i;
INSERT INTO expressions SELECT i, 'Name' || i, i % 100 FROM generate_series(1, 700) i;
INSERT INTO kinds SELECT i, ARRAY[i % 3, i % 5], int4range(i, i + 3), i FROM generate_series(1, 257) i;
INSERT INTO deferred SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO excluded SELECT i, int4range(i * 10, i * 10 + 9) FROM generate_series(1, 300) i;
INSERT INTO generated SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO large SELECT i, repeat('lang', i * 100), i FROM generate_series(1, 60) i;
INSERT INTO changed SELECT i, i FROM generate_series(1, 300) i;
INSERT INTO parts SELECT i, 'x' FROM generate_series(1, 512) i;
INSERT INTO keyless SELECT i % 3, 'same' FROM generate_series(1, 300) i;
INSERT INTO watched SELECT i, i FROM generate_series(1, 20) i;
COMMIT;
REFRESH MATERIALIZED VIEW summary;
SQL
$c->same('many new rows of each table');

# ---------- every index has what its table has

for my $node ($c->all)
{
	$c->sql_local($node, 'CREATE EXTENSION IF NOT EXISTS amcheck');
	is($c->sql_local($node, q{SELECT count(bt_index_check(i.indexrelid, true)::text) > 15 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE c.relkind = 'i' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree') AND i.indrelid >= 16384}), 't', "n$node: indexes are complete");
	is($c->sql_local($node, q{SET enable_seqscan = off; SET enable_bitmapscan = on; SELECT (SELECT count(*) FROM several WHERE b = 'b1') = (SELECT count(*) FROM several WHERE b || '' = 'b1')}), 't', "n$node: hash, too");
}

# ---------- which way they go: an error that comes from a query has that in its context

sub through_a_query
{
	my ($table, $row) = @_;
	my $from = length $c->node_log(2);
	$c->sql_local(2, "INSERT INTO $table $row");
	$c->fails(1, "INSERT INTO $table $row", '23505', qr/duplicate key/, "$table: an error");
	$c->sql_local(2, "DELETE FROM $table WHERE id = -1");
	my ($error) = substr($c->node_log(2), $from) =~ /(lockstep apply ERROR:  duplicate key.*?STATEMENT)/s;
	return ($error // 'none') =~ /SQL statement/ ? 'yes' : defined $error ? 'no' : 'no error';
}

is(through_a_query('several', 'SELECT -1, -1'), 'no', 'a row of a plain table does without the executor');
is(through_a_query('expressions', "SELECT -1, 'x', 1"), 'yes', 'one of a table whose index has an expression does not');

# one of many is there already
my $from = length $c->node_log(2);
$c->sql_local(2, 'INSERT INTO several SELECT 2400, 2400');
$c->fails(1, 'INSERT INTO several SELECT i, i FROM generate_series(2001, 2600) i', '23505', qr/duplicate key/, 'one of many new rows is there already');
$c->sql_local(2, 'DELETE FROM several WHERE id = 2400');
like(substr($c->node_log(2), $from), qr/CONTEXT:  COPY several, line 400$/m, 'the log says which');
$c->sql(1, 'INSERT INTO several SELECT i, i FROM generate_series(2001, 2600) i');
$c->same('then not');

# ---------- runs of rows, which come as arrays

$c->sql(1, 'TRUNCATE several; INSERT INTO several SELECT i, i, \'run\', \'good\', i FROM generate_series(1, 40) i');
$c->drain;
my $run = "SET lockstep.statement_rows = -1; SET lockstep.commit_wait = executed; UPDATE several SET x = x + 1, m = 'fair' WHERE id <= 30";

# an index of this node alone has another opinion
$from = length $c->node_log(2);
$c->sql_local(2, 'CREATE UNIQUE INDEX of_this_node ON several (x)');
$c->fails(1, $run =~ s/x \+ 1/7/r, '23505', qr/duplicate key/, 'a run of rows fails');
my ($error) = substr($c->node_log(2), $from) =~ /(lockstep apply ERROR:  duplicate key.*?STATEMENT)/s;
unlike($error // 'SQL statement: no error', qr/SQL statement/, 'a run of rows does without the executor');
$c->sql_local(2, 'DROP INDEX of_this_node');
$c->sql(1, $run);
$c->same('a run of rows');
$c->sql(1, "SET lockstep.statement_rows = -1; DELETE FROM several WHERE id <= 10");
$c->same('rows deleted in a run');

# a run in the order of the table does without the index, but for its first rows; others are found as well
my $by_row = 'SET lockstep.statement_rows = -1';
$c->sql(1, <<'SQL');
CREATE TABLE in_order (a int, b text, v int, PRIMARY KEY (b, a));
INSERT INTO in_order SELECT i, 'line ' || i % 3, 0 FROM generate_series(1, 3000) i;
SQL
$c->drain;
$c->sql(1, "$by_row; UPDATE in_order SET v = v + 1");
$c->sql(1, "$by_row; DELETE FROM in_order WHERE a <= 1000");
$c->same('rows in the order of the table');
ok($c->wait_until(sub { $c->sql_local(2, "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'in_order'") == 1000 }, 30), 'the statistics are there');
cmp_ok($c->sql_local(2, "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'in_order_pkey'"), '<', 100, 'are found without the index');
$c->sql(1, "$by_row; DELETE FROM in_order WHERE a % 3 = 0; UPDATE in_order SET v = v + 1 WHERE a % 2 = 0");
$c->same('rows with others in between');
$c->sql_local($_, 'VACUUM in_order') for $c->all;
$c->sql(1, "INSERT INTO in_order SELECT i, 'new', 0 FROM generate_series(1, 3000) i; $by_row; UPDATE in_order SET v = v + 1");
$c->same('old and new rows by turns');
$c->sql_local(2, 'CREATE UNIQUE INDEX another_order ON in_order ((v % 7), a, b); CLUSTER in_order USING another_order; DROP INDEX another_order');
$c->sql(1, "$by_row; UPDATE in_order SET v = v * 2; DELETE FROM in_order WHERE v % 3 = 0");
$c->same('in another order on each node');
cmp_ok($c->sql(1, 'SELECT count(*) FROM in_order'), '>', 500, 'rows are left');

# rows of a table without a key: each is looked for from where the last one was
$c->sql(1, <<'SQL');
DROP PUBLICATION everything;
CREATE TABLE by_image (gone int, a int, b varchar(12), c numeric(8, 1), d int[], e char(5));
ALTER TABLE by_image DROP gone;
INSERT INTO by_image SELECT i, 'line ' || i % 50, NULLIF(i % 9, 0), ARRAY[i % 2, NULL, 3], NULLIF('e', 'e') FROM generate_series(1, 20000) i;
INSERT INTO by_image SELECT 0, 'twin', 1.0, '{}', 'x' FROM generate_series(1, 100);
ALTER TABLE by_image ADD later text DEFAULT 'as it was';
SQL
$c->drain;
$c->sql(1, "$by_row; DELETE FROM by_image WHERE a % 10 = 0 AND a > 0");
$c->same('rows found by their image');
$c->sql(1, "$by_row; UPDATE by_image SET c = c + 0.1, b = NULL WHERE a BETWEEN 5000 AND 6000; UPDATE by_image SET d[2] = 7, later = NULL WHERE a > 19000");
$c->same('changed');
is($c->sql(1, "$by_row; WITH d AS (DELETE FROM by_image WHERE ctid IN (SELECT ctid FROM by_image WHERE a = 0 LIMIT 30) RETURNING 1) SELECT count(*) FROM d"), 30, 'some of many equal rows');
$c->same('are as many on each node');
$c->sql(1, "$by_row; UPDATE by_image SET later = 'random ' || a WHERE a IN (SELECT (random() * 20000)::int FROM generate_series(1, 100))");
$c->same('here and there');
ok($c->wait_until(sub { $c->sql_local(2, "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'by_image'") == 2030 }, 30), 'the statistics are there');
my $read = $c->sql_local(2, "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'by_image'");
cmp_ok($read, '<', 4_000_000, 'few rows are looked at');
diag("$read rows were looked at");

# one in the middle is missing: the executor does the rest, and both count
$c->drain;
$c->sql_local(2, 'CREATE TABLE kept AS SELECT * FROM several WHERE id = 20; DELETE FROM several WHERE id = 20');
$c->fails(1, $run, 'LS003', qr/changed 19 rows on node "n2", 20 at its origin/, 'all but the one that is missing');
$c->sql_local(2, 'INSERT INTO several SELECT * FROM kept; DROP TABLE kept');
$c->sql(1, $run);
$c->same('after all');

$c->down;
done_testing();
