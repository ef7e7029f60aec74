# Clean restarts: a node catches up from the journal and is online again; the
# replicator goes on from its journal; drop and attach by command; kill -9 of
# everything at once loses nothing that was acknowledged.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, durable => 1,
	replicator_conf => "journal_segment_size = 64kB\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');

# ---------- a node

$c->cluster('stop-node', 2);
$c->wait_until(sub { $c->node_status(2)->{state} ne 'online' });
$c->sql(1, "INSERT INTO t SELECT i, 'while away' FROM generate_series(1, 500) i; CREATE TABLE t2 (id int PRIMARY KEY); INSERT INTO t2 VALUES (1)");
$c->sql(1, "UPDATE t SET v = 'changed' WHERE id % 7 = 0; DELETE FROM t WHERE id > 490");
ok($c->cluster('restart-node', 2), 'a node that was cleanly stopped is online again');
$c->same('it caught up');
$c->sql(2, "INSERT INTO t VALUES (600, 'from n2')");
$c->same('and takes writes');

# Restarted while both are under load.
my $script = $c->file('load.sql', "\\set id random(10000, 100000000)\nINSERT INTO t VALUES (:id, 'load') ON CONFLICT DO NOTHING;\n");
my $load = $c->pgbench_start(1, '-n', '-f', $script, '-c', 4, '-T', 5, '--max-tries=1000');
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM t WHERE v = 'load'") > 0 }), 'there is load');
ok($c->cluster('restart-node', 2), 'restarted under load');
$load->{handle}->finish;
unlike(${ $load->{text} }, qr/aborted/, 'the load goes on') or diag(${ $load->{text} });
$c->same('equal after a restart under load');

# ---------- the replicator

my $before = $c->status;
my $session = $c->session(1);
$session->do("INSERT INTO t VALUES (601, 'before')");
ok($c->cluster('restart-replicator'), 'the replicator is restarted');
my $after = $c->status;
is($after->{cluster}, $before->{cluster}, 'the same cluster');
cmp_ok($after->{journal}{last}, '>=', $before->{journal}{last}, 'its journal goes on');
$session->do("INSERT INTO t VALUES (602, 'after')");
$c->sql(2, "INSERT INTO t VALUES (603, 'after')");
$c->same('sessions go on after it');

# A node that lacks something when the replicator starts gets it from the journal.
$c->cluster('stop-node', 2);
$c->wait_until(sub { $c->node_status(2)->{state} ne 'online' });
$c->sql(1, "INSERT INTO t SELECT i, 'x' FROM generate_series(2000, 2100) i");
$c->cluster('stop-replicator');
$c->cluster('start-node', 2);
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online'), 'online');
$c->same('from a journal of before the restart');

# ---------- drop and attach

my (undef, $err, $rc) = $c->ctl('drop', 'n2');
is($rc, 0, 'drop') or diag($err);
is($c->node_status(2)->{state}, 'dropped', 'dropped');
$c->fails(2, 'INSERT INTO t VALUES (-1)', '57P03', qr/HINT/, 'a dropped node refuses writes, with a hint');
like($c->sql(2, 'SELECT count(*) FROM t'), qr/^\d+$/, 'and reads');
$c->sql(1, "INSERT INTO t VALUES (700, 'without n2')");
$c->cluster('restart-replicator');
is($c->node_status(2)->{state}, 'dropped', 'it stays dropped when the replicator is restarted');
(undef, $err, $rc) = $c->ctl('attach', 'n2');
is($rc, 0, 'attach') or diag($err);
is($c->node_status(2)->{state}, 'online', 'online when the command returns');
$c->same('with what it missed');

# ---------- everything at once

my $d = LockstepCluster->new(nodes => 2, durable => 1);
$d->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$d->drain;
for my $round (1 .. 2)
{
	my @acknowledged;
	my @s = map { $d->session($_) } 1, 2;
	for my $i (1 .. 40)
	{
		my $id = $round * 1000 + $i;
		my $s = $s[$i % 2];
		$s->do("INSERT INTO t VALUES ($id)");
		push @acknowledged, $id;
	}
	$d->cluster('kill-replicator');
	$d->cluster('kill-node', $_) for $d->all;
	$d->cluster('start-replicator');
	$d->cluster('start-node', $_) for $d->all;
	ok($d->wait_state($_, 'online'), "round $round: n$_ is online again") for $d->all;
	my $list = join ',', @acknowledged;
	$d->drain;
	is($d->sql($_, "SELECT count(*) FROM t WHERE id IN ($list)"), scalar @acknowledged, "round $round: what was acknowledged is on n$_") for $d->all;
	$d->same("round $round: equal");
	$_->close for @s;
}

done_testing;
