# Causal reads: with lockstep.causal_reads a read sees everything that was committed on any node
# before it began, at each isolation level, also what COPY, cursors, functions and
# prepared statements read; it waits, can be cancelled, and fails clearly without
# the replicator.  lockstep.last_seq and wait_for: the same by a token.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, fault => 1);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t VALUES (1, 0);
CREATE FUNCTION seen() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT v FROM t WHERE id = 1); END $$;
CREATE FUNCTION seen_volatile() RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT v FROM t WHERE id = 1); END $$;
CREATE TABLE log (id int PRIMARY KEY, v int);
CREATE TABLE target (id int PRIMARY KEY, v int);
CREATE RULE r AS ON INSERT TO target DO ALSO INSERT INTO log VALUES (new.id, new.v);
SQL
$c->drain;
my $reader = $c->session(2);
my $n = 0;

sub hold { $c->set(2, 'lockstep_fault.apply_commit', "'wait'") }
sub let_go { $c->set(2, 'lockstep_fault.apply_commit', "'none'") }

# The node is behind; the statement waits, then sees what was committed.
sub sees
{
	my ($name, $sql, $before, $after) = @_;
	$reader->do($before) if $before;
	hold();
	$n++;
	$c->sql(1, "UPDATE t SET v = $n WHERE id = 1");
	$reader->send($sql);
	ok($reader->blocked(0.3), "$name: waits");
	let_go();
	my $out = $reader->finish;
	is($out, $n, "$name: sees it") or diag($reader->error);
	$reader->do($after) if $after;
}

hold();
$c->sql(1, 'UPDATE t SET v = -1 WHERE id = 1');
is($reader->query('SELECT v FROM t'), 0, 'off: reads what the node has');
let_go();
$c->drain;
$reader->do('SET lockstep.causal_reads = on');

sees('SELECT', 'SELECT v FROM t');
sees('stable function', 'SELECT seen()');
sees('stable function in a query that writes', 'INSERT INTO target VALUES (1, seen()) RETURNING v', undef, 'DELETE FROM target; DELETE FROM log');
sees('volatile function', 'SELECT seen_volatile()');
sees('COPY', 'COPY (SELECT v FROM t) TO STDOUT');
sees('COPY of a table', 'COPY t (v) TO STDOUT');
sees('prepared', 'EXECUTE p', 'PREPARE p AS SELECT v FROM t');
sees('a later statement of READ COMMITTED', 'SELECT v FROM t', 'BEGIN; SAVEPOINT s', 'COMMIT');
sees('after its own writes', 'SELECT v FROM t WHERE id = 1', "BEGIN; INSERT INTO t VALUES (100, 0)", 'ROLLBACK');
sees('cursor', 'DECLARE c CURSOR FOR SELECT v FROM t; FETCH c', 'BEGIN', 'COMMIT');
for my $level ('REPEATABLE READ', 'SERIALIZABLE', 'SERIALIZABLE READ ONLY DEFERRABLE')
{
	sees("$level, first statement", 'SELECT v FROM t', "BEGIN ISOLATION LEVEL $level");
	$c->sql(1, "UPDATE t SET v = v + 1000 WHERE id = 1");
	$c->drain;
	is($reader->query('SELECT v FROM t'), $n, "$level: and nothing later");
	is($reader->query('COPY (SELECT v FROM t) TO STDOUT'), $n, "$level: nor by COPY");
	$reader->do('COMMIT');
	is($reader->error, '', "$level: no warning at its end");
	sees("$level by default", 'SELECT v FROM t', "SET default_transaction_isolation = '" . lc($level =~ s/ READ ONLY.*//r) . "'", 'RESET default_transaction_isolation');
}
sees('SERIALIZABLE with a write', 'INSERT INTO log SELECT 50, v FROM t RETURNING v', 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'COMMIT; DELETE FROM log');

# What was read stays read, whatever the setting is changed to.
$reader->do('SET lockstep.causal_reads = off; BEGIN ISOLATION LEVEL REPEATABLE READ');
my $old = $reader->query('SELECT v FROM t');
$c->sql(1, 'UPDATE t SET v = v + 1');
$c->drain;
$reader->do('SET lockstep.causal_reads = on');
is($reader->query('SELECT v FROM t'), $old, 'switched on in the middle of REPEATABLE READ: the snapshot stays');
$reader->do('COMMIT');
my $exporter = $c->session(2);
$exporter->do('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $snapshot = $exporter->query('SELECT pg_export_snapshot()');
$old = $exporter->query('SELECT v FROM t');
$c->sql(1, 'UPDATE t SET v = v + 1');
$c->drain;
$reader->do("BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '$snapshot'");
is($reader->query('SELECT v FROM t'), $old, 'a snapshot that was imported stays');
$_->do('COMMIT') for $reader, $exporter;

# ---------- waiting can be stopped

hold();
$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 1');
$reader->do("SET statement_timeout = '300ms'");
$reader->query('SELECT v FROM t');
LockstepCluster::is_error($reader->error, '57014', qr/statement timeout/, 'statement_timeout ends the wait');
$reader->do('BEGIN; SAVEPOINT s');
$reader->query('SELECT v FROM t');
LockstepCluster::is_error($reader->error, '57014', qr/./, 'in a savepoint');
$reader->do('ROLLBACK TO s; SET LOCAL statement_timeout = 0');
$reader->send('SELECT v FROM t');
ok($reader->blocked(0.2), 'and the next one waits again');
$c->sql(2, 'SELECT pg_cancel_backend(' . $reader->pid . ')');
$reader->finish;
LockstepCluster::is_error($reader->error, '57014', qr/user request/, 'so does a cancel');
$reader->do('ROLLBACK; RESET statement_timeout');
$reader->send('BEGIN; SELECT v FROM t; COMMIT');
ok($reader->blocked(0.2), 'waiting');
let_go();
is($reader->finish, $c->sql(1, 'SELECT v FROM t WHERE id = 1'), 'after all that it reads right');

# From REPEATABLE READ on, what fails in a savepoint while it waits is not the first statement yet.
for my $level ('REPEATABLE READ', 'SERIALIZABLE')
{
	for my $sql ('SELECT v FROM t WHERE id = 1', 'COPY (SELECT v FROM t WHERE id = 1) TO STDOUT')
	{
		hold();
		$n++;
		$c->sql(1, "UPDATE t SET v = $n WHERE id = 1");
		$reader->do("BEGIN ISOLATION LEVEL $level; SAVEPOINT s; SET LOCAL statement_timeout = '300ms'");
		$reader->query($sql);
		LockstepCluster::is_error($reader->error, '57014', qr/statement timeout/, "$level: $sql fails while it waits");
		$reader->do('ROLLBACK TO s');
		$reader->send($sql);
		ok($reader->blocked(0.2), '... the next one waits again');
		let_go();
		is($reader->finish, $n, '... and sees it') or diag($reader->error);
		$c->sql(1, 'UPDATE t SET v = v + 1000 WHERE id = 1');
		$c->drain;
		is($reader->query($sql), $n, '... and nothing later');
		$reader->do('INSERT INTO log VALUES (60, 0); DELETE FROM log WHERE id = 60') if $level eq 'REPEATABLE READ';
		$reader->do('COMMIT');
		is($reader->error, '', '... and nothing is wrong at its end');
	}
}

# ---------- tokens

my $writer = $c->session(1);
is($writer->query('SELECT lockstep.last_seq()'), '', 'last_seq: none yet');
hold();
$writer->do('UPDATE t SET v = 77 WHERE id = 1');
my $seq = $writer->query('SELECT lockstep.last_seq()');
like($seq, qr/^\d+$/, "last_seq is a number ($seq)");
is($c->sql(1, "SELECT lockstep.applied_seq() >= $seq"), 't', 'applied_seq covers it, in any session');
is($c->sql(2, "SELECT lockstep.wait_for($seq, '200ms')"), 'f', 'wait_for: not yet');
is($c->sql(2, "SELECT lockstep.wait_for($seq - 1, '10s')"), 't', 'what came before is there');
my $waiter = $c->session(2);
$waiter->send("SELECT lockstep.wait_for($seq, '1min')");
ok($waiter->blocked(0.2), 'waits');
let_go();
is($waiter->finish, 't', 'and returns when it is there');
is($c->sql(2, 'SELECT v FROM t WHERE id = 1'), 77, 'read your write on another node');
is($c->sql(2, "SELECT lockstep.wait_for($seq)"), 't', 'no timeout');
$c->fails(2, 'SELECT lockstep.wait_for(-1)', '22023', qr/negative/, 'a negative one is refused');
$c->fails(2, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT lockstep.wait_for($seq)", '25001', qr/causal_reads/, 'useless in a block with one snapshot');
$c->fails(2, "SET statement_timeout = '200ms'; SELECT lockstep.wait_for($seq + 1000)", '57014', qr/./, 'statement_timeout');

# ---------- under load a reader on another node never misses what was acknowledged

my $missed = 0;
my $start = time;
for my $i (1 .. 200)
{
	$writer->do("UPDATE t SET v = $i WHERE id = 1");
	$missed++ if $reader->query($i % 2 ? 'SELECT v FROM t WHERE id = 1'
		: 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t WHERE id = 1; COMMIT') != $i;
}
is($missed, 0, sprintf('200 writes read elsewhere (%.1f s)', time - $start));
my $load = $c->file('load.sql', "\\set id random(200, 400)\nINSERT INTO t VALUES (:id, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;\n");
my $bench = $c->pgbench_start(1, '-n', '-f', $load, '-c', 2, '-T', 3, '--max-tries=100');
for my $i (1 .. 100)
{
	$writer->do("UPDATE t SET v = -$i WHERE id = 1");
	$missed++ if $reader->query('SELECT v FROM t WHERE id = 1') != -$i;
}
is($missed, 0, 'nor under load');
$bench->{handle}->finish;
$c->same('equal');

# ---------- without the replicator

kill 'KILL', $c->replicator_pid;
$reader->query('SELECT v FROM t WHERE id = 1');
LockstepCluster::is_error($reader->error, '57P03', qr/causal_reads/, 'without the replicator: says so, and what to do');
$reader->query('SELECT v FROM t WHERE id = 1');
LockstepCluster::is_error($reader->error, '57P03', qr/causal_reads/, 'the same when it has to connect');
$reader->do('SET lockstep.causal_reads = off');
is($reader->query('SELECT v FROM t WHERE id = 1'), -100, 'off: reads go on');

done_testing;
