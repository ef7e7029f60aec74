# An older version of the extension's SQL objects is brought up to date while everybody
# works, as docs/operating.md says: one node after the other, dropped, updated, attached. A
# cluster works before, between and after; nothing is lost, the other nodes' clients notice
# nothing; and ALTER EXTENSION ... UPDATE on a node that is online succeeds, and holds nobody
# up.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my ($server) = `$LockstepCluster::bindir/postgres --version` =~ /\s(\d+)/;
plan skip_all => "version 1.0 does not know PostgreSQL $server" if $server > 16;

local $ENV{LOCKSTEP_SQL_VERSION} = '1.0';
my $c = LockstepCluster->new(nodes => 2);
sub version { my ($node) = @_; return $c->sql($node, q{SELECT extversion FROM pg_extension WHERE extname = 'lockstep'}) }
my $latest = $c->sql(1, q{SELECT default_version FROM pg_available_extensions WHERE name = 'lockstep'});
is(version($_), '1.0', "n$_ begins with version 1.0") for $c->all;
cmp_ok($latest, 'gt', '1.0', "the latest is $latest");

$c->sql(1, <<'SQL');
CREATE TABLE t (node text, v int);
CREATE TABLE counter (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO counter SELECT i, 0 FROM generate_series(1, 100) i;
SQL
# What $c->same looks at needs functions that the old version hasn't.
sub rows_are_equal { my ($name) = @_; $c->drain; is($c->content(1), $c->content(2), $name) }
rows_are_equal('a cluster works with the old version');

# ---------- who is in the way yields, with the old version, too

my $in_the_way = $c->session(2);
$in_the_way->do('BEGIN; UPDATE counter SET v = v + 1 WHERE id = 1');
my $start = time;
my (undef, $error) = $c->try(1, 'UPDATE counter SET v = v + 1 WHERE id = 1', timeout => 60);
is($error, '', 'a transaction of another node that asks first is not kept waiting by one that has not asked');
cmp_ok(time - $start, '<', 40, 'not for long');
$in_the_way->query('COMMIT');
LockstepCluster::is_error($in_the_way->error, '40001', qr/./, 'which fails');
rows_are_equal('both nodes have the first one only');

# ---------- what the old version can't is refused, until all nodes have the new one

$c->sql(1, 'CREATE TABLE numbered (id bigint PRIMARY KEY)');
$c->fails(1, 'CREATE SEQUENCE s', '42883', qr/lockstep\.apply_sequence/, 'sequences need the new version on all nodes');

my $no_unlogged = qr/cannot make or change unlogged tables on node "n1" yet.*HINT: .*ALTER EXTENSION lockstep UPDATE/s;
$c->fails(1, $_, '55000', $no_unlogged, $_)
	for 'CREATE UNLOGGED TABLE u (a int)', 'CREATE UNLOGGED TABLE u AS SELECT 1 AS a', 'SELECT 1 AS a INTO UNLOGGED u', 'EXPLAIN ANALYZE CREATE UNLOGGED TABLE u AS SELECT 1 AS a',
	'CREATE SCHEMA us CREATE UNLOGGED TABLE u (a int)', 'ALTER TABLE counter SET UNLOGGED';
$c->sql_local($_, "CREATE UNLOGGED TABLE from_before (a int); INSERT INTO from_before VALUES ($_)") for $c->all;
$c->fails(1, $_, '55000', $no_unlogged, $_) for 'INSERT INTO from_before VALUES (3)', 'DELETE FROM from_before', 'ALTER TABLE from_before SET LOGGED';
$c->sql(1, 'DROP TABLE from_before');

$c->sql(1, <<'SQL');
CREATE TYPE whole;
CREATE FUNCTION whole_in(cstring) RETURNS whole LANGUAGE internal IMMUTABLE STRICT AS 'int8in';
CREATE FUNCTION whole_out(whole) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION whole_receive(internal) RETURNS whole LANGUAGE internal IMMUTABLE STRICT AS 'int8recv';
CREATE FUNCTION whole_send(whole) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int8send';
CREATE TYPE whole (INPUT = whole_in, OUTPUT = whole_out, RECEIVE = whole_receive, SEND = whole_send, LIKE = int8);
CREATE CAST (int8 AS whole) WITHOUT FUNCTION;
CREATE TABLE wholes (id int PRIMARY KEY, w whole);
SQL
my $in_binary = 'INSERT INTO wholes VALUES (1, 4294967303::int8::whole)';
$c->fails(1, $in_binary, '0A000', qr/cannot replicate a value of type whole/, 'nothing travels in binary');

# ---------- load, on both nodes, all the time

my %load = map { $_ => $c->file("load$_.sql", <<"SQL") } $c->all;
\\set id random(1, 100)
BEGIN;
INSERT INTO t (node, v) VALUES ('n$_', :id);
UPDATE counter SET v = v + 1 WHERE id = :id;
COMMIT;
SQL
sub start_load { my ($node) = @_; return $c->pgbench_start($node, '-n', '-f', $load{$node}, '-c', 2, '-T', 600, '--max-tries=10000') }
sub stop_load { my ($it) = @_; $it->{handle}->signal('TERM'); eval { $it->{handle}->finish }; return ${ $it->{text} } }
sub rows_of { my ($node, $of) = @_; return $c->sql($node, "SELECT count(*) FROM t WHERE node = 'n$of'") }
sub goes_on { my ($node) = @_; my $n = rows_of($node, $node); return $c->wait_until(sub { rows_of($node, $node) > $n }, 20) }

my @load = (undef, map { start_load($_) } $c->all);
ok(goes_on($_), "there is load on n$_") for $c->all;

# ---------- on a node that is online

$start = time;
(undef, $error) = $c->try(1, 'ALTER EXTENSION lockstep UPDATE', timeout => 120);
my $took = time - $start;
is($error, '', 'while it is online: it succeeds');
cmp_ok($took, '<', LockstepCluster::soon(25), 'soon');
is(version(1), $latest, 'all of it');
$c->sql(1, 'CREATE UNLOGGED TABLE mixed (id int PRIMARY KEY); INSERT INTO mixed VALUES (1)');
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_class WHERE relname = 'mixed'") && $c->sql(2, 'SELECT count(*) FROM mixed') }, 20), 'an unlogged table arrives at the other node');
is($c->sql(2, "SELECT relpersistence FROM pg_class WHERE relname = 'mixed'"), 'p', 'as an ordinary one, as it could not fetch its rows');
$c->sql(1, 'DROP TABLE mixed');
ok(goes_on($_), "the load on n$_ goes on") for $c->all;
is($c->node_status($_)->{state}, 'online', "n$_ is online still") for $c->all;

# ---------- as documented

for my $node ($c->all)
{
	my $other = 3 - $node;
	is(($c->ctl('drop', "n$node"))[2], 0, "n$node is dropped");
	stop_load($load[$node]);		# its clients can't write
	(undef, $error) = $c->try($node, 'ALTER EXTENSION lockstep UPDATE', timeout => 120);
	unlike($error, qr/ERROR|FATAL/, "n$node: ALTER EXTENSION lockstep UPDATE");
	is(version($node), $latest, "n$node has version $latest");
	ok(goes_on($other), "the load on n$other goes on meanwhile");
	is(($c->ctl('attach', "n$node"))[2], 0, "n$node is attached");
	ok($c->wait_state($node, 'online', 60), "n$node is online again") or diag($c->reason($node));
	$load[$node] = start_load($node);
	ok(goes_on($_), "and the load on n$_ goes on") for $c->all;
}
for my $node ($c->all)
{
	my $text = stop_load($load[$node]);
	unlike($text, qr/aborted|ERROR|FATAL/, "clients of n$node have noticed nothing since") or diag($text);
}
$c->same('nothing is lost');
is($c->sql($_, 'SELECT (SELECT sum(v) FROM counter) = (SELECT count(*) + 1 FROM t)'), 't', "n$_: each transaction is there, as a whole") for $c->all;
my $schema = sub { my ($node) = @_; return $c->sql($node, <<'SQL') };
SELECT classid::regclass, pg_describe_object(classid, objid, objsubid) FROM pg_depend
	WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'lockstep') ORDER BY 1, 2
SQL
is($schema->(1), $schema->(2), 'both have the same objects');
$c->sql(1, "$in_binary; CREATE UNLOGGED TABLE u AS SELECT 1 AS a; ALTER TABLE u SET LOGGED");
$c->sql(1, "CREATE SEQUENCE s; INSERT INTO numbered VALUES (nextval('s'))");
$c->drain;
$c->sql(2, "INSERT INTO numbered VALUES (nextval('s'))");
$c->ctl('drop', 'n1');
$c->sql(2, join('', map { "INSERT INTO t (node) VALUES ('after');\n" } 1 .. 200));
$c->ctl('attach', 'n1');
$c->same('and catch up as ever');
done_testing;
