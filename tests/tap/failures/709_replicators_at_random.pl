# A group of three replicators while clients write on all nodes and whatever can fail fails at random, several things at a time:
# replicators are killed, stopped, switched over, their disks are slow or hang, etcd is killed and stopped, servers are killed, and
# cables between any two of replicators, etcd and nodes swallow everything or are cut.  When all are there again writers go
# on by themselves; at the end nothing that was acknowledged is lost or doubled, nodes and journals are equal.
# LOCKSTEP_SEED repeats a run, LOCKSTEP_LONG, LOCKSTEP_ROUNDS or LOCKSTEP_SOAK_SECONDS makes it longer (`make soak` does);
# LOCKSTEP_SOAK_FAULTS names the only faults to make.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../../soak";
use GroupCables;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{LOCKSTEP_SEED} // int rand 1e9;
my $seconds = $ENV{LOCKSTEP_SOAK_SECONDS};
my $rounds = $seconds ? 1e9 : $ENV{LOCKSTEP_ROUNDS} // ($ENV{LOCKSTEP_LONG} ? 120 : 6);
srand $seed;
my $c = LockstepCluster->new(nodes => 3, replicators => 3, disk => 1);
my $cables = GroupCables->new($c);
my $load = LockstepCounters->new($c);
my (%out, @heal, @done);

# What is out comes back after that time, or at the end of the round.
sub later { my ($what, $code) = @_; $out{$what} = 1; push @heal, [ time + rand 3, sub { $code->(); delete $out{$what} } ] }

sub heal
{
	my ($until) = @_;
	my @due = grep { $_->[0] <= $until } @heal;
	@heal = grep { $_->[0] > $until } @heal;
	$_->[1]->() for @due;
}

# Two that a cable connects, if it is whole.
sub cut
{
	my ($x, $y) = @_;
	return 0 if $out{"$x-$y"} || $out{"$y-$x"};
	$cables->cut($x, $y);
	later("$x-$y", sub { $cables->heal($x, $y) });
	return "$x $y";
}

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }

# With a disk that hangs it would not answer.
sub start
{
	my ($i) = @_;
	unlink journal($i) . '/disk_stands_still';
	$c->start_replicator($i) or die "r$i does not start";
}

sub disk
{
	my ($i, $how, $text) = @_;
	my $file = journal($i) . "/disk_$how";
	return 0 if $out{"disk of r$i"};
	open(my $f, '>', $file) or return 0;
	print $f $text;
	close $f;
	later("disk of r$i", sub { unlink $file });
	return "r$i";
}

my %faults = (
	'cut two replicators' => sub { my $i = 1 + int rand 3; return cut("r$i", 'r' . (1 + ($i + int rand 2) % 3)) },
	'cut a replicator and etcd' => sub { return cut('r' . (1 + int rand 3), 'etcd') },
	'cut a replicator and a node' => sub { return cut('r' . (1 + int rand 3), 'n' . (1 + int rand 3)) },
	'cut off the leader from the others' => sub {
		my $i = $c->leader // return 0;
		return join ', ', grep { $_ } map { cut("r$i", "r$_") } grep { $_ != $i } 1 .. 3;
	},
	'cut off a replicator' => sub {
		my $i = 1 + int rand 3;
		return join ', ', grep { $_ } map { cut("r$i", $_) } 'etcd', (map { "n$_" } 1 .. 3), map { "r$_" } grep { $_ != $i } 1 .. 3;
	},
	'reset what connects' => sub {
		my ($x, $y) = ('r' . (1 + int rand 3), (qw(etcd n1 n2 n3))[ rand 4 ]);
		return 0 if $out{"$x-$y"};
		$cables->reset($x, $y);
		return "$x $y";
	},
	'a slow disk' => sub { return disk(1 + int rand 3, 'is_slow', 20 + int rand 400) },
	'a disk that hangs' => sub { return disk(1 + int rand 3, 'stands_still', '') },
	'kill a replicator' => sub {
		my $i = 1 + int rand 3;
		return 0 if $out{"r$i"} || !$c->member_pid($i);
		$c->kill_replicator($i);
		later("r$i", sub { start($i) });
		return "r$i";
	},
	'kill the leader' => sub {
		my $i = $c->leader // return 0;
		return 0 if $out{"r$i"};
		$c->kill_replicator($i);
		later("r$i", sub { start($i) });
		return "r$i";
	},
	'stop a replicator' => sub {
		my $i = 1 + int rand 3;
		return 0 if $out{"r$i"} || !$c->member_pid($i);
		$c->freeze_replicator($i);
		later("r$i", sub { $c->thaw_replicator($i) });
		return "r$i";
	},
	'switch over' => sub {
		my $i = $c->leader // return 0;
		return 0 if grep { /^r/ } keys %out;
		# the old leader is asked who leads in the end: its disk may hang when it starts again
		$c->member_ctl($i, '--timeout', 3, 'switchover');
		return "r$i";
	},
	'switch over by name' => sub {
		my $i = $c->leader // return 0;
		return 0 if grep { /^r/ } keys %out;
		my $to = 1 + ($i + int rand 2) % 3;
		$c->member_ctl($i, '--timeout', 3, 'switchover', "r$to");
		return "r$i r$to";
	},
	'kill etcd' => sub {
		return 0 if $out{etcd};
		$c->cluster('kill-etcd');
		later('etcd', sub { $c->cluster('start-etcd') or die 'etcd does not start' });
		return 'etcd';
	},
	'stop etcd' => sub {
		return 0 if $out{etcd};
		kill 'STOP', $c->etcd_pid;
		later('etcd', sub { kill 'CONT', $c->etcd_pid });
		return 'etcd';
	},
	'kill a server' => sub {
		my $n = 1 + int rand 3;
		return 0 if grep { /^n/ } keys %out;
		$c->cluster('kill-node', $n);
		later("n$n", sub { $c->cluster('start-node', $n, '--no-wait') or die "n$n does not start" });
		return "n$n";
	},
);

if (my $only = $ENV{LOCKSTEP_SOAK_FAULTS})
{
	my %only = map { $_ => 1 } split /,/, $only;
	delete @faults{ grep { !$only{$_} } keys %faults };
}

$load->goes_on(time, 'three replicators');
my ($longest, $began) = (0, time);
for my $round (1 .. $rounds)
{
	my $end = time + 1 + rand 4;
	while (time < $end)
	{
		my $name = (sort keys %faults)[ rand keys %faults ];
		my $what = $faults{$name}->();
		push @done, sprintf('%.2f %s: %s', time - $began, $name, $what) if $what;
		sleep rand 0.8;
		heal(time);
	}
	heal(time + 10);
	my $since = time;
	my $gap = $load->goes_on($since, "round $round");
	$longest = $gap if $gap > $longest;
	last if $gap >= 30 || ($seconds && time - $began > $seconds);
}
ok($c->wait_leader, 'one leads') && ok($c->wait_copies(2, 30), 'all are there');
$load->stop_and_compare;
if (my $file = $ENV{LOCKSTEP_SOAK_LOG})
{
	my %said;
	$said{ $_->[3] eq 'ok' ? 'ok' : $_->[3] =~ /^(?:08007|\?)/ ? 'unknown' : 'failed' }++ for @{ $load->_read };
	open(my $f, '>>', $file) or die "$file: $!";
	printf $f "%s seed %d, %d s, 3 nodes, 3 replicators: %d acknowledged, %d failed, %d unknown, faults %d\n", Test::More->builder->is_passing ? 'ok' : 'FAILED',
		$seed, time - $began, map({ $said{$_} // 0 } qw(ok failed unknown)), scalar @done;
	close $f;
}
diag(sprintf '%d faults in %d rounds, seed %d; when all was there again, the first transaction ended after %.2f s at the latest', scalar(@done), $rounds, $seed, $longest);
diag(join "\n", @done) unless Test::More->builder->is_passing;

done_testing;
