# A group of three replicators while clients write on all nodes and whatever can fail fails at random, several things at a time:
# replicators are killed, stopped, switched over, etcd is killed and stopped, servers are killed.  When all are there again writers go
# on by themselves; at the end nothing that was acknowledged is lost or doubled, nodes and journals are equal.
# LOCKSTEP_SEED repeats a run, LOCKSTEP_LONG or LOCKSTEP_ROUNDS makes it longer.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{LOCKSTEP_SEED} // int rand 1e9;
my $rounds = $ENV{LOCKSTEP_ROUNDS} // ($ENV{LOCKSTEP_LONG} ? 120 : 6);
srand $seed;
my $c = LockstepCluster->new(nodes => 3, replicators => 3);
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

my %faults = (
	'kill a replicator' => sub {
		my $i = 1 + int rand 3;
		return 0 if $out{"r$i"} || !$c->member_pid($i);
		$c->kill_replicator($i);
		later("r$i", sub { $c->start_replicator($i) or die "r$i does not start" });
		return "r$i";
	},
	'kill the leader' => sub {
		my $i = $c->leader // return 0;
		return 0 if $out{"r$i"};
		$c->kill_replicator($i);
		later("r$i", sub { $c->start_replicator($i) or die "r$i does not start" });
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
		$c->member_ctl($i, 'switchover');
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
	last if $gap >= 30;
}
ok($c->wait_leader, 'one leads') && ok($c->wait_copies(2, 30), 'all are there');
$load->stop_and_compare;
diag(sprintf '%d faults in %d rounds, seed %d; when all was there again, the first transaction ended after %.2f s at the latest', scalar(@done), $rounds, $seed, $longest);
diag(join "\n", @done) unless Test::More->builder->is_passing;

done_testing;
