# The copies of the journal that standby replicators have, and etcd: segments that are switched and trimmed, files of large
# transactions, a standby that was away for long or has lost its disk, a leader that has lost its disk, all of them killed
# at once, etcd away and set back, strangers at the members' port.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $c = LockstepCluster->new(nodes => 2, replicators => 3,
	replicator_conf => "journal_segment_size = 64kB\ntransaction_memory = 64kB\njournal_keep = 128kB\n");
my $dir = $c->{dir};

sub journal { my ($i) = @_; return "$dir/journal" . ($i == 1 ? '' : $i) }
sub group { my $l = $c->leader; return $l ? $c->group($l) : {} }

# So many are in sync, and all members are connected and have everything.
sub complete
{
	my ($n, $what) = @_;
	my $done = sub {
		my $g = group();
		my @standbys = grep { $_->{state} ne 'leader' } @{ $g->{members} // [] };
		return @{ $g->{in_sync} // [] } == 2 && $n - 1 == grep { $_->{state} eq 'standby' } @standbys;
	};
	ok($c->wait_until($done, 30), $what) or diag(scalar($c->member_ctl($c->leader // 1, 'replicators')));
}

sub same_files
{
	my ($what) = @_;
	$c->drain;
	my %files;
	my $equal = sub {
		%files = map { my $d = journal($_); scalar(`cd $d && for f in *.journal; do echo "\$f \$(tr -d '\\0' < \$f | sha256sum)"; done`) => $_ } $c->replicators;
		return keys %files == 1;
	};
	ok($c->wait_until($equal, 10), $what) or diag(map { "r$files{$_}:\n$_" } keys %files);
}

my $rows = 0;
sub load
{
	my ($n) = @_;
	$c->sql(1, join '', map { "INSERT INTO t VALUES ($_, repeat('x', 2000));\n" } $rows + 1 .. $rows + $n);
	$rows += $n;
}

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
complete(3, 'three replicators');
load(200);
ok($c->wait_until(sub { my $first = sub { my ($f) = sort glob(journal($_[0]) . '/*.journal'); $f =~ s{.*/}{}r };
	$first->(1) gt '0000000000000001.journal' && $first->(2) eq $first->(1) && $first->(3) eq $first->(1) }, 30),
	'segments have been switched and trimmed, on all three');
same_files('the journals are equal');

# ---------- files of large transactions: on a standby before their records

$c->sql(1, 'CREATE TABLE big (id int PRIMARY KEY, v text)');
$c->cluster('stop-node', 2);
$c->sql(1, "INSERT INTO big SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 1000) g");
my @bodies = map { scalar(() = glob(journal($_) . '/*.body')) } $c->replicators;
cmp_ok($bodies[0], '>=', 1, 'a large transaction has a file of its own');
$c->kill_replicator(1);
ok($c->wait_until(sub { ($c->leader // 1) != 1 }, 20), 'the leader is killed, another one leads');
$c->cluster('start-node', 2);
ok($c->wait_until(sub { $c->try(2, 'SELECT count(*) FROM big') eq '1000' }, 20), 'a node that was away gets it from the copy of the new leader');
$c->cluster('start-replicator', 1);
complete(3, 'three replicators');
same_files('the journals are equal');

# ---------- a standby that was away, and what it needs is trimmed

sub standby { my ($g) = (group()); my ($s) = grep { $_->{state} eq 'standby' && !$_->{in_sync} } @{ $g->{members} }; return $s->{name} =~ s/r//r }
my $away = standby();
$c->kill_replicator($away);
load(200);
$c->cluster('start-replicator', $away);
complete(3, "r$away was away, and what it lacks is gone: it is copied anew");
load(5);
same_files('the journals are equal');

# ---------- one that has lost its disk

$c->kill_replicator($away);
system("rm -rf " . journal($away)) == 0 or die;
$c->cluster('start-replicator', $away);
complete(3, "r$away has lost its disk: it is copied anew");

# in sync, and lost: not eligible, whatever etcd says
my ($synced) = grep { $_ != $c->leader && group()->{members}[ $_ - 1 ]{in_sync} } $c->replicators;
my $leader = $c->leader;
# the leader last, and all before any connection is lost: one that is left a moment longer would lead
my @pids = map { $c->member_pid($_) } sort { ($a == $leader) <=> ($b == $leader) } $c->replicators;
kill('STOP', @pids);
kill('KILL', @pids);
ok($c->wait_until(sub { !grep { $c->member_pid($_) } $c->replicators }), 'all are killed');
system("rm -rf " . journal($synced)) == 0 or die;
$c->cluster('start-replicator', $synced);
ok($c->wait_until(sub { ($c->group($synced)->{trouble} // '') =~ /cannot be followed: .*; this one, whose journal is incomplete, does not take its place/ }), 'one that is in sync by the key, and has lost its journal, waits for who has it');
is($c->leader, undef, 'and does not lead');
$c->cluster('start-replicator', $leader);
ok($c->wait_until(sub { ($c->leader // 0) == $leader }, 20), 'who had led leads again, as soon as the other one, which is in sync by the key, has a copy');
$c->cluster('start-replicator', $_) for grep { $_ != $synced && $_ != $leader } $c->replicators;
complete(3, 'with the third one all are there');
is($c->leader, $leader, 'the leader is the same');
load(5);
same_files('the journals are equal');

# the leader
$leader = $c->leader;
$c->kill_replicator($leader);
system("rm -rf " . journal($leader)) == 0 or die;
$c->cluster('start-replicator', $leader);
complete(3, 'a leader that has lost its disk comes back as a standby');
isnt($c->leader, $leader, 'another one leads');
load(5);
same_files('the journals are equal');

# ---------- all at once

kill('KILL', map { $c->member_pid($_) } $c->replicators);
ok($c->wait_until(sub { !grep { $c->member_pid($_) } $c->replicators }), 'all are killed again');
$c->cluster('start-replicator', $_) for $c->replicators;
complete(3, 'all were killed at once');
load(5);
same_files('the journals are equal');

# ---------- strangers at the port of the members

my $port = $c->{base} + 2000 + $c->leader;
my @strangers = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or die } 1 .. 40;
my @bytes = ("GET / HTTP/1.0\r\n\r\n", "h\xff\xff\xff\xff", "h\0\0\0\2{}", 'h' . pack('N', 3000) . '[' x 3000, 'x' x 100000,
	'h' . pack('N/a', '{"name":"r' . ($c->leader == 1 ? 2 : 1) . '","nonce":"' . '0' x 64 . '"}') . 'p' . pack('N/a', '{"proof":"' . '0' x 64 . '"}'));
local $SIG{PIPE} = 'IGNORE';
syswrite($strangers[$_], $bytes[ $_ % (@bytes + 1) ] // '') for 0 .. $#strangers;
load(5);
for my $s (@strangers)
{
	my $answer = '';
	$s->blocking(1);
	my $bits = '';
	vec($bits, fileno($s), 1) = 1;
	my $ended = 0;
	while (select(my $ready = $bits, undef, undef, 8)) { sysread($s, $answer, 65536, length $answer) or ($ended = 1, last) }
	$s = $ended ? $answer =~ /could not prove|^$|^c/s : 0;
}
is(scalar(grep { !$_ } @strangers), 0, 'strangers lose their connections, and learn nothing');
complete(3, 'and disturb nobody');

# who holds as many connections as he gets, keeps no member out
my $flood = fork // die;
if ($flood == 0)
{
	my @held;
	while (getppid() == $c->{test_pid})
	{
		push @held, IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 1) // ();
		shift @held if @held > 800;
		sleep 0.005;
	}
	POSIX::_exit(0);
}
sleep 0.5;
($away) = grep { $_ != $c->leader } $c->replicators;
my $logged = length $c->member_log($c->leader);
$c->kill_replicator($away);
$c->cluster('start-replicator', $away);
my $since = time;
complete(3, "r$away is started while a stranger floods the members' port: it connects");
diag(sprintf 'after %.1f s', time - $since);
load(5);
my $lines = () = substr($c->member_log($c->leader), $logged) =~ /^/mg;
cmp_ok($lines, '<', 100, 'and the log is not flooded');
kill('KILL', $flood);
waitpid $flood, 0;

# ---------- etcd is away

my $etcd = $c->etcd_pid;
kill('STOP', $etcd);
load(20);
pass('commits go on while etcd is away');
$leader = $c->leader;
$c->kill_replicator($leader);
my ($other) = grep { $_ != $leader } $c->replicators;
ok($c->wait_until(sub { $c->group($other)->{trouble} =~ /could not read etcd/ }, 20), 'who could take over says what it waits for');
is($c->leader, undef, 'and does not');
kill('CONT', $etcd);
ok($c->wait_until(sub { $c->leader }, 20), 'until etcd is back');
$c->cluster('start-replicator', $leader);
complete(3, 'three replicators');

# its key is lost
my $key = sub { my ($path, $body) = @_; return `curl -s http://127.0.0.1:@{[ $c->{base} + 3000 ]}/v3/kv/$path -d '$body'` };
like($key->('deleterange', '{"key":"L2xvY2tzdGVw"}'), qr/"deleted":"1"/, 'etcd loses the key');
load(5);
$leader = $c->leader;
$c->kill_replicator($leader);
($other) = grep { $_ != $leader } $c->replicators;
ok($c->wait_until(sub { $c->group($other)->{trouble} =~ /etcd has no key any more/ }, 20), 'nobody leads by guessing');
$c->cluster('start-replicator', $leader);
sleep 1;
is($c->leader, undef, 'not even who led');

done_testing;
