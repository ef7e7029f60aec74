# Servers of two major versions are not nodes of one cluster: the replicator says
# which versions they are, and the other node goes on working.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use LockstepCluster;
use Test::More;

my $other = $ENV{LOCKSTEP_OTHER_PG_CONFIG} // '/usr/lib/postgresql/15/bin/pg_config';
my ($version, $bin, $share) = map { my $v = `$other $_`; chomp $v; $v } ('--version', '--bindir', '--sharedir');
plan skip_all => "no other server" if $version eq '';
plan skip_all => "lockstep is not installed for $version" unless -e "$share/extension/lockstep.control";
my ($major) = $version =~ /(\d+)/;
my $c = LockstepCluster->new(nodes => 2, up => 0);
my ($ours) = `$LockstepCluster::bindir/postgres --version` =~ /(\d+)/;
plan skip_all => "it is of the same version" if $major == $ours;

# ---------- a cluster that begins so

$c->up;
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
my $data = $c->pgdata(2);
$c->cluster('stop-node', 2);
my ($rc, $out) = $c->run_owned('mv', $data, "$data.old");
is($rc, 0, 'the node is put aside') or diag($out);
($rc, $out) = $c->run_owned("$bin/initdb", '-D', $data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync');
is($rc, 0, "initdb of $version") or diag($out);
open(my $file, '>>', "$data/postgresql.conf") or die $!;
print $file "include 'lockstep.conf'\n";
close $file;
$c->run_owned('cp', "$data.old/lockstep.conf", $data);
($rc, $out) = $c->run_owned("$bin/pg_ctl", '-D', $data, '-l', "$data.log", '-w', 'start');
is($rc, 0, 'it starts') or diag($out);
$c->sql($_->[0], $_->[1], db => $_->[2], options => '-c lockstep.replicate=off')
	for [ 2, 'CREATE DATABASE app', 'postgres' ], [ 2, 'CREATE EXTENSION lockstep', 'app' ];

ok($c->wait_until(sub { $c->reason(2) =~ /version/ }), 'the replicator refuses it, and says why');
like($c->reason(2), qr/\b$major\b.*\b$ours\b|\b$ours\b.*\b$major\b/, 'with both versions') or diag($c->reason(2));
isnt($c->node_status(2)->{state}, 'online', 'it is not online');
$c->sql(1, 'INSERT INTO t VALUES (1)');
is($c->sql(1, 'SELECT count(*) FROM t'), 1, 'the other node works');
$c->fails(2, 'CREATE TABLE u (i int)', '57P03|08\w\w\w|55000', qr/./, 'it takes no changes');
$c->run_owned("$bin/pg_ctl", '-D', $data, '-m', 'fast', '-w', 'stop');

done_testing();
