# A group of three replicators, under load on both nodes: the leader is killed, stopped and continued, switched over, the
# standbys are killed.  Nothing that was acknowledged is lost or doubled, writers go on by themselves, and at the end
# nodes and journals are equal.  With LOCKSTEP_LONG the leader is killed 50 times.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $kills = $ENV{LOCKSTEP_LONG} ? 50 : 4;
my $c = LockstepCluster->new(nodes => 2, replicators => 3);

$c->sql(1, 'CREATE TABLE t (id text PRIMARY KEY, node int)');
$c->sql(1, 'CREATE TABLE account (id int PRIMARY KEY, v int)');
$c->sql(1, 'INSERT INTO account SELECT g, 100 FROM generate_series(1, 20) g');

is($c->leader, 1, 'the first one leads');
my ($out, $err, $rc) = $c->member_ctl(2, 'status');
is($rc, 1, 'a standby has no status of nodes');
like($err, qr/this replicator is a standby.*r1.*leads/s, 'and says who leads');

# ---------- load: each writer logs what was acknowledged, and when

sub writer
{
	my ($node, $n) = @_;
	my $pid = fork // die;
	return $pid if $pid;
	open(my $log, '>', "$c->{top}/acked-$node-$n") or die;
	$log->autoflush;
	my $s;
	for (my $i = 1; !-e "$c->{top}/stop"; $i++)
	{
		$s //= $c->session($node);
		my $id = "$node-$n-$i";
		my ($from, $to) = map { 1 + int rand 20 } 1, 2;
		$s->query("BEGIN; INSERT INTO t VALUES ('$id', $node); UPDATE account SET v = v - 1 WHERE id = $from; "
				. "UPDATE account SET v = v + 1 WHERE id = $to; COMMIT");
		my $error = $s->error;
		printf $log "%.3f %s %s\n", time, $id, $error eq '' ? 'ok' : $error =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5}):/ ? $1 : "? $error" =~ tr/\n/ /r;
		$s->query('ROLLBACK') if $error ne '';
		undef $s if $error =~ /closed the connection|terminat|no connection/;
	}
	POSIX::_exit(0);
}

my @writers = map { my $node = $_; map { writer($node, $_) } 1 .. 2 } 1, 2;

# Seconds from an event until the first commit that began to be answered behind it.
sub acked_after
{
	my ($since) = @_;
	my $first;
	for my $file (glob("$c->{top}/acked-*"))
	{
		for (split /\n/, LockstepCluster::_slurp($file))
		{
			my ($at, $id, $what) = split / /;
			$first = $at if $what eq 'ok' && $at > $since + 0.02 && (!defined $first || $at < $first);
		}
	}
	return $first;
}

sub await_writes
{
	my ($since, $what) = @_;
	my $at;
	ok($c->wait_until(sub { defined($at = acked_after($since)) }, 30), "$what: writers go on");
	return defined $at ? $at - $since : 99;
}

sub in_sync
{
	my ($n) = @_;
	return $c->wait_until(sub { my $l = $c->leader; $l && @{ $c->group($l)->{in_sync} } == $n && !grep { $_->{state} eq 'not connected' || $_->{state} eq 'copying' } @{ $c->group($l)->{members} } }, 30);
}

# ---------- the leader is killed, again and again

my @gaps;
for my $i (1 .. $kills)
{
	my $leader = $c->leader;
	my $since = time;
	$c->kill_replicator($leader);
	# what a client has noted may be late, and older
	ok($c->wait_leader($leader, 30), "kill $i: another one takes its place");
	push @gaps, await_writes($since, "kill $i, of r$leader");
	$c->cluster('start-replicator', $leader);
	ok(in_sync(2), 'it is back as a standby, two are in sync');
	isnt($c->leader, $leader, 'and another one leads');
}
@gaps = sort { $a <=> $b } @gaps;
diag(sprintf 'without commits after a kill: median %.2f s, longest %.2f s', $gaps[@gaps / 2], $gaps[-1]);
cmp_ok($gaps[-1], '<', LockstepCluster::soon(3), 'the longest gap is below 3 s');
cmp_ok($gaps[@gaps / 2], '<', LockstepCluster::soon(2), 'the median below 2 s');

# ---------- one that was stopped, and wakes up

my $stopped = $c->leader;
$c->freeze_replicator($stopped);
ok($c->wait_until(sub { LockstepCluster::_slurp('/proc/' . $c->member_pid($stopped) . '/status') =~ /^State:\s*T/m }), 'the leader is stopped');
my $since = time;			# what was begun before may have been answered before
ok($c->wait_leader($stopped, 30), "r$stopped is stopped: another one takes its place");
cmp_ok(await_writes($since, "r$stopped is stopped"), '<', LockstepCluster::soon(5), 'within 5 s');
kill('CONT', $c->member_pid($stopped));
ok($c->wait_until(sub { ($c->group($stopped)->{role} // '') eq 'standby' }, 20), 'when it wakes up, it becomes a standby');
ok(in_sync(2), 'and gets what it lacks');

# ---------- a planned switchover

my $old = $c->leader;
$since = time;
$c->member_ctl($old, 'switchover');
ok($c->wait_until(sub { my $l = $c->leader; $l && $l != $old }, 10), 'switchover');
my $gap = await_writes($since, 'switchover');
diag(sprintf 'without commits at a switchover: %.2f s', $gap);
ok(in_sync(2), 'all are there');

# ---------- both standbys are gone: nothing is acknowledged by one alone

my $l = $c->leader;
$c->kill_replicator($_) for grep { $_ != $l } $c->replicators;
ok($c->wait_until(sub { ($c->group($l)->{trouble} // '') =~ /writers wait/ }), 'both standbys are gone: the replicator says that writers wait');
sleep 1.5;			# what a client has noted may be late
$since = time;
sleep 1.5;
is(acked_after($since), undef, 'with one copy and min_copies = 2 nothing is acknowledged');
my ($gone) = grep { $_ != $l } $c->replicators;
like($c->member_ctl($l, 'status'), qr/^writers wait.*:\n +hint: +Start the replicators.*^replicators:  r$l leads \(epoch \d+\).*, r$gone: not connected/ms, 'status, too');
my $line = $c->member_ctl($l, 'check');
like($line, qr/^LOCKSTEP CRITICAL - .*writers wait: too few replicators.*replicator r$gone is not connected/, 'a monitoring system is told');
like($c->member_ctl($l, 'doctor'), qr/r$gone: the replicator is not connected to the one that leads/, 'the doctor sees who is missing');
like($c->member_ctl($l, 'metrics'), qr/^lockstep_replicator_connected\{replicator="r$gone"\} 0$/m, 'as metrics show');
my ($one) = grep { $_ != $l } $c->replicators;
$c->cluster('start-replicator', $one);
await_writes($since, 'one standby is back');
$c->cluster('start-replicator', $_) for grep { $_ != $l && $_ != $one } $c->replicators;
ok(in_sync(2), 'all are there');

# ---------- the end: nothing lost, nothing doubled, everything equal

$c->file('stop', '');
waitpid($_, 0) for @writers;
ok($c->wait_until(sub { !grep { $_->{state} ne 'online' } @{ $c->status->{nodes} } }, 30), 'all nodes are online');
$c->drain;
my %there = map { $_ => 1 } split /\n/, $c->sql(1, 'SELECT id FROM t');
my (%said, @lost, @unasked);
for my $file (glob("$c->{top}/acked-*"))
{
	for (split /\n/, LockstepCluster::_slurp($file))
	{
		my ($at, $id, $what) = split / /, $_, 3;
		$said{$what}++;
		push @lost, $id if $what eq 'ok' && !$there{$id};
		push @unasked, $id if $what !~ /^ok|^08007|^\?/ && $there{$id};
	}
}
diag(join ', ', map { "$_: $said{$_}" } sort keys %said);
is("@lost", '', 'nothing that was acknowledged is lost');
is("@unasked", '', 'nothing that failed is there');
is($c->sql(1, 'SELECT sum(v) FROM account'), 2000, 'no money is lost or doubled');
$c->same('all nodes are equal');
ok($c->wait_until(sub { my %p = map { ($_->{segment} // '') . ' ' . ($_->{offset} // '') => 1 } grep { $_->{state} eq 'standby' } @{ $c->group($c->leader)->{members} }; keys %p == 1 }, 10),
	'both standbys have the same');
ok($c->wait_until(sub { `cd $c->{dir} && sha256sum journal/*1.journal journal2/*1.journal journal3/*1.journal | cut -c1-64 | sort -u | wc -l` =~ /^1$/m }, 10), 'the journals are equal, byte by byte');
done_testing;
