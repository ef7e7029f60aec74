# An apply session that outlives its connection - it waits in its COMMIT when its node is
# dropped, and does not notice - and holds a row that the node needs to catch up: it is
# ended, and the node comes back.  Left alone it would wait for the seq that the new
# session has claimed, and that one for the row.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1, conf => "lockstep.commit_wait = executed\n", replicator_conf => "node_timeout = 4s\nstall_timeout = 4s\nreconnect_interval = 200ms\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)');
$c->drain;
$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$c->sql(1, 'UPDATE t SET v = v + 1');
my $waits = "application_name = 'lockstep apply' AND state = 'active'";
ok($c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE $waits", 1), 'an apply session waits in its COMMIT');
my $orphan = $c->sql(2, "SELECT pid FROM pg_stat_activity WHERE $waits");
ok($c->wait_until(sub { $c->replicator_log =~ /n2\] node was dropped/ }, 30), 'its node is dropped');
ok($c->wait_until(sub { ($c->try(2, "SELECT count(*) FROM pg_stat_activity WHERE $waits AND pid <> $orphan"))[0] eq '1' }, 30),
	'a new session does the same again');
ok($c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE pid = $orphan", 0, 20), 'the old one, in its way, is ended');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
ok($c->wait_state(2, 'online', 30), 'the node comes back');
$c->same('with what was committed, once');

# ---------- one that executes and commits in one call

$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
$c->sql(1, "SET lockstep.commit_wait = ordered; UPDATE t SET v = v + 1");
ok($c->wait_until(sub { $c->replicator_log =~ /n2\] node was dropped: has not committed seq \d+.*n2\] node was dropped: has not committed seq/s }, 30),
	'a node that does not come to its commit is dropped, too');
$c->set(2, 'lockstep_fault.apply_commit', "'none'");
ok($c->wait_state(2, 'online', 30), 'it comes back');
$c->same('with that, once');

done_testing;
