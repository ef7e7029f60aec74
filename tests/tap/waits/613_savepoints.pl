# SAVEPOINT, ROLLBACK TO and RELEASE do not fail because of a conflict: a transaction that was ended, idle or running,
# by one of another node, or lost what the replicator knew of it, still has its savepoints, and hears of it at its next statement
# or COMMIT.  A cancel that arrives while such a command runs is not its error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.queue_after = 0\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i;
CREATE TABLE big (id int PRIMARY KEY, v text);
SQL
$c->drain;

my $v = $c->session(2);

sub conflict { $c->sql(1, 'SET lockstep.commit_wait = applied; UPDATE t SET v = v + 1 WHERE id = 1') }

# n1 changes the row that $v has changed: $v is ended.
sub doomed
{
	my (@commands) = @_;
	$v->do($_) for 'BEGIN', @commands;
	conflict();
}

sub passes
{
	my ($name, @commands) = @_;
	for (@commands)
	{
		$v->query($_);
		is($v->error, '', "$name: $_") or return;
	}
}

sub fails
{
	my ($name, $command, $state) = @_;
	$v->query($command);
	LockstepCluster::is_error($v->error, $state // '40001', qr/./, "$name: then $command fails");
}

my $change = 'UPDATE t SET v = 77 WHERE id = 1';

# ---------- idle

doomed('SAVEPOINT a', $change, 'SAVEPOINT "b;"', 'SELECT 1');
passes('changed between two savepoints', 'ROLLBACK TO "b;"', 'RELEASE "b;"');
fails('changed between two savepoints', 'SELECT 1');
passes('after that', 'ROLLBACK TO a', 'SAVEPOINT c', 'RELEASE c', 'RELEASE a');
fails('after that', 'COMMIT');
is($v->do('SELECT v FROM t WHERE id = 1'), 1, 'and nothing of it is left');

doomed('SAVEPOINT a', 'SAVEPOINT b', $change);
fails('the next statement', 'UPDATE t SET v = 1 WHERE id = 2');
fails('in the failed state', 'RELEASE b');
passes('after the error', 'ROLLBACK TO SAVEPOINT b', 'ROLLBACK TO b', 'RELEASE b', 'ROLLBACK TO a');
fails('one that there is not', 'ROLLBACK TO nothing', '40001|3B001');
passes('at the end', 'ROLLBACK TO a', 'ROLLBACK');
is($v->do('SELECT 1'), 1, 'the session goes on');

# The savepoints that there are, of one name, rolled back and released ones.
doomed('SAVEPOINT a', 'SAVEPOINT a', 'SAVEPOINT x', 'ROLLBACK TO a', 'SAVEPOINT y', 'RELEASE y', $change);
passes('of one name', 'ROLLBACK TO a', 'RELEASE a', 'ROLLBACK TO a', 'RELEASE a');
fails('of one name', 'RELEASE a', '40001|3B001');
passes('of one name', 'ROLLBACK');

# Failed already, holding the outer row.
$v->do($_) for 'BEGIN', $change, 'SAVEPOINT a';
$v->query('SELECT 1/0');
conflict();
passes('a savepoint that has failed', 'ROLLBACK TO a', 'RELEASE a');
fails('a savepoint that has failed', 'COMMIT');

doomed($change);
passes('no savepoint yet', 'SAVEPOINT a', 'ROLLBACK TO a', 'RELEASE a');
fails('no savepoint yet', 'SELECT 1');
passes('no savepoint yet', 'ROLLBACK');

# ---------- ROLLBACK AND CHAIN begins one of the same kind

$v->do($_) for 'BEGIN ISOLATION LEVEL REPEATABLE READ DEFERRABLE', $change;
conflict();
passes('AND CHAIN', 'ROLLBACK AND CHAIN');
is($v->query('SHOW transaction_isolation') . $v->query('SHOW transaction_deferrable'), 'repeatable readon', 'AND CHAIN keeps the isolation level');
$v->do('ROLLBACK');

# ---------- running: PL/pgSQL catches what it likes, the outer row is held

$v->do($_) for 'BEGIN', $change, 'SAVEPOINT a';
$v->send('DO $$ BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN OTHERS THEN NULL; END $$');
conflict();
$v->finish;
LockstepCluster::is_error($v->error, '40001', qr/./, 'a running statement fails');
passes('a running statement', 'ROLLBACK TO a', 'RELEASE a');
fails('a running statement', 'COMMIT');

# ---------- a cancel at any moment: clients that do nothing but set and release savepoints

# one by one, and many in one string, which takes milliseconds
my $commands = 'SAVEPOINT a; ROLLBACK TO a; SAVEPOINT "b;"; RELEASE "b;"; RELEASE a; ' x 20;
my ($one_by_one, $together) = ($commands =~ s/; (?=[SR]|$)/;\n/gr, ($commands x 10) =~ s/; (?=[SR])/\\; /gr);
my ($script, $string) = map { $c->file("savepoints$_->[0].sql", "BEGIN;\nUPDATE t SET v = v + 1 WHERE id = 3;\n$_->[1]\nSELECT 1;\nROLLBACK;\n") }
	[ 1, $one_by_one ], [ 2, "$together\n" x 3 ];
my @runs = map { $c->pgbench_start(2, '-n', '-f', $_->[0], '-c', 2, '-T', 4, '-M', $_->[1], '--max-tries=1') } [ $script, 'simple' ], [ $script, 'extended' ], [ $string, 'simple' ];
my $hits = 0;
my $end = time + 4;
while (time < $end)
{
	$c->sql(1, 'UPDATE t SET v = v + 1 WHERE id = 3');
	$hits++;
}
for (@runs)
{
	$_->{handle}->finish;
	my $said = ${ $_->{text} };
	unlike($said, qr/aborted/, 'every conflict is one for pgbench') or diag($said);
}
note("$hits conflicts");
my @failed = $c->node_log(2) =~ /pgbench ERROR:  [^\n]*in the way of another one\n(?:[^\n]*(?:DETAIL|HINT|CONTEXT):[^\n]*\n|\t[^\n]*\n)*[^\n]*STATEMENT:  ([^\n]*)/g;
my $shown = join ', ', @failed;
cmp_ok(scalar(@failed), '>', 0, 'there were conflicts');
unlike($shown, qr/SAVEPOINT|ROLLBACK|RELEASE/, 'none at a savepoint') or diag($shown);

# ---------- what was sent is lost with the replicator: 40 kB are sent at once, 20 kB are kept back

my $s = $c->session(1);
$s->do("BEGIN; INSERT INTO big VALUES (1, repeat('x', 40000)); INSERT INTO big VALUES (2, repeat('x', 40000)); SAVEPOINT a; INSERT INTO t VALUES (201, 1)");
$s->do("INSERT INTO big VALUES (3, repeat('x', 40000))");
$c->cluster('stop-replicator');
$s->query('SAVEPOINT b');
is($s->error, '', 'the replicator is gone: SAVEPOINT');
$s->do("INSERT INTO big VALUES (4, repeat('x', 40000))");
$s->query('RELEASE b');
is($s->error, '', 'the replicator is gone: RELEASE');
$s->query('ROLLBACK TO a');
is($s->error, '', 'the replicator is gone: ROLLBACK TO');
$c->cluster('start-replicator');
$s->query('COMMIT');
LockstepCluster::is_error($s->error, '40001', qr/./, 'then COMMIT fails');

# ---------- the socket is full: in a block of PL/pgSQL within another one an error would end the session

my $replicator = $c->replicator_pid;
my $p = $c->session(1);
my $nested = <<'SQL';
DO $$ BEGIN
	FOR i IN 1 .. 1000 LOOP
		INSERT INTO big VALUES (1000 + i, repeat(md5(i::text), 1000));
		BEGIN PERFORM 1; EXCEPTION WHEN division_by_zero THEN NULL; END;
	END LOOP;
EXCEPTION WHEN division_by_zero THEN NULL;
END $$
SQL
$p->do("INSERT INTO t VALUES (301, 1)");	# connects
for (1 .. 3)
{
	$p->do("SET statement_timeout = '2s'");
	kill 'STOP', $replicator;
	$p->query($nested);
	kill 'CONT', $replicator;
	LockstepCluster::is_error($p->error, '57014', qr/./, 'statement_timeout');
	is($p->do('SELECT 1'), 1, 'the session goes on');
	$p->do('SET statement_timeout = 0');
}
kill 'STOP', $replicator;
$p->send($nested);
ok($c->wait_until(sub { $s->query('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $p->pid) eq 'Extension' }), 'it waits for the replicator');
$c->kill_replicator(1);
$p->finish;
isnt($p->error, '', 'the replicator is killed: an error');
is($p->do('SELECT 1'), 1, 'the session goes on');
$c->cluster('start-replicator');
$c->wait_state($_, 'online') for $c->all;
$p->query($nested);
is($p->error, '', 'all of it is sent later');
is($c->sql(2, 'SELECT count(*) FROM big WHERE id > 1000'), 1000, 'and is there');
$c->same('all nodes are equal');
done_testing;
