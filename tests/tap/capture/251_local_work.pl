# What runs on one node only - VACUUM, ANALYZE, REINDEX, CLUSTER, autovacuum -
# calls functions of users: what these write is replicated, or refused.  And
# nothing that a client can say turns capture off by taking lockstep's own
# objects away.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "autovacuum_naptime = '1s'\nlog_autovacuum_min_duration = 0\n");

# ---------- functions that write, in expressions of indexes

$c->sql(1, <<'SQL');
CREATE TABLE log (id int, w text);
CREATE FUNCTION note(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN INSERT INTO public.log VALUES (i, random()::text); RETURN 1; END $$;
CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('x.writes', true) = 'on' OR
		(SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) = 'autovacuum worker'
	THEN PERFORM public.note(i); END IF;
	RETURN i;
END $$;
CREATE TABLE t (id int PRIMARY KEY, v int) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT g, g FROM generate_series(1, 10) g;
CREATE INDEX ti ON t (f(v));
ALTER TABLE t CLUSTER ON t_pkey;
SQL

my $rows = 0;
for my $command ('ANALYZE t', 'VACUUM ANALYZE t', 'VACUUM FULL t', 'REINDEX TABLE t', 'CLUSTER t', 'BEGIN; ANALYZE t; COMMIT')
{
	$c->sql(1, "SET x.writes = on; $command");
	my $now = $c->sql(1, 'SELECT count(*) FROM log');
	cmp_ok($now, '>', $rows, "$command: the function wrote");
	$rows = $now;
	$c->same("$command: what it wrote is on both nodes");
}

# autovacuum
$c->sql(1, 'ALTER TABLE t SET (autovacuum_enabled = on, autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0)');
$c->sql(1, 'UPDATE t SET id = id + 100');
my $refused = qr/cannot change table "log" in an autovacuum worker on a node/;
ok($c->wait_until(sub { $c->node_log(1) =~ $refused }, 30), 'a function that writes in an autovacuum worker is refused');
ok($c->wait_until(sub { $c->node_log(2) =~ $refused }, 30), 'on the other node, too');
is($c->sql(1, 'SELECT count(*) FROM log'), $rows, 'it has written nothing');
$c->sql(1, 'ALTER TABLE t SET (autovacuum_enabled = off)');
$c->same('equal after autovacuum');

# ---------- the index that a table is clustered on, which is marked on all nodes

# another one is marked while CLUSTER, which found its own marked, waits for the table
$c->sql(1, 'CREATE TABLE m (a int PRIMARY KEY, b int UNIQUE); ALTER TABLE m CLUSTER ON m_pkey');
$c->drain;
my $alters = $c->session(1);
$alters->query($_) for 'BEGIN', 'ALTER TABLE m CLUSTER ON m_b_key';
my $clusters = $c->session(1);
$clusters->send('CLUSTER m USING m_pkey');
$c->wait_sql(1, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CLUSTER m%' AND wait_event_type = 'Lock'", 1, 20);
$alters->query('COMMIT');
is($clusters->finish(30) . $clusters->error, '', 'CLUSTER goes on');
$c->drain;
is($c->sql($_, "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'm'::regclass AND indisclustered"), 'm_pkey', "n$_: the mark of the one that came last")
	for $c->all;
$c->same('the mark');

# ---------- lockstep's own objects

for my $command (
	'ALTER SCHEMA lockstep RENAME TO other',
	'ALTER EXTENSION lockstep SET SCHEMA public',
	'ALTER EXTENSION lockstep DROP TABLE lockstep.progress',
	'DROP SCHEMA lockstep CASCADE',
	'DROP TABLE lockstep.progress CASCADE',
	'DROP VIEW lockstep.forwarded',
	'DROP FUNCTION lockstep.apply_wait(bigint)',
	'ALTER TABLE lockstep.progress RENAME TO other',
	'ALTER TABLE lockstep.progress SET SCHEMA public',
	'ALTER FUNCTION lockstep.apply_wait(bigint) RENAME TO other',
	'ALTER ROUTINE lockstep.apply_wait(bigint) RENAME TO other',
	'ALTER FUNCTION lockstep.apply_wait(bigint) SET SCHEMA public',
	"ALTER FUNCTION lockstep.fingerprint() SET search_path = 'public'",
	'CREATE TABLE lockstep.t (id int)',
	'DROP OWNED BY postgres',
	'DO $$ BEGIN EXECUTE \'ALTER SCHEMA lockstep RENAME TO other\'; END $$')
{
	$c->fails(1, $command, '0A000', qr/./, "refused: $command");
}
$c->sql(1, 'INSERT INTO t VALUES (1000, 1)');
$c->same('replication goes on');

# DROP EXTENSION stays possible where it is documented: on one node that has left its cluster
$c->ctl('drop', 'n1');
$c->leave_cluster(1);
$c->fails(1, "BEGIN; INSERT INTO t VALUES (1001, 1); DROP EXTENSION lockstep; COMMIT", '0A000|57P03', qr/./,
	'not together with changes');
$c->sql(1, 'DROP EXTENSION lockstep');
is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 1000'), 1, 'DROP EXTENSION leaves the data');

done_testing;
