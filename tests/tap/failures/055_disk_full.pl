# A peer whose disk is full is dropped, the others go on; it comes back when
# there is space again.  Needs root for a small file system of its own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

plan skip_all => 'needs root, for mount' if $> != 0;

my $c = LockstepCluster->new(nodes => 3);
my $space = "/tmp/lockstep-space-$$";
mkdir $space;
if (system("mount -t tmpfs -o size=6m tmpfs $space 2>/dev/null") != 0)
{
	plan skip_all => 'mount is not permitted here';
}
system("mkdir $space/t && chown -R postgres: $space") == 0 or die;

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;

# The table of n3, and it alone, moves to the small disk.
my $file = $c->sql(3, "SELECT pg_relation_filepath('t')");
$c->cluster('stop-node', 3);
my $data = $c->pgdata(3);
system("mv $data/$file $space/t/ && ln -s $space/t/" . ($file =~ s!.*/!!r) . " $data/$file && chown -h postgres: $data/$file") == 0 or die;
$c->cluster('start-node', 3);
$c->wait_state(3, 'online');

for my $i (1 .. 20)
{
	$c->sql(1, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series($i * 1000, $i * 1000 + 999) i", timeout => 30);
	last if $c->node_status(3)->{state} ne 'online';
}
isnt($c->node_status(3)->{state}, 'online', 'a node whose disk is full does not stay online');
$c->sql(2, "INSERT INTO t VALUES (1, 'after')");
pass('the others go on');
$c->replicator_logs(qr/No space left|53100/, 'the log says why');

system("mount -o remount,size=200m $space") == 0 or die;
$c->ctl('attach', 'n3') if !$c->wait_state(3, 'online', 3);
ok($c->wait_state(3, 'online'), 'it comes back when there is space');
$c->same('and has everything');

END { my $rc = $?; $c->down if $c; system("umount $space && rmdir $space") if $space && -d "$space/t"; $? = $rc }

done_testing;
