# A group of replicators with an etcd of three members, while clients write on all nodes: one member of etcd is killed; etcd's
# leader and the replicator that leads are killed together; most of etcd is gone, and comes back.  Commits go on without etcd, nobody leads
# without most of it, a failover waits for it and no longer.  Nothing that was acknowledged is lost or doubled, nodes and
# journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, replicators => 3, etcds => 3);
my $load = LockstepCounters->new($c);
my @etcds = 1 .. 3;

sub trouble { my ($i) = @_; return $c->group($i)->{trouble} // '' }
sub kill_etcd { my ($i) = @_; my $pid = $c->etcd_pid($i); kill 'KILL', $pid or die "e$i does not run" }
sub start_etcd { $c->cluster('start-etcd', $_) or die "e$_ does not start" for grep { !$c->etcd_pid($_) } @etcds }
sub etcd_leader { my $l; $c->wait_until(sub { defined($l = $c->etcd_leader) }) or die 'etcd has no leader'; return $l }

$load->goes_on(time, 'three replicators, three members of etcd');
ok($c->wait_copies(2), 'two are in sync');
my $leader = $c->leader;
my $epoch = $c->group($leader)->{epoch};

# ---------- one member of etcd is gone: nothing changes

for my $which ('its leader', 'a follower')
{
	my $etcd = etcd_leader();
	$etcd = $etcd % 3 + 1 if $which ne 'its leader';
	my $since = time;
	kill_etcd($etcd);
	$load->goes_on($since, "one of etcd, $which, is killed");
	# etcd chooses another one, and the key can be changed
	$c->kill_replicator($leader);
	$since = time;
	my $next = $c->wait_leader($leader);
	ok($next, 'the leader is killed: another one leads') or last;
	my $gap = $load->goes_on($since, 'with two of etcd');
	diag(sprintf 'with one of etcd gone (%s): gap %.2f s', $which, $gap);
	$c->start_replicator($leader);
	start_etcd();
	ok($c->wait_copies(2), 'all are there');
	$leader = $next;
}

# ---------- the leaders of both are killed at the same time

my @gaps;
for my $round (1 .. ($ENV{LOCKSTEP_LONG} ? 10 : 2))
{
	my $etcd = etcd_leader();
	$leader = $c->leader;
	kill_etcd($etcd);
	kill 'KILL', $c->member_pid($leader);
	my $since = time;
	my $next = $c->wait_leader($leader);
	ok($next, "e$etcd and r$leader, which both led, are killed: another one leads");
	push @gaps, $load->goes_on($since, 'with it');
	start_etcd();
	$c->start_replicator($leader);
	ok($c->wait_copies(2), 'all are there');
}
@gaps = sort { $a <=> $b } @gaps;
diag(sprintf 'both leaders killed: gaps %s s', join ', ', map { sprintf '%.2f', $_ } @gaps);
cmp_ok($gaps[-1], '<', LockstepCluster::soon(3), 'the longest gap is below 3 s');

# ---------- most of etcd is gone: commits go on, nobody can lead

$leader = $c->leader;
$epoch = $c->group($leader)->{epoch};
my @gone = (etcd_leader(), etcd_leader() % 3 + 1);
my $since = time;
kill_etcd($_) for @gone;
ok($c->wait_until(sub { trouble($leader) =~ /could not read etcd's key/ }), 'most of etcd is gone: the leader says so');
$load->goes_on(time, 'without most of etcd');
is($c->leader, $leader, 'the leader is the same');
diag(sprintf 'most of etcd gone: longest pause %.2f s', $load->longest_pause($since));
my ($synced) = grep { $_ != $leader && $c->group($leader)->{members}[ $_ - 1 ]{in_sync} } $c->replicators;
my ($spare) = grep { $_ != $leader && $_ != $synced } $c->replicators;
$c->kill_replicator($spare);
$load->goes_on(time, 'a standby that is not in sync is killed');
$c->start_replicator($spare);
ok($c->wait_until(sub { trouble($spare) =~ /could not read etcd's key/ }), 'it says what it waits for when it is back');

# the leader dies meanwhile
$c->kill_replicator($leader);
$since = time;
ok($c->wait_until(sub { trouble($synced) =~ /could not read etcd's key/ }), "r$leader is killed, too: r$synced says what it waits for");
is($c->leader, undef, 'and does not lead');
is(scalar($load->acknowledged($since)), 0, 'nothing is acknowledged');
# one more: enough of etcd
$c->cluster('start-etcd', $gone[0]);
my $back = time;
is($c->wait_leader($leader), $synced, "two of etcd are there: r$synced leads");
$load->goes_on($back, 'with it');
diag(sprintf 'without a leader for as long as most of etcd was gone; then %.2f s', ($load->acknowledged($back))[0][1] - $back);
is($c->group($synced)->{epoch}, $epoch + 1, 'in the next epoch');
start_etcd();
$c->start_replicator($leader);
ok($c->wait_copies(2), 'all are there');

# ---------- all of etcd is frozen while the leader changes who is in sync

$leader = $c->leader;
($synced) = grep { $_ != $leader && $c->group($leader)->{members}[ $_ - 1 ]{in_sync} } $c->replicators;
($spare) = grep { $_ != $leader && $_ != $synced } $c->replicators;
kill 'STOP', map { $c->etcd_pid($_) } @etcds;
$c->kill_replicator($synced);
ok($c->wait_until(sub { trouble($leader) =~ /writers wait|could not read etcd's key/ }), 'etcd hangs and the standby in sync is killed: the leader says so');
ok($c->wait_until(sub { my $now = time; select(undef, undef, undef, 0.5); !$load->acknowledged($now) }), 'nothing is acknowledged without it');
$since = time;
kill 'CONT', map { $c->etcd_pid($_) } @etcds;
my $gap = $load->goes_on($since, 'etcd answers again');
diag(sprintf 'etcd back after it hung: %.2f s', $gap);
is($c->leader, $leader, 'the leader is the same');
is_deeply([ sort @{ $c->group($leader)->{in_sync} } ], [ sort "r$leader", "r$spare" ], "r$spare is in sync in its place");
$c->start_replicator($synced);
ok($c->wait_copies(2), 'all are there');
$load->stop_and_compare;
done_testing;
