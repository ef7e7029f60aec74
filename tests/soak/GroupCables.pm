# Cables of a LockstepCluster with a group of replicators, each a process of soak/proxy, between any two of them:
# replicators among each other, to etcd, to the nodes, and nodes to the replicators.
#
#	my $cables = GroupCables->new($c);		# and everybody uses them
#	$cables->cut('r1', 'r2');				# nothing goes through any more, in neither direction, and nobody is told
#	$cables->cut('r1', 'etcd');
#	$cables->cut('r1', 'n2');
#	$cables->isolate('r1', 'r2', 'r3');		# from each of these
#	$cables->heal;							# all, or those of heal('r1', 'r2'): what had been on its way arrives
#	$cables->reset('r1', 'r2');				# what is connected is not any more
package GroupCables;
use strict;
use warnings;
use Carp;
use IPC::Open2;
use LockstepCluster;
use Test::More;

my $soak = "$LockstepCluster::tests/soak";

# Starts the replicators anew, so that they use them.
sub new
{
	my ($class, $c) = @_;
	is(system("make -s -C $soak >&2"), 0, 'the cables are built') or die('no harness');
	my $self = bless { cluster => $c, pids => {}, pipes => {}, silent => {}, test_pid => $$ }, $class;
	my $base = $c->{base};

	for my $i ($c->replicators)
	{
		$self->_plug("r$i", 'etcd', $base + 4000 + $i, $base + 3000, 'raw');
		$self->_plug("r$i", "r$_", $base + 5000 + 3 * ($i - 1) + $_ - 1, $base + 2000 + $_, 'lockstep') for grep { $_ != $i } $c->replicators;
		for my $n ($c->all)
		{
			$self->_plug("r$i", "n$n", $base + 6000 + 3 * ($i - 1) + $n - 1, $c->port($n), 'postgres');
			$self->_plug("n$n", "r$i", $base + 7000 + 3 * ($n - 1) + $i - 1, $i == 1 ? $base : $base + 1000 + $i, 'lockstep');
		}
	}
	$self->_use;
	return $self;
}

sub _plug
{
	my ($self, $from, $to, $port, $target, $protocol) = @_;
	my $pid = open2(my $out, my $in, "$soak/proxy", $port, $target, $protocol);
	defined scalar <$out> or croak "no cable on port $port";
	$self->{pids}{"$from $to"} = $pid;
	$self->{ports}{"$from $to"} = $port;
	$self->{pipes}{"$from $to"} = [ $in, $out ];
}

sub port { my ($self, $from, $to) = @_; return $self->{ports}{"$from $to"} }

sub _use
{
	my ($self) = @_;
	my $c = $self->{cluster};

	$c->cluster('stop-replicator', $_) for $c->replicators;
	for my $i ($c->replicators)
	{
		my $file = "$c->{dir}/replicator" . ($i == 1 ? '' : $i) . '.conf';
		my $text = LockstepCluster::_slurp($file);
		$text =~ s/^(replicator\.r(\d) = '127.0.0.1:)\d+/$2 == $i ? $& : $1 . $self->port("r$i", "r$2")/gme;
		$text =~ s/^(etcd_endpoints = 'http:\/\/127.0.0.1:)\d+/$1 . $self->port("r$i", 'etcd')/gme;
		$text =~ s/^(node\.n(\d) = '.*port=)\d+/$1 . $self->port("r$i", "n$2")/gme;
		open(my $f, '>', $file) or croak "$file: $!";
		print $f $text;
		close $f;
	}
	for my $n ($c->all)
	{
		$c->set($n, 'lockstep.replicator', "'" . join(', ', map { '127.0.0.1:' . $self->port("n$n", "r$_") } $c->replicators) . "'");
	}
	$c->start_replicator($_) or croak "r$_ does not start" for $c->replicators;
	ok($c->wait_copies(2, 30), 'all are connected by cables');
	ok($c->wait_state($_, 'online', 30), "n$_ is online") for $c->all;
}

# What connects these two, both ways.
sub _between
{
	my ($self, $a, $b) = @_;
	return grep { $self->{pids}{$_} } "$a $b", "$b $a";
}

sub cut
{
	my ($self, $a, $b) = @_;
	for ($self->_between($a, $b))
	{
		kill 'STOP', $self->{pids}{$_};
		$self->{silent}{$_} = 1;
	}
}

sub isolate { my ($self, $a, @others) = @_; $self->cut($a, $_) for @others }

sub heal
{
	my ($self, @pair) = @_;
	for (@pair ? $self->_between(@pair) : keys %{ $self->{silent} })
	{
		kill 'CONT', $self->{pids}{$_} if delete $self->{silent}{$_};
	}
}

sub reset { my ($self, $a, $b) = @_; kill 'USR1', $self->{pids}{$_} for $self->_between($a, $b) }

sub DESTROY
{
	my ($self) = @_;
	local $?;
	return if $self->{test_pid} != $$;
	kill 'KILL', values %{ $self->{pids} };
	waitpid($_, 0) for values %{ $self->{pids} };
}

1;
