# psql as people and scripts use it: variables, \gset and \gexec, \copy, FETCH_COUNT,
# ON_ERROR_ROLLBACK, AUTOCOMMIT off, --single-transaction, several statements in
# one message. What is written through one node is read through the other.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../tap";
use IPC::Run ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.commit_wait = applied\n");

sub psql
{
	my ($node, $script, @options) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$LockstepCluster::bindir/psql", '-XAtq', '-d', $c->conninfo($node), @options ], '<', \$script, '>', \$out, '2>', \$err,
		IPC::Run::timeout(60));
	chomp $out;
	return ($out, $err);
}

sub there
{
	my ($sql, $expected, $name) = @_;
	is($c->sql(2, $sql), $expected, $name);
}

psql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v text);
\set name 'O''Brien'
SELECT 1 AS one, 'from gset' AS text \gset
INSERT INTO t VALUES (:one, :'name' || :'text');
SELECT format('INSERT INTO t VALUES (%s, %L)', g, 'gexec') FROM generate_series(2, 20) g \gexec
SELECT 100 AS id \gset
\if true
INSERT INTO t VALUES (:id, 'if') RETURNING id \gset after_
UPDATE t SET v = v || ' again' WHERE id = :after_id \g /dev/null
\endif
INSERT INTO t VALUES (101, 'a')\; UPDATE t SET v = v || 'b' WHERE id = 101\; INSERT INTO t VALUES (102, 'c');
SQL
there(q{SELECT string_agg(v, ',' ORDER BY id) FROM t WHERE id = 1 OR id > 99}, q{O'Brienfrom gset,if again,ab,c}, 'variables, \gset, \gexec');
there('SELECT count(*) FROM t', 23, 'rows');

my (undef, $err) = psql(1, "INSERT INTO t VALUES (200, 'x')\\; INSERT INTO t VALUES (1, 'duplicate')\\; INSERT INTO t VALUES (201, 'x');\n");
like($err, qr/duplicate key/, 'an error in several statements');
there('SELECT count(*) FROM t WHERE id BETWEEN 200 AND 201', 0, 'rolls back all of them');

psql(1, "\\set ON_ERROR_ROLLBACK on\nBEGIN;\nINSERT INTO t VALUES (300, 'kept');\nINSERT INTO t VALUES (1, 'duplicate');\nINSERT INTO t VALUES (301, 'kept');\nCOMMIT;\n");
there('SELECT count(*) FROM t WHERE id BETWEEN 300 AND 301', 2, 'ON_ERROR_ROLLBACK');
psql(1, "\\set AUTOCOMMIT off\nINSERT INTO t VALUES (400, 'kept');\nCOMMIT;\nINSERT INTO t VALUES (401, 'gone');\n");
there('SELECT string_agg(id::text, $$ $$) FROM t WHERE id BETWEEN 400 AND 401', 400, 'AUTOCOMMIT off');
psql(1, "INSERT INTO t VALUES (500, 'gone');\nINSERT INTO t VALUES (1, 'duplicate');\n", '-1', '-v', 'ON_ERROR_STOP=1');
psql(1, "INSERT INTO t VALUES (501, 'kept');\nCREATE TABLE u (id int);\nINSERT INTO u VALUES (1);\n", '-1');
there('SELECT string_agg(id::text, $$ $$) FROM t WHERE id BETWEEN 500 AND 501', 501, '--single-transaction');

my $csv = $c->file('in.csv', join '', "id,v\n", map { "$_,\"line ,\n $_\"\n" } 1000 .. 1999);
psql(1, "\\copy t FROM '$csv' WITH (FORMAT csv, HEADER)\n\\copy u FROM pstdin\n", '-v', 'ON_ERROR_STOP=1');
psql(1, "COPY u FROM stdin;\n7\n8\n\\.\nINSERT INTO u VALUES (9);\n");
there(q{SELECT count(*) FROM t WHERE v LIKE E'line ,\n %'}, 1000, '\copy from a file');
there('SELECT count(*) FROM u', 4, 'COPY from the script');
my ($got) = psql(2, "\\copy (SELECT id, v FROM t WHERE id BETWEEN 1000 AND 1999 ORDER BY id) TO pstdout WITH (FORMAT csv, HEADER, FORCE_QUOTE (v))\n");
is("$got\n", do { local (@ARGV, $/) = $csv; scalar <> }, '\copy to standard output on the other node');

my ($out) = psql(2, "\\set FETCH_COUNT 100\nSELECT id FROM t ORDER BY id;\nUPDATE t SET v = 'n2' WHERE id < 10 RETURNING id;\n");
is(scalar(split /\n/, $out), 1027 + 9, 'FETCH_COUNT');
is($c->sql(1, q{SELECT count(*) FROM t WHERE v = 'n2'}), 9, 'and a change with it');
$c->same('nodes are equal');

done_testing;
