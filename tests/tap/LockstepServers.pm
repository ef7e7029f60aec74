# Ordinary servers for one test, without lockstep, to be made nodes by it: by initdb, or by Debian's
# pg_createcluster, in a temporary directory on ports of their own; ended and removed with the test.
#
#	my $s = LockstepServers->new(servers => 3);		# debian => 1: pg_createcluster
#											# locale and conf (lines of postgresql.conf): of initdb's only
#	my ($rc, $out) = $s->ctl('init', ...);			# lockstepctl
#	$s->sql(1, 'postgres', 'SELECT 1');
package LockstepServers;
use strict;
use warnings;
use Carp;
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IPC::Run ();
use LockstepCluster;
use LockstepSession;
use Time::HiRes qw(time usleep);

my @alive;

sub new
{
	my ($class, %o) = @_;
	my ($base, $lock) = LockstepCluster::_claim_ports($o{servers});
	my $dir = tempdir('lockstep-XXXXXX', DIR => '/tmp', CLEANUP => 0);
	my $self = bless { %o, base => $base, lock => $lock, dir => $dir, pid => $$ }, $class;
	chmod 0755, $dir;
	push @alive, $self;
	$self->own($dir);
	$self->run_or_die('mkdir', '-m', '700', "$dir/r");
	$self->{debian} ? $self->_create_debian : $self->_initdb;
	return $self;
}

sub port { my ($self, $i) = @_; return $self->{base} + $i }

sub own
{
	my ($self, @paths) = @_;
	chown((getpwnam('postgres'))[2, 3], @paths) if $> == 0;
}

sub run
{
	my ($self, @command) = @_;
	local $ENV{PGHOST} = $self->{dir};
	local $ENV{PATH} = "$self->{dir}/bin:$ENV{PATH}";
	local $ENV{PG_CLUSTER_CONF_ROOT} = "$self->{dir}/etc" if $self->{debian};
	delete local @ENV{qw(PGPORT PGUSER PGDATABASE PGOPTIONS)};
	return LockstepCluster->run_owned(@command) if $> != 0 || !$self->{as_root};
	my $out = '';
	chdir '/';
	IPC::Run::run(\@command, '<', \undef, '>&', \$out, IPC::Run::timeout(180));
	return ($? >> 8, $out);
}

sub run_or_die
{
	my ($self, @command) = @_;
	my ($rc, $out) = $self->run(@command);
	$rc == 0 or croak "@command: $out";
	return $out;
}

sub ctl { my ($self, @args) = @_; return $self->run("$LockstepCluster::bindir/lockstepctl", @args) }

# One that runs in the background: a harness of IPC::Run.
sub start_ctl
{
	my ($self, @args) = @_;
	local $ENV{PGHOST} = $self->{dir};
	return IPC::Run::start([ LockstepCluster->owned("$LockstepCluster::bindir/lockstepctl", @args) ], '<', '/dev/null', '>', '/dev/null', '2>', '/dev/null');
}

# As root, if the test may.
sub ctl_as_root
{
	my ($self, @args) = @_;
	local $self->{as_root} = 1;
	return $self->ctl(@args);
}

sub _initdb
{
	my ($self) = @_;
	for my $i (1 .. $self->{servers})
	{
		my $data = "$self->{dir}/n$i";
		$self->run_or_die("$LockstepCluster::bindir/initdb", '-D', $data, '-U', 'postgres', '-A', 'trust', '--no-sync',
			'--locale', $self->{locale} // 'C', '-E', 'UTF8');
		open(my $f, '>>', "$data/postgresql.conf") or croak $!;
		print $f "port = ", $self->port($i), "\nunix_socket_directories = '$self->{dir}'\nfsync = off\n", $self->{conf} // '';
		close $f;
		$self->run_or_die("$LockstepCluster::bindir/pg_ctl", '-D', $data, '-l', "$self->{dir}/n$i.log", '-w', '-s', 'start');
	}
}

# Of PostgreSQL, as postgresql-common names it.
sub version { return LockstepCluster->version }

# Servers as Debian's packages have them, below a directory of that version.
sub has_layout_of_debian { return -x '/usr/bin/pg_createcluster' && $LockstepCluster::bindir =~ m{/\d+/bin$} }

# postgresql-common looks for servers in one place only; if ours is elsewhere it runs from a
# copy of its module that knows the place.
sub postgresql_common
{
	my ($dir) = @_;
	my ($root) = $LockstepCluster::bindir =~ m{^(.*/)\d+/bin$} or croak 'no layout of Debian';
	return if $root eq '/usr/lib/postgresql/';
	mkdir "$dir/$_" for qw(bin lib);
	my $module = LockstepCluster::_slurp('/usr/share/perl5/PgCommon.pm');
	$module =~ s{^our \$binroot = .*$}{our \$binroot = '$root';}m or croak 'PgCommon.pm is not as expected';
	_write("$dir/lib/PgCommon.pm", $module, 0644);
	for my $program (qw(pg_createcluster pg_ctlcluster))
	{
		my ($flags) = LockstepCluster::_slurp("/usr/bin/$program") =~ /^#!\S+ (-\w+)/;
		_write("$dir/bin/$program", "#!/bin/sh\nexec perl $flags -I$dir/lib /usr/bin/$program \"\$@\"\n", 0755);
	}
}

sub _write
{
	my ($path, $text, $mode) = @_;
	open(my $f, '>', $path) or croak "$path: $!";
	print $f $text;
	close $f;
	chmod $mode, $path;
}

sub _create_debian
{
	my ($self) = @_;
	postgresql_common($self->{dir});
	$self->{version} = version();
	$self->run_or_die('mkdir', "$self->{dir}/etc");
	for my $i (1 .. $self->{servers})
	{
		$self->run_or_die('pg_createcluster', '--no-status', '-d', "$self->{dir}/n$i", '-l', "$self->{dir}/n$i.log", '-s', $self->{dir},
			'-p', $self->port($i), $self->{version}, "c$i", '--', '-A', 'trust', '--no-sync');
		_write("$self->{dir}/etc/$self->{version}/c$i/conf.d/test.conf", "fsync = off\n", 0644);
		$self->run_or_die('pg_ctlcluster', $self->{version}, "c$i", 'start');
	}
}

sub sql
{
	my ($self, $i, $database, $sql) = @_;
	my $out = $self->run_or_die("$LockstepCluster::bindir/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1', '-p', $self->port($i), '-U', 'postgres', '-d', $database, '-c', $sql);
	chomp $out;
	return $out;
}

sub await
{
	my ($self, $condition, @args) = @_;
	my $end = time + LockstepSession::patience(20);
	until ($condition->(@args))
	{
		return 0 if time > $end;
		usleep(50_000);
	}
	return 1;
}

# A copy of a join file in which the node has another port.
sub join_file_with
{
	my ($self, $path, $i, $port) = @_;
	my $text = LockstepCluster::_slurp($path);
	$text =~ s/^(node$i = 'n$i=127\.0\.0\.1:)\d+/$1$port/m or croak $text;
	my $copy = "$self->{dir}/join-$i-$port";
	_write($copy, $text, 0600);
	$self->own($copy);
	return $copy;
}

sub down
{
	my ($self) = @_;
	return if $self->{pid} != $$ || $self->{ended};
	$self->{ended} = 1;
	for my $file ("$self->{dir}/r/replicator.pid", map { "$self->{dir}/n$_/postmaster.pid" } 1 .. $self->{servers})
	{
		my ($pid) = LockstepCluster::_slurp($file) =~ /^(\d+)/ or next;
		kill $file =~ /replicator/ ? 'TERM' : 'QUIT', $pid;
		my $end = time + 20;
		usleep(20_000) while kill(0, $pid) && time < $end && LockstepCluster::_slurp("/proc/$pid/status") !~ /^State:\s+Z/m;
	}
	remove_tree($self->{dir});
	unlink "/tmp/lockstep-ports-$>-$self->{base}";
}

END
{
	my $rc = $?;
	for my $self (@alive)
	{
		next if $self->{pid} != $$ || $self->{ended};
		if ($rc != 0 || !Test::More->builder->is_passing)
		{
			print STDERR map { my @lines = split /\n/, LockstepCluster::_slurp($_); "---- end of $_\n", map { "# $_\n" } @lines[(@lines > 25 ? -25 : -@lines) .. -1] }
				grep { -s } glob("$self->{dir}/*.log $self->{dir}/r/*.log");
		}
		$self->down;
	}
	$? = $rc;
}

1;
