# A replicator that has proved who it is and then lies: fields of its messages have other values (numbers from one end to the other,
# texts that are long, not text, or formats), are missing, twice, of another message; and it says what nobody has asked.  The
# replicator is trusted, so what is committed by its lies is not looked at.  But no backend crashes or takes memory without end,
# none waits where it cannot be ended, and nobody who does not use it notices.
#
# LOCKSTEP_FUZZ_SECONDS (15; LOCKSTEP_LONG: 300), LOCKSTEP_SEED.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepFuzzed;
use LockstepRelay;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "max_connections = 300\nlockstep.replicator_timeout = 3s\nlockstep.failover_wait = 1s\nlockstep.connect_timeout = 3s\n",
	replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 200ms\n");
my $f = LockstepFuzzed->new($c, 15);

# ---------- lies

sub fields
{
	my ($payload) = @_;
	my @fields;
	push @fields, [ unpack('aN/a', $payload) ] and $payload = substr($payload, 5 + length $fields[-1][1]) while length $payload >= 5;
	return @fields;
}
sub message { my ($type, @fields) = @_; return pack('aN/a*', $type, join '', map { pack('aN/a*', @$_) } @fields) }
sub number { my @n = (0, 1, 2, 3, 7, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, ~0, ~0 - 1, int rand 1000, int rand 1e15); return $n[ rand @n ] }
my @texts = ('', '%s%n%s%n', "\x00", "a\x00b", "\xff\xfe\xc0", "\x02pg_authid\x1fhidden\x03", "\x02", "\x02\x1e\x1f", 'x' x 100_000, "two\nlines", '$1 "\'\\', '40001', 'XX000', '00000');
sub value
{
	my ($old) = @_;
	my $n = length $old;
	return pack('Q>', number()) if $n == 8;
	return pack('N', number() & 0xffffffff) if $n == 4 && rand() < 0.5;
	return pack('C', rand() < 0.5 ? ord substr('crwupoeasS', rand 10, 1) : int rand 256) if $n == 1;
	my $how = int rand 4;
	return $texts[ rand @texts ] if $how == 0;
	return LockstepFuzzed::random_bytes(int rand 40) if $how == 1;
	return substr($old, 0, int rand(1 + $n)) if $how == 2;
	substr($old, rand $n, 1) = chr int rand 256 if $n;
	return $old;
}
my @own = (
	sub { my ($x) = @_; message('V', [ 'X', $x ], [ 'O', 'c' ], [ 'S', pack('Q>', number()) ], [ 'c', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('V', [ 'X', $x ], [ 'O', 'r' ], [ 'q', $texts[-3 + rand 3] ], [ 'm', $texts[ rand @texts ] ], [ 'd', $texts[ rand @texts ] ], [ 'h', $texts[ rand @texts ] ], [ 'k', LockstepFuzzed::random_bytes(8 * int rand 9) ], [ 'a', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('V', [ 'X', $x ], [ 'O', 'w' ]) },
	sub { my ($x) = @_; message('Y', [ 'X', $x ]) },
	sub { my ($x) = @_; message('l', [ 'X', $x ], [ 'S', pack('Q>', number()) ], [ 'N', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('n', [ 'X', $x ], [ 'S', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('o', [ 'Q', $x ], [ 'O', substr('crpu', rand 4, 1) ], [ 'S', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('s', [ 'X', $x ], [ 'F', pack('Q>', number()) ], [ 'C', pack('Q>', number()) ], [ 'S', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('u', [ 'X', $x ], [ 'S', pack('Q>', number()) ]) },
	sub { my ($x) = @_; message('t', [ 'X', $x ]) },
	sub { my ($x) = @_; my $n = 1 + int rand 20; message('i', [ 'Q', $x ], [ 'C', pack('N', $n) ], [ 'M', join '', map { rand() < 0.2 ? pack('N', 0xffffffff) : pack('N/a*', $texts[ rand @texts ]) } 1 .. $n * int rand 4 ]) },
	sub { message('K') },
	sub { message('E', [ 'q', $texts[-3 + rand 3] ], [ 'm', $texts[ rand @texts ] ], [ 'd', $texts[ rand @texts ] ]) },
);

sub lies
{
	my ($message, $earlier) = @_;
	my ($type, $payload) = unpack('aN/a', $message);
	my @fields = fields($payload);
	my ($asked) = map { $_->[1] } grep { $_->[0] =~ /[XQ]/ && length $_->[1] == 8 } @fields, map { my (undef, $p) = unpack('aN/a', $_); fields($p) } @$earlier;
	my $how = int rand 8;
	if ($how <= 3 && @fields) { my $f = $fields[ rand @fields ]; $f->[1] = value($f->[1]) }
	elsif ($how == 4 && @fields) { splice @fields, rand @fields, 1 }
	elsif ($how == 5 && @fields) { push @fields, [ @{ $fields[ rand @fields ] } ] }
	elsif ($how == 6) { return ($own[ rand @own ]->($asked // pack('Q>', 1))) }
	else { return ($own[ rand @own ]->(rand() < 0.7 && defined $asked ? $asked : pack('Q>', number())), $message) }
	return (message($type, @fields));
}

# ---------- who listens to them, and who does not

my $relay = LockstepRelay->new($c->{base} + 9, $c->{base},
	sub { my ($side, $message, $earlier) = @_; return $side == 1 && rand(1000) < 300 ? lies($message, $earlier) : ($message) }, seed => $f->seed);
$c->set(2, 'lockstep.replicator', "'127.0.0.1:" . ($c->{base} + 9) . "'");
my ($replicator, $postmaster) = ($c->replicator_pid, $c->postmaster_pid(2));
$f->begin;
$f->steady('steady', 1, 1, 20);
my @commands = LockstepFuzzed::commands();
for my $i (1 .. 4)
{
	$f->writer("lied-to$i", sub {
		my ($path) = @_;
		srand $f->seed + 1000 * $i;
		while ($f->lasts)
		{
			my $command = $commands[ rand @commands ]->();
			my $out = eval {
				my $s = $c->session(2);
				for (1 .. 5)
				{
					$s->send($command);
					my $done = !$s->blocked(3);
					$s->finish if $done;
					$f->note_down($path, ($done ? LockstepFuzzed::outcome($s) : 'waits') . " $command");
					last if !$done || $s->error;
					$command = $commands[ rand @commands ]->();
				}
				if ($s->blocked(0))
				{
					$c->sql(2, 'SELECT pg_terminate_backend(' . $s->pid . ')');
					$f->note_down($path, "stuck $command") if $s->blocked(10);
					$s->kill;
				}
				1;
			};
			$f->note_down($path, '? ' . $@ =~ tr/\n/ /r) unless $out;
		}
	});
}
my $most_kb = 0;
while ($f->lasts)
{
	for my $pid ($c->server_pids(2)) { my $kb = eval { $c->memory_kb($pid, 'RssAnon') } // 0; $most_kb = $kb if $kb > $most_kb }
	Time::HiRes::sleep(0.5);
}
$f->wait;

# ---------- what it has cost

my $client = "backend_type = 'client backend' AND pid <> pg_backend_pid()";
ok($c->wait_until(sub { ($c->try(2, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $client", ))[1] eq '' && $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE $client AND application_name !~ 'lockstep'") eq '0' }, 20),
	'each session can be ended') or diag($c->sql(2, "SELECT string_agg(concat_ws(' ', pid, state, wait_event_type, wait_event, left(query, 80)), E'\\n') FROM pg_stat_activity WHERE $client"));
my ($failed, $slow, %said) = $f->steady_notes(15);
my %no_session;
for ($f->notes('lied-to'))
{
	$said{ (split / /)[0] }++;
	$no_session{ s/\d+/N/gr }++ if /^\?/;
}
diag("$no_session{$_} times: $_") for sort keys %no_session;
is($said{stuck} // 0, 0, 'one that waits for what will not come can be ended');
diag(join(', ', map { "$_: $said{$_}" } sort keys %said), "; a backend had up to $most_kb kB");
is($c->replicator_pid, $replicator, 'the replicator goes on');
is($c->postmaster_pid(2), $postmaster, 'the server goes on');
unlike(join('', map { $c->node_log($_) } $c->all), qr/was terminated by signal|PANIC|TRAP:|invalid memory alloc/, 'no backend crashes');
cmp_ok($most_kb, '<', 400_000, 'none takes memory without end');
is($failed, '', 'transactions of the other node do not fail');
is($slow, '', 'nor wait');
cmp_ok(($said{ok} // 0), '>', 0, 'there was what could be lied about');
$relay->stop;
$c->sql(1, 'INSERT INTO f VALUES (-1, 0, \'after\')');
is($c->sql(1, 'SELECT count(*) FROM f WHERE id = -1'), '1', 'the other node writes');
done_testing;
