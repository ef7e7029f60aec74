# A bulk load that makes, empties or alters its tables in the same transaction begins on the other
# nodes while it still runs on its own, from early_size on: nobody there sees it, waits for it or is failed by
# it; DDL of others, savepoints and readers of its tables end it there, and then it is executed when it is
# reserved; what was prepared before it means what it should afterwards.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.statement_rows = -1\n", replicator_conf => "early_size = 200kB\n");
my $t = 180;
my $rows = 20_000;
my ($s, $other) = map { $c->session(1) } 1, 2;

# Apply sessions of a node that have changed something and not committed it.
sub early
{
	my ($node) = @_;
	return $c->sql($node, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND backend_xid IS NOT NULL");
}

sub is_early
{
	my ($n, $node, $name) = @_;
	ok($c->wait_until(sub { early($node) == $n }, 60), $name) or diag(early($node));
}

sub size { my ($node) = @_; return $c->sql($node, 'SELECT pg_database_size(current_database())') }
sub load { my ($table, $from) = @_; $from //= 1; return "INSERT INTO $table SELECT i, 'value ' || i FROM generate_series($from, " . ($from + $rows - 1) . ') i' }

$c->sql(1, "CREATE TABLE old (id int PRIMARY KEY, v text); INSERT INTO old SELECT i, 'old' FROM generate_series(1, 100) i; CREATE TABLE elsewhere (id int PRIMARY KEY)");
$c->drain;

# ---------- a table that it makes

my %before = map { $_ => size($_) } 1, 2;
$s->do('BEGIN; CREATE TYPE kind AS ENUM (\'a\', \'b\'); CREATE TABLE made (id int, v text, k kind DEFAULT \'b\')', $t);
$s->do(load('made'), $t);
is_early(1, $_, "node $_ has begun") for 2, 3;
ok($c->wait_until(sub { size(2) - $before{2} > 0.6 * (size(1) - $before{1}) }, 60), 'and executes most of it');
is($c->sql(2, "SELECT to_regclass('made')"), '', 'nobody sees it');
$s->do('ALTER TABLE made ADD PRIMARY KEY (id); CREATE INDEX ON made (v); ALTER TABLE made ADD COLUMN n int DEFAULT 7; UPDATE made SET n = 8 WHERE id % 2 = 0', $t);
$s->do('COMMIT', $t);
$c->drain;
is($c->sql(3, 'SELECT count(*), sum(n) FROM made'), "$rows|" . $rows * 7.5, 'committed');
$c->same('a table that is made and filled');
$c->sql($_, "UPDATE made SET v = 'by node $_' WHERE id = $_; DELETE FROM made WHERE id = 10 + $_") for 1 .. 3;
$c->same('and changed by all');

# ---------- one that it empties

$s->do('BEGIN; TRUNCATE old', $t);
$s->do(load('old'), $t);
is_early(1, $_, "emptied and filled early on node $_") for 2, 3;
is($c->sql(2, 'SELECT count(*) FROM old', timeout => 30), 100, 'a reader there has what was in it, and does not wait');
is_early(0, 2, 'which has ended it');
is_early(1, 3, 'on that node only');
$s->do('COMMIT', $t);
$c->drain;
is($c->sql($_, 'SELECT count(*) FROM old'), $rows, "node $_ has the new rows") for 2, 3;
$c->same('a table that is emptied and filled');

# ---------- rows first, DDL later: statements that were prepared are not used for what the table has become

$s->do('BEGIN', $t);
$s->do(load('old', 100_001), $t);
is_early(1, 2, 'begun with rows');
$s->do('UPDATE old SET v = v || \'!\' WHERE id > 100000 AND id % 2 = 0; ALTER TABLE old ALTER COLUMN v TYPE varchar(30), ADD COLUMN w text; UPDATE old SET w = v WHERE id > 100000; INSERT INTO old VALUES (0, \'zero\', \'w\'); DELETE FROM old WHERE id = 0', $t);
$s->do(load('old (id, w)', 200_001), $t);
$s->do('COMMIT', $t);
$c->same('DDL in the middle');
$c->sql($_, "INSERT INTO old VALUES (-$_, 'v', 'w'); UPDATE old SET v = 'x' WHERE id = -$_; UPDATE old SET w = 'x' WHERE id = 100000 + $_") for 1 .. 3;
$c->same('and after it');

# ---------- rolled back

$s->do('BEGIN; SAVEPOINT a; CREATE TABLE never (id int PRIMARY KEY, v text)', $t);
$s->do(load('never'), $t);
is_early(1, 2, 'begun in a savepoint');
$s->do('ROLLBACK TO a; ALTER TABLE old DROP COLUMN w; ' . load('old', 300_001), $t);
$s->do('COMMIT', $t);
$c->same('a savepoint with DDL in it');
$s->do('BEGIN; CREATE TABLE never (id int PRIMARY KEY, v text); DROP TABLE elsewhere', $t);
$s->do(load('never'), $t);
is_early(1, $_, 'begun') for 2, 3;
$s->do('ROLLBACK', $t);
is_early(0, $_, 'and taken back') for 2, 3;
$c->sql(2, 'INSERT INTO elsewhere VALUES (1)');
$c->same('nothing is left');

# ---------- others

# two at once, as pg_restore -j has them
$s->do("CREATE TABLE j$_ (id int PRIMARY KEY, v text)", $t) for 1, 2;
$s->do('BEGIN; TRUNCATE j1', $t);
$other->do('BEGIN; TRUNCATE j2', $t);
$_->[0]->do(load($_->[1]), $t) for [ $s, 'j1' ], [ $other, 'j2' ];
is_early(2, 2, 'two transactions of a node that empty their tables');
$s->do('CREATE INDEX ON j1 (v)', $t);
$_->do('COMMIT', $t) for $other, $s;
$c->drain;
is($c->sql(3, 'SELECT (SELECT count(*) FROM j1) + (SELECT count(*) FROM j2)'), 2 * $rows, 'both are committed');
$c->same('two of them');

# DDL of another node is decided meanwhile, of another session of the same node afterwards
$s->do('BEGIN', $t);
$s->do(load('j1', 100_001), $t);
is_early(1, 3, 'begun');
$c->sql(2, 'CREATE TABLE by_2 (id int PRIMARY KEY); ALTER TABLE j2 ADD COLUMN w int', timeout => 60);
$c->drain;
$s->do('CREATE TABLE by_1 (id int PRIMARY KEY, w int REFERENCES by_2); INSERT INTO by_1 VALUES (1, NULL)', $t);
$other->send("CREATE FUNCTION f() RETURNS int LANGUAGE sql RETURN 1");
$s->do(load('j2', 100_001), $t);
$s->do('COMMIT', $t);
$other->finish($t);
is($other->error, '', 'DDL of the same node has waited');
$c->same('DDL of others meanwhile');

# a client of another node that wants the same name
$s->do('BEGIN; CREATE TABLE wanted (id int PRIMARY KEY, v text)', $t);
$s->do(load('wanted'), $t);
is_early(1, 2, 'begun');
my $rival = $c->session(2);
$rival->send('CREATE TABLE wanted (id int PRIMARY KEY, other int)');
$s->do('COMMIT', $t);
$rival->finish(60);
like($rival->error, qr/^ERROR:\s+(?:42P07|40001|23505)/, 'a rival loses');
$c->same('after that');

# a long reader of a table that it alters
my $reader = $c->session(3);
$reader->do('BEGIN; SELECT count(*) FROM made');
$s->do('BEGIN; ALTER TABLE made ADD COLUMN late int', $t);
$s->do(load('made (id, v)', 500_001), $t);
is_early(1, 2, 'begun where nobody reads');
is($c->sql(3, 'SELECT count(*) > 0 FROM made', timeout => 30), 't', 'another reader goes on behind it');
$reader->do('COMMIT');
$s->do('COMMIT', $t);
$c->same('at the end');
done_testing;
