# A group of replicators, while clients write on all nodes: etcd is set back to a backup; a member's machine is set back to a
# snapshot of a time when it lacked what was acknowledged since, and it leads as the key says: the nodes refuse it.  The leader is killed while a node
# is dropped by command, attached, and repaired.  Nothing is led by guessing, nothing that was acknowledged is lost or doubled, nodes and
# journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

my $c = LockstepCluster->new(nodes => 3, replicators => 3);
my $load = LockstepCounters->new($c);
my $dir = $c->{dir};

sub journal { my ($i) = @_; return "$dir/journal" . ($i == 1 ? '' : $i) }
sub key { return $c->etcd_key }
sub trouble { my ($i) = @_; return $c->group($i)->{trouble} // '' }
sub says { my ($i, $like, $name) = @_; return ok($c->wait_until(sub { trouble($i) =~ $like }), $name) || diag("r$i: " . trouble($i)) }

sub roles
{
	my $key = key();
	my ($leader) = $key->{leader} =~ /(\d)/;
	my ($synced) = map { /(\d)/ } grep { $_ ne "r$leader" } @{ $key->{in_sync} };
	return ($leader, $synced, grep { $_ != $leader && $_ != $synced } $c->replicators);
}

sub set_back { my ($to, $what) = @_; LockstepCluster::copy_tree("$what.$to", $what) }
sub snapshot { my ($as, $what) = @_; LockstepCluster::copy_tree($what, "$what.$as") }

# A test.
sub fail_over
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $leader = $c->leader;
	$c->kill_replicator($leader);
	my $since = time;
	ok($c->wait_leader($leader), "$what: the leader is killed, another one leads");
	my $gap = $load->goes_on($since, $what, 1, 2);
	diag(sprintf '%s: gap %.2f s', $what, $gap);
	$c->start_replicator($leader);
	ok($c->wait_copies(2), "r$leader is back");
}

$load->goes_on(time, 'three replicators');
ok($c->wait_copies(2), 'two are in sync');

# ---------- etcd is set back to a backup

my $etcd = "$dir/etcd";
$c->cluster('kill-etcd');
snapshot('backup', $etcd);
$c->cluster('start-etcd');
fail_over('after the backup');
$c->cluster('kill-etcd');
snapshot('right', $etcd);
set_back('backup', $etcd);
my $since = time;
$c->cluster('start-etcd');
my $leader = $c->leader;
says($leader, qr/etcd has been set back: it is at revision \d+, and was at \d+/, 'etcd is set back to a backup: the leader says so');
$load->goes_on($since, 'meanwhile');
is($c->leader, $leader, 'it goes on leading');
$c->kill_replicator($leader);
says($_, qr/etcd(?:'s key)? has been set back/, "the leader is killed: r$_ says why it does not lead") for grep { $_ != $leader } $c->replicators;
is($c->leader, undef, 'nobody leads');
$c->cluster('kill-etcd');
set_back('right', $etcd);
$c->cluster('start-etcd');
$since = time;
ok($c->wait_leader, 'with what etcd had, one leads');
$load->goes_on($since, 'with it');
$c->start_replicator($leader);
ok($c->wait_copies(2), 'all are there');

# ---------- a member is set back to a snapshot

my ($synced, $other);
($leader, $other, my $old) = roles();
$c->kill_replicator($old);
snapshot('snapshot', journal($old));
$c->start_replicator($old);
ok($c->wait_copies(2), 'a snapshot of a member has been made');
$c->kill_replicator($other);
ok($c->wait_until(sub { (roles())[1] == $old }), "r$old is put in sync");
$c->start_replicator($other);
ok($c->wait_copies(2), 'all are there');
$load->goes_on(time, 'for a while');
# at the same time: none sees another go, and takes its place
$c->freeze_replicator($_) for $leader, $old, $other;
$c->kill_replicator($_) for $leader, $old, $other;
$since = time;
snapshot('right', journal($_)) for $c->replicators;
set_back('snapshot', journal($old));
$c->start_replicator($_) for $old, $other;
is($c->wait_leader, $old, "the leader is lost, r$old was in sync, has been set back to the snapshot, and leads");
my $reason = '';
ok($c->wait_until(sub { $reason = join '; ', map { $c->reason($_) } $c->all; $reason =~ /journal/ && !grep { ($c->node_status($_)->{state} // '') ne 'dropped' } $c->all }), 'it takes no node in') or diag($reason);
like($reason, qr/journal/, 'and says why');
diag("reasons: $reason");
is(scalar($load->acknowledged($since)), 0, 'nothing is acknowledged');
my $rows = join ' ', $c->sql_everywhere("SELECT CASE WHEN count(*) > 0 THEN 'some' END FROM mark", options => '-c lockstep.causal_reads=off');
is($rows, 'some some some', 'the nodes can be read');
$c->freeze_replicator($_) for $old, $other;
$c->kill_replicator($_) for $old, $other;
set_back('right', journal($_)) for $c->replicators;
# the last one was not in sync when the disks were right, and may lack the end; etcd has it in sync since
$c->start_replicator($_) for $old, $leader;
is($c->wait_leader, $old, "with the disks as they were, r$old leads");
$c->start_replicator($other);
$since = time;
$load->goes_on($since, 'with it');
ok($c->wait_copies(2), 'all are there');

# ---------- a takeover while a node is dropped, attached, and repaired

sub in_background
{
	my ($leader, @command) = @_;
	my $pid = fork // die;
	return $pid if $pid;
	open(STDOUT, '>', "$c->{top}/command.out");
	my ($out, $err, $rc) = $c->member_ctl($leader, @command);
	print "$out\n$err\n";
	POSIX::_exit(0);
}

for my $delay ($ENV{LOCKSTEP_LONG} ? (0, 2, 5, 10, 20, 50) : (0, 5, 20))
{
	for my $command ('drop', 'attach')
	{
		my $pid = in_background($c->leader, $command, 'n3');
		usleep(1000 * $delay);
		fail_over("n3 is to be " . ($command eq 'drop' ? 'out' : 'in again') . ", and $delay ms later");
		waitpid($pid, 0);
	}
	my (undef, $err) = $c->ctl('attach', 'n3');
	ok($c->wait_state(3, 'online', 30), 'n3 is online') or diag($err);
}

$c->sql(1, 'CREATE TABLE r (id int PRIMARY KEY, v text); INSERT INTO r SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 20000) g');
$c->drain;
for my $when ('it is compared', 'it is out')
{
	$c->sql_local(3, "DELETE FROM r WHERE id % 3 = 0; UPDATE r SET v = 'other' WHERE id % 3 = 1");
	$leader = $c->leader;
	my $pid = in_background($leader, '--timeout', 60, 'verify', '--repair', 'n3');
	my $out = sub { $c->node_status(3)->{state} // '' };
	if ($when eq 'it is out')
	{
		ok($c->wait_until(sub { $out->() ne 'online' || waitpid($pid, POSIX::WNOHANG()) == $pid }), 'n3 is repaired, for which it goes out');
	}
	fail_over("n3 is repaired, and when $when");
	waitpid($pid, 0);
	my ($text, $err, $rc) = $c->ctl('--timeout', 60, 'verify', '--repair', 'n3');
	is($rc, 0, 'it can be repaired again') or diag("$text\n$err");
	ok($c->wait_state(3, 'online', 30), 'n3 is online');
	is(join(' ', $c->sql_everywhere("SELECT count(*) || md5(string_agg(v, '' ORDER BY id)) FROM r")) =~ /^(\S+) \1 \1$/ ? 1 : 0, 1, 'and has what the others have');
}

$load->goes_on(time, 'with all');
$load->stop_and_compare;
done_testing;
