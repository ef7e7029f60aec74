# Unlogged tables of two databases; a node that cannot apply what comes before its tables are fetched, and is
# repaired; an open transaction that is in the way; who is refused and who waits meanwhile; CREATE
# DATABASE; DROP DATABASE of another one while rows are fetched; two nodes at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, durable => $ENV{LOCKSTEP_LONG}, conf => "max_connections = 200\n");
my $wait = 90;
my $count = 'SELECT count(*) FROM u';

sub missing { my ($node, $db) = @_; $c->sql($node, 'SELECT lockstep.missing_unlogged()', db => $db // 'app') }

ok($c->cluster('make-db', 'second'), 'a database is added');
for my $db (qw(app second))
{
	$c->sql(1, "CREATE UNLOGGED TABLE u (id int PRIMARY KEY, v text); INSERT INTO u SELECT g, '$db ' || g FROM generate_series(1, 500) g;
		CREATE TABLE t (id int PRIMARY KEY)", db => $db);
}
$c->drain;

# ---------- two databases, two nodes

$c->cluster('kill-node', $_) for 2, 3;
$c->sql(1, "UPDATE u SET v = v || '!' WHERE id % 2 = 0", db => 'second');
$c->cluster('start-node', $_, '--no-wait') for 2, 3;
$c->wait_state($_, 'online', $wait) for 2, 3;
for my $node (2, 3)
{
	is(missing($node, $_), 0, "n$node has the rows of $_") for qw(app second);
}
$c->same("two databases: $_", db => $_) for qw(app second);

# ---------- cannot apply

$c->sql_local(2, 'INSERT INTO t VALUES (5)');
$c->cluster('kill-node', 2);
$c->sql(1, "INSERT INTO t VALUES (5); UPDATE u SET v = 'later' WHERE id < 100; DELETE FROM u WHERE id > 400");
$c->cluster('start-node', 2, '--no-wait');
$c->wait_until(sub { $c->reason(2) =~ /could not apply/ }, $wait);
$c->wait_until(sub { my $n = () = $c->node_log(2) =~ /duplicate key/g; $n >= 8 }, $wait);
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND backend_start < now() - interval '4 s' AND query LIKE 'CALL%'") == 0 }, 10),
	'sessions of attempts that have failed end');
is(missing(2), 1, 'a node that cannot apply something lacks its rows');
is($c->sql(2, $count), 0, 'its table is empty');
my ($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'it is repaired') or diag("$out\n$err");
$c->wait_state(2, 'online', $wait);
is(missing($_), 0, "n$_ lacks nothing") for $c->all;
$c->same('after the repair');

# ---------- an open transaction is in the way

my $open = $c->session(1);
$open->query("BEGIN; UPDATE u SET v = 'open' WHERE id = 1");
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
$c->wait_until(sub { $c->replicator_log =~ /n3\] unlogged tables could not be restored in database "app".*timeout/ }, $wait);
ok($c->wait_until(sub { my $n = $c->node_status(3); $n->{state} eq 'catchup' && $n->{reason} =~ /waits for its unlogged tables/ }),
	'a node waits while a transaction that changes such a table is open, and says so') or diag($c->reason(3));
$c->fails(3, "INSERT INTO u VALUES (1000, 'x')", '57P03|55000', qr/./, 'it refuses writes');
$c->sql(2, "UPDATE u SET v = 'by others' WHERE id = 2");
$open->query('COMMIT');
$c->wait_state(3, 'online', $wait);
$c->same('after the open transaction');

# on a node that is not asked for the rows it is not waited for, and loses, as by LOCK TABLE
$open = $c->session(2);
$open->query("BEGIN; UPDATE u SET v = 'open again' WHERE id = 1");
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
$c->wait_state(3, 'online', $wait);
$open->query('COMMIT');
like($open->error, qr/40001/, 'an open transaction elsewhere fails with 40001');
$c->same('after that one');

# ---------- a database made by SQL

$c->sql(1, 'CREATE DATABASE made');
$c->sql(1, 'CREATE UNLOGGED TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 501)', db => 'made');
$c->drain;
$c->cluster('kill-node', 1);
$c->cluster('start-node', 1, '--no-wait');
$c->wait_state(1, 'online', $wait);
$c->same("after a crash: $_", db => $_) for qw(app second made);
is($c->sql($_, $count, db => 'made'), 501, "n$_ has all rows") for $c->all;

# ---------- a database is dropped while the rows of one behind it in the list are fetched

my @behind = qw(slow next last);
for my $db ('dropped', @behind)
{
	$c->sql(1, "CREATE DATABASE $db");
	$c->sql(1, 'CREATE UNLOGGED TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 502)', db => $db);
}
$c->sql(1, 'CREATE ROLE reader LOGIN; GRANT SELECT ON u TO reader', db => 'last');
$c->drain;
$open = $c->session(1, db => 'slow');
$open->query('BEGIN; UPDATE u SET id = 0 WHERE id = 1');
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_until(sub { $c->replicator_log =~ /n3\] its unlogged tables in database "slow" are fetched/ }, $wait), 'the rows of the second of four databases are fetched');
$c->sql(1, 'DROP DATABASE dropped');
$open->query('COMMIT');
is($open->error, '', 'the first is dropped meanwhile');
$c->wait_state(3, 'online', $wait);
is(missing(3, $_), 0, "nothing is missing in $_") for @behind;
$c->same("a database was dropped: $_", db => $_) for @behind;
is($c->sql(3, $count, db => 'last', user => 'reader'), 502, 'and readers wait no longer');

done_testing;
