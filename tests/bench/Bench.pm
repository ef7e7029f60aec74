# What benchmarks with several systems share: plain PostgreSQL, a primary with a synchronous standby, a cluster of two nodes
# and, if wanted, one with three replicators, all at once and on consecutive ports; each server and replicator in a CPU
# group of its own, if those can be made (as root, with version 1 of cgroups); one measurement by pgbench.
#
#	Bench::begin(scale => 10, quota => 60, base => 22900, tcp => 0);
#	set_up();
#	set_up_group();								# perhaps, or set_up_second(), set_up_pgpool()
#	make_groups();
#	my $r = bench(system => 'cluster_both', workload => 'prepared', clients => 4, seconds => 2);
#
# What it has started ends with the program.
package Bench;
use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use IPC::Run ();
use POSIX ();
use Time::HiRes ();

our @EXPORT = qw(run owned sql set_up set_up_group set_up_second set_up_pgpool start_program await make_groups join_group pin cpu set_quota bench drain percentile median write_file first_line %systems %pid_of %group @stop $top $bin $tests $base $scale $quota $cores $all_cores $other_cores);

our ($scale, $quota, $base, $tcp);
chomp(our $cores = `nproc`);
our ($all_cores, $other_cores) = map { join ',', $_ .. $cores - 1 } 0, $cores > 1 ? 1 : 0;	# other than the first
our $tests = abs_path(dirname(__FILE__) . '/..');
our %group;					# component => cgroup directory, or undef
our @stop;					# what ends it
chomp(our $bin = `\${PG_CONFIG:-pg_config} --bindir`);
$ENV{PGBENCH_RANDOM_SEED} //= 'rand';	# by default from the clock: two that start at once may draw the same keys
our $top;
our %pid_of;				# component => gives the process that all of it descends from
my @owner = $> == 0 ? ('runuser', '-u', 'postgres', '--') : ();
my $hz = POSIX::sysconf(&POSIX::_SC_CLK_TCK);

sub run
{
	my @command = @_;
	my $out = '';
	chdir '/';
	IPC::Run::run(\@command, '<', \undef, '>&', \$out) or die "@command:\n$out";
	return $out;
}

sub owned { return run(@owner, @_) }

# ---------- servers

my $common = <<'CONF';
shared_buffers = 512MB
max_wal_size = 4GB
checkpoint_timeout = 30min
max_connections = 200
autovacuum_naptime = 1d
synchronous_commit = on
CONF

sub write_file
{
	my ($path, $text) = @_;
	open(my $f, '>', $path) or die "$path: $!";
	print $f $text;
	close $f;
	run('chown', 'postgres:', $path) if $> == 0;
}

sub start_server
{
	my ($name, $port, $conf) = @_;
	write_file("$top/$name/bench.conf", "$common\nport = $port\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '$top'\n$conf");
	run('sh', '-c', "grep -q bench.conf $top/$name/postgresql.conf || echo \"include 'bench.conf'\" >> $top/$name/postgresql.conf");
	owned("$bin/pg_ctl", '-D', "$top/$name", '-l', "$top/$name.log", '-w', 'start');
	push @stop, sub { owned("$bin/pg_ctl", '-D', "$top/$name", '-m', 'immediate', '-w', 'stop') };
}

sub sql
{
	my ($port, $sql, $db) = @_;
	return run("$bin/psql", '-XAtq', '-h', '127.0.0.1', '-p', $port, '-U', 'postgres', '-d', $db // 'app', '-v', 'ON_ERROR_STOP=1', '-c', $sql);
}

# An ordinary server with an empty database.
sub new_server
{
	my ($name, $port) = @_;
	owned("$bin/initdb", '-D', "$top/$name", '-U', 'postgres', '-A', 'trust', '--no-sync', '--locale=C.UTF-8', '-E', 'UTF8');
	start_server($name, $port, '');
	sql($port, 'CREATE DATABASE app', 'postgres');
}

sub fill { return run("$bin/pgbench", '-h', '127.0.0.1', '-p', $_[0], '-U', 'postgres', '-i', '-q', '-s', $scale, 'app') }

# One server, a cluster, and a primary with a standby unless standby => 0.
sub set_up
{
	my %o = (standby => 1, @_);
	my @ports = ($base + 1, $o{standby} ? $base + 2 : (), $base + 5);
	run('chown', 'postgres:', $top) if $> == 0;
	new_server('plain', $base + 1);
	set_up_streaming() if $o{standby};
	delete @pid_of{qw(primary standby)} unless $o{standby};
	set_up_cluster();
	print STDERR "pgbench -i, scale $scale\n";
	fill($_) for @ports;
	run("$tests/cluster", 'drain', '--dir', "$top/c");
	sql($_, 'VACUUM ANALYZE') for @ports, $base + 6;
}

sub set_up_streaming
{
	new_server('primary', $base + 2);
	owned("$bin/pg_basebackup", '-h', $tcp ? '127.0.0.1' : $top, '-p', $base + 2, '-U', 'postgres', '-D', "$top/standby", '-R', '-c', 'fast');
	start_server('standby', $base + 3, '');
	sql($base + 2, "ALTER SYSTEM SET synchronous_standby_names = '*'", 'postgres');
	sql($base + 2, "ALTER SYSTEM SET synchronous_commit = 'remote_apply'", 'postgres');
	sql($base + 2, 'SELECT pg_reload_conf()', 'postgres');
}

sub set_up_cluster
{
	write_file("$top/cluster.conf", $common);
	run("$tests/cluster", 'up', '--nodes', 2, '--dir', "$top/c", '--port', $base + 4, '--conf', "$top/cluster.conf", $tcp ? () : ('--unix'));
	push @stop, sub { run("$tests/cluster", 'down', '--dir', "$top/c") };
}

# A second server like the plain one, that knows nothing of it: what two could do at most.
sub set_up_second
{
	new_server('plain2', $base + 9);
	fill($base + 9);
	sql($base + 9, 'VACUUM ANALYZE');
}

# A program that stays: its output goes to $top/NAME.log, and it ends with us.
sub start_program
{
	my ($name, @command) = @_;
	local $ENV{PATH} = "/usr/sbin:$ENV{PATH}";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>', "$top/$name.log");
		open(STDERR, '>&', \*STDOUT);
		@command = ('setpriv', '--reuid', 'postgres', '--regid', scalar getgrnam('postgres'), '--init-groups', '--', @command) if $> == 0;
		chdir '/';
		exec(@command) or POSIX::_exit(127);
	}
	push @stop, sub { kill('INT', $pid); waitpid($pid, 0) };
	return $pid;
}

# Until a program of ours is as it should be.
sub await
{
	my ($name, $ready) = @_;
	my $end = time + 60;
	until ($ready->())
	{
		die "$name is not ready:\n" . `tail -n 40 $top/$name.log` if time > $end;
		Time::HiRes::sleep(0.1);
	}
	return;
}

# Until it takes connections.
sub await_program
{
	my ($name, $pid, $host, $port) = @_;
	return await($name, sub {
		die "$name has ended:\n" . `cat $top/$name.log` if waitpid($pid, POSIX::WNOHANG()) == $pid;
		return system("$bin/psql -XAtqc 'SELECT 1' 'host=$host port=$port user=postgres dbname=app' >/dev/null 2>&1") == 0;
	});
}

# Settings of pgpool-II that are the same for each.
sub pgpool_conf
{
	my ($name, $port) = @_;
	return <<"CONF";
listen_addresses = '127.0.0.1'
port = $port
socket_dir = '$top'
unix_socket_directories = '$top'
pcp_listen_addresses = '127.0.0.1'
pcp_port = @{[ $port + 10 ]}
pcp_socket_dir = '$top'
wd_ipc_socket_dir = '$top'
pid_file_name = '$top/$name.pid'
work_dir = '$top'
logdir = '$top'
max_pool = 1
connection_cache = on
enable_pool_hba = off
health_check_period = 0
CONF
}

# pgpool-II before two ordinary servers, to both of which it sends what writes.
sub set_up_pgpool
{
	my $port = $base + 30;
	my $conf = "backend_clustering_mode = 'native_replication'\nreplicate_select = off\nnum_init_children = 70\n" . pgpool_conf('pgpool', $port);

	for my $i (1, 2)
	{
		new_server("pool$i", $port + $i);
		fill($port + $i);
		sql($port + $i, 'VACUUM ANALYZE');
		my $host = $tcp ? '127.0.0.1' : $top;
		$conf .= "backend_hostname@{[ $i - 1 ]} = '$host'\nbackend_port@{[ $i - 1 ]} = @{[ $port + $i ]}\nbackend_weight@{[ $i - 1 ]} = 1\n";
	}
	write_file("$top/pgpool.conf", $conf);
	write_file("$top/pgpool.empty", '');
	my $pid = start_program('pgpool', 'pgpool', '-n', '-f', "$top/pgpool.conf", '-a', "$top/pgpool.empty", '-F', "$top/pgpool.empty");
	$pid_of{pgpool} = sub { $pid };
	await_program('pgpool', $pid, '127.0.0.1', $port);
}

# Another cluster of two nodes, with three replicators.
sub set_up_group
{
	run("$tests/cluster", 'up', '--nodes', 2, '--replicators', 3, '--dir', "$top/g", '--port', $base + 20, '--conf', "$top/cluster.conf", $tcp ? () : ('--unix'));
	push @stop, sub { run("$tests/cluster", 'down', '--dir', "$top/g") };
	fill($base + 21);
	run("$tests/cluster", 'drain', '--dir', "$top/g");
	sql($_, 'VACUUM ANALYZE') for $base + 21, $base + 22;
}

# ---------- CPU groups and time

%pid_of = (
	plain => sub { first_line("$top/plain/postmaster.pid") },
	plain2 => sub { first_line("$top/plain2/postmaster.pid") },
	primary => sub { first_line("$top/primary/postmaster.pid") },
	standby => sub { first_line("$top/standby/postmaster.pid") },
	n1 => sub { first_line("$top/c/n1/postmaster.pid") },
	n2 => sub { first_line("$top/c/n2/postmaster.pid") },
	replicator => sub { first_line("$top/c/replicator.pid") },
	g1 => sub { first_line("$top/g/n1/postmaster.pid") },
	g2 => sub { first_line("$top/g/n2/postmaster.pid") },
	leader => sub { first_line("$top/g/replicator.pid") },
	standby1 => sub { first_line("$top/g/replicator2.pid") },
	standby2 => sub { first_line("$top/g/replicator3.pid") },
	pool1 => sub { first_line("$top/pool1/postmaster.pid") },
	pool2 => sub { first_line("$top/pool2/postmaster.pid") },
);

sub first_line
{
	open(my $f, '<', $_[0]) or return;
	my $line = <$f> // return;
	$line =~ /(\d+)/;
	return $1;
}

sub tree
{
	my ($root) = @_;
	my (%children, @all);
	for my $stat (glob '/proc/[0-9]*/stat')
	{
		open(my $f, '<', $stat) or next;
		my $line = <$f> // next;
		my ($pid, $ppid) = $line =~ /^(\d+) \(.*\) \S (\d+)/ or next;
		push @{ $children{$ppid} }, $pid;
	}
	my @todo = ($root);
	while (defined(my $p = shift @todo))
	{
		push @all, $p;
		push @todo, @{ $children{$p} // [] };
	}
	return @all;
}

# cgroup v1 cpuacct (and cpu, for the quota), if we may make groups.
sub make_group
{
	my ($name) = @_;
	my $dir = "/sys/fs/cgroup/cpuacct/lockstep-bench-$$-$name";
	my $cpu = "/sys/fs/cgroup/cpu/lockstep-bench-$$-$name";
	mkdir $dir or return;
	if ($quota > 0)
	{
		mkdir $cpu if !-d $cpu;
	}
	$group{$name} = $dir;
	eval { set_quota($name, $quota); 1 } or warn "no quota for $name: $@";
	join_group($name, tree($pid_of{$name}->()));
	# last, as a group with processes stays
	unshift @stop, sub {
		for my $d ($dir, $cpu)
		{
			rmdir $d if -d $d;
		}
	};
	return;
}

# More processes share a component's CPU.
sub join_group
{
	my ($name, @pids) = @_;
	return unless $group{$name};
	for my $pid (@pids)
	{
		eval { write_raw("$group{$name}/cgroup.procs", $pid) };
		eval { write_raw("/sys/fs/cgroup/cpu/lockstep-bench-$$-$name/cgroup.procs", $pid) } if $quota > 0;
	}
	return;
}

# A component's quota in percent of a core; 0: none.  By the kernel's default period of 100 ms a server would
# stand still for tens of milliseconds at a time, and whoever waits for it with it: no slower machine does that.
sub set_quota
{
	my ($name, $percent) = @_;
	return unless $group{$name} && $quota > 0;
	my $period = $ENV{PERIOD_US} // 10_000;
	my $dir = "/sys/fs/cgroup/cpu/lockstep-bench-$$-$name";
	write_raw("$dir/cpu.cfs_quota_us", -1);
	write_raw("$dir/cpu.cfs_period_us", $period);
	write_raw("$dir/cpu.cfs_quota_us", int($percent * $period / 100)) if $percent > 0;
	return;
}

# A component on these cores only, with what it will start.
sub pin
{
	my ($name, $cpus) = @_;
	for my $pid (tree($pid_of{$name}->()))
	{
		eval { run('taskset', '-p', '-c', $cpus, $pid); 1 } or (-e "/proc/$pid" and die $@);
	}
	return;
}

# For all that has been set up.
sub make_groups
{
	my $with_group = -e "$top/g";
	delete @pid_of{qw(g1 g2 leader standby1 standby2)} unless $with_group;
	delete @pid_of{qw(pool1 pool2)} unless -e "$top/pool1";
	delete $pid_of{plain2} unless -e "$top/plain2";
	return unless $> == 0 && -w '/sys/fs/cgroup/cpuacct';
	make_group($_) for sort keys %pid_of;
	return;
}

sub write_raw
{
	my ($path, $text) = @_;
	open(my $f, '>', $path) or die "$path: $!\n";
	print $f $text or die "$path: $!\n";
	close $f or die "$path: $!\n";
}

# CPU seconds of a component so far.  Without a group: its processes and the
# children that it has waited for, which the postmaster does for its backends.
sub cpu
{
	my ($name) = @_;
	if ($group{$name})
	{
		open(my $f, '<', "$group{$name}/cpuacct.usage") or die;
		return <$f> / 1e9;
	}
	my $sum = 0;
	my $root = $pid_of{$name}->() // return 0;
	for my $pid (tree($root))
	{
		open(my $f, '<', "/proc/$pid/stat") or next;
		my $line = <$f> // next;
		$line =~ s/^.*\) //;
		my @v = split ' ', $line;
		$sum += $v[11] + $v[12];
		$sum += $v[13] + $v[14] if $pid == $root;
	}
	return $sum / $hz;
}

# ---------- one measurement

our %systems;

my ($rows_of_node, $rows_of_client);

sub begin
{
	my (%o) = @_;
	($scale, $quota, $base, $tcp) = @o{qw(scale quota base tcp)};
	$rows_of_node = int($scale * 100_000 / 2);
	$rows_of_client = int($rows_of_node / 64);
	$top = tempdir('lockstep-bench-XXXXXX', DIR => $ENV{BENCH_DIR} // '/tmp');
	chmod 0755, $top;
	%systems = (
		plain => { ports => [ $base + 1 ], cpu => ['plain'] },
		two_plain => { ports => [ $base + 1, $base + 9 ], cpu => [ 'plain', 'plain2' ] },
		pgpool => { ports => [ $base + 30 ], cpu => [ 'pool1', 'pool2', 'pgpool' ] },
		remote_apply => { ports => [ $base + 2 ], cpu => [ 'primary', 'standby' ] },
		cluster_one => { ports => [ $base + 5 ], cpu => [ 'n1', 'n2', 'replicator' ] },
		one_flush => { ports => [ $base + 5 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.local_flush=on' },
		one_ordered => { ports => [ $base + 5 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.commit_wait=ordered' },
		both_ordered => { ports => [ $base + 5, $base + 6 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.commit_wait=ordered' },
		one_executed => { ports => [ $base + 5 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.commit_wait=executed' },
		both_executed => { ports => [ $base + 5, $base + 6 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.commit_wait=executed' },
		both_queued => { ports => [ $base + 5, $base + 6 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.update_order=queued' },
		group_one => { ports => [ $base + 21 ], cpu => [ 'g1', 'g2', 'leader', 'standby1', 'standby2' ] },
		group_both => { ports => [ $base + 21, $base + 22 ], cpu => [ 'g1', 'g2', 'leader', 'standby1', 'standby2' ] },
		standby_on => { ports => [ $base + 2 ], cpu => [ 'primary', 'standby' ], options => '-c synchronous_commit=on' },
		remote_write => { ports => [ $base + 2 ], cpu => [ 'primary', 'standby' ], options => '-c synchronous_commit=remote_write' },
		one_applied => { ports => [ $base + 5 ], cpu => [ 'n1', 'n2', 'replicator' ], options => '-c lockstep.commit_wait=applied' },
		cluster_both => { ports => [ $base + 5, $base + 6 ], cpu => [ 'n1', 'n2', 'replicator' ] },
	);
	$SIG{INT} = $SIG{TERM} = sub { exit 1 };
}

# What pgbench is told of a workload.
sub workload_arguments
{
	my ($workload, $logs) = @_;
	return ('-S', '-M', 'prepared') if $workload eq 'select-only';
	return ('-S', '-C') if $workload eq 'connect';
	return ('-M', $workload) unless $workload =~ /^updates-(\d+)$/;
	my $updates = $1;
	my $script = '';
	for my $i (0 .. 9)
	{
		$script .= "\\set aid :node * $rows_of_node + :client_id * $rows_of_client + random(1, $rows_of_client)\n";
		# spread over the transaction
		$script .= int(($i + 1) * $updates / 10) > int($i * $updates / 10) ?
			"UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n" : "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
	}
	my @sets = $script =~ /^(\\set.*)$/mg;
	$script =~ s/^\\set.*\n//mg;
	my $n = 0;
	s/aid/'aid' . $n++/e for @sets;
	$n = 0;
	$script =~ s/:aid/':aid' . $n++/ge;
	open(my $f, '>', "$logs/script") or die $!;
	print $f join("\n", @sets), "\nBEGIN;\n${script}COMMIT;\n";
	close $f;
	return ('-M', 'prepared', '-f', "$logs/script");
}

sub percentile
{
	my ($p, @values) = @_;
	return 0 unless @values;
	@values = sort { $a <=> $b } @values;
	return $values[ int($p * $#values) ];
}

sub median { return percentile(0.5, @_) }

# One measurement.  system, workload (run lists them), clients (on each node that is driven), seconds; perhaps arguments
# (pgbench's), options (settings of its sessions) and cpus (to which pgbench is kept).
sub bench
{
	my (%o) = @_;
	my $s = $systems{ $o{system} };
	my @ports = @{ $s->{ports} };
	my @users = @{ $s->{users} // [] };
	my $logs = tempdir(CLEANUP => 1);
	my $n = $o{clients};
	my @args = ('-n', '-T', $o{seconds}, '-c', $n, '-j', $n > 2 ? 2 : 1, '-l', '--max-tries=1000', workload_arguments($o{workload}, $logs));
	my %before = map { $_ => cpu($_) } @{ $s->{cpu} };
	my @runs;
	local $ENV{PGOPTIONS} = $o{options} // $s->{options} // '';

	for my $i (0 .. $#ports)
	{
		my $text = '';
		my $port = $ports[$i];
		my @command = ("$bin/pgbench", '-h', $s->{host} // '127.0.0.1', '-p', $port, '-U', $users[$i] // 'postgres', '-D', "node=$i", @args, "--log-prefix=$logs/log-$i", 'app');
		unshift @command, 'taskset', '-c', $o{cpus} if defined $o{cpus};
		push @runs, [ IPC::Run::start(\@command, '<', \undef, '>&', \$text), \$text ];
	}
	my %r = (tps => 0, count => 0, retries => 0, each => []);
	for (@runs)
	{
		my ($h, $text) = @$_;
		$h->finish or die $$text;
		$r{count} += $1 if $$text =~ /actually processed: (\d+)/;
		my ($tps) = $$text =~ /tps = ([\d.]+)/;
		$r{tps} += $tps // 0;
		push @{ $r{each} }, $tps // 0;
		$r{retries} += $1 if $$text =~ /total number of retries: (\d+)/;
	}
	$r{retries} = $r{count} ? $r{retries} / $r{count} : 0;
	$r{"cpu_$_"} = $r{count} ? 1e6 * (cpu($_) - $before{$_}) / $r{count} : 0 for @{ $s->{cpu} };

	my @latency;
	for my $log (glob "$logs/log-*")
	{
		open(my $f, '<', $log) or next;
		while (<$f>) { my @v = split ' '; push @latency, $v[2] / 1000 if $v[2] =~ /^\d+$/ }
	}
	my $sum = 0;
	$sum += $_ for @latency;
	$r{avg} = @latency ? $sum / @latency : 0;
	$r{p95} = percentile(0.95, @latency);
	return \%r;
}

# Until the clusters of that system have applied everything.
sub drain
{
	my ($system) = @_;
	my %part = map { $_ => 1 } @{ $systems{$system}{cpu} };
	run("$tests/cluster", 'drain', '--dir', "$top/c") if $part{replicator};
	run("$tests/cluster", 'drain', '--dir', "$top/g") if $part{leader};
}

END
{
	my $rc = $?;
	for (reverse @stop) { eval { $_->(); 1 } or warn $@ }
	system('rm', '-rf', $top) if $top;
	$? = $rc;
}

1;
