# How lockstepctl verify --repair treats materialized views and several databases; and when
# somebody ends in the middle of it: lockstepctl by a signal, the replicator, the node.
# What is repaired is whole or not at all, and nobody is left out unsaid.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IPC::Run ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

sub verify { return $c->ctl('verify', @_) }

my @dbs = ('app', 'second');
$c->cluster('make-db', 'second') or die;
for my $db (@dbs)
{
	$c->sql(1, <<'SQL', db => $db);
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'value ' || i FROM generate_series(1, 500) i;
CREATE MATERIALIZED VIEW mv AS SELECT id, v FROM t WHERE id <= 100;
CREATE UNIQUE INDEX ON mv (id);
CREATE MATERIALIZED VIEW few AS SELECT count(*) AS n FROM t;
CREATE MATERIALIZED VIEW stale AS SELECT id, v FROM t WHERE id <= 5;
UPDATE t SET v = 'newer' WHERE id <= 5;
CREATE SEQUENCE s;
SQL
}
$c->same("before: $_", db => $_) for @dbs;

# ---------- views and databases

# Views of n2 have what was never there; "stale" has on all nodes what its query does not give.
my $plant = <<'SQL';
BEGIN;
UPDATE t SET v = 'other' WHERE id % 10 = 0;
DELETE FROM t WHERE id = 17;
REFRESH MATERIALIZED VIEW mv;
REFRESH MATERIALIZED VIEW few;
REFRESH MATERIALIZED VIEW stale;
INSERT INTO t VALUES (17, 'value 17');
UPDATE t SET v = 'value ' || id WHERE id % 10 = 0;
COMMIT;
SQL
$c->sql_local(2, $plant, db => $_) for @dbs;
$c->sql_local(2, "SELECT setval('s', 99)", db => 'second');		# in one: verify gives each database's ten seconds
my ($out, $err, $rc) = verify('--repair', 'n2');
is($rc, 0, 'views in two databases are repaired') or diag("$out\n$err");
like($out, qr/^repaired: database second: sequence public\.s$/m, 'and the sequence');
for my $db (@dbs)
{
	like($out, qr/^repaired: database $db: rows of public\.mv: 15 removed, 16 added$/m, "a view in $db");
	like($out, qr/^repaired: database $db: rows of public\.few: 1 removed, 1 added$/m, "one without a key in $db");
	like($out, qr/^repaired: database $db: rows of public\.stale: 5 removed, 5 added$/m, "in $db one that was not refreshed gets what the others have");
	unlike($out, qr/^repaired: database $db: rows of public\.t\b/m, "the table needs nothing in $db");
	$c->same("the same: $db", db => $db);
	is($c->sql(2, "SET enable_seqscan = off; SELECT v FROM mv WHERE id = 10", db => $db), 'value 10', "its index in $db, too");
}
$c->sql(2, 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv; REFRESH MATERIALIZED VIEW stale', db => 'second');
$c->same('the views can be refreshed as ever', db => 'second');

# The second database can't be repaired: the first is, or nothing is.
$c->sql_local(2, 'UPDATE t SET v = NULL WHERE id = 1');
$c->sql_local(2, 'UPDATE t SET v = NULL WHERE id = 1; ALTER TABLE t ADD extra int', db => 'second');
($out, $err, $rc) = verify('--repair', 'n2');
is($rc, 2, 'another schema in one database: nothing is repaired') or diag("$out\n$err");
is($c->sql(2, 'SELECT v IS NULL FROM t WHERE id = 1'), 't', 'in the other neither');
is($c->node_status(2)->{state}, 'online', 'the node stays in');
$c->sql_local(2, 'ALTER TABLE t DROP extra', db => 'second');
($out, $err, $rc) = verify('--repair', 'n2', '--database', 'second');
is($rc, 0, 'one database alone') or diag("$out\n$err");
is($c->sql(2, 'SELECT v IS NULL FROM t WHERE id = 1'), 't', 'is what was asked for');
($out, $err, $rc) = verify('--repair', 'n2');
is($rc, 0, 'then the other') or diag("$out\n$err");

# ---------- in the middle of it

# lockstepctl, held in the second of the two databases by a session on n3 that does not yield.
sub begin_repair
{
	my $lock = $c->session(3, db => 'second');
	$c->sql_local(3, 'UPDATE t SET v = NULL WHERE id = 2', db => $_) for @dbs;
	$lock->query('SET lockstep.replicate = off; BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE');
	kill 'STOP', $lock->pid;
	my %h = (out => '', err => '', lock => $lock);
	$h{handle} = IPC::Run::start([ "$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, 'verify', '--repair', 'n3' ],
		'<', \undef, '>', \$h{out}, '2>', \$h{err});
	$c->wait_sql(3, 'SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted ' .
		"AND application_name = 'lockstepctl'", 1, 60) or die('the repair is not held');
	is($c->node_status(3)->{state}, 'dropped', 'the node is out while it is repaired');
	is($c->sql(3, 'SELECT v FROM t WHERE id = 2'), 'newer', 'the first database is done');
	return \%h;
}

sub go_on
{
	my ($h) = @_;
	kill 'CONT', $h->{lock}->pid;
	$h->{lock}->query('ROLLBACK');
}

# Out, unchanged, said; and repaired by doing it again.
sub again
{
	my ($how) = @_;
	$c->wait_sql(3, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstepctl'", 0);
	is($c->sql(3, 'SELECT v IS NULL FROM t WHERE id = 2', db => 'second'), 't', "$how: the second database is as it was");
	is($c->node_status(3)->{state}, 'dropped', "$how: the node is out");
	my (undef, $e, $r) = $c->ctl('attach', 'n3');
	is($r, 0, "$how: and comes back by command") or diag($e);
	($out, $err, $rc) = verify('--repair', 'n3');
	is($rc, 0, "$how: repaired in the end") or diag("$out\n$err");
	$c->same("$how: equal, $_", db => $_) for @dbs;
}

my $h = begin_repair();
$h->{handle}->signal('TERM');
$h->{handle}->finish;
like($h->{err}, qr/Node n3 may still be out: see "lockstepctl status", then "lockstepctl attach n3"/, 'ended by a signal: it says who is out');
go_on($h);
again('lockstepctl ended');

$h = begin_repair();
$c->cluster('kill-replicator');
go_on($h);
$h->{handle}->finish;
is($h->{handle}->result, 3, 'without a replicator it ends') or diag("$h->{out}\n$h->{err}");
like($h->{err}, qr/could not (?:connect to|receive from) the replicator.*Node n3 may still be out/s, 'and says who is out');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1, 2;
is($c->node_status(3)->{state}, 'dropped', 'the replicator remembers that the node is out');
is($c->sql(3, 'SELECT v FROM t WHERE id = 2', db => 'second'), 'newer', 'it was repaired all the same');
$c->sql(1, "INSERT INTO t VALUES (1000, 'meanwhile')", db => $_) for @dbs;
$c->ctl('attach', 'n3');
ok($c->wait_state(3, 'online', 60), 'and comes back by command');
$c->same("equal: $_", db => $_) for @dbs;

$h = begin_repair();
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "a replicator that restarts: n$_ is online") for 1, 2;
$c->sql(1, "INSERT INTO t VALUES (1001, 'meanwhile')", db => $_) for @dbs;
go_on($h);
$h->{handle}->finish;
is($h->{handle}->result || 0, 0, 'the repair goes on') or diag("$h->{out}\n$h->{err}");
is($c->node_status(3)->{state}, 'online', 'and the node is in');
$c->same("equal: $_", db => $_) for @dbs;

$h = begin_repair();
$c->cluster('kill-node', 3);
$h->{handle}->finish;
is($h->{handle}->result, 2, 'the node dies: not done') or diag("$h->{out}\n$h->{err}");
like($h->{err}, qr/node n3/, 'and says so');
is($c->node_status(3)->{state}, 'dropped', 'the node is out');
$c->sql(1, "INSERT INTO t VALUES (1002, 'meanwhile')", db => $_) for @dbs;
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 60), 'it comes back by itself');
is($c->sql(3, 'SELECT v IS NULL FROM t WHERE id = 2', db => 'second'), 't', 'as it was');
($out, $err, $rc) = verify('--repair', 'n3');
is($rc, 0, 'and is repaired in the end') or diag("$out\n$err");
$c->same("equal: $_", db => $_) for @dbs;

done_testing;
