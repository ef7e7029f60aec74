# The command "lockstepctl check" prints one line and has the exit status of a monitoring plugin; --watch shows the
# status again and again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "reconnect_interval = 30s\n");
chomp(my $bin = `\${PG_CONFIG:-pg_config} --bindir`);
my @ctl = ("$bin/lockstepctl", '--config', $c->replicator_conf, '--socket', "$c->{dir}/admin.sock");

# [ exit status, what it says ]
sub check
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ @ctl, 'check', @_ ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	is($err, '', 'nothing on stderr');
	is($out =~ tr/\n//, 1, 'one line');
	return ($? >> 8, $out);
}

sub says
{
	my ($status, $like, $name, @args) = @_;
	my ($rc, $out) = check(@args);
	is($rc, $status, "$name: exit status") or diag($out);
	like($out, $like, $name);
	return;
}

my $numbers = qr/\| online=\d;;;0;2 lag=\d+;;;0 lag_bytes=\d+B;;;0 committed=\d+c conflicts=\d+c journal_disk_free=\d+B;;;0$/;
says(0, qr/^LOCKSTEP OK - 2 of 2 nodes online $numbers/, 'all is well');
$c->ctl('drop', 'n2');
$c->wait_state(2, 'dropped');
says(1, qr/^LOCKSTEP WARNING - node n2 is dropped \(dropped by command\) $numbers/, 'dropped by command');
$c->ctl('attach', 'n2');
$c->wait_state(2, 'online');

# it differs: it stays out
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
$c->sql_local(2, 'INSERT INTO t VALUES (1)');
$c->sql(1, 'SET lockstep.commit_wait = ordered; INSERT INTO t VALUES (1)');
ok($c->wait_until(sub { $c->node_status(2)->{state} ne 'online' && $c->node_status(2)->{cause} }), 'a node that differs is dropped');
says(2, qr/^LOCKSTEP CRITICAL - node n2 is \w+ \(could not apply seq \d+.*\) $numbers/, 'it does not come back by itself');
$c->cluster('stop-node', 1, '--no-wait');
ok($c->wait_until(sub { $c->node_status(1)->{state} ne 'online' }), 'the other one is stopped');
says(2, qr/^LOCKSTEP CRITICAL - .*no node takes writes/, 'no node is online');
$c->cluster('start-node', 1, '--no-wait');

# again and again
{
	my $out = '';
	my $watch = IPC::Run::start([ @ctl, 'nodes', '--watch=1' ], '<', \undef, '>', \$out, my $timer = IPC::Run::timeout(30));
	$watch->pump until $out =~ /^node.*^node/ms;
	pass('--watch shows it again');
	$watch->signal('INT');
	eval { $watch->finish };
}
is((IPC::Run::run([ @ctl, 'drop', 'n1', '--watch' ], '<', \undef, '>&', \my $said), $? >> 8)[1], 2, 'but changes nothing again and again');

$c->cluster('stop-replicator');
says(2, qr/^LOCKSTEP CRITICAL - replicator: it does not answer at/, 'no replicator');
$c->cluster('start-replicator');

done_testing();
