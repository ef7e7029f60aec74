# How lockstepctl verify --repair makes a node equal to the others while they are
# written to, and the node too: rows of every kind of table, sequences, large
# objects. What is not safe is refused. Nothing of it reaches the other nodes, and
# whoever is killed meanwhile leaves nothing half done.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

sub verify { return $c->ctl('verify', @_) }

$c->sql(1, <<'SQL');
CREATE ROLE reader;
CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE, f float8, x xml, g int GENERATED ALWAYS AS (id * 2) STORED);
INSERT INTO t SELECT i, 'value ' || i, i / 3.0, '<?xml version="1.0"?><a/>' FROM generate_series(1, 3000) i;
CREATE TABLE child (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, t int REFERENCES t, n int CHECK (n > 0));
INSERT INTO child (t, n) SELECT i, 1 FROM generate_series(1, 100) i;
CREATE TABLE keyless (a int, b text);
INSERT INTO keyless SELECT i % 5, 'b' FROM generate_series(1, 20) i;
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE TABLE odd ("Odd ' Name" mood, ms mood[], d small, b bytea, big text);
INSERT INTO odd SELECT 'ok', '{sad,ok}', i, '\x00ff', repeat(md5('x'), 1000) FROM generate_series(1, 9) i;
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
INSERT INTO p VALUES (1, E'in a\tpartition\\'), (2, NULL);
CREATE MATERIALIZED VIEW mv AS SELECT id FROM t WHERE id < 10;
CREATE TABLE audit (what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO audit VALUES (TG_OP); RETURN NULL; END$$;
CREATE TRIGGER note AFTER INSERT OR DELETE ON keyless FOR EACH ROW EXECUTE FUNCTION note();
ALTER TABLE keyless ENABLE ALWAYS TRIGGER note;
CREATE SEQUENCE s;
SELECT setval('s', 50);
SELECT lo_from_bytea(4711, convert_to(repeat('what all have', 1000), 'UTF8'));
SELECT lo_put(4711, 100000, 'after a hole');
SELECT lo_create(4713);
GRANT SELECT ON LARGE OBJECT 4711 TO reader;
COMMENT ON LARGE OBJECT 4711 IS 'it''s large';
CREATE TABLE hot (id int PRIMARY KEY, n int DEFAULT 0);
INSERT INTO hot SELECT i, 0 FROM generate_series(1, 300) i;
SQL
$c->same('before');

my ($out, $err, $rc) = verify('--repair', 'n2');
is($rc, 0, 'nothing to repair') or diag("$out\n$err");

# ---------- everything at once, on a node that is written to

$c->sql_local(2, <<'SQL');
SET session_replication_role = replica;
UPDATE t SET v = 'other ' || id, f = '-0' WHERE id % 100 = 0;
DELETE FROM t WHERE id > 2900;
INSERT INTO t (id, v) SELECT i, 'extra ' || i FROM generate_series(5000, 5010) i;
UPDATE t SET v = 'swapped' WHERE id = 1;
UPDATE t SET v = 'value 1' WHERE id = 2;
UPDATE t SET v = 'value 2' WHERE id = 1;
UPDATE t SET x = '<a/>' WHERE id = 5;
DELETE FROM child WHERE id < 10;
INSERT INTO keyless VALUES (1, 'b'), (7, 'new');
DELETE FROM keyless WHERE ctid = (SELECT min(ctid) FROM keyless);
UPDATE odd SET "Odd ' Name" = 'sad', b = NULL WHERE d = 3;
UPDATE odd SET big = big || ' ' WHERE d = 4;
DELETE FROM p;
SELECT setval('s', 7);
SELECT lo_put(4711, 3, 'OTHER');
SELECT lo_unlink(4713);
SELECT lo_create(4714);
SQL
my $script = $c->file('load.sql', <<'SQL');
\set id random(1, 300)
UPDATE hot SET n = n + 1 WHERE id = :id;
INSERT INTO keyless VALUES (99, 'written meanwhile');
SQL
my @load = map { $c->pgbench_start($_, '-n', '-c', 2, '-T', 12, '--max-tries=0', '-f', $script) } 1, 3;
my $open = $c->session(2);		# in the way of the repair, on the node itself
$open->query('BEGIN; UPDATE t SET f = 0 WHERE id = 200');
($out, $err, $rc) = verify('--repair', 'n2', '--rows', 3);
is($rc, 0, 'repaired under load') or diag("$out\n$err");
like($out, qr/rows of public\.t: \d+ rows/, 'it says what differed');
like($out, qr/repaired: database app: rows of public\.t: 43 removed, 132 added/, 'and what was done') or diag($out);
like($out, qr/repaired: database app: large object 4714/, 'of large objects, too');
my ($last) = $out =~ /(\w+)\s*\z/;
is($last, 'equal', 'and that all are equal now');
$open->send('COMMIT');
$open->finish;
$_->{handle}->finish for @load;
unlike(join('', map { ${ $_->{text} } } @load), qr/aborted/, 'nobody else was disturbed');
$c->wait_state(2, 'online');
$c->same('the same by the independent comparison');
is($c->sql(2, "SELECT count(*) FROM audit WHERE what = 'DELETE'"), 0, 'no trigger has fired');
is($c->sql(2, 'SELECT x::text FROM t WHERE id = 5'), '<?xml version="1.0"?><a/>', 'XML as it was');
is($c->sql(2, "SELECT description FROM pg_description WHERE objoid = 4711 AND classoid = 'pg_largeobject'::regclass"), "it's large", 'a comment');
my ($journal) = $c->ctl('journal', '--limit', 1000000);
unlike($journal, qr/other 100|extra 5000/, 'nothing of it is in the journal');
$c->sql(2, "INSERT INTO t (id, v) VALUES (7777, 'works')");
$c->same('the node works as before');

# ---------- who is right

$c->sql_local(1, 'UPDATE hot SET n = -1 WHERE id = 1');
($out, $err, $rc) = verify('--repair', 'n2');
is($rc, 2, 'the others must agree');
like($err, qr/do not agree about table public\.hot: name the one that is right by --source/, 'said');
is($c->node_status(2)->{state}, 'online', 'and the node is in again');
unlike($out, qr/^repaired/m, 'nothing is said to be repaired');
$c->sql_local(2, 'UPDATE hot SET n = -2 WHERE id = 1');
($out, $err, $rc) = verify('--repair', 'n2', '--source', 'n3');
is($rc, 1, 'n1 still differs') or diag("$out\n$err");
like($out, qr/n1: \(1,-1\)\n.*n2, n3: /, 'only that');
($out, $err, $rc) = verify('--repair', 'n1');
is($rc, 0, 'repaired, too') or diag("$out\n$err");
($out, $err, $rc) = verify('--repair', 'n9');
is($rc, 2, 'no such node');

# ---------- what is not safe

$c->sql_local(3, 'ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0); UPDATE hot SET n = -3 WHERE id = 3');
($out, $err, $rc) = verify('--repair', 'n3');
is($rc, 2, 'another schema is not repaired');
like($err, qr/n3 cannot be repaired: schema TABLE public\.t differs.*Clone it anew/s, 'remedy');
is($c->sql(3, 'SELECT n FROM hot WHERE id = 3'), -3, 'nor anything else');
$c->sql_local(3, 'ALTER TABLE t DROP CONSTRAINT c');
my (undef, $refused) = $c->try(3, "SELECT lockstep.repair_start()");
like($refused, qr/55000.*only while the same session holds/s, 'only who holds the node repairs it');
(undef, $refused) = $c->try(3, "SELECT lockstep.hold_commits(NULL, NULL);\nSELECT lockstep.repair_start();\n" .
	"UPDATE hot SET n = -4 WHERE id = 4;\n");
is($refused, '', 'which it does');
(undef, $refused) = $c->try(3, "SELECT lockstep.hold_commits(NULL, NULL);\nSELECT lockstep.repair_start();\n" .
	"SELECT lockstep.release_commits();\nUPDATE hot SET n = -5 WHERE id = 5;\n");
like($refused, qr/55000/, 'to the end');
isnt($c->sql(3, 'SELECT n FROM hot WHERE id = 5'), -5, 'else it does not commit');

# ---------- killed in the middle: nothing is changed, and the node waits for the operator

my $lock = $c->session(3);
$lock->query('SET lockstep.replicate = off; BEGIN; LOCK TABLE hot IN ROW EXCLUSIVE MODE');
kill 'STOP', $lock->pid;		# so that it does not yield
my $h = IPC::Run::start([ "$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, 'verify', '--table', 'hot',
	'--repair', 'n3' ], '<', \undef, '>', \my $o, '2>', \my $e);
$c->wait_sql(3, 'SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted ' .
	"AND application_name = 'lockstepctl'", 1);
is($c->node_status(3)->{state}, 'dropped', 'the node is out while it is repaired');
$h->kill_kill;
kill 'CONT', $lock->pid;
$lock->query('ROLLBACK');
$c->wait_sql(3, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstepctl'", 0);
is($c->sql(3, 'SELECT n FROM hot WHERE id = 3'), -3, 'nothing was changed');
$c->ctl('attach', 'n3');
$c->wait_state(3, 'online');
($out, $err, $rc) = verify('--repair', 'n3');
is($rc, 0, 'repaired in the end') or diag("$out\n$err");
$c->same('all are equal');

# ---------- two nodes: the operator decides

$c->cluster('stop-node', 3);
$c->wait_until(sub { $c->node_status(3)->{state} eq 'dropped' });
$c->sql_local(1, 'DELETE FROM hot WHERE id = 9');
($out, $err, $rc) = verify('--repair', 'n1');
is($rc, 0, 'of two nodes, the one that is named') or diag("$out\n$err");
is($c->sql(1, 'SELECT count(*) FROM hot WHERE id = 9'), 1, 'has what the other has');

done_testing();
