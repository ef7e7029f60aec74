# Functions that are called where a row is applied - by expressions of indexes,
# generated columns, domains inside of arrays - find there what they find at the
# origin, by the search_path of the statement that made the row; also on a node
# that was away.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, durable => 1);

$c->sql(1, <<'SQL');
CREATE SCHEMA a; CREATE SCHEMA b; CREATE SCHEMA "C d";
CREATE FUNCTION a.inner_(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END';
CREATE FUNCTION b.inner_(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1000; END';
CREATE FUNCTION "C d".inner_(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 5000';
SET search_path = a, public;
CREATE FUNCTION public.outer_(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN inner_($1); END';
CREATE FUNCTION public.inlined(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT abs($1) + inner_($1)';
CREATE DOMAIN public.dom AS int CHECK (public.outer_(VALUE) > 0);
RESET search_path;
CREATE TABLE g (id int PRIMARY KEY, x int, g int GENERATED ALWAYS AS (outer_(x)) STORED, d dom[]);
SET search_path = a, public;
ALTER TABLE g ADD h int GENERATED ALWAYS AS (inlined(x)) STORED;
RESET search_path;
CREATE TABLE i (id int PRIMARY KEY, x int);
CREATE TABLE n (x int, y int);
SET search_path = a, public;
CREATE INDEX ON i (outer_(x));
CREATE INDEX ON i (x) WHERE outer_(x) > 0;
CREATE UNIQUE INDEX ON n (outer_(y));
SQL
$c->drain;
my %path = (1 => 'a, public', 2 => 'public, b', 3 => '"C d", public, nowhere');
sub with_path { my ($node, $sql) = @_; $c->sql($node, "SET search_path = $path{$node}; $sql") }

with_path($_, "INSERT INTO g VALUES ($_, 5, DEFAULT, '{1,2}', DEFAULT); INSERT INTO g (id, x, d) SELECT 10 * $_ + s, s, ARRAY[s] FROM generate_series(1, 5) s") for 1 .. 3;
$c->same('inserted with three search paths');
is($c->sql(1, 'SELECT g FROM g WHERE id <= 3 ORDER BY id'), "6\n1005\n5005", 'each row as its session has it');
with_path($_, "UPDATE g SET x = x + 1 WHERE id = 10 * $_ + 1; DELETE FROM g WHERE id = 10 * $_ + 2") for 1 .. 3;
$c->drain;
with_path(2, 'UPDATE g SET x = 7 WHERE id = 11');
$c->same('updated and deleted');
is($c->sql(3, 'SELECT g FROM g WHERE id = 11'), 1007, 'an update computes anew, where it was made');

# one transaction, two paths; a run of inserts is cut between them
$c->sql(3, <<'SQL');
BEGIN; SET LOCAL search_path = public, a; INSERT INTO g (id, x) SELECT s, s FROM generate_series(100, 104) s;
SET LOCAL search_path = public, b; INSERT INTO g (id, x) SELECT s, s FROM generate_series(105, 109) s; COMMIT;
SQL
$c->sql(2, "SET search_path = b, public; COPY g (id, x) FROM STDIN;\n200\t1\n201\t2\n202\t3\n\\.\n");
$c->same('two paths in one transaction, and COPY');
is($c->sql(1, 'SELECT sum(g - x) FROM g WHERE id BETWEEN 100 AND 109'), 5 * 1 + 5 * 1000, 'both of them counted');

# runs of updates and deletes, too
$c->sql(2, <<'SQL');
SET search_path = public, a; INSERT INTO g (id, x) SELECT s, 1 FROM generate_series(500, 600) s;
SQL
$c->drain;
$c->sql(1, <<'SQL');
BEGIN; SET LOCAL search_path = public, a; UPDATE g SET x = random() * 100 WHERE id BETWEEN 500 AND 549;
SET LOCAL search_path = public, b; UPDATE g SET x = random() * 100 WHERE id BETWEEN 550 AND 599; DELETE FROM g WHERE id BETWEEN 520 AND 540; COMMIT;
SQL
$c->same('two paths and runs of updates and deletes');
is($c->sql(3, 'SELECT min(g - x), max(g - x) FROM g WHERE id BETWEEN 500 AND 599'), '1|1000', 'both counted');

# a node that was away finds them in the journal
with_path(1, 'INSERT INTO i SELECT s, s FROM generate_series(1, 20) s; INSERT INTO n SELECT s, s FROM generate_series(1, 20) s');
$c->cluster('kill-node', 3);
with_path(1, 'UPDATE i SET x = -x WHERE id < 5; DELETE FROM i WHERE id > 18; INSERT INTO n VALUES (21, 21); UPDATE n SET y = 100 WHERE x = 3; DELETE FROM n WHERE y = 4');
with_path(2, 'INSERT INTO g (id, x) VALUES (300, 1)');
$c->cluster('start-node', 3);
$c->wait_state(3, 'online', 120);
$c->same('after a node was away');
for my $node (1 .. 3)
{
	is($c->sql($node, 'SET search_path = a, public; SET enable_seqscan = off; SELECT count(*) FROM i WHERE outer_(x) > 2'),
		$c->sql(1, 'SET search_path = a, public; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM i WHERE outer_(x) > 2'),
		"the index of n$node has the rows");
}

# a function with an exception block begins and ends a subtransaction in the middle of a run of rows
$c->sql(1, <<'SQL');
CREATE FUNCTION as_int(text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1::int; EXCEPTION WHEN others THEN RETURN NULL; END';
CREATE FUNCTION as_text(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM $1::int; RETURN $1; EXCEPTION WHEN others THEN RETURN md5($1); END';
CREATE TABLE e (v text); CREATE UNIQUE INDEX ON e (as_int(v));
CREATE TABLE k (id int PRIMARY KEY, v text, w text); CREATE UNIQUE INDEX ON k (as_text(v)) WHERE as_int(w) IS NULL; CREATE INDEX ON k (as_int(v));
SQL
$c->drain;
my $letters = join '', map { "$_\n" } 'a' .. 'z';
$c->sql(2, "COPY e FROM STDIN;\n$letters\\.\n");
is($c->sql(1, 'SELECT count(DISTINCT v) FROM e'), 26, 'COPY: each row once');
$c->same('COPY with a function that catches errors');
$c->sql(2, 'COPY k FROM STDIN;\n' . join('', map { "$_\t" . ($_ % 2 ? $_ : "x$_") . "\t" . ($_ % 3 ? 'n' : $_) . "\n" } 1 .. 50) . "\\.\n");
$c->same('with a primary key, an index with a predicate');
my $large = $c->file('large', "100\t1\n101\t" . ('y' x 1_500_000) . "\n102\tz\n");
$c->sql(1, "COPY k (id, v) FROM '$large'");
$c->same('COPY with a large row');
$c->sql(3, "INSERT INTO k SELECT i, 'i' || i, i::text FROM generate_series(200, 260) i");
$c->sql(3, "BEGIN; UPDATE k SET v = v || 'u' WHERE id < 30; SAVEPOINT s; UPDATE k SET v = 'gone' || id WHERE id > 30; ROLLBACK TO s; DELETE FROM k WHERE id BETWEEN 40 AND 45; UPDATE k SET v = v || 'v' WHERE id >= 200; COMMIT");
$c->same('runs of updates and deletes');
is($c->sql(2, "SELECT count(*) FROM k WHERE v LIKE 'gone%'"), 0, 'what was rolled back is nowhere');
$c->sql(1, 'CREATE MATERIALIZED VIEW ke AS SELECT v FROM e; CREATE UNIQUE INDEX ON ke (as_text(v))');
$c->drain;
$c->sql(2, "INSERT INTO e VALUES ('10'), ('11'), ('aa'); REFRESH MATERIALIZED VIEW ke");
$c->same('REFRESH MATERIALIZED VIEW');

# it can lock rows, of its own table, too; and makes nothing that would be replicated
$c->sql(1, <<'SQL');
CREATE TABLE p (id int PRIMARY KEY, v text); CREATE UNIQUE INDEX ON p (as_text(v)); INSERT INTO p SELECT i, 'p' || i FROM generate_series(1, 300) i;
CREATE FUNCTION locks_(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('test.temp', true) = 'on' THEN CREATE TEMP TABLE IF NOT EXISTS x (); END IF;
	PERFORM FROM p WHERE id BETWEEN $1 AND $1 + 20 FOR SHARE;
	PERFORM FROM l WHERE id = $1 - 1 FOR SHARE;
	RETURN $1;
EXCEPTION WHEN division_by_zero THEN RETURN NULL;
END $$;
CREATE FUNCTION locks(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN locks_($1); END';
CREATE TABLE l (id int, w int); CREATE UNIQUE INDEX ON l (locks(id)); CREATE UNIQUE INDEX ON l (abs(w));
CREATE FUNCTION tells(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_logical_emit_message(true, 'x', 'y'); RETURN $1; END $$;
CREATE FUNCTION makes_(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE IF NOT EXISTS made (a int); RETURN $1; END $$;
CREATE FUNCTION makes(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN makes_($1); END';
CREATE TABLE tell (id int); CREATE TABLE make (id int);
SQL
$c->sql(1, 'CREATE UNIQUE INDEX ON tell (tells(id)); CREATE UNIQUE INDEX ON make (makes(id))');
$c->drain;
$c->sql(2, "SET test.temp = on; COPY l FROM STDIN;\n" . join('', map { "$_\t$_\n" } 1 .. 60) . "\\.\n");
$c->same('a function that locks rows');
$c->fails(1, $_, '0A000', qr/a function that is called for the index or output of a row being replicated/, "refused: $_")
	for 'INSERT INTO tell VALUES (1), (2)', 'INSERT INTO make VALUES (1), (2)';
$c->same('after what was refused');

# what can't be, but for values of generated columns, which travel: the owner may not look where the writer does; operators of the
# query itself would be others.  Then pg_catalog is all there is, and an error.
$c->sql(1, 'CREATE ROLE poor; ALTER TABLE g OWNER TO poor; GRANT CREATE ON SCHEMA public TO poor');
$c->sql(1, 'ALTER TABLE i OWNER TO poor');
$c->fails(1, 'SET search_path = a, public; INSERT INTO i (id, x) VALUES (400, 1)', '42883', qr/inner_.*happened on node/s, 'of an owner without rights on the schema');
$c->sql(1, 'SET search_path = a, public; INSERT INTO g (id, x) VALUES (400, 1)');
$c->sql(1, 'GRANT USAGE ON SCHEMA a TO poor');
with_path(1, 'INSERT INTO i (id, x) VALUES (400, 1)');
$c->fails(1, 'SET search_path = a, public, pg_catalog; INSERT INTO i (id, x) VALUES (401, 1)', '42883', qr/inner_.*happened on node/s, 'with pg_catalog last');
$c->sql(1, 'SET search_path = pg_catalog, a, public; INSERT INTO i (id, x) VALUES (401, 1)');
$c->same('with and without');

done_testing;
