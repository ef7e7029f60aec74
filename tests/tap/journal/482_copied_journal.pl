# A journal that was restored from an old copy while the only node that knows more can't
# be reached: nobody goes on with it before that node has been heard, or the operator has
# taken it out.  After a normal restart, whichever node is there goes on by itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $journal = "$c->{dir}/journal";

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->sql(1, "INSERT INTO t VALUES ($_)") for 1 .. 5;
$c->drain;

# ---------- a normal restart, with one of two nodes

$c->cluster('stop-replicator');
$c->cluster('stop-node', 1);
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 30), 'after a normal restart one of two nodes goes on by itself');
$c->sql(2, 'INSERT INTO t VALUES (6)');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 30), 'after a crash, too');
$c->cluster('stop-replicator');
rename($journal, "$journal.moved") or die;
rename("$journal.moved", $journal) or die;
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 30), 'a directory that was renamed is the same');
$c->cluster('start-node', 1);
ok($c->wait_state(1, 'online', 30), 'and the other comes back');
unlike($c->replicator_log, qr/copied, moved or restored/, 'nothing is said');

# ---------- an old copy, and who knows more is away

$c->keep_old_journal;
$c->cluster('stop-node', 2);
$c->wait_state(2, 'dropped');
$c->sql(1, "INSERT INTO t VALUES ($_)") for 10 .. 15;
$c->cluster('stop-replicator');
$c->cluster('stop-node', 1);
LockstepCluster::copy_tree($journal, "$journal.good");
LockstepCluster::copy_tree("$journal.old", $journal);
$c->cluster('start-node', 2, '--no-wait');
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /waits for node "n1" to be heard, or dropped by command: the journal's directory is a copy/ }, 30),
	'the node that knows less waits for the other') or diag($c->reason(2));
is($c->node_status(2)->{state}, 'catchup', 'it is not online');
$c->replicator_logs(qr/WARNING:.*not the directory in which the journal was written/, 'which the log says');
$c->fails(2, 'INSERT INTO t VALUES (20)', '57P03', qr/not online/, 'it takes no writes');
is($c->sql(2, 'SELECT count(*) FROM t'), 6, 'and is read');
$c->cluster('stop-replicator');
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /waits for node "n1"/ }, 30), 'a restart does not make it forget') or diag($c->reason(2));
$c->cluster('start-node', 1, '--no-wait');
ok($c->wait_until(sub { $c->reason(1) =~ /but the journal ends at/ }, 30), 'when the other comes it is seen that the journal is old') or diag($c->reason(1));
ok($c->wait_until(sub { $c->reason(2) =~ /node "n1" has applied seq/ }, 30), 'and nobody goes on') or diag($c->reason(2));

# ---------- the right one: all are heard, nothing is lost

$c->cluster('stop-replicator');
LockstepCluster::copy_tree("$journal.good", $journal);
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "with the right journal n$_ is online, as all were heard") for 1, 2;
$c->replicator_logs(qr/no node knows more than it: it is used from here on/, 'and the log says so');
$c->sql(2, 'INSERT INTO t VALUES (20)');
$c->same('nothing is lost');
$c->cluster('stop-replicator');
$c->cluster('stop-node', 1);
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 30), 'from then on it is a normal restart');

# ---------- the operator decides

$c->cluster('stop-replicator');
LockstepCluster::copy_tree($journal, "$journal.good");
LockstepCluster::copy_tree("$journal.good", $journal);
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /waits for node "n1"/ }, 30), 'a copy again, and n1 is gone');
my (undef, $err, $rc) = $c->ctl('drop', 'n1');
is($rc, 0, 'the operator says that it is gone for good') or diag($err);
ok($c->wait_state(2, 'online', 30), 'then the other goes on');
$c->sql(2, 'INSERT INTO t VALUES (30)');
$c->cluster('start-node', 1, '--no-wait');
(undef, $err, $rc) = $c->ctl('attach', 'n1');
is($rc, 0, 'it comes back all the same, as the copy was none of an old day') or diag($err);
$c->same('and has everything');

# ---------- a journal of an earlier version does not say where it is

$c->cluster('stop-replicator');
$c->cluster('stop-node', 1);
unlink("$journal/place") or die;
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /waits for node "n1"/ }, 30), 'without that file it could be a copy');
$c->cluster('start-node', 1, '--no-wait');
ok($c->wait_state($_, 'online', 60), "with all nodes n$_ is online") for 1, 2;
ok(-s "$journal/place", 'and it says it from then on');

done_testing;
