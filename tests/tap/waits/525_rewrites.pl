# VACUUM FULL, REINDEX and the like of a whole database come to lockstep.progress, which each transaction changes: where
# such a command waits for a COMMIT that waits for its turn, and the commit whose turn it is waits behind the
# command, the command gives way.  Nor is it in the way of a replicator that starts meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "max_connections = 60\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i');
$c->drain;

my $progress = $c->sql(1, "SELECT 'lockstep.progress'::regclass::oid");

sub decided { return $c->status->{journal}{decided} }

# One is decided, and not committed on n1; the next one waits for its turn there, and the command for that.
sub circle
{
	my ($command) = @_;
	my ($first, $second, $rewrites) = ($c->session(2), $c->session(1), $c->session(1));
	$_->do("UPDATE t SET v = v WHERE id = 10") for $first, $second;
	$first->do('SET lockstep.commit_wait = executed');
	$c->drain;
	my @n3 = $c->apply_pids(3);
	kill 'STOP', @n3;
	my $before = decided();
	$first->send('UPDATE t SET v = v + 1 WHERE id = 1');
	$c->wait_sql(1, "SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND mode = 'RowExclusiveLock'", 't');
	my @n1 = $c->apply_pids(1);
	kill 'STOP', @n1;
	kill 'CONT', @n3;
	ok($c->wait_until(sub { decided() > $before }), "$command: one is decided, and not committed on n1");
	$second->send('UPDATE t SET v = v + 1 WHERE id = 2');
	ok($c->wait_until(sub { decided() > $before + 1 }), 'another one waits for its turn');
	$rewrites->send($command);
	ok($c->wait_until(sub { $c->sql_local(1, "SELECT count(*) FROM pg_locks WHERE relation = $progress AND NOT granted AND mode <> 'RowExclusiveLock'", db => 'postgres') >= 1 }), 'the command waits for that');
	return ($first, $second, $rewrites, @n1);
}

for my $command ('VACUUM FULL lockstep.progress', 'REINDEX TABLE lockstep.progress', 'VACUUM FULL', 'REINDEX DATABASE app')
{
	my ($first, $second, $rewrites, @n1) = circle($command);
	kill 'CONT', @n1;
	for my $s ($first, $second)
	{
		$s->finish(20);
		is($s->error, '', 'it is committed');
	}
	$rewrites->finish(30);
	LockstepCluster::is_error($rewrites->error, '40001', qr/in the way of another one/, 'the command gave way');
	is($c->node_status($_)->{state}, 'online', "n$_ is online") for $c->all;
	$_->close for $first, $second, $rewrites;
}

# What only looks whether the extension is there does not wait behind such a command: the replicator, on its control
# connection, would not learn who is in whose way.
{
	my ($holds, $rewrites) = map { $c->session(1) } 1, 2;
	$holds->do('SET lockstep.replicate = off; BEGIN; LOCK TABLE lockstep.progress IN ROW EXCLUSIVE MODE');
	$rewrites->do('SET lockstep.replicate = off; BEGIN');
	$rewrites->send('LOCK TABLE lockstep.progress IN ACCESS EXCLUSIVE MODE');
	$c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE relation = $progress AND NOT granted", 1);
	my $looks = $c->session(1);
	$looks->do("SET statement_timeout = '5s'");
	is($looks->query("SELECT count(*) FROM lockstep.blockers('{1}')"), 0, 'a session that begins meanwhile asks for blockers') or diag($looks->error);
	is($looks->query("SELECT count(*) FROM t"), 10, 'and reads') or diag($looks->error);
	$holds->do('ROLLBACK');
	$rewrites->finish(20);
	$_->close for $holds, $rewrites, $looks;
	is($c->sql(1, q{CREATE SEQUENCE s; SELECT nextval('s'); SELECT v FROM t WHERE id = 10}), "1\n0", 'and so does each afterwards');
}

my ($first, $second, $rewrites, @n1) = circle('VACUUM FULL');
$c->cluster('kill-replicator');
kill 'CONT', @n1;
$c->cluster('start-replicator', '--no-wait');
for my $s ($first, $second)
{
	$s->finish(40);
	unlike($s->error, qr/ERROR/, 'the replicator is started again: it is committed');
}
$rewrites->finish(40);
ok($c->wait_until(sub { $c->node_status(1)->{state} eq 'online' }, 40), 'and n1 is attached');
$c->drain;
$_->close for $first, $second, $rewrites;
$c->same('equal');
done_testing;
