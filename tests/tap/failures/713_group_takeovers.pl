# Takeovers of a group of replicators in which all three are in sync.  Without load: who takes over dies before anything of its
# generation is on disk, another one takes over, and clients ask for the outcome of a COMMIT that was under way, in between;
# the journal's end has nothing but values of sequences that were handed out.  Under load: a standby's disk is slow, and
# hangs; the leader's hangs; one hangs while it would take over, and after it has.  Nothing that was acknowledged is lost
# or doubled, no outcome is told and then another one, no value is handed out twice; nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepPoints;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time usleep);

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 2, replicators => 3, disk => 1, replicator_conf => "copies = 3\n",
	conf => "lockstep.failover_wait = 60s\n");	# a busy machine leaves no COMMIT in doubt

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub key { return $c->etcd_key }
sub dead { return grep { !$c->member_pid($_) } $c->replicators }
sub others { my ($i) = @_; return grep { $_ != $i } $c->replicators }
sub in_sync { return join ' ', sort @{ key()->{in_sync} } }

sub order { my ($point, $what) = @_; LockstepPoints::write_order("$points/$point", $what) }

# A test: somebody came there; if it was to be killed, it has been.
sub obeyed
{
	my ($point, $n) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_until(sub { -e "$points/$point.taken" && dead() == ($n // dead()) }), "$point is reached");
	unlink "$points/$point.taken" if defined $n;
}

sub complete
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->start_replicator($_) for dead();
	ok($c->wait_copies(3, 30), "$what: all are in sync");
	ok($c->wait_until(sub { !grep { $_->{state} ne 'online' } @{ $c->status->{nodes} // [ {} ] } }, 30), 'and all nodes are online');
}

# How the disk of a replicator is, until this is called without it.
sub disk
{
	my ($i, $how, $text) = @_;
	unlink glob(journal($i) . '/disk_*');
	return unless $how;
	open(my $f, '>', journal($i) . "/disk_$how") or die $!;
	print $f $text // '';
	close $f;
}

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
complete('three replicators');

# ---------- the first one that takes over dies, its generation has no record; the outcome is asked for in between

my $id = 0;
my %points = (GROUP_WRITTEN => 'the standbys do not have it', GROUP_DURABLE => 'all have it');
for my $leader_dies (qw(GROUP_WRITTEN GROUP_DURABLE))
{
	for my $taker_dies (qw(REPLICAS_TAKEOVER REPLICAS_CHOSEN REPLICAS_BEGUN))
	{
		my $epoch = key()->{epoch};
		my $s = $c->session(1);
		$id++;
		$s->do('BEGIN');
		my $token = $s->query('SELECT lockstep.transaction_token()');
		$s->do("INSERT INTO t VALUES ($id, '$leader_dies')");
		order($leader_dies, 'kill');
		order($taker_dies, 'kill');
		$s->send('COMMIT');
		obeyed($leader_dies, 2);
		my $since = time;
		my $what = "a COMMIT is under way ($points{$leader_dies}), the leader dies, then who takes over ($taker_dies)";
		ok(-e "$points/$taker_dies.taken", $what);
		unlink "$points/$taker_dies.taken";

		# nobody can know
		my $asks = $c->session(2);
		$asks->send("SELECT lockstep.outcome('$token')");
		my ($third) = grep { $c->member_pid($_) } $c->replicators;
		ok($c->wait_until(sub { key()->{leader} eq "r$third" }), "the third one, r$third, takes over");
		ok(key()->{epoch} > $epoch, 'in a later epoch');
		$c->start_replicator((dead())[0]);
		ok($c->wait_until(sub { ($c->leader // 0) == $third }), 'it leads when another one is there');
		my $told = $asks->finish(30);
		like($told . $asks->error, qr/^committed$|^aborted$|^in progress$|57P03/, 'who had asked meanwhile is told the truth, or that nobody knows: ' . ($told || '57P03'));
		complete('then');
		$s->finish(30);
		my $fate;
		ok($c->wait_until(sub { $fate = $c->try(2, "SELECT lockstep.outcome('$token')"); $fate =~ /^(?:committed|aborted)$/ }), "the outcome: $fate");
		is($c->sql(1, "SELECT lockstep.outcome('$token')"), $fate, 'on all nodes');
		is($told, $fate, 'as was told before') if $told =~ /^(?:committed|aborted)$/;
		is($fate, 'committed', 'what all had is committed') if $leader_dies eq 'GROUP_DURABLE';
		$c->drain;
		is(join(' ', $c->sql_everywhere("SELECT count(*) FROM t WHERE id = $id")), $fate eq 'committed' ? '1 1' : '0 0', 'and is true');
		like($s->error, $fate eq 'committed' ? qr/^$|08007/ : qr/40001|08007/, 'its client was not told otherwise: ' . ($s->error =~ /(?:ERROR|FATAL):\s+(\w{5})/ ? $1 : 'done'));
		$_->close for $s, $asks;
	}
}

# ---------- nothing but values of a sequence in the journal's end

$c->sql(1, 'CREATE SEQUENCE s; CREATE TABLE drawn (v bigint, node int)');
for my $point (qw(LEASE_DURABLE GROUP_WRITTEN GROUP_DURABLE))
{
	$c->drain;
	$c->sql(1, "CREATE SEQUENCE s_$point");
	my $draw = sub { my ($node) = @_; return split /\n/, $c->sql($node, "SELECT nextval('s_$point') FROM generate_series(1, 50)") };
	my @drawn = $draw->(1);
	order($point, 'kill');
	my ($out, $err) = $c->try(2, "SELECT nextval('s_$point') FROM generate_series(1, 50)");
	push @drawn, split /\n/, $out;
	obeyed($point, 1);
	ok($c->wait_leader, "the leader dies with values that were handed out, at $point: another one leads");
	complete('then');
	push @drawn, map { $draw->($_) } 1, 2, 1, 2;
	my %seen;
	$seen{$_}++ for @drawn;
	is(join(' ', grep { $seen{$_} > 1 } keys %seen), '', scalar(@drawn) . ' values on both nodes, each once');
}

# ---------- the disk of a standby is slow, and hangs

my $load = LockstepCounters->new($c);
$load->goes_on(time, 'under load');
my $leader = $c->leader;
my $epoch = key()->{epoch};
my ($bad, $good) = others($leader);
my $since = time;
disk($bad, 'is_slow', 250);
my $slow = time;
ok($c->wait_until(sub { $load->acknowledged($slow) >= 6 }, 30), "each sync of r$bad takes 250 ms: commits go on");
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(3), sprintf 'slowly: longest pause %.2f s', $load->longest_pause($since));
is("$epoch r$leader", join(' ', @{ key() }{qw(epoch leader)}), 'nothing has changed');
disk($bad);
$since = time;
disk($bad, 'stands_still');
ok($c->wait_until(sub { in_sync() !~ /r$bad/ }), "the disk of r$bad hangs: it is not in sync any more");
$load->goes_on(time, 'without it');
diag(sprintf 'the disk of a standby hangs: longest pause %.2f s', $load->longest_pause($since));
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(3), 'soon');
is("$epoch r$leader", join(' ', @{ key() }{qw(epoch leader)}), 'the leader is the same');

# writers do not wait again and again for one that is too slow to be put in sync
disk($bad, 'is_slow', 1200);
ok($c->wait_until(sub { $c->member_log($leader) =~ /replicator "r$bad" is not put in sync: it did not have everything on its disk within/ }, 30), 'its disk is slow: it is not put in sync');
$since = time;
usleep(50_000) while time < $since + 5;
my $waited = $load->longest_pause($since);
cmp_ok($waited, '<', 0.8, sprintf 'and writers do not wait for it: %.2f s', $waited);
disk($bad);
complete('it is good again');

# ---------- it hangs while it is to take over: what it has written and not synced, it has not promised

($bad, $good) = others($leader);
disk($bad, 'stands_still');
usleep(50_000) until $load->longest_pause(time - 1) > 0.2;	# the leader waits for it
$c->kill_replicator($leader);
$since = time;
# changing the key needs no disk: if r$bad had nothing to sync just then it is chosen first, and gets no further
ok($c->wait_until(sub { key()->{leader} eq "r$good" }), "the leader is killed: r$good takes over, as the disk of r$bad hangs");
$c->start_replicator($leader);
$load->goes_on($since, 'with it');
diag(sprintf 'the leader dies, the disk of a standby hangs: longest pause %.2f s', $load->longest_pause($since));
$epoch = key()->{epoch};
disk($bad);
complete('it is good again');
is(key()->{epoch}, $epoch, 'that changes nothing');

# ---------- it hangs when it has been chosen

$leader = $c->leader;
order('REPLICAS_CHOSEN', 'wait');
$c->kill_replicator($leader);
$since = time;
obeyed('REPLICAS_CHOSEN');
my ($chosen) = key()->{leader} =~ /(\d)/;
($good) = grep { $_ != $leader && $_ != $chosen } $c->replicators;
disk($chosen, 'stands_still');
unlink "$points/REPLICAS_CHOSEN.taken";
ok($c->wait_until(sub { key()->{leader} eq "r$good" }), "r$chosen has been chosen, and its disk hangs: r$good takes over from it");
$c->start_replicator($leader);
my $gap = $load->goes_on($since, 'with it');
diag(sprintf 'the leader dies, the disk of the next one hangs: gap %.2f s', $gap);
$epoch = key()->{epoch};
disk($chosen);
complete('its disk is good again');
is(join(' ', @{ key() }{qw(epoch leader)}), "$epoch r$good", "r$chosen does not lead any more");

# ---------- the leader's disk hangs

$leader = $c->leader;
$epoch = key()->{epoch};
$since = time;
disk($leader, 'stands_still');
ok($c->wait_until(sub { key()->{leader} ne "r$leader" }), "the leader's disk hangs: another one takes over");
$gap = $load->goes_on($since, 'with it');
diag(sprintf 'the disk of the leader hangs: gap %.2f s, longest pause %.2f s', $gap, $load->longest_pause($since));
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(5), 'soon');
disk($leader);
complete('its disk is good again');
cmp_ok(key()->{epoch}, '<=', $epoch + 2, 'nobody leads by turns');

$load->stop_and_compare;
done_testing;
