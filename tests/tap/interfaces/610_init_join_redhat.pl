# On servers as the packages for Red Hat make them (data in /var/lib/pgsql/VERSION/data with the configuration among them, programs in
# /usr/pgsql-VERSION/bin, a systemd unit postgresql-VERSION) "lockstepctl init", "join", "doctor" and "restart" work, and
# stop and start them by their units.  There is no Red Hat here: the directories are below a scratch root, systemd is a
# cgroup of that name, /run/systemd/system in a mount namespace, and a script that does what the unit would.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Path qw(make_path);
use LockstepCluster;
use LockstepServers;
use Test::More;

plan skip_all => 'it needs root, to make cgroups' unless $> == 0;
my $hierarchy = (grep { -d && -w } '/sys/fs/cgroup/systemd', '/sys/fs/cgroup')[0];
my $cgroup = ($hierarchy // '') . "/lockstep-test-$$";
plan skip_all => 'no cgroup can be made' unless $hierarchy && mkdir($cgroup) && -e "$cgroup/cgroup.procs";
plan skip_all => 'there are no mount namespaces' unless system('unshare -m true 2>/dev/null') == 0;

# ---------- two machines

my $s = LockstepServers->new(servers => 0);
$s->{servers} = 2;
my $version = LockstepCluster->version;
my $bin = "$s->{dir}/bin";
mkdir $bin;
make_path("$s->{dir}/usr/pgsql-$version");
symlink $LockstepCluster::bindir, "$s->{dir}/usr/pgsql-$version/bin" or die;
my (%data, @unit);
for my $i (1, 2)
{
	my $home = "$s->{dir}/m$i/var/lib/pgsql/$version";
	make_path($home);
	$s->own($home);
	$data{$i} = "$home/data";
	$unit[$i] = $i == 1 ? "postgresql-$version.service" : "postgresql-$version-$i.service";
	mkdir "$cgroup/$unit[$i]" or die "$cgroup/$unit[$i]: $!";
	$s->run_or_die("$s->{dir}/usr/pgsql-$version/bin/initdb", '-D', $data{$i}, '-U', 'postgres', '-A', 'trust', '--no-sync', '--no-locale', '-E', 'UTF8');
	symlink $data{$i}, "$s->{dir}/n$i";		# for the end of the test
	open(my $f, '>>', "$data{$i}/postgresql.conf") or die;
	print $f "port = ", $s->port($i), "\nunix_socket_directories = '$s->{dir}'\nfsync = off\nlogging_collector = on\nlog_directory = 'log'\n";
	close $f;
}

# What systemd and the units do.
LockstepServers::_write("$bin/systemctl", <<"SH", 0755);
#!/bin/sh
echo "\$@" >> $s->{dir}/systemctl.log
case \$2 in
	$unit[1]) data=$data{1} ;;
	$unit[2]) data=$data{2} ;;
	*) echo "Unit \$2 not found." >&2; exit 5 ;;
esac
as() { setpriv --reuid postgres --regid postgres --init-groups -- "\$@"; }
case \$1 in stop | restart) as $s->{dir}/usr/pgsql-$version/bin/pg_ctl -D \$data -m fast -w -s stop ;; esac
case \$1 in
	start | restart) exec setpriv --reuid root -- sh -c 'echo \$\$ > "\$1"; exec setpriv --reuid postgres --regid postgres --init-groups -- "\$2" -D "\$3" -w -s start > /dev/null 2>&1' - $cgroup/\$2/cgroup.procs $s->{dir}/usr/pgsql-$version/bin/pg_ctl \$data ;;
esac
SH
LockstepServers::_write("$bin/with-systemd", "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec \"\$\@\"' - \"\$\@\"\n", 0755);

END
{
	my $rc = $?;
	if ($s && $cgroup)
	{
		$s->down;
		rmdir $_ for map { "$cgroup/$_" } grep { $_ } @unit;
		rmdir $cgroup;
	}
	$? = $rc;
}

my $log = sub { LockstepCluster::_slurp("$s->{dir}/systemctl.log") };
sub ctl
{
	my (@args) = @_;
	local $s->{as_root} = 1;
	return $s->run("$bin/with-systemd", "$LockstepCluster::bindir/lockstepctl", @args);
}
{
	local $s->{as_root} = 1;
	$s->run_or_die("$bin/systemctl", 'start', $unit[$_]) for 1, 2;
}

# ---------- from two servers to two nodes

$s->sql(1, 'postgres', 'CREATE DATABASE shop');
$s->sql(1, 'shop', 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)');
my $conf = "$s->{dir}/r/replicator.conf";
my ($rc, $out) = ctl('init', map({ "n$_=127.0.0.1:" . $s->port($_) } 1, 2), "--replicator=127.0.0.1:$s->{base}", "--config=$conf", '--server=port=' . $s->port(1), '--restart');
is($rc, 0, 'init') or diag($out);
like($out, qr/restart +systemctl restart \Q$unit[1]\E/, '... restarts the server by its unit');
ok(-e "$data{1}/lockstep.conf", '... lockstep.conf is in the data directory');
like(LockstepCluster::_slurp("$data{1}/postgresql.conf"), qr/^include 'lockstep\.conf'/m, '... which postgresql.conf includes');

($rc, $out) = ctl('join', 'n2', "--join-file=$s->{dir}/r/join", '--server=port=' . $s->port(2));
is($rc, 0, 'join') or diag($out);
like($log->(), qr/^stop \Q$unit[2]\E\n(?:.*\n)*start \Q$unit[2]\E$/m, '... stops and starts the server by its unit');
ok(-e "$data{2}.before-join/PG_VERSION", '... the old data are beside the new ones');
$s->sql(2, 'shop', 'INSERT INTO t VALUES (101)');
ok($s->await(sub { $s->sql($_[0], 'shop', 'SELECT count(*) FROM t') eq '101' }, $_), "n$_ has all rows") for 1, 2;

($rc, $out) = ctl("--config=$conf", 'doctor');
is($rc, 0, 'doctor finds no problem') or diag($out);
my $restarts = () = $log->() =~ /^restart/mg;
($rc, $out) = ctl("--config=$conf", 'restart', '--rolling');
is($rc, 0, 'restart --rolling') or diag($out);
like($log->(), qr/^restart \Q$unit[1]\E\n(?:.*\n)*restart \Q$unit[2]\E\n\z/m, '... by the units');
is(scalar(() = $log->() =~ /^restart/mg), $restarts + 2, '... each once');
($rc, $out) = ctl("--config=$conf", 'verify');
is($rc, 0, 'the nodes are equal') or diag($out);
done_testing;
