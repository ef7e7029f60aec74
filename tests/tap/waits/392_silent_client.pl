# A client that stops in the middle of a statement - of COPY, of reading rows, of a
# pipeline - takes no cancel.  When it is in the way of another node's transaction
# it is disconnected; one that goes on in time is not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::INET;
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $log = qr/terminated the connection of process \d+, which is in the way/;

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, what text)');
$c->drain;

# A connection of the protocol's own, to node 1.
sub message { my ($type, $body) = @_; return $type . pack('N', 4 + length $body) . $body }

sub connected
{
	my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $c->port(1)) or die "connect: $!";
	my $body = pack('N', 196608) . "user\0postgres\0database\0app\0\0";

	print $s pack('N', 4 + length $body) . $body;
	$s->flush;
	expect_message($s, 'Z');
	return $s;
}

# Read up to a message of this type; false: the connection was closed first.
sub expect_message
{
	my ($s, $wanted) = @_;
	local $SIG{ALRM} = sub { die "no message $wanted\n" };
	alarm 30;
	while (1)
	{
		read($s, my $head, 5) == 5 or last;
		my ($type, $len) = unpack 'aN', $head;
		read($s, my $body, $len - 4) if $len > 4;
		if ($type eq $wanted)
		{
			alarm 0;
			return 1;
		}
	}
	alarm 0;
	return 0;
}

sub query { my ($s, $sql) = @_; print $s message('Q', "$sql\0"); $s->flush; return }

sub in_the_way
{
	my ($id, $what) = @_;
	my ($out, $err) = $c->try(2, "SET statement_timeout = '20s'; INSERT INTO t VALUES ($id, 'node 2')");

	is($err, '', "$what: node 2 goes on");
	$c->node_logs(1, $log, "$what: told in the log");
	$c->same($what);
	is($c->sql(1, "SELECT what FROM t WHERE id = $id"), 'node 2', "$what: it lost");
	return;
}

# ---------- COPY without the next line

my $copy = connected();
query($copy, 'COPY t FROM STDIN');
expect_message($copy, 'G');
print $copy message('d', join '', map { "$_\tcopied\n" } 1000 .. 5000);
$copy->flush;
$c->wait_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND query LIKE 'COPY%' AND backend_xid IS NOT NULL}, 1);
in_the_way(1000, 'COPY');
ok(!expect_message($copy, 'Z'), 'COPY: the client has lost its connection');

# ---------- a pipeline without Sync

my $pipeline = connected();
print $pipeline message('P', "\0INSERT INTO t VALUES (1, 'pipelined')\0\0\0") . message('B', "\0\0\0\0\0\0\0\0") .
	message('E', "\0\0\0\0\0") . message('H', '');
$pipeline->flush;
expect_message($pipeline, 'C');
in_the_way(1, 'pipeline');

# ---------- rows that nobody reads

my $reader = connected();
query($reader, q{WITH i AS (INSERT INTO t VALUES (2, 'not read') RETURNING *) SELECT repeat('x', 10000) FROM i, generate_series(1, 100000)});
$c->wait_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'}, 1);
in_the_way(2, 'rows');

# ---------- who goes on when it is told to keeps its connection

my $idle = $c->session(1);
$idle->do(q{BEGIN; INSERT INTO t VALUES (3, 'idle')});
$c->sql(2, q{INSERT INTO t VALUES (3, 'node 2')});
$idle->query('COMMIT');
like($idle->error, qr/40001/, 'an idle one only loses its transaction');
is($idle->do('SELECT 1'), 1, 'and goes on');

done_testing();
