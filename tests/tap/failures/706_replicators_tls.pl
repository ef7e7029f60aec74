# A group of replicators whose connections to each other, to the nodes and to etcd use TLS, while clients write on all nodes:
# who has no certificate of a replicator is refused, takeovers work, also while a node catches up and while a database is
# added.  Nothing that was acknowledged is lost, nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepCounters;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 3, replicators => 3, tls => 1);
my $load = LockstepCounters->new($c);
my $ca = "$c->{dir}/ca";

sub fail_over
{
	my ($what, $leader) = @_;
	if (!$leader)
	{
		$leader = $c->leader;
		$c->kill_replicator($leader);
	}
	my $since = time;
	ok($c->wait_leader($leader), "$what: the leader is killed, another one leads");
	$load->goes_on($since, $what, 1, 2);
	return $leader;
}

sub back
{
	my ($i) = @_;
	$c->start_replicator($i);
	ok($c->wait_copies(2), "r$i is back");
}

$load->goes_on(time, 'with TLS');
ok($c->wait_copies(2), 'two are in sync');

# ---------- all is encrypted, and strangers are refused

like(LockstepCluster::_slurp("$c->{dir}/replicator2.conf"), qr/^etcd_endpoints = 'https:/m, 'etcd is asked by HTTPS');
my $leader = $c->leader;
my $port = $c->{base} + 2000 + $leader;
my $hello = '{"name":"r' . ($leader % 3 + 1) . '","nonce":"' . '0' x 64 . '"}';
my $file = $c->file('hello', 'h' . pack('N/a', $hello));
for my $case ([ 'no certificate' ], [ "a node's certificate", 'node-n1' ], [ "a replicator's certificate", 'replicator' ])
{
	my ($what, $whose) = @$case;
	my $certificate = $whose ? "-cert $ca/$whose/cert.pem -key $ca/$whose/key.pem" : '';
	my (undef, $answer) = $c->run_owned('sh', '-c', "timeout 20 openssl s_client -quiet -connect 127.0.0.1:$port -CAfile $ca/replicator/ca.pem $certificate < $file");
	if ($what =~ /replicator/) { like($answer, qr/"proof"/, "who has $what is asked for the secret at the members' port") }
	else { unlike($answer, qr/"proof"/, "who has $what learns nothing there") }
}
my @version = ('curl', '-sS', '--cacert', "$ca/replicator/ca.pem", "https://127.0.0.1:@{[ $c->{base} + 3000 ]}/version");
isnt(($c->run_owned(@version))[0], 0, 'etcd refuses who has no certificate');
is(($c->run_owned(@version, '--cert', "$ca/replicator/cert.pem", '--key', "$ca/replicator/key.pem"))[0], 0, 'but not a replicator');

# ---------- takeovers: of etcd restarted; while a node catches up; while a database is added

$c->cluster('kill-etcd');
my $since = time;
ok($c->wait_until(sub { ($c->group($leader)->{trouble} // '') =~ /could not read etcd's key/ }), 'etcd is killed');
$load->goes_on($since, 'without etcd');
$c->cluster('start-etcd');
ok($c->wait_until(sub { ($c->group($leader)->{trouble} // 'x') eq '' }), 'etcd is back');
back(fail_over('with TLS'));

# ---------- another authority: all have reloaded, one begins with a certificate of the new one only

for my $words ([ 'authority' ], [ 'replicator', '127.0.0.1' ])
{
	my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstepctl", "--directory=$ca", 'certs', @$words);
	is($rc, 0, "certs @$words") or diag($out);
	$c->member_ctl($_, 'reload') for 1 .. 3;
}
$c->cluster($_) for 'kill-etcd', 'start-etcd';
ok($c->wait_until(sub { ($c->group($c->leader)->{trouble} // 'x') eq '' }), 'etcd knows it, too');
my ($standby) = grep { $_ != $c->leader } 1 .. 3;
$c->kill_replicator($standby);
ok($c->wait_until(sub { !$c->member_pid($standby) }), "r$standby is killed");
back($standby);

$c->sql(1, 'CREATE TABLE filled (id int PRIMARY KEY, v text)');
$c->cluster('stop-node', 3);
$c->sql(1, "INSERT INTO filled SELECT g, repeat('x', 100) FROM generate_series($_ * 20000 + 1, $_ * 20000 + 20000) g") for 0 .. 9;
$leader = $c->leader;
open(my $order, '>', "$points/CATCHUP_FED") or die $!;
print $order "kill\n";
close $order;
chmod 0666, "$points/CATCHUP_FED";
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_until(sub { -e "$points/CATCHUP_FED.taken" && !$c->member_pid($leader) }), 'n3 comes back and catches up');
my $killed = fail_over('while n3 catches up', $leader);
ok($c->wait_state(3, 'online', 60), 'n3 has caught up');
back($killed);

for my $delay (0, 0.05, 0.2)
{
	my $db = 'added' . int($delay * 100);
	$leader = $c->leader;
	my $pid = fork // die;
	if ($pid == 0)
	{
		$c->member_ctl($leader, 'database', 'add', $db);
		POSIX::_exit(0);
	}
	sleep $delay;
	back(fail_over("a database is added, and $delay s later"));
	waitpid $pid, 0;
	ok($c->wait_until(sub { my $n = $c->status->{nodes}; $n && !grep { $_->{state} ne 'online' } @$n }, 30), 'all nodes are online');
	my $databases = $c->status->{databases} // [];
	cmp_ok(scalar @$databases, '>', 0, 'there is a status');
	if (!grep { $_ eq $db } @$databases)
	{
		# nodes that had it already keep it, as nobody knows whose it is
		for my $node ($c->all)
		{
			$c->sql_local($node, "DROP DATABASE IF EXISTS $db WITH (FORCE)", db => 'postgres');
		}
		my (undef, $err, $rc) = $c->ctl('database', 'add', $db);
		is("$rc $err", '0 ', 'it can be added again');
	}
	$c->sql(2, 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)', db => $db);
	$c->same('it is replicated', db => $db);
}

$load->stop_and_compare;
done_testing;
