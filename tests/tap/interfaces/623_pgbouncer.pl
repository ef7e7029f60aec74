# PgBouncer before HAProxy before the nodes, as docs/beside.md has them: clients go on while all nodes are
# restarted one after the other, while a server is killed, and while the replicator is restarted; what is acknowledged
# is there once.  In transaction mode they don't notice a rolling restart that is announced: not one is refused, nor
# loses its connection.  In session mode it costs less than a second.
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

sub pauses
{
	my ($load, $since, $what, $most) = @_;
	my $pause = $load->longest_pause($since);
	cmp_ok($pause, '<', LockstepCluster::soon($most), "$what: the longest pause was not long");
	diag(sprintf '%s: longest pause %.2f s', $what, $pause);
}

sub in_mode
{
	my ($mode) = @_;
	my $c = LockstepCluster->new(nodes => 2, up => 0);
	my ($http) = LockstepBalancer::ports($c);
	$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\n";
	$c->up;
	my $haproxy = LockstepBalancer->haproxy($c);
	my $pgbouncer = LockstepBalancer->pgbouncer($c, $haproxy->{writers}, $mode);
	my $port = $pgbouncer->{port};
	my $at_n1 = sub { $c->psql_says($haproxy->{writers}, 'app', 'SHOW lockstep.node_name') eq 'n1' };
	ok($c->wait_until(sub { $c->psql_says($port, 'app', 'SHOW lockstep.node_name') eq 'n1' }, 20), 'a client gets n1') or diag($haproxy->log, $pgbouncer->log);

	my $load = LockstepCounters->new($c, at => $port, writers => 4);
	my $since = time;
	$load->goes_on($since, 'at first');

	$since = time;
	my ($out, $err, $rc) = $c->ctl('restart', '--rolling', '--announce=1', '--poolers=' . $pgbouncer->reconnect);
	is($rc, 0, 'restart --rolling, announced') or diag($out, $err);
	$load->goes_on(time, 'behind it');
	pauses($load, $since, 'all nodes restarted, announced', 1);
	my %said = $load->said($since);
	is(join(', ', map { "$_: $said{$_}" } grep { $_ !~ /^(?:ok|40001)$/ } sort keys %said), '', 'no client was refused') if $mode eq 'transaction';

	ok($c->wait_until($at_n1, 20), 'new sessions get n1 again');
	$since = time;
	($out, $err, $rc) = $c->ctl('restart', '--rolling');
	is($rc, 0, 'restart --rolling') or diag($out, $err);
	$load->goes_on(time, 'behind it');
	pauses($load, $since, 'all nodes restarted', 3);

	ok($c->wait_until($at_n1, 20), 'new sessions get n1 again');
	$since = time;
	$c->cluster('kill-node', 1);
	$load->goes_on(time, 'the server of n1 is killed');
	pauses($load, $since, 'a server killed', 5);
	$c->cluster('start-node', 1);
	$c->wait_state(1, 'online');

	$since = time;
	$c->cluster('restart-replicator');
	$load->goes_on(time, 'the replicator is restarted');
	pauses($load, $since, 'the replicator restarted', 5);

	# a command that fails: nothing was refused, nothing is left of it
	($out, $err, $rc) = $c->ctl('drain', 'n2', '--announce=1', '--poolers=exit 7');
	is($rc, 1, '--poolers with a command that fails');
	like($err, qr/"exit 7" failed with exit code 7.*the drain was given up: node "n2" takes writes as before/s, '... gives the drain up');
	ok(!$c->node_status(2)->{draining}, '... entirely');

	$load->stop_and_compare;
}

subtest "$_ mode" => sub { in_mode($_) } for qw(transaction session);
done_testing;
