# The extensions that come with PostgreSQL (contrib), created through different nodes, and used through all of
# them: their types in rows, keys, indexes, exclusion constraints and triggers.  What a type that isn't
# built in puts out must give the same value back, else the row is refused: values travel as text.  And the script
# of an extension may ask for what RESET search_path would give, as those of PostGIS's topology and geocoder do.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $share = `$LockstepCluster::bindir/pg_config --sharedir` =~ s/\n//r . '/extension';
plan skip_all => 'contrib is not installed' if !-e "$share/citext.control";

my $c = LockstepCluster->new(nodes => 3);

# --- each of them
my $n = 0;
for my $name (qw(amcheck autoinc bloom btree_gin btree_gist citext cube dblink dict_int dict_xsyn earthdistance file_fdw fuzzystrmatch hstore
	insert_username intarray isn lo ltree moddatetime pageinspect pg_stat_statements pg_trgm pg_visibility pgcrypto pgrowlocks pgstattuple
	postgres_fdw refint seg tablefunc tcn tsm_system_rows unaccent uuid-ossp xml2))
{
	next if !-e "$share/$name.control";
	$c->sql($n++ % 3 + 1, qq{CREATE EXTENSION "$name"});
}
$c->drain;
is($c->sql($_, 'SELECT count(*) > 30 FROM pg_extension'), 't', "node $_ has the extensions") for 1 .. 3;

# --- their types
$c->sql(1, <<'SQL');
CREATE TABLE kinds (id serial PRIMARY KEY, c citext UNIQUE, h hstore, l ltree, t text, i int[], cu cube, s seg, b isbn13, e earth, cs citext[],
	u uuid DEFAULT uuid_generate_v4(), p text DEFAULT crypt('x', gen_salt('bf', 4)));
CREATE INDEX ON kinds USING gin (h);
CREATE INDEX ON kinds USING gist (l);
CREATE INDEX ON kinds USING gin (t gin_trgm_ops);
CREATE INDEX ON kinds USING gin (i gin__int_ops);
CREATE INDEX ON kinds USING gist (cu);
CREATE INDEX ON kinds USING gist (s);
CREATE INDEX ON kinds USING bloom (id, t);
CREATE UNIQUE INDEX ON kinds (b);
CREATE TABLE bare AS SELECT c, h, l, cu, s, b, cs FROM kinds;
CREATE TABLE by_name (k citext PRIMARY KEY, v int);
CREATE TABLE rooms (id serial PRIMARY KEY, room int, during tsrange, EXCLUDE USING gist (room WITH =, during WITH &&));
CREATE SEQUENCE numbers;
CREATE TABLE watched (id int, v text, who text, at timestamp);
CREATE TRIGGER a BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION autoinc(id, numbers);
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION insert_username(who);
CREATE TRIGGER c BEFORE UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION moddatetime(at);
CREATE TABLE images (id serial PRIMARY KEY, picture lo);
CREATE TRIGGER t BEFORE UPDATE OR DELETE ON images FOR EACH ROW EXECUTE FUNCTION lo_manage(picture);
CREATE TABLE log (old hstore, new hstore, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN INSERT INTO log VALUES (hstore(old), hstore(new) - hstore(old)); RETURN new; END';
CREATE TRIGGER note AFTER UPDATE ON by_name FOR EACH ROW EXECUTE FUNCTION note();
SQL
for my $node (1 .. 3)
{
	$c->drain;
	$c->sql($node, <<"SQL");
INSERT INTO kinds (c, h, l, t, i, cu, s, e, cs)
	SELECT 'Name' || n, hstore(ARRAY['a', n::text, 'B"'',=>', md5(random()::text)]), ('a.b' || n || '.c_$node')::ltree, md5(random()::text) || E' \\\\ "'' \\t \xc3\x9c',
		ARRAY[n, 2, 3], CASE n % 3 WHEN 0 THEN cube(n / 3.0, random()) WHEN 1 THEN cube(cube(n, n), n, n) ELSE cube(ARRAY[n, random()], ARRAY[n, 7]) END,
		(n || '.00 .. ' || n + 1 || '.50')::seg, ll_to_earth(n, random()), ARRAY['x', NULL, 'Y' || n]::citext[]
	FROM (SELECT g * 3 + $node AS n FROM generate_series(1, 30) g) s;
UPDATE kinds SET h = h || 'new=>x'::hstore, i = i + id, cu = cube(ARRAY[random(), random()]), cs = array_remove(cs, NULL) WHERE id % 3 = 0;
INSERT INTO bare SELECT c, h, l, cu, s, b, cs FROM kinds;
UPDATE bare SET h = h || 'z=>y'::hstore, cs = array_remove(cs, NULL) WHERE ctid IN (SELECT ctid FROM bare ORDER BY random() LIMIT 20);
DELETE FROM bare WHERE ctid IN (SELECT ctid FROM bare ORDER BY random() LIMIT 20);
SELECT isn_weak(true);
INSERT INTO kinds (b) VALUES (isbn13 '97801234500${node}0');
SELECT isn_weak(false);
UPDATE kinds SET l = 'x' WHERE b IS NOT NULL;
INSERT INTO by_name VALUES ('Abc', 1) ON CONFLICT (k) DO UPDATE SET v = by_name.v + 1;
INSERT INTO by_name VALUES ('aBC', 1) ON CONFLICT (k) DO UPDATE SET v = by_name.v + 10, k = excluded.k;
INSERT INTO rooms (room, during) VALUES ($node, '[2026-01-01,2026-01-03)');
INSERT INTO watched (v) VALUES ('x$node'), ('y$node');
UPDATE watched SET v = v || '!' WHERE v LIKE '%$node';
INSERT INTO images (picture) VALUES (lo_from_bytea(0, repeat('x', 5000)::bytea)), (lo_from_bytea(0, 'y'));
UPDATE images SET picture = lo_from_bytea(0, 'new') WHERE id = (SELECT max(id) FROM images);
DELETE FROM images WHERE id = (SELECT min(id) FROM images);
CREATE TABLE made_$node AS SELECT normal_rand AS v FROM normal_rand(20, 5, 3);
SQL
}
$c->drain;
is($c->sql(1, 'SELECT v FROM by_name'), '33', 'citext is one key, however it is written, on all nodes');
$c->fails(2, "INSERT INTO rooms (room, during) VALUES (1, '[2026-01-02,2026-01-03)')", '23P01', qr/rooms_room_during_excl/, 'rooms of another node are taken');
$c->same('types and functions of contrib');

# --- a text that does not give the value back: the lower half of the number
$c->sql(1, <<'SQL');
CREATE TYPE half;
CREATE FUNCTION half_in(cstring) RETURNS half LANGUAGE internal IMMUTABLE STRICT AS 'int8in';
CREATE FUNCTION half_out(half) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE TYPE half (INPUT = half_in, OUTPUT = half_out, LIKE = int8);
CREATE CAST (int8 AS half) WITHOUT FUNCTION;
CREATE TYPE pair AS (n int, h half);
CREATE DOMAIN small AS half;
CREATE TABLE halves (id int PRIMARY KEY, h half, a half[], p pair, d small);
INSERT INTO halves SELECT i, i::int8::half FROM generate_series(1, 50) i;
CREATE TABLE bare_halves (h half);
SQL
$c->drain;
my $large = '4294967303::int8::half';
my $why = qr/cannot replicate a value of type (half|pair|half\[\])\n.*column (h|a|p|d) of table public\.(bare_)?halves\..*\nHINT/;
$c->fails(2, "INSERT INTO halves VALUES (100, $large)", '0A000', $why, 'INSERT of a value that its text does not give');
$c->fails(2, "INSERT INTO halves SELECT i, (i::int8 << (i % 40))::half FROM generate_series(101, 150) i", '0A000', $why, 'in a run of rows');
$c->fails(2, "UPDATE halves SET h = $large WHERE id = 1", '0A000', $why, 'UPDATE');
$c->fails(2, "UPDATE halves SET a = ARRAY[$large]", '0A000', $why, 'in an array');
$c->fails(2, "UPDATE halves SET p = ROW(1, $large)", '0A000', $why, 'in a row');
$c->fails(2, "UPDATE halves SET d = $large", '0A000', $why, 'in a domain');
$c->fails(2, "INSERT INTO bare_halves VALUES ($large)", '0A000', $why, 'in a table without a key');
$c->sql(2, "UPDATE halves SET h = 7::int8::half, a = ARRAY[8::int8::half, NULL], p = ROW(1, 9::int8::half), d = 10::int8::half WHERE id < 20");
is($c->sql(2, 'SELECT count(*) FROM halves WHERE d IS NOT NULL'), '19', 'other values of that type travel');

# what is there from before can be deleted
$c->sql_local($_, "INSERT INTO bare_halves VALUES ($large)") for 1 .. 3;
$c->sql(3, 'DELETE FROM bare_halves');
$c->same('values that their text gives back');

# --- the same with a binary form that does; OIDs of types, which are in it, differ
$c->sql_local(2, 'CREATE TABLE apart (i int); DROP TABLE apart');
$c->sql(1, <<'SQL');
CREATE TYPE whole;
CREATE FUNCTION whole_in(cstring) RETURNS whole LANGUAGE internal IMMUTABLE STRICT AS 'int8in';
CREATE FUNCTION whole_out(whole) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION whole_receive(internal) RETURNS whole LANGUAGE internal IMMUTABLE STRICT AS 'int8recv';
CREATE FUNCTION whole_send(whole) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int8send';
CREATE TYPE whole (INPUT = whole_in, OUTPUT = whole_out, RECEIVE = whole_receive, SEND = whole_send, LIKE = int8);
CREATE CAST (int8 AS whole) WITHOUT FUNCTION;
CREATE CAST (whole AS int8) WITHOUT FUNCTION;
CREATE FUNCTION whole_eq(whole, whole) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int8eq';
CREATE FUNCTION whole_lt(whole, whole) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int8lt';
CREATE FUNCTION whole_le(whole, whole) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int8le';
CREATE FUNCTION whole_gt(whole, whole) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int8gt';
CREATE FUNCTION whole_ge(whole, whole) RETURNS bool LANGUAGE internal IMMUTABLE STRICT AS 'int8ge';
CREATE FUNCTION whole_cmp(whole, whole) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint8cmp';
CREATE OPERATOR = (LEFTARG = whole, RIGHTARG = whole, FUNCTION = whole_eq, COMMUTATOR = =, MERGES);
CREATE OPERATOR < (LEFTARG = whole, RIGHTARG = whole, FUNCTION = whole_lt, COMMUTATOR = >);
CREATE OPERATOR <= (LEFTARG = whole, RIGHTARG = whole, FUNCTION = whole_le, COMMUTATOR = >=);
CREATE OPERATOR > (LEFTARG = whole, RIGHTARG = whole, FUNCTION = whole_gt, COMMUTATOR = <);
CREATE OPERATOR >= (LEFTARG = whole, RIGHTARG = whole, FUNCTION = whole_ge, COMMUTATOR = <=);
CREATE OPERATOR CLASS whole_ops DEFAULT FOR TYPE whole USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 whole_cmp(whole, whole);
CREATE DOMAIN entire AS whole CHECK ((VALUE)::int8 >= 0);
CREATE TYPE twofold AS (n int, w whole, gone int, d entire, t text);
ALTER TYPE twofold DROP ATTRIBUTE gone;
CREATE TYPE threefold AS (f twofold, fs twofold[], es entire[]);
CREATE DOMAIN fold AS threefold;
CREATE TYPE whole_range AS RANGE (SUBTYPE = whole, MULTIRANGE_TYPE_NAME = whole_ranges);
CREATE TYPE fold_range AS RANGE (SUBTYPE = twofold);
CREATE TYPE named AS (w whole, c regclass);
CREATE TABLE folds (id int PRIMARY KEY, b twofold, bs twofold[], c fold, cs threefold[]);
CREATE TABLE ranges (id int PRIMARY KEY, r whole_range, rs whole_range[], m whole_ranges, f fold_range);
CREATE TABLE bare_folds (b twofold, v int);
CREATE TABLE names (n named);
CREATE TABLE wholes (id int PRIMARY KEY, w whole, a whole[], d entire, t text);
CREATE TABLE by_whole (w whole PRIMARY KEY, v int);
CREATE TABLE bare_wholes (w whole, v int);
SQL
$c->drain;
isnt($c->sql(1, "SELECT '$_'::regtype::oid"), $c->sql(2, "SELECT '$_'::regtype::oid"), "type $_ has another OID on n2") for qw(twofold threefold entire);
my $big = '4294967303';
$c->sql(2, <<"SQL");
INSERT INTO wholes SELECT i, i::int8::whole FROM generate_series(1, 20) i;
INSERT INTO wholes SELECT i, (i::int8 << (i % 40))::whole, ARRAY[i::int8::whole, NULL, ($big + i)::int8::whole], ($big * i)::int8::whole, 't' || i FROM generate_series(101, 200) i;
UPDATE wholes SET w = ${big}::whole WHERE id < 10;
UPDATE wholes SET d = ($big + id)::whole, a = '{}' WHERE id BETWEEN 10 AND 120;
UPDATE wholes SET a = ARRAY[ARRAY[${big}::whole, 1::int8::whole]] WHERE id = 150;
DELETE FROM wholes WHERE id % 7 = 0;
INSERT INTO by_whole SELECT ($big + i)::whole, i FROM generate_series(1, 50) i;
INSERT INTO by_whole SELECT i::int8::whole, i FROM generate_series(1, 50) i;
INSERT INTO bare_wholes SELECT ($big + i % 10)::whole, i FROM generate_series(1, 50) i;
SQL
$c->drain;
$c->sql(1, "UPDATE by_whole SET v = v + 100 WHERE w > ${big}::whole; DELETE FROM by_whole WHERE v % 3 = 0; UPDATE by_whole SET w = (w::int8 + 1000000)::whole WHERE v = 110");
$c->sql(3, "UPDATE bare_wholes SET v = -v WHERE v % 2 = 0; DELETE FROM bare_wholes WHERE v % 5 = 0");
$c->drain;

# in rows, arrays of these, ranges and multiranges
$c->sql(1, <<"SQL");
INSERT INTO folds SELECT i, ROW(i, ($big + i)::whole, ($big - i)::whole, 'x' || i)::twofold, ARRAY[ROW(1, 5::int8::whole, NULL, NULL), NULL, ROW(NULL, ($big * i)::whole, 1::int8::whole, '')]::twofold[],
	ROW(ROW(2, ${big}::whole, 7::int8::whole, '"'), ARRAY[[ROW(3, ($big + 3)::whole, NULL, 'y')], [ROW(4, NULL, NULL, NULL)]]::twofold[], ARRAY[($big + 9)::whole, NULL]::entire[])::threefold,
	ARRAY[NULL, ROW(NULL, '{}', ARRAY[${big}::whole])]::threefold[] FROM generate_series(1, 30) i;
INSERT INTO ranges SELECT i, whole_range(($big + i)::whole, ($big * 2)::whole, '(]'), ARRAY[whole_range(NULL, ($big + 1)::whole), 'empty', whole_range(1::int8::whole, NULL)],
	whole_ranges(whole_range(1::int8::whole, 3::int8::whole), whole_range(($big + i)::whole, ($big * 3)::whole)), fold_range(ROW(1, ${big}::whole, NULL, NULL)::twofold, ROW(1, ($big + 1)::whole, NULL, NULL)::twofold) FROM generate_series(1, 20) i;
INSERT INTO bare_folds SELECT ROW(1, ($big + i % 5)::whole, NULL, NULL)::twofold, i FROM generate_series(1, 20) i;
SQL
$c->drain;
$c->sql(2, "UPDATE folds SET b.n = 1000, bs = bs || b WHERE id % 2 = 0; DELETE FROM folds WHERE id % 5 = 0; UPDATE ranges SET m = m + whole_ranges(r) WHERE id < 10");
$c->sql(3, "UPDATE bare_folds SET v = -v WHERE v % 3 = 0; DELETE FROM bare_folds WHERE v % 4 = 0");
$c->fails(1, "INSERT INTO names VALUES (ROW(${big}::whole, 'wholes'))", '0A000', qr/cannot replicate a value of type public\.named/, 'not beside an OID that is a value');
$c->sql(1, "INSERT INTO names VALUES (ROW(5::int8::whole, 'wholes'))");
$c->drain;
for my $query ("SELECT id, (b).n, (b).w::int8, (b).d::whole::int8, (b).t, (SELECT string_agg((x).w::int8::text || ' ' || coalesce((x).n, 0), ',') FROM unnest(bs) x), ((c::threefold).f).w::int8, ((c::threefold).fs)[1][1], (((c::threefold).fs)[1][1]).w::int8, (((c::threefold).es)[1])::whole::int8, (((cs)[2]).es[1])::whole::int8 FROM folds ORDER BY id",
	"SELECT id, lower(r)::int8, upper(r)::int8, upper((rs)[1])::int8, (SELECT string_agg(lower(x)::int8 || '-' || upper(x)::int8, ',') FROM unnest(m) x), (lower(f)).w::int8, (upper(f)).w::int8 FROM ranges ORDER BY id",
	'SELECT (b).w::int8, v FROM bare_folds ORDER BY v')
{
	my @rows = map { $c->sql($_, $query) } 1 .. 3;
	like($rows[0], qr/42949/, "values that no text gives: $query");
	is($rows[$_], $rows[0], "... are on n" . ($_ + 1)) for 1, 2;
}
for my $table ('wholes ORDER BY id', 'by_whole ORDER BY w', 'bare_wholes ORDER BY v')
{
	my $query = "SELECT " . ($table =~ /^wholes/ ? "id, w::int8, a::text, (SELECT string_agg(x::int8::text, ' ') FROM unnest(a) x), d::whole::int8, t" : 'w::int8, v') . " FROM $table";
	my @rows = map { $c->sql($_, $query) } 1 .. 3;
	like($rows[0], qr/42949/, "$table: values that no text gives");
	is($rows[$_], $rows[0], "... are on n" . ($_ + 1)) for 1, 2;
}
$c->same('values in binary form');

# two nodes, of which one has met such a value in this session, and one has not: the row's key is the same
my $first = $c->session(1);
$first->query("INSERT INTO bare_wholes VALUES (5::int8::whole, 500)");
$c->drain;
$first->query("UPDATE bare_wholes SET v = 999 WHERE v = 3");
$first->query("BEGIN; UPDATE bare_wholes SET v = 1000 WHERE v = 500");
$c->sql(2, "UPDATE bare_wholes SET v = 2000 WHERE v = 500");
$first->send('COMMIT');
$first->finish;
like($first->error, qr/40001/, "they conflict");
$c->same('after the conflict');
like($c->ctl('verify'), qr/nodes are equal|equal/, 'also by the bytes');

# --- a binary form that gives some values back: not the lowest bit
$c->sql(1, <<'SQL');
CREATE TYPE even;
CREATE FUNCTION even_in(cstring) RETURNS even LANGUAGE internal IMMUTABLE STRICT AS 'int8in';
CREATE FUNCTION even_out(even) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION even_receive(internal) RETURNS even LANGUAGE internal IMMUTABLE STRICT AS 'int8recv';
CREATE TYPE even (INPUT = even_in, OUTPUT = even_out, LIKE = int8);
CREATE CAST (int8 AS even) WITHOUT FUNCTION;
CREATE CAST (even AS int8) WITHOUT FUNCTION;
CREATE FUNCTION even_send(even) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS 'SELECT int8send($1::int8 & ~1::int8)';
ALTER TYPE even SET (SEND = even_send, RECEIVE = even_receive);
CREATE TABLE evens (id int PRIMARY KEY, e even);
SQL
$c->drain;
$c->sql(2, 'INSERT INTO evens VALUES (1, 8589934592::int8::even)');
$c->sql(2, 'INSERT INTO evens VALUES (2, 5::int8::even)');
$c->fails(2, 'INSERT INTO evens VALUES (3, 8589934593::int8::even)', '0A000', qr/cannot replicate a value of type even/, 'a value that neither form gives back');
my $mixed = $c->session(2);
$mixed->query('INSERT INTO evens VALUES (4, 8589934594::int8::even)');
is($mixed->error, '', 'a value that its binary form gives back');
for my $value (5, 8589934593)
{
	$mixed->query("INSERT INTO evens VALUES (5, $value\::int8::even)");
	LockstepCluster::is_error($mixed->error, '0A000', qr/cannot replicate a value of type even\n.*travel in binary form/, "then $value, which it does not");
}
$mixed->query('INSERT INTO evens VALUES (6, 6::int8::even)');
is($mixed->error, '', 'and one that it does');
$mixed->finish;
$c->drain;
is($c->sql($_, 'SELECT e::int8 FROM evens ORDER BY id'), "8589934592\n5\n8589934594\n6", "n$_ has the same values") for 1 .. 3;

# --- what RESET search_path would give
SKIP:
{
	my $name = "lockstep_test_$$";

	skip 'no right to install an extension', 1 if !-w $share;
	END { unlink glob("$share/lockstep_test_$$*") if defined $share }
	for my $file ([ "$name.control", "default_version = '1'\nrelocatable = false\nschema = tested\n" ], [ "$name--1.sql", <<'SQL' ])
CREATE FUNCTION tested.go_back() RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN EXECUTE 'SET search_path = tested, ' || (SELECT reset_val FROM pg_settings WHERE name = 'search_path'); END $$;
SELECT tested.go_back();
CREATE TABLE tested.uses (k citext);
INSERT INTO paths VALUES (current_setting('search_path'));
SQL
	{
		open my $fh, '>', "$share/$file->[0]" or die "$file->[0]: $!";
		print $fh $file->[1];
		close $fh;
	}
	$c->sql(1, 'CREATE SCHEMA mine; CREATE TABLE mine.paths (path text)');
	$c->sql(1, 'ALTER ROLE postgres IN DATABASE app SET search_path = "$user", public, mine');
	$c->drain;
	$c->sql(2, "CREATE EXTENSION $name");
	$c->drain;
	is($c->sql($_, 'SELECT path FROM mine.paths'), 'tested, "$user", public, mine', "node $_ went back to its origin's path") for 1 .. 3;
	$c->same("an extension's script that goes back to the path of the session");
}
done_testing();
