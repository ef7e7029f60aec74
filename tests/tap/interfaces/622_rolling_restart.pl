# By lockstepctl restart --rolling every server is restarted, one at a time, and clients that know all
# nodes lose no transaction and are told nothing but 25006 and ends of connections.  What can't go well is
# refused before the first drain; a failure in the middle leaves one node out, says so and stops.
# lockstepctl reload names what it could not take over.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, 'CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)');
$c->drain;

sub started { return join ' ', map { $c->sql($_, 'SELECT extract(epoch FROM pg_postmaster_start_time())') } $c->all }
my $start = started();
my ($out, $err, $rc);

# ---------- refused

sub refused
{
	my ($name, $status, $message, @args) = @_;
	(undef, $err, $rc) = $c->ctl('restart', @args);
	is($rc, $status, "refused: $name");
	like($err, $message, '... with the reason');
}
refused('no node', 2, qr/needs names of nodes, or --rolling/);
refused('both', 2, qr/needs names of nodes, or --rolling/, 'n1', '--rolling');
refused('an unknown node', 1, qr/there is no node "n9"/, 'n1', 'n9');
refused('a node twice', 2, qr/"n1" is named twice/, 'n1', 'n1');
refused('an unknown escape', 1, qr/unknown "%q".*\nHINT:.*%h its host/, 'n1', '--command=ssh %q');
is(($c->ctl('drain', '--rolling'))[2], 2, 'refused: --rolling of another command');
$c->ctl('drop', 'n3');
refused('a node that is not online', 1, qr/node "n3" is not online: dropped.*\nHINT:.*lockstepctl resume n3/s, '--rolling');
$c->ctl('resume', 'n3');
is(started(), $start, 'nothing was restarted');

# ---------- a look before

($out, $err, $rc) = $c->ctl('restart', '--rolling', '--dry-run');
is($rc, 0, '--dry-run') or diag($err);
like($out, qr/drain +node n$_:.*\nrun +\S.*restart/, "... says how n$_ would be restarted") for $c->all;
like($out, qr/Nothing was done/, '... and that nothing was done');
is(started(), $start, '... nothing was');

# ---------- under load

# A client as applications should be: it takes any node that accepts writes, and tries again what was refused or cut
# off before its commit was confirmed.  A row has its number, so that what is tried again is not there twice.
my $hosts = join ',', map { '127.0.0.1' } $c->all;
my $ports = join ',', map { $c->port($_) } $c->all;
my $psql = ($c->client(1, 'psql'))[0];
my $client = $c->file('client.sh', <<"SH");
conninfo="host=$hosts port=$ports dbname=app user=postgres target_session_attrs=read-write connect_timeout=5"
i=0
while [ -d "$c->{top}" -a ! -e "$c->{top}/enough" ]; do
	i=\$((i + 1))
	until $psql -XAtq -v ON_ERROR_STOP=1 -c "INSERT INTO t (v) SELECT '\$1-\$i' WHERE NOT EXISTS (SELECT FROM t WHERE v = '\$1-\$i')" "\$conninfo" 2>> "$c->{top}/client.err"; do
		[ -d "$c->{top}" ] || exit 1
	done
	echo "\$1-\$i"
done
SH
my (@confirmed, @clients);
for my $n (1 .. 2)
{
	my $confirmed = '';
	push @confirmed, \$confirmed;
	push @clients, IPC::Run::start([ 'bash', $client, $n ], '<', \undef, '>', \$confirmed, IPC::Run::timeout(180));
}
ok($c->wait_until(sub { $c->sql(2, 'SELECT count(*) > 5 FROM t') eq 't' }), 'clients write');
($out, $err, $rc) = $c->ctl('restart', '--rolling');
is($rc, 0, 'restart --rolling') or diag($out, $err);
like($out, qr/drain +node n1.*online +node n1 again.*drain +node n2.*online +node n2 again.*drain +node n3.*online +node n3 again.*3 nodes restarted in [\d.]+ s/s,
	'... tells each step');
my $rows = $c->sql(1, 'SELECT count(*) FROM t');
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) > $rows + 5 FROM t") eq 't' }), 'clients still write');
$c->file('enough', '');
for (@clients) { IPC::Run::finish($_); is($? >> 8, 0, 'a client ended well') }
my @before = split / /, $start;
my @after = split / /, started();
ok($after[$_] > $before[$_], 'n' . ($_ + 1) . ' was restarted') for 0 .. 2;
is($c->node_status($_)->{state}, 'online', "n$_ is online") for $c->all;
$c->drain;
my @all = map { split /\n/, $$_ } @confirmed;
cmp_ok(scalar(@all), '>', 10, 'transactions were confirmed: ' . @all);
is($c->sql(1, "SELECT count(*) FROM t WHERE v IN ('" . join("', '", @all) . "')"), scalar(@all), '... each of them is there');
is($c->sql(1, 'SELECT count(*) - count(DISTINCT v) FROM t'), '0', '... once');
{
	open(my $f, '<', "$c->{top}/client.err") or die;
	my @other = grep { /ERROR|FATAL/ && !/being drained|is not online|terminating connection|shutting down|starting up/ } <$f>;
	is(join('', @other), '', 'clients were told nothing else');
}
$c->same('after the restarts');

# ---------- by a command of the operator

my $said = "$c->{top}/said";
($out, $err, $rc) = $c->ctl('restart', 'n2', "--command=echo %n %h %p %% >> $said; exec " . "$FindBin::Bin/../../cluster restart-node 2 --no-wait --dir $c->{dir}");
is($rc, 0, 'restart with --command') or diag($out, $err);
is(do { local (@ARGV, $/) = ($said); <> }, 'n2 127.0.0.1 ' . $c->port(2) . " %\n", '... gets name, host and port');
is($c->node_status(2)->{state}, 'online', '... and the node is back');

# ---------- failures

($out, $err, $rc) = $c->ctl('restart', '--rolling', '--command=exit 7');
is($rc, 1, 'a command that fails');
like($err, qr/"exit 7" failed with exit code 7.*node "n1" is out of the cluster; no further node is restarted\nHINT:.*lockstepctl resume n1/s, '... says where it stopped');
is($c->node_status(2)->{state}, 'online', '... the others are online');
is(($c->ctl('resume', 'n1'))[2], 0, '... resume brings it back');

my $writer = $c->session(3);
$writer->query('BEGIN');
$writer->query("INSERT INTO t (v) VALUES ('open')");
($out, $err, $rc) = $c->ctl('restart', 'n3', '--timeout=1');
is($rc, 1, 'a transaction that stays open');
like($err, qr/still being drained: 1 transactions.*the drain was given up: node "n3" takes writes as before\nHINT:[^\n]*--timeout\.\n\z/s, '... the drain is given up');
$c->sql(3, "INSERT INTO t (v) VALUES ('goes on')");
$writer->query('COMMIT');
is($writer->error, '', '... the transaction commits');

# ---------- reload

$c->edit_replicator_conf(sub { $_ .= "maintenance_database = 'template1'\nnode_timeout = 7000\n" });
($out, $err, $rc) = $c->ctl('reload');
is($rc, 0, 'reload');
like($err, qr/^WARNING: +changes of these settings need a restart of the replicator: maintenance_database$/m, '... names what needs a restart, and nothing else');
like($c->ctl('--json', 'reload'), qr/"warning":.*maintenance_database/, '... in JSON, too');

done_testing;
