# A group of replicators becomes smaller and larger while clients write on all nodes, as docs/replicators.md says: from three
# to one, to one without a group, and back to three; a member that was removed while it was in sync is no copy any more.  And
# min_copies = 1: writers go on with one copy, and only who has it leads afterwards.  Nothing that was acknowledged is lost,
# nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP ();
use LockstepCluster;
use LockstepCounters;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, replicators => 3);
my $load = LockstepCounters->new($c);

sub config { my ($i) = @_; return "$c->{dir}/replicator" . ($i == 1 ? '' : $i) . '.conf' }
sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
my %as_it_was = map { $_ => LockstepCluster::_slurp(config($_)) } $c->replicators;

# replicator.conf of one: these are the members, and so many copies.
sub configure
{
	my ($i, $members, $copies, $min_copies) = @_;
	my %is_member = map { $_ => 1 } @$members;
	my $text = $as_it_was{$i} =~ s/^replicator\.r(\d).*\n/$is_member{$1} ? $& : ''/gmer;
	$text =~ s/^(?:replicator_name|etcd_).*\n//mg unless @$members;
	$text .= "copies = $copies\nmin_copies = $min_copies\n" if @$members;
	open(my $f, '>', config($i)) or die $!;
	print $f $text;
	close $f;
}

sub restart
{
	my ($i) = @_;
	$c->kill_replicator($i, 'TERM');
	$c->start_replicator($i);
}

# So many are in sync, and all of these are connected.
sub complete
{
	my ($n, $members, $what) = @_;
	my $g = {};
	ok($c->wait_until(sub { my $l = $c->leader or return 0; $g = $c->group($l);
			@{ $g->{in_sync} // [] } == $n && $g->{trouble} eq '' && @$members == grep { $_->{state} =~ /^(?:leader|standby)$/ } @{ $g->{members} } }, 30), $what)
		or diag(JSON::PP::encode_json($g));
}

# ---------- min_copies = 1

complete(2, [ 1 .. 3 ], 'three replicators');
configure($_, [ 1 .. 3 ], 2, 1) for $c->replicators;
my $first = $c->leader;
restart($_) for grep { $_ != $first } $c->replicators;
complete(2, [ 1 .. 3 ], 'the standbys have min_copies = 1');
$c->member_ctl($first, 'switchover');
my $leader = $c->wait_leader($first);
ok($leader, 'and so has the leader, after a switchover');
complete(2, [ 1 .. 3 ], 'three replicators');
is($c->group($_)->{min_copies}, 1, "r$_ has min_copies = 1") for $c->replicators;

my @others = grep { $_ != $leader } $c->replicators;
$c->kill_replicator($_) for @others;
my $since = time;
$load->goes_on($since, 'both standbys are killed');
is_deeply($c->group($leader)->{in_sync}, ["r$leader"], 'the leader has the only copy');
$c->kill_replicator($leader);
$c->start_replicator($_) for @others;
for (@others)
{
	my $i = $_;
	ok($c->wait_until(sub { ($c->group($i)->{trouble} // '') =~ /replicator "r$leader", which leads, cannot be followed: .*; this one, which is not in sync, does not take its place/ }), "the leader is killed, the others are back: r$i waits for it");
}
is($c->leader, undef, 'and does not lead');
$since = time;
$c->start_replicator($leader);
is($c->wait_leader, $leader, 'the leader is back and leads');
$load->goes_on($since, 'with it');
complete(2, [ 1 .. 3 ], 'three replicators');

# ---------- from three to one

my ($in_sync) = grep { $c->group($leader)->{members}[ $_ - 1 ]{in_sync} } @others;
$since = time;
configure($leader, [$leader], 1, 1);
$c->kill_replicator($_, 'TERM') for @others;
restart($leader);
is($c->wait_leader, $leader, 'one is left, and leads');
$load->goes_on($since, 'with it');
complete(1, [$leader], 'it is the only copy');

# one that was removed while it was in sync, and does not know
$since = time;
$c->start_replicator($in_sync);
ok($c->wait_until(sub { ($c->group($in_sync)->{trouble} // '') =~ /r$leader.*cannot be followed: .*it is not one of the replicators of this one's configuration/ }),
	"r$in_sync, which does not know that it was removed, is told") or diag($c->group($in_sync)->{trouble});
$c->kill_replicator($leader);
ok($c->wait_until(sub { ($c->group($in_sync)->{trouble} // '') =~ /; this one, which is not in sync, does not take its place/ }), 'the leader is killed: it says that it does not take its place');
is($c->leader, undef, 'and does not lead');
$c->kill_replicator($in_sync);
$c->start_replicator($leader);
is($c->wait_leader, $leader, 'the leader is back');
$load->goes_on($since, 'with it');

# ---------- to one without a group

$c->kill_replicator($leader, 'TERM');
configure($leader, [], 1, 1);
my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--config', config($leader));
isnt($rc, 0, 'a journal of a group is not used without the group');
like($out . $c->member_log($leader), qr/the journal in ".*" is part of a group of replicators, and none is configured.*remove the file "group"/s, 'it says what to do');
unlink(journal($leader) . '/group') or die $!;
$since = time;
my $pid = fork // die;
if ($pid == 0)
{
	open(STDOUT, '>', "$c->{top}/alone.out");
	open(STDERR, '>&', \*STDOUT);
	chdir '/';
	exec($c->owned("$LockstepCluster::bindir/lockstep-replicator", '--config', config($leader))) or POSIX::_exit(1);
}
$load->goes_on($since, 'without a group');

# ---------- and to three again: the key, and what the others remember, are of the old group

my ($status, $deleted) = $c->run_owned('curl', '-s', "http://127.0.0.1:@{[ $c->{base} + 3000 ]}/v3/kv/deleterange", '-d', '{"key":"L2xvY2tzdGVw"}');
like($deleted, qr/"deleted":"1"/, "etcd's key is removed");
system('rm', '-rf', journal($_)) == 0 or die for @others;
configure($_, [ 1 .. 3 ], 2, 1) for $c->replicators;
$since = time;
kill 'TERM', $pid;
waitpid $pid, 0;
$c->start_replicator($leader);
is($c->wait_leader, $leader, 'it begins a group');
$load->goes_on($since, 'with it');
$c->start_replicator($_) for @others;
complete(2, [ 1 .. 3 ], 'the others copy its journal');
configure($_, [ 1 .. 3 ], 2, 2) for $c->replicators;
restart($_) for @others;
complete(2, [ 1 .. 3 ], 'they have min_copies = 2');
$since = time;
$c->member_ctl($leader, 'switchover');
ok($c->wait_leader($leader), 'switchover');
$load->goes_on($since, 'with three');
complete(2, [ 1 .. 3 ], 'three replicators');
is($c->group($_)->{min_copies}, 2, "r$_ has min_copies = 2") for $c->replicators;

$load->stop_and_compare;
done_testing;
