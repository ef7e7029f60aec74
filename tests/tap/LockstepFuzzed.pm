# The loads of tests whose links are disturbed on purpose: clients that write while it lasts, and note down what became of each command.
#
#	my $f = LockstepFuzzed->new($c, 15);		# LOCKSTEP_FUZZ_SECONDS and LOCKSTEP_LONG change it; makes tables t and f
#	$f->steady('steady1', 1, 1, 10);			# n1 updates rows 1 to 10 of t by a link that nobody disturbs
#	$f->writer('fuzzed1', sub { my ($path) = @_; ... $f->note_down($path, ...) while $f->lasts });
#	$f->wait;
#	my ($failed, $slow, %said) = $f->steady_notes(8);	# of steady writers
#	$f->notes('fuzzed')							# lines of writers whose names begin so
package LockstepFuzzed;
use strict;
use warnings;
use LockstepCluster;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

sub new
{
	my ($class, $c, $seconds) = @_;
	$seconds = $ENV{LOCKSTEP_FUZZ_SECONDS} // ($ENV{LOCKSTEP_LONG} ? 300 : $seconds);
	my $seed = $ENV{LOCKSTEP_SEED} // int(rand 1e9);
	diag("LOCKSTEP_SEED=$seed");
	srand $seed;
	$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE f (id int PRIMARY KEY, v int, x text);
CREATE SEQUENCE s;
INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i;
INSERT INTO f SELECT i, 0, 'x' FROM generate_series(1, 50) i;
SQL
	$c->drain;
	return bless { cluster => $c, seconds => $seconds, seed => $seed, end => 0, writers => [] }, $class;
}

sub seed { return $_[0]{seed} }

# Its time begins.
sub begin { my ($self) = @_; $self->{end} = time + $self->{seconds}; return }
sub lasts { return time < $_[0]{end} }

sub random_bytes { my ($n) = @_; return join '', map { chr int rand 256 } 1 .. $n }

sub note_down
{
	my ($self, $path, $line) = @_;
	open(my $f, '>>', $path) or die "$path: $!";
	print $f "$line\n";
	close $f;
	return;
}

sub writer
{
	my ($self, $name, $code) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		$code->("$self->{cluster}{top}/$name");
		POSIX::_exit(0);
	}
	push @{ $self->{writers} }, $pid;
	return;
}

sub wait { my ($self) = @_; waitpid($_, 0) for @{ $self->{writers} }; return }

# What became of a session's last command, in a word.
sub outcome
{
	my ($s) = @_;
	return $s->error =~ /(?:ERROR|FATAL): +(\w+)/ ? $1 : $s->error ? 'lost' : 'ok';
}

sub steady
{
	my ($self, $name, $node, $first, $last) = @_;
	$self->writer($name, sub {
		my ($path) = @_;
		my $c = $self->{cluster};
		my $s = $c->session($node);
		while ($self->lasts)
		{
			my $begin = time;
			$s->query('UPDATE t SET v = v + 1 WHERE id = ' . ($first + int rand($last - $first + 1)), 60);
			$self->note_down($path, sprintf('%.2f %s', time - $begin, outcome($s)));
			$s = $c->session($node) if $s->error && $s->error !~ /ERROR: +\w+/;
		}
	});
	return;
}

sub notes
{
	my ($self, $name) = @_;
	return map { split /\n/, LockstepCluster::_slurp($_) } glob "$self->{cluster}{top}/$name*";
}

# Those that failed, those that took longer than so many seconds, and how often what was said.
sub steady_notes
{
	my ($self, $patience) = @_;
	my (@failed, @slow, %said);
	for ($self->notes('steady'))
	{
		my ($took, $what) = split / /;
		push @failed, $what if $what !~ /^(?:ok|40001|40P01)$/;
		push @slow, $took if $took > $patience;
		$said{"direct $what"}++;
	}
	return ("@failed", "@slow", %said);
}

# Commands that use all messages of a link.
sub commands
{
	return (
		(sub { 'UPDATE f SET v = v + 1 WHERE id = ' . (1 + int rand 50) }) x 2,
		sub { 'INSERT INTO f VALUES (' . int(1000 + rand 1e6) . ", nextval('s'), 'y')" },
		sub { 'BEGIN; SAVEPOINT a; UPDATE f SET v = v + 1 WHERE id = 7; ROLLBACK TO a; DELETE FROM f WHERE id = (SELECT max(id) FROM f WHERE id > 50); COMMIT' },
		sub { 'SET lockstep.update_order = queued; UPDATE f SET v = v + 1 WHERE id = ' . (1 + int rand 50) . '; RESET lockstep.update_order' },
		sub { 'SET lockstep.causal_reads = on; SELECT count(*) FROM f; RESET lockstep.causal_reads' },
		sub { 'SET lockstep.commit_wait = applied; UPDATE f SET v = 1 WHERE id = 11; RESET lockstep.commit_wait' },
		sub { "SELECT nextval('s')" },
		sub { 'SELECT * FROM lockstep.conflicts; SELECT * FROM lockstep.nodes; SELECT * FROM lockstep.waits; SELECT * FROM lockstep.events' },
		sub { 'SELECT lockstep.outcome(lockstep.transaction_token())' },
		sub { "BEGIN; LOCK TABLE f; UPDATE f SET x = repeat('z', 50000) WHERE id = 9; COMMIT" },
		sub { 'CREATE TABLE IF NOT EXISTS d (id int); DROP TABLE IF EXISTS d' },
		sub { 'BEGIN; UPDATE f SET v = 0 WHERE id = 3; ROLLBACK' },
	);
}

1;
