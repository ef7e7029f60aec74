# Who lost to whom: each kind of 40001 and 40P01 names the node, the transaction, the table and
# the key that won, in DETAIL, with a HINT; the same is in lockstep.conflicts on every node,
# counted by table, shown by lockstepctl, and logged as replicator.conf says.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.queue_after = 0\n", replicator_conf => "log_conflicts = notice\njournal_segment_size = 64kB\njournal_keep = 0\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT i, 'secret' FROM generate_series(1, 50) i;
CREATE TABLE "odd ""name" (id int PRIMARY KEY, v int);
INSERT INTO "odd ""name" VALUES (1, 0);
CREATE TABLE pair (a int, b text, v int, PRIMARY KEY (a, b));
INSERT INTO pair VALUES (1, 'x', 0), (2, 'y', 0);
CREATE TABLE keyless (a int, b text);
INSERT INTO keyless VALUES (1, 'one');
CREATE TABLE altered (id int PRIMARY KEY);
CREATE TABLE scanned (id int PRIMARY KEY, v int);
INSERT INTO scanned VALUES (1, 0), (2, 0);
SQL
$c->drain;
my ($a, $b) = ($c->session(1), $c->session(2));

# One that stays open, of which nobody has heard, while the journal goes on, and is trimmed.
my $old = $c->session(2);
$old->do('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(v) FROM scanned');
my $long_ago = $c->sql(1, 'SELECT lockstep.applied_seq()');
$c->sql(1, "CREATE TABLE filler (v text); INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 80); INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 80)");
my $seen = 0;

# b's error, and the conflict that it is in the view on every node.
sub told
{
	my ($name, %o) = @_;
	my $code = $o{code} // '40001';
	LockstepCluster::is_error($b->error, $code, qr/DETAIL:.*$o{detail}/s, "$name: $code, its detail");
	like($b->error, qr/HINT:\s+\S/, "$name: a hint");
	$b->query('ROLLBACK');
	my $where = "reason = '$o{reason}' AND sqlstate = '$code' AND node = 'n2' AND pid = " . $b->pid .
		($o{winner} // 1 ? " AND winner_node = 'n1' AND winner_pid = " . $a->pid : '') .
		" AND coalesce(\"table\", '') = '$o{table}' AND coalesce(key, '') LIKE '$o{key}' AND database = 'app' AND \"time\" > now() - interval '5 min'";
	# what a node found by itself is reported behind its error
	ok($c->wait_sql($_, "SELECT count(*) > 0 FROM (SELECT * FROM lockstep.conflicts LIMIT 2) l WHERE $where", "t", 10), "$name: in the view on n$_")
		or diag($c->sql($_, 'SELECT * FROM lockstep.conflicts LIMIT 2')) for $c->all;
}

# ---------- lost by a key: a is being executed (n3 stands still), or decided (ordered; n2 has not applied it)

sub by_key
{
	my ($name, $first, $second, %o) = @_;
	my $decided = $o{reason} ne 'reserved' && !$o{undecided};
	$a->do('SET lockstep.commit_wait = ' . ($decided ? 'ordered' : 'executed'));
	$c->frozen([ 2, 3 ], sub {
		$a->do('BEGIN');
		$b->do('BEGIN ISOLATION LEVEL ' . ($o{level} // 'READ COMMITTED'));
		$a->do($first);
		$b->do($second);
		$decided ? $a->do('COMMIT') : $a->send('COMMIT');
		ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }), "$name: the first waits") unless $decided;
		$b->query('COMMIT', 20);
	});
	$a->finish unless $decided;
	is($a->error, '', "$name: the first wins");
	told($name, detail => qr/node "n1" \(pid \d+/, %o);
}

my $seq = qr/node "n1" \(pid \d+, seq \d+\)/;
by_key('reserved', q{UPDATE t SET v = 'a' WHERE id = 1}, q{UPDATE t SET v = 'b' WHERE id = 1},
	reason => 'reserved', table => 'public.t', key => 't_pkey', detail => qr/public\.t t_pkey.*SET v = 'b' WHERE id = '1'".*node "n1" \(pid/s);
by_key('decided', q{UPDATE t SET v = 'a' WHERE id = 2}, q{UPDATE t SET v = 'b' WHERE id = 2},
	reason => 'changed', table => 'public.t', key => 't_pkey', detail => qr/WHERE id = '2'".*$seq/s);
by_key('a table of an odd name', 'UPDATE "odd ""name" SET v = 1', 'UPDATE "odd ""name" SET v = 2',
	reason => 'changed', table => 'public."odd ""name"', key => '%pkey%', detail => qr/odd ""name.*$seq/s);
by_key('two columns', q{DELETE FROM pair WHERE a = 2}, q{UPDATE pair SET v = 7 WHERE a = 2},
	reason => 'changed', table => 'public.pair', key => 'pair_pkey', detail => qr/SET v = '7' WHERE a = '2' AND b = 'y'".*$seq/s);
by_key('the row of a run', q{INSERT INTO t VALUES (102, 'a')}, q{INSERT INTO t VALUES (101, 'b'), (102, 'c'), (103, 'd')},
	reason => 'changed', table => 'public.t', key => 't_pkey', detail => qr/COPY public\.t.*102 +c".*$seq/s);
by_key('without a key', q{DELETE FROM keyless}, q{UPDATE keyless SET b = 'two'},
	reason => 'changed', table => 'public.keyless', key => '%', detail => qr/the row is \('1', 'one'\)".*$seq/s);
by_key('a row that was locked', q{UPDATE t SET v = 'a' WHERE id = 3}, q{SELECT 1 FROM t WHERE id = 3 FOR UPDATE; UPDATE t SET v = 'b' WHERE id = 4},
	reason => 'changed', table => 'public.t', key => 't_pkey', detail => qr/t_pkey, which this transaction has locked.*$seq/s);
by_key('a row that was read', q{UPDATE scanned SET v = 1 WHERE id = 1}, q{SELECT v FROM scanned WHERE id = 1; UPDATE t SET v = 'b' WHERE id = 5},
	level => 'SERIALIZABLE', reason => 'read', table => 'public.scanned', key => 'scanned_pkey', detail => qr/scanned_pkey, which this transaction has read.*$seq/s);
by_key('a table that was read', q{UPDATE scanned SET v = 2 WHERE id = 1}, q{SELECT sum(v) FROM scanned; UPDATE t SET v = 'b' WHERE id = 6},
	level => 'SERIALIZABLE', reason => 'read', table => 'public.scanned', key => 'whole table', detail => qr/public\.scanned, which this transaction has read.*$seq/s);
$a->do('RESET lockstep.commit_wait');

# ---------- in the way of what a has asked for

sub in_the_way
{
	my ($name, $second, $first, %o) = @_;
	$b->do('BEGIN');
	$b->do($second);
	if ($o{running})
	{
		$b->send('SELECT pg_sleep(60)');
		ok($b->blocked(0.3), "$name: it runs");
	}
	$a->do($first);
	# what is decided first is applied there when n2 gets to it
	$o{running} ? $b->finish : $c->wait_until(sub { $b->query('SELECT 1'); return $b->error ne '' });
	told($name, reason => 'in the way', %o);
}
in_the_way('idle', q{UPDATE t SET v = 'b' WHERE id = 10}, q{UPDATE t SET v = 'not to be seen' WHERE id = 10},
	table => 'public.t', key => 't_pkey', detail => qr/query "UPDATE ONLY public\.t SET v = \$1 WHERE id = '10'" on key public\.t t_pkey of node "n1" \(pid/);
unlike($c->sql(1, 'SELECT string_agg(detail, E\'\n\') FROM lockstep.conflicts'), qr/not to be seen/, 'idle: what the other has written is nobody else\'s business');
in_the_way('running', q{UPDATE t SET v = 'b' WHERE id = 11}, q{DELETE FROM t WHERE id = 11}, running => 1,
	table => 'public.t', key => 't_pkey', detail => qr/query "DELETE FROM ONLY public\.t WHERE id = '11'"/);
in_the_way('of DDL', q{INSERT INTO altered VALUES (1)}, q{ALTER TABLE altered ADD v int},
	table => 'public.altered', key => 'whole table', detail => qr/query "ALTER TABLE altered ADD v int" on key public\.altered of node "n1"/);
in_the_way('of TRUNCATE', q{INSERT INTO keyless VALUES (5)}, q{TRUNCATE keyless},
	table => 'public.keyless', key => 'whole table', detail => qr/TRUNCATE keyless/);

# ---------- PostgreSQL's own: the row has been changed since the snapshot

sub changed_since
{
	my ($name, $level, $first, $second, %o) = @_;
	$b->do("BEGIN ISOLATION LEVEL $level");
	$b->do('SELECT 1 FROM pair');
	$a->do($first);
	$c->drain;
	$b->query($second);
	told($name, reason => 'concurrent update', detail => qr/Row \(id\)=\($o{id}\) of table public\.t was changed by a transaction of $seq/,
		table => 'public.t', key => "t_pkey (id)=($o{id})", %o);
}
changed_since('UPDATE', 'REPEATABLE READ', q{UPDATE t SET v = 'a' WHERE id = 20}, q{UPDATE t SET v = 'b' WHERE id = 20}, id => 20);
changed_since('UPDATE of what is deleted', 'REPEATABLE READ', q{DELETE FROM t WHERE id = 21}, q{UPDATE t SET v = 'b' WHERE id = 21}, id => 21);
changed_since('DELETE', 'REPEATABLE READ', q{UPDATE t SET v = 'a' WHERE id = 22}, q{DELETE FROM t WHERE id = 22}, id => 22);
changed_since('FOR UPDATE', 'REPEATABLE READ', q{UPDATE t SET v = 'a' WHERE id = 23}, q{SELECT FROM t WHERE id = 23 FOR UPDATE}, id => 23);
changed_since('SERIALIZABLE', 'SERIALIZABLE', q{UPDATE t SET v = 'a' WHERE id = 24}, q{UPDATE t SET v = 'b' WHERE id = 24}, id => 24);
# in a savepoint, and caught: not told, and not reported later
my $before = $c->sql(1, 'SELECT count(*) FROM lockstep.conflicts');
$b->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t');
$a->do(q{UPDATE t SET v = 'a' WHERE id = 25});
$c->drain;
$b->do(q{DO $$ BEGIN UPDATE t SET v = 'b' WHERE id = 25; EXCEPTION WHEN serialization_failure THEN END $$});
$b->do('COMMIT');
is($c->sql(1, 'SELECT count(*) FROM lockstep.conflicts'), $before, 'an error that is caught is no conflict that was lost');
# the replicator does not say in time who it was; its late answer isn't taken for that to the session's next question
my ($late, $replicator) = ($c->session(2), $c->replicator_pid);
$late->do(q{UPDATE t SET v = 'connects' WHERE id = 30});
$c->drain;
$late->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM t');
$a->do(q{UPDATE t SET v = 'a' WHERE id = 26});
$c->drain;
kill 'STOP', $replicator;
$late->query(q{UPDATE t SET v = 'b' WHERE id = 26});
LockstepCluster::is_error($late->error, '40001', qr/was changed by a transaction of the cluster \(seq \d+\)/, 'the winner is not known in time');
$late->query('ROLLBACK');
$late->send('SELECT count(*) > 0 FROM lockstep.conflicts');
ok($late->blocked(0.3), 'the next question waits');
kill 'CONT', $replicator;
is($late->finish, 't', 'and gets its own answer');
is($late->error, '', 'not the late one');
# a user who may not see the key is not told it
$c->sql(1, q{CREATE ROLE blind LOGIN; GRANT SELECT (v), UPDATE (v) ON t TO blind});
$c->drain;
$b->do('SET ROLE blind; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM t LIMIT 1');
$a->do(q{UPDATE t SET v = 'a'});
$c->drain;
$b->query(q{UPDATE t SET v = 'b'});
LockstepCluster::is_error($b->error, '40001', qr/A row of table public\.t was changed by a transaction of $seq/, 'no key for who may not read it');
$b->do('ROLLBACK; RESET ROLE');

# ---------- waiting for rows

$_->do('SET lockstep.update_order = queued; SET lockstep.queue_timeout = 0') for $a, $b;
$b->do(q{BEGIN; UPDATE t SET v = 'b' WHERE id = 31});
$a->do(q{BEGIN; UPDATE t SET v = 'a' WHERE id = 30});
$a->send(q{UPDATE t SET v = 'a' WHERE id = 31});
ok($c->wait_for_waiter($a), 'a circle: half of it waits');
$b->query(q{UPDATE t SET v = 'b' WHERE id = 30});
told('a circle', code => '40P01', reason => 'deadlock', table => 'public.t', key => 't_pkey',
	detail => qr/This transaction waits for public\.t t_pkey behind a transaction of node "n1" \(pid \d+\), which waits for public\.t t_pkey behind a transaction of node "n2" \(pid \d+\)\.|waits for public\.t t_pkey behind a transaction of node "n1" \(pid \d+\), which waits for this one\./);
$a->finish;
$a->do('COMMIT');
$a->do(q{BEGIN; UPDATE t SET v = 'a' WHERE id = 32});
$b->do(q{SET lockstep.queue_timeout = '200ms'; BEGIN});
$b->query(q{UPDATE t SET v = 'b' WHERE id = 32});
told('too long a wait', code => '40P01', reason => 'queue timeout', winner => 0, table => 'public.t', key => 't_pkey', detail => qr/t_pkey.*200 ms/);
$a->do('COMMIT');

# ---------- while the outcome of another transaction of its node is not known

$_->do('RESET lockstep.update_order; RESET lockstep.queue_timeout') for $a, $b;
my ($unsure, @apply) = ($c->session(2), $c->apply_pids(2));
$unsure->do('SET lockstep.commit_wait = ordered');
$a->do('SET lockstep.commit_wait = ordered');
kill 'STOP', @apply;		# n2's turn stands
my $decided = $c->status->{journal}{last};
$a->do(q{UPDATE t SET v = 'a' WHERE id = 40});
$unsure->do(q{BEGIN; UPDATE t SET v = 'unsure' WHERE id = 41});
$unsure->send('COMMIT');
ok($c->wait_until(sub { $c->status->{journal}{last} >= $decided + 2 }), 'doubt: it is decided');
$b->do(q{BEGIN; UPDATE t SET v = 'b' WHERE id = 42});
kill 'INT', $unsure->pid;
$unsure->finish(20);
LockstepCluster::is_error($unsure->error, '08007', qr/committed by the cluster/, 'doubt: its own session can not commit it');
$b->send('COMMIT');
ok($b->blocked(0.3), 'doubt: who wrote meanwhile waits until it is settled');
kill 'CONT', @apply;
$b->finish(20);
told('doubt', reason => 'doubt', winner => 0, table => '', key => '%', detail => qr/./);
$a->do('RESET lockstep.commit_wait');

# ---------- all of them

my $rows = $c->sql(3, 'SELECT count(*) FROM lockstep.conflicts');
is($c->sql(2, 'SELECT sum(conflicts) FROM lockstep.conflict_counts'), $rows, 'each is counted');
is($c->sql(2, q{SELECT conflicts FROM lockstep.conflict_counts WHERE "table" = 'public.altered' AND reason = 'in the way' AND last > now() - interval '5 min'}), 1, 'by table and reason');
is($c->sql(1, 'SELECT bool_and("time" >= next) FROM (SELECT "time", lead("time") OVER () AS next FROM lockstep.conflicts) l'), 't', 'the latest first');
is($c->sql(1, q{SELECT count(*) FROM lockstep.conflicts WHERE update_order = 'queued' AND sqlstate = '40P01'}), 2, 'who had asked first is told');

my $json = JSON::PP->new->decode($c->ctl('--json', 'conflicts'));
is(scalar @{ $json->{conflicts} }, $rows, 'lockstepctl conflicts: all of them');
is($json->{conflicts}[0]{reason}, 'doubt', 'lockstepctl conflicts: as in the view');
like($c->ctl('conflicts'), qr/^app +n2 +\d+ +n1 +\d+ +\d+ +changed +public\.pair +pair_pkey$/m, 'lockstepctl conflicts: a line for each');
like($c->ctl('conflicts'), qr/^app +1 +in the way +public\.altered$/m, 'lockstepctl conflicts: and by table');

$c->sql(1, 'CREATE ROLE curious LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher');
$c->drain;
$b->do('SET ROLE curious');
$b->query('SELECT count(*) FROM lockstep.conflicts');
LockstepCluster::is_error($b->error, '42501', qr/permission denied/, 'it shows values of others: not for everybody');
$b->do('SET ROLE watcher');
is($b->query('SELECT count(*) FROM lockstep.conflicts'), $rows, 'who monitors may see it');
$b->do('RESET ROLE');

# ---------- the log

my $log = $c->replicator_log;
my @lines = $log =~ /conflict in database "app": /g;
is(scalar @lines, $rows, 'log_conflicts = notice: a line for each');
like($log, qr{\[n2/\d+\] conflict in database "app": changed\n.*DETAIL:.*node "n1"}, 'with who lost, and its detail');
$c->same('all nodes are equal');

# ---------- so long ago that the replicator, started again, does not know any more

ok($c->wait_until(sub { $c->status->{journal}{first} > $long_ago }, 60), 'forgotten: the journal begins later by now');
$b = $old;
$c->cluster('restart-replicator');
$b->query(q{INSERT INTO filler VALUES ('b')});
$b->query('COMMIT') if $b->error eq '';
told('forgotten', reason => 'forgotten', winner => 0, table => 'database app', key => 'whole table', detail => qr/which this transaction has read, was read longer ago than the replicator remembers/);
$c->same('all nodes are equal, then, too');
$c->down;
done_testing;
