# A load on all nodes for tests in which something fails meanwhile: each transaction adds 1 to one of a few
# counters and leaves a mark of its own.  What each client was told is noted, and at the end compared with what
# is there: nothing that was acknowledged is lost, nothing is there twice.
#
#	my $load = LockstepCounters->new($c);			# table counter and mark, a writer on each node
#	LockstepCounters->new($c, at => $port, writers => 3)	# writers at that port instead
#	$load->goes_on($since, 'the leader is killed');	# a test: a transaction begun since then is acknowledged
#	$load->acknowledged($since)						# how many that were begun since then
#	$load->said($since)								# (ok => 20, 40001 => 3), of all that were begun since then
#	$load->longest_pause($since)					# seconds without an acknowledgement, of any writer
#	$load->stop_and_compare;						# the tests at the end
package LockstepCounters;
use strict;
use warnings;
use LockstepCluster;
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

my $counters = 10;

sub new
{
	my ($class, $c, %o) = @_;
	my $self = bless { cluster => $c, told => [], offsets => {}, writers => [], at => $o{at}, names => [ $o{at} ? 1 .. $o{writers} : $c->all ] }, $class;

	$c->sql(1, "CREATE TABLE counter (id int PRIMARY KEY, v int NOT NULL); INSERT INTO counter SELECT g, 0 FROM generate_series(1, $counters) g");
	$c->sql(1, 'CREATE TABLE mark (id text PRIMARY KEY, node int)');
	for my $node (@{ $self->{names} })
	{
		my $pid = fork // die "fork: $!";
		if ($pid == 0)
		{
			$self->_write($node);
			POSIX::_exit(0);
		}
		push @{ $self->{writers} }, $pid;
	}
	return $self;
}

# A writer, until it is to stop: when a transaction began, when it was answered, its mark, and what was said.
sub _write
{
	my ($self, $node) = @_;
	my $c = $self->{cluster};
	my $s;

	open(my $log, '>', "$c->{top}/told-$node") or die;
	$log->autoflush;
	# it does not outlive a test that has died
	for (my $i = 1; !-e "$c->{top}/stop" && getppid() == $c->{test_pid}; $i++)
	{
		my $id = "$node-$i";
		my $counter = 1 + int rand $counters;
		my $began = time;
		my $error = eval {
			$s //= $self->{at} ? LockstepSession->new("$LockstepCluster::bindir/psql", "host=127.0.0.1 port=$self->{at} user=postgres dbname=app", undef, $node) : $c->session($node);
			$s->query("BEGIN; INSERT INTO mark VALUES ('$id', $node); UPDATE counter SET v = v + 1 WHERE id = $counter; COMMIT");
			$s->error;
		} // "? $@";
		printf $log "%.3f %.3f %s %s\n", $began, time, $id,
			# after FATAL, which may have come behind COMMIT, the outcome is not known
			$error eq '' ? 'ok' : $error =~ /ERROR:\s+([0-9A-Z]{5}):/ ? $1 : $error =~ /FATAL:\s+([0-9A-Z]{5}):/ ? "? $1" : "? $error" =~ tr/\n/ /r;
		if ($error =~ /closed the connection|terminat|no connection|no session|^\?/ || $self->{at} && $error =~ /ERROR:\s+(?:25006|57P03):/) { undef $s }
		elsif ($error ne '') { $s->query('ROLLBACK') }
		usleep(10_000);
	}
}

# What the writers have noted by now.
sub _read
{
	my ($self) = @_;
	for my $file (glob("$self->{cluster}{top}/told-*"))
	{
		open(my $f, '<', $file) or next;
		seek($f, $self->{offsets}{$file} // 0, 0);
		while (my $line = <$f>)
		{
			last if $line !~ s/\n$//;
			$self->{offsets}{$file} = tell $f;
			push @{ $self->{told} }, [ split / /, $line, 4 ];
		}
	}
	return $self->{told};
}

# The ones that were begun since then, and acknowledged.
sub acknowledged
{
	my ($self, $since) = @_;
	return grep { $_->[3] eq 'ok' && $_->[0] >= $since } @{ $self->_read };
}

# What was said to those that were begun since then, and how often.
sub said
{
	my ($self, $since) = @_;
	my %said;
	$said{ $_->[3] }++ for grep { $_->[0] >= $since } @{ $self->_read };
	return %said;
}

sub longest_pause
{
	my ($self, $since) = @_;
	my ($last, $longest) = ($since, 0);
	for (sort { $a <=> $b } map { $_->[1] } grep { $_->[3] eq 'ok' && $_->[1] >= $since } @{ $self->_read })
	{
		$longest = $_ - $last if $_ - $last > $longest;
		$last = $_;
	}
	return $longest;
}

# A test: on all nodes, or on that one, if given.  Seconds until the first one was acknowledged.
sub goes_on
{
	my ($self, $since, $what, @nodes) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	@nodes = @{ $self->{names} } unless @nodes;
	my @acked;
	my $all = sub {
		@acked = $self->acknowledged($since);
		my %on = map { $_->[2] =~ /^(\d+)-/ ? ($1 => 1) : () } @acked;
		return !grep { !$on{$_} } @nodes;
	};

	ok($self->{cluster}->wait_until($all, 30), "$what: writers go on") or $self->_show_last;
	my ($first) = sort { $a <=> $b } map { $_->[1] } @acked;
	return defined $first ? $first - $since : 99;
}

# What each writer said last, and what the nodes say of those who wait.
sub _show_last
{
	my ($self) = @_;
	my %last;
	$last{ $_->[2] =~ s/-.*//r } = join ' ', @$_ for @{ $self->_read };
	diag(sprintf 'now %.3f', time);
	diag($last{$_}) for sort keys %last;
	diag(scalar $self->{cluster}->ctl('waits'));
	diag($self->{cluster}->try($_, "SELECT string_agg(concat_ws(' ', pid, state, wait_event_type, wait_event, now() - state_change, left(query, 60)), E'\n') FROM pg_stat_activity WHERE backend_type = 'client backend'"))
		for $self->{cluster}->all;
}

sub stop
{
	my ($self) = @_;
	$self->{cluster}->file('stop', '');
	waitpid($_, 0) for splice @{ $self->{writers} };
}

# Tests.
sub stop_and_compare
{
	my ($self) = @_;
	my $c = $self->{cluster};
	my (%said, @lost, @undone);

	$self->stop;
	ok($c->wait_until(sub { my $n = $c->status->{nodes}; $n && !grep { $_->{state} ne 'online' } @$n }, 30), 'all nodes are online');
	$c->same('all nodes are equal');
	my %there = map { $_ => 1 } split /\n/, $c->sql(1, 'SELECT id FROM mark');
	for (@{ $self->_read })
	{
		my ($began, $ended, $id, $what) = @$_;
		$said{$what}++;
		push @lost, $id if $what eq 'ok' && !$there{$id};
		push @undone, "$id $what" if $what !~ /^(?:ok|08007|\?)/ && $there{$id};
	}
	diag(join ', ', map { "$_: $said{$_}" } sort keys %said);
	cmp_ok($said{ok} // 0, '>', 20, 'there was load');
	is("@lost", '', 'nothing that was acknowledged is lost');
	is("@undone", '', 'nothing that failed is there');
	is($c->sql(1, 'SELECT sum(v) - (SELECT count(*) FROM mark) FROM counter'), '0', 'each transaction has been executed once');
	$self->same_journals;
}

# A test: byte by byte, but for the room behind their ends.
sub same_journals
{
	my ($self) = @_;
	my $c = $self->{cluster};
	my %files;
	my $equal = sub {
		%files = map { my $d = "$c->{dir}/journal" . ($_ == 1 ? '' : $_); scalar(`cd $d && for f in *.journal; do echo "\$f \$(tr -d '\\0' < \$f | sha256sum)"; done`) => $_ } $c->replicators;
		return keys %files == 1;
	};

	ok($c->wait_until($equal, 10), 'the journals are equal') or diag(map { "r$files{$_}:\n$_" } keys %files);
}

1;
