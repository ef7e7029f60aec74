# A new node while everybody works: a line in replicator.conf, a reload, lockstepctl
# join; a clone made by other means; one that kept its donor's name is refused and
# harms nobody; one older than the journal is told so; a node is retired.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\n", conf => "wal_level = replica\nmax_wal_senders = 5\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i; CREATE TABLE fill (id int, b text); CREATE UNLOGGED TABLE u (id int PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 100);
	INSERT INTO fill SELECT i, repeat(i::text, 100) FROM generate_series(1, 20000) i');
$c->drain;
my $port = $c->{base} + 3;

sub ctl { return $c->run_owned("$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, @_) }
sub sql3 { return $c->psql_says($port, 'app', @_) }
sub stop3 { $c->run_owned("$LockstepCluster::bindir/pg_ctl", '-D', "$c->{dir}/n3", '-m', 'immediate', '-s', 'stop') if -e "$c->{dir}/n3/postmaster.pid" }
END { my $rc = $?; stop3() if $c; $? = $rc }

# Of a process: words, ended by blanks.
sub _slurp_zero
{
	my ($path) = @_;
	open(my $f, '<', $path) or return '';
	local $/;
	return (<$f> // '') =~ tr/\0/ /r;
}

# ---------- join

my ($rc, $out) = ctl('join', 'n3', '--donor=n1', "--pgdata=$c->{dir}/n3");
isnt($rc, 0, 'a node that the replicator does not know can\'t join');
like($out, qr/no line node\.n3/, 'and that is said');
$c->edit_replicator_conf(sub { $_ .= "node.n3 = 'host=127.0.0.1 port=$port user=postgres'\n" });
is((ctl('reload'))[0], 0, 'a line is added, and read');
is($c->node_status(3)->{name}, 'n3', 'the running replicator knows the node');

my @load = map { $c->pgbench_start($_, '-n', '-f', $c->file("load$_.sql", "\\set a random(1, 20)\nUPDATE t SET v = v + 1 WHERE id = :a;\n"), '-c', 2, '-T', 12, '--max-tries=1000') } 1, 2;
my $start = time;
($rc, $out) = ctl('join', 'n3', '--donor=n1', "--pgdata=$c->{dir}/n3", "--set=port=$port", '--timeout=60');
is($rc, 0, 'join') or diag($out);
note(sprintf('%.1f s: %s', time - $start, $out));
is($c->node_status(3)->{state}, 'online', 'the new node is online');
is(sql3('UPDATE t SET v = v + 100 WHERE id = 1; SELECT node FROM lockstep.status()') =~ s/.*40001.*\n//gmr =~ s/^(DETAIL|HINT|LOCATION|ERROR).*\n//gmr, 'n3', 'it takes writes, under its own name');
$_->{handle}->finish for @load;
unlike(LockstepCluster::complaints(@load), qr/aborted in command|57P03/, 'the others worked on meanwhile');
$c->drain;
is(sql3("SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t"), $c->sql(1, "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM t"), 'it has what the others have');

is(sql3('SELECT count(*), sum(id) FROM u'), '100|5050', 'pg_basebackup copies no rows of unlogged tables, and they are fetched');

# ---------- what all users see of it: no password

{
	my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => $c->{base} + 8) // die "port: $!";
	my $with = $c->file('with.conf', LockstepCluster::_slurp($c->replicator_conf) . "node.n4 = 'host=127.0.0.1 port=1'\n" .
		"node.n5 = 'host=127.0.0.1 port=@{[ $c->{base} + 8 ]} user=postgres password=hush sslpassword=silence'\n");
	my $h = IPC::Run::start([ $c->owned("$LockstepCluster::bindir/lockstepctl", '--config', $with, 'join', 'n4', '--donor=n5', "--pgdata=$c->{dir}/n4") ],
		'<', \undef, '>&', \my $said, IPC::Run::timeout(180));
	my %backup;
	ok($c->wait_until(sub { %backup = map { m{/proc/(\d+)} => _slurp_zero("$_/cmdline") } grep { _slurp_zero("$_/cmdline") =~ /^\S*pg_basebackup .*n4/ } glob('/proc/[0-9]*') }),
		'a join clones');
	my ($pid) = keys %backup;
	like($backup{$pid}, qr/port='@{[ $c->{base} + 8 ]}'/, 'with the connection string of the donor') or diag($said);
	unlike($backup{$pid}, qr/hush|silence/, 'without its passwords');
	like(_slurp_zero("/proc/$pid/environ"), qr/PGPASSWORD=hush /, 'which are in the environment');
	like(join('', map { LockstepCluster::_slurp($_) } grep { (readlink || '') =~ /memfd:pg_service/ } glob("/proc/$pid/fd/*")), qr/^sslpassword=silence$/m, 'or in a file in memory');
	$h->kill_kill;
}

# ---------- retired, and back

($rc, $out) = ctl('remove', 'n3');
like($out, qr/still has the line/, 'a node in replicator.conf is not retired');
$c->edit_replicator_conf(sub { s/^node\.n3.*\n//m });
is((ctl('remove', 'n3'))[0], 0, 'without its line it is');
like($c->node_status(3)->{reason}, qr/retired/, 'it is out');
is($c->node_status(3)->{cause}, 'retired', 'for that cause');
like(sql3('INSERT INTO t VALUES (50, 1)'), qr/57P03/, 'and refuses writes');
$c->sql(1, 'INSERT INTO t VALUES (51, 1)');
$c->edit_replicator_conf(sub { $_ .= "node.n3 = 'host=127.0.0.1 port=$port user=postgres'\n" });
is((ctl('reload'))[0], 0, 'its line is back');
ok($c->wait_state(3, 'online'), 'so is the node');
is(sql3('SELECT count(*) FROM t WHERE id = 51'), 1, 'with what it missed');

# ---------- a clone with its donor's name

stop3();
open(my $f, '>>', "$c->{dir}/n3/postgresql.auto.conf") or die $!;
print $f "lockstep.node_name = 'n1'\n";
close $f;
$c->run_owned("$LockstepCluster::bindir/pg_ctl", '-D', "$c->{dir}/n3", '-l', "$c->{dir}/n3.log", '-w', '-s', 'start');
my $error = '';
ok($c->wait_until(sub { $error = sql3('INSERT INTO t VALUES (60, 1)'); $error =~ /28000/ }), 'a clone that says it is n1 is refused') or diag($error);
like($error, qr/another server is node "n1".*lockstep\.node_name/s, 'with the remedy');
ok($c->wait_state(1, 'online'), 'n1 itself is online');
for (1 .. 3) { sql3('INSERT INTO t VALUES (60, 1)') }
is($c->node_status(1)->{state}, 'online', 'and stays so');
$c->sql(1, 'INSERT INTO t VALUES (61, 1)');
is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 60'), 0, 'nothing of the clone got through');

done_testing;
