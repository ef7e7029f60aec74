# The disks and the clocks of a group of replicators, while clients write on all nodes: a standby's disk is full, the
# leader's, all at the same time; switchover by name; the leader is restarted at once with its disk as it was; the leader and a node die together; the wall
# clocks jump by an hour.  Needs root for small file systems of its own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use LockstepPoints;
use List::Util qw(max);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'needs root, for mount' if $> != 0;

my $c = LockstepPoints->new(nodes => 2, replicators => 3, clock => 1, replicator_conf => "journal_segment_size = 1MB\n");
my (@moved, $load);

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub in_sync { my ($leader) = @_; return sort @{ $c->group($leader)->{in_sync} // [] } }
sub synced { my ($leader) = @_; return (map { s/^r//r } grep { $_ ne "r$leader" } in_sync($leader))[0] }
sub fill { my ($i) = @_; system('head -c 64m /dev/zero > ' . journal($i) . '/ballast 2>/dev/null') }
# bytes are left, and no inode
sub fill_inodes { my ($i) = @_; for my $k (1 .. 300) { open(my $f, '>', journal($i) . "/ballast$k") or return } die 'there is no limit' }
sub make_inodes { my ($i) = @_; unlink(glob(journal($i) . '/ballast?*')) or die "unlink: $!" }
sub make_room { my ($i) = @_; unlink(journal($i) . '/ballast') or die "unlink: $!" }
sub logged { my ($i, $from) = @_; return substr($c->member_log($i), $from) }
sub epoch { my ($leader) = @_; return $c->group($leader)->{epoch} }

sub highest_epoch { return max(map { epoch($_) // 0 } $c->replicators) }

sub all_run { my ($what) = @_; is(scalar(grep { $c->member_pid($_) } $c->replicators), 3, "$what: no process has ended") }

# The journals move to file systems of 16 MB.
ok($c->wait_copies(2), 'three replicators');
$c->cluster('stop-replicator', $_) for $c->replicators;
for my $dir (map { journal($_) } $c->replicators)
{
	rename($dir, "$dir.moved") && mkdir($dir) or die "$dir: $!";
	push @moved, $dir;
	if (system("mount -t tmpfs -o size=16m,nr_inodes=200,mode=0777 tmpfs $dir 2>/dev/null") != 0)
	{
		plan skip_all => 'mount is not permitted here';
	}
	system("cp -p $dir.moved/* $dir/ && chown -R postgres: $dir") == 0 or die;
}
$c->start_replicator($_) for $c->replicators;
ok($c->wait_copies(2, 30), 'all have small disks');
$c->wait_state($_, 'online') for $c->all;
$load = LockstepCounters->new($c);
$load->goes_on(time, 'at first');

# Segments are switched soon.
sub write_much
{
	$c->try(1, "INSERT INTO much SELECT g, repeat(md5(g::text), 30) FROM generate_series((SELECT coalesce(max(id), 0) + 1 FROM much), (SELECT coalesce(max(id), 0) + 30 FROM much)) g") for 1 .. $_[0];
}
$c->sql(1, 'CREATE TABLE much (id int PRIMARY KEY, v text)');

# ---------- the disk of the standby that is in sync is full

my ($since, $gap);
my $leader = $c->leader;
my $full = synced($leader);
my $from = length $c->member_log($full);
fill($full);
ok($c->wait_until(sub { synced($leader) != $full }), "the disk of r$full, which is in sync, is full: another one takes its place");
write_much(60);
$load->goes_on(time, 'meanwhile');
ok($c->wait_until(sub { logged($full, $from) =~ /does not follow until its disk has room: .*No space left/ }), 'its log says so');
ok($c->wait_until(sub { ($c->member_ctl($full, 'replicators'))[0] =~ /does not follow until its disk has room/ }), 'and lockstepctl');
is($c->leader, $leader, 'the leader is the same');
all_run('with a full disk');
make_room($full);
ok($c->wait_copies(2, 30), 'with room it has everything again');

# ---------- the leader's disk is full

$full = $leader;
fill($full);
write_much(60);
$load->goes_on(time, "the leader's disk is full");
$leader = $c->wait_leader($full);
ok($leader, "r$full hands over: r" . ($leader // '?') . ' leads');
is(scalar(grep { $_->[3] eq '53100' } @{ $load->_read }), 0, 'no client was told');
all_run('with a full disk');
make_room($full);
ok($c->wait_copies(2, 30), 'with room it has everything again');
is($c->leader, $leader, "r$leader still leads");

# ---------- all disks are full

my $before = epoch($leader);
fill($_) for $c->replicators;
my $writer = fork // die "fork: $!";
if ($writer == 0)
{
	write_much(100);
	POSIX::_exit(0);
}
my $stands_still = sub { my $now = time; sleep 2; return !$load->acknowledged($now) };
ok($c->wait_until($stands_still, 60), 'all disks are full: nothing is acknowledged any more');
# whose disk was full first decides who says it: the leader, or who has been chosen and waits for the others
my $said = sub { join "\n", map { ($c->member_ctl($_, 'replicators'))[0] } $c->replicators };
my $full_disk = qr/disk of replicator "r\d" is full|writers wait: too few replicators|does not follow until its disk has room|does not lead until it can write/;
ok($c->wait_until(sub { $said->() =~ $full_disk }), 'it is said') or diag($said->());
cmp_ok(highest_epoch(), '<=', $before + 1, 'nobody leads by turns');

# who is named by the key, or by all that are in sync, would end at once without room for its small files
($leader) = map { s/^r//r } $c->group(1)->{leader};
my $led = highest_epoch();
$c->kill_replicator($leader);
fill($_) for $c->replicators;
$c->start_replicator($leader);
$since = time;
ok($c->wait_until(sub { $said->() =~ $full_disk }), 'the leader has been killed, and started with its full disk: it is said') or diag($said->());
sleep 3;
all_run('the leader was killed');
my $now = highest_epoch();
cmp_ok($now, '<=', $before + 3, 'nobody leads by turns');

# that is enough to be chosen, but not to go on; somebody may have had it before, from a segment that could not be made
truncate(journal($_) . '/ballast', (-s journal($_) . '/ballast') - 200 * 1024) or die "truncate: $!" for $c->replicators;
ok($c->wait_until(sub { highest_epoch() > $led }), 'with a little room one is chosen');
ok($c->wait_until(sub { $said->() =~ $full_disk }), 'it is still said') or diag($said->());
sleep 2;
all_run('with a little room');
cmp_ok(highest_epoch(), '<=', $now + 2, 'nobody leads by turns');
$since = time;
make_room($_) for $c->replicators;
$load->goes_on($since, 'with room');
ok($c->wait_copies(2, 30), 'all are there');
waitpid($writer, 0);

# ---------- the room is taken while one takes over

$leader = $c->leader;
my $next = synced($leader);
$from = length $c->member_log($next);
$c->order_at('replicator', 'REPLICAS_CHOSEN', 'wait');
$c->kill_replicator($leader);
ok($c->wait_until(sub { $c->was_there('replicator', 'REPLICAS_CHOSEN') }), "r$next has been chosen");
fill($next);
$c->let_go('replicator', 'REPLICAS_CHOSEN');
ok($c->wait_until(sub { logged($next, $from) =~ /does not lead any more: its disk has no room any more.*starting.*does not lead until it can write in .*No space left/s }), 'it waits for room');
ok($c->member_pid($next), 'and has not ended');
$since = time;
make_room($next);
$c->start_replicator($leader);
$load->goes_on($since, 'with room');
ok($c->wait_copies(2, 30), 'all are there');

# ---------- nothing can be written, though there are bytes

for ([ 'no inode is left', \&fill_inodes, \&make_inodes, 'No space left' ],
	[ 'the directory may not be written', sub { chmod(0555, journal($_[0])) or die }, sub { chmod(0700, journal($_[0])) or die }, 'Permission denied' ])
{
	my ($what, $take, $give, $error) = @$_;

	$leader = $c->leader;
	$next = synced($leader);
	$from = length $c->member_log($next);
	my $first = epoch($leader);
	# before it sees that the leader is gone
	$c->freeze_replicator($next);
	$c->kill_replicator($leader);
	$take->($next);
	$c->thaw_replicator($next);
	ok($c->wait_until(sub { logged($next, $from) =~ /does not lead until it can write in .*$error/ }), "$what: r$next does not lead") or diag(logged($next, $from));
	ok($c->wait_until(sub { ($c->member_ctl($next, 'replicators'))[0] =~ /does not lead until it can write in .*$error/ }), 'lockstepctl says so');
	ok($c->member_pid($next), 'it has not ended');
	cmp_ok(highest_epoch(), '==', $first, 'nobody has led');
	$since = time;
	$give->($next);
	$load->goes_on($since, 'it leads as soon as it can');
	is($c->leader, $next, "r$next") or diag(logged($next, $from));
	$c->start_replicator($leader);
	ok($c->wait_copies(2, 30), 'all are there');
}

# it would not take over, so it is not in sync while there is another one
$leader = $c->leader;
$next = synced($leader);
# which it says with its next acknowledgements, long before it needs another segment
my $segment = (sort glob(journal($next) . '/*.journal'))[-1];
ok($c->wait_until(sub { (sort glob(journal($next) . '/*.journal'))[-1] ne $segment }), "r$next has begun a segment");
chmod(0555, journal($next)) or die;
ok($c->wait_until(sub { my ($m) = grep { $_->{name} eq "r$next" } @{ $c->group($leader)->{members} }; ($m->{free_bytes} // 1) == 0 }), "r$next says that it has no room") or diag($c->member_log($next));
ok($c->wait_until(sub { synced($leader) != $next }), "r$next may not write in its directory: another one takes its place");
(undef, my $refusal) = $c->member_ctl($leader, '--timeout', 3, 'switchover', "r$next");
like($refusal, qr/replicator "r$next" is not in sync/, 'it is not switched over to');
is($c->leader, $leader, 'the leader is the same');
chmod(0700, journal($next)) or die;
ok($c->wait_copies(2, 30), 'all are there');

# without inodes it is in sync as long as it needs no file
$leader = $c->leader;
$next = synced($leader);
$segment = (sort glob(journal($next) . '/*.journal'))[-1];
ok($c->wait_until(sub { (sort glob(journal($next) . '/*.journal'))[-1] ne $segment }), "r$next has begun a segment");
fill_inodes($next);
my ($out, $error, $code) = $c->member_ctl($leader, 'switchover', "r$next");
is($code, 1, 'a switchover to one that has no inodes fails');
like($error, qr/replicator "r$next" does not lead: "r$leader" does/, 'which says who leads');
ok($c->wait_until(sub { ($c->leader // 0) == $leader }, 10), 'it is so');
make_inodes($next);
ok($c->wait_copies(2, 30), 'all are there');

# ---------- switchover by name

$leader = $c->leader;
my ($other) = grep { $_ != $leader && $_ != synced($leader) } $c->replicators;
my (undef, $err, $rc) = $c->member_ctl($leader, 'switchover', 'nobody');
like($err, qr/there is no replicator of that name/, 'a name that there is not');
(undef, $err) = $c->member_ctl($leader, 'switchover', "r$leader");
like($err, qr/leads already/, 'the leader itself');
($out, $err, $rc) = $c->member_ctl($leader, 'switchover', "r$other");
is($rc, 0, "r$other, which is not in sync, is to lead") or diag($err);
like($out, qr/^replicator r$other leads$/m, 'it does');
ok($c->wait_until(sub { ($c->leader // 0) == $other }, 10), 'as it says itself');
ok($c->wait_copies(2, 30), 'all are there');
my $away = synced($other);
$c->freeze_replicator($away);
(undef, $err, $rc) = $c->member_ctl($other, '--timeout', 3, 'switchover', "r$away");
like($err, qr/replicator "r$away" is not in sync/, 'one that hangs is refused');
is($c->leader, $other, 'the leader is the same');

# the command is canceled: what it has asked for does not happen later
my $n = $other == 1 ? '' : $other;
my $ctl = fork // die "fork: $!";
if ($ctl == 0)
{
	open(STDERR, '>', '/dev/null');
	exec("$LockstepCluster::bindir/lockstepctl", '--config', "$c->{dir}/replicator$n.conf", '--socket', "$c->{dir}/admin$n.sock", 'switchover', "r$away") or POSIX::_exit(1);
}
ok($c->wait_until(sub { $c->member_log($other) =~ /switchover r$away\b.*switchover r$away\b/s }), 'switchover to it is ordered again');
sleep 0.2;
kill 'KILL', $ctl;
waitpid $ctl, 0;
my $in_its_place = synced($other);
$c->thaw_replicator($away);
ok($c->wait_copies(2, 30), 'and canceled; then all are there');
sleep 1;
is(synced($other), $in_its_place, "r$away is not put in sync for it");

# a full one is not put in sync for it either
fill($away);
ok($c->wait_until(sub { my ($m) = grep { $_->{name} eq "r$away" } @{ $c->group($other)->{members} }; ($m->{free_bytes} // 2e6) < 2e6 }), "the disk of r$away is full");
$from = length $c->member_log($other);
(undef, $err, $rc) = $c->member_ctl($other, '--timeout', 3, 'switchover', "r$away");
like($err, qr/replicator "r$away" is not in sync/, 'it is refused');
is(synced($other), $in_its_place, 'who was in sync still is');
unlike(logged($other, $from), qr/ is in sync/, 'all the time');
make_room($away);
ok($c->wait_copies(2, 30), 'with room it has everything again');

# one that waits when the leader steps down for another one
($next) = grep { $_ != $other && $_ != $away } $c->replicators;
$c->freeze_replicator($away);
$from = length $c->member_log($other);
my $told = "$c->{dir}/told";
$ctl = fork // die "fork: $!";
if ($ctl == 0)
{
	open(STDERR, '>', $told) or POSIX::_exit(9);
	exec("$LockstepCluster::bindir/lockstepctl", '--config', "$c->{dir}/replicator$n.conf", '--socket', "$c->{dir}/admin$n.sock", 'switchover', "r$away") or POSIX::_exit(9);
}
ok($c->wait_until(sub { logged($other, $from) =~ /switchover r$away\b/ }), "a switchover to r$away waits for it");
($out, $err, $rc) = $c->member_ctl($other, 'switchover', "r$next");
is($rc, 0, "one to r$next does not") or diag($err);
waitpid $ctl, 0;
is($? >> 8, 1, 'the first one fails');
like(do { local (@ARGV, $/) = ($told); <> }, qr/handed over to another one, before the command was done/, 'which says why');
$c->thaw_replicator($away);
ok($c->wait_copies(2, 30), 'all are there');

# ---------- the leader is killed, and started again at once

$leader = $c->leader;
$before = epoch($leader);
$since = time;
$c->kill_replicator($leader);
$c->start_replicator($leader);
$gap = $load->goes_on($since, 'the leader was killed, and started at once');
cmp_ok($gap, '<', LockstepCluster::soon(3), 'soon');
diag(sprintf 'gap %.2f s', $gap);
ok($c->wait_copies(2, 30), 'all are there');
cmp_ok(epoch($c->leader), '<=', $before + 2, 'nobody leads by turns');

# ---------- the leader and a node are killed together

$leader = $c->leader;
$c->kill_replicator($leader);
$c->cluster('kill-node', 2);
$since = time;
$gap = $load->goes_on($since, 'the leader and a node are killed', 1);
diag(sprintf 'gap %.2f s', $gap);
$c->start_replicator($leader);
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', 30), 'the node comes back');
ok($c->wait_copies(2, 30), 'and the replicator');

# ---------- clocks

$leader = $c->leader;
$before = epoch($leader);
for my $seconds (3600, -3600, 0)
{
	$c->set_clock($seconds);
	$since = time;
	$load->goes_on($since, "the wall clocks are $seconds s ahead");
}
is($c->leader, $leader, 'clocks do not choose the leader');
is(epoch($leader), $before, 'the epoch is the same');

$load->stop_and_compare;

END
{
	my $rc = $?;
	if (@moved)
	{
		$c->cluster('stop-replicator', $_) for $c->replicators;
		system("umount $_ 2>/dev/null; rm -rf $_.moved") for @moved;
		$c->down;
	}
	$? = $rc;
}

done_testing;
