# Rows that several nodes want at the same time, with the default of lockstep.update_order (auto):
# after a conflict both nodes request the row first, so that nobody loses it any more; other rows are not
# requested; SELECT FOR UPDATE, upserts and IN, too; who has such a row and thinks keeps the others waiting for a
# second and no COMMIT, and loses; when the nodes leave the row alone it is forgotten; where most rows of a table
# that are changed are contended, the others are requested, too.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.queue_after = 0\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 1000) i;
CREATE TABLE calm (LIKE t INCLUDING ALL);
INSERT INTO calm SELECT * FROM t;
CREATE FUNCTION increment(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = v + 1 WHERE id = n; END $$;
SQL
$c->drain;
is($c->sql(2, 'SHOW lockstep.update_order'), 'auto', 'the default');

# Both increment a row at the same time, for $n transactions each; how many failed.
sub fight
{
	my ($script, $clients, $n) = @_;
	my $file = $c->file('fight.sql', $script);
	my @runs = map { $c->pgbench_start($_, '-n', '-f', $file, '-c', $clients, '-t', $n, '--failures-detailed') } $c->all;
	$_->{handle}->finish for @runs;
	my ($failed, $done) = (0, 0);
	for my $run (@runs)
	{
		$failed += $1 if ${ $run->{text} } =~ /number of failed transactions: (\d+)/;
		$done += LockstepCluster::processed(${ $run->{text} });
	}
	$c->drain;
	return ($failed, $done);
}

# ---------- nobody loses

my $increment = "UPDATE t SET v = v + 1 WHERE id = 1;\n";
my ($failed, $done) = fight($increment, 4, 50);
cmp_ok($failed, '<', 200, "one row, both nodes, before it is known: $failed of 400 fail");
my ($again, $done_again) = fight($increment, 4, 250);
cmp_ok($again, '<=', 20, "afterwards: $again of 2000 fail");
is($c->sql($_, 'SELECT v FROM t WHERE id = 1'), $done + $done_again, "n$_ has all that were committed") for $c->all;

my $locking = "BEGIN;\nSELECT v FROM t WHERE id = 2 FOR UPDATE;\nUPDATE t SET v = v + 1 WHERE id = 2;\nCOMMIT;\n";
fight($locking, 4, 50);
($again) = fight($locking, 4, 100);
cmp_ok($again, '<=', 16, "SELECT FOR UPDATE: $again of 800 fail");

my $two = "\\set a random(3, 4)\nBEGIN;\nUPDATE t SET v = v + 1 WHERE id = :a;\nUPDATE t SET v = v + 1 WHERE id = 5;\nCOMMIT;\n";
fight($two, 4, 50);
($again) = fight($two, 4, 100);
cmp_ok($again, '<=', 16, "two rows: $again of 800 fail");

my @others = (
	[ 'INSERT ON CONFLICT DO UPDATE', "INSERT INTO t AS old VALUES (2001, 1) ON CONFLICT (id) DO UPDATE SET v = old.v + 1;\n" ],
	[ 'IN', "UPDATE t SET v = v + 1 WHERE id IN (6, 7);\n" ],
	[ 'a parameter in a function', "SELECT increment(8);\n" ],
);
for (@others)
{
	my ($name, $script) = @$_;
	fight($script, 4, 50);
	($again) = fight($script, 4, 100);
	cmp_ok($again, '<=', 16, "$name: $again of 800 fail");
}

# ---------- one who has it and thinks

my ($a, $b) = map { $c->session($_) } 1, 2;

sub run { my ($s, @sql) = @_; $s->do($_) for @sql }

# Make row $id contended, and known as such to both nodes.
sub contend
{
	my ($id) = @_;
	run($_, 'BEGIN', "UPDATE t SET v = v + 1 WHERE id = $id") for $a, $b;
	$_->query('COMMIT') for $a, $b;
	$_->query('ROLLBACK') for $a, $b;
	$c->drain;

	# the verdicts of these say so at the latest
	for my $s ($a, $b)
	{
		$s->do("UPDATE t SET v = v + 1 WHERE id = $id");
		$c->drain;
	}
}

contend(10);
run($a, 'BEGIN', 'UPDATE t SET v = 100 WHERE id = 10');
my $start = time;
$b->query('UPDATE t SET v = 200 WHERE id = 10');
is($b->error, '', 'a transaction of the other node goes on, though an idle one has the row');
my $took = time - $start;
cmp_ok($took, '>=', 0.9, sprintf('after it has waited: %.2f s', $took));
cmp_ok($took, '<', LockstepCluster::soon(4), 'not for long');
$a->query('COMMIT');
LockstepCluster::is_error($a->error, '40001', qr/./, 'and the idle one loses');
$a->query('ROLLBACK');

# A COMMIT waits for no such request: this transaction had changed the row before.
contend(11);
run($b, "SET lockstep.update_order = optimistic", 'BEGIN', 'UPDATE t SET v = 300 WHERE id = 11');
run($a, 'BEGIN', 'UPDATE t SET v = 400 WHERE id = 11');
$start = time;
$b->do('COMMIT');
cmp_ok(time - $start, '<', LockstepCluster::soon(0.8), 'a COMMIT does not wait for a request');
$a->query('COMMIT');
LockstepCluster::is_error($a->error, '40001', qr/./, 'first committer wins');
$a->query('ROLLBACK');
$b->do('RESET lockstep.update_order');

# It is released with its savepoint, and when it is given up another row can be requested.
contend($_) for 12, 13;
run($a, 'BEGIN', 'SAVEPOINT s', 'UPDATE t SET v = 1 WHERE id = 12', 'ROLLBACK TO s');
$start = time;
$b->do('UPDATE t SET v = 2 WHERE id = 12');
cmp_ok(time - $start, '<', LockstepCluster::soon(0.8), 'released by ROLLBACK TO');
$a->do('UPDATE t SET v = 3 WHERE id = 13');
run($b, 'BEGIN', 'UPDATE t SET v = 4 WHERE id = 13');	# given up after a second
$b->do('UPDATE t SET v = 5 WHERE id = 12');
is($b->error, '', 'a row is requested after another was given up');
$a->do('COMMIT');
$b->query('COMMIT');
LockstepCluster::is_error($b->error, '40001', qr/./, 'which is lost');
$b->query('ROLLBACK');

# ---------- others are not requested, and it is forgotten

run($a, 'BEGIN', 'UPDATE calm SET v = v + 1 WHERE id = 500');
$start = time;
$b->do('UPDATE calm SET v = v + 1 WHERE id = 500');
cmp_ok(time - $start, '<', LockstepCluster::soon(0.8), 'a row of a table that nobody fought over is not waited for');
$a->query('COMMIT');
LockstepCluster::is_error($a->error, '40001', qr/./, 'as ever');
$a->query('ROLLBACK');

# ---------- a table where most are contended

contend($_) for 14 .. 17;
for my $id (501 .. 505)
{
	run($b, 'BEGIN', "UPDATE t SET v = v + 1 WHERE id = $id");
	$start = time;
	$a->send("UPDATE t SET v = v + 1 WHERE id = $id");
	my $waits = $c->wait_for_waiter($a);
	$b->query('COMMIT');
	$took = time - $start;
	$a->finish;
	last if !$waits || $took < 0.9;

	# a machine that stood still for so long: the request may have been given up
	$b->query('ROLLBACK');
}
is($b->error, '', 'a row that nobody fought over is requested where most rows of its table are contended');
is($a->error, '', 'by both nodes, so nobody loses');

# Twice LS_CONTENDED_MS; who waits for it makes it contended again, so this can't be awaited.
if ($ENV{LOCKSTEP_LONG})
{
	contend(18);
	sleep 11;
	run($a, 'BEGIN', 'UPDATE t SET v = v + 1 WHERE id = 18');
	$start = time;
	$b->do('UPDATE t SET v = v + 1 WHERE id = 18');
	cmp_ok(time - $start, '<', LockstepCluster::soon(0.8), 'nor one that has been left alone');
	$a->query('ROLLBACK');
}

$c->same('all nodes are equal');
done_testing;
