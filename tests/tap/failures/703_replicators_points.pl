# The leader of a group dies between any two steps of a transaction, a standby while it takes over, the leader's disk hangs:
# what a client was told is true on all nodes afterwards, and the group goes on.  The points are those of
# replicator/base/points.h.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepPoints;
use Test::More;
use Time::HiRes qw(sleep time);

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 2, replicators => 3, replicator_conf => "journal_segment_size = 64kB\n");
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, what text, v text)');
delete $ENV{LOCKSTEP_POINTS};

sub order { my ($point, $what) = @_; LockstepPoints::write_order("$points/$point", $what) }

sub taken { my ($point) = @_; return $c->wait_until(sub { -e "$points/$point.taken" }, 20) }
sub dead { return grep { !$c->member_pid($_) } $c->replicators }

sub start
{
	local $ENV{LOCKSTEP_POINTS} = "$points";
	$c->cluster('start-replicator', $_) for @_;
}

sub complete
{
	my $done = sub {
		my $l = $c->leader or return 0;
		my $g = $c->group($l);
		return @{ $g->{in_sync} } == 2 && 2 == grep { $_->{state} eq 'standby' } @{ $g->{members} };
	};
	return $c->wait_until($done, 30) && $c->wait_until(sub { !grep { $_->{state} ne 'online' } @{ $c->status->{nodes} // [ {} ] } }, 30);
}

# ---------- the leader dies at each step

my $long = 'x' x 30000;
my %answers;
for my $point (qw(QUESTION RESERVED DECIDED GROUP_TAKEN GROUP_WRITTEN GROUP_DURABLE DURABLE VERDICT_GIVEN COMMITS_GIVEN ANSWERED
	LEASE_ASKED LEASE_DURABLE SEGMENT_BEGUN))
{
	order($point, 'kill');
	my ($at, $error) = (0, '');
	for my $i (1 .. 40)
	{
		my ($out, $err) = $c->try(1, "INSERT INTO t (what, v) VALUES ('$point $i', '$long')");
		$at = $i;
		$error = $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5})/ ? $1 : $err ne '' ? $err : '';
		last if -e "$points/$point.taken";
	}
	ok(-e "$points/$point.taken", "$point is reached");
	unlink "$points/$point.taken";
	$answers{$error || 'done'}++;
	ok($c->wait_until(sub { dead() && $c->leader }, 20), 'another one leads');
	start(dead());
	ok(complete(), 'all are there');
	$c->drain;
	my @there = map { scalar $c->sql($_, "SELECT count(*) FROM t WHERE what = '$point $at'") } 1, 2;
	is($there[0], $there[1], "both nodes have it, or none: $there[0]");
	if ($error eq '') { is($there[0], 1, 'it was acknowledged: it is there') }
	elsif ($error eq '08007') { pass('nobody knows') }
	else { is($there[0], 0, "it has failed ($error): it is not there") }
}
diag(join ', ', map { "$_: $answers{$_}" } sort keys %answers);

# ---------- who takes over dies

for my $point (qw(REPLICAS_TAKEOVER REPLICAS_CHOSEN))
{
	order($point, 'kill');
	my $leader = $c->leader;
	kill('KILL', $c->member_pid($leader));
	my $taker;
	ok(taken($point) && $c->wait_until(sub { ($taker) = grep { $_ != $leader } dead(); defined $taker }, 20), "$point is reached, and who took over is dead");
	unlink "$points/$point.taken";
	sleep 1.5;
	is($c->leader, undef, 'the third one is not in sync, and does not lead');
	start($taker);
	ok($c->wait_until(sub { ($c->leader // 0) == $taker }, 20), 'when it is back, it leads');
	start(dead());
	ok(complete(), 'all are there');
}

# ---------- the leader's disk hangs

my $leader = $c->leader;
order('GROUP_WRITTEN', 'wait');
my $since = time;
my ($out, $err) = $c->try(1, "INSERT INTO t (what) VALUES ('hanging disk')");
my $took = time - $since;
like($err, qr/^$|40001|08007/, 'a write while the disk of the leader hangs');
cmp_ok($took, '<', LockstepCluster::soon(10), sprintf 'has an answer: after %.1f s', $took);
ok($c->wait_until(sub { my $l = $c->leader; $l && $l != $leader }, 20), 'another one leads');
unlink "$points/GROUP_WRITTEN.taken";
ok(complete(), 'the old one follows, when its disk is back');
$c->same('all nodes are equal');
done_testing;
