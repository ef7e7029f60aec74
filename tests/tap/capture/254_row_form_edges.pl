# Rows that can't be written elsewhere as they were at their origin: identity
# columns that a trigger changes, CHECK constraints and domains whose functions
# need the session's search_path, partitions by a hash that differs from node to
# node; and the victim of a conflict learns why, whatever the server logs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "log_min_messages = fatal\n");

# ---------- GENERATED ALWAYS AS IDENTITY, changed by a BEFORE trigger

$c->sql(1, <<'SQL');
CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY, v int, g int GENERATED ALWAYS AS (v * 2) STORED);
CREATE TABLE ik (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int UNIQUE);
CREATE TABLE child (ik int REFERENCES ik ON UPDATE CASCADE);
CREATE FUNCTION shift() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := OLD.id + 1000; RETURN NEW; END $$;
CREATE TRIGGER shift BEFORE UPDATE ON i FOR EACH ROW WHEN (NEW.v > 10) EXECUTE FUNCTION shift();
CREATE TRIGGER shift BEFORE UPDATE ON ik FOR EACH ROW WHEN (NEW.v > 10) EXECUTE FUNCTION shift();
INSERT INTO i (id, v) OVERRIDING SYSTEM VALUE VALUES (1, 1), (2, 2), (2, 2);
INSERT INTO ik (id, v) OVERRIDING SYSTEM VALUE VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO child VALUES (1), (1), (2);
SQL
$c->sql(1, 'UPDATE i SET v = v + 10; UPDATE ik SET v = v + 10 WHERE v < 3');
is($c->sql(1, 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM ik'), '3,1001,1002', 'the trigger changed the column');
$c->same('identity columns changed by a trigger');
is($c->sql(2, 'SELECT string_agg(ik::text, \',\' ORDER BY ik) FROM child'), '1001,1001,1002', 'and cascades with them');
$c->sql(2, 'BEGIN; UPDATE i SET v = 5 WHERE id = 1001; SAVEPOINT s; UPDATE i SET v = 50; ROLLBACK TO s; UPDATE i SET v = 60 WHERE id > 1001; COMMIT');
$c->same('in a savepoint, from the other node');

# ---------- functions of constraints that need a search_path

$c->sql(1, <<'SQL');
CREATE SCHEMA app;
CREATE TABLE app.allowed (v int PRIMARY KEY);
INSERT INTO app.allowed VALUES (1), (2), (3);
CREATE FUNCTION app.is_allowed(i int) RETURNS bool LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN EXISTS (SELECT FROM allowed WHERE v = i); END $$;
CREATE DOMAIN app.small AS int CHECK (app.is_allowed(VALUE));
CREATE DOMAIN app.short AS varchar(3) NOT NULL CHECK (app.is_allowed(length(VALUE)));
CREATE TABLE app.t (id int PRIMARY KEY, v int CHECK (app.is_allowed(v)), d app.small, s app.short DEFAULT 'x');
CREATE TABLE app.p (id int PRIMARY KEY, v int CHECK (app.is_allowed(v))) PARTITION BY RANGE (id);
CREATE TABLE app.p1 PARTITION OF app.p FOR VALUES FROM (0) TO (100);
SQL
my $path = 'SET search_path = app, public;';
$c->sql(1, "$path INSERT INTO t VALUES (1, 1, 1, 'a')");
$c->sql(1, "$path INSERT INTO t VALUES (2, 1, 1, 'ab'), (3, 2, 2, 'abc'), (4, 1, 3, 'a')");
$c->sql(1, "$path INSERT INTO p VALUES (1, 1); INSERT INTO p VALUES (2, 2), (3, 3)");
$c->sql(1, "$path UPDATE t SET v = 3, d = 3, s = 'xyz' WHERE id = 1; DELETE FROM t WHERE id = 2; UPDATE p SET v = 2 WHERE id = 1");
$c->drain;
$c->sql(2, "$path INSERT INTO t VALUES (5, 1, 2, 'b') ON CONFLICT (id) DO UPDATE SET d = 1");
$c->sql(2, "$path COPY t FROM STDIN;\n6\t1\t1\ta\n7\t2\t2\tbc\n\\.\n");
$c->same('checks whose functions need a search_path');
$c->fails(1, "$path INSERT INTO t VALUES (10, 9, 1, 'a')", '23514', qr/violates check constraint/, 'a CHECK still holds');
$c->fails(1, "$path INSERT INTO t VALUES (10, 1, 9, 'a')", '23514', qr/value for domain/, 'so does that of a domain');
$c->fails(1, "$path INSERT INTO t VALUES (10, 1, 1, NULL)", '23502', qr/does not allow null/, 'and its NOT NULL');

# what must be evaluated on each node finds what it finds here (450), or fails
# clearly, and is rolled back everywhere
$c->sql(1, <<'SQL');
CREATE FUNCTION app.twice(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN (SELECT 2 * i FROM allowed LIMIT 1); END $$;
CREATE TABLE app.x (id int PRIMARY KEY, v int);
CREATE INDEX ON app.x (app.twice(v));
SQL
$c->sql(1, "$path INSERT INTO x VALUES (1, 1)");
$c->fails(1, "SET search_path = pg_catalog; INSERT INTO app.x VALUES (2, 1)", '42P01', qr/relation "allowed" does not exist/, 'an index function that needs a search_path');
$c->fails(1, "SET search_path = app, public, pg_catalog; INSERT INTO app.x VALUES (2, 1)", '42P01', qr/relation "allowed" does not exist.*happened on node "n2"/s,
	'and the error of the other node');
$c->same('equal after it');

# ---------- partitions by hash

$c->sql(1, "CREATE TYPE colour AS ENUM ('red', 'green', 'blue'); CREATE TYPE pair AS (c colour, i int); CREATE DOMAIN hue AS colour");
for my $type ('colour', 'hue', 'colour[]', 'pair', 'regclass', 'regrole')
{
	$c->fails(1, "CREATE TABLE h (c $type, id int) PARTITION BY HASH (id, c)", '0A000', qr/cannot partition table "h" by the hash of type/,
		"refused: partitions by the hash of $type");
}
$c->fails(1, 'CREATE SCHEMA hs CREATE TABLE h (c colour) PARTITION BY HASH (c)', '0A000', qr/by the hash/, 'refused: inside of CREATE SCHEMA');
$c->sql(1, <<'SQL');
CREATE TABLE l (c colour, id int) PARTITION BY LIST (c);
CREATE TABLE l1 PARTITION OF l FOR VALUES IN ('red', 'blue');
CREATE TABLE l2 PARTITION OF l DEFAULT;
CREATE TABLE r (c colour, id int) PARTITION BY RANGE (c);
CREATE TABLE r1 PARTITION OF r FOR VALUES FROM ('red') TO ('blue');
CREATE TABLE r2 PARTITION OF r DEFAULT;
CREATE TABLE h (id int, t text) PARTITION BY HASH (id, t);
CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO l SELECT c, 1 FROM unnest(enum_range(NULL::colour)) c;
INSERT INTO r SELECT c, 1 FROM unnest(enum_range(NULL::colour)) c;
INSERT INTO h SELECT g, g::text FROM generate_series(1, 50) g;
SQL
$c->drain;
$c->sql(2, "UPDATE l SET c = 'green' WHERE c = 'red'; UPDATE r SET c = 'blue' WHERE c = 'red'; UPDATE h SET id = id + 1000 WHERE id < 10");
$c->same('LIST and RANGE of enums, HASH of other types: the same rows in the same partitions');
for my $n (1, 2)
{
	is($c->sql($n, "SELECT count(*) FROM l WHERE c = 'green'"), 2, "n$n finds rows by LIST");
	is($c->sql($n, "SELECT count(*) FROM r WHERE c = 'blue'"), 2, "n$n finds rows by RANGE");
	is($c->sql($n, "SELECT count(*) FROM h WHERE id = 1005 AND t = '5'"), 1, "n$n finds rows by HASH");
}

# ---------- log_min_messages above error

$c->sql(1, 'CREATE TABLE w (id int PRIMARY KEY, v int); INSERT INTO w VALUES (1, 0)');
$c->drain;
for my $level ('fatal', 'panic', 'log', 'error')
{
	my $victim = $c->session(1, options => "-c log_min_messages=$level");
	$victim->do('BEGIN; UPDATE w SET v = v + 1 WHERE id = 1');
	$victim->send('SELECT pg_sleep(20)');
	ok($victim->blocked(0.2), "log_min_messages = $level: the victim is busy");
	$c->sql(2, 'UPDATE w SET v = v + 10 WHERE id = 1');
	$victim->finish(10);
	LockstepCluster::is_error($victim->error, '40001', qr/in the way of another one.*It held a lock/s, "log_min_messages = $level: 40001");
	$victim->do('ROLLBACK');
	$victim->do('BEGIN; SAVEPOINT a; UPDATE w SET v = v + 1 WHERE id = 1');
	$victim->send('SELECT 1/0');
	$victim->finish(10);
	LockstepCluster::is_error($victim->error, '22012', qr/division by zero/, 'other errors are told as they are');
	$victim->do('ROLLBACK TO a; UPDATE w SET v = v + 1 WHERE id = 1');
	$victim->send('SELECT pg_sleep(20)');
	ok($victim->blocked(0.2), 'busy again');
	$c->sql(2, 'UPDATE w SET v = v + 10 WHERE id = 1');
	$victim->finish(10);
	LockstepCluster::is_error($victim->error, '40001', qr/in the way of another one/, '40001 after an error in a savepoint, too');
	$victim->do('ROLLBACK');
	$victim->send("SELECT 'x' FROM (SELECT pg_cancel_backend(pg_backend_pid())) x, pg_sleep(1)");
	$victim->finish(10);
	LockstepCluster::is_error($victim->error, '57014', qr/canceling statement/, 'a plain cancel stays one');
}
$c->same('equal in the end');

done_testing;
