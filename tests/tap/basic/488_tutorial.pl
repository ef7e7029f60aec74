# The tutorial, docs/tutorial.md, works as it is printed: its commands are run one after the other, in
# one shell, with other ports and another directory; each must succeed, and print what the
# page says that it prints.  Where postgresql-common is installed, the set-up once more with Debian's servers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use LockstepCluster;
use LockstepServers;
use Test::More;
use Time::HiRes qw(time);

sub type_it
{
	my ($debian) = @_;
	my $kind = $debian ? 'Debian: ' : '';
	my $page = LockstepCluster::_slurp("$LockstepCluster::tests/../docs/tutorial.md");
	my ($base, $lock) = LockstepCluster::_claim_ports(3);
	my $top = tempdir('lockstep-XXXXXX', DIR => '/tmp');
	my $dir = "$top/t";

	$page =~ s{/tmp/lockstep-tutorial}{$dir}g;
	$page =~ s/\b710([0-3])\b/$base + $1/ge;
	my $tens = $base / 10;
	$page =~ s/\b710\$n\b/$tens\$n/g;
	$page =~ s/ 15 n\$n/ @{[ LockstepServers::version() ]} n\$n/g;
	$page =~ s{^( +echo "port = .*)$}{$1\n    echo "fsync = off" >> $dir/n\$n/postgresql.conf}m or die;	# it is only a test
	$page =~ s{(pg_createcluster .*) -- }{$1 -o fsync=off -- } or die;

	# Blocks of commands, each with the heading it is under and the output that follows it.
	my ($heading, @steps) = ('beginning');
	while ($page =~ /^## ([^\n]*)$|^```(sh|sh debian|text)\n(.*?)^```$/msg)
	{
		if (defined $1) { $heading = $1 }
		elsif ($2 eq 'sh') { push @steps, { heading => $heading, commands => $3, output => '' } }
		elsif ($2 eq 'text') { $steps[-1]{output} = $3 }
		elsif ($debian) { $steps[-1]{commands} = $3 }	# instead of the one before
	}
	@steps = grep { $_->{heading} !~ /^[456]\./ } @steps if $debian;	# what follows is the same
	cmp_ok(scalar(@steps), '>=', $debian ? 6 : 10, "${kind}the page has commands");

	my $script = "$top/script";
	open(my $f, '>', $script) or die "could not write $script: $!";
	print $f "set -e\nexport LC_ALL=C PATH=$top/bin:$LockstepCluster::bindir:\$PATH\nunset PGPORT PGOPTIONS PG_CONFIG\n";
	print $f "pg_config() { echo $top/bin:$LockstepCluster::bindir; }\n";
	print $f "echo '\@\@\@ $_'\n$steps[$_]{commands}" for 0 .. $#steps;
	print $f "echo '\@\@\@ end'\n";
	close $f;
	mkdir "$top/bin";
	LockstepServers::postgresql_common($top) if $debian;
	if ($> == 0)
	{
		my ($uid, $gid) = (getpwnam('postgres'))[2, 3];
		chown $uid, $gid, $top;
		chmod 0644, $script;
	}
	chmod 0755, $top;

	my $start = time;
	my ($out, $err);
	IPC::Run::run([ LockstepCluster->owned('bash', $script) ], '<', '/dev/null', '>', \$out, '2>', \$err, init => sub { chdir '/' });
	note(sprintf('%s%.1f s for all of it', $kind, time - $start));
	my %printed = map { /^(\w+)\n(.*)\z/s ? ($1, $2) : () } split /^@@@ /m, $out;
	for my $i (0 .. $#steps)
	{
		my $next = $i == $#steps ? 'end' : $i + 1;
		ok(exists $printed{$next}, "$kind$steps[$i]{heading}: the commands succeed") or last;
		next if $steps[$i]{output} eq '';
		ok(index($printed{$i}, $steps[$i]{output}) >= 0, "$kind$steps[$i]{heading}: they print what the page says")
			or diag("printed:\n$printed{$i}");
	}
	ok(!-e $dir, "${kind}nothing is left");
	diag("$out\n$err", map { "== $_\n" . LockstepCluster::_slurp($_) } glob "$dir/*.log $dir/replicator/*.log") if -e $dir;
	clean_up($dir);
	remove_tree($top);
}

# What a failure has left.
sub clean_up
{
	my ($dir) = @_;
	return unless -e $dir;
	kill 'KILL', LockstepCluster::_slurp("$dir/replicator/replicator.pid") =~ /^(\d+)/ if -e "$dir/replicator/replicator.pid";
	for my $pid_file (glob "$dir/n*/postmaster.pid")
	{
		kill 'QUIT', LockstepCluster::_slurp($pid_file) =~ /^(\d+)/;
	}
	select(undef, undef, undef, 0.5);
}

type_it(0);
type_it(1) if LockstepServers::has_layout_of_debian();
done_testing;
