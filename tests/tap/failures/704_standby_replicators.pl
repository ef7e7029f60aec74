# Members of a group of replicators that hang, are gone, or come back without their disk, while clients write on all
# nodes: a standby, both standbys, the leader.  Nobody leads who lacks something, writers go on by themselves, nothing
# that was acknowledged is lost or doubled, and nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = LockstepCluster->new(nodes => 3, replicators => 3);
my $load = LockstepCounters->new($c);

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub lose_disk { my ($i) = @_; system('rm', '-rf', journal($i)) == 0 or die "rm: $?" }
sub of_group { my ($leader, $i) = @_; return (grep { $_->{name} eq "r$i" } @{ $c->group($leader)->{members} })[0] }

# The standby that is in sync, and the other one.
sub standbys
{
	my $leader = $c->leader;
	my %in_sync = map { s/^r//r => 1 } @{ $c->group($leader)->{in_sync} };
	return sort { ($in_sync{$b} // 0) <=> ($in_sync{$a} // 0) } grep { $_ != $leader } $c->replicators;
}

# What one of them has logged since then.
sub logged { my ($i, $from) = @_; return substr($c->member_log($i), $from) }

$load->goes_on(time, 'three replicators');
ok($c->wait_copies(2), 'two are in sync');

# ---------- the standby that is in sync hangs

my $leader = $c->leader;
my ($synced, $spare) = standbys();
$c->freeze_replicator($synced);
my $since = time;
$load->goes_on($since, "r$synced, which is in sync, hangs");
is_deeply([ sort @{ $c->group($leader)->{in_sync} } ], [ sort "r$leader", "r$spare" ], "r$spare is in sync in its place");
ok(!of_group($leader, $synced)->{in_sync}, "r$synced is not");
$c->thaw_replicator($synced);
ok($c->wait_copies(2), 'it gets what it lacks');
is($c->leader, $leader, 'the leader is the same');

# ---------- both standbys are gone

my @both = standbys();
$c->kill_replicator($_) for @both;
ok($c->wait_until(sub { ($c->group($leader)->{trouble} // '') =~ /writers wait: too few replicators have the journal \(min_copies\)/ }), 'writers wait, it is said');
$since = time;
my ($status) = $c->member_ctl($leader, 'replicators');
like($status, qr/^r$_ +not connected/m, "r$_ is named") for @both;
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COMMIT%' AND state = 'active' AND now() - query_start > '1s'") >= 1 }), 'a COMMIT waits for a second');
is(scalar($load->acknowledged($since)), 0, 'nothing is acknowledged with one copy');
$c->start_replicator($both[1]);
$load->goes_on($since, "r$both[1] is back");
$c->start_replicator($both[0]);
ok($c->wait_copies(2), "and r$both[0]");
is($c->leader, $leader, 'the leader is the same');

# ---------- the standby that is in sync loses its disk

($synced, $spare) = standbys();
my $from = length $c->member_log($synced);
$c->kill_replicator($synced);
$since = time;
lose_disk($synced);
$c->start_replicator($synced);
my $taken_out = 0;
my $too_early = 0;
ok($c->wait_until(
	sub {
		my $m = of_group($leader, $synced) or return 0;
		$taken_out ||= !$m->{in_sync};
		$too_early++ if $taken_out && $m->{in_sync} && $m->{state} eq 'copying';
		return $m->{state} eq 'standby';
	}, 30), "r$synced has lost its disk, and is a standby again");
is($too_early, 0, 'it was not put in sync before it had everything');
like(logged($synced, $from), qr/the journal is copied from the beginning/, 'it copied everything');
$load->goes_on($since, 'meanwhile');
ok($c->wait_copies(2), 'all are there');
is($c->leader, $leader, 'the leader is the same');

# ---------- the leader loses its disk

$from = length $c->member_log($leader);
$c->kill_replicator($leader);
$since = time;
lose_disk($leader);
$c->start_replicator($leader);
my $next = $c->wait_leader($leader);
ok($next, "the leader has lost its disk: r" . ($next // '?') . ' leads');
$load->goes_on($since, 'with it');
ok($c->wait_copies(2), 'all are there');
unlike(logged($leader, $from), qr/this replicator leads from now on/, "r$leader did not lead in between");
like(logged($leader, $from), qr/the journal is copied from the beginning/, 'it copied everything');
is($c->leader, $next, "r$next still leads");

# ---------- the leader and the one in sync die, and only that one is started again

$leader = $next;
($synced, $spare) = standbys();
kill 'KILL', map { $c->member_pid($_) } $leader, $synced;	# at once: none takes the place of the other
ok($c->wait_until(sub { !grep { $c->member_pid($_) } $leader, $synced }), 'the leader and the one in sync are dead');
$from = length $c->member_log($synced);
$c->start_replicator($synced);
$since = time;
is($c->wait_leader($leader, 30), $synced, "r$synced is started while r$leader, which led, is gone: it leads");
$load->goes_on($since, 'with it');
my ($started, $led) = map { logged($synced, $from) =~ /^\S+ (\d+):(\d+):(\S+) .*$_/m ? $1 * 3600 + $2 * 60 + $3 : undef } 'replicator \S+ starting', 'this replicator leads from now on';
ok(defined $started && defined $led && ($led - $started) % 86400 < LockstepCluster::soon(3), 'without the time that one gets which may be opening its journal') or diag(logged($synced, $from));
diag(sprintf 'it leads %.1f s after its start', $led - $started);
$c->start_replicator($leader);
ok($c->wait_copies(2), 'all are there');
$next = $synced;

# ---------- the leader hangs, with an end of the journal that nobody else has

$leader = $next;
($synced, $spare) = standbys();
$c->kill_replicator($_) for $synced, $spare;
ok($c->wait_until(sub { ($c->group($leader)->{trouble} // '') =~ /writers wait/ }), 'the standbys are gone, writers wait');
$c->freeze_replicator($leader);
my $frozen = time;
my $old = LockstepCluster::_slurp((glob(journal($leader) . '/*.journal'))[-1]) =~ s/\0+\z//r;
my $alone = index(LockstepCluster::_slurp((glob(journal($synced) . '/*.journal'))[-1]), $old) != 0;	# else it was killed before it had said so
$c->start_replicator($_) for $synced, $spare;
$next = $c->wait_leader($leader, 30);
is($next, $synced, "r$leader is stopped: r$synced leads, which was in sync");
my $gap = $load->goes_on($frozen, 'with it');
sleep 0.05 while time < $frozen + 10;
$from = length $c->member_log($leader);
$c->thaw_replicator($leader);
$since = time;
ok($c->wait_until(sub { ($c->group($leader)->{role} // '') eq 'standby' }), "after 10 s r$leader goes on, and follows");
ok($c->wait_copies(2), 'all are there');
$load->goes_on($since, 'with all');
is($c->leader, $next, "r$next still leads");
my $new = LockstepCluster::_slurp((glob(journal($leader) . '/*.journal'))[-1]);
is(substr($new, 0, length $old) eq $old ? 'there' : 'gone', $alone ? 'gone' : 'there', $alone ? 'the end that nobody else had is gone' : 'its end, which the other one had, is there');
like(logged($leader, $from), qr/this replicator does not lead any more|another replicator has taken the place of this one/,
	'etcd or a node has told it that it does not lead any more');

# ---------- told to stop while another one takes its place: it stops, and does not start again as a standby

for my $when ('hangs', 'hands over', 'hangs', 'hands over')
{
	$leader = $c->leader;
	my $pid = $c->member_pid($leader);
	$c->freeze_replicator($leader) if $when eq 'hangs';
	kill 'TERM', $pid;
	$since = time;
	ok($c->wait_leader($leader, 30), "r$leader is told to stop as it $when: another one leads");
	$c->thaw_replicator($leader) if $when eq 'hangs';
	ok($c->wait_until(sub { !defined $c->member_pid($leader) }), '... and it stops') or kill 'KILL', $pid;
	ok(!-e "$c->{dir}/replicator" . ($leader == 1 ? '' : $leader) . '.pid', '... and has removed its pid file');
	$c->start_replicator($leader);
	ok($c->wait_copies(2), '... started again it follows');
	$load->goes_on($since, '... writes go on');
}

$load->stop_and_compare;
done_testing;
