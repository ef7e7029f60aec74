# UNLOGGED tables are unlogged on all nodes, and their rows are replicated. A node whose
# server has crashed fetches them from another one before it is online, whatever was done to them
# meanwhile; if no node has them, they are empty on all. A clean stop loses nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, durable => $ENV{LOCKSTEP_LONG});

sub unlogged { $c->sql($_[0], "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relpersistence = 'u' AND relkind IN ('r', 'p', 'S') AND relnamespace <> 'lockstep'::regnamespace") }
sub missing { $c->sql($_[0], 'SELECT lockstep.missing_unlogged()') }

# ---------- all ways to say it

$c->fails(1, 'CREATE UNLOGGED TABLE pg_temp.x (a int)', '42P16', qr/only temporary relations/, 'among temporary ones: the error of PostgreSQL');
my $as_parent = $c->version < 18 ? 'UNLOGGED' : '';	# 18 refuses it
$c->sql(2, "CREATE $as_parent TABLE p (id int, v text) PARTITION BY LIST (id)");
$c->sql(2, <<'SQL');
CREATE UNLOGGED TABLE a (id int PRIMARY KEY, v text);
CREATE UNLOGGED SEQUENCE s;
CREATE UNLOGGED TABLE b AS SELECT 1 AS x;
SELECT 2 AS x INTO UNLOGGED d;
CREATE SCHEMA us CREATE UNLOGGED TABLE e (a int);
CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE f (id int PRIMARY KEY, v text);
INSERT INTO f VALUES (0, 'before');
ALTER TABLE f SET UNLOGGED, ADD w int DEFAULT 5;
CREATE UNLOGGED TABLE g (id int REFERENCES f);
CREATE TABLE k (id serial PRIMARY KEY, v text);
INSERT INTO k (v) VALUES ('one'), ('two');
ALTER TABLE k SET UNLOGGED;
ALTER SEQUENCE s SET UNLOGGED;
DO $$ BEGIN EXECUTE 'CREATE UNLOGGED TABLE h (id int PRIMARY KEY)'; INSERT INTO h SELECT generate_series(1, 10); END $$;
PREPARE q AS SELECT 7 AS y;
CREATE UNLOGGED TABLE i AS EXECUTE q;
CREATE UNLOGGED TABLE j (id serial PRIMARY KEY, v text);
CREATE UNLOGGED TABLE nokey (v text);
CREATE TABLE logged (id int PRIMARY KEY, n int);
INSERT INTO logged SELECT g, 0 FROM generate_series(1, 50) g;
SQL
$c->drain;
$c->fails(1, 'CREATE TABLE l (id int REFERENCES a)', '42P16', qr/may reference only permanent/, 'a logged table cannot refer to an unlogged one');
$c->fails(1, 'CREATE TEMP TABLE t (a int); ALTER TABLE t SET UNLOGGED', '42809|42P16', qr/temporary/, 'of a temporary table');
is(unlogged($_), 'a b d e f g h i j k nokey ' . ($as_parent ? 'p p1' : 'p1'), "tables are unlogged on n$_, sequences are not") for $c->all;
$c->sql(1, "INSERT INTO a SELECT g, 'row ' || g FROM generate_series(1, 2000) g; INSERT INTO us.e VALUES (1), (1); INSERT INTO p VALUES (1, 'x'); INSERT INTO k (v) VALUES ('three')");
$c->drain;
$c->sql(2, "UPDATE a SET v = v || random() WHERE id % 2 = 0; INSERT INTO f VALUES (1, 'x', 1); INSERT INTO g VALUES (1); INSERT INTO j (v) VALUES ('x'), ('y')");
$c->drain;
$c->sql(3, "INSERT INTO nokey VALUES ('x'), ('x'), ('y'); DELETE FROM a WHERE id > 1900; UPDATE logged SET n = a.id FROM a WHERE a.id = logged.id");
$c->sql(1, <<'SQL');
SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
CREATE UNLOGGED TABLE gathered AS SELECT id, v FROM a WHERE id % 3 = 0;
SELECT id INTO UNLOGGED gathered_too FROM a WHERE id < 1000;
SQL
like($c->sql(1, 'SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; EXPLAIN CREATE UNLOGGED TABLE x AS SELECT id, v FROM a WHERE id % 3 = 0'),
	qr/Gather/, 'tables are made of what parallel workers read');
$c->sql(2, <<'SQL');
CREATE UNLOGGED TABLE by_random (id int PRIMARY KEY);
CREATE UNLOGGED TABLE by_random_nokey (v text);
INSERT INTO by_random SELECT generate_series(1, 100);
INSERT INTO by_random_nokey SELECT 'x' FROM generate_series(1, 100);
CREATE UNLOGGED TABLE swapped AS SELECT 1 AS x;
SQL
$c->same('created and written');

# ---------- a stop

ok($c->cluster('stop-node', 2) && $c->cluster('start-node', 2), 'a node is stopped and started');
$c->wait_state(2, 'online', 60);
unlike($c->node_log(2), qr/have lost their rows/, 'nothing is lost by a stop');
$c->same('after a stop');

# ---------- a crash

$c->cluster('kill-node', 2);
$c->sql(1, <<'SQL');
UPDATE a SET v = 'while n2 is away' WHERE id < 10;
DELETE FROM h WHERE id > 5;
INSERT INTO a SELECT g, 'new' FROM generate_series(5000, 5400) g;
INSERT INTO nokey VALUES ('x'), ('z');
DELETE FROM nokey WHERE v = 'y';
TRUNCATE b;
INSERT INTO b VALUES (11);
ALTER TABLE a RENAME TO a_new;
ALTER TABLE a_new ADD z int DEFAULT 3;
CREATE INDEX ON a_new (v);
ALTER TABLE g ADD CONSTRAINT gk FOREIGN KEY (id) REFERENCES f;
CREATE UNLOGGED TABLE since (id int PRIMARY KEY, v text);
INSERT INTO since SELECT g, 'since' FROM generate_series(1, 20) g;
UPDATE logged SET n = n + a_new.id FROM a_new WHERE a_new.id = logged.id;
CREATE TABLE copied AS SELECT * FROM a_new;
CREATE MATERIALIZED VIEW seen AS SELECT count(*) FROM a_new;
DROP TABLE us.e;
ALTER TABLE i SET LOGGED;
ALTER TABLE by_random SET LOGGED, ADD r float8 DEFAULT random();
ALTER TABLE by_random_nokey SET LOGGED, ADD r float8 DEFAULT random();
BEGIN; ALTER TABLE h SET LOGGED; INSERT INTO h VALUES (100); UPDATE h SET id = id + 1000; COMMIT;
SQL
$c->cluster('start-node', 2);
$c->wait_state(2, 'online', 60);
$c->node_logs(2, qr/\d+ unlogged tables of database "app" have lost their rows/, 'the node knows what it has lost');
$c->replicator_logs(qr/n2.*its unlogged tables in database "app" are fetched from node/, 'and they are fetched');
is(missing(2), 0, 'all are there when it is online');
is($c->sql(2, 'SELECT count(*) FROM lockstep.unlogged_missing'), 0, 'those that were dropped are forgotten');
$c->same('after the crash of a node');
is($c->sql(2, 'SELECT count(*) FROM a_new'), 2301, 'no row is lost');
is($c->sql(2, 'SELECT (SELECT count(*) FROM by_random), (SELECT count(*) FROM by_random_nokey)'), '100|100', 'rows that SET LOGGED has sent, and ALTER TABLE has computed, are there once');
$c->sql(2, "UPDATE a_new SET v = 'again' WHERE id > 1890; DELETE FROM since WHERE id = 1; REFRESH MATERIALIZED VIEW seen");
$c->drain;
$c->sql(3, "UPDATE since SET v = 'n3'");
$c->same('and they are written as before');

# ---------- under load, again and again

my $load = $c->session(1);
$load->send(q{DO $$ BEGIN FOR i IN 1 .. 3000 LOOP UPDATE a_new SET v = i::text WHERE id = 1 + i % 50; INSERT INTO nokey VALUES (i::text); COMMIT; END LOOP; END $$});
for my $round (1 .. 2)
{
	$c->cluster('kill-node', 3);
	$c->cluster('start-node', 3);
	$c->wait_state(3, 'online', 90);
	is(missing(3), 0, "under load, crash $round: all are there");
}
$load->finish(300);		# 3000 commits, each of which waits for the others, too
$c->same('after crashes under load');

# ---------- another table gets the name of one whose rows are about to be sent

my $swap = $c->session(2);
$swap->query('BEGIN; ALTER TABLE swapped RENAME TO swapped_old; CREATE UNLOGGED TABLE swapped (LIKE swapped_old)');
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%send\_unlogged%' AND state = 'active' AND pid <> pg_backend_pid()") }, 60), 'n1 sends the rows');
ok($c->wait_sql(1, "SELECT count(*) > 0 FROM lockstep.waits WHERE node = 'n1' AND blocker_node = 'n2' AND blocker_pid = " . $swap->pid, 't', 60), 'and waits for the lock');
$swap->query('COMMIT');
is($swap->error, '', 'which another transaction had');
$swap->finish;
$c->wait_state(3, 'online', 60);
$c->node_logs(1, qr/unlogged table "swapped_old" has got its name while/, 'a table that is not locked is not sent');
is(missing(3), 0, 'but afterwards');
$c->same('after tables were swapped');

# ---------- all at once

$c->cluster('kill-node', $_) for $c->all;
$c->cluster('start-node', $_) for $c->all;
$c->wait_state($_, 'online', 90) for $c->all;
$c->wait_until(sub { missing(1) + missing(2) + missing(3) == 0 }, 30);
is($c->sql($_, 'SELECT (SELECT count(*) FROM a_new), (SELECT count(*) FROM nokey), (SELECT count(*) FROM g), (SELECT count(*) FROM h), (SELECT count(*) > 0 FROM copied)'), '0|0|0|6|t', "after the crash of all nodes they are empty on n$_, and what is logged is there") for $c->all;
$c->sql(1, "INSERT INTO a_new VALUES (1, 'anew'); INSERT INTO nokey VALUES ('anew'); INSERT INTO k (v) VALUES ('four')");
$c->same('and can be written');
cmp_ok($c->sql(2, 'SELECT id FROM k'), '>', 3, 'sequences go on');
my $out = $c->ctl('verify');
like($out, qr/equal|no differences/i, 'lockstepctl verify') or diag $out;

done_testing;
