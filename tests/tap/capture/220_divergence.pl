# What once made nodes differ, or made a change fail that is none of another
# node's business: settings of the session, generated columns, images of rows,
# names of temporary objects, unlogged tables.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $rows = 'SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM %s t';

# Rows as texts: also what COPY and pg_dump leave out.
sub same_rows
{
	my ($table, $what) = @_;
	$c->drain;
	my @rows = map { $c->sql($_, sprintf($rows, $table)) } 1, 2;
	is($rows[1], $rows[0], $what);
	return $rows[0];
}

# Text of a value depends on settings which have to travel with a statement.
$c->sql(1, <<'SQL');
CREATE TABLE st (id int PRIMARY KEY, f float8, b bytea, s text);
INSERT INTO st SELECT i, i / 3.0::float8, '\x010203ff', '' FROM generate_series(1, 9) i;
ANALYZE st;
SELECT pg_sleep(0.5); -- just after DDL rows would travel
SET lockstep.statement_rows = 0;
SET extra_float_digits = -5;
SET bytea_output = escape;
UPDATE st SET s = f::text WHERE id <= 3;
UPDATE st SET s = b::text WHERE id BETWEEN 4 AND 6;
UPDATE st SET s = s || f WHERE id > 6;
ALTER TABLE st ALTER f TYPE text;
ALTER TABLE st ADD c text DEFAULT (1 / 3.0::float8)::text;
SQL
like(same_rows('st', 'settings of text output'), qr/0\.3333333333,/, 'they had an effect');

# A generated column changes without any other: computed by a new function, or
# fetched from where it was toasted.
$c->sql(1, <<'SQL');
CREATE FUNCTION g(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2';
CREATE TABLE gen (n int DEFAULT 0, a int PRIMARY KEY, g int GENERATED ALWAYS AS (g(a)) STORED);
INSERT INTO gen VALUES (7, 1), (8, 2);
CREATE OR REPLACE FUNCTION g(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 3';
UPDATE gen SET a = a WHERE a = 1;
CREATE TABLE doc (n int DEFAULT 99, id int PRIMARY KEY, body text, big text GENERATED ALWAYS AS (body || 'x') STORED);
INSERT INTO doc SELECT 1, i, (SELECT string_agg(md5(j::text), '') FROM generate_series(1, 500) j) FROM generate_series(1, 2) i;
UPDATE doc SET body = body WHERE id = 2;
SQL
same_rows('gen', 'a generated column by another function');
same_rows('doc', 'a toasted generated column');

# An update that changes nothing may not name a column that can't be updated.
$c->sql(1, <<'SQL');
CREATE TABLE ga (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int);
INSERT INTO ga OVERRIDING SYSTEM VALUE VALUES (1, 1), (2, 2);
UPDATE ga SET v = v;
UPDATE ga SET v = v + 1 WHERE id = 2;
SQL
same_rows('ga', 'GENERATED ALWAYS AS IDENTITY');

# Rows without a key whose image is not that of their text.
$c->sql(1, <<'SQL');
CREATE TABLE img (a int[], x xml);
INSERT INTO img VALUES ('{NULL}', '<a/>'), ('{1}', '<?xml version="1.0"?><a/>'), ('{2}', '<a/>');
UPDATE img SET a[1] = 5 WHERE a[1] IS NULL;
SQL
$c->drain;
is($c->sql(2, "SELECT count(*) FROM img WHERE x::text ~ 'version'"), 1, 'an XML declaration is part of the value');
$c->sql(2, 'UPDATE img SET a[2] = 6 WHERE a[1] = 5');
$c->drain;
$c->sql(2, 'DELETE FROM img WHERE a[1] < 2');
same_rows('img', 'images of rows');

# Commands of which another node would make something else.
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY);
INSERT INTO t VALUES (1);
CREATE FUNCTION when_read() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT clock_timestamp()';
SQL
my @refused = (
	[ 'a column of a temporary type', 'CREATE TEMP TABLE t (x text); CREATE TABLE u (c t)' ],
);
for (@refused)
{
	my ($name, $sql) = @$_;
	my (undef, $err) = $c->try(1, $sql);
	like($err, qr/ERROR:\s+0A000/, "$name is refused");
}
$c->sql(1, 'ALTER TABLE t ADD c text DEFAULT session_user; ALTER TABLE t ADD d timestamptz DEFAULT when_read()');
like(same_rows('t', 'defaults of rows that differ from node to node'), qr/postgres/, 'SESSION_USER is that of the session');
$c->sql(1, 'CREATE TEMP TABLE t (x text); CREATE FUNCTION f(t) RETURNS int LANGUAGE sql AS $$SELECT 1$$');
$c->same('a function that uses a temporary type goes with the session');

# Unlogged tables that are there already are like others.
$c->sql($_, 'SET lockstep.replicate = off; CREATE UNLOGGED TABLE old (a int PRIMARY KEY); INSERT INTO old VALUES (1)') for 1, 2;
$c->sql(1, $_) for 'INSERT INTO old VALUES (2)', 'INSERT INTO old VALUES (2), (5) ON CONFLICT DO NOTHING', 'UPDATE old SET a = 3 WHERE a = 1',
	'DELETE FROM old WHERE a = 2', "COPY old FROM stdin;\n4\n\\.\n", 'ALTER TABLE old SET LOGGED';
is(same_rows('old', 'an unlogged table from before'), "(3)\n(4)\n(5)", 'it has its rows');
$c->same('all of it');

done_testing();
