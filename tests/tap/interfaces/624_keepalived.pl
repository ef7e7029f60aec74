# Two balancers that watch each other, as docs/beside.md has it: in two network namespaces, one HAProxy does not
# run, and the address is on the other host; it stays there when HAProxy runs again; it leaves a host that hangs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp qw(tempdir);
use IPC::Run ();
use LockstepBalancer;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'needs root, for network namespaces' if $> != 0;
plan skip_all => 'there is no keepalived' unless grep { -x } '/usr/sbin/keepalived';

my $top = tempdir('lockstep-XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $top;
my @ns = map { "lockstep$$-$_" } 1, 2;
my (@pids, $made);
my $main = $$;

sub quiet { my $out = ''; return IPC::Run::run([@_], '<', \undef, '>&', \$out) ? $out || 1 : diag("@_: $out") && 0 }

END
{
	my $rc = $?;
	if ($made && $$ == $main)
	{
		kill 'TERM', @pids;
		waitpid($_, 0) for @pids;
		quiet('ip', 'netns', 'del', $_) for @ns;
	}
	$? = $rc;
}

plan skip_all => 'network namespaces are not permitted here' if system("ip netns add $ns[0] 2>/dev/null") != 0;
$made = 1;
quiet('ip', 'netns', 'add', $ns[1]);
quiet('ip', 'link', 'add', 'eth0', 'netns', $ns[0], 'type', 'veth', 'peer', 'name', 'eth0', 'netns', $ns[1])
	or plan skip_all => 'there are no virtual networks here';
# not so in a chroot, whose root is no mount point
system("ip netns exec $ns[0] true 2>/dev/null") == 0 or plan skip_all => 'commands cannot be run in network namespaces here';
for my $i (0, 1)
{
	quiet('ip', '-n', $ns[$i], 'addr', 'add', '10.0.0.' . ($i + 1) . '/24', 'dev', 'eth0');
	quiet('ip', '-n', $ns[$i], 'link', 'set', $_, 'up') for 'lo', 'eth0';
}

# HAProxy's place is taken by a file, as processes are not of a namespace.
my $recipe = LockstepBalancer::recipe('global_defs {');
for my $i (0, 1)
{
	my $conf = "$top/keepalived$i.conf";
	open(my $f, '>', "$top/runs$i") or die;
	close $f;
	open($f, '>', $conf) or die "$conf: $!";
	print $f $recipe =~ s{/usr/bin/pgrep -x haproxy}{/usr/bin/test -e $top/runs$i}r;
	close $f;
	close $f;
	chmod 0644, $conf;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open(STDOUT, '>', "$top/log$i");
		open(STDERR, '>&', \*STDOUT);
		exec('ip', 'netns', 'exec', $ns[$i], 'keepalived', '-n', '-l', '-P', '-f', $conf, '-p', "$top/pid$i", '-r', "$top/vrrp$i") or POSIX::_exit(127);
	}
	push @pids, $pid;
}

sub has { my ($i) = @_; my $out = quiet('ip', '-n', $ns[$i], 'addr', 'show', 'dev', 'eth0'); return $out =~ /\b10\.0\.0\.100\b/ ? 1 : 0 }
sub becomes
{
	my ($what, $i) = @_;
	my $since = time;
	sleep 0.1 until (has($i) && ($what =~ /hangs/ || !has(1 - $i))) || time > $since + 60;
	ok(has($i), $what) or diag(map { `cat $top/log$_` } 0, 1);
	diag(sprintf '%s: %.1f s', $what, time - $since);
}

my $end = time + 60;
sleep 0.1 until has(0) + has(1) == 1 || time > $end;
is(has(0) + has(1), 1, 'one has the address') or diag(map { `cat $top/log$_` } 0, 1);
my $first = has(0) ? 0 : 1;
my $other = 1 - $first;

unlink "$top/runs$first";
becomes('its HAProxy does not run: the other one has it', $other);
open(my $f, '>', "$top/runs$first") or die;
close $f;
my $stays = time + 5;
sleep 0.2 until time > $stays || !has($other);
ok(has($other), 'it stays there when HAProxy runs again');
my ($child) = `cat $top/vrrp$other` =~ /(\d+)/;
kill 'STOP', $pids[$other], $child;
becomes('its host hangs: the first one has it', $first);
kill 'CONT', $pids[$other], $child;
unlike(`cat $top/log0 $top/log1`, qr/unknown keyword|SECURITY|error/i, 'keepalived took the recipe as it stands');

done_testing;
