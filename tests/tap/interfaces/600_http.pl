# HTTP on loopback: each page and check answers what is true; a node that leaves is 503 at
# once; nothing that users have stored is shown; nonsense, bodies and 200 connections that say
# nothing disturb nobody.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'there is no curl' unless `curl --version 2>/dev/null`;

my $c = LockstepCluster->new(nodes => 2, any_state => 1, up => 0);
my $http = $c->{base} + 9;
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\nreconnect_interval = 100ms\n";
$c->up;
$c->wait_state($_, 'online') for $c->all;

# (status, body with head) of a request.
sub ask
{
	my ($path, @options) = @_;
	my $out = '';
	IPC::Run::run([ 'curl', '-s', '-i', '-m', '20', @options, "http://127.0.0.1:$http$path" ], '<', \undef, '>', \$out);
	my ($status) = $out =~ m{^HTTP/1\.[01] (\d+)};
	return wantarray ? ($status // 0, $out) : $status // 0;
}

sub body { my (undef, $out) = ask(@_); return $out =~ s/^.*?\r\n\r\n//sr }

sub status { return decode_json(body('/status.json')) }

# ---------- what there is

$c->sql(1, "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'x')");
$c->drain;
my ($code, $page) = ask('/');
is($code, 200, 'the page');
like($page, qr{^Content-Type: text/html; charset=utf-8\r$}m, '... is HTML');
like($page, qr{^Content-Security-Policy: default-src 'none';.* script-src 'sha256-[\w+/]{43}='}m, '... which runs nothing but its script');
unlike($page =~ s{http://www.w3.org/2000/svg}{}r, qr{(?:src|href)="(?!data:|status\.json|metrics)|https?://|\@import|url\(}, '... and loads nothing from elsewhere');

my $status = status();
is_deeply([ map { "$_->{name} $_->{state}" } @{ $status->{nodes} } ], [ 'n1 online', 'n2 online' ], '/status.json: nodes');
my ($of_ctl) = $c->ctl('status', '--json');
is_deeply([ grep { !exists $status->{$_} } keys %{ decode_json($of_ctl) } ], [], '... and all that lockstepctl status --json has');
cmp_ok($status->{journal}{bytes}, '>', 0, '... the size of the journal');
ok((grep { $_->{event} eq 'node_online' && $_->{node} eq 'n2' } @{ $status->{events} }), '... and what has happened');
ok((grep { $_->{name} eq 'n1' && $_->{state_ms} >= 0 } @{ $status->{nodes} }), '... since when');

my $metrics = body('/metrics');
my ($of_ctl_metrics) = $c->ctl('metrics');
is_deeply([ $metrics =~ /^# HELP (\S+)/mg ], [ $of_ctl_metrics =~ /^# HELP (\S+)/mg ], '/metrics: those of lockstepctl metrics');
like($metrics, qr/^lockstep_node_state\{node="n2",state="online"\} 1$/m, '... with their values');
is(ask('/health'), 200, '/health');
for my $what (qw(write read))
{
	is(ask("/nodes/n2/$what"), 200, "/nodes/n2/$what");
	is(ask("/nodes/n2/$what", '-I'), 200, '... HEAD');
	is(ask("/nodes/n2/$what", '-X', 'OPTIONS'), 200, '... OPTIONS');
	is(ask("/nodes/n2/$what", '-0', '-X', 'OPTIONS', '-H', 'Host:'), 200, '... as HAProxy asks by default');
}

# ---------- nonsense

is(ask($_), 404, "404: $_") for '/nope', '/nodes/', '/nodes/n1', '/nodes/n3/write', '/nodes/n1/writes', '/nodes/n1/write/', '/nodes//write',
	'/nodes/n/write', '/status.json/', '/..%2f..%2fetc/passwd', '/' . 'x' x 4000;
is(ask('/health', '-X', $_), 405, "405: $_") for qw(POST PUT DELETE TRACE PATCH);
is(ask('/health', '-d', 'x' x 100_000), 405, 'POST with a body');
is(ask('/health', '-X', 'GET', '-d', 'x'), 413, 'GET with a body');
is(ask('/', '-H', 'Host: attacker.example'), 403, 'the name of another site');
is(ask('/', '-H', "Host: $_"), 200, "Host: $_") for 'localhost:1', "[::1]:$http", '127.0.0.1';
cmp_ok(ask('/', '-H', 'X: ' . 'y' x 60_000), '>=', 400, 'a head without end');
for my $bytes ("\0" x 100, "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")
{
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $http, Timeout => 5) or die "connect: $!";
	print $s $bytes;
	close $s;
}
is(ask('/health'), 200, 'after bytes that are no HTTP');

# ---------- 200 connections that say nothing, and 20 that speak slowly

my @silent = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $http) // die "connect: $!" } 1 .. 220;
print { $silent[$_] } "GET /hea" for 0 .. 19;
my $begun = time;
is(ask('/nodes/n1/write'), 200, 'beside 220 connections that ask nothing: HTTP answers');
$c->sql(1, 'INSERT INTO t SELECT g FROM generate_series(100, 200) g');
is($c->status->{nodes}[0]{state}, 'online', '... and so do the replicator and its nodes');
cmp_ok(time - $begun, '<', LockstepCluster::soon(5), '... at once');
ok($c->wait_until(sub { my $n = grep { my $s = $_; my $r = ''; vec($r, fileno $s, 1) = 1; select($r, undef, undef, 0) && !sysread($s, my $x, 1) } @silent; $n == @silent }, 30),
	'they are closed');
close $_ for @silent;

# ---------- a node that leaves, and comes back

$c->ctl('drop', 'n2');
is(ask('/nodes/n2/write'), 503, 'dropped: no writers');
like(body('/nodes/n2/write'), qr/^dropped: command$/, '... and why');
is(ask('/nodes/n2/read'), 503, '... no readers');
is(ask('/nodes/n1/write'), 200, '... the other node has them');
is(ask('/health'), 200, '... the replicator is well');
like((grep { $_->{name} eq 'n2' } @{ status()->{nodes} })[0]{hint}, qr/lockstepctl attach n2/, '... what to do');
$c->ctl('attach', 'n2');
is(ask('/nodes/n2/write'), 200, 'attached: at once');

# ---------- what is stored is not shown

$c->sql_local(2, "INSERT INTO t VALUES (7, 'only here')");
$c->sql(1, "INSERT INTO t VALUES (7, 'a secret value')", options => '-c lockstep.commit_wait=ordered');
ok($c->wait_until(sub { ref $c->node_status(2)->{trouble} }), 'a node can not apply a row');
my ($told) = $c->ctl('status', '--json');
like($told, qr/\(id\)=\(7\)/, '... lockstepctl shows its key');
ok($c->wait_until(sub { ref((grep { $_->{name} eq 'n2' } @{ status()->{nodes} })[0]{trouble}) }), '... HTTP shows that there is something');
my $shown = body('/status.json');
unlike($shown, qr/\(7\)|secret|duplicate key|INSERT/, '... and nothing of the row');
like($shown, qr/"ways_out":\["/, '... but what to do');
is(ask('/nodes/n2/write'), 503, '... no writers');
$c->sql_local(2, 'DELETE FROM t WHERE id = 7');
ok($c->wait_state(2, 'online'), 'mended');

# ---------- names with HTML in them are quoted

$c->sql(1, 'CREATE TABLE "<img src=x onerror=alert(1)>" (id int PRIMARY KEY, n int)');
$c->sql(1, 'INSERT INTO "<img src=x onerror=alert(1)>" VALUES (1, 0)');
$c->drain;
my $s = $c->session(2);
$s->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$s->query('SELECT * FROM t LIMIT 1');
$c->sql(1, 'UPDATE "<img src=x onerror=alert(1)>" SET n = 1');
$c->drain;
$s->query('UPDATE "<img src=x onerror=alert(1)>" SET n = 2');
like($s->error, qr/could not serialize/, 'a conflict on it');
$s->query('ROLLBACK');
ok($c->wait_until(sub { grep { ($_->{table} // '') =~ /<img src/ } @{ status()->{conflict_counts} } }), '... is in the JSON');
unlike(body('/'), qr/<img/, '... the page has no facts but by its script');
unlike($page, qr/innerHTML|insertAdjacent|document\.write/, '... which makes no HTML of them');

# ---------- the replicator stands still

my $pid = $c->replicator_pid;
kill 'STOP', $pid;
is(ask('/health', '-m', '2'), 0, 'stopped: no answer');
kill 'CONT', $pid;
ok($c->wait_until(sub { ask('/health') == 200 }), 'it goes on');

# ---------- settings

my ($rc, $said);
sub check
{
	my $file = $c->file('check.conf', "node.n1 = 'host=127.0.0.1'\nrequire_tls = remote\n$_[0]\n");
	($rc, $said) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--check', '-c', $file);
	return $said;
}

check("http_listen = '127.0.0.1:8432'");
is($rc, 0, '--check: loopback') or diag($said);
like(check("http_listen = '$_'"), qr/http_listen = '\Q$_\E' can be reached from other machines.*\n.*HINT:/, "--check refuses $_ without TLS and token")
  for '0.0.0.0:8432', '*:8432', '[::]:8432', '192.0.2.1:8432';
like(check("http_listen = '$_'"), qr/ADDRESS:PORT/, "--check refuses \"$_\"") for '127.0.0.1', ':8432', '127.0.0.1:0', '127.0.0.1:70000', '::1:8432', 'x:y';
like(check("http_listen = '127.0.0.1:8432'\nhttp_key = '/x'"), qr/belong together/, '--check refuses a key without certificate');

my $taken = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => $c->{base} + 8) or die $!;
my $conf = LockstepCluster::_slurp($c->replicator_conf) =~ s/^http_listen.*/"http_listen = '127.0.0.1:" . ($c->{base} + 8) . "'"/emr;
my $other = $c->file('taken.conf', $conf =~ s{^((?:journal_directory|pid_file|admin_socket|unix_socket|log_file)\s*=\s*').*?/([^/'\n]*)'}{$1$c->{dir}/other-$2'}mgr =~ s/^port.*/"port = " . ($c->{base} + 7)/emr);
($rc, $said) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '-c', $other);
is($rc, 1, 'an address in use: it does not start');
like($said . LockstepCluster::_slurp("$c->{dir}/other-replicator.log"), qr/could not listen on 127\.0\.0\.1:\d+ for HTTP: Address already in use/, '... and says why');

done_testing;
