# HTTP on an address that others can reach: TLS 1.3 and a token, or no start; with the token
# errors are shown in full.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

plan skip_all => 'there is no curl' unless `curl --version 2>/dev/null`;
plan skip_all => 'there is no openssl' unless `openssl version 2>/dev/null`;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my $http = $c->{base} + 9;
my ($key, $crt) = ("$c->{top}/http.key", "$c->{top}/http.crt");
system("openssl req -x509 -newkey rsa:2048 -nodes -keyout $key -out $crt -days 2 -subj /CN=localhost "
	. "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null") == 0 or die 'openssl';
my $word = 'a-token-of-some-length';
my $token = $c->file('token', "$word\n");

# For the user of the replicator only.
sub own
{
	my ($path, $mode) = @_;
	chown((getpwnam('postgres'))[2, 3], $path) if $> == 0;
	chmod $mode, $path;
}
own($_, 0600) for $key, $token;
chmod 0644, $crt;

my $settings = "http_listen = '*:$http'\nhttp_certificate = '$crt'\nhttp_key = '$key'\nhttp_token_file = '$token'\n";
$c->{options}{replicator_conf} = $settings;
$c->up;

sub ask
{
	my ($path, @options) = @_;
	my $out = '';
	IPC::Run::run([ 'curl', '-s', '-i', '-m', '20', '--cacert', $crt, @options, "https://localhost:$http$path" ], '<', \undef, '>', \$out);
	my ($status) = $out =~ m{^HTTP/1\.[01] (\d+)};
	return wantarray ? ($status // 0, $out) : $status // 0;
}

my @bearer = ('-H', "Authorization: Bearer $word");

# ---------- who may ask

is(ask('/health', @bearer), 200, 'TLS and the token');
is(ask('/', '-u', "anybody:$word"), 200, '... as a password, for browsers');
is(ask('/nodes/n1/write', '-I', @bearer, '-H', 'Host: replicator.example'), 200, '... under any name');
my ($code, $said) = ask('/');
is($code, 401, 'no token');
like($said, qr/^WWW-Authenticate: Basic realm="lockstep"\r$/m, '... a browser asks for it');
unlike($said, qr/<html|online/, '... and gets nothing else');
is(ask($_), 401, "no token: $_") for '/status.json', '/metrics', '/health', '/nodes/n1/write', '/nope';
is(ask('/', '-H', "Authorization: $_"), 401, "401: $_")
  for "Bearer ${word}x", 'Bearer ' . substr($word, 0, -1), 'Bearer', 'Bearer ', $word, "Basic $word", 'Basic ====', 'Basic', 'Digest x',
	'Basic ' . 'QUFB' x 1000;
is(ask('/', '-u', 'anybody:wrong'), 401, '401: another password');
is(ask('/', '-u', "$word:"), 401, '401: the token as the name');

is(ask('/health', @bearer, '--tls-max', '1.2'), 0, 'TLS 1.2: refused');
my $plain = '';
IPC::Run::run([ 'curl', '-s', '-i', '-m', '5', @bearer, "http://localhost:$http/health" ], '<', \undef, '>', \$plain);
unlike($plain, qr/^ok/m, 'without TLS: no answer');
is(ask('/health', @bearer), 200, 'it goes on');

# ---------- with the token errors are shown

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
$c->sql_local(2, 'INSERT INTO t VALUES (7)');
$c->sql(1, 'INSERT INTO t VALUES (7)', options => '-c lockstep.commit_wait=ordered');
ok($c->wait_until(sub { ref $c->node_status(2)->{trouble} }), 'a node can not apply a row');
ok($c->wait_until(sub { my (undef, $out) = ask('/status.json', @bearer); $out =~ /\(id\)=\(7\)/ }), '... the key is shown');

# ---------- what is refused at the start

sub check
{
	my ($what, %change) = @_;
	my $text = $settings;
	$text =~ s/^\Q$_\E = .*\n/$change{$_} eq '' ? '' : "$_ = '$change{$_}'\n"/em for keys %change;
	my $file = $c->file('check.conf', "node.n1 = 'host=127.0.0.1'\n$text");
	my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--check', '-c', $file);
	is($rc, 1, "--check: $what");
	return $out;
}

like(check('no token', http_token_file => ''), qr/not all set/, '... says so');
like(check('no TLS', http_certificate => '', http_key => ''), qr/not all set/, '... says so');
like(check('no key', http_key => ''), qr/belong together/, '... says so');
like(check('no such certificate', http_certificate => '/nope'), qr{could not open file "/nope" of http_certificate}, '... says so');
like(check('a directory', http_certificate => '/tmp'), qr/is not a regular file/, '... says so');
own($token, 0644);
like(check('a token for all to read'), qr/accessible by everybody/, '... says so');
own($token, 0600);
own($key, 0604);
like(check('a key for all to read'), qr/"\Q$key\E" of http_key is accessible by everybody/, '... says so');
own($key, 0600);
my $short = $c->file('short', 'short');
own($short, 0600);
like(check('a short token', http_token_file => $short), qr/too short/, '... says so');
my $odd = $c->file('odd', "sixteen bytes with blanks\n");
own($odd, 0600);
like(check('a token that is no word', http_token_file => $odd), qr/other characters than printable ASCII/, '... says so');

# A certificate that is none is found when the library starts.
my $broken = $c->file('broken.crt', "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
$c->cluster('stop-replicator');
my $conf = LockstepCluster::_slurp($c->replicator_conf);
my $other = $c->file('broken.conf', $conf =~ s/^(http_certificate) = .*/$1 = '$broken'/mr);
my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '-c', $other);
is($rc, 1, 'a certificate that is none: it does not start');
like($out . $c->replicator_log, qr/could not start HTTP on \*:\d+: \S/, '... and says why');
$c->cluster('start-replicator');
ok($c->wait_until(sub { ask('/health', @bearer) == 200 }), 'started again');

done_testing;
