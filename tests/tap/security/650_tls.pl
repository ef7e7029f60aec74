# With TLS nothing between the parts is readable, and a byte that is changed on the way ends that
# connection and changes nothing; a certificate of one node does not speak for another, nor for
# the replicator; who is revoked is out at the next reload, and old and new certificates count
# while they are exchanged; garbage instead of a handshake costs its sender the connection;
# nothing is ever answered in the clear.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Select;
use IO::Socket::INET;
use LockstepCluster;
use Test::More;
use Time::HiRes 'time';

my $c = LockstepCluster->new(nodes => 2, tls => 1);
our $ca = "$c->{dir}/ca";
local $SIG{PIPE} = 'IGNORE';
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, b text)');

sub certs
{
	my (@words) = @_;
	my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstepctl", "--directory=$ca", 'certs', @words);
	is($rc, 0, "certs @words") or diag($out);
	return $out;
}

# ---------- a relay that listens in, or changes a byte

my ($relay_port, $seen, $relay) = (0, "$c->{top}/seen");

sub start_relay
{
	my ($change) = @_;
	my $listen = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', ReuseAddr => 1, LocalPort => $relay_port) // die "relay: $!";
	$relay_port = $listen->sockport;
	$relay = fork // die;
	return if $relay;
	open(my $log, '>', $seen) or die;
	$log->autoflush;
	my ($select, %other, %bytes) = (IO::Select->new($listen));
	while (my @ready = $select->can_read)
	{
		for my $s (@ready)
		{
			if ($s == $listen)
			{
				my $from = $listen->accept;
				my $to = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base});
				%other = (%other, $from => $to, $to => $from);
				$bytes{$from} = 0;
				$select->add($from, $to);
				next;
			}
			my $n = sysread($s, my $data, 65536);
			if (!$n)
			{
				$select->remove($s, $other{$s});
				close $other{$s};
				close $s;
				next;
			}
			print $log $data;
			if ($change && defined $bytes{$s})
			{
				# after the handshake: in what the backend asks
				my $at = $change - $bytes{$s};
				substr($data, $at, 1) ^= "\1" if $at >= 0 && $at < $n;
				$bytes{$s} += $n;
			}
			syswrite($other{$s}, $data);
		}
	}
	POSIX::_exit(0);
}

sub end_relay { kill 'KILL', $relay; waitpid($relay, 0); return LockstepCluster::_slurp($seen) }

start_relay(0);
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$relay_port'");
my ($out, $err) = $c->try(1, "INSERT INTO t VALUES (1, 'needle in the hay')");
is($err, '', 'a commit through a relay');
$err = $c->try(1, "INSERT INTO t SELECT g, repeat('needle', 10000) FROM generate_series(2, 100) g");
my $bytes = end_relay();
cmp_ok(length $bytes, '>', 5_000_000, 'which sees all bytes');
unlike($bytes, qr/needle|INSERT INTO/, 'and no word');
is($c->sql(1, 'SELECT count(*) FROM t'), 100, 'large transactions pass');

start_relay(20_000);
($out, $err) = $c->try(1, "INSERT INTO t SELECT g, repeat('needle', 10000) FROM generate_series(1001, 1100) g", timeout => 60);
like($err, qr/ERROR:  (?:57P03|08007|40001)/, 'a changed byte: an error');
end_relay();
ok($c->wait_until(sub { $c->replicator_log =~ /session ended: TLS: .*(?:bad record mac|decryption failed)/i }, 10), 'which the replicator has noticed');
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
is($c->sql($_, 'SET lockstep.causal_reads = on; SELECT count(*) FROM t'), 100, "nothing of it is on n$_") for 1, 2;

# ---------- strangers

sub connection { return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base}, Timeout => 10) // die "connect: $!" }

# All that it answers to these bytes, up to the end or for so long.
sub answer
{
	my ($bytes, $seconds) = @_;
	my $s = connection();
	my ($all, $end) = ('', time + ($seconds // 5));
	syswrite($s, $bytes);
	while (time < $end && IO::Select->new($s)->can_read($end - time))
	{
		sysread($s, my $data, 65536) or last;
		$all .= $data;
	}
	return $all;
}

sub field { return pack('aN/a*', @_) }

sub hello
{
	my ($node) = @_;
	return pack('aN/a*', 'H', field('V', pack('N', 1)) . field('N', $node) . field('D', 'app') . field('C', $c->status->{cluster}) .
		field('B', pack('Q>', 1)) . field('P', pack('N', 4711)) . field('R', 'x' x 32));
}

is(answer(hello('n1')), '', 'a hello in the clear is answered by nothing');
$c->replicator_logs(qr/session ended: it does not use TLS, and has to/, 'and logged');
unlike(answer($_, 1), qr/[a-z]{4}/i, 'nor is garbage, but by an alert')
	for "GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . 'x' x 600, "\x16\x03\x01\xff\xff" . 'y' x 70000, "\x16";
my @half = map { my $s = connection(); syswrite($s, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"); $s } 1 .. 400;
($out, $err) = $c->try(2, "INSERT INTO t VALUES (2001, 'x')");
is($err, '', '400 handshakes that do not go on: a new backend commits');
@half = ();

# The certificate of one node, and a hello of that name or another.
sub by_s_client
{
	my ($certificate, $node) = @_;
	my $dir = "$ca/$certificate";
	$c->file('hello', hello($node));
	my ($rc, $said) = $c->run_owned('timeout', '10', 'sh', '-c', "(cat $c->{top}/hello; sleep 1) | openssl s_client -quiet -connect 127.0.0.1:$c->{base} -CAfile $ca/ca.pem -cert $dir/cert.pem -key $dir/key.pem");
	return $said;
}

like(by_s_client('node-n2', 'n1'), qr/28000.*the certificate is for lockstep:node:n2, and not for node "n1"/s, 'the certificate of n2 does not speak for n1');
unlike(by_s_client('node-n2', 'n2'), qr/28000/, 'but for n2, which has to prove that it knows the secret');
like(by_s_client('replicator', 'n1'), qr/28000.*the certificate is for lockstep:replicator/s, 'that of the replicator speaks for no node');

$c->set(1, 'lockstep.tls_directory', "'$ca/node-n2'");
$c->fails(1, "INSERT INTO t VALUES (3001, 'x')", 'F0000', qr/cert\.pem is not for URI:lockstep:node:n1/, 'n1 with the certificate of n2 does not even try');
$c->set(1, 'lockstep.tls_directory', "''");
($out, $err) = $c->try(1, "INSERT INTO t VALUES (3002, 'x')");
like($err, qr/ERROR:  F0000: the connection to the replicator would not be encrypted.*HINT:.*lockstep\.tls_directory/s, 'n1 without: refused, with what to set');
$c->set(1, 'lockstep.tls_directory', "'$ca/node-n1'");

# ---------- revocation, by a reload

my $held = $c->session(2);
$held->query("INSERT INTO t VALUES (4001, 'x')");
is($held->error, '', 'n2 is connected');
like($c->ctl('sessions', '--json'), qr/"tls": true/, 'and lockstepctl sessions says that it is encrypted');
certs('revoke', 'node', 'n2');
$c->ctl('reload');
ok($c->wait_until(sub { $c->replicator_log =~ /does not accept the node's certificate any more: certificate revoked/ }, 10), 'a reload ends sessions whose certificate is revoked');
$held->query("INSERT INTO t VALUES (4002, 'x')");
like($held->error, qr/28000|57P03/, 'n2 cannot write');
($out, $err) = $c->try(2, "INSERT INTO t VALUES (4003, 'x')");
like($err, qr/ERROR:  28000: .*encrypted.*DETAIL:.*revoked/s, 'and a new session is told why');
is(scalar($c->try(1, "INSERT INTO t VALUES (4004, 'x') RETURNING id")), 4004, 'n1 can');
certs('node', 'n2', '127.0.0.1');
$c->sql(2, 'SELECT pg_reload_conf()');
ok($c->wait_until(sub { !grep { $_->{state} ne 'online' } @{ $c->status->{nodes} } }, 20), 'its server has it, too');
is(scalar($c->try(2, "INSERT INTO t VALUES (4005, 'x') RETURNING id")), 4005, 'with a new certificate n2 can, without a restart');

# ---------- another authority

certs('authority');
$c->ctl('reload');
is(scalar($c->try(1, "INSERT INTO t VALUES (5001, 'x') RETURNING id")), 5001, 'the old certificates still count');
certs('replicator', '127.0.0.1');
$c->ctl('reload');
is(scalar($c->try($_, "INSERT INTO t VALUES (5010 + $_, 'x') RETURNING id")), 5010 + $_, "n$_ accepts the replicator's new one") for 1, 2;
certs('node', 'n1', '127.0.0.1');
is(scalar($c->try(1, "INSERT INTO t VALUES (5020, 'x') RETURNING id")), 5020, 'and the replicator a node\'s');

# Two authorities count, and one certificate is revoked: libpq takes the others of both.
{
	local $ca = "$c->{dir}/two";
	certs('node', 'n1', '127.0.0.1');
	certs('authority');
	certs('replicator', '127.0.0.1');
	certs('node', 'n2', '127.0.0.1');
	certs('revoke', 'node', 'n2');
	my %says = map { $_ => ($c->run_owned('openssl', 'verify', '-crl_check_all', '-CAfile', "$ca/ca.pem", '-CRLfile', "$ca/crl.pem", "$ca/$_/cert.pem"))[1] } qw(node-n1 replicator node-n2);
	like($says{'node-n1'}, qr/: OK$/, 'a certificate of the older authority counts when the newer one has revoked something');
	like($says{replicator}, qr/: OK$/, 'so does another one of the newer');
	like($says{'node-n2'}, qr/certificate revoked/, 'and not the one that is revoked');
}

# ---------- files that can't be used

my $key = LockstepCluster::_slurp("$ca/replicator/key.pem");
chmod 0644, "$ca/replicator/key.pem";
$c->ctl('reload');
$c->replicator_logs(qr/certificates were not reloaded: the old ones stay.*key\.pem is accessible by everybody/s, 'a reload of unusable files keeps the old ones');
is(scalar($c->try(1, "INSERT INTO t VALUES (6001, 'x') RETURNING id")), 6001, 'and all goes on');
my ($rc, $said) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--config', $c->replicator_conf, '--check');
is($rc, 1, '--check says so');
like($said, qr/key\.pem is accessible by everybody/, 'and why');
chmod 0600, "$ca/replicator/key.pem";
($rc, $said) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--config', $c->replicator_conf, '--check');
is($rc, 0, 'now it can be used') or diag($said);
$c->same('all nodes are equal');
done_testing;
