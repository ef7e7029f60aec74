# Small promises: a replicator that hangs while a backend streams to it, a node that has
# moved, readers of lockstep.progress, GRANTs that meet on a peer, a user who takes all of a
# server's lock table.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1)');
$c->drain;

# ---------- streaming to a replicator that hangs

my $pid = $c->replicator_pid;
my $s = $c->session(1);
$s->query('BEGIN; INSERT INTO t VALUES (2)');
$c->set(1, 'lockstep.replicator_timeout', "'1s'");
kill 'STOP', $pid;
$s->query("INSERT INTO t SELECT i, repeat(md5(i::text), 200) FROM generate_series(10, 5000) i");
like($s->error, qr/40001.*has taken nothing for 1000 ms/s, 'a backend that streams to a replicator that hangs gives up');
kill 'CONT', $pid;
$s->close;
$c->set(1, 'lockstep.replicator_timeout', "'30s'");
ok($c->wait_state($_, 'online', 60), "n$_ is online") for $c->all;
is($c->sql(1, 'SELECT count(*) FROM t'), 1, 'nothing of it is there');

# ---------- lockstep.progress under SERIALIZABLE

my $serializable = 'BEGIN ISOLATION LEVEL SERIALIZABLE;';
$c->fails(1, "$serializable SELECT max(seq) FROM lockstep.progress", '0A000', qr/lockstep\.progress.*READ ONLY DEFERRABLE/s, 'no SERIALIZABLE transaction reads lockstep.progress');
$c->fails(1, "$serializable COPY lockstep.progress TO STDOUT", '0A000', qr/./, 'not by COPY');
$c->fails(1, "$serializable SELECT lockstep.node_info()", '0A000', qr/./, 'not by a function');
like($c->sql(1, 'BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE; SELECT max(seq) FROM lockstep.progress; COMMIT'), qr/^\d+$/, 'as pg_dump --serializable-deferrable does, it may be');
like($c->sql(1, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT max(seq) FROM lockstep.progress; COMMIT'), qr/^\d+$/, 'and from REPEATABLE READ down');

# ---------- a node that has moved

$c->edit_replicator_conf(sub { s/^(node\.n2 = 'host=)127\.0\.0\.1/${1}localhost/m or die $_ });
my ($out, undef, $rc) = $c->ctl('reload');
is($rc, 0, 'a changed connection string is read');
unlike($out . $c->replicator_log, qr/need a restart: .*node\.n2/, 'without a restart');
ok($c->wait_until(sub { $c->replicator_log =~ /\[n2\] .*its connection string has changed.*\[n2\] node is online/s }, 30), 'the node is attached anew');
ok($c->wait_state(2, 'online'), 'and online');
$c->sql(2, 'INSERT INTO t VALUES (3)');

# ---------- GRANTs that meet

$c->sql(1, "CREATE ROLE r$_") for 1 .. 4;
$c->drain;
my @runs = map { my $node = $_; $c->pgbench_start($node, '-n', '-f', $c->file("grant$node.sql", "\\set r random(1, 4)\nGRANT SELECT ON t TO r:r;\nREVOKE SELECT ON t FROM r:r;\n"), '-c', 2, '-T', 4, '--max-tries=100') } 1, 2;
$_->{handle}->finish for @runs;
is(scalar(() = $c->replicator_log =~ /tuple concurrently \w+ \(XX000\)/g), 0, 'no node is dropped for GRANTs that meet');
$c->drain;
is($c->node_status($_)->{state}, 'online', "n$_ is online") for $c->all;
$c->same('the nodes');

# ---------- no room for a lock

$c->sql(1, 'CREATE ROLE somebody LOGIN');
$c->drain;
my $greedy = $c->session(2, user => 'somebody');
my $take_all = 'SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 1000000) g';
$greedy->query($take_all);
like($greedy->error, qr/53200/, "a user fills the lock table of n2");
my $writer = $c->session(1);
my $blocked;
for my $i (1 .. 10)
{
	# what another session has given back meanwhile may be enough for one
	$writer->send("INSERT INTO t VALUES (4$i)");
	$blocked = $writer->blocked(0.3) and last;
	$writer->finish(30);
	$greedy->query($take_all);
}
ok($blocked, 'n2 has no room for another transaction');
$greedy->query('SELECT pg_advisory_unlock_all()');
$writer->finish(30);
is($writer->error, '', 'its writers wait a moment');
unlike($c->replicator_log, qr/\[n2\] node was dropped.*out of shared memory/, 'and n2 is not dropped for what was over soon');

$greedy->query($take_all);
$writer->do('INSERT INTO t VALUES (5)', 30);
is($writer->error, '', 'for longer they do not wait');
ok($c->wait_state(2, 'dropped'), 'n2 is dropped');
ok($c->wait_until(sub { $c->reason(2) =~ /out of shared memory/ }), 'for that') or diag($c->reason(2));
$greedy->close;
ok($c->wait_state(2, 'online', 60), 'it comes back as soon as there is room');
$writer->close;
$c->same('and all are equal');
done_testing;
