# DDL is run on every node, in its place among the rows; it asks first: DML of
# other nodes on the same table loses or waits, DDL of two nodes is ordered, and
# DDL on one table never stalls transactions on others.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

my @commands = (
	[ 'schema', 'CREATE SCHEMA s1; ALTER SCHEMA s1 RENAME TO s2' ],
	[ 'table', 'CREATE TABLE s2.a (id int PRIMARY KEY, v text NOT NULL DEFAULT \'d\', n int CHECK (n > 0))' ],
	[ 'index', 'CREATE INDEX a_v ON s2.a (v); CREATE UNIQUE INDEX a_l ON s2.a (lower(v)) WHERE n > 5; ALTER INDEX s2.a_v RENAME TO a_v2' ],
	[ 'columns', 'ALTER TABLE s2.a ADD COLUMN x int; ALTER TABLE s2.a ADD COLUMN y int DEFAULT 7; ALTER TABLE s2.a RENAME COLUMN x TO z; ALTER TABLE s2.a DROP COLUMN n' ],
	[ 'rows between', "INSERT INTO s2.a (id, v) VALUES (1, 'eins'), (2, 'zwei')" ],
	[ 'a column\'s type', 'ALTER TABLE s2.a ALTER COLUMN z TYPE text USING z::text || \'!\'' ],
	[ 'view', 'CREATE VIEW s2.w AS SELECT id, v FROM s2.a WHERE id > 0; CREATE OR REPLACE VIEW s2.w AS SELECT id, v, z FROM s2.a' ],
	[ 'through a view', "INSERT INTO s2.w VALUES (3, 'drei')" ],
	[ 'constraint', 'ALTER TABLE s2.a ADD CONSTRAINT positive CHECK (id > 0); ALTER TABLE s2.a ADD UNIQUE (v)' ],
	[ 'foreign key', 'CREATE TABLE s2.b (id int PRIMARY KEY, a int REFERENCES s2.a)' ],
	[ 'comment', "COMMENT ON TABLE s2.a IS 'commented'" ],
	[ 'with rows in one transaction', "BEGIN; CREATE TABLE mix (id int PRIMARY KEY); INSERT INTO mix VALUES (1);
		ALTER TABLE mix ADD COLUMN v text; UPDATE mix SET v = 'x'; INSERT INTO mix VALUES (2, 'y'); COMMIT" ],
	[ 'under a savepoint', 'BEGIN; SAVEPOINT a; CREATE TABLE never (id int); ROLLBACK TO a; CREATE TABLE yes (id int); COMMIT' ],
	[ 'in a DO block', "DO \$\$ BEGIN EXECUTE 'CREATE TABLE done (id int PRIMARY KEY)'; INSERT INTO done VALUES (1);
		EXECUTE 'ALTER TABLE done ADD COLUMN v int DEFAULT 3'; END \$\$" ],
	[ 'IF EXISTS', 'DROP TABLE IF EXISTS not_there; CREATE TABLE IF NOT EXISTS mix (z int)' ],
	[ 'with a search_path', 'SET search_path = s2; CREATE TABLE here (id int PRIMARY KEY); INSERT INTO here VALUES (1)' ],
	[ 'truncate', 'TRUNCATE mix; INSERT INTO mix VALUES (9)' ],
	[ 'truncate cascade', 'INSERT INTO s2.b VALUES (1, 1); TRUNCATE s2.a CASCADE' ],
	[ 'partitions', "CREATE TABLE p (id int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
		CREATE TABLE p2 (id int); ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20); INSERT INTO p VALUES (1), (11);
		ALTER TABLE p DETACH PARTITION p2" ],
	[ 'CREATE TABLE AS goes as structure and rows', 'CREATE TABLE ctas AS SELECT i, random() AS r, clock_timestamp() AS c FROM generate_series(1, 20) i; SELECT i AS j INTO sinto FROM ctas' ],
	[ 'drop', 'DROP VIEW s2.w; DROP TABLE s2.b; DROP SCHEMA s2 CASCADE' ],
);
my $node = 0;
for (@commands)
{
	my ($name, $sql) = @$_;
	$node = $node % 3 + 1;
	my (undef, $err) = $c->try($node, "SET client_min_messages = warning; SET lockstep.commit_wait = applied;\n$sql");
	is($err, '', "$name: runs");
	$c->same("$name: everywhere");
}

# ---------- DDL against DML of another node

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY)');
$c->sql(1, 'INSERT INTO t VALUES (1, 0)');
$c->drain;
my $dml = $c->session(1);
my $ddl = $c->session(2);

$dml->do('BEGIN; UPDATE t SET v = 1 WHERE id = 1');
$ddl->do('BEGIN; ALTER TABLE t ADD COLUMN w int');
$c->sql(3, 'INSERT INTO other VALUES (1)');
pass('DDL that is not finished does not hold up other tables');
$dml->send('COMMIT');
my $waited = $dml->blocked(0.5);
$ddl->do('COMMIT');
$dml->finish;
LockstepCluster::is_error($dml->error, '40001', qr/./, 'DML that ran before another node\'s DDL loses');
ok(1, $waited ? 'it waited for the DDL' : 'it lost at once');
$c->same('DDL against earlier DML');

$ddl->do('BEGIN; ALTER TABLE t ADD COLUMN w2 int');
$dml->send('INSERT INTO t (id) VALUES (2)');
ok($dml->blocked(0.5), 'DML after another node\'s DDL waits for it');
$ddl->do('COMMIT');
$dml->finish;
if ($dml->error =~ /40001/)
{
	pass('and may be told to try again');
	$dml->do('INSERT INTO t (id) VALUES (2)');
}
else
{
	is($dml->error, '', 'and goes on');
}
$c->same('DDL against later DML');

$ddl->do('BEGIN; ALTER TABLE t ADD COLUMN never int');
$dml->send('INSERT INTO t (id) VALUES (3)');
$dml->blocked(0.3);
$ddl->do('ROLLBACK');
$dml->finish;
is($dml->error, '', 'DML goes on when the DDL is rolled back');
$c->same('DDL that was rolled back');

# ---------- TRUNCATE and LOCK TABLE ask first, too

$ddl->do('BEGIN; TRUNCATE other');
$dml->send('INSERT INTO other VALUES (7)');
ok($dml->blocked(0.3), 'DML waits for another node\'s TRUNCATE');
$ddl->do('COMMIT');
$dml->finish;
$dml->do('INSERT INTO other VALUES (7)') if $dml->error =~ /40001/;
is($c->sql(1, 'SELECT array_agg(id) FROM other'), '{7}', 'and is not lost in it');
$c->same('TRUNCATE against DML');

$ddl->do('BEGIN; LOCK TABLE other');
$dml->send('INSERT INTO other VALUES (8)');
ok($dml->blocked(0.3), 'DML waits for another node\'s LOCK TABLE');
$ddl->do('COMMIT');
$dml->finish;
$c->same('LOCK TABLE against DML');

# PostgreSQL allows it outside of a block where it is no command of the client's.
$c->sql(1, <<'SQL');
CREATE PROCEDURE add_next() LANGUAGE plpgsql AS
$$ BEGIN LOCK TABLE other IN EXCLUSIVE MODE; INSERT INTO other SELECT max(id) + 100 FROM other; END $$;
CREATE FUNCTION next() RETURNS void LANGUAGE sql AS 'LOCK TABLE other IN EXCLUSIVE MODE; INSERT INTO other SELECT max(id) + 100 FROM other';
SQL
$c->drain;
for my $command ('CALL add_next()', 'SELECT next()', 'DO $$ BEGIN PERFORM next(); END $$')
{
	$ddl->do('BEGIN; LOCK TABLE other; INSERT INTO other SELECT max(id) + 10 FROM other');
	my $max = $ddl->do('SELECT max(id) FROM other');
	$dml->send($command);
	ok($dml->blocked(0.3), "LOCK TABLE waits for another node's in $command");
	$ddl->do('COMMIT');
	$dml->finish;
	is($dml->do('SELECT max(id) FROM other'), $max + 100, '... and sees what that has written');
	$c->drain;
}

# ---------- parallel DDL

my @sessions = map { $c->session($_) } $c->all;
for my $round (1 .. 5)
{
	$sessions[$_ - 1]->send("CREATE TABLE par_${round}_$_ (id int PRIMARY KEY); INSERT INTO par_${round}_$_ VALUES ($_)") for $c->all;
	$_->finish for @sessions;
}
is(join('', map { $_->error } @sessions), '', 'DDL on all nodes at once');
is($c->sql(1, "SELECT count(*) FROM pg_class WHERE relname ~ '^par_\\d_\\d\$'"), 15, 'nothing of it is lost') if $c->drain;

$sessions[$_ - 1]->send('CREATE TABLE same_name (id int)') for $c->all;
$_->finish for @sessions;
is(scalar(grep { $_->error eq '' } @sessions), 1, 'of one name on all nodes one wins');
$c->same('parallel DDL');

# Of two sessions of one node, too, one waits (343_same_node.pl says why).
my $second = $c->session(1);
$sessions[0]->do('BEGIN; CREATE TABLE next1 (id int)');
$second->send('BEGIN; CREATE TABLE next2 (id int)');
ok($second->blocked(0.3), 'DDL of one node waits for the DDL of another session');
$sessions[0]->do('COMMIT');
$second->finish;
is($second->error, '', 'and goes on');
$second->do('COMMIT');

# A command uses what the one before it has made, though no key says so.
$c->sql($_ % $c->{nodes} + 1, <<"SQL") for 1 .. 20;
CREATE FUNCTION made$_() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER uses$_ BEFORE INSERT ON next1 FOR EACH ROW EXECUTE FUNCTION made$_();
CREATE TYPE type$_ AS ENUM ('a');
CREATE FUNCTION takes$_(type$_) RETURNS int LANGUAGE sql RETURN 1;
DROP FUNCTION takes$_;
DROP TYPE type$_;
SQL
$c->same('a command after the one that it depends on');

# ---------- deadlock between two nodes' locks

$c->sql(1, 'CREATE TABLE d1 (id int); CREATE TABLE d2 (id int)');
$c->drain;
my ($x, $y) = @sessions[0, 1];
$x->do('BEGIN; LOCK TABLE d1');
$y->do('BEGIN; LOCK TABLE d2');
$x->send('LOCK TABLE d2');
$x->blocked(0.3);
$y->send('LOCK TABLE d1');
$y->finish;
$x->finish if !$x->blocked(2) || do { $y->query('ROLLBACK'); 1 };
like($x->error . $y->error, qr/40P01/, 'a cycle of table locks is found');
$_->query('ROLLBACK') for $x, $y;
$c->same('after the deadlock');

done_testing;
