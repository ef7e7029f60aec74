# Between backends and their replicator: passes messages on, but for those that a function changes.
#
#	my $relay = LockstepRelay->new($port, $target, sub { my ($side, $message, $earlier) = @_; ... });
#	$relay->stop;
#
# Side 0 is the backend, 1 the replicator.  Until both sides have proved who they are (two messages of each) everything passes.
# The function returns what is sent instead, message by message; undef ends the connection.  earlier: up to 20 messages that went
# the same way before.  Each connection has a process, with numbers from srand($seed + its number), if seed => is given.
package LockstepRelay;
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use POSIX ();
use Test::More;

my @running;

sub _relay_one
{
	my ($client, $port, $change) = @_;
	my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) or POSIX::_exit(0);
	my @to = ($server, $client);
	my @from = ($client, $server);
	my @bytes = ('', '');
	my @earlier = ([], []);
	my @passed = (0, 0);
	my $select = IO::Select->new(@from);
	local $SIG{PIPE} = 'IGNORE';
	while (1)
	{
		for my $s ($select->can_read)
		{
			my $i = $s == $client ? 0 : 1;
			my $n = sysread($s, $bytes[$i], 65536, length $bytes[$i]);
			POSIX::_exit(0) if !$n;
			while (length $bytes[$i] >= 5)
			{
				my $length = unpack('xN', $bytes[$i]);
				last if length $bytes[$i] < 5 + $length;
				my $message = substr($bytes[$i], 0, 5 + $length, '');
				# hello and proof; challenge and welcome
				my @parts = $passed[$i]++ >= 2 ? $change->($i, $message, $earlier[$i]) : ($message);
				push @{ $earlier[$i] }, $message;
				shift @{ $earlier[$i] } if @{ $earlier[$i] } > 20;
				for my $part (@parts)
				{
					POSIX::_exit(0) if !defined $part;
					for (my $at = 0; $at < length $part;)
					{
						$at += syswrite($to[$i], $part, length($part) - $at, $at) || POSIX::_exit(0);
					}
				}
			}
		}
	}
}

sub new
{
	my ($class, $port, $target, $change, %o) = @_;
	my $listener = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die("port $port: $!");
	my $pid = fork // die "fork: $!";
	if ($pid)
	{
		push @running, [ $$, $pid ];
		return bless { pid => $pid }, $class;
	}
	$SIG{CHLD} = 'IGNORE';
	setpgrp;
	my $number = 0;
	while (1)
	{
		my $client = $listener->accept or next;
		$number++;
		next if fork;
		close $listener;
		srand(($o{seed} // time) + $number);
		_relay_one($client, $target, $change);
		POSIX::_exit(0);
	}
}

sub stop
{
	my ($self) = @_;
	return unless $self->{pid};
	kill 'KILL', -$self->{pid}, $self->{pid};
	waitpid($self->{pid}, 0);
	@running = grep { $_->[1] != $self->{pid} } @running;
	$self->{pid} = undef;
}

END
{
	my $rc = $?;
	kill 'KILL', -$_->[1], $_->[1] for grep { $_->[0] == $$ } @running;
	$? = $rc;
}

1;
