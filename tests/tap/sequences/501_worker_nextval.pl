# A background worker of a module that the server loads at its start calls nextval in its own code, as pg_cron's
# does, which never passes through SQL: it gets values of the cluster.  Both nodes have such a worker; each numbers five
# rows of one table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1, conf => "lockstep_fault.numbers_in = 'app'\n");
$c->sql(1, 'CREATE TABLE numbered (n bigserial PRIMARY KEY, node text DEFAULT current_setting(\'port\'))');
ok($c->wait_sql($_, 'SELECT count(*) FROM numbered', 10, 120), "n$_: both workers have numbered their rows") for $c->all;
is($c->sql(1, 'SELECT count(*), count(DISTINCT node) FROM numbered'), '10|2', 'none was refused, and both nodes numbered some');
for my $node ($c->all)
{
	unlike($c->node_log($node), qr/duplicate key/, "n$node: no number was given out twice");
}
$c->drain;
$c->same('the nodes are equal');
done_testing();
