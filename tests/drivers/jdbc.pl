# pgjdbc writes through one node and reads through the other: JdbcClient.java.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../tap";
use LockstepCluster;
use LockstepDriver;
use Test::More;

my $jar = '/usr/share/java/postgresql.jar';
plan skip_all => 'no Java compiler (tests/setup drivers installs one)' if system('which javac > /dev/null 2>&1') != 0;
plan skip_all => 'no pgjdbc (tests/setup drivers installs it)' unless -e $jar;

my $c = LockstepCluster->new(nodes => 2);
my $classes = "$c->{top}/classes";
mkdir $classes;
is(system('javac', '-cp', $jar, '-d', $classes, "$LockstepDriver::here/JdbcClient.java"), 0, 'JdbcClient.java compiles');
LockstepDriver::run($c, 'pgjdbc', 'java', '-cp', "$jar:$classes", 'JdbcClient');

done_testing;
