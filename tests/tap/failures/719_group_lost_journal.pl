# Two replicators, both in sync, min_copies = 2, while clients write on all nodes: the standby's disk is lost, or its journal
# is damaged.  It is in sync by etcd's key, and nobody can take its place: it gets the journal anew all the same.  Nothing is
# acknowledged before it has everything, it does not lead before that even if the leader dies, and nothing is lost.  With
# min_copies = 1 nobody waits for that copy.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(sleep time);

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 2, replicators => 2);
my $load = LockstepCounters->new($c);

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub in_sync { my ($leader) = @_; return join ' ', sort @{ $c->group($leader)->{in_sync} // [] } }

# At the point at which a standby has everything, and has not noted that.
sub order
{
	my ($what) = @_;
	open(my $f, '>', "$points/order.new") or die;
	print $f "$what\n";
	close $f;
	chmod 0666, "$points/order.new";
	rename("$points/order.new", "$points/REPLICAS_COPIED") or die;
}
sub reached { return -e "$points/REPLICAS_COPIED.taken" }

# It dies, and is started without its journal.
sub lose_disk
{
	my ($i) = @_;
	$c->kill_replicator($i);
	system('rm', '-rf', journal($i)) == 0 or die "rm: $?";
	$c->start_replicator($i);
}

$load->goes_on(time, 'two replicators');
ok($c->wait_copies(2), 'both are in sync');
my $leader = $c->leader;
my ($standby) = grep { $_ != $leader } $c->replicators;

# ---------- its disk is lost

order('wait');
my $killed = time;
lose_disk($standby);
ok($c->wait_until(\&reached), "r$standby, which is in sync, has lost its disk: it is copied anew");
ok($c->wait_until(sub { ($c->group($leader)->{trouble} // '') =~ /^replicator "r$standby", which is in sync, has come back without its journal: writers wait until it has a copy$/ }), 'the leader says what writers wait for')
	or diag($c->group($leader)->{trouble});
is(in_sync($leader), 'r1 r2', 'it is in sync by the key still');
my $since = time;
sleep 1;
is(scalar($load->acknowledged($since)), 0, 'nothing is acknowledged before it has noted that it has everything');
unlink "$points/REPLICAS_COPIED.taken";
$load->goes_on($killed, 'then writers go on');
ok($c->wait_copies(2), 'both are in sync');
is($c->leader, $leader, 'the leader is the same');

# ---------- ... and the leader dies before it has everything

order('wait');
lose_disk($standby);
ok($c->wait_until(\&reached), "r$standby has lost its disk again, and is copied");
$c->kill_replicator($standby);
unlink "$points/REPLICAS_COPIED.taken";
$killed = time;
$c->kill_replicator($leader);
$c->start_replicator($standby);
ok($c->wait_until(sub { ($c->group($standby)->{trouble} // '') =~ /cannot be followed: .*; this one, whose journal is incomplete, does not take its place/ }), "both die: r$standby, without a complete copy, waits for r$leader");
is($c->leader, undef, 'and does not lead');
$c->start_replicator($leader);
$load->goes_on($killed, "r$leader is back");
ok($c->wait_copies(2), 'both are in sync');
is($c->leader, $leader, 'the leader is the same');

# ---------- its journal is damaged

$c->kill_replicator($standby);
my ($segment) = sort glob(journal($standby) . '/*.journal');
open(my $f, '+<', $segment) or die $!;
seek($f, 200, 0);
print $f "\xff" x 20;
close $f;
$since = time;
$c->start_replicator($standby);
$load->goes_on($since, "r$standby has a damaged journal");
ok($c->wait_copies(2), 'both are in sync');
like($c->member_log($standby), qr/it cannot be used, and is copied anew/, 'it was copied anew');

# ---------- min_copies = 1: nobody waits for the copy

for my $i ($c->replicators)
{
	open(my $conf, '>>', "$c->{dir}/replicator" . ($i == 1 ? '' : $i) . '.conf') or die $!;
	print $conf "min_copies = 1\n";
	close $conf;
}
for my $i ($standby, $leader)
{
	$c->kill_replicator($i, 'TERM');
	$c->start_replicator($i);
	ok($c->wait_copies(2), "r$i is restarted with min_copies = 1");
}
$leader = $c->leader;
($standby) = grep { $_ != $leader } $c->replicators;
order('wait');
lose_disk($standby);
ok($c->wait_until(\&reached), "r$standby has lost its disk, and is copied");
$since = time;
$load->goes_on($since, 'meanwhile');
is(in_sync($leader), "r$leader", 'it is not in sync any more');
unlink "$points/REPLICAS_COPIED.taken";
ok($c->wait_copies(2), 'until it has everything');

$load->stop_and_compare;
done_testing;
