# Commands that run outside of transaction blocks, or end transactions
# themselves, give equal results on all nodes, also when a node, a backend or the
# replicator goes in the middle: CREATE and DROP INDEX CONCURRENTLY, DETACH
# PARTITION CONCURRENTLY, REINDEX CONCURRENTLY, VACUUM, CLUSTER, procedures and
# DO blocks with COMMIT and ROLLBACK, ALTER TYPE ADD VALUE; ALTER SYSTEM and
# tablespaces are the node's own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 200ms\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int, w text); INSERT INTO t SELECT g, g % 7, g::text FROM generate_series(1, 1000) g');
$c->drain;

# valid|definition of an index on every node, or ''
sub indexes
{
	my ($name) = @_;
	return map { scalar $c->sql($_, "SELECT indisvalid || '|' || pg_get_indexdef(indexrelid) FROM pg_index WHERE indexrelid = to_regclass('$name')") } 1 .. 3;
}
sub is_index
{
	my ($name, $like, $test) = @_;
	my @found = indexes($name);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_deeply([ map { $_ =~ $like ? 1 : 0 } @found ], [ 1, 1, 1 ], $test) or diag(join("\n", @found));
}

# ---------- CREATE INDEX CONCURRENTLY

$c->sql(1, 'CREATE INDEX CONCURRENTLY t_v ON t (v)');
$c->drain;
is_index('t_v', qr/^true\|CREATE INDEX t_v ON public\.t USING btree \(v\)/, 'CREATE INDEX CONCURRENTLY');
$c->sql(2, 'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS t_w ON t (w, "id") WHERE v > 2');
$c->drain;
$c->sql(3, "CREATE INDEX concurrently /* CONCURRENTLY */ \"CONCURRENTLY\" ON public.t USING btree (lower(w || 'concurrently'))");
$c->sql(3, 'CREATE INDEX CONCURRENTLY ON t (w)');
$c->drain;
is_index('t_w', qr/^true\|CREATE UNIQUE INDEX t_w .*WHERE \(v > 2\)/, 'unique, partial, of two columns');
is_index('"CONCURRENTLY"', qr/^true\|CREATE INDEX "CONCURRENTLY"/, 'the word in other places');
is_index('t_w_idx', qr/^true\|/, 'without a name');
$c->fails(1, 'BEGIN; CREATE INDEX CONCURRENTLY x ON t (v)', '25001', qr/CREATE INDEX CONCURRENTLY cannot run inside a transaction block/, 'not inside a block');
$c->fails(1, 'DO $$ BEGIN EXECUTE \'CREATE INDEX CONCURRENTLY x ON t (v)\'; END $$', '25001', qr/cannot be executed from a function/, 'nor from a function');
$c->fails(1, 'CREATE UNIQUE INDEX CONCURRENTLY x ON t (v)', '23505', qr/could not create unique index "x"/, 'duplicates');
$c->drain;
is_index('x', qr/^false\|/, 'leave an invalid index, on every node');
$c->sql(2, 'DROP INDEX x');
$c->sql(1, 'CREATE TABLE pt (id int) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF pt FOR VALUES FROM (0) TO (100); CREATE TABLE p2 PARTITION OF pt FOR VALUES FROM (100) TO (200); CREATE INDEX pi ON pt (id)');
$c->fails(1, 'CREATE INDEX CONCURRENTLY x ON pt (id)', '0A000', qr/cannot create index on partitioned table "pt" concurrently/, 'not on a partitioned table, as in PostgreSQL');
$c->sql(1, 'CREATE TEMP TABLE tt (id int); CREATE INDEX CONCURRENTLY tti ON tt (id); DROP INDEX CONCURRENTLY tti');
$c->same('equal after CREATE INDEX CONCURRENTLY');

# writers on all nodes meanwhile
{
	my @load = map { $c->pgbench_start($_, '-n', '-c', 2, '-T', 6, '--max-tries', 1000, '-f',
		$c->file("load$_.sql", "\\set id random(1, 1000)\nUPDATE t SET v = v + 1, w = w || 'x' WHERE id = :id;\n")) } 1 .. 3;
	for my $round (1 .. 4)
	{
		my $n = 1 + $round % 3;
		my (undef, $err) = $c->try($n, "CREATE INDEX CONCURRENTLY load_$round ON t (v)");
		is($err, '', "under load, on n$n");
		(undef, $err) = $c->try(1 + ($round + 1) % 3, 'DROP INDEX CONCURRENTLY load_' . ($round - 1)) if $round > 1;
		is($err, '', "dropped under load on another node") if $round > 1;
	}
	$_->{handle}->finish for @load;
	unlike(${ $_->{text} }, qr/aborted/, 'no client was aborted') for @load;
}
$c->same('equal after load');

# ---------- DROP INDEX CONCURRENTLY

$c->sql(2, 'DROP INDEX CONCURRENTLY "CONCURRENTLY"');
$c->sql(1, 'DROP INDEX CONCURRENTLY IF EXISTS t_w');
$c->sql(1, 'DROP INDEX CONCURRENTLY IF EXISTS no_such_index');
$c->drain;
is_deeply([ indexes('"CONCURRENTLY"'), indexes('t_w') ], [ ('') x 6 ], 'DROP INDEX CONCURRENTLY');
$c->fails(1, 'BEGIN; DROP INDEX CONCURRENTLY t_v', '25001', qr/cannot run inside a transaction block/, 'not inside a block');
$c->fails(1, 'DROP INDEX CONCURRENTLY t_v, t_w_idx', '0A000', qr/does not support dropping multiple objects/, 'one at a time, as in PostgreSQL');
$c->fails(1, 'DROP INDEX CONCURRENTLY t_v CASCADE', '0A000', qr/does not support CASCADE/, 'no CASCADE');
$c->fails(1, 'DROP INDEX CONCURRENTLY pi', '0A000', qr/cannot drop partitioned index "pi" concurrently/, 'no partitioned index');

# ---------- DETACH PARTITION CONCURRENTLY

$c->sql(2, 'INSERT INTO pt VALUES (1), (101); ALTER TABLE pt DETACH PARTITION p1 CONCURRENTLY');
$c->drain;
is($c->sql($_, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'pt'::regclass"), 1, "DETACH PARTITION CONCURRENTLY (n$_)") for 1 .. 3;
$c->fails(1, 'BEGIN; ALTER TABLE pt DETACH PARTITION p2 CONCURRENTLY', '25001', qr/DETACH CONCURRENTLY cannot run inside a transaction block/, 'not inside a block');
$c->fails(1, 'ALTER TABLE pt DETACH PARTITION p2 FINALIZE', '55000', qr/cannot complete detaching partition/, 'FINALIZE of nothing');
$c->same('equal after DETACH');

# ---------- the node's own: REINDEX, VACUUM, CLUSTER, ALTER SYSTEM, tablespaces

for my $command ('REINDEX INDEX CONCURRENTLY t_v', 'REINDEX TABLE CONCURRENTLY t', 'REINDEX (CONCURRENTLY) SCHEMA public', 'REINDEX DATABASE CONCURRENTLY app',
	'VACUUM', 'VACUUM (FULL, ANALYZE) t', 'VACUUM FULL', 'CLUSTER lockstep.progress USING progress_pkey', 'ANALYZE', 'ALTER TABLE t CLUSTER ON t_v; CLUSTER', 'CLUSTER t', 'CHECKPOINT',
	"ALTER SYSTEM SET lockstep.max_row_keys = 50000", 'ALTER SYSTEM RESET ALL')
{
	my (undef, $err) = $c->try(2, join ';', split /; /, $command);
	unlike($err, qr/^(?:psql:.*?: )?(ERROR|FATAL)/m, $command);
}
is_index('t_v', qr/^true\|/, 'REINDEX CONCURRENTLY leaves the index as it was');
$c->same('equal after them');

# a REINDEX CONCURRENTLY that fails leaves an index here, which can be dropped here
my $holder = $c->session(2);
$holder->do('BEGIN; UPDATE t SET w = w WHERE id = 1');
my $reindex = $c->session(2);
$reindex->send('REINDEX INDEX CONCURRENTLY t_v');
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_class WHERE relname = 't_v_ccnew'") == 1 }, 10), 'REINDEX CONCURRENTLY is under way');
$reindex->blocked(0.3);
$c->sql(2, 'SELECT pg_cancel_backend(' . $reindex->pid . ')');
$reindex->finish(10);
$holder->do('COMMIT');
like($reindex->error, qr/57014/, 'cancelled');
is_deeply([ map { $_ eq '' ? 0 : 1 } indexes('t_v_ccnew') ], [ 0, 1, 0 ], 'it leaves an invalid index on its node');
$c->sql(2, 'DROP INDEX t_v_ccnew');
is_deeply([ indexes('t_v_ccnew') ], [ '', '', '' ], 'which DROP INDEX takes away there');
$c->sql(2, 'DROP INDEX t_v');
$c->drain;
is_deeply([ indexes('t_v') ], [ '', '', '' ], 'an index that is valid goes everywhere');

sub create_tablespace
{
	my ($name, $n, $alone) = @_;
	my $place = "$c->{top}/$name$n";

	mkdir $place or die;
	system('chown', 'postgres:', $place) if $> == 0;
	chmod 0700, $place;
	my $command = "CREATE TABLESPACE $name LOCATION '$place'";
	$alone ? $c->sql_local($n, $command) : $c->sql($n, $command);
}

create_tablespace('ts', $_) for 1, 2;
is($c->sql($_, "SELECT count(*) FROM pg_tablespace WHERE spcname = 'ts'"), $_ < 3 ? 1 : 0, "CREATE TABLESPACE on one node at a time (n$_)") for 1 .. 3;
$c->fails(1, 'CREATE TABLE in_ts (id int) TABLESPACE ts', '42704', qr/tablespace "ts" does not exist.*happened on node "n3"/s, 'a table in it needs it on every node');
create_tablespace('ts', 3);
$c->sql(1, 'CREATE ROLE u_ts; GRANT CREATE ON SCHEMA public TO u_ts');
$c->sql(1, 'GRANT CREATE ON TABLESPACE ts TO u_ts');
$c->fails(1, 'SET ROLE u_ts; CREATE TABLE theirs (id int) TABLESPACE ts', '42501', qr/permission denied for tablespace ts.*happened on node "n[23]"/s, 'and the right on every node');
$c->sql(1, 'CREATE TABLE in_ts (id int) TABLESPACE ts; INSERT INTO in_ts VALUES (1)');
$c->sql(2, "ALTER TABLE t SET TABLESPACE ts; ALTER TABLE t SET TABLESPACE pg_default; GRANT CREATE ON TABLESPACE ts TO PUBLIC; COMMENT ON TABLESPACE ts IS 'here'");
$c->same('equal with tablespaces');

# one that was away lacks a tablespace: it waits for it, and says so
$c->cluster('stop-node', 3);
ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
create_tablespace('later', $_) for 1, 2;
$c->sql(1, 'CREATE TABLE in_later (id int) TABLESPACE later; INSERT INTO in_later VALUES (1); CREATE INDEX ON in_later (id) TABLESPACE later');
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_until(sub { $c->reason(3) =~ /tablespace "later" does not exist/ }, 30), 'the reason is shown') or diag($c->reason(3));
is($c->sql(1, 'SELECT count(*) FROM in_later'), 1, 'the others go on');
create_tablespace('later', 3, 'alone');
$c->ctl('attach', 'n3');
ok($c->wait_state(3, 'online', 30), 'it has one now, and is online') or diag($c->reason(3));
$c->drain;
$c->same('equal with a tablespace that was made later');
$c->sql(1, 'DROP TABLE in_ts, in_later; DROP OWNED BY u_ts; DROP ROLE u_ts');
$c->drain;
for my $name ('ts', 'later')
{
	$c->sql($_, "DROP TABLESPACE $name") for 1 .. 3;
}

# ---------- procedures and DO blocks that end transactions

$c->sql(1, <<'SQL');
CREATE TABLE pr (id int PRIMARY KEY, x text);
CREATE PROCEDURE fill(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		INSERT INTO pr VALUES (i, random()::text);
		IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
	END LOOP;
END $$;
CREATE PROCEDURE ddl() LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE made_1 (id int); INSERT INTO made_1 VALUES (1); COMMIT;
	CREATE TABLE made_2 (id int); ROLLBACK;
	BEGIN
		INSERT INTO made_1 VALUES (2); INSERT INTO made_1 VALUES (1 / 0);
	EXCEPTION WHEN division_by_zero THEN INSERT INTO made_1 VALUES (3); END;
	COMMIT AND CHAIN;
	INSERT INTO made_1 VALUES (4);
END $$;
SQL
$c->sql(1, 'CALL fill(10)');
is($c->sql(1, 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM pr'), '1,2,4,5,7,8,10', 'CALL with COMMIT and ROLLBACK');
$c->drain;
$c->sql(2, 'CALL ddl()');
$c->sql(3, 'DO $$ BEGIN FOR i IN 20 .. 25 LOOP INSERT INTO pr VALUES (i, clock_timestamp()::text); COMMIT; END LOOP; ROLLBACK; END $$');
$c->same('equal after procedures and DO');
is($c->sql(1, 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM made_1'), '1,3,4', 'DDL in a procedure');

# one whose second transaction fails on a peer keeps the first
$c->sql_local(3, 'INSERT INTO pr VALUES (31, NULL)');
$c->fails(1, 'DO $$ BEGIN INSERT INTO pr VALUES (30, 1); COMMIT; INSERT INTO pr VALUES (31, 1); COMMIT; INSERT INTO pr VALUES (32, 1); END $$',
	'23505', qr/happened on node "n3"/, 'the second transaction of a DO block fails on a peer');
$c->sql_local(3, 'DELETE FROM pr WHERE id = 31');
$c->drain;
is($c->sql($_, 'SELECT count(*) FROM pr WHERE id BETWEEN 30 AND 39'), 1, "the first one stays (n$_)") for 1 .. 3;

# conflicts between two procedures on different nodes end in order
my @calls = map { $c->session($_) } 1, 2;
my $loop = 'DO $$ BEGIN FOR i IN 1 .. 30 LOOP BEGIN UPDATE pr SET x = x || 1 WHERE id = 1; EXCEPTION WHEN serialization_failure THEN NULL; END; BEGIN COMMIT; END; END LOOP; END $$';
$_->send($loop) for @calls;
$_->finish(60) for @calls;
for (@calls)
{
	like($_->error, qr/^$|40001/, 'a procedure in a conflict finishes, or gets 40001');
}
$c->same('equal after conflicts of procedures');

# ---------- ALTER TYPE ADD VALUE, used at once elsewhere

$c->sql(1, "CREATE TYPE e AS ENUM ('a'); CREATE TABLE et (id int PRIMARY KEY, e e)");
$c->drain;
for my $i (1 .. 6)
{
	$c->sql(1 + $i % 3, "ALTER TYPE e ADD VALUE 'v$i' BEFORE 'a'");
	my $n = 1 + ($i + 1) % 3;
	ok($c->wait_until(sub { $c->sql($n, "SELECT count(*) FROM pg_enum WHERE enumlabel = 'v$i'") == 1 }, 10), "v$i has come to n$n");
	$c->sql($n, "INSERT INTO et VALUES ($i, 'v$i')");
}
$c->same('equal after ALTER TYPE ADD VALUE');
is($c->sql(3, 'SELECT string_agg(e::text, \',\' ORDER BY e) FROM et'), 'v1,v2,v3,v4,v5,v6', 'in the same order');

# ---------- crashes in the middle

$c->sql(1, <<'SQL');
CREATE FUNCTION slow(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE start timestamptz := clock_timestamp();
BEGIN
	IF current_setting('lockstep.node_name') = ANY (string_to_array(current_setting('x.slow', true), ',')) OR
		EXISTS (SELECT FROM pg_db_role_setting, unnest(setconfig) s WHERE s = 'x.slow=' || current_setting('lockstep.node_name'))
	THEN PERFORM pg_sleep(8); END IF;
	RETURN i;
END $$;
CREATE TABLE s (id int PRIMARY KEY);
INSERT INTO s VALUES (1);
SQL
sub build_is_running { my ($n) = @_; return $c->wait_until(sub { $c->sql($n, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1 }, 20) }

# a peer
my $s = $c->session(1);
$c->sql(1, "ALTER ROLE postgres SET x.slow = 'n2'");
$c->drain;
$s->send('CREATE INDEX CONCURRENTLY s_slow ON s (slow(id))');
ok(build_is_running(2), 'a peer builds');
$c->cluster('kill-node', 2);
$s->finish(60);
is($s->error, '', 'a peer that crashes does not keep the others');
$c->sql(1, 'ALTER ROLE postgres RESET x.slow');
$c->cluster('restart-node', 2);
ok($c->wait_state(2, 'online', 60), 'it comes back');
$c->drain;
is_index('s_slow', qr/^true\|/, 'the index is valid everywhere');
$c->same('equal after the crash of a peer');

# the replicator
$c->sql(1, "ALTER ROLE postgres SET x.slow = 'n2'");
$s->send('DROP INDEX CONCURRENTLY s_slow; ');
$s->finish(30);
is($s->error, '', 'dropped');
$c->drain;
$s->send('CREATE INDEX CONCURRENTLY s_slow ON s (slow(id))');
ok(build_is_running(2), 'a peer builds');
kill 'KILL', $c->replicator_pid;
$s->finish(60);
LockstepCluster::is_error($s->error, '08007|57P03', qr/./, 'the replicator crashes: the outcome is unknown');
$c->sql_local(1, 'ALTER ROLE postgres RESET x.slow');
$c->sql_local($_, 'ALTER ROLE postgres RESET x.slow') for 2, 3;
$c->cluster('restart-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is back") for 1 .. 3;
$c->drain;
is_index('s_slow', qr/^false\|/, 'what was not decided is nowhere');

# the first to write on the origin after that may have to retry
ok($c->wait_until(sub { my (undef, $err) = $c->try(1, 'INSERT INTO s VALUES (10) ON CONFLICT DO NOTHING'); return $err eq '' }, 20), 'writes go on');
$c->sql(1, 'DROP INDEX s_slow');

# the origin's backend
$s = $c->session(1);
$s->do("SET x.slow = 'n1'");
$s->send('CREATE INDEX CONCURRENTLY s_slow ON s (slow(id))');
ok(build_is_running(1), 'the origin builds') or diag($s->blocked(0) ? 'it waits' : $s->finish . $s->error);
$c->sql(1, 'SELECT pg_terminate_backend(' . $s->pid . ')');
eval { $s->finish(10) };
$c->sql(2, 'INSERT INTO s VALUES (2)');
$c->drain;
is_index('s_slow', qr/^false\|/, 'a backend that goes leaves an invalid index everywhere');
$c->sql(3, 'DROP INDEX s_slow');
$c->drain;
$s = $c->session(1);
$s->do("SET x.slow = 'n1'; SET statement_timeout = '3s'");		# while it builds
$s->send('CREATE INDEX CONCURRENTLY s_slow ON s (slow(id))');
$s->finish(20);
LockstepCluster::is_error($s->error, '57014', qr/statement timeout/, 'statement_timeout');
$c->drain;
is_index('s_slow', qr/^false\|/, 'leaves it, too');
$c->same('equal in the end');

done_testing;
