# What functions of users do while a row or a statement is replicated, and what values and keys depend on: a
# statement that travels as its text is not captured by rows as well, whatever a CHECK or an index calls; a trigger that fires
# at COMMIT is not taken for the client's own statement; generated columns made from identity columns, or by an
# output function that reads settings; rows that no UPDATE may assign; keys of rows that are locked, with names; foreign keys
# over types that are compared in a time zone; xml within arrays.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = LockstepCluster->new(nodes => 2);

# ---------- statements that travel as text

$c->sql(1, <<'SQL');
CREATE TABLE lim (x int); INSERT INTO lim VALUES (1000000);
CREATE FUNCTION ok(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RETURN i < (SELECT max(x) FROM public.lim); END $$;
CREATE FUNCTION seen(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM public.ok(i); RETURN i % 10; END $$;
CREATE TABLE checked (id int PRIMARY KEY, v int CHECK (ok(v)));
CREATE TABLE indexed (id int PRIMARY KEY, v int); CREATE INDEX ON indexed (seen(v)); CREATE INDEX ON indexed (lpad(v::text, 9));
CREATE TABLE plain (id int PRIMARY KEY, v int CHECK (v > -1)); CREATE INDEX ON plain (lpad(v::text, 9));
INSERT INTO checked SELECT i, 0 FROM generate_series(1, 200) i; INSERT INTO indexed TABLE checked; INSERT INTO plain TABLE checked;
ANALYZE checked, indexed, plain;
SQL
$c->drain;
for my $table ('checked', 'indexed', 'plain')
{
	$c->sql(1, "SET lockstep.statement_rows = 0; UPDATE $table SET v = v + 1");
	$c->sql(2, "SET lockstep.statement_rows = 0; UPDATE $table SET v = v + 1 WHERE id > 100; DELETE FROM $table WHERE id = 200");
	$c->same("$table: a statement that may travel as text");
	is($c->sql($_, "SELECT sum(v), count(*) FROM $table"), '298|199', "$table, n$_: each row is changed once") for $c->all;
}

$c->sql(1, <<'SQL');
CREATE TABLE big (id int PRIMARY KEY, v int); INSERT INTO big VALUES (1, 0);
CREATE TABLE q (n int);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE a int := 1; b text := 'x'; c date := now(); BEGIN UPDATE big SET v = v + NEW.n + a; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER c AFTER INSERT ON q DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();
SQL
$c->drain;
$c->sql(1, "SET lockstep.statement_rows = 0; INSERT INTO q VALUES (5)");
$c->sql(2, "SET lockstep.statement_rows = 0; BEGIN; INSERT INTO q VALUES (7), (8); COMMIT");
$c->same('a deferred trigger that changes a large table');
is($c->sql(1, 'SELECT v FROM big'), 23, 'by what it was given');

# what a statement's text means depends on more than the text: then its rows travel
$c->sql(1, <<'SQL');
CREATE TABLE conf (v int); INSERT INTO conf VALUES (1);
CREATE FUNCTION rate() RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT v FROM conf); END';
CREATE TABLE s (id int PRIMARY KEY, n bigint, c char(10), d date, v text, w varchar); INSERT INTO s SELECT i, 1, 'x', now(), 'x', 'w' FROM generate_series(1, 50) i;
SQL
$c->drain;
# (objects have other OIDs on the other node from here on)
$c->sql(2, 'SET lockstep.replicate = off; CREATE TABLE gap (i int); DROP TABLE gap; CREATE TABLE gap (i int); DROP TABLE gap');
$c->sql(1, 'CREATE TABLE named (i int)');
$c->drain;
my $few = "SET lockstep.statement_rows = 0;";
$c->sql(1, "$few UPDATE s SET n = 'named'::regclass::oid::bigint");
$c->sql(1, "$few UPDATE s SET n = n WHERE ARRAY['named'::regclass::oid] <> '{1}'::oid[]");
$c->sql(1, "$few UPDATE s SET n = n * rate()");
$c->sql(1, "SET standard_conforming_strings = off; $few UPDATE s SET v = 'a\\\\b' WHERE id > 0");
my $session = $c->session(1);
$session->do($_) for $few, 'PREPARE p AS UPDATE s SET d = $1 WHERE c <> $2', "SET DateStyle = 'SQL, DMY'", "EXECUTE p('02/01/2020', 'y')", "UPDATE s SET d = '03/01/2020' WHERE id > 25";
SKIP: {
	skip 'a psql without \\bind', 1 if LockstepCluster->version < 16;
	$c->sql(2, "$few UPDATE s SET c = \$1 WHERE id > 0 \\bind 'HELLO' \\g\n");
	is($c->sql(1, 'SELECT DISTINCT c FROM s'), 'HELLO     ', 'a parameter of type char(n)');
}
$c->same('what texts depend on');
sleep(0.5);					# just after DDL rows would travel
$session->do($_) for 'BEGIN', "/* a\ncomment */\n UPDATE s SET n = n + 1";
is($session->query('SELECT string_agg(form, $$ $$) FROM lockstep.forwarded'), 'statement', 'a statement of built-in functions travels as its text');
$session->do('COMMIT');

# a function of that name, made elsewhere while it runs
my $open = $c->session(1);
sleep(0.5);
$open->do($_) for $few, 'BEGIN', 'UPDATE s SET w = upper(w)';
$c->sql(2, q{CREATE FUNCTION public.upper(varchar) RETURNS varchar IMMUTABLE LANGUAGE sql AS $$ SELECT $1 || '!' $$});
$open->query('COMMIT');
LockstepCluster::is_error($open->error, '40001', qr/database app \(names\)/, 'DDL that was decided since may have changed what names mean');
$open->do($_) for 'BEGIN', 'UPDATE s SET w = upper(w)', 'COMMIT';
$c->sql(1, 'DROP FUNCTION public.upper(varchar)');

# DDL while it runs: a conflict only if it means something else at its end
my $locks = $c->session(1);
for my $case ([ 'CREATE TABLE beside (i int); CREATE FUNCTION beside() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$', qr/^$/ ],
	[ 'CREATE FUNCTION public.upper(varchar) RETURNS varchar IMMUTABLE LANGUAGE sql AS $$ SELECT $1 || 1 $$', qr/40001.*\(names\)/s ])
{
	my ($ddl, $expected) = @$case;
	$c->drain;
	$locks->do('BEGIN; SELECT FROM s WHERE id = 1 FOR UPDATE');
	$open->do('BEGIN');
	sleep(0.5);					# without DDL
	$open->send('UPDATE s SET w = upper(w)');
	ok($open->blocked(20), 'a statement has begun');
	$c->sql(2, $ddl);
	$c->drain;
	$locks->do('ROLLBACK');
	$open->finish(20);
	is($open->query(q{SELECT string_agg(form, ' ') FROM lockstep.forwarded}), 'statement', '... as its text');
	$open->query('COMMIT');
	like($open->error, $expected, "beside it: $ddl");
}
$c->sql(1, 'DROP FUNCTION public.upper(varchar)');
$c->same('after DDL beside it');

# ---------- columns that are generated from an identity; nothing to assign

$c->sql(1, <<'SQL');
CREATE TABLE art (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title text, slug text GENERATED ALWAYS AS (lower(title) || '-' || id::text) STORED);
INSERT INTO art (title) VALUES ('A'), ('B');
CREATE TABLE only_id (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE no_choice (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED);
CREATE FUNCTION as_it_was() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END';
CREATE TRIGGER t BEFORE UPDATE ON only_id FOR EACH ROW EXECUTE FUNCTION as_it_was();
INSERT INTO only_id DEFAULT VALUES; INSERT INTO no_choice DEFAULT VALUES;
SQL
$c->drain;
$c->sql(2, "UPDATE art SET title = 'C' WHERE id = 1");
$c->sql(2, "UPDATE art SET title = title");
$c->sql(1, 'UPDATE only_id SET id = DEFAULT');
$c->sql(2, 'UPDATE no_choice SET g = DEFAULT');
$c->same('identity and generated columns');
is($c->sql(1, 'SELECT slug FROM art ORDER BY id'), "c-1\nb-2", 'the generated column is that of the new title');
is($c->sql(2, 'SELECT * FROM only_id, no_choice'), '1|1|2', 'what no UPDATE may assign');

# ---------- generated by an output function

$c->sql(1, <<'SQL');
CREATE TABLE outputs (id int PRIMARY KEY, f float8, b bytea, g text GENERATED ALWAYS AS (f || '') STORED, h text GENERATED ALWAYS AS ('x' || b) STORED, i text GENERATED ALWAYS AS (point(f, f) || 'p') STORED);
CREATE UNIQUE INDEX ON outputs ((f || ''));
SQL
$c->drain;
$c->sql($_, "SET extra_float_digits = 0; SET bytea_output = escape; INSERT INTO outputs VALUES ($_, 0.1::float8 + 0.$_, '\\x0061')") for $c->all;
$c->same('generated by ||, which is inlined to an output function');
is($c->sql(2, 'SELECT g FROM outputs WHERE id = 1'), $c->sql(1, 'SELECT g FROM outputs WHERE id = 1'), 'as the session writes it');
$c->fails(2, "SET extra_float_digits = 0; INSERT INTO outputs VALUES (9, 0.1::float8 + 0.1, '')", '23505', qr/outputs/, 'and so is the index');

# ---------- keys of rows that are locked

$c->sql(1, "CREATE TABLE a (i int); CREATE TABLE quota (t regclass PRIMARY KEY, used int); INSERT INTO quota VALUES ('a', 0); CREATE TABLE items (id int)");
$c->drain;
my $reader = $c->session(1);
my $writer = $c->session(2);
$_->query('BEGIN') for $reader, $writer;
$reader->query("SELECT * FROM quota WHERE t = 'a'::regclass FOR UPDATE");
$writer->query("UPDATE quota SET used = used + 1 WHERE t = 'a'::regclass");
$reader->query('INSERT INTO items VALUES (1)');
$writer->query('INSERT INTO items VALUES (2)');
$reader->query('COMMIT');
$writer->query('COMMIT');
isnt($reader->error . $writer->error, '', 'a row that one has locked and another one changed: one of them fails');
LockstepCluster::is_error($reader->error . $writer->error, '40001', qr/./, 'as it should');

# ---------- a foreign key over types that are compared in the session's time zone

$c->sql(1, 'CREATE TABLE p (ts timestamptz PRIMARY KEY); CREATE TABLE k (id int PRIMARY KEY, d date REFERENCES p)');
$c->sql(1, "SET timezone = 'Europe/Berlin'; INSERT INTO p VALUES ('2024-01-01 00:00')");
$c->drain;
my $deletes = $c->session(1);
$deletes->query($_) for "SET timezone = 'Europe/Berlin'", 'BEGIN', 'DELETE FROM p';
$c->sql(2, "SET timezone = 'Europe/Berlin'; INSERT INTO k VALUES (1, '2024-01-01')");
$deletes->query('COMMIT');
$c->drain;
is($c->sql($_, "SET timezone = 'Europe/Berlin'; SELECT count(*) FROM k WHERE NOT EXISTS (SELECT FROM p WHERE ts = d)"), 0, "n$_: no row without its parent") for $c->all;
$c->same('keys over a time zone');

# ---------- xml

SKIP: {
	my (undef, $err) = $c->try(1, "SELECT '<a/>'::xml");
	skip 'a server without xml', 5 if $err;
	$c->sql(1, 'CREATE TYPE doc AS (x xml); CREATE TABLE d (id int PRIMARY KEY, x xml[], y doc); CREATE TABLE no_key (x xml[], n int)');
	$c->drain;
	$c->sql(1, q{INSERT INTO d VALUES (1, ARRAY['<?xml version="1.0" encoding="UTF-8"?><a/>'::xml, '<b/>'], ROW('<?xml version="1.0" encoding="UTF-8"?><c/>'::xml)), (2, ARRAY['<b>x</b>'::xml], NULL)});
	$c->drain;
	my $texts = 'SELECT string_agg(e::text, $$ $$ ORDER BY d.id, n), max(((y).x)::text) FROM d, unnest(x) WITH ORDINALITY u(e, n)';
	is($c->sql(2, $texts), $c->sql(1, $texts), 'xml within arrays and composite values, with its declaration');
	like($c->sql(2, $texts), qr/UTF-8.*UTF-8/, 'which is there');
	$c->sql(2, q{INSERT INTO d VALUES (3, ARRAY['<?xml version="1.0" standalone="yes"?><a/>'::xml]); INSERT INTO no_key SELECT x, id FROM d});
	$c->drain;
	is($c->sql(2, $texts), $c->sql(1, $texts), 'another declaration');
	$c->sql(1, 'UPDATE no_key SET n = n + 10; DELETE FROM no_key WHERE n = 12');
	$c->same('rows that are found by it');
	is($c->sql(2, 'SELECT string_agg(n::text, $$ $$ ORDER BY n) FROM no_key'), '11 13', 'all of them');
	$c->sql(1, 'ALTER TABLE d ALTER x TYPE text');
	is($c->sql(2, 'SELECT string_agg(x, $$ $$ ORDER BY id) FROM d'), $c->sql(1, 'SELECT string_agg(x, $$ $$ ORDER BY id) FROM d'), 'a command that makes texts of them');
}
$c->same('at the end');
done_testing;
