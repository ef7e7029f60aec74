# Histories: random transactions on three nodes at once give a history that each isolation
# level allows, by the dependency cycles that it forbids (tests/histories); and the checker
# finds what is wrong: in histories made by hand, when a history is held to a stricter
# level than it was made at, and when the replicator certifies nothing.
# LOCKSTEP_LONG: longer, with nodes and replicator killed meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $dir = "$FindBin::Bin/../../histories";
my $python = '/usr/bin/python3';
my $seconds = $ENV{LOCKSTEP_LONG} ? 60 : 4;
my $seed = $ENV{LOCKSTEP_SEED} // int(rand(1e6));

like(scalar `cd $dir && PYTHONDONTWRITEBYTECODE=1 $python self_test.py 2>&1`, qr/^(\d+) of \1 right$/, 'histories made by hand');

# (exit code, output)
sub history
{
	my ($c, @args) = @_;
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	my $out = '';
	IPC::Run::run([ $python, "$dir/run.py", '--seed', $seed, '--seconds', $seconds, @args, map { $c->conninfo($_) } $c->all ],
		'<', \undef, '>&', \$out, IPC::Run::timeout($seconds + 300));
	my $rc = $? >> 8;
	note($out =~ /^(.* committed, .*)$/m ? $1 : 'no history');
	return ($rc, $out);
}

sub allows
{
	my ($c, $name, @args) = @_;
	my ($rc, $out) = history($c, @args);
	is($rc, 0, "$name: nothing is found") or diag($out);
	my ($committed) = $out =~ /(\d+) committed/;
	cmp_ok($committed // 0, '>', 5 * $seconds, "$name: enough was committed (" . ($committed // 0) . ')');
	$c->same("$name: all nodes are equal");
}

sub finds
{
	my ($c, $name, $like, @args) = @_;
	my ($rc, $out);
	# a busy machine may do too little for it
	for (1 .. 5)
	{
		($rc, $out) = history($c, @args);
		last if $rc != 0 && $out =~ /^kinds: .*\b(?:$like)\b/m;
		$seed++;
	}
	is($rc, 1, "$name: the checker finds it") or diag($out);
	like($out, qr/^kinds: .*\b(?:$like)\b/m, "$name: by its name");
}

my $c = LockstepCluster->new(nodes => 3);
allows($c, $_, '--level', $_) for 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE';
allows($c, 'SERIALIZABLE and causal reads', '--level', 'SERIALIZABLE', '--strict');
finds($c, 'READ COMMITTED, held to REPEATABLE READ', qr/G-single|P4/, '--level', 'READ COMMITTED', '--check', 'REPEATABLE READ');
finds($c, 'REPEATABLE READ, held to SERIALIZABLE', qr/G2/, '--level', 'REPEATABLE READ', '--check', 'SERIALIZABLE');

if ($ENV{LOCKSTEP_LONG})
{
	for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my $pid = fork // die;
		if ($pid == 0)
		{
			# no END blocks: the cluster is the parent's
			for my $round (1 .. 3)
			{
				sleep 12;
				$c->cluster('kill-replicator');
				$c->cluster('start-replicator');
				sleep 5;
				$c->cluster('kill-node', 2);
				$c->cluster('start-node', 2);
			}
			require POSIX;
			POSIX::_exit(0);
		}
		my ($rc, $out) = history($c, '--level', $level);
		waitpid($pid, 0);
		is($rc, 0, "$level, with crashes: nothing is found") or diag($out);
		$c->wait_state($_, 'online', 60) for $c->all;
		$c->same("$level, with crashes: all nodes are equal");
	}
}
$c->down;

# ---------- a replicator that certifies nothing

is(system("make -s -C $FindBin::Bin/../../../replicator no-certification >/dev/null 2>&1"), 0, 'a replicator without certification is built');
{
	my $bin = File::Temp::tempdir('lockstep-bin-XXXXXX', DIR => '/tmp', CLEANUP => 1);
	chmod 0755, $bin;
	system('cp', "$FindBin::Bin/../../../replicator/build/no-certification/lockstep-replicator", $bin) == 0 or die;
	local $ENV{LOCKSTEP_REPLICATOR} = "$bin/lockstep-replicator";
	# with certified, peers would refuse what is decided, and be dropped
	my $faulty = LockstepCluster->new(nodes => 3, conf => "lockstep.commit_wait = executed\n");
	finds($faulty, 'without certification', qr/G2/, '--level', 'SERIALIZABLE', '--tolerant');
}

done_testing;
