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
