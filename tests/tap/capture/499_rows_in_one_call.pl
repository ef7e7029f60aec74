# Changed rows of a transaction reach another node in one call: in their order, with
# values as a prepared statement would read them; an error, or another number of rows,
# of any of them is the transaction's; who is in the way of one of them is told which;
# DDL makes plans anew; and a node whose database has no such function gets them one by one.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE DOMAIN short AS text CHECK (length(VALUE) < 10);
CREATE TYPE pair AS (a int, d short);
CREATE TYPE mood AS ENUM ('bad', 'good');
CREATE TABLE t (id int PRIMARY KEY, v text, n numeric, d short, ds short[], p pair, m mood, b bytea, UNIQUE (v));
CREATE TABLE k (id int PRIMARY KEY, v text UNIQUE, n numeric);
CREATE TABLE u (id int PRIMARY KEY, v int, CONSTRAINT "the limit" EXCLUDE USING btree (v WITH =) WHERE (v > 100));
CREATE TABLE h (id int, v text);
INSERT INTO u SELECT i, 0 FROM generate_series(1, 50) i;
SQL
$c->drain;

# How often did node 2 execute such a call since?  It logs them with their plans' names.
sub calls { my $n = () = $c->node_log(2) =~ /execute \w+: CALL lockstep\.apply_transaction\(/g; return $n }
$c->sql_local(2, q{ALTER SYSTEM SET log_statement = 'all'}, db => 'postgres');
$c->sql_local(2, 'SELECT pg_reload_conf()', db => 'postgres');
$c->wait_sql(2, 'SHOW log_statement', 'all');

# ---------- values, and the order

my $many = join(";\n", "BEGIN",
	"INSERT INTO t VALUES (1, NULL, 1.00, 'short', '{a,NULL,b}', '(1,x)', 'good', '\\x00ff')",
	"UPDATE u SET v = 1 WHERE id = 1",
	"INSERT INTO t (id, v) VALUES (2, E'quote '' and \\\\ and \\n')",
	"UPDATE u SET v = 2 WHERE id = 1",
	"UPDATE t SET v = '', m = 'bad', d = NULL WHERE id = 1",
	"DELETE FROM t WHERE id = 2",
	"INSERT INTO t (id, v) VALUES (2, 'again')",
	"UPDATE t SET id = 3 WHERE id = 2",
	"INSERT INTO h VALUES (1, 'keyless'), (1, 'keyless')",
	"DELETE FROM h WHERE ctid = '(0,1)'",
	"COMMIT");
my $before = calls();
$c->sql(1, $many);
$c->same('rows of several tables, in their order');
cmp_ok(calls() - $before, '<=', 3, 'in one call, but for the COPY among them');
cmp_ok(calls() - $before, '>=', 1, 'which it was');
is($c->sql(2, 'SELECT id, v, m FROM t ORDER BY id'), "1||bad\n3|again|", 'as they should be');

# however few
$before = calls();
$c->sql(1, 'BEGIN; UPDATE u SET v = 4 WHERE id = 2; UPDATE u SET v = 5 WHERE id = 3; COMMIT');
$c->drain;
$c->sql(1, 'UPDATE u SET v = 6 WHERE id = 4');
$c->drain;
is(calls(), $before + 2, 'one or two rows, too');
$c->sql(1, 'BEGIN; UPDATE u SET v = 0 WHERE id = 2; UPDATE u SET v = 0 WHERE id = 3; UPDATE u SET v = 0 WHERE id = 4; COMMIT');
$c->drain;
is(calls(), $before + 3, 'and three');
$c->same('few of them');

# a long one: more than fit into one call, of the same text and of others
$before = calls();
$c->sql(1, 'DO $$ BEGIN FOR i IN 1 .. 700 LOOP INSERT INTO k VALUES (i + 1000, repeat(\'x\', 200) || i); UPDATE u SET v = v + i % 3 - 1 WHERE id = 1 + i % 50; END LOOP; END $$');
$c->same('more than fit into one call');
cmp_ok(calls() - $before, '>=', 1400 / 256, 'in several');
# one value that is too large for it, in the middle
$c->sql(1, q{BEGIN; UPDATE u SET v = -1 WHERE id = 1; INSERT INTO h SELECT 7, string_agg(md5(i::text), '') FROM generate_series(1, 3000) i; UPDATE u SET v = -2 WHERE id = 1; COMMIT});
$c->same('a large value in between');

# what a statement alone would have: values that it doesn't change stay where they are, constraints are
# checked at the end if at all, and no trigger fires
$c->sql(1, <<'SQL');
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE "Kind é" (id int PRIMARY KEY, "größe" text, big text, place int,
	UNIQUE (place) DEFERRABLE INITIALLY DEFERRED, parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE "Kind é" ALTER big SET STORAGE EXTERNAL;
CREATE TABLE fired (who text);
CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO fired VALUES (TG_NAME); RETURN NULL; END $$;
CREATE TRIGGER statement AFTER INSERT OR UPDATE ON "Kind é" EXECUTE FUNCTION fired();
ALTER TABLE "Kind é" ENABLE ALWAYS TRIGGER statement;
INSERT INTO "Kind é" SELECT i, 'ä' || i, repeat('x', 20000), i FROM generate_series(1, 3) i;
SQL
$c->drain;
my $fired = $c->sql(2, 'SELECT count(*) FROM fired');
$before = calls();
$c->sql(1, q{BEGIN; UPDATE "Kind é" SET place = 2, "größe" = 'ß€' WHERE id = 1; UPDATE "Kind é" SET place = 1 WHERE id = 2;
	UPDATE "Kind é" SET parent = 7 WHERE id = 3; INSERT INTO parent VALUES (7); UPDATE "Kind é" SET "größe" = "größe" || '𝄞' WHERE id = 1; COMMIT});
$c->same('values out of line, constraints that are deferred, other letters');
cmp_ok(calls(), '>', $before, 'in such calls');
is($c->sql(2, 'SELECT count(*) FROM fired') - $fired, 4, 'what the triggers wrote at the origin is there once');

# ---------- errors

# a row that only node 2 has
$c->sql_local(2, q{INSERT INTO k (id, v) VALUES (99, 'taken')});
$before = calls();
$c->fails(1, q{BEGIN; UPDATE u SET v = 5 WHERE id = 5; INSERT INTO k (id, v) VALUES (98, 'taken'); UPDATE u SET v = 6 WHERE id = 6; COMMIT},
	'23505', qr/duplicate key value violates unique constraint "k_v_key".*Key \(v\)=\(taken\).*node "n2"/s, 'an error is that of its query');
$c->sql_local(2, 'DELETE FROM k WHERE id = 99');
is($c->sql($_, 'SELECT count(*) FROM u WHERE v IN (5, 6) AND id IN (5, 6)'), 0, "nothing of it is on n$_") for 1, 2;
$c->sql_local(2, 'DELETE FROM u WHERE id = 50');
$c->fails(1, q{BEGIN; UPDATE u SET v = 7 WHERE id = 7; UPDATE u SET v = 7 WHERE id = 8; UPDATE u SET v = 7 WHERE id = 50; COMMIT},
	'LS003', qr/a query changed 0 rows on node "n2", 1 at its origin/, 'another number of rows');
is(calls(), $before + 2, 'both in such calls');
$c->sql_local(2, 'INSERT INTO u SELECT 50, ' . $c->sql(1, 'SELECT v FROM u WHERE id = 50'));
$c->same('after errors');

# ---------- in the way

my $b = $c->session(2);
$b->do(q{BEGIN; UPDATE u SET v = 0 WHERE id = 13});
$c->sql(1, q{BEGIN; UPDATE u SET v = 11 WHERE id = 11; UPDATE u SET v = 12 WHERE id = 12; UPDATE u SET v = 13 WHERE id = 13; UPDATE u SET v = 14 WHERE id = 14; COMMIT});
$b->query('SELECT 1');
LockstepCluster::is_error($b->error, '40001', qr/query "UPDATE ONLY public\.u SET v = \$1 WHERE id = '13'" on key public\.u u_pkey/, 'the row that it was in the way of');
$b->query('ROLLBACK');
$c->same('who was in the way has gone');

# ---------- DDL between: types, names, columns

# three rows in a transaction, one of which is of a plan that DDL makes old
sub three { my ($change) = @_; return "BEGIN; UPDATE u SET v = 21 WHERE id = 21; $change; UPDATE u SET v = 22 WHERE id = 22; UPDATE u SET v = 0 WHERE id IN (21, 22); COMMIT" }
$before = calls();
my $texts = 0;
for my $change (q{UPDATE k SET n = 1.5 WHERE id = 1003}, 'ALTER TABLE k ALTER n TYPE text USING n::text', q{UPDATE k SET n = 'no number' WHERE id = 1003},
	'ALTER TABLE k ALTER v TYPE varchar(250), ADD w int', q{UPDATE k SET n = 'none' WHERE id = 1003},
	'ALTER TABLE k RENAME TO old_k; CREATE TABLE k (id int PRIMARY KEY, v int, n int); INSERT INTO k VALUES (1003, 3, 3)', q{UPDATE k SET n = 5 WHERE id = 1003},
	'DROP TABLE k; ALTER TABLE old_k RENAME TO k; ALTER TABLE k DROP w', q{UPDATE k SET n = 'again' WHERE id = 1003})
{
	$texts += $change =~ /^UPDATE/;
	$c->sql(1, $change =~ /^UPDATE/ ? three($change) : $change);
	$c->drain;
}
is($c->sql(2, 'SELECT n FROM k WHERE id = 1003'), 'again', 'a table as it is now');
cmp_ok(calls() - $before, '>=', $texts, 'each time in a call');
$c->sql(1, q{BEGIN; UPDATE k SET n = '' WHERE id = 1003; UPDATE u SET v = 1 WHERE id = 3; ALTER TABLE u ADD w int; UPDATE u SET w = 1 WHERE id = 3; UPDATE k SET n = 'z' WHERE id = 1003; UPDATE u SET w = 4 WHERE id = 4; COMMIT});
$c->sql(1, three(q{UPDATE u SET w = 2, v = 3 WHERE id = 3}));
$c->same('plans are those of the tables as they are');

# ---------- others' code can't call it

$c->sql(1, <<'SQL');
CREATE ROLE mallory;
CREATE SCHEMA m AUTHORIZATION mallory;
CREATE TABLE precious (v text);
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION m.f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF session_user = 'postgres' THEN
		BEGIN
			PERFORM lockstep.apply_copy('COPY public.precious FROM STDIN', E'stolen\n');
			RAISE LOG 'STOLEN';
		EXCEPTION WHEN insufficient_privilege THEN RAISE LOG 'NO COPY';
		END;
		BEGIN
			CALL lockstep.apply_transaction('\x' || repeat('00', 32));
			RAISE LOG 'STOLEN';
		EXCEPTION WHEN insufficient_privilege THEN RAISE LOG 'NO ROWS';
		END;
	END IF;
	RETURN i;
END $$;
CREATE TABLE m.b (i int PRIMARY KEY);
CREATE TABLE m.a (i int PRIMARY KEY, g int GENERATED ALWAYS AS (m.f(i)) STORED);
SQL
# without settings of their own
$before = calls();
$c->sql(1, 'SET SESSION AUTHORIZATION mallory; SET search_path = m, pg_catalog; BEGIN; INSERT INTO m.a VALUES (1); INSERT INTO m.b VALUES (1); INSERT INTO m.a VALUES (2); INSERT INTO m.b VALUES (2); COMMIT');
$c->drain;
is(calls(), $before + 1, 'rows that call a function, in one call');
my $log = $c->node_log(2);
like($log, qr/NO COPY/, 'a function that a row calls may not call apply_copy');
like($log, qr/NO ROWS/, 'nor apply_transaction');
$c->sql(1, 'SET SESSION AUTHORIZATION mallory; INSERT INTO m.a SELECT generate_series(3, 5)');
$c->drain;
unlike($c->node_log(2), qr/LOG:  STOLEN/, 'whatever called it');
$c->same('others\' code');

# ---------- a database without it

$c->sql_local(2, q{UPDATE pg_proc SET proname = 'gone' WHERE oid = 'lockstep.apply_transaction(bytea)'::regprocedure});
my %old = map { $_ => 1 } $c->apply_pids(2);
$c->sql_local(2, q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockstep apply'});
ok($c->wait_until(sub { my @now = $c->apply_pids(2); @now && !grep { $old{$_} } @now }), 'it has other sessions');
$c->drain;
$before = calls();
$c->sql(1, q{BEGIN; UPDATE u SET v = 21 WHERE id = 21; UPDATE u SET v = 22 WHERE id = 22; INSERT INTO h VALUES (2, 'one by one'); COMMIT});
$c->same('one by one');
is(calls(), $before, 'without the call');

$c->down;
done_testing();
