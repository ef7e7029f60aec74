# On Debian's clusters (pg_createcluster: configuration in /etc, conf.d) "lockstepctl init" and "join" work as on
# those of initdb, as root, too: settings go to conf.d, each server keeps its own, libraries are merged; a
# setting that would override lockstep.conf, another cluster's node and a machine that lacks something are refused.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IPC::Run ();
use LockstepCluster;
use LockstepServers;
use Test::More;
use Time::HiRes qw(time);

plan(skip_all => 'postgresql-common is not installed, or the server is none of its') unless LockstepServers::has_layout_of_debian();

my $s = LockstepServers->new(servers => 3, debian => 1);
my $etc = "$s->{dir}/etc/$s->{version}";
my $conf = "$s->{dir}/r/replicator.conf";
my $join = "$s->{dir}/r/join";
my @nodes = map { "n$_=127.0.0.1:" . $s->port($_) } 1 .. 3;
my @init = ('init', @nodes, "--replicator=127.0.0.1:$s->{base}", "--config=$conf", '--server=port=' . $s->port(1), '--restart');
my ($rc, $out);

sub refuses
{
	my ($pattern, $name, @command) = @_;
	($rc, $out) = $s->ctl_as_root(@command);
	is($rc, 1, "refused: $name") or diag($out);
	like($out, $pattern, "by name: $name");
}

sub joining { my ($i, $file, @more) = @_; return ('join', "n$i", "--join-file=$file", '--server=port=' . $s->port($i), @more) }

# ---------- what would override lockstep.conf

$s->sql(1, 'postgres', 'CREATE DATABASE shop');
$s->sql(1, 'shop', 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)');
$s->sql(1, 'postgres', "ALTER SYSTEM SET shared_preload_libraries = 'auto_explain'");
refuses(qr/postgresql\.auto\.conf" sets shared_preload_libraries to 'auto_explain'.*\n.*ALTER SYSTEM RESET shared_preload_libraries/, 'ALTER SYSTEM', @init);
$s->sql(1, 'postgres', 'ALTER SYSTEM RESET shared_preload_libraries');
LockstepServers::_write("$etc/c1/conf.d/zz.conf", "max_connections = 90\n", 0644);
refuses(qr{conf\.d/zz\.conf" sets max_connections to '90'.*\n.*Remove line 1 of}, 'a later file of conf.d', @init);
unlink "$etc/c1/conf.d/zz.conf";
ok(!-e $conf && !-e "$etc/c1/conf.d/lockstep.conf", 'nothing was written');

# ---------- three nodes

LockstepServers::_write("$etc/c1/conf.d/libraries.conf", "shared_preload_libraries = 'auto_explain'\n", 0644);
LockstepServers::_write("$etc/c2/conf.d/own.conf", "work_mem = 7MB\n", 0644);
$s->run_or_die('pg_ctlcluster', $s->{version}, 'c1', 'restart');
my $start = time;
($rc, $out) = $s->ctl_as_root(@init);
is($rc, 0, 'init') or diag($out);
like($out, qr{restart  pg_ctlcluster $s->{version} c1 restart}, 'restarts the server as Debian does');
like(LockstepCluster::_slurp("$etc/c1/conf.d/lockstep.conf"), qr/^shared_preload_libraries = 'auto_explain, lockstep'$/m, 'conf.d/lockstep.conf, with the libraries that were there');
is((stat "$etc/c1/lockstep.secret")[4], (stat "$etc/c1")[4], 'the secret belongs to the server\'s user');
unlike(LockstepCluster::_slurp("$etc/c1/postgresql.conf"), qr/lockstep\.conf/, 'postgresql.conf is as it was');
for my $i (2, 3)
{
	($rc, $out) = $s->ctl_as_root(joining($i, $join));
	is($rc, 0, "join n$i") or diag($out);
}
note(sprintf('%.1f s from three servers to online', time - $start));
$s->sql(2, 'shop', 'INSERT INTO t VALUES (101)');
ok($s->await(sub { $s->sql($_[0], 'shop', 'SELECT count(*) FROM t') eq '101' }, $_), "n$_ has all rows") for 1 .. 3;
is($s->sql(2, 'postgres', "SELECT current_setting('work_mem') || ' ' || current_setting('shared_preload_libraries')"), '7MB auto_explain, lockstep',
	'n2 has its own setting, and the library of the others');
like($s->sql(2, 'postgres', "SELECT DISTINCT sourcefile FROM pg_file_settings WHERE name LIKE 'lockstep.%'"), qr{/c2/conf\.d/lockstep\.conf$}, 'settings are in one place');
ok(-e "$s->{dir}/n2.before-join/PG_VERSION", 'the old data are kept');
($rc, $out) = $s->ctl_as_root("--config=$conf", 'doctor');
is($rc, 0, 'doctor finds no problem') or diag($out);
($rc, $out) = $s->ctl_as_root("--config=$conf", 'verify');
is($rc, 0, 'all nodes are equal') or diag($out);
unlike(join('', map { LockstepCluster::_slurp($_) } glob("$s->{dir}/n*.log")), qr/could not accept SSL/, 'the replicator uses no certificates of root');
my $logs = join '', map { LockstepCluster::_slurp($_) } glob("$s->{dir}/*.log $s->{dir}/r/*.log");
my ($password) = LockstepCluster::_slurp("$s->{dir}/r/pgpass") =~ /:lockstep:(\w+)$/m;
unlike($logs, qr/$password/, 'no log has the password');

# ---------- a database that came later is not added unasked

$s->sql(1, q{dbname=postgres options='-c lockstep.replicate=off'}, 'CREATE DATABASE private');
($rc, $out) = $s->ctl_as_root(@init);
is($rc, 0, 'init again');
like($out, qr/Database private is not replicated: --database=private would add it.*Nothing to do/s, 'says so, and adds nothing');

# ---------- other clusters, and what is missing

refuses(qr/this server is node "n2" of the cluster whose replicator is at/, 'a node as the first of another cluster',
	'init', 'other=127.0.0.1', "--config=$s->{dir}/other/replicator.conf", '--server=port=' . $s->port(2));
refuses(qr/database "shop" belongs to a cluster already, whose replicator is not on this machine/, 'its cluster from elsewhere',
	'init', 'n2=127.0.0.1', "--config=$s->{dir}/other/replicator.conf", '--server=port=' . $s->port(2), '--replicator=127.0.0.1:1');
ok(!-e "$s->{dir}/other", 'nothing was written');
my $text = LockstepCluster::_slurp($join);
for ([ qr/this server is PostgreSQL \d+, and the cluster's are 99/, 's/^server_version = .*$/server_version = 99/m', 'another version' ],
	[ qr/the other nodes load the library "no_such_library", which is not installed here/, 's/, lockstep/, lockstep, no_such_library/', 'a library' ],
	[ qr/could not reach the replicator at 127\.0\.0\.1:1:/, 's/^replicator = .*$/replicator = 127.0.0.1:1/m', 'no replicator' ],
	[ qr/no node can be cloned:.*password authentication failed/s, 's/^password = .*$/password = wrong/m', 'a wrong password' ],
	[ qr/is no join file, or not whole: it has no secret/, 's/^secret = .*$//m', 'a file that is cut' ],
	[ qr/join file of version 2: this lockstepctl knows version 1/, 's/^version = .*$/version = 2/m', 'a join file of another version' ])
{
	my ($pattern, $edit, $name) = @$_;
	local $_ = $text;
	eval "$edit; 1" or die;
	LockstepServers::_write("$s->{dir}/join", $_, 0600);
	refuses($pattern, $name, joining(3, "$s->{dir}/join"));
}

$s->down;
done_testing;
