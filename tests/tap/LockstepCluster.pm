# A cluster of lockstep nodes for one test: made by tests/cluster in a temporary
# directory on ports of its own, ended and removed when the test ends (kept when
# it failed and LOCKSTEP_KEEP is set).
#
#	my $c = LockstepCluster->new(nodes => 2);
#	$c->sql(1, 'INSERT ...');					# dies on an error
#	my ($out, $err) = $c->try(1, 'INSERT ...');	# $err: '' or "ERROR:  40001: ..."
#	my $s = $c->session(1); $s->query('BEGIN');	# a psql that stays
#	$c->same('after the load');					# a test: all nodes hold the same
package LockstepCluster;
use strict;
use warnings;
use Carp;
use Cwd qw(abs_path);
use Fcntl qw(:flock);
use File::Basename qw(dirname);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use IPC::Run ();
use JSON::PP ();
use MIME::Base64 ();
use POSIX ();
use Test::More;
use Time::HiRes qw(time usleep);

use LockstepSession;

our $tests = abs_path(dirname(__FILE__) . '/..');
my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
chomp(our $bindir = `$pg_config --bindir`);
my @alive;

# By default pgbench takes its seed from the clock, and two that start in the same
# microsecond draw the same keys.
$ENV{PGBENCH_RANDOM_SEED} //= 'rand';

# Ended by tests/tap/limit: the END blocks show the logs and stop the servers.
my $test_pid = $$;
$SIG{TERM} = sub {
	die "ended by SIGTERM\n" if $$ == $test_pid;
	$SIG{TERM} = 'DEFAULT';
	kill 'TERM', $$;
};

# ---------- making and ending

# Ports of its own: a lock file for as long as the test runs.
sub _claim_ports
{
	my ($n) = @_;
	for my $try (1 .. 500)
	{
		my $base = 22000 + 10 * int(rand(90));
		open(my $lock, '>', "/tmp/lockstep-ports-$>-$base") or next;
		flock($lock, LOCK_EX | LOCK_NB) or next;
		next if grep { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $_) } $base .. $base + $n;
		return ($base, $lock);
	}
	croak 'no free ports';
}

# Where a cluster's files lie: in memory, if there is plenty of it, as half of a test's CPU time went into
# files; on a disk those that are to be durable.
sub _place
{
	my ($on_disk) = @_;
	return $ENV{LOCKSTEP_TMP} if $ENV{LOCKSTEP_TMP};
	return '/tmp' if $on_disk;
	my ($options) = _slurp('/proc/mounts') =~ m{^\S+ /dev/shm tmpfs (\S+)}m;
	return '/tmp' unless defined $options && $options !~ /\bnoexec\b/ && -w '/dev/shm';
	my ($mb) = `df --output=avail -BM /dev/shm` =~ /(\d+)M/;
	my ($kb) = _slurp('/proc/meminfo') =~ /^MemAvailable:\s+(\d+)/m;
	return ($mb // 0) > 6 * 1024 && ($kb // 0) > 8 * 1024 * 1024 ? '/dev/shm' : '/tmp';
}

# nodes, db, conf and replicator_conf (text), data (directory), fault (preload
# lockstep_fault before lockstep), clock (servers and replicator have a wall clock that
# set_clock() sets), disk (servers have a disk that stop_disk() stops), durable (fsync on), on_disk (its files are too large for memory), tls (all is encrypted), replicators (a group of so many, with etcds => 3: and so many of etcd), up => 0 (don't start yet),
# any_state => 1 (start, but don't wait for all nodes to be online).
sub new
{
	my ($class, %o) = @_;
	my $nodes = $o{nodes} // 2;
	my ($base, $lock) = _claim_ports($nodes);
	my $top = tempdir('lockstep-XXXXXX', DIR => _place($o{durable} || $o{on_disk}), CLEANUP => 0);
	my $self = bless { nodes => $nodes, base => $base, lock => $lock, top => $top, dir => "$top/c",
		db => $o{db} // 'app', sessions => [], options => \%o, test_pid => $$ }, $class;

	chmod 0755, $top;
	push @alive, $self;
	$self->_fault_module if $o{fault};
	$self->_preload('clock') if $o{clock};
	$self->file('clock', pack('q', 0)) if $o{clock};
	$self->_preload('disk') if $o{disk};
	$self->up if $o{up} // 1;
	return $self;
}

sub up
{
	my ($self) = @_;
	my $o = $self->{options};
	my @args = ('up', '--nodes', $self->{nodes}, '--dir', $self->{dir}, '--port', $self->{base}, '--db', $self->{db});
	my $conf = ($o->{conf} // '') . ($self->{fault_conf} // '');

	push @args, '--fast' unless $o->{durable};
	push @args, '--no-wait' if $o->{any_state};
	push @args, '--tls' if $o->{tls};
	push @args, '--replicators', $o->{replicators} if $o->{replicators};
	push @args, '--etcds', $o->{etcds} if $o->{etcds};
	push @args, '--conf', $self->file('conf', $conf) if $conf ne '';
	push @args, '--replicator-conf', $self->file('replicator-conf', $o->{replicator_conf}) if $o->{replicator_conf};
	push @args, '--data', $o->{data} if $o->{data};
	$self->cluster(@args) or die("the cluster did not start:\n" . $self->{cluster_output});
	return $self;
}

# A file of the test, readable for the servers.
sub file
{
	my ($self, $name, $text) = @_;
	my $path = "$self->{top}/$name";
	open(my $f, '>', $path) or croak "$path: $!";
	print $f $text;
	close $f;
	chmod 0644, $path;
	return $path;
}

sub _fault_module
{
	my ($self) = @_;
	my $out = `make -C $tests/fault 2>&1`;
	$? == 0 or die("tests/fault did not compile:\n$out");
	system('cp', "$tests/fault/lockstep_fault.so", $self->{top}) == 0 or die('no fault module');
	$self->{fault_conf} = "shared_preload_libraries = 'lockstep, $self->{top}/lockstep_fault.so'\n";
}

# A library for LD_PRELOAD.
sub _preload
{
	my ($self, $name) = @_;
	my $out = `make -C $tests/fault $name.so 2>&1`;
	$? == 0 or die("tests/fault/$name.c did not compile:\n$out");
	system('cp', "$tests/fault/$name.so", $self->{top}) == 0 or die("no $name.so");
	$self->{preload} = join ' ', grep { $_ } $self->{preload}, "$self->{top}/$name.so";
}

# The disk of a node's server stands still while the code runs.
sub stop_disk
{
	my ($self, $node, $code) = @_;
	my $flag = $self->pgdata($node) . '/disk_stands_still';
	open(my $f, '>', $flag) or croak "$flag: $!";
	my $ok = eval { $code->(); 1 };
	my $why = $@;
	unlink $flag;
	die $why unless $ok;
}

# The wall clock of all servers and of the replicator is so many seconds ahead from now on.
sub set_clock
{
	my ($self, $seconds) = @_;
	open(my $f, '+<', "$self->{top}/clock") or croak "clock: $!";
	syswrite($f, pack('q', $seconds)) == 8 or croak "clock: $!";
	close $f;
}

# tests/cluster COMMAND ...; true if it succeeded.
sub cluster
{
	my ($self, $command, @args) = @_;
	my $log = "$self->{top}/cluster.log";
	my @dir = (grep { $_ eq '--dir' } @args) ? () : ('--dir', $self->{dir});
	my $pid = fork // croak "fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>', $log);
		open(STDERR, '>&', \*STDOUT);
		close $self->{lock};
		@ENV{qw(LD_PRELOAD LOCKSTEP_CLOCK)} = ($self->{preload}, "$self->{top}/clock") if $self->{preload};
		# AddressSanitizer wants to be the first library
		$ENV{ASAN_OPTIONS} = join ':', grep { $_ } $ENV{ASAN_OPTIONS}, 'verify_asan_link_order=0' if $self->{preload};
		exec("$tests/cluster", $command, @args, @dir) or exit 127;
	}
	waitpid($pid, 0);
	my $rc = $?;
	$self->{cluster_output} = _slurp($log);
	diag("tests/cluster $command failed:\n$self->{cluster_output}") if $rc != 0;
	return $rc == 0;
}

sub _slurp
{
	my ($path) = @_;
	open(my $f, '<', $path) or return '';
	local $/;
	return scalar(<$f>) // '';
}

sub down
{
	my ($self) = @_;
	return if $self->{test_pid} != $$ || $self->{ended};
	$self->{ended} = 1;
	$_->close for grep { $_ } @{ $self->{sessions} };
	if (($self->{died} || !Test::More->builder->is_passing) && -d "$self->{dir}")
	{
		$self->_show_logs;
		if ($ENV{LOCKSTEP_KEEP})
		{
			diag("left running: $self->{dir}");
			return;
		}
	}
	$self->cluster('down') if -e "$self->{dir}/cluster.env";
	remove_tree($self->{top});
	unlink "/tmp/lockstep-ports-$>-$self->{base}";
}

# The ends of the logs of a test that failed.
sub _show_logs
{
	my ($self) = @_;
	for my $log (grep { !/initdb/ } glob("$self->{dir}/*.log $self->{dir}/replicator*.out"))
	{
		my @lines = split /\n/, _slurp($log);
		next unless @lines;
		my $from = @lines > 25 ? @lines - 25 : 0;
		diag("---- end of $log\n", join("\n", @lines[$from .. $#lines]), "\n");
	}
}

END
{
	my $rc = $?;
	for (@alive)
	{
		$_->{died} = 1 if $rc != 0;
		$_->down;
	}
	$? = $rc;
}

# ---------- names

sub port { my ($self, $node) = @_; return $self->{base} + $node }
sub pgdata { my ($self, $node) = @_; return "$self->{dir}/n$node" }
sub node_log { my ($self, $node) = @_; return _slurp("$self->{dir}/n$node.log") }
sub replicator_conf { my ($self) = @_; return "$self->{dir}/replicator.conf" }
sub replicator_log { my ($self) = @_; return _slurp("$self->{dir}/replicator.log") . _slurp("$self->{dir}/replicator.out") }
sub all { my ($self) = @_; return 1 .. $self->{nodes} }

# Tests: a log has it, or gets it, as who has been answered may be sooner than the line.
sub replicator_logs { my ($self, @test) = @_; return $self->_gets(sub { $self->replicator_log }, @test) }
sub node_logs { my ($self, $node, @test) = @_; return $self->_gets(sub { $self->node_log($node) }, @test) }
sub member_logs { my ($self, $i, @test) = @_; return $self->_gets(sub { $self->member_log($i) }, @test) }

sub _gets
{
	my ($self, $log, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	return ok($self->wait_until(sub { $log->() =~ $like }), $name) || diag("no $like") && 0;
}

sub conninfo
{
	my ($self, $node, $db, $user) = @_;
	$db //= $self->{db};
	$user //= 'postgres';
	return "host=127.0.0.1 port=" . $self->port($node) . " user=$user dbname=$db connect_timeout=10";
}

# A command of PostgreSQL's against a node, as a list.
sub client
{
	my ($self, $node, $program, %o) = @_;
	return ("$bindir/$program", '-h', '127.0.0.1', '-p', $self->port($node), '-U', 'postgres');
}

# PostgreSQL's, as 15
sub version { return $bindir =~ m{/(\d+)/bin$} ? $1 : `$bindir/pg_config --version` =~ /(\d+)/ ? $1 : croak 'no version' }

# Any command as the user of the servers and the replicator, as a list.
sub owned
{
	my ($self, @command) = @_;
	return ($> == 0 ? ('setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--init-groups', '--') : (), @command);
}

# (exit code, stdout and stderr) of such a command.
sub run_owned
{
	my ($self, @command) = @_;
	my $out = '';
	chdir '/';
	IPC::Run::run([ $self->owned(@command) ], '<', \undef, '>&', \$out, IPC::Run::timeout(180));
	return ($? >> 8, $out);
}

# ---------- statements

# What psql reads, as a file: psql may end before it has read, when its server is not there, and
# a pipe would then end the test by SIGPIPE.
sub script
{
	my ($sql) = @_;
	open(my $file, '+>', undef) or croak "temporary file: $!";
	print $file $sql;
	seek($file, 0, 0) or croak "temporary file: $!";
	return $file;
}

# (stdout, stderr) of a script run by psql: it stops at the first error.
sub try
{
	my ($self, $node, $sql, %o) = @_;
	my ($out, $err) = ('', '');
	local $ENV{PGOPTIONS} = $o{options} // '';
	my @command = ("$bindir/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
		'-d', $self->conninfo($node, $o{db}, $o{user}));
	IPC::Run::run(\@command, '<', script($sql), '>', \$out, '2>', \$err, IPC::Run::timeout($o{timeout} // 60));
	chomp $out;
	return wantarray ? ($out, $err) : $out;
}

# All that psql says of a script, which goes on after errors, on any server of this machine.
sub psql_says
{
	my ($self, $port, $db, $sql) = @_;
	my $out = '';
	my @command = ("$bindir/psql", '-XAtq', '-v', 'VERBOSITY=verbose', '-h', '127.0.0.1', '-p', $port, '-U', 'postgres', $db);
	local $ENV{PGCONNECT_TIMEOUT} = 10;	# HAProxy 3.0 may forget a connection, see docs/beside.md
	IPC::Run::run(\@command, '<', script($sql), '>&', \$out, IPC::Run::timeout(60));
	chomp $out;
	return $out;
}

# stdout; an error ends the test.
sub sql
{
	my ($self, $node, $sql, %o) = @_;
	my ($out, $err) = $self->try($node, $sql, %o);
	croak "n$node: $sql\n$err" if $err =~ /^(?:psql:.*?: )?(?:ERROR|FATAL|PANIC)|could not connect|server closed/m;
	return $out;
}

sub sql_everywhere
{
	my ($self, $sql, %o) = @_;
	return map { scalar $self->sql($_, $sql, %o) } $self->all;
}

# A change that stays on one node: plants differences.
sub sql_local
{
	my ($self, $node, $sql, %o) = @_;
	return $self->sql($node, "SET lockstep.replicate = off;\n$sql", %o);
}

# A test: the statement fails with this SQLSTATE, the text of the error matching.
sub fails
{
	my ($self, $node, $sql, $sqlstate, $like, $name, %o) = @_;
	my (undef, $err) = $self->try($node, $sql, %o);
	return is_error($err, $sqlstate, $like, $name);
}

# A test of an error text as psql prints it with VERBOSITY = verbose.
sub is_error
{
	my ($err, $sqlstate, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($state) = $err =~ /^(?:psql:.*?: )?(?:ERROR|FATAL):\s+(\w{5}):/m;
	return pass($name) if defined $state && $state =~ /^(?:$sqlstate)$/ && $err =~ $like;
	fail($name);
	diag("expected $sqlstate and $like, got: " . ($err eq '' ? 'no error' : $err));
	return 0;
}

sub session
{
	my ($self, $node, %o) = @_;
	my $s = LockstepSession->new("$bindir/psql", $self->conninfo($node, $o{db}, $o{user}), $o{options}, "n$node");
	push @{ $self->{sessions} }, $s;
	return $s;
}

# ---------- the cluster's state

sub ctl
{
	my ($self, @args) = @_;
	my ($out, $err) = ('', '');
	return $self->member_ctl($self->leader // 1, @args) if ($self->{options}{replicators} // 1) > 1;
	IPC::Run::run(["$bindir/lockstepctl", '--config', $self->replicator_conf, '--socket', "$self->{dir}/admin.sock", @args],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	my $rc = $? >> 8;
	chomp $out;
	return wantarray ? ($out, $err, $rc) : $out;
}

# ---------- a group of replicators: r1, r2, ...

# lockstepctl of that one: (stdout, stderr, exit code).
sub member_ctl
{
	my ($self, $i, @args) = @_;
	my ($out, $err) = ('', '');
	my $n = $i == 1 ? '' : $i;
	IPC::Run::run(["$bindir/lockstepctl", '--config', "$self->{dir}/replicator$n.conf", '--socket', "$self->{dir}/admin$n.sock", @args],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	my $rc = $? >> 8;
	chomp $out;
	return wantarray ? ($out, $err, $rc) : $out;
}

sub replicators { my ($self) = @_; return 1 .. ($self->{options}{replicators} // 1) }

# What one of them says of the group.
sub group
{
	my ($self, $i) = @_;
	my ($out) = $self->member_ctl($i, 'replicators', '--json');
	return eval { JSON::PP::decode_json($out) } // {};
}

# The number of the one that leads; undef: none does, but for one that is frozen and can't say so.
sub leader
{
	my ($self) = @_;
	my ($leader) = grep { ($self->group($_)->{role} // '') eq 'leader' } grep { $self->_member_answers($_) } $self->replicators;
	return $leader;
}

sub _member_answers
{
	my ($self, $i) = @_;
	my $pid = $self->member_pid($i);
	return $pid && _slurp("/proc/$pid/status") !~ /^State:\s*T/m;
}

# undef: it does not run.
sub member_pid
{
	my ($self, $i) = @_;
	my ($pid) = _slurp("$self->{dir}/replicator" . ($i == 1 ? '' : $i) . '.pid') =~ /^(\d+)/;
	return $pid && !$self->is_gone($pid) ? $pid : undef;
}

sub member_log
{
	my ($self, $i) = @_;
	return _slurp("$self->{dir}/replicator" . ($i == 1 ? '' : $i) . '.log');
}

# Killed, or by another signal; after KILL and TERM it has gone when this returns.
sub kill_replicator
{
	my ($self, $i, $signal) = @_;
	$signal //= 'KILL';
	my $pid = $self->member_pid($i) // croak "r$i does not run";
	kill $signal, $pid;
	return 1 if $signal !~ /^(?:KILL|TERM)$/;
	return $self->wait_until(sub { !defined $self->member_pid($i) }) || croak "r$i does not end";
}

sub start_replicator { my ($self, $i) = @_; return $self->cluster('start-replicator', $i) }
sub freeze_replicator { my ($self, $i) = @_; return $self->kill_replicator($i, 'STOP') }
sub thaw_replicator { my ($self, $i) = @_; return $self->kill_replicator($i, 'CONT') }

# The processes of etcd's members, by number; of those that run.
sub etcd_pid
{
	my ($self, $i) = @_;
	my ($pid) = _slurp("$self->{dir}/etcd" . (($i // 1) == 1 ? '' : $i) . '.pid') =~ /^(\d+)/;
	return $pid && !$self->is_gone($pid) ? $pid : undef;
}

# What etcd's key says: a hash, which is empty if it can't be read; it may not answer at once.
sub etcd_key
{
	my ($self) = @_;
	my $url = 'http://127.0.0.1:' . ($self->{base} + 3000) . '/v3/kv/range';
	my $key;
	$self->wait_until(sub {
		my $answer = eval { JSON::PP::decode_json(scalar `curl -s -m 2 $url -d '{"key":"L2xvY2tzdGVw"}' 2>/dev/null`) } // {};
		$key = eval { JSON::PP::decode_json(MIME::Base64::decode_base64($answer->{kvs}[0]{value})) } // {};
		return %$key;
	});
	return $key;
}

# The number of etcd's own leader; undef: there is none.
sub etcd_leader
{
	my ($self) = @_;
	for my $i (1 .. $self->{options}{etcds} // 1)
	{
		my $url = "http://127.0.0.1:" . ($self->{base} + 3000 + 2 * ($i - 1));
		my $s = eval { JSON::PP::decode_json(scalar `curl -s -m 2 $url/v3/maintenance/status -d '{}' 2>/dev/null`) } or next;
		return $i if ($s->{leader} // 0) && $s->{leader} eq ($s->{header}{member_id} // '');
	}
	return undef;
}

# Until one leads, if given: another than that one.  Its number, undef: none does.
sub wait_leader
{
	my ($self, $not, $seconds) = @_;
	my $leader;
	$self->wait_until(sub { $leader = $self->leader; return defined $leader && $leader != ($not // 0) }, $seconds);
	return $leader;
}

# Until all members have everything, and so many are in sync.
sub wait_copies
{
	my ($self, $n, $seconds) = @_;
	my $group = {};
	my $ok = $self->wait_until(
		sub {
			my $leader = $self->leader // return 0;
			$group = $self->group($leader);
			return @{ $group->{in_sync} // [] } == $n && !grep { $_->{state} !~ /^(?:leader|standby)$/ } @{ $group->{members} };
		}, $seconds);
	diag(JSON::PP->new->canonical->pretty->encode($group)) unless $ok;
	return $ok;
}

sub status
{
	my ($self) = @_;
	my ($out) = $self->ctl('status', '--json');
	return eval { JSON::PP::decode_json($out) } // {};
}

sub node_status
{
	my ($self, $node) = @_;
	my ($n) = grep { $_->{name} eq "n$node" } @{ $self->status->{nodes} // [] };
	return $n // {};
}

# Why it is in the state it is in.
sub reason { my ($self, $node) = @_; return $self->node_status($node)->{reason} // '' }

# Wait until a condition holds; false after the time, which is at least a minute if it is 5 s or more.
sub wait_until
{
	my ($self, $condition, $seconds) = @_;
	my $end = time + LockstepSession::patience($seconds // 20);
	for (;;)
	{
		my $asked = time;
		return 1 if $condition->();
		return 0 if time > $end;
		# what asks several programs is not to keep a core busy
		my $took = time - $asked;
		usleep(1e6 * ($took < 0.02 ? 0.02 : $took > 0.1 ? 0.1 : $took));
	}
}

# A bound on a time that is measured: so many seconds on a machine that has nothing else to do, in proportion
# more on one where others want the cores, too.  Asked when it is over.
sub soon
{
	my ($seconds) = @_;
	my ($load, $running) = _slurp('/proc/loadavg') =~ m{^([\d.]+) \S+ \S+ (\d+)/};
	my $want = $load > $running ? $load : $running;
	return $seconds * (1 + $want / POSIX::sysconf(84));		# _SC_NPROCESSORS_ONLN
}

# Of a node that is out: as soon as the replicator's sessions there have ended.
sub leave_cluster
{
	my ($self, $node) = @_;
	my $why;
	$self->wait_until(sub { (undef, $why) = $self->try($node, 'SELECT lockstep.leave_cluster()'); return $why eq '' }, 30)
		or croak "n$node: $why";
}

sub wait_state
{
	my ($self, $node, $state, $seconds) = @_;
	my $ok = $self->wait_until(sub { ($self->node_status($node)->{state} // '') eq $state }, $seconds);
	diag("n$node is " . ($self->node_status($node)->{state} // 'unknown') . ", not $state") unless $ok;
	return $ok;
}

sub wait_sql
{
	my ($self, $node, $sql, $expected, $seconds) = @_;
	my $last = '';
	my $ok = $self->wait_until(
		sub { my ($out) = $self->try($node, $sql); $last = $out; return $out eq $expected }, $seconds);
	diag("n$node: $sql\n  gives: $last\n  not: $expected") unless $ok;
	return $ok;
}

# The replicator, or a node, knows that this session of node 1 waits (of that kind); what is asked next is behind it.
sub wait_for_waiter
{
	my ($self, $session, $kind) = @_;
	return $self->wait_sql(1, 'SELECT count(*) > 0 FROM lockstep.waits WHERE pid = ' . $session->pid . ($kind ? " AND kind = '$kind'" : ''), 't');
}

# Until every node (with 'online': every node that is online) has applied what is decided.
sub drain { my ($self, @scope) = @_; return $self->cluster('drain', @scope) }

sub replicator_pid
{
	my ($self) = @_;
	my ($pid) = _slurp("$self->{dir}/replicator.pid") =~ /^(\d+)/;
	return $pid;
}

# Is it built with a sanitizer?  Then its memory says nothing.
sub replicator_is_sanitized
{
	my ($self) = @_;
	return _slurp('/proc/' . $self->replicator_pid . '/maps') =~ /lib[at]san/;
}

# The apply sessions of the replicator on a node.
sub apply_pids
{
	my ($self, $node) = @_;
	return split /\n/, $self->sql($node, "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockstep apply'");
}

# Run the code while the apply sessions of these nodes are stopped, so that a
# transaction of another node stays reserved for as long as it takes.
sub frozen
{
	my ($self, $nodes, $code) = @_;
	my @pids = map { $self->apply_pids($_) } @$nodes;
	kill 'STOP', @pids;
	my $ok = eval { $code->(); 1 };
	my $why = $@;
	kill 'CONT', @pids;
	die $why unless $ok;
}

# A line of /proc/PID/status: VmHWM, RssAnon ...
sub memory_kb
{
	my ($self, $pid, $what) = @_;
	my ($kb) = _slurp("/proc/$pid/status") =~ /^$what:\s+(\d+) kB/m;
	return $kb;
}

# CPU seconds of a process so far; 0: it has gone.
sub cpu_seconds
{
	my ($self, $pid) = @_;
	my @fields = split ' ', _slurp("/proc/$pid/stat") =~ s/^.*\) //r;
	return @fields ? ($fields[11] + $fields[12]) / POSIX::sysconf(&POSIX::_SC_CLK_TCK) : 0;
}

# How many files of large transactions are in the journal.
sub bodies
{
	my ($self) = @_;
	my @f = glob("$self->{dir}/journal/*.body");
	return scalar @f;
}

# A function for an index, which stops at 1 while somebody has the advisory lock.
sub create_gate
{
	my ($self, $lock) = @_;
	$self->sql(1, <<SQL);
CREATE FUNCTION gate(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS \$\$
BEGIN
	IF i = 1 THEN
		PERFORM pg_advisory_lock_shared($lock);
		PERFORM pg_advisory_unlock_shared($lock);
	END IF;
	RETURN i;
END \$\$;
SQL
}

# Ready and valid?  Of an index, on each node; '' where there is none.
sub index_states
{
	my ($self, $name) = @_;
	return [ map { scalar $self->sql($_, "SELECT indisready || ' ' || indisvalid FROM pg_index WHERE indexrelid = to_regclass('$name')") } $self->all ];
}

# What was there under the second name is gone.
sub copy_tree
{
	my ($from, $to) = @_;
	system('rm', '-rf', $to) == 0 && system('cp', '-a', $from, $to) == 0 or croak "cp $from $to";
}

# A copy of the journal as it is now, as journal.old beside it; then it is gone on with.
sub keep_old_journal
{
	my ($self) = @_;
	$self->drain;
	$self->cluster('stop-replicator');
	copy_tree("$self->{dir}/journal", "$self->{dir}/journal.old");
	$self->cluster('start-replicator');
	$self->wait_state($_, 'online') for $self->all;
}

# Has that process ended, whether anybody has taken note of it or not?  With all of its threads: the first one may have gone before one
# that is busy with the disk, with which its files stay open and locked.
sub is_gone
{
	my ($self, $pid) = @_;
	my @threads = glob("/proc/$pid/task/*");
	return 0 if @threads > 1;
	my ($state) = _slurp("/proc/$pid/status") =~ /^State:\s+(\S)/m;
	return !defined $state || $state eq 'Z';
}

# As its pid file says, which a killed server leaves; undef: there is none.
sub postmaster_pid { my ($self, $node) = @_; return (_slurp($self->pgdata($node) . '/postmaster.pid') =~ /^(\d+)/)[0] }

# All processes of a node's server.
sub server_pids
{
	my ($self, $node) = @_;
	my $data = $self->pgdata($node);
	return map { m!^/proc/(\d+)! && (readlink($_) // '') eq $data ? $1 : () } glob '/proc/[0-9]*/cwd';
}

# Change a setting of a running node.
sub set
{
	my ($self, $node, $name, $value) = @_;
	open(my $f, '>>', $self->pgdata($node) . '/lockstep.conf') or croak $!;
	print $f "$name = $value\n";
	close $f;
	$self->sql($node, 'SELECT pg_reload_conf()');
	$self->wait_sql($node, "SELECT current_setting('$name')", $value =~ s/^'(.*)'$/$1/r);
}

# Change replicator.conf, which is $_ to the code; it is not read anew yet.
sub edit_replicator_conf
{
	my ($self, $code) = @_;
	local $_ = _slurp($self->replicator_conf);
	$code->();
	open(my $f, '>', $self->replicator_conf) or croak $!;
	print $f $_;
	close $f;
}

# ---------- all nodes hold the same

my $content_sql = <<'SQL';
SELECT format('SELECT %L, count(*), coalesce(md5(string_agg(row(t.*)::text, E''\n'' ORDER BY row(t.*)::text COLLATE "C")), '''') FROM ONLY %s t',
	c.oid::regclass::text, c.oid::regclass)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lockstep')
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C" \gexec
SELECT 'not populated', oid::regclass FROM pg_class WHERE NOT relispopulated ORDER BY 2;
SELECT 'sequence', s.seqrelid::regclass, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle, s.seqcache,
	pg_sequence_last_value(s.seqrelid)
FROM pg_sequence s ORDER BY s.seqrelid::regclass::text COLLATE "C";
SELECT 'large object', m.oid, pg_get_userbyid(m.lomowner), m.lomacl, obj_description(m.oid, 'pg_largeobject'),
	(SELECT md5(string_agg(l.pageno || ' ' || md5(l.data), ',' ORDER BY l.pageno)) FROM pg_largeobject l WHERE l.loid = m.oid)
FROM pg_largeobject_metadata m ORDER BY m.oid;
SELECT 'role', rolname, rolsuper, rolcanlogin, rolvaliduntil FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY rolname COLLATE "C";
SQL

sub content
{
	my ($self, $node, $db) = @_;
	my $search = "SET search_path = pg_catalog; SET extra_float_digits = 3;\n";
	return $self->sql($node, $search . $content_sql, db => $db);
}

sub schema
{
	my ($self, $node, $db) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([$self->client($node, 'pg_dump'), '--schema-only', $db // $self->{db}], '>', \$out, '2>', \$err);
	$out =~ s/^\\(un)?restrict .*$//mg;
	return $err eq '' ? $out : $err;
}

sub rows_of
{
	my ($self, $node, $table, $db) = @_;
	return $self->sql($node, "SET extra_float_digits = 3; SELECT t FROM ONLY $table t ORDER BY row(t.*)::text COLLATE \"C\"", db => $db);
}

# Until no node has handed out values that the others don't know of: the replicator
# fetches what no transaction has told.
sub settle_sequences
{
	my ($self, $db, @nodes) = @_;
	return $self->wait_until(
		sub {
			return !grep { $self->sql($_, 'SELECT count(*) FROM lockstep.sequence_positions()', db => $db) ne '0' } @nodes;
		});
}

# A test.  With data_only, the schemas are not compared.
sub same
{
	my ($self, $name, %o) = @_;
	my @nodes = @{ $o{nodes} // [ $self->all ] };
	my $db = $o{db} // $self->{db};
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	if (!$self->settle_sequences($db, @nodes) || !$self->drain($o{nodes} ? 'online' : ()))
	{
		fail($name);
		return 0;
	}
	my $first = shift @nodes;
	my $content = $self->content($first, $db);
	my $schema = $o{data_only} ? '' : $self->schema($first, $db);
	for my $node (@nodes)
	{
		my $other = $self->content($node, $db);
		if ($other ne $content)
		{
			fail($name);
			$self->_show_difference($first, $content, $node, $other, $db);
			return 0;
		}
		next if $o{data_only};
		my $other_schema = $self->schema($node, $db);
		next if $other_schema eq $schema;
		fail($name);
		diag("schemas of n$first and n$node differ:\n" . _diff($schema, $other_schema));
		return 0;
	}
	return pass($name);
}

# What clients were told against what is there.  Table mark has a row of each of their
# transactions that is committed; told: by its id, { how, result, outcome, error }; expected:
# code that says of such a one whether its row is to be there, undef: nobody knows.
sub holds_what_was_told
{
	my ($self, $told, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	for my $node ($self->all)
	{
		my %there = map { $_ => 1 } split /\n/, $self->sql($node, 'SELECT id FROM mark');
		my @wrong;
		for my $id (sort { $a <=> $b } keys %$told)
		{
			my $t = $told->{$id};
			my $is_to_be = $expected->($t);
			next unless defined $is_to_be;
			push @wrong, "$id, $t->{how}: $t->{result} " . ($t->{outcome} // $t->{error} // '') . ', it is ' . ($there{$id} ? 'there' : 'not there')
				if $is_to_be != ($there{$id} // 0);
		}
		is(scalar @wrong, 0, "n$node has what was told, and nothing else (" . scalar(keys %$told) . ' transactions)')
			or diag(join("\n", @wrong));
	}
}

sub _show_difference
{
	my ($self, $a, $a_content, $b, $b_content, $db) = @_;
	my $diff = _diff($a_content, $b_content);
	diag("n$a (-) and n$b (+) differ:\n$diff");
	my %tables = map { $_ => 1 } $diff =~ /^[-+]([\w."]+)\|\d+\|[0-9a-f]*$/mg;
	for my $table (sort keys %tables)
	{
		my ($ra) = $self->try($a, "SELECT t FROM ONLY $table t ORDER BY row(t.*)::text COLLATE \"C\"", db => $db);
		my ($rb) = $self->try($b, "SELECT t FROM ONLY $table t ORDER BY row(t.*)::text COLLATE \"C\"", db => $db);
		diag("$table:\n" . substr(_diff($ra, $rb), 0, 2000));
	}
}

sub _diff
{
	my ($x, $y) = @_;
	my $dir = tempdir(CLEANUP => 1);
	for ([ 'x', $x ], [ 'y', $y ])
	{
		open(my $f, '>', "$dir/$_->[0]") or croak $!;
		print $f "$_->[1]\n";
		close $f;
	}
	my $out = `diff -U0 $dir/x $dir/y | tail -n +3`;
	return $out;
}

# ---------- load

# pgbench on several nodes at once: ({node => ...} out of nodes, args as list).
# Returns the outputs by node; a failing pgbench is a failing test.
sub pgbench
{
	my ($self, $nodes, @args) = @_;
	my (@runs, %out);
	for my $node (@$nodes)
	{
		my $text = '';
		my @command = ($self->client($node, 'pgbench'), @args, $self->{db});
		push @runs, [ $node, \$text, IPC::Run::start(\@command, '<', \undef, '>&', \$text) ];
	}
	for my $run (@runs)
	{
		my ($node, $text, $h) = @$run;
		my $ok = $h->finish;
		$out{$node} = $$text;
		next if $ok && $$text !~ /client \d+ (?:script \d+ )?aborted/;
		fail("pgbench on n$node");
		diag($$text);
	}
	return \%out;
}

sub pgbench_start
{
	my ($self, $node, @args) = @_;
	my $text = '';
	my @command = ($self->client($node, 'pgbench'), @args, $self->{db});
	my $h = IPC::Run::start(\@command, '<', \undef, '>&', \$text);
	return { handle => $h, text => \$text };
}

# What runs of pgbench said but for their reports and their random seeds: any five digits may be in those.
sub complaints
{
	my (@runs) = @_;
	my $report = qr/^(?:pgbench \(|pgbench: setting random seed|transaction type|scaling factor|query mode|number of |maximum number|total number|duration|latency|initial connection|tps)/;
	return join '', grep { !/$report/ } map { ${ $_->{text} } =~ /^.*\n?/mg } @runs;
}

sub processed
{
	my ($out) = @_;
	my ($n) = $out =~ /number of transactions actually processed: (\d+)/;
	return $n // 0;
}

# For the benchmarks.
sub median { my @s = sort { $a <=> $b } @_; return @s % 2 ? $s[$#s / 2] : ($s[@s / 2 - 1] + $s[@s / 2]) / 2 }

1;
