# Hot rows: with lockstep.update_order = queued a row that another node is changing is waited
# for and not lost: no 40001 on a counter that three nodes increment, places in the order
# asked, 40P01 for one of a circle, the queue goes on when who holds it rolls back, is killed
# or cancelled; by session, role and table.  A session that always loses gets through.
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
CREATE TABLE other (id int PRIMARY KEY, v int NOT NULL);
INSERT INTO other SELECT i, 0 FROM generate_series(1, 50) i;
CREATE FUNCTION increment(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE r int; BEGIN UPDATE t SET v = v + 1 WHERE id = n RETURNING v INTO r; RETURN r; END $$;
SQL
$c->drain;
my ($a, $b, $d) = map { $c->session($_) } 1 .. 3;
my $queued = 'SET lockstep.update_order = queued; SET lockstep.queue_timeout = 0';
$_->do($queued) for $a, $b, $d;
my $row = 0;

sub queues { my ($s, $name) = @_; ok($c->wait_for_waiter($s), $name) }
sub ok_session { my ($s, $name) = @_; unlike($s->error, qr/ERROR|FATAL/, $name) }

# b waits for what a does, and goes on when a has ended.
sub waits
{
	my ($name, $first, $second, $end, $result) = @_;
	$row++;
	$a->do('BEGIN');
	$a->do($first =~ s/:id/$row/gr);
	$b->send($second =~ s/:id/$row/gr);
	ok($b->blocked(0.3), "$name: waits");
	$a->do($end // 'COMMIT');
	my $out = $b->finish;
	ok_session($b, "$name: goes on");
	is($out, $result, "$name: and sees it") if defined $result;
	$b->query('COMMIT');
	ok_session($b, "$name: commits");
}

my $update = 'UPDATE t SET v = v + 1 WHERE id = :id';
waits('UPDATE', $update, "$update RETURNING v", undef, 2);
waits('rolled back', $update, "$update RETURNING v", 'ROLLBACK', 1);
waits('DELETE', $update, 'DELETE FROM t WHERE id = :id RETURNING v', undef, 1);
waits('deleted', 'DELETE FROM t WHERE id = :id', $update, undef, '');
waits('SELECT FOR UPDATE', 'SELECT v FROM t WHERE id = :id FOR UPDATE', 'BEGIN; SELECT v FROM t WHERE id = :id FOR UPDATE', undef, 0);
waits('SELECT FOR UPDATE, then UPDATE', "SELECT v FROM t WHERE id = :id FOR UPDATE; $update", "BEGIN; SELECT v FROM t WHERE id = :id FOR UPDATE; $update RETURNING v", undef, "1\n2");
waits('in a function', 'SELECT increment(:id)', 'SELECT increment(:id)', undef, 2);
waits('REPEATABLE READ, first statement', $update, "BEGIN ISOLATION LEVEL REPEATABLE READ; $update RETURNING v", undef, 2);
waits('SERIALIZABLE, first statement', $update, "BEGIN ISOLATION LEVEL SERIALIZABLE; $update RETURNING v; INSERT INTO other VALUES (1000 + :id, 0)", undef, 2);
waits('after work on other rows', $update, "BEGIN; UPDATE t SET v = 7 WHERE id = 50; $update RETURNING v", undef, 2);

# In the order asked, n2 before n3, whoever is faster.
$row++;
$a->do("BEGIN; UPDATE t SET v = 1 WHERE id = $row");
$b->send("UPDATE t SET v = v * 10 + 2 WHERE id = $row");
queues($b, 'n2 waits');
$d->send("UPDATE t SET v = v * 10 + 3 WHERE id = $row");
queues($d, 'n3 waits');
$a->do('COMMIT');
$_->finish for $b, $d;
is($b->error . $d->error, '', 'both go on');
$c->drain;
is($c->sql(1, "SELECT v FROM t WHERE id = $row"), 123, 'in the order asked');

# Other rows are nobody's business.
$a->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 40');
$b->do('UPDATE t SET v = v + 1 WHERE id = 41');
$a->do('COMMIT');

# A circle.
$a->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 30');
$b->do('BEGIN; UPDATE t SET v = v + 1 WHERE id = 31');
$a->send('UPDATE t SET v = v + 1 WHERE id = 31');
queues($a, 'half a circle waits');
$b->query('UPDATE t SET v = v + 1 WHERE id = 30');
LockstepCluster::is_error($b->error, '40P01', qr/deadlock/, 'who closes it gets 40P01');
$b->query('ROLLBACK');
$a->finish;
$a->query('COMMIT');
ok_session($a, 'the other one goes on');

# Ways to end while others wait.
$row++;
$a->do("BEGIN; UPDATE t SET v = v + 1 WHERE id = $row");
$b->do("SET statement_timeout = '300ms'");
$b->query("UPDATE t SET v = v + 1 WHERE id = $row");
LockstepCluster::is_error($b->error, '57014', qr/./, 'statement_timeout');
$b->do("RESET statement_timeout; SET lockstep.queue_timeout = '300ms'");
$b->query("UPDATE t SET v = v + 1 WHERE id = $row");
LockstepCluster::is_error($b->error, '40P01', qr/t_pkey.*queue_timeout/s, 'queue_timeout');
$b->do("SET lockstep.queue_timeout = 0");
$d->send("UPDATE t SET v = v + 1 WHERE id = $row");
ok($d->blocked(0.3), 'n3 waits');
$a->kill;
$d->finish;
ok_session($d, 'goes on when who held it is killed');
$a = $c->session(1);
$a->do($queued);

# An optimistic writer meets a queued one.
$b->do('SET lockstep.update_order = optimistic; SET lockstep.queue_after = 0; BEGIN; UPDATE t SET v = v + 1 WHERE id = 46');
$a->do('UPDATE t SET v = v + 1 WHERE id = 46');
$b->query('COMMIT');
LockstepCluster::is_error($b->error, '40001', qr/./, 'an optimistic one loses as ever');

# By role, by table.
$c->sql(1, 'CREATE ROLE patient LOGIN SUPERUSER; ALTER ROLE patient SET lockstep.update_order = queued');
$c->drain;
$b->do("SET lockstep.queued_tables = 'public.other'");
$a->do('BEGIN; UPDATE other SET v = v + 1 WHERE id = 1; UPDATE t SET v = v + 1 WHERE id = 47');
$b->send('UPDATE other SET v = v + 1 WHERE id = 1');
ok($b->blocked(0.3), 'a table that is listed');
$a->do('COMMIT');
$b->finish;
ok_session($b, 'goes on');
is($c->sql(2, 'SHOW lockstep.update_order', options => '-c role=postgres'), 'auto', 'the default is auto');

# ---------- three nodes, one row

sub increments
{
	my ($name, $options, $id, $n) = @_;
	local $ENV{PGOPTIONS} = $options;
	my $script = $c->file("increment$id.sql", "UPDATE t SET v = v + 1 WHERE id = $id;\n");
	my $start = time;
	my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 4, '-t', $n, '--max-tries=10000', '--failures-detailed') } $c->all;
	$_->{handle}->finish for @runs;
	my ($done, $retried) = (0, 0);
	for my $run (@runs)
	{
		$done += LockstepCluster::processed(${ $run->{text} });
		my ($r) = ${ $run->{text} } =~ /total number of retries: (\d+)/;
		$retried += $r // 0;
		unlike(${ $run->{text} }, qr/aborted/, "$name: nobody gives up") or diag(${ $run->{text} });
	}
	$c->drain;
	is($c->sql(2, "SELECT v FROM t WHERE id = $id"), $done, sprintf('%s: %d increments, %d retries, %.1f s', $name, $done, $retried, time - $start));
	return $retried;
}

# (who waits for longer than lockstep.queue_timeout, on a busy machine, would)
is(increments('queued', '-c lockstep.update_order=queued -c lockstep.queue_timeout=60s', 48, 50), 0, 'queued: nobody has to retry');
increments('optimistic', '-c lockstep.update_order=optimistic -c lockstep.queue_after=0', 49, 25);

# A session that always loses against a stream on another node: it thinks between reading
# and writing.
my $script = $c->file('stream.sql', "UPDATE t SET v = v + 1 WHERE id = 50;\n");
my $stream = $c->pgbench_start(1, '-n', '-f', $script, '-c', 4, '-T', 6, '--max-tries=10000');
my $victim = $c->session(2);
$victim->do('SET lockstep.queue_after = 2');
my ($tries, $through) = (0, 0);
for my $round (1 .. 5)
{
	for (1 .. 20)
	{
		$tries++;
		$victim->query('BEGIN; SELECT v FROM t WHERE id = 50 FOR UPDATE; SELECT pg_sleep(0.05); UPDATE t SET v = v + 1 WHERE id = 50; COMMIT');
		last if $victim->error eq '';
		$victim->query('ROLLBACK');
	}
	$through++ if $victim->error eq '';
}
is($through, 5, "a slow session gets through against a stream of fast ones ($tries tries for 5)");
cmp_ok($tries, '<=', 20, 'in a few tries each');
$stream->{handle}->finish;

$c->same('all nodes are equal');
done_testing;
