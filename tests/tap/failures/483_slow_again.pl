# With slow_node = drop a node that is dropped for its lag, comes back and is dropped again is
# tried less and less often.  The status says how often, and when; attach begins anew.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.commit_wait = ordered\n",
	replicator_conf => "max_apply_lag = 1MB\nslow_node = drop\nnode_timeout = 60s\nstall_timeout = 60s\nreconnect_interval = 500ms\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
is($c->node_status(2)->{slow_drops}, 0, 'never slow');
is($c->node_status(2)->{retry_seconds}, undef, 'and nothing to be tried');

my $id = 0;
my $s = $c->session(1);

# Until n2 has been dropped for its lag so often.
sub be_slow
{
	my ($drops) = @_;
	my @held = $c->apply_pids(2);
	kill STOP => @held;
	for (1 .. 1000)
	{
		$s->do("INSERT INTO t VALUES (" . ++$id . ", repeat('x', 20000))", 30);
		last if $id % 20 == 0 && $c->node_status(2)->{slow_drops} == $drops;
	}
	my $status = $c->node_status(2);
	kill CONT => @held;
	return $status;
}

my @pause = (1, 2, 4);
for my $drops (1 .. 3)
{
	my $status = be_slow($drops);
	is($status->{slow_drops}, $drops, "dropped for its lag $drops times");
	my $pause = $pause[$drops - 1];
	my $times = $drops == 1 ? qr/max_apply_lag;/ : qr/max_apply_lag, $drops times without ten minutes of being online between;/;
	like($status->{reason}, qr/lags \d+ transactions \(\d+ MB\) behind, more than $times it is tried again after $pause\.0 s/,
		'it is tried later each time') or diag($status->{reason});
	cmp_ok($status->{retry_seconds}, '<=', $pause, 'in so many seconds') if defined $status->{retry_seconds};
	last if $drops == 3;
	ok($c->wait_state(2, 'online', 60), 'it comes back by itself');
	is($c->node_status(2)->{slow_drops}, $drops, 'which does not make it quick');
}
my (undef, $err, $rc) = $c->ctl('attach', 'n2');
is($rc, 0, 'the operator need not wait') or diag($err);
is($c->node_status(2)->{slow_drops}, 0, 'and it is given the benefit of the doubt');
$s->finish;
$c->same('nothing is lost');

# What ends it otherwise does not count.
$c->cluster('kill-node', 2);
$c->wait_state(2, 'dropped');
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online', 30), 'a crash');
is($c->node_status(2)->{slow_drops}, 0, 'is no slowness');

done_testing;
