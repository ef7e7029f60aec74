# The tutorial, docs/tutorial.md, works as it is printed: its commands are run one after the other, in
# one shell, with other ports and another directory; each must succeed, and print what the
# page says that it prints.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use LockstepCluster;
use Test::More;

my $page = LockstepCluster::_slurp("$LockstepCluster::tests/../docs/tutorial.md");
my ($base, $lock) = LockstepCluster::_claim_ports(3);
my $top = tempdir('lockstep-XXXXXX', DIR => '/tmp');
my $dir = "$top/t";

$page =~ s{/tmp/lockstep-tutorial}{$dir}g;
$page =~ s/\b710([0-3])\b/$base + $1/ge;
$page =~ s{^(echo "port = .*)$}{$1\necho "fsync = off" >> $dir/n1/postgresql.conf}m or die;	# it is only a test

# Blocks of commands, each with the heading it is under and the output that follows it.
my ($heading, @steps) = ('beginning');
while ($page =~ /^## ([^\n]*)$|^```(sh|text)\n(.*?)^```$/msg)
{
	if (defined $1) { $heading = $1 }
	elsif ($2 eq 'sh') { push @steps, { heading => $heading, commands => $3, output => '' } }
	else { $steps[-1]{output} = $3 }
}
cmp_ok(scalar(@steps), '>=', 10, 'the page has commands');

my $script = "$top/script";
open(my $f, '>', $script) or die "could not write $script: $!";
print $f "set -e\nexport LC_ALL=C PATH=$LockstepCluster::bindir:\$PATH\nunset PGPORT PGOPTIONS PG_CONFIG\n";
print $f "pg_config() { echo $LockstepCluster::bindir; }\n";
print $f "echo '\@\@\@ $_'\n$steps[$_]{commands}" for 0 .. $#steps;
print $f "echo '\@\@\@ end'\n";
close $f;
if ($> == 0)
{
	my ($uid, $gid) = (getpwnam('postgres'))[2, 3];
	chown $uid, $gid, $top;
	chmod 0644, $script;
}
else { chmod 0755, $top }

my ($out, $err);
IPC::Run::run([ LockstepCluster->owned('bash', $script) ], '<', '/dev/null', '>', \$out, '2>', \$err, init => sub { chdir '/' });
my %printed = map { /^(\w+)\n(.*)\z/s ? ($1, $2) : () } split /^@@@ /m, $out;
for my $i (0 .. $#steps)
{
	my $next = $i == $#steps ? 'end' : $i + 1;
	ok(exists $printed{$next}, "$steps[$i]{heading}: the commands succeed") or last;
	next if $steps[$i]{output} eq '';
	ok(index($printed{$i}, $steps[$i]{output}) >= 0, "$steps[$i]{heading}: they print what the page says")
		or diag("printed:\n$printed{$i}");
}
ok(!-e $dir, 'nothing is left');
diag("$out\n$err", map { "== $_\n" . LockstepCluster::_slurp($_) } glob "$dir/*.log") unless Test::More->builder->is_passing;

# What a failure has left.
if (-e $dir)
{
	kill 'KILL', LockstepCluster::_slurp("$dir/replicator.pid") =~ /^(\d+)/ if -e "$dir/replicator.pid";
	for my $pid_file (glob "$dir/n*/postmaster.pid")
	{
		kill 'QUIT', LockstepCluster::_slurp($pid_file) =~ /^(\d+)/;
	}
	select(undef, undef, undef, 0.5);
}
remove_tree($top);
done_testing;
