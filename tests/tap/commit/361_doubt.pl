# A transaction that the cluster commits, but whose own backend could not (it was
# cancelled while it waited for its turn, or lost the replicator): until its node
# has it by apply, another transaction of that node can see the row as it was
# before and change it.  That must wait, or fail, not overwrite.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 30s\nstall_timeout = 30s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i');
$c->drain;

# n1's turn stands: n1 can't apply what comes from n2.
my @apply = $c->apply_pids(1);
kill 'STOP', @apply;
$c->sql(2, q{SET lockstep.commit_wait = ordered; UPDATE t SET v = 7 WHERE id = 9});

# Decided, waiting for its turn, cancelled.
my $first = $c->session(1);
$first->do("SET lockstep.commit_wait = ordered; BEGIN; UPDATE t SET v = v + 50 WHERE id = 1");
$first->send('COMMIT');
$c->wait_until(sub { $c->status->{journal}{last} >= 4 });
ok($first->blocked(0.3), 'a decided transaction waits for its turn');
my $open = $c->session(1);
$open->do("SET lockstep.commit_wait = ordered; BEGIN; UPDATE t SET v = v + 1000 WHERE id = 5");
kill 'INT', $first->pid;
$first->finish(20);
LockstepCluster::is_error($first->error, '08007', qr/committed by the cluster/, 'it is cancelled: its session can\'t commit it');

# Its row lock is gone, its change is not there.
is($c->sql(1, 'SELECT v FROM t WHERE id = 1'), 0, 'its change is not there');
my $second = $c->session(1);
$second->do("SET lockstep.commit_wait = ordered");
$second->send("UPDATE t SET v = v + 1 WHERE id = 1");
ok($second->blocked(0.5), 'who wants to change a row waits');
$open->send("UPDATE t SET v = v + 1 WHERE id = 1; COMMIT");
ok($open->blocked(0.5), 'who had begun to change rows before does, too');
my $temporary = $c->session(1);
$temporary->query('CREATE TEMP TABLE x (a int); INSERT INTO x VALUES (1)');
is($temporary->error, '', 'temporary tables are not concerned');
kill 'CONT', @apply;
$second->finish(20);
is($second->error, '', 'the first goes on');
$open->finish(20);
LockstepCluster::is_error($open->error, '40001', qr/in doubt|in the way/, 'the other fails, as it may have seen the row before');
$c->same('all nodes are equal');
is($c->sql($_, 'SELECT v FROM t WHERE id = 1'), 51, "n$_ has both changes") for $c->all;
$open->query("ROLLBACK");
$open->query("UPDATE t SET v = v + 1 WHERE id = 1");
is($open->error, '', 'the retry succeeds');

# ---------- it lost the replicator

# Who begins afterwards, with whatever, has seen nothing: not even a command fails, be it
# the one that settles the doubt, or of a session that has done something before it began.
for my $settled (0, 1)
{
	my $when = $settled ? 'after the doubt' : 'while there is a doubt';
	my %command = (ddl => 'CREATE TABLE made (id int)', truncate => 'TRUNCATE u', lock => 'BEGIN; LOCK TABLE u; INSERT INTO u VALUES (1); COMMIT',
		index => 'CREATE INDEX CONCURRENTLY u_id ON u (id)', view => 'REFRESH MATERIALIZED VIEW mv', copy => "COPY u FROM PROGRAM 'echo 1'", row => 'INSERT INTO u VALUES (1)');
	for my $kind ($settled ? sort keys %command : qw(ddl truncate index))
	{
		$c->sql(1, 'DROP TABLE IF EXISTS u, made CASCADE; CREATE TABLE u (id int); CREATE MATERIALIZED VIEW mv AS SELECT * FROM u');
		$c->drain;
		my $old = $c->session(1);
		$old->do('INSERT INTO u VALUES (0)');
		$c->drain;
		my $asked = $c->session(1);
		@apply = $c->apply_pids(2);
		kill 'STOP', @apply;
		$asked->send('UPDATE t SET v = v + 1 WHERE id = 2');
		ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }), "$kind: a transaction has asked");
		$c->cluster('kill-replicator');
		kill 'CONT', @apply;
		$asked->finish;
		LockstepCluster::is_error($asked->error, '08007', qr/./, "$kind: its outcome is in doubt");
		$c->cluster('start-replicator');
		ok($c->wait_state($_, 'online', 60), "n$_ is online") for $c->all;
		$c->sql(1, 'INSERT INTO t VALUES (100, 0); DELETE FROM t WHERE id = 100') if $settled;
		$old->query($command{$kind});
		is($old->error, '', "$kind: a session of before goes on $when");
		$_->close for $old, $asked;
	}
}
$c->same('equal after doubts');

done_testing;
