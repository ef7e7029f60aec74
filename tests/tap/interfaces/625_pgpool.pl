# With pgpool-II before HAProxy before the nodes, as docs/beside.md has it, SELECTs are spread over the nodes, what writes goes to
# one; with lockstep.causal_reads a session sees what it has written; clients go on while a node is drained and while a server
# is killed, and what is acknowledged is there once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepBalancer;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'there is no haproxy' unless `haproxy -v 2>/dev/null`;
plan skip_all => 'there is no pgpool' unless `pgpool --version 2>&1` =~ /pgpool-II/;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my ($http) = LockstepBalancer::ports($c);
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\n";
$c->up;
my $haproxy = LockstepBalancer->haproxy($c);
my $pgpool = LockstepBalancer->pgpool($c, $haproxy);
my $port = $pgpool->{port};
my $where = "SELECT current_setting('lockstep.node_name')";
ok($c->wait_until(sub { $c->psql_says($port, 'app', $where) =~ /^n\d$/ }, 20), 'a client gets a node') or diag($haproxy->log, $pgpool->log);

sub session { return LockstepSession->new("$LockstepCluster::bindir/psql", "host=127.0.0.1 port=$port user=postgres dbname=app", undef, 'pgpool') }

# ---------- where commands run

$c->sql(1, "CREATE TABLE t (id bigint PRIMARY KEY, node text DEFAULT current_setting('lockstep.node_name')); ALTER ROLE postgres SET lockstep.causal_reads = on");
$c->drain;
my (%read, %wrote, $stale);
# All at once: a child of pgpool keeps its connections, and one child may serve all sessions that come one after the other.
my @sessions = map { session() } 1 .. 10;
for my $i (1 .. 20)
{
	my $s = $sessions[ $i % @sessions ];
	$s->do("INSERT INTO t VALUES ($i)");
	my $seen = $s->do("SELECT count(*) FROM t WHERE id = $i");
	$stale++ if $seen ne '1';
	$read{ $s->do($where) }++;
	$wrote{ $s->do("BEGIN; INSERT INTO t VALUES (100 + $i); $where; COMMIT") }++;
}
$_->close for @sessions;
is(join(' ', sort keys %read), 'n1 n2', 'SELECTs are spread over the nodes');
is(join(' ', sort keys %wrote), 'n1', 'a transaction that has written reads where it writes');
is($c->sql(1, "SELECT string_agg(DISTINCT node, ' ') FROM t"), 'n1', 'what writes goes to one node');
is($stale // 0, 0, 'each session sees what it has written');
$c->sql(1, 'CREATE FUNCTION f(i bigint) RETURNS text LANGUAGE sql STABLE AS $$SELECT node FROM t WHERE id = i$$; CREATE FUNCTION w(i bigint) RETURNS text LANGUAGE sql AS $$INSERT INTO t VALUES (i) RETURNING node$$');
$c->drain;
my $s = session();
like($s->do('SELECT w(1000)'), qr/^n[12]$/, 'a function that writes, called by SELECT');
is($s->do('SELECT count(*) FROM t WHERE id = 1000'), '1', '... has written');
$s->close;

# ---------- under load

my $load = LockstepCounters->new($c, at => $port, writers => 4);
$load->goes_on(time, 'at first');
my ($out, $err, $rc) = $c->ctl('drain', 'n1');
is($rc, 0, 'drain n1') or diag($out, $err);
my $since = time;
$load->goes_on($since, 'n1 is drained');
ok($c->wait_until(sub { 3 == grep { $c->psql_says($port, 'app', $where) eq 'n2' } 1 .. 3 }), 'readers are elsewhere, too');
is(($c->ctl('resume', 'n1'))[2], 0, 'resume n1');
ok($c->wait_until(sub { $c->psql_says($haproxy->{writers}, 'app', $where) eq 'n1' }, 20), 'new sessions get n1 again');
$since = time;
$c->cluster('kill-node', 1);
$load->goes_on($since, 'the server of n1 is killed');
cmp_ok($load->longest_pause($since), '<', LockstepCluster::soon(10), '... the longest pause was not long');
$c->cluster('start-node', 1);
$c->wait_state(1, 'online');
$load->goes_on(time, 'it is back');
$load->stop_and_compare;
done_testing;
