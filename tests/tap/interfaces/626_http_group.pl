# A balancer that asks any replicator of a group: a standby answers over HTTP what the leader says of the nodes, at once, and
# goes on while another one takes over; HAProxy as docs/beside.md has it ends no session when the leader dies, freezes or is stopped.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP qw(decode_json);
use LockstepBalancer;
use LockstepCluster;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'there is no curl' unless `curl --version 2>/dev/null`;
plan skip_all => 'there is no haproxy' unless `haproxy -v 2>/dev/null`;

# a busy machine may need longer than the default for another one to take over
my $c = LockstepCluster->new(nodes => 2, replicators => 3, up => 0, conf => "lockstep.failover_wait = 60s\n");
my $decade = ($c->{base} + 4000) / 10;
$c->{pages} = [ 0, map { "$decade$_" } 1 .. 3 ];
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$decade\@REPLICATOR\@'\n";
$c->up;
$c->wait_copies(2);

# Status and text of a page of that replicator.
sub ask
{
	my ($i, $path) = @_;
	my $out = '';
	IPC::Run::run([ 'curl', '-s', '-m', '20', '-w', '%{http_code}', "http://127.0.0.1:$c->{pages}[$i]$path" ], '<', \undef, '>', \$out);
	my ($text, $code) = $out =~ /^(.*)(\d{3})$/s;
	return wantarray ? ($code, $text) : $code;
}

sub code_becomes
{
	my ($i, $path, $expected, $name, $seconds) = @_;
	my $last;
	ok($c->wait_until(sub { ($last = ask($i, $path)) == $expected }, $seconds // 10), $name) or diag("r$i: $last");
}

# ---------- what standbys say

my $leader = $c->leader;
my @standbys = grep { $_ != $leader } 1 .. 3;
for my $i (1 .. 3)
{
	code_becomes($i, '/health', 200, "r$i is healthy");
	code_becomes($i, "/nodes/n$_/write", 200, "... n$_ takes writes") for 1, 2;
	code_becomes($i, "/nodes/n$_/read", 200, "... and readers") for 1, 2;
	is(ask($i, '/nodes/n7/write'), 404, '... there is no n7');
	is(ask($i, '/'), 200, '... the page');
	my $status = decode_json((ask($i, '/status.json'))[1]);
	is($status->{group}{leader}, "r$leader", '... the status says who leads');
	is($status->{group}{leads} ? 1 : 0, $i == $leader ? 1 : 0, '... and whether that is this one');
	like((ask($i, '/metrics'))[1], qr/^lockstep_replicator_leads @{[ $i == $leader ? 1 : 0 ]}$/m, '... so do the metrics');
}
like((ask($standbys[0], '/health'))[1], qr/^ok: a standby, "r$leader" leads$/, 'a standby says what it is');

$c->ctl('drain', 'n2', '--timeout=60');
is(ask($leader, "/nodes/n2/write"), 503, "n2 is drained: r$leader knows");
code_becomes($_, '/nodes/n2/write', 503, "... r$_, too", LockstepCluster::soon(2)) for @standbys;
$c->ctl('resume', 'n2');
code_becomes($_, '/nodes/n2/write', 200, "n2 is back: r$_ knows") for 1 .. 3;

# ---------- HAProxy

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
my $haproxy = LockstepBalancer->haproxy($c);
my $writers = $haproxy->{writers};

sub node_at
{
	my $said = $c->psql_says($_[0], 'app', 'SHOW lockstep.node_name');
	return $said =~ /^(n\d)$/ ? $1 : '';
}
ok($c->wait_until(sub { node_at($writers) eq 'n1' }, 15), 'HAProxy: writers get n1') or diag($haproxy->log);

my $session = LockstepSession->new("$LockstepCluster::bindir/psql", "host=127.0.0.1 port=$writers user=postgres dbname=app", undef, 'writers');
my $id = 0;
sub write_one
{
	my ($what) = @_;
	$id++;
	for (1 .. 5)				# 40001, as documented of a takeover
	{
		$session->query("INSERT INTO t VALUES ($id)");
		last if $session->error !~ /40001|replicator was lost before/;
	}
	is($session->error, '', $what);
}

write_one('a session of a writer');
for my $how (qw(KILL STOP TERM))
{
	my $old = $c->leader;
	$c->kill_replicator($old, $how);
	write_one("SIG$how for r$old, which leads: the session writes on");
	my $new = $c->wait_leader($old, 20);
	isnt($new, undef, '... as another one leads');
	my $until = time + 3;
	my %seen;
	while (time < $until)
	{
		$seen{ node_at($writers) }++;
		sleep 0.1;
	}
	is(join(' ', sort keys %seen), 'n1', '... and n1 is never taken out') or diag($haproxy->log);
	write_one('... the session is there still');
	$how eq 'STOP' ? $c->thaw_replicator($old) : $c->start_replicator($old);
	ok($c->wait_copies(2, 30), '... it is back');
	code_becomes($_, '/health', 200, "... r$_ is healthy") for 1 .. 3;
}

# ---------- nobody leads

$leader = $c->leader;
@standbys = grep { $_ != $leader } 1 .. 3;
my %in = map { $_ => 1 } @{ $c->group($leader)->{in_sync} };
my ($in_sync) = grep { $in{"r$_"} } @standbys;
my ($third) = grep { !$in{"r$_"} } @standbys;
$c->kill_replicator($in_sync);
$c->kill_replicator($leader);
my $since = time;
is(ask($third, '/nodes/n1/write'), 200, 'two of three are dead: the third says at first what it was told');
code_becomes($third, '/health', 503, '... then it is not healthy', 15);
code_becomes($third, '/nodes/n1/write', 503, '... and n1 takes no writes', 15);
cmp_ok(time - $since, '>', 8, '... after ten seconds');
like((ask($third, '/nodes/n1/read'))[1], qr/^not known: no replicator leads$/, '... nor readers');
$c->start_replicator($_) for $leader, $in_sync;
code_becomes($_, '/nodes/n1/write', 200, "they are back: r$_ knows", 30) for 1 .. 3;
is($c->sql(2, 'SELECT count(*) FROM t'), $id, 'each row is there once');
done_testing;
