# What COMMIT waits for: ordered (nothing), executed (peers can commit it),
# applied (peers have committed it).  DDL is always at least executed.  In
# `ordered` a peer on which the transaction fails is dropped.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, fault => 1);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, u int)');
$c->drain;
my $s = $c->session(1);
my $id = 0;

sub insert
{
	my ($wait) = @_;
	$s->do("SET lockstep.commit_wait = $wait");
	$id++;
	$s->send("INSERT INTO t VALUES ($id)");
	return $id;
}

# The peer stands still before it has executed.
my @pids = $c->apply_pids(2);
kill 'STOP', @pids;
insert('ordered');
ok(!$s->blocked(LockstepCluster::soon(1)), 'ordered: does not wait for a peer that has not executed');
$s->finish;
is($s->error, '', 'ordered: committed');
insert('executed');
ok($s->blocked(0.5), 'executed: waits for it');
kill 'CONT', @pids;
$s->finish;
is($s->error, '', 'executed: committed');
$c->same('ordered and executed');

# The peer has executed and does not commit.
$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
insert('executed');
ok(!$s->blocked(LockstepCluster::soon(1)), 'executed: does not wait for the peer\'s commit');
$s->finish;
insert('applied');
ok($s->blocked(0.5), 'applied: waits for it');
is($c->sql(2, "SELECT count(*) FROM t WHERE id = $id"), 0, 'applied: not yet on the peer');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
$s->finish;
is($s->error, '', 'applied: done');
is($c->sql($_, "SELECT count(*) FROM t WHERE id = $id"), 1, "applied: read your write on n$_") for $c->all;
for my $i (1 .. 50)
{
	my $n = insert('applied');
	$s->finish;
	next if $c->sql(2 + $i % 2, "SELECT count(*) FROM t WHERE id = $n") == 1;
	fail("applied: row $n was not on the peer");
	last;
}
pass('applied: fifty times');
$c->same('executed and applied');

# Per transaction, like synchronous_commit.
$s->do('SET lockstep.commit_wait = executed');
$s->do("BEGIN; SET LOCAL lockstep.commit_wait = ordered; INSERT INTO t VALUES (1000); COMMIT");
is($s->query('SHOW lockstep.commit_wait'), 'executed', 'SET LOCAL holds for the transaction');

# DDL in ordered mode is executed first all the same.
@pids = $c->apply_pids(2);
kill 'STOP', @pids;
$s->do('SET lockstep.commit_wait = ordered');
$s->send('CREATE TABLE d (id int)');
ok($s->blocked(0.5), 'ordered: DDL waits for the peers to execute it');
kill 'CONT', @pids;
$s->finish;
is($s->error, '', 'ordered: DDL committed');
$c->same('DDL');

# Ordered transactions, quickly one after the other, stay in order.
my $script = $c->file('ordered.sql', "\\set id random(1, 30)\nINSERT INTO t VALUES (:id + 5000, 0) ON CONFLICT (id) DO UPDATE SET u = t.u * 3 % 1009 + :client_id;\n");
{
	local $ENV{PGOPTIONS} = '-c lockstep.commit_wait=ordered';
	my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 3, '-t', 100, '--max-tries=10000') } $c->all;
	$_->{handle}->finish for @runs;
	is(LockstepCluster::processed(${ $_->{text} }), 300, 'load in ordered mode') or diag(${ $_->{text} }) for @runs;
}
$c->same('ordered under load');

# What fails on a peer in ordered mode was decided: that node is dropped.
$c->sql_local(3, 'CREATE UNIQUE INDEX planted ON t (u) WHERE u < 0; INSERT INTO t VALUES (-1, -7)');
$c->sql(1, 'SET lockstep.commit_wait = ordered; INSERT INTO t VALUES (9000, -7)');
ok($c->wait_state(3, 'dropped'), 'ordered: a peer on which it fails is dropped');
$c->fails(3, 'INSERT INTO t VALUES (9001)', '57P03', qr/./, 'and refuses writes');
$c->sql(2, 'INSERT INTO t VALUES (9002)');
$c->same('the others go on', nodes => [ 1, 2 ]);
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 9000'), 1, 'the transaction stays committed');

done_testing;
