# Bad input of any kind gets a clear error, logged once, and nothing else is
# disturbed: garbage, oversized frames, wrong secret, wrong version, two backends
# with one identity, a database or a table that a peer lacks, bad configuration.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use Digest::SHA qw(hmac_sha256);
use IO::Socket::INET;
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
my $next = 0;

sub undisturbed
{
	my ($name) = @_;
	$c->sql(1 + $next % 2, 'INSERT INTO t VALUES (' . ++$next . ')');
	is($c->node_status($_)->{state}, 'online', "$name: n$_ is online") for 1, 2;
}

sub connection
{
	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->{base}, Timeout => 5) // die "connect: $!";
}

# What comes back until the replicator closes; undef if it does not.
sub answer
{
	my ($socket) = @_;
	my $all = '';
	eval {
		local $SIG{ALRM} = sub { die "timeout\n" };
		alarm 15;
		while (sysread($socket, my $part, 65536)) { $all .= $part }
		alarm 0;
		1;
	} or return;
	return $all;
}

sub field { return pack('aN/a*', @_) }
sub message { my ($type, $payload) = @_; return pack('aN/a*', $type, $payload) }

sub hello
{
	my (%o) = (version => 1, node => 'n1', database => 'app', cluster => $c->status->{cluster}, boot => 1, pid => 4711,
		nonce => 'x' x 32, @_);
	return message('H', field('V', pack('N', $o{version})) . field('N', $o{node}) . field('D', $o{database}) .
		field('C', $o{cluster}) . field('B', pack('Q>', $o{boot})) . field('P', pack('N', $o{pid})) . field('R', $o{nonce}));
}

# ---------- on the replicator's port

my %bytes = (
	'an HTTP request' => "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	'zeroes' => "\0" x 100,
	'random bytes' => join('', map { chr int rand 256 } 1 .. 5000),
	'an oversized frame' => pack('aN', 'H', 0x7fffffff) . 'x' x 1000,
	'a query before the hello' => message('Q', field('X', pack('Q>', 1))),
	'a truncated field' => message('H', pack('aN', 'V', 400) . 'abc'),
	'an unknown upper-case field' => message('H', field('V', pack('N', 1)) . field('O', 'x')),
	'a wrong version' => hello(version => 999),
	'a node that is not in the configuration' => hello(node => 'stranger'),
	'another cluster\'s node' => hello(cluster => 'f' x 32),
	'a name that is too long' => hello(node => 'n' x 200),
);
for my $name (sort keys %bytes)
{
	my $s = connection();
	local $SIG{PIPE} = 'IGNORE';
	syswrite($s, $bytes{$name});
	shutdown($s, 1) if $name =~ /random|truncated/;
	ok(defined answer($s), "$name: the connection is closed");
	undisturbed($name);
}

# A correct hello, and a wrong proof.
my $s = connection();
syswrite($s, hello());
$s->blocking(1);
sysread($s, my $challenge, 4096);
is(substr($challenge // '', 0, 1), 'C', 'a hello is challenged');
syswrite($s, message('A', field('A', 'p' x 32)));
my $answer = answer($s);
ok(defined $answer && $answer !~ /^W/, 'a wrong proof is not welcome');
$c->replicator_logs(qr/n1/, 'the log names who it was');
undisturbed('wrong proof');

# Many connections that say nothing.
my @silent = map { connection() } 1 .. 200;
undisturbed('silent connections');
close $_ for @silent;

# The admin socket.
my (undef, $err, $rc) = $c->ctl('nonsense');
isnt($rc, 0, 'an unknown command is refused');
(undef, $err, $rc) = $c->ctl('drop', 'n77');
isnt($rc, 0, 'a node that is not there can\'t be dropped');
like($err, qr/n77/, 'the error names it');
undisturbed('admin');

# ---------- nodes and backends

my $file = $c->file('wrong', 'not the secret at all');
$c->set(1, 'lockstep.secret_file', "'$file'");
my (undef, $wrong) = $c->try(1, 'INSERT INTO t VALUES (-1)');
like($wrong, qr/ERROR.*permissions/s, 'a secret that everybody can read is refused');
chmod 0600, $file;
system('chown', 'postgres', $file) if $> == 0;
$c->fails(1, 'INSERT INTO t VALUES (-1)', '28000|28P01|57P03', qr/secret/, 'a node with a wrong secret can\'t write');
$c->set(1, 'lockstep.secret_file', "'/does/not/exist'");
(undef, $wrong) = $c->try(1, 'INSERT INTO t VALUES (-1)');
like($wrong, qr{ERROR.*secret.*No such file}s, 'a missing secret');
$c->set(1, 'lockstep.secret_file', "'$c->{dir}/secret'");
$c->set(1, 'lockstep.replicator', "'127.0.0.1:1'");
$c->fails(1, 'INSERT INTO t VALUES (-1)', '57P03|08001', qr/127\.0\.0\.1/, 'a wrong address');
$c->fails(1, "ALTER SYSTEM SET lockstep.replicator = 'nonsense'", '22023', qr/invalid value for parameter "lockstep\.replicator": "nonsense"/, 'an address that is none');
$c->set(1, 'lockstep.replicator', "'$c->{dir}/replicator.sock'");
$c->sql(1, 'INSERT INTO t VALUES (-2)');
pass('the Unix socket works as well');
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
is($c->sql(1, 'SELECT count(*) FROM t WHERE id = -1'), 0, 'nothing was let through');
undisturbed('secrets and addresses');

# A table that a peer lacks.
$c->sql(1, 'CREATE TABLE missing (id int PRIMARY KEY)');
$c->drain;
$c->sql_local(2, 'DROP TABLE missing');
$c->fails(1, 'INSERT INTO missing VALUES (1)', '42P01', qr/missing/, 'a table that a peer lacks: the client sees that error');
is($c->sql(1, 'SELECT count(*) FROM missing'), 0, 'and nothing is committed');
$c->sql_local(1, 'DROP TABLE missing');
undisturbed('missing table');

# ---------- configuration

my $binary = "$LockstepCluster::bindir/lockstep-replicator";
my $good = LockstepCluster::_slurp("$c->{dir}/replicator.conf");

sub check_config
{
	my ($text, $like, $name) = @_;
	my $file = $c->file('bad.conf', $text);
	my $out = `$binary --check --config $file 2>&1`;
	isnt($?, 0, "$name: refused");
	like($out, $like, "$name: names the line");
}
my $lines = () = $good =~ /\n/g;
my $at = $lines + 1;
check_config("${good}no_such_setting = 1\n", qr/$at.*no_such_setting|no_such_setting.*$at/s, 'an unknown name');
check_config("${good}port = many\n" =~ s/^port = \d+\n//mr, qr/port/, 'a bad value');
check_config("${good}node_timeout = 5 parsecs\n", qr/$at.*|node_timeout/s, 'an unknown unit');
check_config("${good}node_timeout 5\n'", qr/$at/, 'a line that is none');
check_config("${good}node.n1 = 'again'\n", qr/n1/, 'a node given twice');

open(my $f, '>>', "$c->{dir}/replicator.conf") or die;
print $f "no_such_setting = 1\n";
close $f;
(undef, $err, $rc) = $c->ctl('reload');
isnt($rc, 0, 'on reload a bad file is refused');
like($err . $c->replicator_log, qr/no_such_setting/, 'and logged');
undisturbed('bad reload');
open($f, '>', "$c->{dir}/replicator.conf") or die;
print $f $good;
close $f;

# A second replicator on the same journal.
my $second = $c->file('second.conf', $good =~ s/^(port = )\d+/$1 . ($c->{base} + 8)/mer =~ s/replicator\.pid/second.pid/r =~ s/admin\.sock/second.sock/r
	=~ s/replicator\.sock/second-replicator.sock/r =~ s/replicator\.log/second.log/r);
my $as = $> == 0 ? 'runuser -u postgres -- ' : '';
my $out = `timeout 10 $as$binary --config $second 2>&1`;
is($? >> 8, 1, 'a second replicator on one journal is refused') or diag($out);
undisturbed('second replicator');

$c->same('equal after all of that');
done_testing;
