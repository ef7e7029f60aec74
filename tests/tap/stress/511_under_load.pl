# It never stands still: under loads that conflict (tests/liveness), default settings, there is
# no moment of 5 s in which nobody commits anywhere (15 s here, as the machine may be busy with
# other tests; who stands still does so for ever).  LOCKSTEP_LONG: every level, every order,
# two and three nodes, three and 16 clients on each (make check-liveness: for as long as you like).
use strict;
use warnings;
use FindBin;
use Test::More;

my @what = $ENV{LOCKSTEP_LONG} ? qw(--seconds 10) : qw(--seconds 8 --bound 15 --nodes 2 --clients 3 --levels rc --orders default --loads stress);
my $top = "$FindBin::Bin/../../..";
my $port = 17600 + $$ % 300 * 10;
open(my $run, '-|', "$top/tests/liveness/run", @what, '--port', $port) or die "tests/liveness/run: $!\n";
my $lines = 0;
while (my $line = <$run>)
{
	chomp $line;
	next unless $line =~ /^((?:not )?ok) - (.*)/;
	$lines++;
	is($1, 'ok', $2);
}
ok(close $run, 'nobody stood still, all nodes are equal');
cmp_ok($lines, '>', 0, 'it ran');
done_testing;
