# Drivers and frameworks of other languages write through one node and read through the other: SQLAlchemy with
# Alembic, asyncpg, PHP's PDO, ActiveRecord, DBD::Pg, each if it is installed.  docs/beside.md has the versions.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../tap";
use LockstepCluster;
use LockstepDriver;
use Test::More;

my @clients = (
	[ 'SQLAlchemy and Alembic', [ '/usr/bin/python3', '-c', 'import alembic, psycopg2' ], '/usr/bin/python3', 'orm_client.py' ],
	[ 'asyncpg', [ '/usr/bin/python3', '-c', 'import asyncpg' ], '/usr/bin/python3', 'asyncpg_client.py' ],
	[ 'PHP PDO', [ 'php', '-r', 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);' ], 'php', 'pdo_client.php' ],
	[ 'ActiveRecord', [ 'ruby', '-e', 'require "active_record"; require "pg"' ], 'ruby', 'ruby_client.rb' ],
	[ 'DBD::Pg', [ 'perl', '-e', 'use DBD::Pg' ], 'perl', 'dbd_client.perl' ]);
my $c = LockstepCluster->new(nodes => 2);
for my $client (@clients)
{
	my ($name, $probe, @command) = @$client;
	my $installed = eval { IPC::Run::run($probe, '<', \undef, '>', '/dev/null', '2>', '/dev/null') };

	SKIP:
	{
		skip "no $name (tests/setup drivers installs it)", 1 if !$installed;
		LockstepDriver::run($c, $name, $command[0], "$LockstepDriver::here/$command[1]");
	}
}
done_testing;
