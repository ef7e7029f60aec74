# With two of three nodes left, and with one, work goes on; with none there is none; and
# whoever comes back first, even one that was away when the last commits were made, has
# them all from the journal.  A node that is cut off from the replicator is read, and
# refuses writes, however many others there are.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "reconnect_interval = 200ms\n", conf => "lockstep.connect_timeout = 2s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;

sub writes { my ($node, $id, $name) = @_; is($c->sql($node, "INSERT INTO t VALUES ($id, 'n$node') RETURNING id"), $id, $name) }

writes($_, $_, "three left: n$_ takes writes") for 1 .. 3;
$c->cluster('kill-node', 3);
$c->wait_state(3, 'dropped');
writes($_, 10 + $_, "two of three left: n$_ takes writes") for 1, 2;
is($c->sql(2, 'SELECT count(*) FROM t'), 5, 'and is read');
$c->cluster('kill-node', 2);
$c->wait_state(2, 'dropped');
writes(1, 21, 'one of three left: it takes writes');
is($c->sql(1, 'SELECT count(*) FROM t'), 6, 'and is read');

# ---------- none, and then one that had missed the most

$c->cluster('kill-node', 1);
$c->wait_state(1, 'dropped');
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'the first to come back is the one that was away longest');
is($c->sql(3, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), '1,2,3,11,12,21', 'it has what the last one left committed alone');
writes(3, 33, 'and takes writes, alone');
$c->cluster('start-node', $_, '--no-wait') for 1, 2;
ok($c->wait_state($_, 'online', 30), "n$_ comes back") for 1, 2;
$c->same('all are equal');

# ---------- cut off

$c->set(2, 'lockstep.replicator', "'127.0.0.1:1'");
$c->fails(2, "INSERT INTO t VALUES (42, 'cut off')", '57P03', qr/replicator/, 'a node that does not reach the replicator refuses writes');
is($c->sql(2, 'SELECT count(*) FROM t'), 7, 'and is read');
writes(1, 41, 'the others go on');
ok($c->wait_sql(2, 'SELECT count(*) FROM t', 8), 'what they commit comes to it as long as the replicator reaches it');

done_testing;
