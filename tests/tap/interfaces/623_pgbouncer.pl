# PgBouncer before HAProxy before the nodes, as docs/beside.md has them: clients in transaction mode go on while all nodes are
# restarted one after the other, while a server is killed, and while the replicator is restarted; what is acknowledged
# is there once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepBalancer;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'there is no haproxy' unless `haproxy -v 2>/dev/null`;
plan skip_all => 'there is no pgbouncer' unless `pgbouncer --version 2>/dev/null`;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my ($http) = LockstepBalancer::ports($c);
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\n";
$c->up;
my $haproxy = LockstepBalancer->haproxy($c);
my $pgbouncer = LockstepBalancer->pgbouncer($c, $haproxy->{writers});
my $port = $pgbouncer->{port};
ok($c->wait_until(sub { $c->psql_says($port, 'app', 'SHOW lockstep.node_name') eq 'n1' }, 20), 'a client gets n1') or diag($haproxy->log, $pgbouncer->log);

my $load = LockstepCounters->new($c, at => $port, writers => 4);
my $since = time;
$load->goes_on($since, 'at first');

sub pauses
{
	my ($what, $most) = @_;
	my $pause = $load->longest_pause($since);
	cmp_ok($pause, '<', $most, "$what: the longest pause was not long");
	diag(sprintf '%s: longest pause %.2f s', $what, $pause);
}

$since = time;
my ($out, $err, $rc) = $c->ctl('restart', '--rolling');
is($rc, 0, 'restart --rolling') or diag($out, $err);
$load->goes_on(time, 'behind it');
pauses('all nodes restarted', 3);

ok($c->wait_until(sub { $c->psql_says($haproxy->{writers}, 'app', 'SHOW lockstep.node_name') eq 'n1' }, 20), 'new sessions get n1 again');
$since = time;
$c->cluster('kill-node', 1);
$load->goes_on(time, 'the server of n1 is killed');
pauses('a server killed', 5);
$c->cluster('start-node', 1);
$c->wait_state(1, 'online');

$since = time;
$c->cluster('restart-replicator');
$load->goes_on(time, 'the replicator is restarted');
pauses('the replicator restarted', 5);

$load->stop_and_compare;
done_testing;
