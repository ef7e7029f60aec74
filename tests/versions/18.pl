# What is new in PostgreSQL 18 and changes data: virtual generated columns, keys
# WITHOUT OVERLAPS and foreign keys with PERIOD, constraints that are not enforced,
# NOT NULL constraints with names, uuidv7(), RETURNING old and new, COPY that gives
# up at so many wrong rows, statistics that are restored (on one node).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# ---------- virtual generated columns

$c->sql(1, 'CREATE TABLE g (id int PRIMARY KEY, v int, d int GENERATED ALWAYS AS (v * 2) VIRTUAL, e text);
	CREATE TABLE h (a int, d int GENERATED ALWAYS AS (a + 1), b text)');
$c->drain;
$c->sql($_, "INSERT INTO g (id, v, e) SELECT 1000 * $_ + i, i, random()::text FROM generate_series(1, 100) i;
	INSERT INTO h (a, b) VALUES ($_, 'x'), ($_, 'x'), (10 + $_, NULL)") for $c->all;
$c->same('rows with virtual columns');
$c->sql(2, "UPDATE g SET v = v + 1 WHERE d > 100; UPDATE h SET b = random()::text WHERE d = 2; DELETE FROM h WHERE d = 13;
	INSERT INTO g (id, v) VALUES (1, 7) RETURNING d");
$c->same('found by a virtual column, in a table without a key, too');
$c->sql(1, 'ALTER TABLE g ALTER d SET EXPRESSION AS (v * 3)');
my $rows = $c->file('rows', "5000\t1\tx\n5001\t2\ty\n");
$c->sql(1, "COPY g (id, v, e) FROM '$rows'");
$c->drain;
is($c->sql(2, 'SELECT sum(d) FROM g WHERE id >= 5000'), 9, 'its new expression counts everywhere');
$c->sql(1, 'CREATE TABLE gi (id int GENERATED ALWAYS AS IDENTITY, v int, d int GENERATED ALWAYS AS (v * 2) VIRTUAL)');
$c->fails(1, "COPY gi (v) FROM '$rows' WHERE d > 2", '42P10', qr/generated columns are not supported/, "COPY's WHERE with a generated column");

# ---------- WITHOUT OVERLAPS, PERIOD

SKIP: {
	my (undef, $err) = $c->try(1, 'CREATE EXTENSION btree_gist');
	skip 'no btree_gist', 1 if $err;
	$c->sql(1, 'CREATE TABLE room (id int, net inet, during daterange, name text, PRIMARY KEY (id, net, during WITHOUT OVERLAPS))');
	$c->sql(1, 'CREATE TABLE stay (id int PRIMARY KEY, room int, net inet, during daterange,
		FOREIGN KEY (room, net, PERIOD during) REFERENCES room (id, net, PERIOD during))');
	$c->drain;
	$c->sql(1, "INSERT INTO room SELECT i, '10.0.0.0/8', daterange('2026-01-01', '2026-06-01'), 'a' FROM generate_series(1, 20) i;
		INSERT INTO room SELECT i, '10.1.0.0/16', daterange('2026-01-01', '2026-06-01'), 'n' FROM generate_series(1, 20) i;
		INSERT INTO room SELECT i, '10.0.0.0/8', daterange('2026-06-01', '2027-01-01'), 'b' FROM generate_series(1, 20) i");
	$c->sql(2, "INSERT INTO stay VALUES (1, 1, '10.0.0.0/8', '[2026-05-01,2026-07-01)')");
	$c->same('keys without overlaps, a foreign key with a period');
	$c->sql(2, "UPDATE room SET name = name || random() WHERE during @> date '2026-02-01';
		UPDATE room SET during = daterange('2026-06-01', '2026-12-01') WHERE name = 'b' AND id > 1;
		DELETE FROM room WHERE id = 20 AND net = '10.1.0.0/16'");
	$c->same('rows are found by their key without overlaps');
	is($c->sql(1, "SELECT count(*) FROM room WHERE name LIKE 'a%' AND length(name) > 1"), 20, 'each the right one');

	my $a = $c->session(1);
	$a->query('BEGIN');
	$a->query("INSERT INTO room VALUES (50, '::1', '[2026-01-01,2026-03-01)', 'of n1')");
	$c->sql(2, "INSERT INTO room VALUES (50, '::1', '[2026-02-01,2026-04-01)', 'of n2')");
	my ($out, $failed) = $a->query('COMMIT');
	is_deeply([ $c->sql(1, 'SELECT name FROM room WHERE id = 50'), $c->sql(2, 'SELECT name FROM room WHERE id = 50') ],
		[ 'of n2', 'of n2' ], 'of two overlapping rows of two nodes the first is there');
	$c->fails(1, "DELETE FROM room WHERE id = 1 AND name LIKE 'b%'", '23503', qr/stay/, 'the foreign key is checked');

	# a parent's row goes while another node needs it
	$a = $c->session(1);
	$a->query('BEGIN');
	$a->query('DELETE FROM room WHERE id = 5');
	$c->sql(2, "INSERT INTO stay VALUES (5, 5, '10.0.0.0/8', '[2026-05-01,2026-07-01)')");
	$a->query('COMMIT');
	is($c->sql($_, "SELECT count(*) FROM stay s WHERE NOT EXISTS (SELECT FROM room r WHERE r.id = s.room AND r.during && s.during)"), 0,
		"n$_: no row without its parent") for $c->all;
	$c->same('after conflicts of periods');
}

# ---------- constraints

$c->sql(1, 'CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent NOT ENFORCED,
	CONSTRAINT positive CHECK (id > 0) NOT ENFORCED); INSERT INTO child VALUES (1, 99), (-1, 99)');
$c->same('constraints that are not enforced');
$c->fails(2, 'ALTER TABLE child ALTER CONSTRAINT child_p_fkey ENFORCED', '23503', qr/parent/, 'a row without its parent');
$c->sql(2, 'INSERT INTO parent VALUES (99); ALTER TABLE child ALTER CONSTRAINT child_p_fkey ENFORCED');
$c->same('enforced');
$c->fails(1, 'DELETE FROM parent', '23503', qr/child/, 'it is enforced');
$c->sql(1, 'CREATE TABLE nn (id int CONSTRAINT there NOT NULL, v int); INSERT INTO nn VALUES (1, NULL);
	ALTER TABLE nn ADD CONSTRAINT v_there NOT NULL v NOT VALID; ALTER TABLE nn ADD PRIMARY KEY (id)');
$c->sql(2, 'UPDATE nn SET v = 2; ALTER TABLE nn VALIDATE CONSTRAINT v_there; ALTER TABLE nn RENAME CONSTRAINT there TO here');
$c->same('NOT NULL constraints');

# ---------- values, RETURNING, COPY

$c->sql(1, 'CREATE TABLE u (id uuid DEFAULT uuidv7() PRIMARY KEY, v int)');
is($c->sql(2, 'INSERT INTO u (v) SELECT i FROM generate_series(1, 50) i; WITH x AS (UPDATE u SET v = v + 1, id = uuidv7()
	WHERE v % 2 = 0 RETURNING old.id o, new.id n, old.v ov, new.v nv) SELECT count(*) FROM x WHERE o <> n AND nv = ov + 1'), 25, 'RETURNING old and new');
$c->same('uuidv7()');
my $wrong = $c->file('wrong', "1\nx\n2\ny\n");
$c->fails(1, "COPY gi (v) FROM '$wrong' (ON_ERROR ignore, REJECT_LIMIT 1)", '22P02', qr/REJECT_LIMIT|skipped/, 'COPY gives up');
$c->sql(1, "COPY gi (v) FROM '$wrong' (ON_ERROR ignore, REJECT_LIMIT 2)");
$c->same('COPY ... REJECT_LIMIT');

# ---------- statistics: as a dump with them restores them

$c->sql(1, 'ANALYZE u');
my $restore = "SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', 'u', 'relpages', 17, 'reltuples', 1234::real);
	SELECT pg_restore_attribute_stats('schemaname', 'public', 'relname', 'u', 'attname', 'v', 'inherited', false, 'null_frac', 0.5::real)";
$c->fails(1, $restore, '0A000', qr/not replicated/, 'statistics are of a node: who restores them says so');
$c->sql(1, "SET lockstep.unreplicated = 'allow'; $restore");
is($c->sql(1, "SELECT reltuples FROM pg_class WHERE relname = 'u'"), 1234, 'then they are restored');
$c->same('after restoring statistics');

done_testing();
