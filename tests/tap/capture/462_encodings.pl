# Clients of many encodings write through one node - literals, parameters, COPY, DO, names and
# comments, enum labels, notifications, rows and statements - and others read it through another; also
# in databases whose own encoding is not UTF8 (LATIN1, EUC_JP, SQL_ASCII, whose bytes mean nothing), where the
# operator's tools have to show them, too.
use strict;
use warnings;
use Encode ();
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
my @databases = ([ 'app', 'UTF8' ], [ 'latin', 'LATIN1' ], [ 'japan', 'EUC_JP' ], [ 'bytes', 'SQL_ASCII' ]);
for my $d (@databases)
{
	my ($name, $encoding) = @$d;
	next if $name eq 'app';
	$c->sql_local($_, "CREATE DATABASE $name TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'", db => 'postgres') for $c->all;
	my (undef, $error, $rc) = $c->ctl('database', 'add', $name);
	is($rc, 0, "a database in $encoding is replicated") or diag($error);
}

# What a client says, in characters: the last byte of some in SJIS is that of an ASCII one.
my %clients = (
	UTF8 => [ 'utf8', "\x{e4}\x{20ac} \x{65e5}\x{672c} \x{1f600}" ],
	LATIN1 => [ 'iso-8859-1', "gr\x{fc}n \x{ff}" ],
	WIN1252 => [ 'cp1252', "\x{20ac} \x{201c}x\x{201d}" ],
	SJIS => [ 'cp932', "\x{8868}\x{30bd} \x{80fd}" ],
	EUC_JP => [ 'euc-jp', "\x{65e5}\x{672c}\x{8a9e}" ],
);

sub bytes { my ($encoding, $text) = @_; return Encode::encode($clients{$encoding}[0], $text) }

# Everything that a client can say it in.
my $script = <<'SQL';
\encoding ENCODING
INSERT INTO t (client, how, v) VALUES ('ENCODING', 'literal', 'TEXT');
PREPARE p(text) AS INSERT INTO t (client, how, v) VALUES ('ENCODING', 'parameter', $1);
EXECUTE p('TEXT');
COPY t (client, how, v) FROM STDIN;
ENCODING	copy	TEXT
ENCODING	copied	TEXT
\.
DO $do$ BEGIN INSERT INTO t (client, how, v) VALUES ('ENCODING', 'do', 'TEXT'), ('ENCODING', 'rows', 'TEXT'); END $do$;
UPDATE t SET w = v || ', TEXT' WHERE client = 'ENCODING' AND v = 'TEXT' AND how <> 'copied';
SELECT pg_sleep(0.5); -- just after DDL rows would travel
SET lockstep.statement_rows = 0;
UPDATE t SET w = 'TEXT!' WHERE client = 'ENCODING' AND how = 'copied';
RESET lockstep.statement_rows;
INSERT INTO keyed VALUES ('TEXT', 1); UPDATE keyed SET n = 2 WHERE k = 'TEXT';
INSERT INTO bare VALUES ('TEXT'), ('TEXT'); UPDATE bare SET v = v || 'TEXT' WHERE ctid = (SELECT min(ctid) FROM bare WHERE v = 'TEXT');
CREATE TABLE "TEXT" ("TEXT" text DEFAULT 'TEXT' CHECK ("TEXT" <> '') PRIMARY KEY);
COMMENT ON TABLE "TEXT" IS 'TEXT';
INSERT INTO "TEXT" DEFAULT VALUES; UPDATE "TEXT" SET "TEXT" = 'TEXT' || 'TEXT';
CREATE FUNCTION "f TEXT"() RETURNS text LANGUAGE sql RETURN 'TEXT';
ALTER TYPE label ADD VALUE 'TEXT';
CREATE TABLE "e TEXT" (v label DEFAULT 'TEXT'); INSERT INTO "e TEXT" DEFAULT VALUES;
NOTIFY heard, 'TEXT';
SQL

# In a client's bytes; COPY's data ends where its encoding says.
sub script_of
{
	my ($encoding) = @_;
	my $text = bytes($encoding, $clients{$encoding}[1]);
	return $script =~ s/TEXT/$text/gr =~ s/ENCODING/$encoding/gr;
}

sub prepare
{
	my ($db) = @_;
	$c->sql(1, <<'SQL', db => $db);
CREATE TABLE t (id serial PRIMARY KEY, client text, how text, v text, w text);
CREATE TABLE keyed (k text PRIMARY KEY, n int);
CREATE TABLE bare (v text);
CREATE TYPE label AS ENUM ('none');
SQL
	$c->drain;
}

# What a client of an encoding is shown there, in characters.
sub read_as
{
	my ($node, $encoding, $sql, $db) = @_;
	return Encode::decode($clients{$encoding}[0], $c->sql($node, "\\encoding $encoding\n$sql", db => $db));
}

sub written
{
	my ($db, $encoding, $writer, $reader) = @_;
	my $text = $clients{$encoding}[1];
	my $listener = $c->session($reader, db => $db);
	$listener->do("SET client_encoding = '$encoding'; LISTEN heard");
	$c->sql($writer, script_of($encoding), db => $db);
	$c->drain;
	my $seen = read_as($reader, $encoding, "SELECT how, v, w FROM t WHERE client = '$encoding' ORDER BY how", $db);
	is($seen, join("\n", map { "$_|$text|" . ($_ eq 'copied' ? "$text!" : "$text, $text") } qw(copied copy do literal parameter rows)),
		"$db: what a client in $encoding wrote on node $writer is read on node $reader");
	$seen = read_as($reader, $encoding, bytes($encoding, qq(SELECT n FROM keyed WHERE k = '$text'; SELECT v FROM bare WHERE v LIKE '$text%' ORDER BY length(v); SELECT "$text", obj_description('"$text"'::regclass), "f $text"() FROM "$text"; SELECT v FROM "e $text")), $db);
	is($seen, "2\n$text\n$text$text\n$text$text|$text|$text\n$text", 'keys, rows without one, names, comments, functions, labels');
	my $heard;
	ok($c->wait_until(sub { $heard = $listener->query('SELECT 1'); $heard =~ /heard/ }, 20), 'the notification') or return;
	like(Encode::decode($clients{$encoding}[0], $heard), qr/with payload "\Q$text\E"/, 'says it, too');
	$listener->close;
}

# ---------- a UTF8 database: every client

prepare('app');
my $i = 0;
for my $encoding (sort keys %clients)
{
	written('app', $encoding, 1 + $i % 3, 1 + ($i + 1) % 3);
	$i++;
}
is(read_as(3, 'UTF8', "SELECT count(*) FROM t WHERE w LIKE v || '%'"), 30, 'all of it');
my $file = $c->file('sjis', join('', map { "from file\tfile\t$_\n" } bytes('SJIS', $clients{SJIS}[1])));
$c->sql(2, "COPY t (client, how, v) FROM '$file' (ENCODING 'SJIS')");
$c->drain;
is(read_as(1, 'EUC_JP', "SELECT v FROM t WHERE how = 'file'"), $clients{SJIS}[1], 'COPY with an encoding of its own');
$c->same('UTF8');

# ---------- other databases: those clients that it can be said to

prepare($_->[0]) for grep { $_->[0] ne 'app' } @databases;
written('latin', 'LATIN1', 2, 3);
written('japan', 'SJIS', 3, 1);
written('japan', 'EUC_JP', 1, 2);
my $latin = "gr\x{fc}n \x{ff}";
is(read_as(1, 'UTF8', "SELECT v FROM t WHERE how = 'copy'", 'latin'), $latin, 'a LATIN1 database is read in UTF8');
$c->fails(1, "\\encoding UTF8\nINSERT INTO t (v) VALUES ('" . Encode::encode('utf8', "\x{20ac}") . "')", '22P05', qr/LATIN1/, 'what it can\'t hold', db => 'latin');
$c->sql(1, "\\encoding UTF8\nINSERT INTO keyed VALUES ('" . Encode::encode('utf8', "\x{e9}") . "', 1)", db => 'latin');

# bytes that are no characters anywhere
my $odd = join('', map { chr } 128 .. 255);
$c->sql(2, "INSERT INTO t (client, how, v) VALUES ('x', 'odd', '$odd'); INSERT INTO keyed VALUES ('$odd', 1); INSERT INTO bare VALUES ('$odd'), ('$odd'); CREATE TABLE \"$odd\" (\"\xff\" int PRIMARY KEY); INSERT INTO \"$odd\" VALUES (1)", db => 'bytes');
$c->drain;
$c->sql(3, "UPDATE t SET w = v || '\xfe'; UPDATE keyed SET n = n + 1 WHERE k = '$odd'; DELETE FROM bare WHERE ctid = (SELECT min(ctid) FROM bare); UPDATE \"$odd\" SET \"\xff\" = 2; ALTER TABLE \"$odd\" ADD COLUMN \"\xfd\" text DEFAULT '\xfc'", db => 'bytes');
$c->drain;
is($c->sql(1, "SELECT w = '$odd\xfe', (SELECT n FROM keyed), (SELECT count(*) FROM bare), (SELECT \"\xfd\" = '\xfc' FROM \"$odd\") FROM t", db => 'bytes'), 't|2|1|t', 'a SQL_ASCII database has what is no text in any encoding');
$c->same($_->[1], db => $_->[0]) for @databases;

# ---------- conflicts and failures say it

for my $d ([ 'latin', bytes('LATIN1', "\x{e9}") ], [ 'bytes', $odd ])
{
	my ($db, $key) = @$d;
	my ($x, $y) = map { $c->session($_, db => $db) } 1, 2;
	$_->do("BEGIN; UPDATE keyed SET n = n + 1 WHERE k = '$key'") for $x, $y;
	$x->do('COMMIT');
	$y->query('COMMIT');
	like($y->error, qr/^ERROR:\s+40001/, "a conflict in $db");
	$_->close for $x, $y;
	$c->drain;
	$c->sql_local(2, "INSERT INTO keyed VALUES ('$key 2', 0)", db => $db);
	my (undef, $error) = $c->try(1, "INSERT INTO keyed VALUES ('$key 2', 0)", db => $db);
	like($error, qr/^(?:psql:.*?: )?ERROR:\s+23505/, 'an error of another node');
	$c->sql_local(2, "DELETE FROM keyed WHERE k = '$key 2'", db => $db);
}

# ---------- and so do the operator's tools

for my $command ([ 'conflicts' ], [ 'sessions' ], [ 'status' ])
{
	my ($out, $error, $rc) = $c->ctl(@$command, '--json');
	is($rc, 0, "lockstepctl $command->[0]") or diag($error);
	ok(eval { JSON::PP::decode_json($out) }, 'in JSON') or diag($out);
}
my ($out, $error, $rc) = $c->ctl('journal', '--journal-directory', "$c->{dir}/journal", '--json');
is($rc, 0, 'lockstepctl journal') or diag($error);
is(scalar(grep { !eval { JSON::PP::decode_json($_) } } split /\n/, $out), 0, 'in JSON, each line');
for my $d (@databases)
{
	($out, $error, $rc) = $c->ctl('verify', '--database', $d->[0], '--json');
	is($rc, 0, "lockstepctl verify finds $d->[1] equal") or diag("$out\n$error");
}
$c->sql_local(3, "UPDATE keyed SET n = 77; UPDATE \"$odd\" SET \"\xfd\" = '\x80'", db => 'bytes');
$c->sql_local(3, 'UPDATE keyed SET n = 77', db => 'latin');
($out, $error, $rc) = $c->ctl('verify', '--json');
is($rc, 1, 'and finds what differs') or diag("$out\n$error");
ok(eval { JSON::PP::decode_json($out) }, 'in JSON') or diag($out);
# names that are text in no encoding are shown with ?, and can't be repaired by that
$c->sql_local(3, "UPDATE keyed SET n = 3; UPDATE \"$odd\" SET \"\xfd\" = '\xfc'", db => 'bytes');
($out, $error, $rc) = $c->ctl('verify', '--repair', 'n3');
is($rc, 0, 'and mends it') or diag("$out\n$error");
$c->wait_state(3, 'online');
$c->same("$_->[1] at the end", db => $_->[0]) for @databases;
done_testing;
