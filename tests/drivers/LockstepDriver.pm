# A client program, written for a driver, against a cluster: what it prints as
# "ok - name" and "not ok - name: why" become tests, and so does its exit.
#
#	LockstepDriver::run($c, 'psycopg', '/usr/bin/python3', 'psycopg_client.py');
#
# The program finds PORT1, PORT2, DB and DBUSER in its environment: it writes
# through one node and reads through the other.
package LockstepDriver;
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run ();
use Test::More;

our $here = abs_path(dirname(__FILE__));

sub run
{
	my ($c, $name, @command) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PORT1} = $c->port(1);
	local $ENV{PORT2} = $c->port(2);
	local $ENV{DB} = $c->{db};
	local $ENV{DBUSER} = 'postgres';
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(240));
	my $n = 0;
	for my $line (split /\n/, $out)
	{
		next unless $line =~ /^(not )?ok - (.*)/;
		$n++;
		ok(!$1, "$name: $2");
	}
	cmp_ok($n, '>', 0, "$name: tests were run");
	ok($ok, "$name: ended well") or diag("$out\n$err");
	$c->same("$name: nodes are equal");
}

1;
