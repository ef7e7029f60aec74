# A group of replicators becomes smaller and larger, 3 to 2 to 3 and 1 to 2 to 1, while clients write on all nodes, and at each step
# one of them is killed: by hand between the steps that docs/replicators.md names, and at the points of replicator/base/points.h at
# which a copy is complete, is waited for, and is said to be in sync.  Nobody leads who lacks something, nothing that
# was acknowledged is lost or doubled, nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use JSON::PP ();
use LockstepCluster;
use LockstepPoints;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

# In 703 and 713 are those of a takeover.
is_deeply([ sort grep { /^REPLICAS_/ } LockstepPoints::points_of('replicator') ],
	[ sort qw(REPLICAS_TAKEOVER REPLICAS_CHOSEN REPLICAS_BEGUN REPLICAS_REQUIRED REPLICAS_CHANGED REPLICAS_COPIED REPLICAS_BODIES REPLICAS_BODY_THERE REPLICAS_BODY_NAMED) ], 'all points of a group are in a test');

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 2, replicators => 3);
my $load = LockstepCounters->new($c);
my %as_it_was = map { $_ => LockstepCluster::_slurp(config($_)) } $c->replicators;
my $longest = 0;

sub config { my ($i) = @_; return "$c->{dir}/replicator" . ($i == 1 ? '' : $i) . '.conf' }
sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub key { return $c->etcd_key }
sub trouble { my ($i) = @_; return $c->group($i)->{trouble} // '' }

sub roles
{
	my $key = key();
	my ($leader) = $key->{leader} =~ /(\d)/;
	my ($synced) = map { /(\d)/ } grep { $_ ne "r$leader" } @{ $key->{in_sync} };
	return ($leader, $synced, grep { $_ != $leader && $_ != ($synced // 0) } $c->replicators);
}

# replicator.conf of these: those are the members, and so many copies.
sub configure
{
	my ($whose, $members, $copies, $min_copies) = @_;
	my %is_member = map { $_ => 1 } @$members;
	for my $i (@$whose)
	{
		my $text = $as_it_was{$i} =~ s/^replicator\.r(\d).*\n/$is_member{$1} ? $& : ''/gmer;
		open(my $f, '>', config($i)) or die $!;
		print $f $text, "copies = $copies\nmin_copies = $min_copies\n";
		close $f;
	}
}

sub order { my ($point) = @_; LockstepPoints::write_order("$points/$point", 'kill') }

# A test: somebody came there, and that one is dead.
sub obeyed
{
	my ($point, $who) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_until(sub { -e "$points/$point.taken" && !$c->member_pid($who) }), "r$who dies at $point");
	unlink "$points/$point.taken";
}

# A test: killed, and started again.
sub killed_and_back
{
	my ($i, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->kill_replicator($i);
	my $since = time;
	$c->start_replicator($i);
	goes_on($since, "$what: r$i is killed, and back");
}

sub goes_on
{
	my ($since, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $gap = $load->goes_on($since, $what);
	diag(sprintf '%.2f s: %s', $gap, $what) if $ENV{LOCKSTEP_LONG};
	$longest = $gap if $gap > $longest;
}

# It may die before it answers.
sub start_to_die
{
	my ($i) = @_;
	system("$LockstepCluster::tests/cluster start-replicator $i --dir $c->{dir} > /dev/null 2>&1");
}

# A test: so many are in sync, and these are there.
sub complete
{
	my ($n, $members, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $g = {};
	ok($c->wait_until(sub { my $l = $c->leader or return 0; $g = $c->group($l);
			@{ $g->{in_sync} // [] } == $n && $g->{trouble} eq '' && @$members == grep { $_->{state} =~ /^(?:leader|standby)$/ } @{ $g->{members} } }, 30), $what)
		or diag(JSON::PP::encode_json($g));
}

complete(2, [ 1 .. 3 ], 'three replicators');

# ---------- from three to two: who is not in sync is removed

my ($leader, $synced, $spare) = roles();
my @two = ($leader, $synced);
configure(\@two, \@two, 2, 2);
killed_and_back($spare, 'two files do not have it any more');
killed_and_back($synced, 'the standby is to read its file');
complete(2, [ 1 .. 3 ], 'the leader still has three');
$c->kill_replicator($spare);
killed_and_back($leader, 'the leader is to read its file');
complete(2, \@two, 'two replicators');

# the one that was removed does not know
$c->start_replicator($spare);
ok($c->wait_until(sub { trouble($spare) =~ /it is not one of the replicators of this one's configuration/ }), "r$spare, which was removed, is refused");

# ---------- from two to three

configure([ 1 .. 3 ], [ 1 .. 3 ], 2, 2);
($leader, $synced) = roles();
system('rm', '-rf', journal($spare)) == 0 or die;	# it is new
killed_and_back($spare, 'three files have it');
killed_and_back($synced, 'the standby is to read its file');
ok($c->wait_until(sub { trouble($spare) =~ /it is not one of/ }), 'the leader does not know it yet');
order('REPLICAS_COPIED');
killed_and_back($leader, 'the leader is to read its file');
obeyed('REPLICAS_COPIED', $spare);
$c->start_replicator($spare);
complete(2, [ 1 .. 3 ], 'three replicators');

# another one is put in sync, and the leader dies before, and after etcd has been told
for my $point (qw(REPLICAS_REQUIRED REPLICAS_CHANGED))
{
	($leader, $synced, $spare) = roles();
	order($point);
	$c->kill_replicator($synced);
	obeyed($point, $leader);
	my $since = time;
	my ($may, $may_not) = $point eq 'REPLICAS_REQUIRED' ? ($synced, $spare) : ($spare, $synced);
	unlike("@{ key()->{in_sync} }", qr/r$may_not/, "by the key r$may may lead, and r$may_not may not");
	$c->start_replicator($synced);
	ok($c->wait_until(sub { key()->{leader} eq "r$may" }), "r$may does, r$may_not does not");
	goes_on($since, 'with it');
	$c->start_replicator($leader);
	complete(2, [ 1 .. 3 ], 'all are there');
}

# ---------- from three to one

($leader, $synced, $spare) = roles();
my @others = ($synced, $spare);
configure([$leader], [$leader], 1, 1);
$c->kill_replicator($_) for @others;
killed_and_back($leader, 'one is left');
complete(1, [$leader], 'the only copy');

# ---------- from one to two

my $other = $spare;
@two = ($leader, $other);
configure(\@two, \@two, 2, 1);
system('rm', '-rf', journal($other)) == 0 or die;
my $since = time;
killed_and_back($leader, 'there are to be two');
order('REPLICAS_COPIED');
start_to_die($other);
obeyed('REPLICAS_COPIED', $other);
goes_on(time, 'with the only copy');

# before etcd knows: only the one that there was may lead
order('REPLICAS_REQUIRED');
start_to_die($other);
obeyed('REPLICAS_REQUIRED', $leader);
ok($c->wait_until(sub { trouble($other) =~ /which is not in sync, does not take its place/ }), "r$other is not in sync: it does not lead");
is_deeply(key()->{in_sync}, ["r$leader"], 'by the key there is one copy');
$since = time;
order('REPLICAS_CHANGED');
start_to_die($leader);

# when etcd knows: the other one may
obeyed('REPLICAS_CHANGED', $leader);
$since = time;
ok($c->wait_until(sub { key()->{leader} eq "r$other" }), "r$other is in sync: it leads");
goes_on($since, 'with one copy');
$c->start_replicator($leader);
complete(2, \@two, 'two replicators');

# ---------- from two to one

($leader, $other) = roles();
order('REPLICAS_CHANGED');
$c->kill_replicator($other);
obeyed('REPLICAS_CHANGED', $leader);
is_deeply(key()->{in_sync}, ["r$leader"], "r$other is killed, etcd knows that it is not in sync, and r$leader dies");
$c->start_replicator($other);
ok($c->wait_until(sub { trouble($other) =~ /which is not in sync, does not take its place/ }), "r$other does not lead");
$since = time;
$c->start_replicator($leader);
goes_on($since, "r$leader is back");
complete(2, \@two, 'two replicators');
configure([$leader], [$leader], 1, 1);
$c->kill_replicator($other);
killed_and_back($leader, 'one is left');
complete(1, [$leader], 'the only copy');

# ---------- and all again, for the journals at the end

configure([ 1 .. 3 ], [ 1 .. 3 ], 2, 2);
$c->start_replicator($_) for grep { !$c->member_pid($_) } $c->replicators;
$since = time;
$c->kill_replicator($leader, 'TERM');
$c->start_replicator($leader);
goes_on($since, 'there are to be three');
for my $i (grep { $_ != $leader } $c->replicators)
{
	$c->kill_replicator($i, 'TERM');
	$c->start_replicator($i);
}
complete(2, [ 1 .. 3 ], 'three replicators');
$load->stop_and_compare;
diag(sprintf 'from when the one that was missing is started, to the first commit: at most %.2f s', $longest);
done_testing;
