# Sessions whose messages are changed on the way, in both directions, after both sides have proved who they are: doubled,
# repeated later, cut short, lengthened, of another type, or random.  It costs the sender its connection: no process
# crashes, none waits without end, nobody else notices, and the nodes stay equal.  (None is left out:
# TCP does not do that, and a replicator that answers and gives no verdict is trusted to have a reason.)
#
# LOCKSTEP_FUZZ_SECONDS (20; LOCKSTEP_LONG: 300), LOCKSTEP_SEED.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepFuzzed;
use LockstepRelay;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.replicator_timeout = 3s\nlockstep.failover_wait = 1s\nlockstep.connect_timeout = 3s\n",
	replicator_conf => "node_timeout = 5s\nreconnect_interval = 200ms\n");
my $f = LockstepFuzzed->new($c, 20);

# ---------- an answer is lost on the way, while the replicator says each second that it is there

my $lose = $c->file('lose', '-');
my $port = $c->{base} + 9;
my $lossy = LockstepRelay->new($port, $c->{base}, sub { my ($side, $message) = @_; return $side == 1 && LockstepCluster::_slurp($lose) =~ /^\Q@{[ substr $message, 0, 1 ]}\E/ ? () : ($message) });
$c->set(3, 'lockstep.replicator', "'127.0.0.1:$port'");
for ([ 'V', 'UPDATE f SET v = v + 1 WHERE id = 1' ], [ 'V', 'SET lockstep.commit_wait = applied; UPDATE f SET v = v + 1 WHERE id = 1' ],
	[ 'Y', 'SET lockstep.commit_wait = applied; UPDATE f SET v = v + 1 WHERE id = 1' ], [ 'l', 'SET lockstep.update_order = queued; UPDATE f SET v = v + 1 WHERE id = 1' ],
	[ 'n', 'SET lockstep.causal_reads = on; SELECT count(*) FROM f' ], [ 's', "SELECT nextval('s') FROM generate_series(1, 100)" ])
{
	my ($type, $command) = @$_;
	my $s = $c->session(3);
	$s->query('UPDATE f SET v = v + 1 WHERE id = 2');
	$c->file('lose', $type);
	my $begin = time;
	$s->query($command, 60);
	my $took = sprintf '%.1f', time - $begin;
	cmp_ok($took, '<', LockstepCluster::soon(10), "without '$type': $command") or diag($s->error);
	note("$took s: ", $s->error);
	$c->file('lose', '-');
	$s->close;
}
$c->set(3, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
$lossy->stop;

# ---------- on the way

my $types = 'HCAWLlBQRPDVYFZNnKOoSsUutTIiJE';
my @foreign = ('CWlVYnosutiE', 'HALBQRPDFZOSUTI');	# those that only the other side sends, by who sends

# What becomes of a message; earlier: some that went the same way.
sub mangled
{
	my ($side, $message, $earlier) = @_;
	my $how = 1 + int rand 8;
	my ($type, $length, $payload) = unpack('aNa*', $message);
	return ($message, $message) if $how == 1;
	return ($earlier->[ rand @$earlier ], $message) if $how == 2 && @$earlier;
	return (substr($message, 0, int rand length $message), undef) if $how == 3;
	return (pack('aNa*', $type, $length + 1 + int rand 1e9, $payload)) if $how == 4;
	return (pack('aN/a*', substr($foreign[$side], rand length $foreign[$side], 1), $payload)) if $how == 5;
	return (pack('aN/a*', substr($types, rand length $types, 1), LockstepFuzzed::random_bytes(int rand 80)), $message) if $how == 6;
	return (pack('aN/a*', $type, $payload . LockstepFuzzed::random_bytes(1 + int rand 20))) if $how == 7;
	return (pack('aN/a*', $type, substr($payload, 0, int rand(1 + length $payload)))) if $how == 8;
	return ($message);
}

# ---------- who uses it, and who does not

my $relay = LockstepRelay->new($c->{base} + 9, $c->{base}, sub { rand(1000) < 100 ? mangled(@_) : $_[1] }, seed => $f->seed);
$c->set(3, 'lockstep.replicator', "'127.0.0.1:" . ($c->{base} + 9) . "'");
my $replicator = $c->replicator_pid;
$f->begin;
$f->steady("steady$_", $_, 10 * ($_ - 1) + 1, 10 * $_) for 1, 2;
my @commands = LockstepFuzzed::commands();
for my $i (1 .. 4)
{
	$f->writer("fuzzed$i", sub {
		my ($path) = @_;
		my $s = $c->session(3);
		srand $f->seed + 1000 * $i;
		while ($f->lasts)
		{
			my $begin = time;
			my $command = $commands[ rand @commands ]->();
			$s->query($command, 60);
			$f->note_down($path, sprintf('%.2f %s %s', time - $begin, LockstepFuzzed::outcome($s), $command));
			$s->error =~ /ERROR/ ? $s->query('ROLLBACK', 60) : 1;
			$s = $c->session(3) if $s->error =~ /server closed|no connection|terminat|gone/;
		}
	});
}
$f->wait;
$c->set(3, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
$relay->stop;

# ---------- what it has cost

my ($failed, $slow, %said) = $f->steady_notes(8);
my (@stuck, $longest);
$longest = 0;
for ($f->notes('fuzzed'))
{
	my ($took, $what, $command) = split / /, $_, 3;
	$said{$what}++;
	$longest = $took if $took > $longest;
	# 3 s, and as long for each that it waits behind; 30 and 49 s while a backend that had lost its verdict was told for ever that the replicator is alive
	push @stuck, "$took s: $command" if $took > LockstepCluster::soon(25);
}
diag("longest wait: $longest s");
diag(join ', ', map { "$_: $said{$_}" } sort keys %said);
is($c->replicator_pid, $replicator, 'the replicator goes on');
unlike(join('', map { $c->node_log($_) } $c->all), qr/was terminated by signal|PANIC|TRAP:/, 'no backend crashes');
is($failed, '', 'transactions by other links do not fail');
is($slow, '', 'nor wait');
is(join("\n", @stuck), '', 'no fuzzed session waits without end');
cmp_ok($said{ok} // 0, '>', 20, 'and the next transaction goes on');
$c->wait_state($_, 'online', 30) for $c->all;
ok($c->wait_until(sub { ($c->try(3, "INSERT INTO f VALUES (-1, 0, 'after')"))[1] eq '' }, 20), 'with an honest replicator it writes');
$c->drain;
$c->same('the nodes are equal');
done_testing;
