# Waits in a circle that neither the replicator's queues nor PostgreSQL see as a whole, as one
# of them waits at its COMMIT and has asked for no lock: through a table's lock, an advisory
# lock, a value of a unique index, a snapshot that is to be safe, a setval.  One gets 40P01
# soon, is told the whole circle, the others finish; and nobody else is in their way.
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
CREATE SEQUENCE s;
SQL
$c->drain;

sub update { my ($id) = @_; return "UPDATE t SET v = v + 1 WHERE id = $id" }

# The row is asked for first, and had.
sub queued { my ($id) = @_; return "SET LOCAL lockstep.update_order = queued; SET LOCAL lockstep.queue_timeout = 0; " . update($id) }

# A test: the replicator, or its node, knows that it waits, for that; what is done next is behind it.
sub waits
{
	my ($s, $kind, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_for_waiter($s, $kind), $name);
}

# Of those that wait exactly one loses, and is told of each link; each ends when it has what it
# waited for.
sub resolves
{
	my ($name, $links, %waiting) = @_;
	my $start = time;
	my %open = %waiting;
	my $first;
	my @victims;
	$c->wait_until(sub {
		for my $who (sort keys %open)
		{
			my $s = $open{$who};
			next if $s->blocked(0.02);
			$s->finish;
			$first //= time - $start;
			push @victims, $s->error if $s->error =~ /40P01/;
			unlike($s->error, qr/57014/, "$name: $who ends by itself");
			$s->query('ROLLBACK');
			delete $open{$who};
		}
		return !%open;
	}, 60);
	is(join(' ', sort keys %open), '', sprintf('%s: nobody waits any more (the first was over after %.1f s)', $name, $first // -1));
	is(scalar @victims, 1, "$name: one gets 40P01");
	like($victims[0] // '', qr/DETAIL:  This transaction waits .*this one\./, "$name: and is told of a circle");
	like($victims[0] // '', $_, "$name: with $_") for @$links;
}

my $link = qr/\(pid \d+, transaction \d+\)/;
my ($a, $b, $d, $e) = ($c->session(3), $c->session(2), $c->session(2), $c->session(2));
$_->do("SET lockstep.queue_after = 0") for $a, $b, $d, $e;

# a has row 7 in the queue; b waits at its COMMIT for that; d has another table in the queue, and
# waits on its node for b's lock of t; a waits at its COMMIT for d.
for my $command ('ALTER TABLE t ADD COLUMN w int; COMMIT', 'LOCK TABLE t; COMMIT')
{
	$a->do('BEGIN; INSERT INTO u VALUES (7) ON CONFLICT (id) DO UPDATE SET id = 7; ' . queued(7));
	$b->send(update(7));
	waits($b, 'reservation', "$command: b waits at its COMMIT");
	$d->do('BEGIN; LOCK TABLE u');
	$d->send($command);
	waits($d, 'local', "$command: d waits for the table");
	$a->send('COMMIT');
	my $bystander = $c->try(1, update(12), options => '-c statement_timeout=20s');
	resolves($command, [ qr/waits to commit, behind a transaction of node "n[23]" $link/, qr/for a lock on its node \(virtualxid/ ], a => $a, b => $b, d => $d);
	$c->drain;
}

# The same through other things that d and b meet on their node.
my %meet = (
	'an advisory lock' => [ 'SELECT pg_advisory_xact_lock(1)', 'SELECT pg_advisory_xact_lock(1)', qr/\(advisory\)/ ],
	'a unique index' => [ 'INSERT INTO u VALUES (1)', 'INSERT INTO u VALUES (1)', qr/\(transactionid\)/ ],
);
for my $name (sort keys %meet)
{
	my ($first, $second, $word) = @{ $meet{$name} };
	$a->do('BEGIN; ' . queued(1));
	$b->do("BEGIN; $first; " . update(1));
	$b->send('COMMIT');
	waits($b, 'reservation', "$name: b waits at its COMMIT");
	$d->do('BEGIN; ' . queued(2));
	$d->send($second);
	waits($d, 'local', "$name: d waits on its node");
	$a->do('SET LOCAL lockstep.update_order = optimistic; ' . update(2));
	$a->send('COMMIT');
	resolves($name, [ qr/$link/, $word ], a => $a, b => $b, d => $d);
	$c->drain;
}

# A reader that waits for a snapshot that is safe, as b might make it unsafe.
$a->do('BEGIN; ' . queued(1));
$b->do('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM u; ' . update(1));
$e->do('SELECT pg_advisory_lock(9)');
$b->send('COMMIT');
waits($b, 'reservation', 'a safe snapshot: b waits at its COMMIT');
$e->send("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;\nSELECT count(*) FROM t");
waits($e, 'local', 'a safe snapshot: the reader waits for it');
$d->do('BEGIN; ' . queued(2));
$d->send('SELECT pg_advisory_xact_lock(9)');
waits($d, 'local', 'a safe snapshot: d waits for the reader');
$a->do('SET LOCAL lockstep.update_order = optimistic; ' . update(2));
$a->send('COMMIT');
$c->wait_until(sub { !$a->blocked(0.05) || !$b->blocked(0.05) || !$d->blocked(0.05) }, 20);
$e->finish;
is($e->error, '', 'a safe snapshot: the reader gets it');
$e->do('COMMIT; SELECT pg_advisory_unlock_all()');
resolves('a safe snapshot', [ qr/\(SafeSnapshot\)|\(advisory\)/ ], a => $a, b => $b, d => $d);
$c->drain;

# A setval is ordered on its own, while its transaction waits for it.
my $f = $c->session(1);
$f->do('BEGIN; ' . queued(1));
$d->do('BEGIN; ALTER SEQUENCE s INCREMENT 2');
$f->send(q{SELECT setval('s', 100)});
waits($f, 'alone', 'setval: waits for the sequence');
$d->send(queued(1));
resolves('setval', [ qr/$link/ ], d => $d, f => $f);

# No circle: everybody waits for one who takes his time, and is left alone.
$a->do('BEGIN; ' . queued(1));
$b->do('BEGIN; SELECT pg_advisory_xact_lock(1); ' . update(1));
$b->send('COMMIT');
ok($b->blocked(0.3), 'no circle: b waits at its COMMIT');
$d->do('BEGIN; ' . queued(2));
$d->send('SELECT pg_advisory_xact_lock(1)');
ok($_->blocked(1), 'no circle: waits') for $b, $d;
$a->do('COMMIT');
$_->finish for $b, $d;
like($b->error, qr/^$|40001/, 'no circle: b has won or lost');
is($d->error, '', 'no circle: d has its lock');
$d->do('COMMIT');

# Who waits on his node only is told the same.
$d->do('BEGIN; ' . update(40));
is($c->sql(2, 'SELECT lockstep.yield_in_circle(' . $d->pid . q{, 0, 'It waited for itself.')}), 't', 'a backend is let fail');
$d->query('SELECT 1');
LockstepCluster::is_error($d->error, '40P01', qr/deadlock detected between transactions of several nodes.*It waited for itself\./s, 'a backend gets 40P01, too');
$d->query('ROLLBACK');

$c->same('all nodes are equal');
$c->down;
done_testing;
