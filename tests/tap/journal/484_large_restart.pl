# What the replicator reads at its start: the queries of a large transaction once, for the
# keys and for the positions of sequences, both of which it knows afterwards.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "transaction_memory = 64kB\njournal_keep = 1GB\n");
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, v text)');
$c->sql(1, "INSERT INTO t (v) SELECT repeat(md5(i::text), 100) FROM generate_series(1, 10000) i");
$c->sql(1, "BEGIN; INSERT INTO t (v) SELECT repeat('y', 1000) FROM generate_series(1, 200); ALTER SEQUENCE t_id_seq RESTART 50000; COMMIT");
$c->drain;
my $bytes = 0;
$bytes += -s $_ for glob("$c->{dir}/journal/*.body");
my $segments = 0;
$segments += -s $_ for glob("$c->{dir}/journal/*.journal");
cmp_ok($bytes, '>', 20e6, "large transactions are in files of their own ($bytes bytes)");
$c->cluster('stop-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for $c->all;
my ($read) = LockstepCluster::_slurp('/proc/' . $c->replicator_pid . '/io') =~ /^rchar: (\d+)/m;
cmp_ok($read, '>=', $bytes, "it has read them ($read bytes)");
cmp_ok($read, '<', 1.5 * $bytes + 4 * $segments + 4e6, 'once');

# What it has read counts.
is($c->sql(2, "INSERT INTO t (v) VALUES ('z') RETURNING id >= 50000"), 't', 'the position of the sequence is known');
$c->same('all are equal');

done_testing;
