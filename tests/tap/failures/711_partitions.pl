# Partial partitions of a group of replicators, while clients write on all nodes: cables between single replicators, to etcd
# and to the nodes swallow everything.  Commits go on where they should, nobody leads by turns (epochs are counted), and a leader that was
# cut off decides nothing and answers nothing that the new one contradicts: no causal read, no outcome(), no read within
# lockstep.max_staleness on a node that only it reaches.  Nothing that was acknowledged is lost or doubled, nodes and journals
# are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../../soak";
use GroupCables;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 3, replicators => 3, conf => "lockstep.replicator_timeout = 3s\n");
my $cables = GroupCables->new($c);
my $load = LockstepCounters->new($c);
$c->sql(1, 'CREATE TABLE rare (id text PRIMARY KEY)');	# no conflicts there
# as long as what is tried again takes, at the most
my $watch = $ENV{LOCKSTEP_LONG} ? 15 : 1.5;
my $watch_cold = $ENV{LOCKSTEP_LONG} ? 15 : 4;

sub trouble { my ($i) = @_; return $c->group($i)->{trouble} // '' }
sub key { return $c->etcd_key }

# The one that leads, the one that is in sync, and the third.
sub roles
{
	my $key = key();
	my ($leader) = $key->{leader} =~ /(\d)/;
	my ($synced) = map { /(\d)/ } grep { $_ ne "r$leader" } @{ $key->{in_sync} };
	return ($leader, $synced, grep { $_ != $leader && $_ != $synced } $c->replicators);
}

# A test: so many epochs since then at most, and none any more.
sub settles
{
	my ($epoch, $most, $what, $seconds) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $last = key()->{epoch};
	cmp_ok($last, '<=', $epoch + $most, "$what: " . ($last - $epoch) . ' changes of the leader');
	my ($end, $more) = (time + ($seconds // $watch), 0);
	while (time < $end)
	{
		$more++ if key()->{epoch} != $last;
		$last = key()->{epoch};
		usleep(50_000);
	}
	is($more, 0, "$what: nobody leads by turns");
}

sub whole
{
	$cables->heal;
	ok($c->wait_copies(2, 30), 'the cables are whole again, all are there');
	ok($c->wait_state($_, 'online', 30), "n$_ is online") for $c->all;
}

# The longest pause of writers on any of these nodes since then.
sub gap { my ($since, $what) = @_; diag(sprintf '%s: longest pause %.2f s', $what, $load->longest_pause($since)) }

$load->goes_on(time, 'three replicators');

# ---------- between the leader and the standby that is not in sync

my ($leader, $synced, $spare) = roles();
my $epoch = key()->{epoch};
my $since = time;
$cables->cut("r$leader", "r$spare");
ok($c->wait_until(sub { trouble($spare) =~ /r$leader.*cannot be followed/ }), "r$leader and r$spare, which is not in sync, do not reach each other: it says so");
settles($epoch, 0, 'leader and spare', $watch_cold);
$load->goes_on(time, 'meanwhile');
gap($since, 'leader and spare');
whole();

# ---------- between the leader and the one that is in sync

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
$since = time;
$cables->cut("r$leader", "r$synced");
ok($c->wait_until(sub { key()->{epoch} > $epoch || "@{ key()->{in_sync} }" !~ /r$synced/ }), "r$leader and r$synced, which is in sync, do not reach each other: another one takes a place");
$load->goes_on(time, 'meanwhile');
settles($epoch, 1, 'leader and standby in sync', 2);
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(4), 'soon');
gap($since, 'leader and standby in sync');
is(scalar(grep { ($c->group($_)->{role} // '') eq 'leader' } $c->replicators), 1, 'one leads');
whole();
is(key()->{epoch} - $epoch <= 1, 1, 'that changes nothing');

# ---------- between the two standbys: they have nothing to say to each other

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
$since = time;
$cables->cut("r$synced", "r$spare");
settles($epoch, 0, 'standbys');
$c->kill_replicator($leader);
$since = time;
ok($c->wait_until(sub { key()->{leader} eq "r$synced" }), 'the leader is killed: the one that was in sync is to lead');
ok($c->wait_until(sub { trouble($synced) =~ /writers wait/ }), 'and has no copy, as it does not reach the other one');
is(scalar($load->acknowledged($since)), 0, 'with one copy nothing is acknowledged');
$c->start_replicator($leader);
$load->goes_on(time, "r$leader is back");
whole();

# ---------- the leader from etcd only

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
$since = time;
$cables->cut("r$leader", 'etcd');
ok($c->wait_until(sub { trouble($leader) =~ /could not read etcd's key/ }), 'the leader is cut off from etcd: it says so');
for my $to ([], ["r$synced"])
{
	my (undef, $err, $rc) = $c->member_ctl($leader, 'switchover', @$to);
	isnt($rc, 0, 'it does not hand over');
	like($err, qr/etcd does not answer, so no other replicator could lead.*lockstepctl stop/s, 'and says why');
}
settles($epoch, 0, 'from etcd');
$load->goes_on(time, 'meanwhile');
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(2), 'commits go on');
gap($since, 'leader from etcd');
# a standby that is restarted follows it
$c->kill_replicator($synced);
$c->start_replicator($synced);
$since = time;
$load->goes_on($since, "r$synced has been restarted");
is(key()->{epoch}, $epoch, 'the epoch is the same');
whole();

# ---------- the leader from the standbys, but neither from the nodes nor from etcd

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
$cables->isolate("r$leader", "r$synced", "r$spare");
$since = time;
is($c->wait_leader($leader), $synced, 'the leader is cut off from the standbys: the one that was in sync leads');
my $gap = $load->goes_on($since, 'with it');
cmp_ok($gap, '<', LockstepCluster::soon(3), 'soon');
gap($since, 'leader from the standbys');
settles($epoch, 1, 'from the standbys');
ok($c->wait_until(sub { ($c->group($leader)->{role} // '') eq 'standby' }), 'it does not lead any more');
whole();

# ---------- the leader from the nodes, but neither from the standbys nor from etcd

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
my @at = map { length $c->member_log($_) } 0 .. 3;
$cables->isolate("r$leader", map { "n$_" } $c->all);
$since = time;
ok($c->wait_until(sub { key()->{leader} eq "r$synced" }), "r$leader reaches no node: it hands over to r$synced, which does");
$gap = $load->goes_on($since, 'with it');
diag(sprintf 'leader from the nodes: gap %.2f s', $gap);
diag(sprintf("cut at %.3f
", $since), map { "r$_:
" . substr($c->member_log($_), $at[$_]) } $leader, $synced) if $gap > 3.5;
cmp_ok($gap, '<', LockstepCluster::soon(8), 'soon');
$c->member_logs($leader, qr/this replicator reaches no node, and another one does, which is to lead/, 'its log says so');
settles($epoch, 1, 'from the nodes', 3);
whole();

# no node can be reached from anywhere: nobody is to lead instead
($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
for my $i ($c->replicators) { $cables->isolate("r$i", map { "n$_" } $c->all) }
$since = time;
settles($epoch, 0, 'all nodes from all replicators', 3);
whole();
$load->goes_on(time, 'with the nodes');

# ---------- the leader and a node from all else: the node hears only one that does not lead any more

($leader, $synced, $spare) = roles();
$epoch = key()->{epoch};
my @far = (1, 2);
my $near = 3;
my $reader = $c->session($near);
$reader->do('SELECT count(*) FROM counter');
my $causal = $c->session($near);
$causal->do('SET lockstep.causal_reads = on; SELECT count(*) FROM counter');
my $before = $c->session($near);
$before->do("BEGIN; INSERT INTO rare VALUES ('near')");
my $near_token = $before->query('SELECT lockstep.transaction_token()');
$cables->isolate("r$leader", 'etcd', "r$synced", "r$spare", map { "n$_" } @far);
$cables->isolate("n$near", "r$synced", "r$spare");
$since = time;
ok($c->wait_until(sub { ($c->group($synced)->{role} // '') eq 'leader' }), "r$leader and n$near are cut off from all else: r$synced leads");
$gap = $load->goes_on($since, 'with it', @far);
diag(sprintf 'a leader and a node are lost without a word: gap %.2f s', $gap);
cmp_ok($gap, '<', LockstepCluster::soon(4), 'soon');

# what the new leader decides is unknown there
my $s = $c->session($far[0]);
$s->do('BEGIN');
my $token = $s->query('SELECT lockstep.transaction_token()');
$s->do("INSERT INTO rare VALUES ('far'); COMMIT");
is($c->sql($far[1], "SELECT lockstep.outcome('$token')"), 'committed', 'a transaction is committed by the new leader');
is(($c->group($leader)->{role} // ''), 'leader', 'the old one does not know of it');

my ($out, $err) = $c->try($near, "SELECT lockstep.outcome('$token')");
like("$out$err", qr/57P03|^in progress$|^unknown$/, "outcome() on n$near does not say that it was aborted") or diag("$out$err");
$causal->query("SELECT count(*) FROM rare WHERE id = 'far'", 30);
LockstepCluster::is_error($causal->error, '57P03', qr/causal read/, 'a causal read is not answered');
($out, $err) = ('', '');
ok($c->wait_until(sub { ($out, $err) = $c->try($near, 'SET lockstep.max_staleness = 2500; SELECT count(*) FROM rare'); return $err =~ /57P03.*max_staleness/s }, 10),
	'nor a read of what may be older than lockstep.max_staleness') or diag("$out$err");
is($c->try($near, "SELECT count(*) FROM rare WHERE id = 'far'"), '0', 'what it has is old indeed');

# what was begun there before is not committed by one alone
$before->send('COMMIT');
ok($before->blocked(0.5), 'a COMMIT waits there');
is(scalar(grep { $_->[2] =~ /^$near-/ } $load->acknowledged($since)), 0, "no transaction of n$near is acknowledged");
settles($epoch, 1, 'cut off with a node');
is(scalar(grep { $_->[2] =~ /^$near-/ } $load->acknowledged($since)), 0, "still none");
$load->goes_on(time, 'the others go on', @far);

whole();
$before->finish(30);
my $said = $before->error;
my $fate = '';
ok($c->wait_until(sub { $fate = $c->try($far[0], "SELECT lockstep.outcome('$near_token')"); return $fate =~ /^(?:committed|aborted)$/ }), 'what became of that COMMIT is known everywhere');
is($c->sql($far[1], "SELECT count(*) FROM rare WHERE id = 'near'"), $fate eq 'committed' ? 1 : 0, "$fate is true");
like($said, qr/^$|08007/, 'and was not told otherwise') if $fate eq 'committed';
like($said, qr/40001|08007|57P0/, 'and was not told otherwise') if $fate eq 'aborted';
is($c->sql($near, "SELECT count(*) FROM rare WHERE id = 'far'"), 1, "n$near has what it lacked");
is($c->sql($near, "SELECT lockstep.outcome('$token')"), 'committed', 'and says so');
$reader->query('SELECT count(*) FROM counter');
$load->goes_on(time, 'with all');

$load->stop_and_compare;
done_testing;
