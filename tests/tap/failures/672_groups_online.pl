# A node that is online and lags executes what has gathered for it as one, several
# transactions in a row: all of them arrive, once and in order, whatever happens in the middle: commits are
# held there, a session of the node is in the way, the apply session is killed, or one of them can't be applied.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "apply_connections = 4\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
CREATE TABLE log (id serial PRIMARY KEY, of int);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i;
SQL
$c->drain;

# One transaction each, decided before n2 has executed it.
sub add
{
	my (@ids) = @_;
	return $c->sql(1, join('', 'SET lockstep.commit_wait = ordered;', map { "UPDATE t SET v = v + 1 WHERE id = $_;\n" } @ids));
}
sub grouped { return $c->node_status(2)->{grouped_transactions} }
sub applied { my ($node) = @_; return $c->sql($node, 'SELECT lockstep.applied_seq()') }

# Runs $during while n2 commits nothing, and $then before it goes on.
sub while_held
{
	my ($during, $then) = @_;
	my $holder = $c->session(2);
	$holder->query("SELECT lockstep.hold_commits(NULL, '60s')");
	$during->();
	$then->($holder) if $then;
	$holder->query('SELECT lockstep.release_commits()');
	return $holder->finish;
}

# ---------- all arrive

my $before = grouped();
while_held(sub { add(1 .. 60) });
$c->drain;
cmp_ok(grouped(), '>=', $before + 30, 'most of 60 transactions in a row were executed in groups: ' . (grouped() - $before));
is($c->sql(2, 'SELECT sum(v), count(*) FILTER (WHERE v = 1) FROM t'), '60|60', 'and all are there');
cmp_ok($c->sql(2, 'SELECT count(DISTINCT xmin::text) FROM t WHERE v > 0'), '<', 40, 'by fewer transactions of the server');

# ---------- transactions of the node itself among them

while_held(
	sub {
		add(1 .. 20);
		my @own = map { $c->session(2) } 1 .. 3;
		for my $i (0 .. $#own)
		{
			$own[$i]->send('UPDATE t SET v = v + 1 WHERE id = ' . (90 + $i));
			ok($own[$i]->blocked(1), 'one of its own is decided, and waits for its turn');
			add(21 + 5 * $i .. 25 + 5 * $i);
		}
	});
$c->drain;
is($c->sql(2, 'SELECT sum(v) FROM t'), 98, 'those of the node itself are committed between groups');
$c->same('and the nodes are equal');

# ---------- the same rows again and again, in order

while_held(sub { $c->sql(1, join('', 'SET lockstep.commit_wait = ordered;', map { "UPDATE t SET v = $_ WHERE id = 7;\n" } 1 .. 50)) });
$c->drain;
is($c->sql(2, 'SELECT v FROM t WHERE id = 7'), 50, 'changes of one row are in their order');

# ---------- commits are held in the middle

my $at;
while_held(
	sub { $at = applied(2); add(1 .. 60) },
	sub {
		my ($holder) = @_;
		$holder->query('SELECT lockstep.hold_commits(' . ($at + 30) . ", '60s')");
		ok($c->wait_sql(2, 'SELECT lockstep.applied_seq()', $at + 30, 20), 'held within a group, the node comes up to there');
	});
$c->drain;
$c->same('and then has all of it');

# ---------- a session of the node is in the way

my $local = $c->session(2);
while_held(
	sub {
		add(1 .. 40);
		is($local->query('BEGIN; UPDATE t SET v = -1 WHERE id = 30 RETURNING id'), '30', 'a session of the node changes a row first');
	});
$c->drain;
$local->query('COMMIT');
like($local->error, qr/40001/, 'and loses, as it is in the way of a group');
$local->finish;
$c->same('and the group is there');

# ---------- its apply sessions are killed

for my $round (1 .. 5)
{
	while_held(sub { add(1 .. 40) });
	$c->sql(2, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND state <> 'idle'");
}
$c->drain;
$c->same('exactly once, though apply sessions were killed with groups');

# ---------- one that can't be applied

$c->sql_local(2, 'DELETE FROM t WHERE id = 50');
my ($seq, $v);
while_held(
	sub {
		add(1 .. 49);
		add(50);
		$seq = applied(1);
		$v = $c->sql(1, 'SELECT v FROM t WHERE id = 50') - 1;
		add(51 .. 80);
	});
ok($c->wait_until(sub { $c->reason(2) =~ /could not apply seq $seq:/ }), 'what differs is found') or diag($c->reason(2));
is(applied(2), $seq - 1, 'all before it has been applied, nothing after it');
$c->sql_local(2, "INSERT INTO t VALUES (50, $v)");
ok($c->wait_state(2, 'online', 60), 'mended, the node comes back');
$c->same('and all are equal');

done_testing;
