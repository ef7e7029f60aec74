# The own test suites of drivers, whole, through node 1 of a cluster of two: every test has the result that it has on
# plain PostgreSQL in the same environment, but for those that a suite's list explains; and then both nodes are equal.
#
#	SUITES='psycopg2 pgx' perl tests/drivers/suites.pl		only these
#
# drivers/suites/NAME.suite says how a suite is had and run, NAME.differences which results differ, and why.  A suite that can't be
# had here is skipped, with the reason.  What a run prints is kept in tests/results/suites.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use Cwd qw(abs_path);
use File::Path qw(make_path);
use IPC::Run ();
use LockstepCluster;
use LockstepServers;
use Test::More;

my @suites = split ' ', $ENV{SUITES} // 'psycopg2 asyncpg pq pgx node-postgres pgjdbc';
my $conf = "max_prepared_transactions = 64\nwal_level = logical\nmax_connections = 300\n";
my $here = abs_path("$FindBin::Bin/suites");
my $results = abs_path("$FindBin::Bin/..") . '/results/suites';
make_path($results);

# A command of a suite: what it prints on stdout goes to a file; (exit code, what it prints on stderr).
sub suite
{
	my ($name, $command, %o) = @_;
	my $log = "$results/$name.$command" . ($o{where} ? ".$o{where}.log" : '.log');
	local %ENV = (%ENV, %{ $o{env} // {} });
	my $ok = IPC::Run::run([ "$here/suite", $name, $command, @{ $o{args} // [] } ], '<', \undef, '>', $o{to} // '/dev/null', '2>', $log);
	return ($? >> 8, LockstepCluster::_slurp($log));
}

# Prepare a server, run the suite there: { test => result }.
sub results_of
{
	my ($name, $where, %server) = @_;
	my $to = "$results/$name.$where";
	my %env = (PATH => "$LockstepCluster::bindir:$ENV{PATH}", PGHOST => '127.0.0.1', PGPORT => $server{port}, PGUSER => 'postgres', SOCKETS => $server{sockets}, WORK => $server{work});
	my %result;

	for my $data (@{ $server{data} })
	{
		my ($rc, $why) = suite($name, 'configure', where => $where, args => [$data], env => \%env);
		is($rc, 0, "$name, $where: the server is configured") or diag($why);
	}
	$server{reload}->();
	my ($rc, $why) = suite($name, 'prepare', where => $where, env => \%env);
	is($rc, 0, "$name, $where: the suite's databases and roles are made") or diag($why);
	suite($name, 'run', where => $where, env => \%env, to => $to);
	for (split /\n/, LockstepCluster::_slurp($to))
	{
		my ($test, $result) = /^(\S+) (pass|fail|skip|xfail)$/ or next;
		# of a test that is run several times: the worst
		$result{$test} = $result unless ($result{$test} // '') eq 'fail';
	}
	return \%result;
}

# Lines "[reason]" and, after each, the tests that differ for it.  Those after "[unsteady: reason]" also differ
# from run to run on plain PostgreSQL: they may differ.
sub explained
{
	my ($name) = @_;
	my ($reason, %reason);

	for (split /\n/, LockstepCluster::_slurp("$here/$name.differences"))
	{
		next if /^\s*(?:#|$)/;
		if (/^\[(.*)\]$/) { $reason = $1 }
		else { $reason{$_} = $reason // die "$name.differences: no reason for $_\n" }
	}
	return \%reason;
}

sub compare
{
	my ($name, $plain, $here) = @_;
	my $reasons = explained($name);
	my %all = (%$plain, %$here);
	my (@wrong, @same, %why);

	for my $test (sort keys %all)
	{
		my ($p, $h) = ($plain->{$test} // 'not run', $here->{$test} // 'not run');
		my $reason = $reasons->{$test};
		push @same, $test if $p eq $h;
		$why{$reason}++ if $p ne $h && $reason;
		push @wrong, "$test: $p on plain PostgreSQL, $h here" if $p ne $h && !$reason;
		push @wrong, "$test does not differ ($p); $name.differences lists it" if $p eq $h && $reason && $reason !~ /^unsteady/;
	}
	push @wrong, map { "$_ is in $name.differences, and there is no such test" } grep { !$all{$_} } sort keys %$reasons;
	is(scalar @wrong, 0, "$name: every test has the result that it has on plain PostgreSQL, or a reason") or diag(join("\n", @wrong));
	my %count;
	$count{$_}++ for values %$plain;
	diag("$name: " . keys(%all) . ' tests (plain PostgreSQL: ' . join(', ', map { "$count{$_} $_" } sort keys %count) . '), ' . @same . ' as there; '
		. (join('; ', map { "$why{$_} differ: $_" } sort keys %why) || 'none differs with a reason'));
}

for my $name (@suites)
{
	SKIP:
	{
		my ($rc, $why) = suite($name, 'fetch');
		chomp $why;
		diag("$name can't be had here: $why") if $rc != 0;
		skip "$name: $why", 1 if $rc != 0;

		my $s = LockstepServers->new(servers => 1, locale => 'C.UTF-8', conf => $conf);
		my $plain = results_of($name, 'plain', port => $s->port(1), sockets => $s->{dir}, work => $s->{dir}, data => ["$s->{dir}/n1"],
			reload => sub { $s->sql(1, 'postgres', 'SELECT pg_reload_conf()') });
		$s->down;

		chomp(my $db = `$here/suite $name database`);
		my $c = LockstepCluster->new(nodes => 2, conf => $conf, db => $db);
		my $here = results_of($name, 'lockstep', port => $c->port(1), sockets => $c->{dir}, work => $c->{top}, data => [ map { $c->pgdata($_) } $c->all ],
			reload => sub { $c->sql_everywhere('SELECT pg_reload_conf()') });
		cmp_ok(scalar(grep { $_ eq 'pass' } values %$plain), '>', 0, "$name: tests pass on plain PostgreSQL");
		compare($name, $plain, $here);
		is_deeply([ map { $c->node_status($_)->{state} } $c->all ], [ 'online', 'online' ], "$name: no node was dropped");
		ok($c->drain, "$name: both nodes apply all that was decided");
		my $out = '';
		IPC::Run::run([ "$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, '--socket', "$c->{dir}/admin.sock", 'verify' ],
			'<', \undef, '>&', \$out, IPC::Run::timeout(600));
		is($? >> 8, 0, "$name: lockstepctl verify finds both nodes equal, in all databases") or diag($out);
		for (1, 2)
		{
			system('cp', "$c->{dir}/n$_.log", "$results/$name.n$_.log");
		}
		system('cp', "$c->{dir}/replicator.log", "$results/$name.replicator.log");
		$c->down;
	}
}
done_testing;
