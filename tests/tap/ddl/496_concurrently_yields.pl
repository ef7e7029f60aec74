# A step of CREATE or DROP INDEX CONCURRENTLY that asked to commit, and that other nodes execute, perhaps for hours, is
# withdrawn when DDL of another node waits for its table: the DDL goes through while the build would still last, from
# whatever node; the command gets 40001, an invalid index stays on every node, nobody's writes wait, and the command can
# be repeated.  DDL on other tables does not disturb it.
#
# A build is held up by a row whose key takes an advisory lock.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, w text);
CREATE TABLE other (id int PRIMARY KEY);
INSERT INTO t SELECT g, 'w' || g FROM generate_series(1, 300) g;
SQL
$c->create_gate(496);
$c->drain;

my $keeper = $c->session(2);
sub waits_at_gate { return $c->sql(2, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") > 0 }

sub begin_build
{
	my ($name) = @_;
	$keeper->do('SELECT pg_advisory_lock(496)');
	my $s = $c->session(1);
	$s->send("CREATE INDEX CONCURRENTLY $name ON t (gate(id), w)");
	ok($c->wait_until(\&waits_at_gate, 60), "$name: n2 executes a step");
	return $s;
}

my $n = 1000;

sub all_write
{
	my ($test) = @_;
	$n++;
	$c->sql($_, "SET statement_timeout = '60s'; INSERT INTO t (id, w) VALUES ($n * 10 + $_, 'new'); UPDATE t SET w = w || 'x' WHERE id = 10 + $_") for $c->all;
	pass($test);
}

# ---------- on other tables

my $s = begin_build('undisturbed');
$c->sql(3, "SET statement_timeout = '60s'; ALTER TABLE other ADD COLUMN v int; CREATE TABLE more (id int PRIMARY KEY)");
ok(waits_at_gate(), 'DDL on another table leaves it alone');
$keeper->do('SELECT pg_advisory_unlock(496)');
$s->finish(60);
is($s->error, '', 'and it is created');
$c->drain;
is_deeply($c->index_states('undisturbed'), [ ('true true') x 3 ], 'on all nodes');
$c->sql(1, 'DROP INDEX undisturbed');

# ---------- on its table, from each other node

my %ddl = (2 => 'ALTER TABLE t ADD COLUMN a int', 3 => 'CREATE INDEX plain ON t (w)');
for my $node (2, 3)
{
	$s = begin_build("late$node");
	$c->sql($node, "SET statement_timeout = '60s'; $ddl{$node}");
	pass("n$node: DDL on the table goes through, with the gate still closed");
	$s->finish(60);
	LockstepCluster::is_error($s->error, '40001', qr/could not go on with an index.*\n.*A command of node "n$node" \(pid \d+\) waits for public\.t.*\n.*invalid index/, 'the command yields');
	all_write('and all nodes write');
	ok($c->wait_until(sub { !waits_at_gate() }), 'nobody builds any more');
	$keeper->do('SELECT pg_advisory_unlock(496)');
	$c->drain;
	is_deeply($c->index_states("late$node"), [ ('false false') x 3 ], 'an invalid index is left everywhere');
}
is($c->sql(1, 'SELECT winner_node, reason, "table", sqlstate FROM lockstep.conflicts LIMIT 1'), 'n3|in the way|public.t|40001', 'it is among the conflicts');
$c->sql(3, 'DROP INDEX late2; DROP INDEX late3');

# ---------- an index that is dropped

my $reader = $c->session(3);
$c->sql(1, 'CREATE INDEX going ON t (w, id)');
$c->drain;
$reader->do('BEGIN; SELECT count(*) FROM t');
$s = $c->session(1);
$s->send('DROP INDEX CONCURRENTLY going');
ok($c->wait_sql(3, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%apply_index%' AND state = 'active' AND pid <> pg_backend_pid()", 1, 60), 'a step waits for a reader on n3');
my $alter = $c->session(2);
$alter->send('BEGIN; ALTER TABLE t ADD COLUMN b int');
$s->finish(60);
LockstepCluster::is_error($s->error, '40001', qr/A command of node "n2"/, 'DDL has it yield');
$alter->finish(60);
is($alter->error, '', 'which goes on');
$reader->do('COMMIT');
$alter->do('COMMIT');
$c->drain;
is_deeply([ map { s/^\w+ //r } @{ $c->index_states('going') } ], [ ('false') x 3 ], 'the index is invalid everywhere');

# ---------- a step waits for a transaction on n2, which waits for DDL of n1, which waits for the index there

$c->sql(1, 'DROP INDEX CONCURRENTLY going; CREATE INDEX going ON t (w, id)');
$c->drain;
my $circle = $c->session(2);
$circle->do('BEGIN; SELECT count(*) FROM t');
$s = $c->session(1);
$s->send('DROP INDEX CONCURRENTLY going');
my $waits = sub { my ($name, $like) = @_; ok($c->wait_until(sub { my $text = $c->ctl('waits'); $text =~ $like }, 20), $name) or diag(scalar $c->ctl('waits')) };
$waits->('the wait for it is shown', qr/^n1\s.*in PostgreSQL for a lock, behind\s+n2\s.*virtualxid/m);
$alter = $c->session(1);
$alter->do('BEGIN; CREATE TABLE first_of_all (id int)');
$alter->send('ALTER TABLE t RENAME b TO c; COMMIT');
$waits->('as are others', qr/^n1\s.*in PostgreSQL for a lock, behind\s+n1\s.*virtualxid/m);
$circle->send('ALTER TABLE other ADD COLUMN c int; COMMIT');
$_->finish(20) for $circle, $s, $alter;
is((join ' ', map { my ($code) = $_->error =~ /(40P01|40001)/; $code // 'ok' } $circle, $s, $alter) =~ tr/4/4/, 1, 'one of the three fails') or diag(map { $_->error } $circle, $s, $alter);
$_->do('ROLLBACK') for grep { $_->error ne '' } $circle, $alter;
$c->drain;
$c->sql(1, 'CREATE INDEX IF NOT EXISTS going ON t (w, id)');

# ---------- once more

$c->sql(1, 'DROP INDEX CONCURRENTLY going; CREATE UNIQUE INDEX CONCURRENTLY again ON t (gate(id), w)');
$c->drain;
is_deeply($c->index_states('again'), [ ('true true') x 3 ], 'repeated, it is created');
is($c->sql(1, "SELECT to_regclass('going') IS NULL"), 't', 'and dropped');
$c->same('the nodes are equal');
done_testing();
