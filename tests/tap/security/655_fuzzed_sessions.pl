# Sessions whose messages are changed on the way, in both directions, after both sides have proved who they are: doubled,
# repeated later, cut short, lengthened, of another type, or random.  It costs the sender its connection: no process
# crashes, none waits for longer than its settings say, nobody else notices, and the nodes stay equal.  (None is left out:
# TCP does not do that, and a replicator that answers and gives no verdict is trusted to have a reason.)
#
# LOCKSTEP_FUZZ_SECONDS (20; LOCKSTEP_LONG: 300), LOCKSTEP_SEED.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepRelay;
use POSIX ();
use Test::More;
use Time::HiRes qw(time sleep);

my $seconds = $ENV{LOCKSTEP_FUZZ_SECONDS} // ($ENV{LOCKSTEP_LONG} ? 300 : 20);
my $seed = $ENV{LOCKSTEP_SEED} // int(rand 1e9);
diag("LOCKSTEP_SEED=$seed");
srand $seed;
my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.replicator_timeout = 3s\nlockstep.failover_wait = 1s\nlockstep.connect_timeout = 3s\n",
	replicator_conf => "node_timeout = 5s\nreconnect_interval = 200ms\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE f (id int PRIMARY KEY, v int, x text);
CREATE SEQUENCE s;
INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO f SELECT i, 0, 'x' FROM generate_series(1, 50) i;
SQL
$c->drain;

# ---------- on the way

my $types = 'HCAWLlBQRPDVYFZNnKOoSsUutTIiJE';
my @foreign = ('CWlVYnosutiE', 'HALBQRPDFZOSUTI');	# those that only the other side sends, by who sends

sub random_bytes { my ($n) = @_; return join '', map { chr int rand 256 } 1 .. $n }

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
	return (pack('aN/a*', substr($types, rand length $types, 1), random_bytes(int rand 80)), $message) if $how == 6;
	return (pack('aN/a*', $type, $payload . random_bytes(1 + int rand 20))) if $how == 7;
	return (pack('aN/a*', $type, substr($payload, 0, int rand(1 + length $payload)))) if $how == 8;
	return ($message);
}

# ---------- who uses it, and who does not

my @writers;

sub writer
{
	my ($name, $code) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$code->("$c->{top}/$name");
		POSIX::_exit(0);
	}
	push @writers, $pid;
}

sub note_down { my ($path, $line) = @_; open(my $f, '>>', $path) or die; print $f "$line\n"; close $f }

my $relay = LockstepRelay->new($c->{base} + 9, $c->{base}, sub { rand(1000) < 100 ? mangled(@_) : $_[1] }, seed => $seed);
$c->set(3, 'lockstep.replicator', "'127.0.0.1:" . ($c->{base} + 9) . "'");
my $replicator = $c->replicator_pid;
my $end = time + $seconds;

for my $n (1, 2)
{
	writer("steady$n", sub {
		my ($path) = @_;
		my $s = $c->session($n);
		while (time < $end)
		{
			my $id = 10 * ($n - 1) + 1 + int rand 10;
			my $begin = time;
			$s->query("UPDATE t SET v = v + 1 WHERE id = $id", 60);
			note_down($path, sprintf('%.2f %s', time - $begin, $s->error =~ /ERROR: +(\w+)/ ? $1 : $s->error ? 'lost' : 'ok'));
			$s = $c->session($n) if $s->error && $s->error !~ /ERROR: +\w+/;
		}
	});
}
my @commands = (
	sub { my $i = 1 + int rand 50; "UPDATE f SET v = v + 1 WHERE id = $i" },
	sub { my $i = 1000 + int rand 1e6; "INSERT INTO f VALUES ($i, nextval('s'), 'y')" },
	sub { 'BEGIN; SAVEPOINT a; UPDATE f SET v = v + 1 WHERE id = 7; ROLLBACK TO a; DELETE FROM f WHERE id = (SELECT max(id) FROM f WHERE id > 50); COMMIT' },
	sub { my $i = 1 + int rand 50; "SET lockstep.update_order = queued; UPDATE f SET v = v + 1 WHERE id = $i; RESET lockstep.update_order" },
	sub { 'SET lockstep.causal_reads = on; SELECT count(*) FROM f; RESET lockstep.causal_reads' },
	sub { "SELECT nextval('s')" },
	sub { 'SELECT * FROM lockstep.conflicts; SELECT * FROM lockstep.nodes; SELECT lockstep.outcome(lockstep.transaction_token())' },
	sub { "BEGIN; LOCK TABLE f; UPDATE f SET x = repeat('z', 50000) WHERE id = 9; COMMIT" },
	sub { 'CREATE TABLE IF NOT EXISTS d (id int); DROP TABLE IF EXISTS d' },
	sub { 'BEGIN; UPDATE f SET v = 0 WHERE id = 3; ROLLBACK' },
);
for my $i (1 .. 4)
{
	writer("fuzzed$i", sub {
		my ($path) = @_;
		my $s = $c->session(3);
		srand $seed + 1000 * $i;
		while (time < $end)
		{
			my $begin = time;
			my $command = $commands[ rand @commands ]->();
			$s->query($command, 60);
			note_down($path, sprintf('%.2f %s %s', time - $begin, $s->error =~ /(?:ERROR|FATAL): +(\w+)/ ? $1 : $s->error ? 'lost' : 'ok', $command));
			$s->error =~ /ERROR/ ? $s->query('ROLLBACK', 60) : 1;
			$s = $c->session(3) if $s->error =~ /server closed|no connection|terminat|gone/;
		}
	});
}
waitpid($_, 0) for @writers;
$c->set(3, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
$relay->stop;

# ---------- what it has cost

my (%said, @slow, @failed);
for my $path (glob "$c->{top}/steady*")
{
	for (split /\n/, LockstepCluster::_slurp($path))
	{
		my ($took, $what) = split / /;
		push @failed, $what if $what !~ /^(ok|40001|40P01)$/;
		push @slow, $took if $took > 8;
		$said{"direct $what"}++;
	}
}
my @stuck;
for my $path (glob "$c->{top}/fuzzed*")
{
	for (split /\n/, LockstepCluster::_slurp($path))
	{
		my ($took, $what, $command) = split / /, $_, 3;
		$said{$what}++;
		push @stuck, "$took s: $command" if $took > 25;
	}
}
diag(join ', ', map { "$_: $said{$_}" } sort keys %said);
is($c->replicator_pid, $replicator, 'the replicator goes on');
unlike(join('', map { $c->node_log($_) } $c->all), qr/was terminated by signal|PANIC|TRAP:/, 'no backend crashes');
is("@failed", '', 'transactions by other links do not fail');
is("@slow", '', 'nor wait');
is(join("\n", @stuck), '', 'a fuzzed session has its error in the time that its settings say');
cmp_ok($said{ok} // 0, '>', 20, 'and the next transaction goes on');
$c->wait_state($_, 'online', 30) for $c->all;
ok($c->wait_until(sub { ($c->try(3, "INSERT INTO f VALUES (-1, 0, 'after')"))[1] eq '' }, 20), 'with an honest replicator it writes');
$c->drain;
$c->same('the nodes are equal');
done_testing;
