# A transaction of rows is one call on a peer, with its COMMIT if it is decided (ordered, catch-up), else
# its COMMIT is a second one.  What it always was is the same: an error in the middle names
# its query, another number of rows is not committed, who is in the way is told which row; and an
# apply session that is killed at each point, or cancelled, leaves the transaction applied once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2, replicator_conf => "reconnect_interval = 200ms\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i;
CREATE TABLE u (id int PRIMARY KEY, v text UNIQUE);
SQL
$c->drain;

my $ordered = "SET lockstep.commit_wait = 'ordered';";
my $executed = "SET lockstep.commit_wait = 'executed';";
sub ten { my ($v) = @_; return 'BEGIN;' . join('', map { "UPDATE t SET v = $v WHERE id = $_;" } 1 .. 10) . 'COMMIT' }

# ---------- commands that apply sessions of node 2 execute

$c->sql_local(2, q{ALTER SYSTEM SET log_statement = 'all'}, db => 'postgres');
$c->sql_local(2, 'SELECT pg_reload_conf()', db => 'postgres');
$c->wait_sql(2, 'SHOW log_statement', 'all');

sub commands
{
	my ($sql) = @_;
	my $from = length $c->node_log(2);
	ref $sql ? $sql->() : $c->sql(1, $sql);
	$c->drain;
	my %n;
	my $log = substr($c->node_log(2), $from);
	$n{$1}++ while $log =~ /execute \w+: (?:CALL|SELECT) lockstep\.(apply_\w+|commit_\w+)\(/g;
	return join(', ', map { "$_ $n{$_}" } sort keys %n);
}

is(commands($executed . ten(1)), 'apply_transaction 1, commit_transaction 1', 'ten rows: executed, and committed');
is(commands($executed . 'UPDATE t SET v = 2 WHERE id = 1'), 'apply_transaction 1, commit_transaction 1', 'one row');
is(commands($ordered . ten(3)), 'apply_transaction 1', 'what is decided first is one call');
is(commands($ordered . 'UPDATE t SET v = 4 WHERE id = 1'), 'apply_transaction 1', 'one row, too');
my $calls = commands(sub {
	$c->ctl('drop', 'n2');
	$c->sql(1, "UPDATE t SET v = v + 1 WHERE id = $_") for 1 .. 5;
	$c->ctl('attach', 'n2');
});
like($calls, qr/^apply_transaction [1-5]$/, 'and what a node has missed');
is(commands($ordered . "BEGIN; INSERT INTO u SELECT i, 'copy ' || i FROM generate_series(1, 20) i; UPDATE t SET v = 5 WHERE id = 1; COMMIT"),
	'apply_begin 1, apply_copy 1, apply_transaction 1', 'a COPY among them: as it was');
$c->same('by one call');

# ---------- in the way

my $b = $c->session(2);
$b->do('BEGIN; UPDATE t SET v = 0 WHERE id = 7');
$c->sql(1, $ordered . ten(6));
# it is decided, and applied there when n2 gets to it
$c->wait_until(sub { $b->query('SELECT 1'); return $b->error ne '' }, 20);
LockstepCluster::is_error($b->error, '40001', qr/query "UPDATE ONLY public\.t SET v = \$1 WHERE id = \$2" on key public\.t t_pkey/, 'who is in the way is told the row');
$b->query('ROLLBACK');
$b->close;
$c->same('who was in the way has gone');

# ---------- canceled when it waits for its COMMIT

$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$c->sql(1, $ordered . 'UPDATE t SET v = 100 WHERE id = 11');
ok($c->wait_until(sub { $c->sql_local(2, q{SELECT bool_or(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND state = 'active' AND backend_xid IS NOT NULL}) eq 't' }),
	'it is canceled in its COMMIT');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
$c->same('it is executed again');
is($c->sql(2, 'SELECT v FROM t WHERE id = 11'), 100, 'by then');

# ---------- errors

# node 2 differs, which a decided transaction finds out; $mend makes it equal
sub refused
{
	my ($name, $spoil, $sql, $mend, $statement, $error) = @_;
	$c->sql_local(2, $spoil);
	$c->sql(1, $ordered . $sql);
	ok($c->wait_until(sub { ($c->node_status(2)->{trouble} // {})->{times} }), "$name: the node is out");
	my $t = $c->node_status(2)->{trouble};
	like($t->{statement} // '', $statement, "$name: the query");
	like("$t->{sqlstate} $t->{error}", $error, "$name: the error");
	is($c->sql_local(2, 'SELECT count(*) FROM t WHERE v = ' . ($sql =~ /(77\d)/)[0]), 0, "$name: nothing of it is there");
	$c->sql_local(2, $mend);
	$c->ctl('attach', 'n2');
	$c->wait_state(2, 'online');
	$c->same("$name: equal afterwards");
}

refused('a duplicate', q{INSERT INTO u VALUES (99, 'taken')},
	q{BEGIN; UPDATE t SET v = 777 WHERE id = 21; INSERT INTO u VALUES (100, 'taken'); UPDATE t SET v = 777 WHERE id = 22; COMMIT},
	'DELETE FROM u WHERE id = 99', qr/INSERT INTO public\.u/, qr/23505 duplicate key/);
refused('a row that is missing', 'DELETE FROM t WHERE id = 30',
	'BEGIN; UPDATE t SET v = 778 WHERE id = 31; UPDATE t SET v = 778 WHERE id = 30; UPDATE t SET v = 778 WHERE id = 32; COMMIT',
	'INSERT INTO t VALUES (30, 0)', qr/UPDATE ONLY public\.t SET v = '778' WHERE id = '30'/, qr/LS003 a query changed 0 rows on node "n2", 1 at its origin/);

# ---------- killed

my $id = 1000;
for my $point (qw(APPLY_EXECUTING APPLY_CLAIMED APPLY_TURN APPLY_COMMITTED APPLY_PASSED))
{
	$id++;
	my $boot = $c->sql(2, 'SELECT boot FROM lockstep.node_info()');
	$c->order_at(2, $point, 'kill');
	$c->sql(1, $ordered . "BEGIN; INSERT INTO t VALUES ($id, 1); UPDATE t SET v = v + 1 WHERE id = 40; COMMIT");
	ok($c->wait_until(sub { $c->was_there(2, $point) }, 10), "killed at $point");
	ok($c->wait_until(sub { ($c->try(2, "SELECT v FROM t WHERE id = $id AND (SELECT boot FROM lockstep.node_info()) <> '$boot'"))[0] eq '1' }, 30),
		"killed at $point: it is applied when the server has started anew");
	$c->wait_state(2, 'online', 30);
	$c->same("killed at $point: equal");
}
is($c->sql(2, 'SELECT v FROM t WHERE id = 40'), 5, 'each is applied once');

$c->down;
done_testing();
