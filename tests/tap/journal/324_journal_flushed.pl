# The journal is trimmed by what every node has on its disk, not by what it has
# applied: a node that loses its last commits in a crash, as apply sessions commit
# asynchronously, gets them from the journal again, although nothing is kept for
# dropped nodes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "journal_segment_size = 64kB\njournal_keep = 0\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->sql(1, 'INSERT INTO t VALUES (0)');
$c->drain;
# On node 2 WAL is written when it must: full buffers, own commits.
$c->set(2, 'wal_writer_delay', "'10s'");

$c->sql(1, join('', map { "INSERT INTO t VALUES ($_, repeat('x', 1000));\n" } 1 .. 150));
$c->sql(2, 'SELECT pg_switch_wal()');
my $flushed;
for my $more (1 .. 20)
{
	$c->sql(1, join('', map { "INSERT INTO t VALUES (1000 * $more + $_, repeat('y', 1000));\n" } 1 .. 20));
	$c->drain;
	my $n2 = $c->node_status(2);
	$flushed = $n2->{flushed};
	last if $flushed < $n2->{applied};
}
my $last = $c->status->{journal}{last};
is($c->node_status(2)->{applied}, $last, 'everything has been applied');
cmp_ok($flushed, '<', $last, "and not all of it is on the disk of node 2 ($flushed of $last)");
cmp_ok($c->status->{journal}{first}, '<=', $c->node_status(2)->{flushed} + 1, 'the journal has what is not');
$c->cluster('kill-node', 2);
$c->wait_state(2, 'dropped');
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', 60), 'killed, it comes back');
$c->same('and has everything');

# Once it is flushed, it goes.
$c->set(2, 'wal_writer_delay', "'200ms'");
$last = $c->status->{journal}{last};
ok($c->wait_until(sub { $c->node_status(2)->{flushed} >= $last }, 40), 'what was applied is flushed at last');
ok($c->wait_until(sub { $c->status->{journal}{first} > 100 }, 40), 'and the journal is trimmed');
$c->sql(2, "INSERT INTO t VALUES (-1, 'end')");
$c->same('equal at the end');

done_testing;
