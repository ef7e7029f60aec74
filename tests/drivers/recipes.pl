# The recipes of docs/clients.md do what that page says: the code of each is taken from there and run, if its driver is
# installed.  A transaction that loses a conflict or its connection is called again; one whose COMMIT got no
# answer (the request is lost, the answer is lost, the replicator stops) takes effect once.  When its node is drained, or its
# sessions are ended, it takes one call more, through the other node if need be, however many connections to that node its pool has.
#
# A client program (tests/drivers/recipes) reads a line, statements separated by ";;", and calls the recipe with them as
# the transaction.  At a statement "@" it prints "at" and reads a line, which it ignores.  Then it prints
# "done its result" or "failed ERROR".  Its hosts are node 1, behind a proxy (PORT1), which obeys files, and node 2 (PORT2); it wants one
# that takes writes, and a pool has opened POOL connections when the transaction runs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../tap";
use IO::Select;
use IO::Socket::INET;
use IPC::Run ();
use LockstepCluster;
use LockstepDriver;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.replicator_timeout = 2s\nlockstep.failover_wait = 500ms\n");
my $here = "$LockstepDriver::here/recipes";
my $recipes = "$c->{top}/recipes";

# ---------- the code of the page

sub text_of
{
	my ($path) = @_;
	open(my $f, '<', $path) or die "$path: $!";
	local $/;
	return scalar <$f>;
}

mkdir $recipes;
my $page = text_of("$LockstepDriver::here/../../docs/clients.md");
my %file;
while ($page =~ /^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$/smg)
{
	$file{$1} = 1;
	open(my $f, '>', "$recipes/$1") or die $!;
	print $f $2;
	close $f;
}
is(scalar(keys %file), () = $page =~ /^<!-- file: /mg, 'all code that is marked has been found');

# ---------- a proxy to node 1, which loses a COMMIT or the answer to it when the file says so; for a driver that takes a single
# host it is the load balancer, too

my $listener = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1', LocalPort => 0) or die $!;
my $orders = "$c->{top}/proxy";
my $balancer = "$c->{top}/balancer";
my $proxy = fork() // die $!;
if ($proxy == 0)
{
	local $SIG{PIPE} = 'IGNORE';
	eval { proxy() };
	POSIX::_exit(0);
}

sub proxy
{
	my (%peer, %loses);
	my $select = IO::Select->new($listener);
	my $end = sub {
		my @both = ($_[0], $peer{ $_[0] });
		for my $socket (@both)
		{
			$select->remove($socket);
			delete $peer{$socket};
			delete $loses{$socket};
			close $socket;
		}
	};
	while (1)
	{
		for my $socket ($select->can_read)
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->port(-e $balancer ? 2 : 1)) or next;
				@peer{ $client, $server } = ($server, $client);
				$loses{$server} = 0;
				$select->add($client, $server);
				last;
			}
			next unless $peer{$socket};
			my $n = sysread($socket, my $data, 65536);
			my $order = exists $loses{$socket} || !-s $orders || ($data // '') !~ /COMMIT/i ? '' : text_of($orders);
			unlink $orders if $order ne '';
			$loses{ $peer{$socket} } = 1 if $order eq 'answer';
			if (!$n || $order eq 'request' || $loses{$socket})
			{
				$end->($socket);
				last;
			}
			syswrite($peer{$socket}, $data);
		}
	}
	return;
}

# ---------- a client program

my $pool = 12;		# more than a recipe makes attempts
my ($in, $out, $client);

sub start
{
	my (@command) = @_;
	($in, $out) = ('', '');
	local $ENV{PORT1} = $listener->sockport;
	local $ENV{DB} = $c->{db};
	local $ENV{PORT2} = $c->port(2);
	local $ENV{DBUSER} = 'client';
	local $ENV{POOL} = $pool;
	local $ENV{PYTHONPATH} = $recipes;
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	$client = IPC::Run::start(\@command, '<', \$in, '>', \$out, '2>&1', IPC::Run::timeout(300));
	return;
}

# The next line that it prints; what is none of ours is shown.
sub answer
{
	my $end = time + 90;
	while (time < $end)
	{
		if ($out =~ s/^(.*)\n//)
		{
			my $line = $1;
			return $line if $line =~ /^(?:at$|done |failed )/;
			diag($line);
		}
		elsif (!eval { $client->pump_nb; 1 } || !$client->pumpable) { return 'it ended' }
		select(undef, undef, undef, 0.005);
	}
	return 'no answer';
}

# (calls of the transaction, what it printed at last); $first runs when it is called first, and says 'gone on' if
# it has let it go on itself.
sub transaction
{
	my ($first, @steps) = @_;
	my ($calls, $line) = (0, '');
	$in .= join(';;', @steps) . "\n";
	while (($line = answer()) eq 'at')
	{
		my $does = ++$calls == 1 ? $first->() // '' : '';
		last if $calls > 20;
		$in .= "go\n" unless $does eq 'gone on';
	}
	return ($calls, $line);
}

# ---------- what each recipe has to do

my $row = 0;
my %single_host = ('node-postgres' => 1);

# Adds 1 to a row of its own, and waits before COMMIT, or before that.
sub adds_one
{
	my ($name, $calls_expected, $expected, $first, %o) = @_;
	$row++;
	$c->sql(1, "SET lockstep.commit_wait = applied; INSERT INTO t VALUES ($row, 0)");
	my @steps = ("UPDATE t SET v = v + 1 WHERE id = $row", '@');
	my ($calls, $line) = transaction($first, $o{waits_first} ? reverse @steps : @steps);
	is($line, 'done its result', "$name: done");
	like($calls, $calls_expected, "$name: so often it was called");
	is($c->sql(2, "SET lockstep.causal_reads = on; SELECT v FROM t WHERE id = $row"), $expected, "$name: what the row has");
	unlink $orders;
	return;
}

sub order
{
	my ($order) = @_;
	$c->file('proxy', $order);
	return;
}

# How often a node's log has said that the outcome is unknown.
sub unknown { return scalar(() = $c->node_log(1) =~ /ERROR:  the outcome of the transaction is unknown/g) }

my $sessions = "FROM pg_stat_activity WHERE usename = 'client'";

# Are all connections of the pool open, to node 1?
sub connected
{
	my ($name, $least) = @_;
	return ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) $sessions") >= $least }), "$name: so many connections are open");
}

sub check
{
	my ($name, $connections, @command) = @_;
	start(@command);
	adds_one("$name: all sessions are ended before COMMIT", qr/^2$/, 1, sub {
		connected($name, $connections);
		$c->sql(1, "SELECT pg_terminate_backend(pid) $sessions");
	});
	adds_one("$name: a conflict is lost", qr/^2$/, 101,
		sub { $c->sql(2, "SET lockstep.commit_wait = applied; UPDATE t SET v = v + 100 WHERE id = $row") });
	for my $state (qw(40001 40P01 57P03 25006))
	{
		$c->sql(1, 'CREATE SEQUENCE s');
		my ($calls, $line) = transaction(sub { }, '@', "DO 'BEGIN IF nextval(''s'') = 1 THEN RAISE EXCEPTION ''forced'' USING ERRCODE = ''$state''; END IF; END'");
		is("$calls, $line", '2, done its result', "$name: $state");
		$c->sql(1, 'DROP SEQUENCE s');
	}
	my ($calls, $line) = transaction(sub { }, '@', "INSERT INTO t VALUES ($row, 0)");
	is($calls, 1, "$name: another error is not for a second call");
	like($line, qr/^failed .*duplicate key/, "$name: and is what the caller gets");

	adds_one("$name: the request of COMMIT is lost", qr/^2$/, 1, sub { order('request') });
	adds_one("$name: the answer to COMMIT is lost", qr/^1$/, 1, sub { order('answer') });
	my $before = unknown();
	adds_one("$name: 08007", qr/^[12]$/, 1, sub {
		kill 'STOP', $c->replicator_pid;
		$in .= "go\n";
		$client->pump_nb;
		ok($c->wait_until(sub { unknown() > $before }), "$name: the node says that the outcome is unknown");
		kill 'CONT', $c->replicator_pid;
		return 'gone on';
	});
	# by now it may have found node 2
	adds_one("$name: no node takes writes for a moment", qr/^2$/, 1, sub {
		$c->sql(1, 'SET lockstep.commit_wait = applied; ALTER ROLE client SET default_transaction_read_only = on');
		$c->sql($_, "SELECT pg_terminate_backend(pid) $sessions") for 1, 2;
		$in .= "go\n";
		$client->pump_nb;
		select(undef, undef, undef, 0.2);
		$c->sql(1, 'SET lockstep.commit_wait = applied; ALTER ROLE client RESET default_transaction_read_only');
		return 'gone on';
	}) unless $single_host{$name};
	$client->kill_kill(grace => 2);

	start(@command);
	adds_one("$name: the node is drained", qr/^2$/, 1, sub {
		connected($name, $connections);
		$c->file('balancer', '') if $single_host{$name};
		my (undef, $error, $rc) = $c->ctl('drain', 'n1');
		is($rc, 0, "$name: no connection holds it up") or diag($error);
	}, waits_first => 1);
	unlink $balancer;
	$c->ctl('resume', 'n1');
	ok($c->wait_state(1, 'online'), "$name: it is back");
	$client->kill_kill(grace => 2);
	return;
}

# What has to be compiled before.
my $drivers = "$LockstepDriver::here/../results/drivers";
my $modules = "$drivers/go";
my $crates = "$drivers/rust";
my $core = 'Npgsql.EntityFrameworkCore.PostgreSQL';
my $build = 'PACKAGE=$(basename $PWD) dotnet build --no-restore -o out --disable-build-servers --nologo -v quiet';
my %compile = (
	'JDBC' => [ 'javac', '-cp', '/usr/share/java/postgresql.jar', '-d', $recipes, "$recipes/Lockstep.java", "$here/Client.java" ],
	'HikariCP' => [ 'sh', '-ec', "javac -cp '/usr/share/java/postgresql.jar:$drivers/java/*' -d $recipes $recipes/Lockstep.java $here/*.java" ],
	'pgx' => [ 'sh', '-ec', "mkdir -p $recipes/go/lockstep; cd $recipes/go; cp $modules/go.mod $modules/go.sum $here/client.go .; cp $recipes/lockstep.go lockstep; go build -mod=mod -o client ." ],
	'Npgsql' => [ 'sh', '-ec', "cd $recipes/Npgsql; cp $here/Client.cs $recipes/Lockstep.cs .; $build" ],
	'EF Core' => [ 'sh', '-ec', "cd $recipes/$core; cp $here/ContextClient.cs $recipes/Lockstep*.cs .; $build" ],
	'tokio-postgres' => [ 'sh', '-ec', "mkdir -p $recipes/rust/src; cd $recipes/rust; cp $crates/Cargo.* .; cp $here/client.rs src/main.rs; cp $recipes/lockstep.rs src; CARGO_TARGET_DIR=$crates/target cargo build -q --locked; mkdir -p target/debug; cp $crates/target/debug/client target/debug" ]);

# Makes a project that uses a package, if that can be had.
sub restore
{
	my ($package) = @_;
	return "command -v dotnet; test ! \"\$NPGSQL_DLL\" || test -e \"\$(dirname \"\$NPGSQL_DLL\")/$package.dll\"
		mkdir $recipes/$package; cd $recipes/$package; cp $here/client.csproj .; PACKAGE=$package timeout 120 dotnet restore";
}

my $python = -e "$drivers/python" ? "$drivers/python/bin/python" : '/usr/bin/python3';
my $java = join ':', $recipes, '/usr/share/java/postgresql.jar', "$drivers/java/*";
my %pooled = map { $_ => $pool } ('psycopg pool', 'SQLAlchemy', 'asyncpg', 'HikariCP', 'node-postgres', 'pgx', 'Npgsql', 'EF Core', 'ActiveRecord');
my @clients = (
	(map { [ $_->[0], [ $python, '-c', "import $_->[1]" ], $python, "$here/clients.py", $_->[2] ] } (
		[ 'psycopg', 'psycopg', 'psycopg' ], [ 'psycopg pool', 'psycopg_pool; psycopg_pool.ConnectionPool.drain', 'pool' ], [ 'psycopg2', 'psycopg2', 'psycopg2' ], [ 'SQLAlchemy', 'sqlalchemy, psycopg2', 'sqlalchemy' ],
		[ 'Django', 'django, psycopg2', 'django' ], [ 'asyncpg', 'asyncpg, inspect; inspect.signature(asyncpg.connect).parameters["target_session_attrs"]', 'asyncpg' ])),
	[ 'JDBC', [ 'sh', '-c', 'test -e /usr/share/java/postgresql.jar && command -v javac' ], 'java', '-cp', $java, 'Client' ],
	[ 'HikariCP', [ 'sh', '-c', "test -e /usr/share/java/postgresql.jar && command -v javac && ls $drivers/java/HikariCP*.jar" ], 'java', '-Dslf4j.internal.verbosity=ERROR', '-cp', $java, 'PooledClient' ],
	[ 'node-postgres', [ 'node', '-e', 'require("pg")' ], 'node', "$here/client.js", $recipes ],
	[ 'pgx', [ 'sh', '-c', "command -v go && test -e $modules/go.sum" ], "$recipes/go/client" ],
	[ 'tokio-postgres', [ 'sh', '-c', "command -v cargo && test -e $crates/Cargo.lock" ], "$recipes/rust/target/debug/client" ],
	(map { [ $_->[0], [ 'sh', '-ec', restore($_->[1]) ], 'dotnet', "$recipes/$_->[1]/out/client.dll" ] } ([ 'Npgsql', 'Npgsql' ], [ 'EF Core', $core ])),
	[ 'Ruby pg', [ 'ruby', '-e', 'require "pg"' ], 'ruby', "$here/client.rb", $recipes ],
	[ 'ActiveRecord', [ 'ruby', '-e', 'require "active_record"; require "pg"' ], 'ruby', "$here/client.rb", $recipes, 'record' ],
	[ 'PDO', [ 'php', '-r', 'exit(extension_loaded("pdo_pgsql") ? 0 : 1);' ], 'php', "$here/client.php", $recipes ]);

$ENV{DOTNET_CLI_TELEMETRY_OPTOUT} = $ENV{DOTNET_NOLOGO} = 1;
$ENV{NODE_PATH} = join ':', "$drivers/node_modules", '/usr/share/nodejs';
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); CREATE ROLE client SUPERUSER LOGIN');
$c->drain;
for (@clients)
{
	my ($name, $probe, @command) = @$_;
	next if $ENV{RECIPES} && $name !~ /$ENV{RECIPES}/;
	my $installed = eval { IPC::Run::run($probe, '<', \undef, '>', '/dev/null', '2>', '/dev/null') };

	SKIP:
	{
		skip "no $name (" . ($command[0] eq 'dotnet' ? 'it takes dotnet, and NuGet or NPGSQL_DLL' : 'tests/setup drivers installs it') . ')', 1 if !$installed;
		is(system(@{ $compile{$name} }), 0, "$name: it compiles") if $compile{$name};
		check($name, $pooled{$name} // 1, @command);
	}
}
$c->same('all nodes are equal');
kill 'TERM', $proxy;
waitpid($proxy, 0);
done_testing;
