# The version of a row that a change has replaced is read from its page again: exactly, wherever its key stands
# in the row (behind values of any length, behind columns that were dropped or added since, in several columns,
# in an expression), in whatever order rows of several tables and pages are changed; and with every key that
# another transaction may conflict on.
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
