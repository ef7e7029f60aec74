# Who reads the files of a node has the cluster's secret, and speaks for no node by it: neither to the replicator, in the
# node's name or in another one's, nor to a node in the replicator's.  What is needed besides is not in any file, and only
# a superuser's session may ask for it.  False claims do not keep a node out.
use strict;
use warnings;
use Digest::SHA 'hmac_sha256';
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Select;
use IO::Socket::INET;
use LockstepCluster;
use POSIX ();
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;

# ---------- what mallory has, who may read files of n1

my $cluster = $c->status->{cluster};
my %boot = map { ("n$_" => $c->sql($_, 'SELECT boot FROM lockstep.node_info()')) } 1, 2;
my $file = $c->sql(1, 'SHOW lockstep.secret_file');
$c->sql(1, 'CREATE ROLE mallory LOGIN; GRANT pg_read_server_files TO mallory; GRANT USAGE ON SCHEMA lockstep TO mallory');
my $secret = $c->try(1, "CREATE TEMP TABLE s (line text); COPY s FROM '$file'; SELECT line FROM s", user => 'mallory');
cmp_ok(length $secret, '>=', 16, 'a role that may read files reads the secret');

sub field { my ($tag, $data) = @_; return $tag . pack('N', length $data) . $data }
sub message { my ($type, @fields) = @_; my $payload = join('', @fields); return $type . pack('N', length $payload) . $payload }
sub part { return pack('N/a*', $_[0]) }

sub receive
{
	my ($s) = @_;
	my ($bytes, $type) = ('');
	while (1)
	{
		if (length $bytes >= 5 && length $bytes >= 5 + unpack('N', substr($bytes, 1, 4)))
		{
			my $payload = substr($bytes, 5, unpack('N', substr($bytes, 1, 4)));
			my %fields;
			while ($payload ne '')
			{
				my ($tag, $len) = unpack('aN', $payload);
				$fields{$tag} = substr($payload, 5, $len);
				$payload = substr($payload, 5 + $len);
			}
			return (substr($bytes, 0, 1), \%fields, substr($bytes, 5 + unpack('N', substr($bytes, 1, 4))));
		}
		return ('') if !IO::Select->new($s)->can_read(10) || !sysread($s, my $data, 1);
		$bytes .= $data;
	}
}

my $pid = 4711;

# What the replicator answers to a backend of that node, which has the secret.
sub claim
{
	my ($node, $boot) = @_;
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base}, Timeout => 10) // die "connect: $!";
	my ($nonce, $version) = ('n' x 32, pack('N', 1));
	$pid++;
	syswrite($s, message('H', field('V', $version), field('N', $node), field('D', 'app'), field('C', $cluster),
			field('B', pack('Q>', $boot)), field('P', pack('N', $pid)), field('R', $nonce), field('u', 'postgres')));
	my ($type, $challenge) = receive($s);
	return $type if $type ne 'C';
	my $signed = join('', map { part($_) } 'lockstep', 'backend', $version . pack('Q>', $boot) . pack('N', $pid), $node, 'app', $cluster, $nonce, $challenge->{R});
	syswrite($s, message('A', field('A', hmac_sha256($signed, $secret)), field('k', hmac_sha256($signed, 'k' x 32))));
	($type, my $welcome) = receive($s);
	return $type if $type ne 'W' || !$welcome->{R};
	($type, my $error) = receive($s);
	return "$error->{q}: $error->{m}";
}

for my $node ('n1', 'n2')
{
	is(claim($node, $boot{$node}), qq{28000: this is no backend of the server that is attached as node "$node"}, "the secret does not speak for $node");
}
is_deeply([ map { $_->{state} } @{ $c->status->{nodes} } ], [ 'online', 'online' ], 'which stays');

# ---------- other starts of its server

claim('n1', 1000 + $_) for 1 .. 3;
ok($c->wait_until(sub { $c->status->{nodes}[0]{state} eq 'online' }, 20), 'who claims that n1 has restarted makes the replicator look');
my $moves = () = $c->replicator_log =~ /\[n1\] node was dropped/g;
for my $i (1 .. 5) { like(claim('n1', 2000 + $i), qr/^28000: another server is node "n1"/, 'then it is refused') }
is(scalar(() = $c->replicator_log =~ /\[n1\] node was dropped/g), $moves, 'and n1 stays');

# ---------- the key

for my $call ('SELECT lockstep.server_key()', 'SELECT f()')
{
	$c->sql(1, "CREATE OR REPLACE FUNCTION f() RETURNS bytea LANGUAGE sql SECURITY DEFINER AS 'SELECT lockstep.server_key()'; GRANT EXECUTE ON FUNCTION lockstep.server_key() TO mallory");
	my ($out, $err) = $c->try(1, $call, user => 'mallory');
	like($err, qr/ERROR:  42501: only a superuser's session/, "$call: not for a role to which it was granted");
	is($out, '', 'nothing is told');
}
isnt($c->sql(1, 'SELECT lockstep.server_key()'), $c->sql(2, 'SELECT lockstep.server_key()'), 'each server has its own');

# ---------- a replicator that has the secret

my $port = $c->{base} + 9;
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die("port $port: $!");
my $impostor = fork // die;
if (!$impostor)
{
	$SIG{ALRM} = sub { POSIX::_exit(0) };
	alarm 60;
	while (my $s = $listener->accept)
	{
		my ($type, $h) = receive($s);
		my $nonce = 'r' x 32;
		syswrite($s, message('C', field('V', pack('N', 1)), field('R', $nonce)));
		receive($s);
		my $signed = join('', map { part($_) } 'lockstep', 'replicator', $h->{V} . $h->{B} . $h->{P}, $h->{N}, $h->{D}, $h->{C}, $h->{R}, $nonce);
		syswrite($s, message('W', field('A', hmac_sha256($signed, $secret)), field('k', hmac_sha256($signed, 'k' x 32))));
		receive($s);
	}
	POSIX::_exit(0);
}
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$port'");
$c->fails(1, 'INSERT INTO t VALUES (1)', '28000', qr/could not prove that it has attached this server/, 'a replicator that only has the secret gets no query');
kill 'TERM', $impostor;
waitpid($impostor, 0);
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
is(scalar($c->try(1, 'INSERT INTO t VALUES (2) RETURNING id')), 2, 'the real one does');
$c->same('equal');
done_testing;
