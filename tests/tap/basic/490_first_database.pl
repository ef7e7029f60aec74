# A cluster as docs/operating.md sets it up: the replicator is started while no database
# is replicated, and the first one is added then.  The first write of each node is taken,
# nobody is dropped, and what the control connection does (heartbeats, who is in the way)
# is done in that database.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "databases = ''\n");
is_deeply($c->status->{databases}, [], 'no database is replicated');
$c->sql(1, 'CREATE EXTENSION lockstep', db => 'postgres');
$c->fails(1, 'CREATE TABLE x (id int)', '55000', qr/database "postgres" is not replicated.*HINT:.*lockstepctl database add/s,
	'one that has the extension, made by hand, is told what to do', db => 'postgres');
my (undef, $err, $rc) = $c->ctl('database', 'add', 'shop');
is($rc, 0, 'the first one is added') or diag($err);

for my $node ($c->all)
{
	my ($out, $e) = $c->try($node, "CREATE TABLE t$node (id int PRIMARY KEY)", db => 'shop');
	is($e, '', "n$node takes its first write");
}
unlike($c->replicator_log, qr/was dropped/, 'no node is dropped');

# Each node hears how far the cluster is, through the control connection.
for my $node ($c->all)
{
	ok($c->wait_until(sub { $c->sql($node, "SELECT lockstep.staleness() < interval '5s'", db => 'shop') eq 't' }), "heartbeats come to n$node");
}

# A transaction of another node that is idle is in the way of DDL: it is found and yields.
my $s = $c->session(2, db => 'shop');
$c->drain;
$s->do("BEGIN; INSERT INTO t1 VALUES (20)");
$c->sql(1, 'ALTER TABLE t1 ADD COLUMN w int', db => 'shop');
$s->query('COMMIT');
like($s->error, qr/40001/, 'who is in the way yields');
unlike($c->replicator_log, qr/could not ask/, 'the replicator asks where it is answered');

# The last one goes, and comes again.
(undef, $err, $rc) = $c->ctl('database', 'drop', 'shop');
is($rc, 0, 'the only database is dropped') or diag($err);
(undef, $err, $rc) = $c->ctl('database', 'add', 'shop');
is($rc, 0, 'and added again') or diag($err);
$c->sql($_, "INSERT INTO t1 VALUES (100 + $_)", db => 'shop') for $c->all;
unlike($c->replicator_log, qr/was dropped|could not ask/, 'no node is dropped');
$c->same('all nodes are equal', db => 'shop');

done_testing;
