# Cables between the nodes of a LockstepCluster and its replicator, to be cut: from node
# N to the replicator ("up", N), and from the replicator to node N ("down", N).  Each is a
# process of soak/proxy, whose first lines say what it can do.
package Cables;
use strict;
use warnings;
use Carp;
use IO::Select;
use IPC::Open2;
use LockstepCluster;
use Test::More;

my $soak = "$LockstepCluster::tests/soak";

# At most so many nodes: their ports are behind those of the nodes.
sub new
{
	my ($class, $cluster, $most_nodes) = @_;
	is(system("make -s -C $soak >&2"), 0, 'the cables are built') or die('no harness');
	return bless { cluster => $cluster, most_nodes => $most_nodes, cables => {}, test_pid => $$ }, $class;
}

sub port
{
	my ($self, $kind, $node) = @_;
	return $self->{cluster}{base} + $self->{most_nodes} * ($kind eq 'up' ? 1 : 2) + $node;
}

sub plug
{
	my ($self, $kind, $node) = @_;
	my $port = $self->port($kind, $node);
	my ($target, $protocol) = $kind eq 'up' ? ($self->{cluster}{base}, 'lockstep') : ($self->{cluster}->port($node), 'postgres');
	my $pid = open2(my $out, my $in, "$soak/proxy", $port, $target, $protocol);
	my $line = <$out>;
	croak "no cable on port $port" unless defined $line;
	$in->autoflush;
	$self->{cables}{"$kind$node"} = { pid => $pid, out => $out, in => $in };
}

# What goes there is cut, and nobody can connect any more.
sub unplug
{
	my ($self, $name) = @_;
	my $it = delete $self->{cables}{$name} or return;
	kill 'KILL', $it->{pid};
	waitpid($it->{pid}, 0);
	close $it->{$_} for 'out', 'in';
}

sub unplug_all { my ($self) = @_; $self->unplug($_) for keys %{ $self->{cables} } }

# Plugged in, and used: the node and the replicator are told (it has to be reloaded).
sub put_between
{
	my ($self, @nodes) = @_;
	my $c = $self->{cluster};
	for my $node (@nodes)
	{
		$self->plug($_, $node) for 'up', 'down';
		$c->set($node, 'lockstep.replicator', "'127.0.0.1:" . $self->port('up', $node) . "'");
		$c->edit_replicator_conf(sub { s/^(node\.n$node = '.*port=)\d+/$1 . $self->port('down', $node)/me });
	}
}

sub it { my ($self, $kind, $node) = @_; return $self->{cables}{"$kind$node"} }

# "cut c P before", say.
sub order
{
	my ($self, $kind, $node, $order) = @_;
	print { $self->it($kind, $node)->{in} } "$order\n";
}

# No message has this type.
sub forget { my ($self, $kind, $node) = @_; $self->order($kind, $node, 'cut c - after') }

sub forget_all { my ($self) = @_; $self->forget(/^(up|down)(\d+)$/) for keys %{ $self->{cables} } }

# What that application's connections say while the code runs, as "c P": each kind once.
sub told_by
{
	my ($self, $kind, $node, $application, $code) = @_;
	my $out = $self->it($kind, $node)->{out};
	$self->order($kind, $node, "tell $application");
	$code->();
	$self->order($kind, $node, 'tell');
	my $text = '';
	while (IO::Select->new($out)->can_read(0.2))
	{
		sysread($out, $text, 10000, length $text) or last;
	}
	my %seen = map { $_ => 1 } $text =~ /^saw (. .)$/mg;
	return sort keys %seen;
}

# The type of the message at which it was cut; undef: it has not been, within that time.
sub was_cut
{
	my ($self, $kind, $node, $seconds) = @_;
	my $out = $self->it($kind, $node)->{out};
	return undef unless IO::Select->new($out)->can_read($seconds);
	sysread($out, my $line, 100);
	return ($line // '') =~ /^cut (.)/ ? $1 : undef;
}

sub DESTROY
{
	my ($self) = @_;
	local $?;
	$self->unplug_all if $self->{test_pid} == $$;
}

1;
