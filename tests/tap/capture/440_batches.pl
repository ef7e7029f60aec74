# UPDATEs and DELETEs of many rows in row form travel as arrays, many rows a query,
# and arrive exactly: values of every kind with quotes, NULLs and backslashes, domains,
# enums, other delimiters, partitions; one by one where the order of the rows matters (keys that
# move, a row changed twice), or where there is no array to put them in; with
# savepoints, and with conflicts found row by row.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.statement_rows = -1\n");

# Number of queries of a transaction, and of the rows in them: "queries/rows".
sub queries
{
	my ($sql, $like) = @_;
	my $out = $c->sql(1, "BEGIN; $sql; SELECT 'queries ' || count(*) || '/' || sum(rows) FROM lockstep.forwarded WHERE form = 'row' AND query LIKE '$like'; COMMIT");
	my ($n) = $out =~ /^queries (\S+)$/m;
	return $n;
}

# ---------- values

$c->sql(1, <<'SQL');
CREATE TYPE mood AS ENUM ('so, so', 'very "happy"', 'back\slash', 'NULL');
CREATE DOMAIN small AS numeric(6,2) CHECK (VALUE < 1000);
CREATE DOMAIN word AS varchar(12);
CREATE TABLE v (id int, part text COLLATE "C", t text, vc varchar(8), ch char(5), n numeric(8,3), f float8, b bytea, j jsonb, ts timestamptz,
	iv interval, bx box, m mood, d small, w word, r int4range, mr int4multirange, u uuid, ip inet, bi bit(3), o oid, rc regclass, g int GENERATED ALWAYS AS (id * 2) STORED, z text, PRIMARY KEY (id, part));
INSERT INTO v SELECT i, 'p' || i % 3, 'x' FROM generate_series(1, 400) i;
SQL
my $set = <<'SQL';
UPDATE v SET t = (ARRAY['a"b', 'c\d', '', 'NULL', NULL, '{1,2}', E'new\nline\ttab', 'ünï', ' blank ', 'a,b', '\"'])[1 + id % 11],
	vc = CASE WHEN id % 7 > 0 THEN 'v' || id END, ch = 'c' || id % 100, n = id / 3.0, f = 1 / (id + 0.1), b = decode(md5(id::text), 'hex'),
	j = jsonb_build_object('k', id, 'q', 'say "x\y"'), ts = timestamptz '2020-01-01 00:00:00+05' + id * interval '1 hour 1 microsecond',
	iv = id * interval '1 month 2 days 3.5 s', bx = box(point(id, 1), point(2, id)), m = (enum_range(NULL::mood))[1 + id % 4], d = id + 0.126, w = 'w' || id,
	r = int4range(id, CASE WHEN id % 2 = 0 THEN id + 3 END), mr = int4multirange(int4range(id, id + 2), int4range(id + 10, id + 12)),
	u = md5(id::text)::uuid, ip = ('10.0.0.' || id % 256)::inet, bi = (id % 8)::bit(3), o = id, rc = 'v'::regclass, z = repeat('z', id % 5)
SQL
my ($many, $updated) = split m{/}, queries("SET LOCAL DateStyle = 'German'; SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL TimeZone = 'Asia/Kolkata'; $set", '%unnest%');
cmp_ok($updated, '>', 380, 'nearly all rows of an UPDATE are updated with others');
cmp_ok($many, '<', 30, "by few queries ($many)");
$c->same('values of every kind');
is(queries("DELETE FROM v WHERE id % 2 = 0", 'DELETE%unnest%'), '1/200', 'a DELETE is one');
$c->same('rows deleted');
is(queries("UPDATE v SET id = id WHERE id < 7", '%'), '3/3', 'a few rows travel alone');
is(queries("UPDATE v SET g = DEFAULT", '%unnest%'), '1/200', 'an update that changes nothing is one, too');
is(queries("UPDATE v SET t = CASE WHEN id % 3 = 0 THEN t ELSE t || '!' END, z = CASE WHEN id % 3 = 0 THEN z || '?' ELSE z END", '%'), '3/200',
	'with other columns they are other queries') or diag($c->sql(1, 'SELECT count(*) FROM v'));
$c->same('columns in turn');

# ---------- where the order matters, or there is no array

$c->sql(1, <<'SQL');
CREATE TABLE k (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, v int, a int[], p int);
CREATE UNIQUE INDEX ON k ((p % 1000)) WHERE v > 0;
INSERT INTO k SELECT i, i, 0, ARRAY[i], i FROM generate_series(1, 100) i;
CREATE TABLE e (id int PRIMARY KEY, r int4range, EXCLUDE USING gist (r WITH &&));
INSERT INTO e SELECT i, int4range(i * 10, i * 10 + 5) FROM generate_series(1, 50) i;
CREATE TABLE full_rows (a int, b text);
INSERT INTO full_rows SELECT i / 2, 'x' FROM generate_series(1, 40) i;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE c (id int PRIMARY KEY, p pair, v int);
INSERT INTO c SELECT i, ROW(i, 'x')::pair, 0 FROM generate_series(1, 20) i;
SQL
is(queries('UPDATE k SET id = -id', '%'), '100/100', 'keys that move travel alone');
is(queries('UPDATE k SET u = 101 - u', '%'), '100/100', 'those of a deferred constraint, too');
is(queries('UPDATE k SET v = 1', '%'), '100/100', 'and those that enter a partial index');
is(queries('UPDATE k SET a = a || 1', '%'), '100/100', 'there are no arrays of arrays');
is(queries("UPDATE c SET p = ROW(id, 'y')::pair", '%'), '20/20', 'and none of rows that unnest would leave whole');
is(queries("UPDATE c SET v = v + 1", '%unnest%'), '1/20', 'which is no matter for their other columns');
is(queries('UPDATE e SET r = int4range(lower(r) + 5, upper(r) + 5)', '%'), '50/50', 'an exclusion constraint');
is(queries("UPDATE full_rows SET b = 'y'", '%'), '40/40', 'rows without identity');
$c->same('one by one');

is(queries(<<'SQL', '%'), '4/60', 'a row changed twice is not twice in a query');
UPDATE c SET v = v + 1; UPDATE c SET v = v * 2; DELETE FROM c WHERE id > 10; INSERT INTO c SELECT i, NULL, 0 FROM generate_series(11, 20) i; UPDATE c SET v = v - 1 WHERE id > 10
SQL
$c->same('twice');
is($c->sql(2, 'SELECT string_agg(v::text, \',\' ORDER BY id) FROM c'), join(',', (4) x 10, (-1) x 10), 'in the order of the changes');

# ---------- savepoints, partitions, errors

$c->sql(1, <<'SQL');
CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (100) TO (1000);
INSERT INTO parts SELECT i, 0 FROM generate_series(1, 300) i;
SQL
$c->sql(1, <<'SQL');
BEGIN; UPDATE parts SET v = 1 WHERE id % 3 = 0; SAVEPOINT s; UPDATE parts SET v = 2; ROLLBACK TO s; UPDATE parts SET v = v + 5 WHERE id % 2 = 0;
SAVEPOINT t; DELETE FROM parts WHERE id > 250; RELEASE t; COMMIT
SQL
$c->same('savepoints and partitions');
is($c->sql(2, 'SELECT sum(v), count(*) FROM parts'), 83 + 5 * 125 . '|250', 'what was rolled back is not there');

# each row of a batch has its keys
my $s = $c->session(1);
$s->do('BEGIN; UPDATE parts SET v = 9');
$c->sql(2, 'UPDATE parts SET v = 10 WHERE id = 77');
$s->query('COMMIT');
like($s->error, qr/40001/, 'a row of a batch has its keys');
$s->close;
$c->same('after a conflict');
is($c->sql(1, 'SELECT count(*) FROM parts WHERE v = 9'), 0, 'the whole of it has lost');

# a row that is missing on a peer is found out by the number of rows
$c->sql_local(2, 'DELETE FROM parts WHERE id = 50');
$c->fails(1, 'UPDATE parts SET v = 11', 'LS003', qr/changed 98 rows on node|changed \d+ rows/, 'the number of rows is exact');
$c->sql_local(2, 'INSERT INTO parts SELECT 50, v FROM parts WHERE id = 48');
$c->sql(1, 'UPDATE parts SET v = 12');
$c->same('at the end');
done_testing;
