# What lockstepctl verify finds: nodes that are equal are equal, while they are written
# to and altered; each kind of difference that is planted on a node is named; exit
# codes and JSON.  With --indexes: an index that does not say what its table has (a page that is
# gone, a page of yesterday), what could not be checked, and that amcheck is needed.  How far it is:
# on a terminal, and in the replicator's status, for as long as it runs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use IPC::Run ();
use JSON::PP ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

sub verify { return $c->ctl('verify', @_) }

# The differences, as JSON.
sub differences
{
	my ($out) = verify('--json', @_);
	return @{ (eval { JSON::PP::decode_json($out) } // {})->{differences} // [] };
}

# A difference planted, found, and taken away again.
sub found
{
	my ($name, $node, $plant, $remove, $like, @args) = @_;
	$c->sql_local($node, $plant);
	my ($out, $err, $rc) = verify(@args);
	is($rc, 1, "$name: different") or diag("$out\n$err");
	like($out, $like, "$name: named");
	$c->sql_local($node, $remove);
}

# Many of them, by one verify.
sub found_at_once
{
	my @all = @_;
	$c->sql_local($_->[1], $_->[2]) for @all;
	my ($out, $err, $rc) = verify();
	is($rc, 1, 'different') or diag("$out\n$err");
	like($out, $_->[4], "$_->[0]: named") for @all;
	$c->sql_local($_->[1], $_->[3]) for @all;
}

$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v text, f float8, n numeric, j jsonb);
INSERT INTO t SELECT i, 'value ' || i, i / 3.0, i, '{"a": [1, 2]}' FROM generate_series(1, 5000) i;
CREATE TABLE two (a text, b int, v text, PRIMARY KEY (a, b));
INSERT INTO two VALUES ('x, "y"', 1, 'one'), ('x', 2, NULL);
CREATE ROLE app_owner;
CREATE ROLE app_user;
CREATE TABLE keyless (a int, b text);
INSERT INTO keyless SELECT i % 5, 'b' FROM generate_series(1, 20) i;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE odd (m mood, ms mood[], r int4range, b bytea, big text, "Odd Name" point, x xml, c oid, cl regclass);
INSERT INTO odd SELECT 'ok', '{sad,ok}', '[1,5)', '\x00ff', repeat(md5('x'), 1000), '(1,2)', '<a/>', 5, 'odd';
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
INSERT INTO p VALUES (1, 'in a partition');
CREATE MATERIALIZED VIEW mv AS SELECT count(*) FROM t;
ALTER TABLE two DROP v;
ALTER TABLE two ADD w int DEFAULT 7;
SQL

# ---------- equal

my ($out, $err, $rc) = verify();
is($rc, 0, 'equal') or diag("$out\n$err");
like($out, qr/^equal$/m, 'and said');
like($out, qr/n1 n2 n3 at seq \d+/, 'which nodes, and where');
is($err, '', 'no progress is shown where nobody looks');
my $on_terminal = `script -qec "$LockstepCluster::bindir/lockstepctl --config @{[ $c->replicator_conf ]} --socket $c->{dir}/admin.sock verify" /dev/null </dev/null`;
like($on_terminal, qr/\r\e\[Kdatabase app: \d+ tables, \d+ MB are to be compared.*\r\e\[K[^\r]*seq/s, 'on a terminal it is, until the result is there');

# A machine that does not answer is not waited for without end.
{
	my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => $c->{base} + 8) // die "port: $!";
	my $port = $c->port(2);
	my $text = LockstepCluster::_slurp($c->replicator_conf) =~ s/port=$port\b/port=@{[ $c->{base} + 8 ]}/r;
	my $h = IPC::Run::start([ "$LockstepCluster::bindir/lockstepctl", '--config', $c->file('silent.conf', $text), '--socket', "$c->{dir}/admin.sock", 'verify' ],
		'<', \undef, '>', \my $o, '2>', \my $e, IPC::Run::timeout(60));
	ok(eval { $h->finish; 1 }, 'a node that does not answer: verify ends') or $h->kill_kill;
	is($? >> 8, 2, '... and says that it could not compare');
	like($e, qr/could not connect to database ".*" of node n2: .*timeout expired/s, '... and why');
}

# While all nodes are written to, and tables are truncated and altered.
$c->sql(1, <<'SQL');
CREATE TABLE hot (id int PRIMARY KEY, n int DEFAULT 0);
INSERT INTO hot SELECT i, 0 FROM generate_series(1, 300) i;
CREATE TABLE log (node text, at timestamptz DEFAULT clock_timestamp());
SQL
$c->drain;
my $script = $c->file('load.sql', <<'SQL');
\set id random(1, 300)
UPDATE hot SET n = n + 1 WHERE id = :id;
INSERT INTO log (node) VALUES (current_setting('lockstep.node_name'));
SQL
# As long as it takes, and not at full speed: what is looked at is equality, not how much is written.
sub load { my ($nodes, $file, @args) = @_; return map { $c->pgbench_start($_, '-n', '-c', 2, '-T', 600, '-R', 100, @args, '-f', $file) } @$nodes }

# What they have said when they are ended.
sub ended
{
	my @load = @_;
	$_->{handle}->signal('TERM') for @load;
	eval { $_->{handle}->finish } for @load;
	return join '', map { ${ $_->{text} } } @load;
}

my @load = load([ 1 .. 3 ], $script, '--max-tries=0');
my $ddl = $c->session(2);
$ddl->send('DO $$BEGIN FOR i IN 1..4 LOOP TRUNCATE log; COMMIT; ALTER TABLE two ALTER w SET DEFAULT 8; COMMIT; ' .
	  'PERFORM pg_sleep(0.5); END LOOP; END$$');
for my $i (1 .. 4)
{
	($out, $err, $rc) = verify('--jobs', $i % 2 + 1);
	is($rc, 0, "equal under load ($i)") or diag("$out\n$err");
}
$ddl->finish;
unlike(ended(@load), qr/aborted/, 'nobody was disturbed');
($out, $err, $rc) = verify();
is($rc, 0, 'equal after the load') or diag("$out\n$err");

# ---------- rows

found('a changed row', 2, "UPDATE t SET v = 'other' WHERE id = 17", "UPDATE t SET v = 'value 17' WHERE id = 17",
	qr/rows of public\.t: 1 row\n.*\(id\) = \(17\)\n.*n1, n3: .*value 17.*\n.*n2: .*other/);
found('a missing row', 3, 'DELETE FROM t WHERE id = 18',
	"INSERT INTO t SELECT i, 'value ' || i, i / 3.0, i, '{\"a\": [1, 2]}' FROM generate_series(18, 18) i",
	qr/\(id\) = \(18\)\n.*n1, n2: .*value 18.*\n.*n3: missing/);
found('an extra row', 1, 'INSERT INTO t (id) VALUES (99999)', 'DELETE FROM t WHERE id = 99999',
	qr/\(id\) = \(99999\)\n.*n1: \(99999,,,,\)\n.*n2, n3: missing/);
found('one copy more of a row without a key', 2, "INSERT INTO keyless VALUES (1, 'b')",
	"DELETE FROM keyless WHERE ctid = (SELECT max(ctid) FROM keyless)", qr/row \(1,b\)\n.*n1, n3: 4\n.*n2: 5/);
found('what = does not tell', 2, 'UPDATE t SET n = 17.00 WHERE id = 17', 'UPDATE t SET n = 17 WHERE id = 17',
	qr/n2: .*17\.00/);
found('a long value', 3, "UPDATE odd SET big = big || ' '", "UPDATE odd SET big = repeat(md5('x'), 1000)", qr/public\.odd: 1 row/);
found_at_once(
	['-0', 2, "UPDATE t SET f = '-0' WHERE id = 1; UPDATE t SET f = 0 WHERE id = 2",
		'UPDATE t SET f = id / 3.0 WHERE id < 3', qr/public\.t: 2 rows/],
	['null', 2, 'UPDATE two SET w = NULL WHERE b = 1', 'UPDATE two SET w = 7 WHERE b = 1',
		qr/\(a, b\) = \("x, ""y""",1\)/],
	['a value of an enum, in an array', 3, "UPDATE odd SET ms = '{ok}'", "UPDATE odd SET ms = '{sad,ok}'", qr/public\.odd: 1 row/],
	['a row of a partition', 2, "UPDATE p SET v = ''", "UPDATE p SET v = 'in a partition'", qr/rows of public\.p1: 1 row/],
);
found('a row of the table that is named', 2, 'UPDATE hot SET n = -1 WHERE id = 5; ', 'SELECT 1', qr/public\.hot: 1 row/, '--table', 'hot');

my ($d) = differences('--table', 'hot');
is($d->{kind}, 'rows', 'JSON: what');
is("$d->{database} $d->{object} $d->{key_columns} $d->{rows_that_differ}", 'app public.hot id 1', 'JSON: where');
is($d->{rows}[0]{key}, '(5)', 'JSON: the key');
is($d->{rows}[0]{nodes}{n2}, '(5,-1)', 'JSON: what the node has');
# to something else than it is: the load may not have met this row
$c->sql(1, 'UPDATE hot SET n = n + 1000000 WHERE id = 5');

# Many at once.
$c->sql_local(2, 'DELETE FROM t WHERE id > 1000');
($d) = differences('--rows', 3);
is($d->{rows_that_differ}, 4000, 'many rows are counted');
is(join(' ', map { $_->{key} } @{ $d->{rows} }), '(1001) (1002) (1003)', 'and shown in the order of their key');
$c->sql_local(2, "INSERT INTO t SELECT i, 'value ' || i, i / 3.0, i, '{\"a\": [1, 2]}' FROM generate_series(1001, 5000) i");

# ---------- large objects

$c->sql(1, "SELECT lo_from_bytea(4711, 'what all have')");
$c->drain;
found('a large object', 2, "SELECT lo_put(4711, 2, 'b')", "SELECT lo_put(4711, 2, 'a')", qr/pg_largeobject: 1 row\n.*4711,0/);

found('an owner of a large object', 3, 'ALTER LARGE OBJECT 4711 OWNER TO app_owner', 'ALTER LARGE OBJECT 4711 OWNER TO postgres',
	qr/large object 4711 differs:\s+n1, n2: owner postgres\s+n3: owner app_owner/);
found('a large object that only one has', 1, 'SELECT lo_create(4712)', 'SELECT lo_unlink(4712)',
	qr/large object 4712 differs:\s+n1: owner postgres\s+n2, n3: not there/);

# ---------- sequences

$c->sql(1, "CREATE SEQUENCE s; SELECT setval('s', 5); CREATE SEQUENCE unused");
$c->drain;
$c->sql_local(3, "SELECT setval('unused', 1)");
found('sequences', 2, "SELECT setval('s', 7)", "SELECT setval('s', 5)",
	qr/sequence public\.s differs:\s+n1, n3: 5\s+n2: 7.*public\.unused differs:\s+n1, n2: 1 \(not used yet\)\s+n3: 1/s);
$c->sql_local(3, "SELECT setval('unused', 1, false)");

# ---------- definitions

# Lines in the body of a function that look as if they were pg_dump's.
my @lines = ("one\n\n--\ntwo\nSET default_tablespace = three\n", "one\n--\ntwo\nSET default_tablespace = three\n",
	"one\n\ntwo\nSET default_tablespace = three\n", "one\n\n--\ntwo\nSET default_tablespace = four\n");
sub lines_function { my ($n, $i) = @_; return "CREATE OR REPLACE FUNCTION lines$n() RETURNS text LANGUAGE sql AS \$f\$SELECT \$q\$\n$lines[$i]\$q\$\$f\$" }

$c->sql(1, 'GRANT CONNECT ON DATABASE app TO app_owner; CREATE ROLE lender; CREATE ROLE borrower; GRANT lender TO app_user WITH ADMIN OPTION; GRANT lender TO borrower');
$c->sql(1, lines_function($_, 0)) for 1 .. 3;
$c->drain;
found_at_once(
	['a role', 2, 'CREATE ROLE stranger', 'DROP ROLE stranger', qr/^role stranger differs:\s+n1, n3: not there\s+n2: /m],
	['an attribute of a role', 2, 'ALTER ROLE app_owner CREATEDB', 'ALTER ROLE app_owner NOCREATEDB',
		qr/^role app_owner differs:.*n2: INHERIT CREATEDB/ms],
	['a membership', 2, 'GRANT app_owner TO app_user', 'REVOKE app_owner FROM app_user',
		qr/membership of app_user in app_owner differs/],
	($c->version < 16 ? () : (['options of a membership', 2, 'GRANT lender TO borrower WITH INHERIT FALSE', 'GRANT lender TO borrower WITH INHERIT TRUE',
		qr/membership of borrower in lender differs:.*n2: INHERIT false SET true granted by postgres/s],
	['a membership that another role has granted', 3, 'GRANT lender TO borrower GRANTED BY app_user', 'REVOKE lender FROM borrower GRANTED BY app_user',
		qr/membership of borrower in lender differs:.*n3: \S.*granted by app_user, .*granted by postgres/s])),
	['a comment on the database', 2, "COMMENT ON DATABASE app IS 'x'", 'COMMENT ON DATABASE app IS NULL', qr/^database app differs:.*n2: .*COMMENT 'x'/ms],
	['an option of the database', 2, 'ALTER DATABASE app IS_TEMPLATE true', 'ALTER DATABASE app IS_TEMPLATE false', qr/^database app differs:.*n2: .*IS_TEMPLATE true/ms],
	['a setting', 3, "ALTER ROLE app_user SET work_mem = '7MB'", 'ALTER ROLE app_user RESET work_mem',
		qr/setting role app_user differs:.*n3: work_mem=7MB/s],
	['a privilege of the database', 3, 'GRANT CREATE ON DATABASE app TO app_user', 'REVOKE CREATE ON DATABASE app FROM app_user',
		qr/^database app differs:.*n3: .*app_user=C/ms],
	['an index', 2, 'CREATE INDEX i ON t (v)', 'DROP INDEX i', qr/schema INDEX public\.i differs:.*n2: CREATE INDEX i ON public\.t/s],
	['a constraint', 2, 'ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)', 'ALTER TABLE t DROP CONSTRAINT c',
		qr/schema TABLE public\.t differs:.*n2: .*CONSTRAINT c CHECK/s],
	['a default', 2, 'ALTER TABLE two ALTER w SET DEFAULT 9', 'ALTER TABLE two ALTER w SET DEFAULT 8',
		qr/schema TABLE public\.two differs:\s+n1, n3: +w integer DEFAULT 8.*\s+n2: +w integer DEFAULT 9/s],
	['a function', 3, "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", 'DROP FUNCTION f()', qr/schema FUNCTION public\.f\(\)/],
	(map { ["line $_ in the body of a function", 2, lines_function($_, $_), lines_function($_, 0), qr/schema FUNCTION public\.lines$_\(\) differs/] } 1 .. 3),
	['a table', 3, 'CREATE TABLE only_here (a int)', 'DROP TABLE only_here', qr/schema TABLE public\.only_here/],
	['a column', 3, 'ALTER TABLE log ADD x int', 'ALTER TABLE log DROP x', qr/table public\.log differs:.*n3: has other columns/s],
	['a privilege', 2, 'GRANT SELECT ON t TO app_user', 'REVOKE SELECT ON t FROM app_user', qr/schema ACL public\.TABLE t/],
	['a comment', 2, "COMMENT ON TABLE t IS 'x'", 'COMMENT ON TABLE t IS NULL', qr/schema COMMENT public\.TABLE t/],
);
($out, $err, $rc) = verify();
is($rc, 0, 'all that was planted is gone') or diag("$out\n$err");

# Sequences in use, and objects that come and go, are no difference.
@load = load([ 1 .. 3 ], $c->file('seq.sql', "SELECT nextval('s');\n"));
$ddl->send('DO $$BEGIN FOR i IN 1..8 LOOP CREATE TABLE passing (id serial PRIMARY KEY, v int); COMMIT; CREATE INDEX ON passing (v); COMMIT; ' .
	  'DROP TABLE passing; COMMIT; PERFORM pg_sleep(0.5); END LOOP; END$$');
for my $i (1 .. 3)
{
	($out, $err, $rc) = verify();
	is($rc, 0, "sequences and DDL under load ($i)") or diag("$out\n$err");
}
$ddl->finish;
unlike(ended(@load), qr/aborted/, 'nobody was disturbed by that');

# ---------- indexes

sub index_file { my ($index) = @_; return $c->pgdata(2) . '/' . $c->sql(2, "SELECT pg_relation_filepath('$index')") }

# Stop n2, change a file of it, start it.
sub change_file
{
	my ($code) = @_;
	$c->cluster('stop-node', 2);
	$code->();
	$c->cluster('start-node', 2) or die;
	$c->wait_state(2, 'online') or die;
}

$c->sql(1, <<'SQL');
CREATE TABLE it (id int PRIMARY KEY, v text, tags int[], big text);
CREATE INDEX it_v ON it (v);
CREATE INDEX it_lower ON it (lower(v)) WHERE id > 10;
CREATE INDEX it_hash ON it USING hash (v);
CREATE INDEX it_tags ON it USING gin (tags);
INSERT INTO it SELECT i, 'value ' || i, ARRAY[i], repeat(md5(i::text), 200) FROM generate_series(1, 2000) i;
CREATE TABLE other (id int PRIMARY KEY);
SQL
$c->drain;

($out, $err, $rc) = verify('--indexes');
is($rc, 2, 'without amcheck it is not done') or diag($out);
like($err, qr/needs the extension amcheck, which database "app" does not have on node n1: run CREATE EXTENSION amcheck/, 'and says what to do');
$c->sql(1, 'CREATE EXTENSION amcheck');
$c->drain;

# ---------- all is well

($out, $err, $rc) = verify('--indexes', '--jobs', 2);
is($rc, 0, 'indexes are in order') or diag("$out\n$err");
like($out, qr/^equal$/m, 'and all is equal');
my ($n) = $out =~ /(\d+) index checks/;
cmp_ok($n, '>', 200, "on all nodes, with the catalogs' ($n)");
like($out, qr/^database app: indexes not checked \(amcheck has no check for indexes of kind gin\):\n\s+n1, n2, n3: 1$/m, 'what is not checked is said');
like($out, qr/of kind hash\):\n\s+n1, n2, n3: 1$/m, 'each kind');
($out, $err, $rc) = verify('--indexes', '--table', 'other');
like($out, qr/ 3 index checks/, 'of one table only');
is($rc, 0, 'which is equal');
($out) = verify();
unlike($out, qr/index/, 'only when it is wanted');

# ---------- while it is written to, and altered

@load = load([1], $c->file('load.sql', <<'SQL'), '--max-tries=0');
\set id random(1, 2000)
UPDATE it SET v = v || 'x' WHERE id = :id;
SQL
($out, $err, $rc) = verify('--indexes', '--table', 'it');
is($rc, 0, 'beside writers') or diag("$out\n$err");
unlike(ended(@load), qr/aborted/, 'who are not disturbed');

# ---------- damage

$c->sql(1, 'UPDATE it SET v = md5(id::text)');
$c->drain;
$c->sql(2, 'REINDEX INDEX it_v');	# autovacuum may have taken pages out of it
$c->sql(2, 'CHECKPOINT');
my $file = index_file('it_v');
my $size = -s $file;
cmp_ok($size, '>', 3 * 8192, 'an index of some pages');
change_file(sub {
	open(my $f, '+<', $file) or die "$file: $!";
	seek($f, 2 * 8192, 0);
	print $f "\0" x 8192;
	close $f;
});
($out, $err, $rc) = verify();
is($rc, 0, 'rows are equal') or diag("$out\n$err");
($out, $err, $rc) = verify('--indexes');
is($rc, 1, 'a page of zeros in an index is found') or diag("$out\n$err");
like($out, qr/^database app: index public\.it_v of public\.it is damaged \(REINDEX INDEX, on that node\):\n    n2: .*page/m, 'named, with its node') or diag($out);
unlike($out, qr/index public\.it_pkey/, 'and no other');
my ($json) = verify('--indexes', '--json');
my $result = JSON::PP::decode_json($json);
($d) = @{ $result->{differences} };
is("$d->{kind} $d->{object} $d->{table}", 'index public.it_v public.it', 'in JSON, too');
is_deeply([ keys %{ $d->{nodes} } ], ['n2'], 'with the node');
($out, $err, $rc) = verify('--indexes', '--repair', 'n2');
is($rc, 2, 'that is no repair of rows') or diag("$out\n$err");
like($err, qr/run REINDEX INDEX public\.it_v there/, 'but of the index');
is($c->node_status(2)->{state}, 'online', 'the node is not touched');
$c->sql(2, 'REINDEX INDEX it_v');
($out, $err, $rc) = verify('--indexes', '--table', 'public.it');
is($rc, 0, 'which mends it') or diag("$out\n$err");

# An index that is whole, but of yesterday: a write that a disk has lost.
$file = index_file('it_v');
$c->sql(2, 'CHECKPOINT');
change_file(sub { system('cp', '-p', $file, "$c->{top}/old") == 0 or die });
$c->sql(1, "UPDATE it SET v = 'new ' || id WHERE id % 100 = 0");
$c->drain;
change_file(sub { system('cp', '-p', "$c->{top}/old", $file) == 0 or die });
($out, $err, $rc) = verify('--indexes');
is($rc, 1, 'entries that are missing are found') or diag("$out\n$err");
like($out, qr/index public\.it_v of public\.it is damaged.*\n    n2: heap tuple \(\d+,\d+\) from table "it" lacks matching index tuple/, 'by the table') or diag($out);
$c->sql(2, 'REINDEX INDEX it_v');
($out, $err, $rc) = verify('--indexes');
is($rc, 0, 'mended again') or diag("$out\n$err");

# ---------- how far it is

sub running
{
	my ($json) = $c->ctl('status', '--json');
	return @{ (eval { JSON::PP::decode_json($json) } // {})->{running} // [] };
}

# A verify that can't go on at that place of n2: what the status says of it; other() meanwhile.
sub stands
{
	my ($name, $hold, $args, $text, $other) = @_;
	my ($said, $errors, @seen) = ('', '');
	my $holder = $c->session(2);

	$holder->do("SET lockstep.replicate = off; BEGIN; $hold");
	my $h = IPC::Run::start([ "$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, '--socket', "$c->{dir}/admin.sock", 'verify', @$args ],
		'<', \undef, '>', \$said, '2>', \$errors, IPC::Run::timeout(180));
	ok($c->wait_until(sub { @seen = running(); @seen == 1 && $seen[0]{text} =~ $text }), "$name: in the status") or diag(explain(\@seen), $errors);
	$other->($seen[0]) if $other;
	$holder->do('ROLLBACK');
	$h->finish;
	is($h->full_result(0), 0, "$name: it goes on, and all is equal") or diag("$said\n$errors");
	ok($c->wait_until(sub { !running() }), "$name: nothing runs now");
	return;
}

is_deeply([ running() ], [], 'nothing runs');
stands('rows', 'REINDEX INDEX it_v', [ '--table', 'public.it' ], qr/^database app: table 1 of 1 \(public\.it\), 0 of \d+ MB are compared$/, sub {
	my ($one) = @_;
	is_deeply([ @$one{qw(command phase database object done all uid)} ], [ 'verify', 'tables', 'app', 'public.it', 0, 1, $> ], '... with its facts');
	cmp_ok($one->{all_bytes}, '>', 0, '... in bytes');
	my ($status) = $c->ctl('status');
	like($status, qr/^running:      verify: database app: table 1 of 1 \(public\.it\), 0 of \d+ MB are compared, for \d+:\d\d \(process $one->{pid}, user id $>\)$/m, '... and who');
	$c->cluster('stop-replicator');
	$c->cluster('start-replicator');
	my @again;
	ok($c->wait_until(sub { @again = running(); @again == 1 }), '... a replicator that was started again is told again') or return;
	is($again[0]{pid}, $one->{pid}, '... by the same');
	cmp_ok($again[0]{for_ms}, '>', $one->{for_ms}, '... which has run since then');
	$c->wait_state($_, 'online') for $c->all;
});
# an index of n2 alone, whose check calls a function that waits
$c->sql_local(2, <<'SQL');
CREATE FUNCTION gate(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	'BEGIN PERFORM pg_catalog.pg_advisory_lock_shared(4711); PERFORM pg_catalog.pg_advisory_unlock_shared(4711); RETURN $1; END';
CREATE INDEX it_gate ON it (gate(id));
SQL
stands('indexes', 'SELECT pg_advisory_xact_lock(4711)', [ '--indexes', '--table', 'public.it' ],
	qr/^database app: (?:index \d+ of \d+ \(public\.it_gate, node n2\) is|\d+ of \d+ indexes are) checked$/, sub {
	my ($one) = @_;
	is_deeply([ @$one{qw(command phase database)} ], [ 'verify --indexes', 'indexes', 'app' ], '... with its facts');
	cmp_ok($one->{done}, '<', $one->{all}, '... which are not all');
});
$c->sql_local(2, 'DROP INDEX it_gate; DROP FUNCTION gate');

# names whose text is long: so is its line
my $long = "\x01" x 63;
$c->sql(1, qq(CREATE SCHEMA "$long"; CREATE TABLE "$long"."$long" (id int PRIMARY KEY); CREATE INDEX long ON "$long"."$long" (id)));
$c->drain;
stands('a long name', qq(REINDEX INDEX "$long".long), [ '--table', qq("$long"."$long") ], qr/^tables$/, sub { is($_[0]{all}, 1, '... all but the name') });
$c->sql(1, qq(DROP SCHEMA "$long" CASCADE));
$c->drain;
$on_terminal = `script -qec "$LockstepCluster::bindir/lockstepctl --config @{[ $c->replicator_conf ]} --socket $c->{dir}/admin.sock verify --indexes" /dev/null </dev/null`;
like($on_terminal, qr/\r\e\[Kdatabase app: index 1 of \d+ \(\S+, node n\d\) is checked.*\r\e\[K[^\r]*seq/s, 'indexes, on a terminal');

# ---------- what can't be done

($out, $err, $rc) = verify('--database', 'nosuch');
is($rc, 2, 'no such database');
like($err, qr/"nosuch" is not replicated/, 'said');
($out, $err, $rc) = verify('--table', 'nosuch');
is($rc, 2, 'no such table');
($out, $err, $rc) = $c->ctl('--config', '/nonexistent', 'verify');
is($rc, 2, 'no configuration');

# ---------- the hold ends with its session, and by itself

my $s = $c->session(1);
$s->query('SELECT lockstep.hold_commits(NULL, NULL)');
my $writer = $c->session(1);
$writer->send('UPDATE hot SET n = n + 1 WHERE id = 1');
ok($c->wait_until(sub { $c->sql(1, 'SELECT count(*) FROM lockstep.status() s, pg_stat_activity a ' .
	"WHERE query LIKE 'UPDATE hot%' AND wait_event = 'Extension'") eq '1' }), 'a writer waits');
my (undef, $second) = $c->try(1, "SELECT lockstep.hold_commits(NULL, '1s')");
like($second, qr/55006.*held by another session/s, 'nobody else can hold');
$s->kill;
$writer->finish;
pass('the writer goes on when the holder has gone');
is($c->sql(1, "SELECT lockstep.hold_commits(NULL, '10ms') > 0; UPDATE hot SET n = n + 1 WHERE id = 1; SELECT lockstep.release_commits()"),
	"t\nf", 'the hold has an end, and its owner can tell');
my $role = $c->sql(1, "SELECT count(*) FROM pg_proc p WHERE pronamespace = 'lockstep'::regnamespace AND " .
	"proname IN ('hold_commits', 'release_commits') AND has_function_privilege('public', p.oid, 'EXECUTE')");
is($role, 0, 'not for everybody');

$c->cluster('stop-node', 3);
$c->wait_until(sub { $c->node_status(3)->{state} eq 'dropped' });
($out, $err, $rc) = verify();
is($rc, 0, 'two of three are equal') or diag("$out\n$err");
like($out, qr/not compared: n3 \(dropped\)/, 'which one was not compared');

done_testing();
