# A psql that stays connected, for interleavings.
#
#	$s->query('BEGIN')		runs, waits, returns stdout; ->{error} holds stderr
#	$s->send('COMMIT')		only sends; ->blocked, ->finish
package LockstepSession;
use strict;
use warnings;
use Carp;
use IPC::Run ();
use Time::HiRes qw(time);

my $marker = 'lockstep-session-end';

sub new
{
	my ($class, $psql, $conninfo, $options, $name) = @_;
	my $self = bless { in => '', out => '', err => '', name => $name, error => '', busy => 0, timeout => 60 }, $class;
	local $ENV{PGOPTIONS} = $options // '';

	$self->{timer} = IPC::Run::timer(1);
	$self->{run} = IPC::Run::start(
		[ $psql, '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $conninfo ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err});
	$self->{pid} = $self->query('SELECT pg_backend_pid()');
	croak "no session: $self->{error}" unless $self->{pid} =~ /^\d+$/;
	return $self;
}

sub pid { return $_[0]->{pid} }
sub error { return $_[0]->{error} }

# Send; the answer is complete when the marker came on both streams.
sub send
{
	my ($self, $sql) = @_;
	croak "$self->{name}: a statement is running" if $self->{busy};
	$self->{out} = $self->{err} = '';
	$self->{in} .= "$sql\n;\n\\echo $marker\n\\warn $marker\n";
	$self->{busy} = 1;
	$self->_pump(0);
	return $self;
}

sub _complete
{
	my ($self) = @_;
	# with its newline, which may come by itself and would be taken for the next answer's
	return $self->{out} =~ /^$marker\n/m && $self->{err} =~ /^$marker\n/m;
}

# Let data flow for at most so many seconds, or until complete.
sub _pump
{
	my ($self, $seconds) = @_;
	my $end = time + $seconds;
	local $SIG{PIPE} = 'IGNORE';	# psql has ended, and is still written to
	while (!$self->_complete)
	{
		my $alive = eval { $self->{run}->pump_nb; 1 } && $self->{run}->pumpable;
		last if $self->_complete;
		if (!$alive)
		{
			$self->{lost} = 1;
			last;
		}
		last if time >= $end && $self->{in} eq '';
		select(undef, undef, undef, 0.005);
	}
}

# Is the statement still running, so many seconds after the server has begun with it?
sub blocked
{
	my ($self, $seconds) = @_;
	my $end = time + 10;
	$self->_pump(0.005) until $self->_has_begun || $self->_complete || $self->{lost} || time > $end;
	$self->_pump($seconds // 0.3);
	return !$self->_complete && !$self->{lost};
}

# By the title of its process: psql may not have had the time to send it.  (One that is stopped has none.)
sub _has_begun
{
	my ($self) = @_;
	my ($title, $stat) = ('', '');
	if (open(my $f, '<', "/proc/$self->{pid}/cmdline")) { $title = <$f> // '' }
	if (open(my $f, '<', "/proc/$self->{pid}/stat")) { $stat = <$f> // '' }
	return $title !~ /^postgres: .* idle(?: in transaction(?: \(aborted\))?)?[\s\0]*$/ || $stat =~ /^\d+ \(.*\) [TZ]/;
}

# A time is there so that what never comes is found out.  What does come may take long
# on a busy machine: where a test has some patience, it has enough.
sub patience { my ($seconds) = @_; return $seconds >= 5 && $seconds < 60 ? 60 : $seconds }

# Wait for the statement; returns stdout, ->error is stderr.
sub finish
{
	my ($self, $seconds) = @_;
	$self->_pump(patience($seconds // $self->{timeout}));
	croak "$self->{name}: no answer in time: $self->{out}$self->{err}" unless $self->_complete || $self->{lost};
	$self->{busy} = 0;
	my ($out, $err) = ($self->{out}, $self->{err});
	s/^$marker\n?//mg for $out, $err;
	chomp $out;
	# psql ended in a statement before: what never was sent must not look as if it had been done
	$err .= "no session: psql has ended\n" if $self->{lost} && $err eq '';
	$self->{error} = $err;
	return $out;
}

sub query
{
	my ($self, $sql, $seconds) = @_;
	$self->send($sql);
	return $self->finish($seconds);
}

# query, and an error ends the test
sub do
{
	my ($self, $sql, $seconds) = @_;
	my $out = $self->query($sql, $seconds);
	croak "$self->{name}: $sql\n$self->{error}" if $self->{error} =~ /^(?:ERROR|FATAL)|server closed/m;
	return $out;
}

# The client process is killed, as by kill -9.
sub kill
{
	my ($self) = @_;
	$self->{run}->signal('KILL');
	eval { $self->{run}->finish };
	$self->{closed} = 1;
}

sub close
{
	my ($self) = @_;
	return if $self->{closed};
	$self->{closed} = 1;
	eval { $self->{run}->kill_kill(grace => 1) };
}

1;
