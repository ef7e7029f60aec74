# A large transaction begins on the other nodes while it still runs on its own:
# before it asks to commit they have executed what is on disk of it.  It gives way there to
# whoever waits for it, to its own savepoints and to DDL, and then it is executed when it is
# reserved; it waits for what it depends on; nothing of it is left when it is rolled back.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.statement_rows = -1\n", replicator_conf => "transaction_memory = 256kB\n");
my $t = 180;
my $rows = 30_000;
my $s = $c->session(1);

# Apply sessions of a node that have changed something and not committed it.
sub early
{
	my ($node) = @_;
	return $c->sql($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND backend_xid IS NOT NULL");
}

# Rows of a table there, committed or not: its size says so.
sub pages { my ($node, $table) = @_; return $c->sql($node, "SELECT pg_relation_size('$table') / 8192") }

sub begin
{
	my ($sql) = @_;
	$s->do('BEGIN', $t);
	$s->do($sql, $t);
	return;
}

sub begun
{
	my ($node, $name) = @_;
	ok($c->wait_until(sub { early($node) == 1 }, 30), $name);
	return;
}

sub gone
{
	my ($node, $name) = @_;
	ok($c->wait_until(sub { early($node) == 0 }, 30), $name);
	return;
}

sub insert
{
	my ($from, $text) = @_;
	return "INSERT INTO b SELECT i, 0, '$text' FROM generate_series($from, " . ($from + $rows - 1) . ') i';
}

$c->sql(1, 'CREATE TABLE b (id int PRIMARY KEY, k int, v text); CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE small (id int PRIMARY KEY, v int); INSERT INTO small SELECT i, 0 FROM generate_series(1, 100) i');
$c->drain;

# ---------- executed before it is asked for

begin(insert(1, 'inserted'));
for my $node (2, 3)
{
	begun($node, "node $node has begun");
	ok($c->wait_until(sub { pages($node, 'b') > 0.6 * pages(1, 'b') }, 60), 'and executes most of it');
}
is($c->sql(2, 'SELECT count(*) FROM b'), 0, 'nobody sees it');
$s->do('COMMIT', $t);
ok($c->wait_sql($_, 'SELECT count(*) FROM b', $rows), "node $_ has it") for 2, 3;
cmp_ok(pages(2, 'b'), '<', 1.5 * pages(1, 'b'), 'and has written it once');

begin("UPDATE b SET k = k + 1, v = v || '!'");
begun(2, 'an UPDATE by row begins early, too');
$s->do('DELETE FROM b WHERE id % 2 = 0; UPDATE small SET v = 1 WHERE id = 1', $t);
$s->do('COMMIT', $t);
$c->same('changes of every kind');
is($c->sql(3, 'SELECT sum(k), min(v), count(*) FROM b'), $rows / 2 . '|inserted!|' . $rows / 2, 'are right');

# ---------- rolled back

begin(insert(100_001, 'rolled back'));
begun($_, "begun on node $_") for 2, 3;
$s->do('ROLLBACK');
gone($_, "and taken back on node $_") for 2, 3;

begin('UPDATE small SET v = 2 WHERE id = 1');
$s->do('SAVEPOINT a', $t);
$s->do(insert(100_001, 'savepoint'), $t);
begun(2, 'begun in a savepoint');
$s->do('ROLLBACK TO a', $t);
$s->do(insert(100_001, 'kept'), $t);
$s->do('SAVEPOINT b', $t);
$s->do('INSERT INTO b VALUES (-1, 0, \'\')', $t);
$s->do('ROLLBACK TO b', $t);
$s->do('COMMIT', $t);
$c->same('a savepoint that was rolled back');
is($c->sql(2, "SELECT count(*) FROM b WHERE v = 'kept'"), $rows, 'and what came after it');

$s->do('BEGIN; SAVEPOINT a', $t);
$s->do(insert(200_001, 'first'), $t);
begun(2, 'begun');
$s->do('SAVEPOINT b', $t);
$s->do('UPDATE small SET v = v + 1 WHERE id < 20', $t);
$s->do('ROLLBACK TO b', $t);
$s->do("UPDATE small SET v = v + 10 WHERE id < 20", $t);
$s->do('COMMIT', $t);
$c->same('a savepoint of what has not been executed yet');

# ---------- in the way

begin(insert(300_001, 'in the way'));
begun(2, 'begun');
my $other = $c->session(2);
$other->send('INSERT INTO b VALUES (300001, 9, \'of node 2\')');
$other->finish(60);
is($other->error, '', 'who waits for a row of it on another node goes on');
$s->query('COMMIT', $t);
like($s->error, qr/40001/, 'and has come first');
gone(3, 'nothing is left');
$c->same('after that');

# A writer of a third node, which is applied on the second.
begin('UPDATE b SET k = 5 WHERE id > 100000 AND id < 300000');
begun(2, 'begun');
$c->sql(3, 'UPDATE b SET k = 6 WHERE id = 100001', timeout => 60);
$s->query('COMMIT', $t);
like($s->error, qr/40001/, 'another node was first');
$c->same('after that, too');

begin('UPDATE b SET k = 7 WHERE id > 100000 AND id < 300000');
begun(2, 'begun');
$c->sql(2, 'ALTER TABLE other ADD COLUMN v int', timeout => 60);
$c->sql(2, 'INSERT INTO other VALUES (1, 1)', timeout => 60);
$s->do('INSERT INTO other VALUES (2, 2)', $t);
$s->do(insert(400_001, 'after DDL'), $t);
$s->do('COMMIT', $t);
$c->same('DDL elsewhere meanwhile');

begin(insert(500_001, 'before DDL'));
begun(2, 'begun');
my $ddl = $c->session(2);
$ddl->send('ALTER TABLE b ADD COLUMN w int DEFAULT 5');
$ddl->finish(60);
is($ddl->error, '', 'DDL on its table waits for nobody');
$s->query('COMMIT', $t);
like($s->error, qr/40001/, 'it has lost');
$c->same('DDL');

# ---------- what it depends on

# committed on its own node after it began early: the peers must have it first
begin(insert(600_001, 'depends'));
begun($_, 'begun') for 2, 3;
kill 'STOP', $c->apply_pids(3);
my $quick = $c->session(1);
$quick->send("UPDATE small SET v = 100 WHERE id > 50");
kill 'CONT', $c->apply_pids(3);
$quick->finish($t);
is($quick->error, '', 'another transaction of its node commits');
$s->do("UPDATE small SET v = v + 1 WHERE id > 50", $t);
$s->do("UPDATE b SET k = 1 WHERE id > 600000", $t);
$s->do('COMMIT', $t);
$c->same('what it depends on');
is($c->sql(3, 'SELECT min(v) FROM small WHERE id > 50'), 101, 'is there first');

# a statement that reads whole tables, in between
begin(insert(700_001, 'mixed'));
begun(2, 'begun');
$s->do('SET LOCAL lockstep.statement_rows = 0; UPDATE small SET v = -v', $t);
$s->do(insert(800_001, 'mixed'), $t);
$s->do('COMMIT', $t);
$c->same('with a statement in it');

# ---------- nothing is left to do when it is reserved

# A node has asked for a row that it can't see yet: the transaction has to wait for that, long
# enough for the others to execute all of it.  The last row is one that goes to disk at once.
sub waits { return grep { $_->{pid} == $s->pid && $_->{state} eq 'waiting' } @{ JSON::PP::decode_json(scalar $c->ctl('sessions', '--json'))->{sessions} } }
sub written { my ($node) = @_; return $c->sql($node, "SELECT pg_relation_size(reltoastrelid) > 1 FROM pg_class WHERE relname = 'wide'") }
$c->sql(1, 'CREATE TABLE wide (id int PRIMARY KEY, v text); ALTER TABLE wide ALTER v SET STORAGE external');
$c->drain;
begin(insert(850_001, 'waits'));
$s->do("INSERT INTO wide VALUES (1, repeat('x', 300000))", $t);
begun($_, 'begun') for 2, 3;
ok($c->wait_until(sub { written(2) eq 't' && written(3) eq 't' }, 30), 'its last row has been executed');
my $first = $c->session(2);
$first->do('SET lockstep.update_order = queued');
$first->do('BEGIN');
is($first->query("UPDATE wide SET v = '' WHERE id = 1 RETURNING id"), '', 'somebody asks first for a row that it does not see');
$s->send('COMMIT');
ok($c->wait_until(sub { waits() == 1 }, 30), 'it waits');
is(early($_), 1, "node $_ has executed it, and keeps it") for 2, 3;
$first->query('ROLLBACK');
$s->finish($t);
is($s->error, '', 'and it is committed when it need not wait any more');
$c->same('after waiting');

# ---------- nodes that go and come

begin(insert(900_001, 'node'));
begun(3, 'begun');
$c->cluster('kill-node', 3);
$c->wait_state(3, 'dropped');
$s->do('UPDATE small SET v = 0', $t);
$s->do('COMMIT', $t);
begin(insert(1_000_001, 'node'));
$c->cluster('start-node', 3);
$c->wait_state(3, 'online');
$s->do('COMMIT', $t);
$c->same('a node that went and came');

begin(insert(1_100_001, 'killed'));
begun(2, 'begun');
$s->kill;
$c->sql(1, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO b%' AND pid <> pg_backend_pid()");
gone($_, "a backend that goes leaves nothing on node $_") for 2, 3;
$c->same('at the end');
done_testing;
