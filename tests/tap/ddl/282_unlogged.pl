# UNLOGGED means nothing on a node: what is created so is an ordinary table, whose
# rows are replicated and survive the crash of a node; all ways to say it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, durable => 1);

unlike(($c->try(1, 'CREATE UNLOGGED TABLE a (id int PRIMARY KEY, v text)'))[1], qr/UNLOGGED/, 'the client gets more than it asked for, without a word');
like(($c->try(1, 'SET client_min_messages = log; CREATE UNLOGGED TABLE a2 (id int PRIMARY KEY)'))[1], qr/LOG:.*UNLOGGED is ignored/, 'the log has it');
$c->fails(1, 'CREATE UNLOGGED TABLE pg_temp.x (a int)', '42P16', qr/only temporary relations/, 'among temporary ones: the error of PostgreSQL');
$c->sql(2, <<'SQL');
CREATE UNLOGGED SEQUENCE s;
CREATE UNLOGGED TABLE b AS SELECT 1 AS x;
SELECT 2 AS x INTO UNLOGGED d;
CREATE SCHEMA us CREATE UNLOGGED TABLE e (a int);
CREATE UNLOGGED TABLE p (id int, v text) PARTITION BY LIST (id);
CREATE UNLOGGED TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE f (id int PRIMARY KEY, v text);
ALTER TABLE f SET UNLOGGED, ADD w int DEFAULT 5;
ALTER TABLE f SET UNLOGGED; ALTER TABLE f SET LOGGED;
CREATE TABLE g (id int REFERENCES f);
ALTER TABLE g SET UNLOGGED;
ALTER SEQUENCE s SET UNLOGGED;
DO $$ BEGIN EXECUTE 'CREATE UNLOGGED TABLE h (id int PRIMARY KEY)'; INSERT INTO h SELECT generate_series(1, 10); END $$;
PREPARE q AS SELECT 7 AS y;
CREATE UNLOGGED TABLE i AS EXECUTE q;
CREATE TEMP TABLE t (a int);
SQL
$c->fails(1, 'CREATE TEMP TABLE t (a int); ALTER TABLE t SET UNLOGGED', '42809|42P16', qr/temporary/, 'of a temporary table');
$c->drain;
$c->sql(1, "INSERT INTO a SELECT g, 'row ' || g FROM generate_series(1, 100) g; INSERT INTO us.e VALUES (1), (1); INSERT INTO p VALUES (1, 'x')");
$c->sql(2, "UPDATE a SET v = v || random() WHERE id % 2 = 0; INSERT INTO f VALUES (1, 'x', 1); INSERT INTO g VALUES (1)");
is($c->sql($_, "SELECT count(*) FROM pg_class WHERE relpersistence = 'u'"), 0, "none is unlogged on n$_") for 1, 2;
$c->same('created and written');

$c->cluster('kill-node', 2);
$c->sql(1, "UPDATE a SET v = 'while n2 is away' WHERE id < 10; DELETE FROM h WHERE id > 5");
$c->cluster('start-node', 2);
$c->wait_state(2, 'online', 60);
$c->same('after the crash of a node');
is($c->sql(2, 'SELECT count(*) FROM a'), 100, 'no row is lost');
$c->sql(2, "UPDATE a SET v = 'again' WHERE id > 90");
$c->same('and they are written as before');

done_testing;
