# Taking over existing servers: what would break is named at attach before
# anything is changed; apply keeps its connections when clients fill
# max_connections; other extensions beside it; DROP EXTENSION, and one node going
# on alone.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

# ---------- existing data: a filled data directory, cloned

my $b = $LockstepCluster::bindir;
my $as = $> == 0 ? 'runuser -u postgres -- ' : '';
chomp(my $data = `${as}mktemp -d /tmp/lockstep-data-XXXXXX`);
my $run = sub { my $out = `cd / && $_[0] 2>&1`; $? == 0 or die "$_[0]: $out" };
my ($port, $lock) = LockstepCluster::_claim_ports(1);		# as long as it is used
$run->("$as$b/initdb -D $data/d -U postgres -A trust --no-sync --locale=C.UTF-8 -E UTF8");
$run->("$as$b/pg_ctl -D $data/d -o '-p $port -k $data -c fsync=off' -l $data/log -w start");
$run->("$b/psql -h 127.0.0.1 -p $port -U postgres -qc 'CREATE DATABASE app'");
$run->("$b/pgbench -h 127.0.0.1 -p $port -U postgres -i -q app");
$run->("$as$b/pg_ctl -D $data/d -m fast -w stop");
close $lock;

my $c = LockstepCluster->new(nodes => 2, data => "$data/d", conf => <<'CONF');
shared_preload_libraries = 'pg_stat_statements, lockstep, auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_analyze = on
max_connections = 20
superuser_reserved_connections = 3
CONF
system("rm -rf $data");
$c->same('existing servers with the same content are taken over');
$c->pgbench([ 1, 2 ], '-n', '-c', 2, '-t', 50, '--max-tries=1000');
$c->same('pgbench on both, beside pg_stat_statements and auto_explain');
$c->node_logs(2, qr/Query Text/, 'auto_explain logs');

# ---------- clients fill max_connections

my @clients;
for (1 .. 30)
{
	my $s = eval { $c->session(2, db => 'app') } or last;
	push @clients, $s;
}
ok(@clients >= 5, 'clients take connections: ' . scalar @clients);
cmp_ok(scalar @clients, '<', 30, 'until there are none left');
my $first = $c->session(1);
$first->do("INSERT INTO pgbench_history VALUES ($_, 1, 1, 1, now())") for 1 .. 20;
is($c->node_status(2)->{state}, 'online', 'apply keeps its connections');
$clients[0]->do('UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1');
pass('and the clients write');
$_->close for @clients;
$c->wait_until(sub { my ($out) = $c->try(2, 'SELECT 1'); $out eq '1' });
$c->same('equal with all connections taken');

# ---------- attach checks before it changes anything

sub refused_attach
{
	my ($name, $like) = @_;
	my (undef, $err, $rc) = $c->ctl('attach', 'n2');
	isnt($rc, 0, "$name: attach is refused");
	like($err . $c->node_status(2)->{reason}, $like, "$name: says why");
	$c->ctl('drop', 'n2') if $c->node_status(2)->{state} ne 'dropped';
}

# New clusters whose nodes differ.
for ([ 'other rows', 'INSERT INTO x VALUES (2)', qr/\bx\b/ ], [ 'another column', 'ALTER TABLE x ADD COLUMN z int', qr/\bx\b/ ],
	[ 'another table', 'CREATE TABLE y (id int)', qr/\by\b/ ])
{
	my ($name, $change, $like) = @$_;
	my $d = LockstepCluster->new(nodes => 2, any_state => 1, up => 0);
	$d->up;
	$d->ctl('stop');
	$d->wait_until(sub { !-e "$d->{dir}/replicator.pid" || !kill 0, $d->replicator_pid // 0 });
	$d->sql_local($_, 'CREATE TABLE x (id int PRIMARY KEY); INSERT INTO x VALUES (1)') for 1, 2;
	$d->sql_local(2, $change);
	# As if never replicated: no identity, no journal.
	$d->sql_local($_, 'TRUNCATE lockstep.progress, lockstep.cluster') for 1, 2;
	system("rm -rf $d->{dir}/journal");
	$d->cluster('start-replicator');
	my $ok = $d->wait_until(sub { grep { ($_->{reason} // '') =~ $like } @{ $d->status->{nodes} // [] } }, 10);
	ok($ok, "$name: unequal content is refused, naming it") or diag(scalar $d->ctl('status'));
	ok(!$d->wait_until(sub { 2 == grep { $_->{state} eq 'online' } @{ $d->status->{nodes} // [] } }, 0.5), "$name: not both are online");
	my ($refused) = grep { $_->{state} ne 'online' } @{ $d->status->{nodes} };
	is($d->sql($refused->{name} =~ s/n//r, 'SELECT count(*) FROM lockstep.cluster'), 0, "$name: nothing was changed there") if $refused;
	$d->down;
}

# A node with another cluster's identity.
$c->ctl('drop', 'n2');
$c->sql_local(2, "UPDATE lockstep.cluster SET cluster = repeat('f', 32)");
refused_attach('another cluster', qr/cluster/);
$c->sql_local(2, "UPDATE lockstep.cluster SET cluster = '" . $c->sql(1, 'SELECT cluster FROM lockstep.cluster') . "'");

# A node that claims more than was decided (of a later state, or another history).
my $progress = $c->sql(2, 'SELECT max(seq) FROM lockstep.progress');
$c->sql_local(2, "UPDATE lockstep.progress SET seq = seq + 1000000 WHERE seq = $progress");
$c->cluster('stop-node', 2);
$c->cluster('start-replicator');
$c->cluster('start-node', 2, '--no-wait');
refused_attach('a position that does not exist', qr/./);
$c->sql_local(2, "UPDATE lockstep.progress SET seq = seq - 1000000 WHERE seq = $progress + 1000000");
$c->cluster('stop-node', 2);
$c->cluster('start-node', 2, '--no-wait');
my (undef, $err, $rc) = $c->ctl('attach', 'n2');
is($rc, 0, 'and attached when that is mended') or diag($err);
$c->same('equal again');

# ---------- the way out

$c->cluster('stop-replicator');
$c->fails(1, 'UPDATE pgbench_branches SET bbalance = 0', '57P03', qr/HINT/, 'the replicator is gone for good: writes are refused');
$c->leave_cluster(1);
$c->sql_local(1, 'DROP EXTENSION lockstep');
$c->sql(1, 'UPDATE pgbench_branches SET bbalance = 0; CREATE SEQUENCE s; CREATE TABLE alone (id serial)');
pass('after DROP EXTENSION one node goes on alone');

done_testing;
