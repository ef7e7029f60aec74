# Who reaches the replicator's port without the secret takes nothing from the backends: such
# connections have a small pool of their own, the oldest silent one makes room, and the log
# gets a few lines and a number.  10,000 sockets with one byte each had taken all of
# max_sessions, and 14 MB of log.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use Test::More;
use Time::HiRes 'time';

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "max_sessions = 12\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
my $cluster = $c->status->{cluster};
my $next = 0;
local $SIG{PIPE} = 'IGNORE';

sub connection
{
	my ($bytes) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base}, Timeout => 10) // die "connect: $!";
	syswrite($s, $bytes);
	return $s;
}

sub field { return pack('aN/a*', @_) }

sub hello
{
	return pack('aN/a*', 'H', field('V', pack('N', 1)) . field('N', 'n1') . field('D', 'app') . field('C', $cluster) .
		field('B', pack('Q>', 1)) . field('P', pack('N', 4711)) . field('R', 'x' x 32));
}

sub commit_on
{
	my ($node, $name) = @_;
	my $from = time;
	my ($out, $err) = $c->try($node, 'INSERT INTO t VALUES (' . ++$next . ')');
	is($err, '', sprintf '%s: a new backend commits on n%d (%.2f s)', $name, $node, time - $from);
	return;
}

sub descriptors { my $pid = $c->replicator_pid; return scalar(() = glob "/proc/$pid/fd/*") }

# ---------- many that are silent

my $before = length $c->replicator_log;
my $most = 0;
my @silent;
for my $n (1 .. 3000)
{
	push @silent, connection($n % 2 ? 'H' : 'x');
	next if $n % 1000;
	commit_on(1 + $n / 1000 % 2, "$n silent connections");
	$most = descriptors() if descriptors() > $most;
}
cmp_ok($most, '<', 200, "the replicator keeps few of them ($most descriptors)");
@silent = ();
commit_on(1, 'they have gone');
ok($c->wait_until(sub { $c->replicator_log =~ /WARNING:\s+\d{3,} more lines like these in 10 s were left out, the last one: session from 127\.0\.0\.1:\d+: session ended: / }, 30), 'the log has their number');
cmp_ok(length($c->replicator_log) - $before, '<', 50_000, 'and not more than that');

# ---------- many that say who they are, and don't prove it

my @challenged = map { connection(hello()) } 1 .. 300;
commit_on($_, '300 that owe their proof') for 1, 2;
@challenged = ();

# ---------- backends that have authenticated are counted

my @backends;
my $err = '';
for (1 .. 14)
{
	push @backends, $c->session(1);
	$backends[-1]->query('INSERT INTO t VALUES (' . ++$next . ')');
	$err .= $backends[-1]->error;
}
like($err, qr/53300: the replicator has 12 sessions already.*HINT:.*max_sessions/s, 'and refused beyond max_sessions');
$_->close for @backends;
ok($c->wait_until(sub { $c->node_status(1)->{sessions} == 0 }), 'they go');
commit_on(2, 'when they have gone');
$c->same('all nodes are equal');
done_testing;
