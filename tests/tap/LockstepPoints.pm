# A LockstepCluster whose replicator and servers can be made to die, or to wait, at their
# hand-over points, as replicator/base/points.h and extension/base/points.h list them; what an order
# may be says replicator/base/points.c.
#
#	my $c = LockstepPoints->new(nodes => 2);
#	$c->order_at('replicator', 'DECIDED', 'kill');	# or a node's number
#	... until ($c->was_there('replicator', 'DECIDED'))
#	$c->let_go(2, 'APPLY_CLAIMED');					# who waits there
package LockstepPoints;
use strict;
use warnings;
use Carp;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);

use parent -norequire, 'LockstepCluster';
use LockstepCluster;

# As for LockstepCluster; random => 'SEED PER_MILLE MAX_MS': everybody stops now and then.
sub new
{
	my ($class, %o) = @_;
	my $points = tempdir('lockstep-points-XXXXXX', DIR => $ENV{LOCKSTEP_TMP} // '/tmp', CLEANUP => 0);
	chmod 0755, $points;
	for my $who ('replicator', map { "n$_" } 1 .. 9)
	{
		mkdir "$points/$who";
		chmod 0777, "$points/$who";
		write_order("$points/$who/random", $o{random}) if $o{random};
	}
	local $ENV{LOCKSTEP_POINTS} = "$points/replicator";
	my $self = LockstepCluster::new($class, %o, fault => 1, points => $points,
		conf => ($o{conf} // '') . "lockstep_fault.points = '$points/n\@NODE\@'\n");
	return $self;
}

# At the point that path names, in a directory of points.
sub write_order
{
	my ($path, $text) = @_;
	open(my $f, '>', "$path.new") or croak "$path: $!";
	print $f "$text\n";
	close $f;
	chmod 0644, "$path.new";
	rename "$path.new", $path or croak "$path: $!";
}

# The replicator is started with its directory each time.
sub cluster
{
	my ($self, @args) = @_;
	local $ENV{LOCKSTEP_POINTS} = "$self->{options}{points}/replicator";
	return $self->SUPER::cluster(@args);
}

sub down
{
	my ($self) = @_;
	my $over = $self->{ended};
	$self->SUPER::down;
	remove_tree($self->{options}{points}) if !$over && $self->{ended} && !-d $self->{dir};
}

sub _path
{
	my ($self, $who, $point) = @_;
	return "$self->{options}{points}/" . ($who =~ /^\d+$/ ? "n$who" : $who) . "/$point";
}

sub order_at
{
	my ($self, $who, $point, $order) = @_;
	my $path = $self->_path($who, $point);
	unlink "$path.taken";
	write_order($path, $order);
}

sub was_there { my ($self, $who, $point) = @_; return -e $self->_path($who, $point) . '.taken' }
sub let_go { my ($self, $who, $point) = @_; unlink $self->_path($who, $point) . '.taken' }

# Nobody came there.
sub take_back { my ($self, $who, $point) = @_; return unlink $self->_path($who, $point) }

# All there are.
sub points_of
{
	my ($who) = @_;
	my $half = $who eq 'replicator' ? 'replicator' : 'extension';
	my ($enum) = LockstepCluster::_slurp("$LockstepCluster::tests/../$half/base/points.h") =~ /typedef enum (?:Ls)?Point\s*\{(.*?)\n\}/s;
	return $enum =~ /^\s+(?:LS_)?POINT_(\w+)/mg;
}

1;
