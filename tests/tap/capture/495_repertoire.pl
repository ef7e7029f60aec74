# Texts with bytes that are no characters in the database's encoding, or with NUL bytes: clients can't
# send them, but C code, or a cast WITHOUT FUNCTION, makes them.  The other nodes could not read them, so the
# statement that puts one into a row is refused with 22021, which names the column; in arrays, rows and ranges, too,
# whose output would end at a NUL byte, and the nodes differ.  What is not a row is refused as well.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE EXTENSION citext;
CREATE CAST (bytea AS text) WITHOUT FUNCTION;
CREATE TYPE pair AS (n int, t text);
CREATE DOMAIN words AS text;
CREATE TYPE texts AS RANGE (subtype = text);
CREATE TABLE t (id int PRIMARY KEY, v text, w varchar(100), f char(20), a text[], p pair, pp pair[], d words, j json, x xml, r texts, m texts_multirange, b bytea, c citext);
CREATE TABLE bare (id int, v text);
INSERT INTO t (id, v) SELECT i, 'x' FROM generate_series(1, 20) i;
INSERT INTO bare VALUES (1, 'x');
SQL
$c->drain;

my %bytes = ('a NUL byte' => [ '\x610062', '0x00' ], 'an invalid byte' => [ '\x6162636465666768ff', '0xff' ], 'half a character' => [ '\xe282', '0xe2 0x82' ]);
for my $what (sort keys %bytes)
{
	my ($hex, $shown) = @{ $bytes{$what} };
	my $text = "('$hex'::bytea)::text";
	my $error = qr/invalid byte sequence for encoding "UTF8": $shown\n.*column v of table public\.(t|bare)\..*\n.*bytea/;
	$c->fails(1, "INSERT INTO t (id, v) VALUES (100, $text)", '22021', $error, "INSERT of $what");
	$c->fails(1, "INSERT INTO t (id, v) SELECT i, CASE i WHEN 130 THEN $text ELSE 'x' END FROM generate_series(100, 150) i", '22021', $error, "in a run of rows");
	$c->fails(1, "UPDATE t SET v = $text WHERE id = 1", '22021', $error, 'UPDATE');
	$c->fails(1, "UPDATE t SET v = CASE WHEN id = 15 THEN $text ELSE 'y' END", '22021', $error, 'UPDATE of many');
	$c->fails(1, "INSERT INTO bare VALUES (2, $text)", '22021', $error, 'a table without a key');
	my %other = (w => "$text\::varchar", f => "$text\::char(20)", a => "ARRAY['x', $text]", p => "ROW(1, $text)::pair", pp => "ARRAY[ROW(1, $text)::pair]",
		d => "$text\::words", r => "texts('a', 'a' || $text)", m => "texts_multirange(texts('a', 'a' || $text))", c => "$text\::citext");
	for my $column (sort keys %other)
	{
		$c->fails(1, "INSERT INTO t (id, $column) VALUES (100, $other{$column})", '22021', qr/column $column of|LOCATION:  report_invalid_encoding/, "$what in column $column");
	}
	$c->fails(1, "DO \$\$ BEGIN EXECUTE 'COMMENT ON TABLE t IS ' || quote_literal($text); END \$\$", '22021', qr/\Q$shown\E|$/, 'in a command') if $what ne 'a NUL byte';
	$c->fails(1, "SELECT pg_notify('heard', $text)", '22021', qr/$shown/, 'in a notification') if $what ne 'a NUL byte';
}
$c->sql(1, <<'SQL');
DO $$ BEGIN
	BEGIN
		INSERT INTO t (id, v) VALUES (200, '\x00'::bytea::text);
	EXCEPTION WHEN character_not_in_repertoire THEN INSERT INTO t (id, v) VALUES (201, 'caught');
	END;
END $$
SQL
is($c->sql(1, 'SELECT id FROM t WHERE id >= 100'), '201', 'it is the statement that fails: a block with an exception can go on');
$c->sql(1, "UPDATE t SET b = '\\x00ff', v = E'\\u20ac', a = ARRAY[E'\\u20ac'], p = ROW(1, E'\\u20ac'), r = texts('a', E'\\u20ac'), f = 'ab', j = '{ \"a\" : 1}' WHERE id <= 10; INSERT INTO t (id, v, f) SELECT i, repeat(E'\\u00e9', i % 20), E'\\u20ac' FROM generate_series(300, 340) i");
$c->drain;
is($c->sql(2, "SELECT b, v, a, p, r, f, j FROM t WHERE id = 7"), "\\x00ff|\xe2\x82\xac|{\xe2\x82\xac}|(1,\xe2\x82\xac)|[a,\xe2\x82\xac)|ab                  |{ \"a\" : 1}", 'what is valid goes through');

# A row that is there: made on each node, as before it was one.
$c->sql_local($_, "INSERT INTO t (id, v) VALUES (500, '\\x61ff'::bytea::text)") for $c->all;
$c->sql(1, 'UPDATE t SET b = NULL WHERE id = 500; DELETE FROM t WHERE id = 500');
$c->same('the nodes are equal');
done_testing();
