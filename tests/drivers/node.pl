# node-postgres writes through one node and reads through the other: node_client.js.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../tap";
use LockstepCluster;
use LockstepDriver;
use Test::More;

$ENV{NODE_PATH} = join ':', "$LockstepDriver::here/../results/drivers/node_modules", '/usr/share/nodejs';
plan skip_all => 'no Node.js (tests/setup drivers installs it)' if system('which node > /dev/null 2>&1') != 0;
plan skip_all => 'no node-postgres (tests/setup drivers installs it)' if system(q{node -e 'require("pg")' 2> /dev/null}) != 0;

my $c = LockstepCluster->new(nodes => 2);
LockstepDriver::run($c, 'node-postgres', 'node', "$LockstepDriver::here/node_client.js");

done_testing;
