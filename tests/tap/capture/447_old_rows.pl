# The version of a row that a change has replaced is what its scan has, or is read from its page again: exactly, wherever
# its key stands in the row (behind values of any length, behind columns that were dropped or added since, in several columns,
# in an expression), in whatever order rows of several tables and pages are changed, by whatever plan, after a wait for who changed
# it, and while triggers change others of its table; and with every key that another transaction may conflict on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.statement_rows = -1\n");

$c->sql(1, <<'SQL');
CREATE TABLE first (id int PRIMARY KEY, v text);
CREATE TABLE last (v text, n numeric, b bytea, id text COLLATE "C" PRIMARY KEY);
CREATE TABLE three (a text, v text, b int, w text, c bigint, PRIMARY KEY (c, a, b));
CREATE TABLE two (v text, a int, b int UNIQUE, w text, PRIMARY KEY (a));
CREATE TABLE many (id int PRIMARY KEY, a int UNIQUE, b int UNIQUE, c int UNIQUE, v text);
CREATE TABLE expression (v text, id int PRIMARY KEY, w text);
CREATE UNIQUE INDEX ON expression (lower(w), length(v));
CREATE TABLE part_of (v text, id int PRIMARY KEY, w int, on_it bool);
CREATE UNIQUE INDEX ON part_of (w) WHERE on_it;
CREATE TABLE excluded (v text, id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
CREATE TABLE dropped (gone int, v text, gone_too text, id int PRIMARY KEY);
CREATE TABLE wide (v text, id int PRIMARY KEY);
ALTER TABLE wide ALTER v SET STORAGE EXTERNAL;
CREATE TABLE nokey (v text, n int);
CREATE UNLOGGED TABLE quick (v text, id int PRIMARY KEY);
CREATE TABLE p (v text, id int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (500);
CREATE TABLE p2 (x int, id int NOT NULL, v text);
ALTER TABLE p2 DROP x;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (500) TO (10000);
INSERT INTO first SELECT i, repeat('f', i % 50) FROM generate_series(1, 1000) i;
INSERT INTO last SELECT repeat('l', i % 60), i / 7.0, decode(lpad(to_hex(i), 8, '0'), 'hex'), 'key ' || i FROM generate_series(1, 1000) i;
INSERT INTO three SELECT 'a' || i % 10, repeat('x', i % 40), i % 7, NULL, i FROM generate_series(1, 1000) i;
INSERT INTO two SELECT CASE WHEN i % 3 > 0 THEN repeat('t', i % 30) END, i, CASE WHEN i % 5 > 0 THEN -i END, 'w' FROM generate_series(1, 1000) i;
INSERT INTO many SELECT i, -i, i + 5000, NULLIF(i % 4, 0) + i * 10, 'm' FROM generate_series(1, 1000) i;
INSERT INTO expression SELECT repeat('e', i % 20), i, 'W' || i FROM generate_series(1, 1000) i;
INSERT INTO part_of SELECT 'v', i, i / 2, i % 2 = 0 FROM generate_series(1, 1000) i;
INSERT INTO excluded SELECT 'v', i, int4range(i * 10, i * 10 + 5) FROM generate_series(1, 1000) i;
INSERT INTO dropped SELECT i, 'd' || i, repeat('g', i % 30), i FROM generate_series(1, 1000) i;
INSERT INTO wide SELECT repeat('w', CASE WHEN i % 100 = 0 THEN 10000 ELSE i % 80 END), i FROM generate_series(1, 1000) i;
INSERT INTO nokey SELECT 'n' || i, i FROM generate_series(1, 1000) i;
INSERT INTO quick SELECT 'q' || i, i FROM generate_series(1, 1000) i;
INSERT INTO p SELECT 'p' || i, i FROM generate_series(1, 1000) i;
SQL
$c->sql(1, <<'SQL');
ALTER TABLE dropped DROP gone, DROP gone_too, ADD since int NOT NULL DEFAULT 7, ADD late text DEFAULT 'late';
CREATE UNIQUE INDEX ON dropped (since, id);
ALTER TABLE dropped DROP CONSTRAINT dropped_pkey, ADD PRIMARY KEY (since, id);
SQL
$c->same('to begin with');

my @tables = qw(first last three two many expression part_of excluded dropped wide nokey quick p);
my %key = (last => 'substr(id, 5)::int', three => 'c::int', two => 'a', nokey => 'n');
sub key { my ($table) = @_; return $key{$table} // 'id' }

# ---------- many rows of each

$c->sql(1, join '', map { my $k = key($_); "DELETE FROM $_ WHERE $k % 10 = 0; UPDATE $_ SET v = v || 'u' WHERE $k % 10 = 1;" } @tables);
$c->same('rows of one table after the other');

# ---------- tables and pages alternate

$c->sql(1, 'DO $$ BEGIN FOR i IN 1 .. 300 LOOP IF i % 10 > 1 THEN '
	. join('', map { my $k = key($_); "IF i % 3 > 0 THEN DELETE FROM $_ WHERE $k = i OR $k = 1000 - i; ELSE UPDATE $_ SET v = 'alternates ' || i WHERE $k = i; END IF;" } @tables)
	. ' END IF; END LOOP; END $$');
$c->same('rows of all tables in turn');

# ---------- keys that move, rows that come back

$c->sql(1, <<'SQL');
BEGIN;
UPDATE first SET id = -id WHERE id % 10 = 3;
UPDATE last SET id = 'moved ' || id WHERE id LIKE '%4';
UPDATE three SET b = b + 100, a = a || '!' WHERE c % 10 = 5;
UPDATE two SET b = b - 10000 WHERE a % 10 = 6;
UPDATE many SET a = a - 10000, c = NULL WHERE id % 10 = 7;
UPDATE expression SET w = 'moved' || w WHERE id % 10 = 8;
UPDATE part_of SET on_it = NOT on_it, w = w + 10000 WHERE id % 10 = 9;
UPDATE p SET id = 1001 - id WHERE id % 10 = 4 AND NOT EXISTS (SELECT FROM p q WHERE q.id = 1001 - p.id);
DELETE FROM wide WHERE id > 900;
INSERT INTO wide SELECT 'again', i FROM generate_series(901, 1000) i;
SAVEPOINT s;
DELETE FROM wide;
DELETE FROM dropped;
ROLLBACK TO s;
DELETE FROM wide WHERE id > 950;
DELETE FROM dropped WHERE id > 900;
COMMIT;
SQL
$c->same('keys that move');

# ---------- scans of each kind, and plans without one

$c->sql(1, <<'SQL');
CREATE TABLE scanned (v text, id int PRIMARY KEY, k int UNIQUE, a int[]) WITH (fillfactor = 50);
CREATE INDEX ON scanned USING gin (a);
CREATE FUNCTION fill_scanned() RETURNS void LANGUAGE sql AS $$
	DELETE FROM scanned;
	INSERT INTO scanned SELECT repeat('s', i % 30), i, -i, ARRAY[i % 20, i % 7] FROM generate_series(1, 2000) i;
$$;
SQL

# plan, condition; what is changed and deleted is told by it
my @plans = (
	[ 'Seq Scan', 'id % 3 = 0', 'indexscan, bitmapscan, tidscan' ],
	[ 'Index Scan', 'id BETWEEN 100 AND 700', 'seqscan, bitmapscan, tidscan' ],
	[ 'Bitmap Heap Scan', 'a @> ARRAY[5]', 'seqscan, indexscan, tidscan' ],
	[ 'Tid Scan', "ctid = ANY (ARRAY(SELECT format('(%s,%s)', p, o)::tid FROM generate_series(0, 5) p, generate_series(1, 20) o))", 'seqscan' ],
	[ 'Tid Range Scan', "ctid >= '(2,1)' AND ctid < '(9,1)'", 'seqscan' ],
	[ 'Join', 'id IN (SELECT i * 3 FROM generate_series(1, 400) i)', 'nothing' ],
);
for my $plan (@plans)
{
	my ($name, $where, $off) = @$plan;
	my $set = join '', map { $_ eq 'nothing' ? '' : "SET enable_$_ = off; " } split /, /, $off;
	my $node = $name eq 'Join' ? qr/Join|Loop|Semi/ : qr/->\s+\Q$name\E/;
	like($c->sql(1, "$set EXPLAIN (COSTS off) DELETE FROM scanned WHERE $where"), $node, "a plan with $name");

	$c->sql(1, "SELECT fill_scanned(); $set UPDATE scanned SET v = v || 'u' WHERE $where; UPDATE scanned SET k = k - 5000 WHERE $where; "
		. "UPDATE scanned SET id = -id WHERE $where AND k % 2 = 0; DELETE FROM scanned WHERE $where AND k % 5 = 0");
	$c->same("$name: several versions of a row of one transaction");
	$c->sql(1, "$set DELETE FROM scanned WHERE $where");
	$c->same("$name: DELETE");
}

# pages are cleaned while their rows are changed again and again
$c->sql(1, "SELECT fill_scanned()");
$c->sql(1, "UPDATE scanned SET v = v || '$_' WHERE id % 4 = $_") for 0 .. 3, 0 .. 3;
$c->sql(1, 'DELETE FROM scanned WHERE id % 4 = 1');
$c->same('pages that were cleaned');

# a cursor, a WITH, a MERGE, partitions
$c->sql(1, <<'SQL');
SELECT fill_scanned();
DO $$
DECLARE
	c CURSOR FOR SELECT * FROM scanned WHERE id <= 60 FOR UPDATE;
BEGIN
	FOR r IN c LOOP
		IF r.id % 2 = 0 THEN DELETE FROM scanned WHERE CURRENT OF c; ELSE UPDATE scanned SET k = k - 9000 WHERE CURRENT OF c; END IF;
	END LOOP;
END $$;
WITH d AS (DELETE FROM scanned WHERE id BETWEEN 100 AND 130 RETURNING *), u AS (UPDATE scanned SET k = k - 8000 WHERE id BETWEEN 140 AND 150 RETURNING *)
DELETE FROM scanned s USING u WHERE s.id = u.id + 20;
MERGE INTO scanned s USING generate_series(200, 230) i ON s.id = i WHEN MATCHED AND i % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET k = k - 7000;
UPDATE p SET v = 'moved by all' WHERE id % 7 = 0;
DELETE FROM p WHERE id % 11 = 0;
SQL
$c->same('a cursor, a WITH, a MERGE, partitions');

# the row has changed while it was waited for: another version, whose keys are others
for my $waits ([ 'DELETE FROM scanned WHERE id BETWEEN 300 AND 305', 'DELETE' ], [ q{UPDATE scanned SET v = 'waited' WHERE id BETWEEN 310 AND 315}, 'UPDATE' ])
{
	my ($sql, $name) = @$waits;
	my ($first, $second) = map { $c->session(1) } 1 .. 2;
	$first->query('BEGIN');
	$first->query(q{UPDATE scanned SET k = k - 6000, v = 'first' WHERE id IN (302, 312)});
	$second->send($sql);
	ok($c->wait_until(sub { $c->sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) > 0 }), "$name waits for a row");
	$first->query('COMMIT');
	$second->finish;
	is($second->error, '', '... and goes on');
}
$c->same('after waiting for a row');

# triggers change other rows of the table, and fail in the middle of that
$c->sql(1, <<'SQL');
SELECT fill_scanned();
CREATE FUNCTION takes_along() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.id % 2 = 0 AND pg_trigger_depth() = 1 THEN
		DELETE FROM scanned WHERE id = OLD.id + 1000;
		UPDATE scanned SET k = k - 5000 WHERE id = OLD.id + 1001;
		BEGIN
			DELETE FROM scanned WHERE id BETWEEN OLD.id + 1002 AND OLD.id + 1004;
			PERFORM 1 / 0;
		EXCEPTION WHEN division_by_zero THEN
			DELETE FROM scanned WHERE id = OLD.id + 1003;
		END;
	END IF;
	RETURN OLD;
END $$;
CREATE TRIGGER takes_along BEFORE DELETE ON scanned FOR EACH ROW EXECUTE FUNCTION takes_along();
DELETE FROM scanned WHERE id BETWEEN 10 AND 60;
DROP TRIGGER takes_along ON scanned;
CREATE TRIGGER takes_along AFTER DELETE ON scanned FOR EACH ROW EXECUTE FUNCTION takes_along();
DELETE FROM scanned WHERE id BETWEEN 70 AND 120;
SQL
$c->same('triggers that change the table');
is($c->sql(1, 'SELECT count(*) FROM scanned'), 2000 - 2 * 51 - 2 * 52, '... as they say');

# ---------- each key is among those of the transaction

# The keys of rows (not of tables) in each query.
sub keys_of
{
	my ($sql) = @_;
	my $out = $c->sql(1, "BEGIN; $sql; SELECT 'keys ' || string_agg(k, ', ') FROM lockstep.forwarded, LATERAL (SELECT string_agg(u, ' ' ORDER BY u) FROM unnest(keys) u WHERE u NOT LIKE 'table %') AS f(k) GROUP BY n ORDER BY n; ROLLBACK");
	return [ $out =~ /^keys (.*)$/mg ];
}

$c->drain;
for my $table (grep { $_ ne 'nokey' } @tables)
{
	my $row = $table eq 'last' ? q{id = 'key 42'} : key($table) . ' = 42';
	my $keys = keys_of("CREATE TEMP TABLE copied ON COMMIT DROP AS SELECT * FROM $table WHERE $row; DELETE FROM $table WHERE $row; INSERT INTO $table SELECT * FROM copied");
	is(scalar @$keys, 2, "a row of $table is deleted and inserted");
	is($keys->[0], $keys->[1], '... with the same keys');
}

# They have the values that an UPDATE finds: while the other node applies nothing, the replicator alone can tell.
my %row = (first => 'id = 12', last => q{id = 'key 12'}, two => 'a = 12', dropped => 'id = 12', wide => 'id = 12', p => 'id = 12', p2 => 'id = 602');
my @apply = $c->apply_pids(2);
kill 'STOP', @apply;
for my $table (sort keys %row)
{
	$c->sql(1, "SET lockstep.commit_wait = ordered; DELETE FROM $table WHERE $row{$table}");
	$c->fails(2, "UPDATE $table SET v = 'lost' WHERE $row{$table}", '40001', qr/Key public\.\w+ \w+_pkey/, "$table: UPDATE of a row that another node has deleted");
}
kill 'CONT', @apply;
$c->same('after that');

done_testing();
