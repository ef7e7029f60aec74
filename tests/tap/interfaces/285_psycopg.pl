# The driver psycopg 3 writes through one node and reads through the other:
# ../drivers/psycopg_client.py.  The other drivers: make check-drivers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../../drivers";
use LockstepCluster;
use LockstepDriver;
use Test::More;

my $python = '/usr/bin/python3';
plan skip_all => 'no psycopg 3 (tests/setup installs it)' if system("$python -c 'import psycopg' 2> /dev/null") != 0;

my $c = LockstepCluster->new(nodes => 2, conf => "max_prepared_transactions = 2\n");
LockstepDriver::run($c, 'psycopg', $python, "$LockstepDriver::here/psycopg_client.py");

done_testing;
