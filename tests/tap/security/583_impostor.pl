# Who listens at lockstep.replicator without the cluster's secret has no word in a client's
# error: not before it has proved who it is, whatever it sends.  The real replicator says why it
# refuses a node, once that has proved itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use POSIX ();
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;

sub field { my ($tag, $data) = @_; return $tag . pack('N', length $data) . $data }
sub message { my ($type, @fields) = @_; my $payload = join('', @fields); return $type . pack('N', length $payload) . $payload }
my $lie = message('E', field('q', 'P0001'), field('m', "your password has expired\n2026-01-01 LOG:  forged"), field('d', 'send it to'), field('h', 'mallory'));
my $challenge = message('C', field('V', pack('N', 1)), field('R', 'x' x 32));
my %says = (
	'an error at once' => [ '', $lie ],
	'an error behind the challenge' => [ $challenge, $lie ],
	'a wrong proof, and an error' => [ $challenge, message('W', field('A', 'y' x 32), field('R', pack('Q>', 1))) . $lie ],
);
my $port = $c->{base} + 9;
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => $port, ReuseAddr => 1) or die("port $port: $!");

sub impostor
{
	my ($first, $second) = @_;
	my $pid = fork // die $!;
	return $pid if $pid;
	$SIG{ALRM} = sub { POSIX::_exit(0) };
	alarm 60;
	while (my $s = $listener->accept)
	{
		sysread($s, my $hello, 4096);
		syswrite($s, $first);
		sysread($s, my $proof, 4096) if $first ne '';
		syswrite($s, $second);
		sysread($s, my $rest, 4096);
	}
	POSIX::_exit(0);
}

my ($real) = $c->sql(1, 'SHOW lockstep.replicator');
$c->set(1, 'lockstep.replicator', "'127.0.0.1:$port'");
for my $name (sort keys %says)
{
	my $pid = impostor(@{ $says{$name} });
	my ($out, $err) = $c->try(1, 'INSERT INTO t VALUES (1)');
	kill 'TERM', $pid;
	waitpid($pid, 0);
	like($err, qr/ERROR: +28000: /, "$name: the connection is refused");
	unlike($err, qr/password|mallory|send it|P0001|forged/, 'in our own words');
	like($err, qr/HINT: .*lockstep\.replicator/, 'which say what to look at');
}
$c->node_logs(1, qr/LOG: .*before it proved.*\n.*DETAIL: .*P0001: your password has expired\\x0a2026-01-01/, 'the log has what it said, in one line');
$c->set(1, 'lockstep.replicator', "'$real'");
$c->sql(1, 'INSERT INTO t VALUES (2)');

# the real one
$c->ctl('drop', 'n2');
$c->fails(2, 'INSERT INTO t VALUES (3)', '57P03', qr/node "n2" is not online/, 'the replicator says why it refuses a node');
$c->ctl('attach', 'n2');
$c->wait_state(2, 'online');
$c->drain;
$c->same('equal');
done_testing();
