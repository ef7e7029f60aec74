# Crashes around a large transaction: the replicator is killed while it is being
# executed on the peers (it vanishes) and after it was decided (it exists); a peer
# is killed while it executes it and again while it catches up; its client or its
# backend is killed.  Everywhere all of its rows or none, and no file is left over.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "transaction_memory = 64kB\nnode_timeout = 60s\nstall_timeout = 60s\n");	# longer than a node is held
my $n = 60_000;
my $t = 120;
my $at = 0;

sub decided { return $c->status->{journal}{decided} }

# The next $n ids.
sub insert
{
	my $from = $at + 1;
	$at += $n;
	return "INSERT INTO b SELECT i, repeat('x', 30) FROM generate_series($from, $at) i";
}

sub count_is
{
	my ($expected, $name) = @_;
	$c->wait_state($_, 'online', $t) for 1, 2;
	$c->drain;
	is($c->sql($_, 'SELECT count(*) FROM b'), $expected, "$name (n$_)") for 1, 2;
	return;
}

$c->sql(1, 'CREATE TABLE b (id int PRIMARY KEY, v text)');
$c->drain;

# ---------- the replicator is killed while the peers execute it

my @held = $c->apply_pids(2);
kill STOP => @held;
my $s = $c->session(1);
my $before = decided();
$s->send(insert());
$c->wait_sql(1, "SELECT wait_event_type FROM pg_stat_activity WHERE pid = @{[ $s->pid ]}", 'Extension', $t);
ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }, $t), 'it is reserved, and being executed');
is($c->bodies, 1, 'its file is there');
$c->cluster('kill-replicator');
kill CONT => @held;
$c->cluster('start-replicator');
$s->finish($t);
like($s->error, qr/08007|57P03|40001/, 'killed meanwhile: the client learns that it is not known, or not committed');
is(decided(), $before, 'it was not decided');
count_is(0, 'and is nowhere');
ok($c->wait_until(sub { $c->bodies == 0 }), 'no file is left');
$s->close;

# ---------- after the decision

$s = $c->session(1);
my $backend = $s->pid;
@held = $c->apply_pids(2);
kill STOP => @held;
$s->send(insert());
ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }, $t), 'the next one is reserved');
kill STOP => $backend;
kill CONT => @held;
ok($c->wait_sql(2, 'SELECT count(*) FROM b', $n, $t), 'it is decided, and committed on the other node');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
kill CONT => $backend;
$s->finish($t);
count_is($n, 'killed after the decision: it exists everywhere, once');
is($c->bodies, 1, 'its file is the journal\'s');
$s->close;

# ---------- a peer is killed

@held = $c->apply_pids(2);
kill STOP => @held;
$s = $c->session(1);
$s->send(insert());
ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }, $t), 'one more');
$c->cluster('kill-node', 2);
$s->finish($t);
is($s->error, '', 'a peer is killed while it executes: the others go on');
$c->sql(1, insert(), timeout => $t) for 1 .. 2;
$c->cluster('start-node', 2, '--no-wait');
$c->wait_until(sub { ($c->node_status(2)->{state} // '') =~ /catchup|online/ }, $t);
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2);
count_is(4 * $n, 'killed again while it catches up: it has all');
$c->same('and is equal');

# ---------- the client, the backend

$before = $c->bodies;
my $victim = $c->session(2);
$victim->do('BEGIN');
$victim->do(insert(), $t);
ok($c->wait_until(sub { $c->bodies == $before + 1 }, $t), 'a transaction is being stored');
$victim->kill;
ok($c->wait_until(sub { $c->bodies == $before }, $t), 'its client is killed: nothing is left');

@held = $c->apply_pids(1);
kill STOP => @held;
$victim = $c->session(2);
$victim->send(insert());
ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }, $t), 'one waits for its verdict');
$c->sql(2, "SELECT pg_terminate_backend(@{[ $victim->pid ]})");
kill CONT => @held;
ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 0 }, $t), 'its backend is ended: that is the end of it');
$c->drain;
my @count = $c->sql_everywhere('SELECT count(*) FROM b');
is($count[0], $count[1], 'on both nodes');
ok($count[0] == 4 * $n || $count[0] == 5 * $n, "as a whole or not at all ($count[0])");
ok($c->wait_until(sub { $c->bodies == $before + $count[0] / $n - 4 }), 'and its file accordingly') or diag($c->bodies);
$c->cluster('restart-replicator');
count_is($count[0], 'the same after a restart');

done_testing;
