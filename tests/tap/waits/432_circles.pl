# Waits in a circle: through the replicator's queues alone, and through row locks of a node,
# which neither the replicator nor PostgreSQL sees as a whole.  One gets 40P01 soon, is told
# who waited for whom, and the others go on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i;
CREATE TABLE u (id int PRIMARY KEY);
SQL
$c->drain;
my @s = map { my $s = $c->session($_); $s->do('SET lockstep.update_order = queued; SET lockstep.queue_timeout = 0'); $s } 1, 1, 2, 3, 2;
my ($a, $b, $d, $e, $f) = @s;

sub update { my ($id) = @_; return "UPDATE t SET v = v + 1 WHERE id = $id" }

# A test: the replicator knows that it waits; what is asked next is behind that.
sub waits
{
	my ($s, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_for_waiter($s), $name);
}

# All but one of the waiting finish; which gets 40P01, is told.
sub resolves
{
	my ($name, $detail, @waiting) = @_;
	my $start = time;
	my @open = @waiting;
	my @victims;
	$c->wait_until(sub {
		for my $s (@open)
		{
			next if $s->blocked(0.05);
			$s->finish;
			push @victims, $s->error if $s->error =~ /40P01/;
			$s->query($s->error eq '' ? 'COMMIT' : 'ROLLBACK');
			@open = grep { $_ != $s } @open;
			last;
		}
		return !@open;
	}, 60);
	is(scalar @open, 0, sprintf('%s: nobody waits any more (%.1f s)', $name, time - $start));
	is(scalar @victims, 1, "$name: one gets 40P01");
	like($victims[0] // '', $detail, "$name: and who waited for whom") if $detail;
}

# Two nodes, queues only.
$a->do('BEGIN; ' . update(1));
$d->do('BEGIN; ' . update(2));
$a->send(update(2));
waits($a, 'two nodes: half of the circle waits');
$d->query(update(1));
LockstepCluster::is_error($d->error, '40P01', qr/behind a transaction of node "n1".*which waits for this one/, 'two nodes: who closes it gets 40P01');
$d->query('ROLLBACK');
$a->finish;
$a->query('COMMIT');

# Three nodes, queues only.
$a->do('BEGIN; ' . update(1));
$d->do('BEGIN; ' . update(2));
$e->do('BEGIN; ' . update(3));
$a->send(update(2));
$d->send(update(3));
waits($_, 'three nodes: waits') for $a, $d;
$e->query(update(1));
LockstepCluster::is_error($e->error, '40P01', qr/node "n1" \(pid \d+\), which waits for public\.t t_pkey behind a transaction of node "n2" \(pid \d+\), which waits for this one/, 'three nodes: all of them are told');
$e->query('ROLLBACK');
$d->finish;
$d->query('COMMIT');
$a->finish;
$a->query('COMMIT');

# Through a row lock of node 1: a has 1 and waits there for b, which waits for d's 2.
$a->do('BEGIN; ' . update(1));
$b->do('BEGIN; SELECT FROM t WHERE id = 10 FOR UPDATE');
$d->do('BEGIN; ' . update(2));
$b->send(update(2));
$a->send(update(10));
ok($_->blocked(0.3), 'through one node: waits') for $a, $b;
$d->send(update(1));
resolves('through one node', qr/waits for a lock|a lock on its node/, $a, $b, $d);

# It need not be a row's lock.
$a->do('BEGIN; ' . update(1));
$b->do('BEGIN; SELECT pg_advisory_xact_lock(1); SELECT FROM t WHERE id = 20 FOR UPDATE');
$d->do('BEGIN; ' . update(2));
$b->send(update(2));
$a->send('SELECT pg_advisory_xact_lock(1)');
ok($_->blocked(0.3), 'through an advisory lock: waits') for $a, $b;
$d->send(update(1));
resolves('through an advisory lock', undef, $a, $b, $d);

# Through locks of two nodes: a -(n1)-> b -(queue)-> d -(n2)-> f -(queue)-> a.
$a->do('BEGIN; ' . update(1));
$b->do('BEGIN; SELECT FROM t WHERE id = 30 FOR UPDATE');
$d->do('BEGIN; ' . update(2));
$f->do('BEGIN; SELECT FROM t WHERE id = 31 FOR UPDATE');
$b->send(update(2));
$f->send(update(1));
ok($_->blocked(0.3), 'through two nodes: waits') for $b, $f;
$a->send(update(30));
$d->send(update(31));
resolves('through two nodes', undef, $a, $b, $d, $f);

# No circle: a waits on its node for somebody who will go on.
$a->do('BEGIN; ' . update(1));
$b->do('BEGIN; SELECT FROM t WHERE id = 40 FOR UPDATE');
$a->send(update(40));
$d->send(update(1));
ok($_->blocked(1.5), 'no circle: waits, and is left alone') for $a, $d;
$b->do('COMMIT');
$a->finish;
$a->query('COMMIT');
$d->finish;
is($a->error . $d->error, '', 'no circle: nobody fails');

$c->same('all nodes are equal');
$c->down;
done_testing;
