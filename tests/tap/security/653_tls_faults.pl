# What goes wrong with TLS is bounded, is said, and ends one connection only: a replicator that accepts and is silent, or
# answers in the clear; a cancelled statement in the midst of sending; certificates that expire, are revoked or are
# replaced while sessions use them; files that cannot be used; a server that has another node's certificate.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use POSIX ();
use Test::More;
use Time::HiRes 'time';

my $c = LockstepCluster->new(nodes => 2, tls => 1);
my $ca = "$c->{dir}/ca";
local $SIG{PIPE} = 'IGNORE';
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, b text)');
$c->drain;

sub certs
{
	my (@words) = @_;
	my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstepctl", "--directory=$ca", 'certs', @words);
	is($rc, 0, "certs @words") or diag($out);
}
sub run { my ($rc, $out) = $c->run_owned(@_); $rc == 0 or die "@_: $out" }

# The sessions know of it, too.
sub reload
{
	my ($node, @sessions) = @_;
	my %before = map { $_ => $_->query('SELECT pg_conf_load_time()') } @sessions;
	$c->sql($node, 'SELECT pg_reload_conf()');
	for my $s (@sessions)
	{
		$c->wait_until(sub { $s->query('SELECT pg_conf_load_time()') ne $before{$s} }, 10) or die 'not reloaded';
	}
}

sub online { return $c->wait_until(sub { !grep { $_->{state} ne 'online' } @{ $c->status->{nodes} } }, 20) }

# Who has begun, and is slow, has no certificate yet, and so none that has expired.
my $slow = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base}) or die "no replicator: $!";
syswrite($slow, "\x16\x03\x01");
my $slow_since = time;

# ---------- a replicator that is silent, or answers in the clear

my $port = $c->{base} + 9;
my $seen = "$c->{top}/seen";
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die("port $port: $!");
my $answer = "$c->{top}/answer";
my $impostor = fork // die;
if (!$impostor)
{
	my @kept;
	open(my $log, '>', $seen) or die;
	$log->autoflush;
	while (my $s = $listener->accept)
	{
		sysread($s, my $first, 65536);
		print $log $first;
		syswrite($s, 'C' . pack('N', 46) . 'V' . pack('NN', 4, 1) . 'R' . pack('N', 32) . 'x' x 32) if -e $answer;
		push @kept, $s;
	}
	POSIX::_exit(0);
}

my $s = $c->session(1);
$s->query("INSERT INTO t VALUES (1, 'x')");
is($s->error, '', 'a client by TLS writes');
$c->set(1, 'lockstep.connect_timeout', "'1s'");
$c->set(1, 'lockstep.failover_wait', '0');
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$port'");
my $begin = time;
$c->fails(1, "INSERT INTO t VALUES (2, 'x')", '57P03', qr/It did not answer by TLS within 1000 ms/, 'silence ends a connection');
cmp_ok(time - $begin, '<', LockstepCluster::soon(8), 'in time');
$c->set(1, 'lockstep.connect_timeout', "'50s'");
$begin = time;
$c->fails(1, "SET statement_timeout = 300; INSERT INTO t VALUES (2, 'x')", '57014', qr/statement timeout/, 'waiting for it can be cancelled');
cmp_ok(time - $begin, '<', LockstepCluster::soon(8), 'at once');
open(my $f, '>', $answer) or die;
close $f;
$c->fails(1, "INSERT INTO t VALUES (2, 'needle')", '28000', qr/could not agree on an encrypted connection/, 'an answer in the clear is refused');
my $bytes = LockstepCluster::_slurp($seen);
unlike($bytes, qr/needle|app|\bn1\b/, 'and has got no word');
is(scalar(() = $bytes =~ /\x16\x03\x01/g), 3, 'but the beginning of a handshake, each time');

# the same backend goes on with OpenSSL's other connection, its client's
$s->query("SET lockstep.causal_reads = on; SELECT count(*) FROM t") for 1 .. 3;
$s->query("SELECT repeat('x', 100000)");
is($s->error, '', 'its client\'s connection is as before');
kill 'TERM', $impostor;
waitpid($impostor, 0);
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
$c->set(1, 'lockstep.failover_wait', "'10s'");

# ---------- a cancel in the midst of sending

my $big = $c->session(1);
for my $ms (1, 5, 20, 50)
{
	$big->query("SET statement_timeout = $ms");
	$big->query("INSERT INTO t SELECT 1000 + g, repeat('y', 20000) FROM generate_series(1, 500) g");
	$big->query('SET statement_timeout = 0');
	$big->query('DELETE FROM t WHERE id > 1000');
	is($big->error, '', "after a cancel at $ms ms the session goes on");
}

# ---------- replaced files

is(scalar($c->try(1, "INSERT INTO t VALUES (10, 'x') RETURNING id")), 10, 'n1 writes');
my $held = $c->session(1);
$held->query("INSERT INTO t VALUES (11, 'x')");
my $key = LockstepCluster::_slurp("$ca/node-n1/key.pem");
chmod 0644, "$ca/node-n1/key.pem";
utime(1, 1, "$ca/node-n1/key.pem");
reload(1, $held);
$held->query("INSERT INTO t VALUES (12, 'x')");
is($held->error, '', 'files that cannot be used: who is connected goes on');
$c->node_logs(1, qr/cannot use its certificates.*\n.*key\.pem is accessible by everybody.*go on by the old ones/, 'and the log says so');
chmod 0600, "$ca/node-n1/key.pem";
certs('node', 'n1', '127.0.0.1');
reload(1, $held);
ok(online(), 'online');
$held->query("INSERT INTO t VALUES (13, 'x')");
is($held->error, '', 'new ones are taken');

# The replicator knows of a lock before COMMIT.
$held->query('BEGIN; LOCK TABLE t');
$held->query("INSERT INTO t VALUES (130, 'x')");
certs('node', 'n1', '127.0.0.1');
reload(1, $held);
$held->query('COMMIT');
is($held->error, '', 'a transaction in the midst of which they are replaced is not lost');
$held->query("INSERT INTO t VALUES (131, 'x')");
is($held->error, '', 'nor the next one');

ok($c->wait_until(sub { time - $slow_since > 2 }, 10), 'the slow handshake is looked at');
unlike($c->replicator_log, qr/certificate has expired/, 'and nothing has expired');

# ---------- a replicator whose certificate is revoked

$held->query('BEGIN; LOCK TABLE t');
$held->query("INSERT INTO t VALUES (132, 'x')");
certs('revoke', 'replicator');
reload(1, $held);
$held->query('COMMIT');
like($held->error, qr/40001.*could not go on.*The certificates have been changed/s, 'a replicator whose certificate is revoked decides on no transaction that has begun');
$held->query("INSERT INTO t VALUES (14, 'x')");
like($held->error, qr/28000.*encrypted/s, 'a session that is connected does not go on with a replicator whose certificate is revoked');
certs('replicator', '127.0.0.1');
$c->ctl('reload');
ok($c->wait_until(sub { $held->query("INSERT INTO t VALUES (14, 'x')"); !$held->error }, 20), 'but with a new one');

# ---------- one that expires

certs('node', 'n2', '127.0.0.1');
my $n2 = "$ca/node-n2";
{
	my $dir = "$c->{top}/ca";
	mkdir $dir;
	chmod 0777, $dir;
	$c->file('ca/cnf', "[ca]\ndefault_ca = it\n[it]\nnew_certs_dir = $dir\ndatabase = $dir/index\nrand_serial = yes\ndefault_md = sha256\npolicy = any\n" .
			"[any]\ncommonName = optional\n[ext]\nsubjectAltName = URI:lockstep:node:n2, IP:127.0.0.1\n");
	chmod 0666, $c->file('ca/index', '');
	run('openssl', 'req', '-new', '-key', "$n2/key.pem", '-subj', '/CN=n2', '-out', "$dir/csr");
	my $end = POSIX::strftime('%Y%m%d%H%M%SZ', gmtime(time + 5 + LockstepCluster::soon(1)));
	run('openssl', 'ca', '-batch', '-notext', '-config', "$dir/cnf", '-extensions', 'ext', '-in', "$dir/csr", '-out', "$dir/cert",
		'-cert', "$ca/ca.pem", '-keyfile', "$ca/ca.key", '-startdate', '20200101000000Z', '-enddate', $end);
	my $text = LockstepCluster::_slurp("$dir/cert");
	open(my $f, '>', "$n2/cert.pem") or die;
	print $f $text;
	close $f;
}
my $short = $c->session(2);
$short->query("INSERT INTO t VALUES (20, 'x')");
is($short->error, '', 'a certificate that expires soon');
ok($c->wait_until(sub { $c->replicator_log =~ /the node's certificate has expired/ }, 20), 'the session ends when it has');
$short->query("INSERT INTO t VALUES (21, 'x')");
# in the second of the expiry, only the replicator refuses it
like($short->error, qr/F0000.*cert\.pem has expired|28000.*certificate expired/s, 'and no new one begins');
certs('node', 'n2', '127.0.0.1');
reload(2);
ok(online(), 'online');
$short->query("INSERT INTO t VALUES (21, 'x')");
is($short->error, '', 'with a new one it goes on');

# ---------- a server with another node's certificate, which is for the same address

$c->set(2, 'ssl_cert_file', "'$ca/node-n1/cert.pem'");
$c->set(2, 'ssl_key_file', "'$ca/node-n1/key.pem'");
$c->ctl('drop', 'n2');
$c->ctl('attach', 'n2');
ok($c->wait_until(sub { $c->replicator_log =~ /the server's certificate is for lockstep:node:n1, and not for node "n2"/ }, 20), 'n2 with the certificate of n1 is not attached');
isnt($c->status->{nodes}[1]{state}, 'online', 'and stays out');
$c->set(2, 'ssl_cert_file', "'$ca/node-n2/cert.pem'");
$c->set(2, 'ssl_key_file', "'$ca/node-n2/key.pem'");
ok(online(), 'with its own it is');
$c->drain;
$c->same('all nodes are equal');
done_testing;
