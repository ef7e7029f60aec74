# The journal is kept for a dropped node only up to journal_keep: attach is refused
# when it no longer holds what the node lacks, and the others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "journal_segment_size = 64kB\njournal_keep = 256kB\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
$c->ctl('drop', 'n2');
for my $i (1 .. 40)
{
	$c->sql(1, "INSERT INTO t SELECT i, md5(i::text) || repeat('y', 300) FROM generate_series($i * 100, $i * 100 + 99) i");
}
ok($c->wait_until(sub { $c->status->{journal}{first} > 1 }, 120), 'the journal is trimmed');
my (undef, $err, $rc) = $c->ctl('attach', 'n2');
isnt($rc, 0, 'attach is refused when the journal no longer holds what the node lacks');
like($err, qr/journal/, 'and says so');
$c->fails(2, 'INSERT INTO t VALUES (-1)', '57P03', qr/./, 'the node still refuses writes');
$c->sql(1, "INSERT INTO t VALUES (8000, 'alone')");
$c->ctl('drop', 'n2');			# not to be waited for
ok($c->cluster('restart-replicator'), 'the replicator starts with a journal that does not begin at 1');
$c->sql(1, "INSERT INTO t VALUES (8001, 'alone')");

done_testing;
