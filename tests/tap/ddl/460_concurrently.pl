# CREATE INDEX and DROP INDEX CONCURRENTLY keep nobody from writing, on any node,
# while any node builds, or waits for a transaction; the indexes are complete and
# valid on all nodes afterwards, or invalid on all of them, whoever fails or goes
# in the middle: a duplicate, the session, a peer, the origin, the replicator.
# What makes an invalid index valid does so everywhere.  Indexes are defined alike on all nodes:
# each kind of thing that a definition can say.
#
# A build is held up by a row whose key takes an advisory lock.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 200ms\n");

$c->sql(1, <<'SQL');
CREATE EXTENSION amcheck;
CREATE TABLE t (id int PRIMARY KEY, k int, w text);
INSERT INTO t SELECT g, g, 'w' || g FROM generate_series(1, 300) g;
SQL
$c->create_gate(460);
$c->drain;

# ---------- what there is of an index

sub is_everywhere
{
	my ($name, $state, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->drain;
	is_deeply($c->index_states($name), [ ($state) x 3 ], $test);
}

# Is every row in it, on each node?
sub is_complete
{
	my ($name, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is_everywhere($name, 'true true', "$test: valid on all nodes");
	for my $n (1 .. 3)
	{
		my (undef, $err) = $c->try($n, "SELECT bt_index_check('$name', true)");
		is($err, '', "$test: complete on n$n");
	}
}

# ---------- the gate

my %keeper;

sub close_gate { my ($n) = @_; $keeper{$n} //= $c->session($n); $keeper{$n}->do('SELECT pg_advisory_lock(460)') }
sub open_gate { my ($n) = @_; $keeper{$n}->do('SELECT pg_advisory_unlock(460)') }
sub kill_node { my ($n) = @_; $c->cluster('kill-node', $n); delete $keeper{$n} }
sub waits_at_gate { my ($n) = @_; return $c->sql($n, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") > 0 }

sub arrives
{
	my ($n, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($c->wait_until(sub { waits_at_gate($n) }, 30), $test);
}

# Transactions of all kinds on every node, none of which may wait for a build.
my $next = 1000;

sub write_everywhere
{
	my ($test) = @_;
	my @wrong;
	for my $n (1 .. 3)
	{
		my $script = "SET statement_timeout = '20s';\n";
		for (1 .. 5)
		{
			$next++;
			$script .= "INSERT INTO t VALUES ($next, $next, 'new'); UPDATE t SET w = w || 'x' WHERE id = $next; UPDATE t SET k = k + 100000 WHERE id = 10 * $n + $_;\n"
				. "DELETE FROM t WHERE id = 100 + 10 * $n + $_; BEGIN; INSERT INTO t VALUES (-1, -1, ''); ROLLBACK;\n";
		}
		my (undef, $err) = $c->try($n, $script);
		push @wrong, "n$n: $err" if $err ne '';
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@wrong", '', $test);
}

# ---------- nobody waits

my @some = $ENV{LOCKSTEP_LONG} ? (1 .. 3) : (1, 3);
for my $n (@some)
{
	close_gate($n);
	my $s = $c->session(1);
	$s->send("CREATE INDEX CONCURRENTLY i$n ON t (gate(id), w)");
	arrives($n, $n == 1 ? 'the origin builds' : "n$n builds for n1");
	write_everywhere('all nodes write meanwhile');
	ok(waits_at_gate($n), 'it still builds');
	if ($n > 1)
	{
		is($c->sql($n, "SELECT phase ~ 'building' FROM pg_stat_progress_create_index"), 't', 'which can be watched there');
	}
	open_gate($n);
	$s->finish(60);
	is($s->error, '', 'the index is created');
	is_complete("i$n", "after a build on n$n");
}
$c->same('equal after builds');

# A writer of long ago is waited for, wherever it is, and not harmed.
for my $n (@some)
{
	my $writer = $c->session($n);
	$writer->do("BEGIN; UPDATE t SET w = 'open' WHERE id = 29$n");
	my $s = $c->session(1);
	$s->send("CREATE UNIQUE INDEX CONCURRENTLY u$n ON t (k, id) WHERE k > 0");
	ok($c->wait_until(sub { $c->sql($n, "SELECT count(*) FROM pg_stat_progress_create_index WHERE phase ~ 'waiting for writers'") == 1 }, 60),
		"n$n waits for a transaction");
	write_everywhere('all nodes write meanwhile');
	$writer->do('COMMIT');
	is($writer->error, '', 'the transaction is not harmed');
	$s->finish(60);
	is($s->error, '', 'the unique index is created');
	is_complete("u$n", "after waiting on n$n");
}

# Nor is a reader, when an index is dropped.
for my $n (@some)
{
	my $reader = $c->session($n);
	$reader->do('BEGIN; SELECT count(*) FROM t');
	my $s = $c->session(2);
	$s->send("DROP INDEX CONCURRENTLY u$n");
	ok($c->wait_until(sub { $c->sql(1, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('u$n')") eq 'f' }, 60), 'an index is being dropped');
	write_everywhere("all nodes write while it waits for a reader on n$n");
	is($c->sql($n, "SELECT to_regclass('u$n') IS NOT NULL"), 't', 'it waits');
	$reader->do('SELECT count(*) FROM t; COMMIT');
	is($reader->error, '', 'the reader is not harmed');
	$s->finish(60);
	is($s->error, '', 'it is dropped');
	is_everywhere("u$n", '', 'on all nodes');
}
$c->same('equal after waiting');

# But not for ever.
$c->set(2, 'lockstep.index_patience', '100ms');
{
	my $writer = $c->session(2);
	$writer->do("BEGIN; UPDATE t SET w = 'open' WHERE id = 21");
	my (undef, $err) = $c->try(1, 'CREATE INDEX CONCURRENTLY patient ON t (k)');
	is($err, '', 'then it goes on');
	$writer->query('COMMIT');
	LockstepCluster::is_error($writer->error, '40001', qr/in the way/, 'and who is in the way has to retry');
	is_complete('patient', 'with little patience');
}
$c->set(2, 'lockstep.index_patience', '1min');

# ---------- under load, of all kinds

$c->sql(1, 'CREATE TABLE l (id int PRIMARY KEY, k int, w text, a int[]); INSERT INTO l SELECT g, g, g::text, ARRAY[g] FROM generate_series(1, 2000) g');
$c->drain;
{
	my @load = map { $c->pgbench_start($_, '-n', '-c', 2, '-T', $ENV{LOCKSTEP_LONG} ? 30 : 8, '--max-tries', 1000, '-f', $c->file("load$_.sql", <<"SQL")) } 1 .. 3;
\\set id random(1, 2000)
\\set fresh 2000 + 3 * random(1, 1000000) + $_
UPDATE l SET k = -k, w = w || 'x' WHERE id = :id;
DELETE FROM l WHERE id = :fresh;
INSERT INTO l VALUES (:fresh, :fresh, 'new', '{1,2}') ON CONFLICT DO NOTHING;
SQL
	my @definitions = ('INDEX CONCURRENTLY %s ON l (k)', 'UNIQUE INDEX CONCURRENTLY %s ON l (id, (w || id)) INCLUDE (k) WHERE k > 0', 'INDEX CONCURRENTLY %s ON l USING gin (a)',
		'UNIQUE INDEX CONCURRENTLY %s ON l ((abs(k)) DESC NULLS LAST) WITH (fillfactor = 70)', 'INDEX CONCURRENTLY %s ON l USING brin (id)', 'INDEX CONCURRENTLY %s ON l USING hash (w)');
	for my $i (0 .. $#definitions)
	{
		my (undef, $err) = $c->try(1 + $i % 3, 'CREATE ' . sprintf($definitions[$i], "load_$i"));
		is($err, '', "under load: $definitions[$i]");
		(undef, $err) = $c->try(1 + ($i + 1) % 3, "DROP INDEX CONCURRENTLY load_" . ($i - 2)) if $i > 3;
		is($err, '', 'one is dropped on another node') if $i > 3;
	}
	$_->{handle}->finish for @load;
	unlike(${ $_->{text} }, qr/aborted/, 'no client was aborted') for @load;
}
is_complete("load_$_", "load_$_") for 0, 1;
is_everywhere("load_$_", 'true true', "load_$_ is valid") for 4, 5;
$c->same('equal after load');

# ---------- duplicates

$c->sql(1, 'CREATE TABLE d (id int PRIMARY KEY, k int); INSERT INTO d SELECT g, g FROM generate_series(1, 20) g; INSERT INTO d VALUES (21, 20)');
$c->drain;
$c->fails(2, 'CREATE UNIQUE INDEX CONCURRENTLY dup ON d (k)', '23505', qr/could not create unique index "dup"/, 'duplicates are found');
is_everywhere('dup', 'false false', 'and leave an invalid index on all nodes, as in PostgreSQL');
$c->fails(3, 'CREATE INDEX dup ON d (k)', '42P07', qr/already exists/, 'it has its name everywhere');
$c->sql(3, 'DROP INDEX dup');
is_everywhere('dup', '', 'DROP INDEX takes it away everywhere');
$c->sql(1, 'DELETE FROM d WHERE id = 21');

# some that come while another node builds
close_gate(2);
my $s = $c->session(1);
$s->send('CREATE UNIQUE INDEX CONCURRENTLY dup ON d (k, (gate(k)))');
arrives(2, 'n2 builds');
$c->sql(3, 'INSERT INTO d VALUES (22, 5)');
open_gate(2);
$s->finish(60);
LockstepCluster::is_error($s->error, '23505', qr/duplicate|could not create unique/, 'a duplicate that came meanwhile is found');
is_everywhere('dup', 'true false', 'the index is invalid on all nodes');
$c->fails(2, 'INSERT INTO d VALUES (23, 6)', '23505', qr/dup/, 'but checked, as in PostgreSQL');

# What is decided is applied, whatever an index says that isn't valid.
kill_node(3);
$c->sql_local($_, 'DROP INDEX dup') for 1, 2;
$c->sql(1, 'INSERT INTO d VALUES (24, 7); UPDATE d SET k = 8 WHERE id = 9');
$c->cluster('restart-node', 3);
ok($c->wait_state(3, 'online', 60), 'a node that has such an index comes back');
$c->drain;
is($c->sql(3, 'SELECT count(*) FROM d WHERE k IN (7, 8)'), 4, 'with rows that it would not have let in');
$c->sql_local(3, 'DROP INDEX dup');
$c->sql(1, 'DELETE FROM d WHERE id IN (9, 22, 24)');

# ---------- invalid indexes

$c->sql(1, 'INSERT INTO d VALUES (30, 20)');
$c->fails(1, 'CREATE UNIQUE INDEX CONCURRENTLY dup ON d (k)', '23505', qr/dup/, 'one more');
$c->drain;
$c->sql(2, 'VACUUM FULL d');
$c->fails(2, 'REINDEX DATABASE app', '0A000', qr/make index "dup" valid on this node only/, 'it does not become valid by the way');
$c->sql(1, 'DELETE FROM d WHERE id = 30');
$c->drain;
$c->sql(2, 'REINDEX INDEX CONCURRENTLY dup');
is_complete('dup', 'REINDEX INDEX CONCURRENTLY');
$c->sql(1, 'DROP INDEX CONCURRENTLY dup; INSERT INTO d VALUES (31, 0)');
$c->fails(1, 'CREATE INDEX CONCURRENTLY bad ON d ((1 / k))', '22012', qr/division by zero/, 'an expression fails');
is_everywhere('bad', 'false false', 'and leaves an invalid index');
$c->sql(1, 'DELETE FROM d WHERE id = 31');
$c->drain;
$c->fails(2, 'VACUUM FULL d', '0A000', qr/make index "bad" valid on this node only/, 'one that is not unique is not made valid by VACUUM FULL');
$c->sql(2, 'REINDEX TABLE d');
is_complete('bad', 'REINDEX TABLE');
$c->sql(1, 'ALTER INDEX bad RENAME TO good; DROP INDEX CONCURRENTLY good');

$c->sql(1, 'CREATE TABLE pt (id int, k int) PARTITION BY RANGE (id); CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (0) TO (100); CREATE INDEX pti ON pt (k); INSERT INTO pt VALUES (1, 1), (2, 1)');
$c->fails(1, 'CREATE UNIQUE INDEX CONCURRENTLY bad ON pt1 (k)', '23505', qr/bad/, 'of a partition');
$c->drain;
$c->fails(2, 'REINDEX TABLE pt', '0A000', qr/make index "bad" valid on this node only/, 'many transactions can not make it valid');
$c->fails(2, 'REINDEX TABLE pt1', '23505', qr/bad/, 'nor is it yet');
$c->sql(3, 'REINDEX INDEX pti; REINDEX SYSTEM app; CREATE SCHEMA other; REINDEX SCHEMA other; DROP INDEX bad; DROP TABLE pt');

# ---------- what is decided before it is executed here

# It stops a build from here: all that came from other nodes has to have been checked.
{
	my $writer = $c->session(2);
	$writer->do("BEGIN; UPDATE t SET w = 'open' WHERE id = 290");
	my $s = $c->session(1);
	$s->send('CREATE UNIQUE INDEX CONCURRENTLY stopped ON t (id, (gate(id)))');
	ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_progress_create_index JOIN pg_stat_activity USING (pid) WHERE phase ~ 'waiting for writers' AND wait_event = 'Extension'") == 1 }, 60), 'an index is to be made ready on n2');
	# not one of those that are waited for now; the next step waits for it
	my $later = $c->session(2);
	$later->do("BEGIN; UPDATE t SET w = 'open' WHERE id = 291");
	$writer->do('COMMIT');
	ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('stopped') AND indisready") == 1 }, 60), 'it is ready');
	$c->drain;
	$c->sql(3, "SET lockstep.commit_wait = ordered; UPDATE t SET w = 'ordered' WHERE id = 292");
	$c->drain;
	ok($s->blocked(0.1), 'rows of who knows of it are checked here first, whatever commit_wait says') or diag($s->finish(1) . $s->error);

	# as the replicator would, of a transaction that nobody waits for
	my $apply = $c->session(1);
	my $seq = $c->sql(1, 'SELECT lockstep.applied_seq()') + 50;
	$apply->do('SELECT lockstep.enter_generation(generation, run) FROM lockstep.generation');
	$apply->do("SELECT lockstep.apply_start('" . $c->sql(1, 'SELECT cluster FROM lockstep.node_info()') . "')");
	$apply->do('BEGIN');
	$apply->do("SELECT lockstep.apply_begin($seq)");
	$apply->send("UPDATE t SET w = 'decided' WHERE id = 293");
	ok($c->wait_sql(1, 'SELECT pg_blocking_pids(' . $apply->pid . ') = ARRAY[' . $s->pid . ']', 't'), 'one that is decided waits for the build to yield');
	$c->sql(1, 'SELECT pg_cancel_backend(' . $apply->pid . ')');
	$apply->finish;
	$apply->query('ROLLBACK');
	$apply->close;
	$later->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'this one did not have to');
	is_complete('stopped', 'a unique index');
	$c->sql(1, 'DROP INDEX stopped');
}

# But not REINDEX CONCURRENTLY of an index that is valid.
{
	$c->sql(1, 'CREATE UNIQUE INDEX again ON t (id, (gate(id)))');
	$c->drain;
	close_gate(2);
	my $s = $c->session(2);
	$s->send('REINDEX INDEX CONCURRENTLY again');
	arrives(2, 'an index is rebuilt on n2');
	my $writer = $c->session(2);
	$writer->do("BEGIN; UPDATE t SET w = 'open' WHERE id = 291");
	open_gate(2);
	ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_progress_create_index WHERE phase = 'waiting for writers before validation'") == 1 }, 60), 'and waits');
	$c->sql(1, "SET lockstep.commit_wait = ordered; UPDATE t SET w = 'ordered', id = 29300 WHERE id = 293");
	$c->drain;
	$writer->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'and is done');
	is_complete('again', 'REINDEX CONCURRENTLY');
	$c->sql(1, 'DROP INDEX again');
}

# ---------- what the row as a whole is, and names of REINDEX's, are left to the plain command

$c->sql(1, 'CREATE FUNCTION of_row(d) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT ($1).k $$; CREATE INDEX CONCURRENTLY whole ON d (of_row(d)); CREATE INDEX CONCURRENTLY d_ccnew ON d (k)');
$c->fails(1, 'CREATE UNIQUE INDEX CONCURRENTLY e_ccnew1 ON d ((1))', '23505', qr/could not create/, 'one that fails under such a name');
is_everywhere('e_ccnew1', '', 'is nowhere');
is_complete($_, $_) for 'whole', 'd_ccnew';
$c->sql(1, 'DROP INDEX whole, d_ccnew; DROP FUNCTION of_row; ALTER TABLE d DROP COLUMN k CASCADE; ALTER TABLE d ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED; CREATE UNIQUE INDEX CONCURRENTLY gen ON d (g)');
is_complete('gen', 'columns that were dropped, and generated ones');
$c->sql(1, 'CREATE ROLE alice; CREATE SCHEMA alice AUTHORIZATION alice; SET ROLE alice; SET search_path = alice; CREATE TABLE own (id int, w text); '
	. 'CREATE FUNCTION low(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT lower($1) $$; INSERT INTO own VALUES (1, $$X$$)');
$c->sql(1, 'SET ROLE alice; SET search_path = alice; CREATE INDEX CONCURRENTLY ON own (low(w) text_pattern_ops DESC)');
is_complete('alice.own_low_idx', 'another role, another search_path');
$c->fails(1, 'CREATE ROLE bob; SET ROLE bob; CREATE INDEX CONCURRENTLY ON t (id)', '42501', qr/must be owner/, 'who may not, is told so');
$c->sql(1, 'CREATE MATERIALIZED VIEW mv AS SELECT * FROM t; CREATE UNIQUE INDEX CONCURRENTLY mvi ON mv (id)');
$c->drain;
is_complete('mvi', 'a materialized view');
$c->same('equal after all kinds');

# ---------- someone goes

$c->sql(1, 'DROP INDEX ' . join(', ', map { "i$_" } @some));

# the session
close_gate(2);
$s = $c->session(1);
$s->send('CREATE INDEX CONCURRENTLY g ON t (gate(id))');
arrives(2, 'n2 builds');
$c->sql(1, 'SELECT pg_terminate_backend(' . $s->pid . ')');
eval { $s->finish(10) };
ok($c->wait_until(sub { !waits_at_gate(2) }, 30), 'n2 is called back');
open_gate(2);
is_everywhere('g', 'false false', 'the session is terminated: an invalid index everywhere');
write_everywhere('all nodes write');
$c->sql(3, 'DROP INDEX CONCURRENTLY g');

# it is cancelled
close_gate(1);
$s = $c->session(1);
$s->send('CREATE INDEX CONCURRENTLY g ON t (gate(id))');
arrives(1, 'n1 builds');
$c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')');
$s->finish(30);
LockstepCluster::is_error($s->error, '57014', qr/user request/, 'cancelled');
open_gate(1);
is_everywhere('g', 'false false', 'an invalid index everywhere');
$c->sql(3, 'DROP INDEX g');

# a peer
close_gate(2);
$s->send('CREATE INDEX CONCURRENTLY g ON t (gate(id))');
arrives(2, 'n2 builds');
kill_node(2);
$s->finish(60);
is($s->error, '', 'n2 crashes: the others go on');
$c->sql(3, "UPDATE t SET w = 'after' WHERE id < 50");
$c->cluster('restart-node', 2);
ok($c->wait_state(2, 'online', 60), 'n2 is back');
is_complete('g', 'after the crash of a peer');
$c->sql(2, 'DROP INDEX CONCURRENTLY g');

# the replicator
close_gate(3);
$s->send('CREATE INDEX CONCURRENTLY g ON t (gate(id))');
arrives(3, 'n3 builds');
kill 'KILL', $c->replicator_pid;
$s->finish(60);
LockstepCluster::is_error($s->error, '08007|57P03', qr/./, 'the replicator crashes: the outcome of that step is unknown');
open_gate(3);
$c->cluster('restart-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is back") for 1 .. 3;
is_everywhere('g', 'false false', 'an invalid index everywhere');
# who writes on the origin for the first time after that may have to retry
ok($c->wait_until(sub { $s->query('UPDATE t SET w = w WHERE id = 1'); return $s->error eq '' }, 20), 'writes go on');
$s->do('DROP INDEX CONCURRENTLY g');

# the origin
close_gate(2);
$s->send('CREATE INDEX CONCURRENTLY g ON t (gate(id))');
arrives(2, 'n2 builds') or diag($s->blocked(0) ? 'it waits' : $s->finish . $s->error);
kill_node(1);
open_gate(2);
$c->cluster('restart-node', 1);
ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1 .. 3;
$c->drain;
is_deeply($c->index_states('g'), [ ($c->index_states('g')->[1]) x 3 ], 'the origin crashes: the index is the same on all nodes');
like($c->index_states('g')->[1], qr/false$/, 'and not valid');
write_everywhere('all nodes write');
$c->sql(3, 'DROP INDEX CONCURRENTLY g');

# a node that is away from the beginning to the end
kill_node(3);
my $away = $c->session(1);
$away->do('CREATE UNIQUE INDEX CONCURRENTLY g ON t (id, w); UPDATE t SET w = w || 1 WHERE id < 100; CREATE INDEX CONCURRENTLY h ON t (w); DROP INDEX CONCURRENTLY patient');
is($away->error, '', 'without n3');
$c->cluster('restart-node', 3);
ok($c->wait_state(3, 'online', 60), 'n3 is back');
is_complete($_, "$_, made while n3 was away") for 'g', 'h';
is_everywhere('patient', '', 'and one that was dropped then');

# DDL of another node on the table comes first
close_gate(1);
$s = $c->session(1);
$s->send('CREATE INDEX CONCURRENTLY late ON t (gate(id))');
arrives(1, 'n1 builds');
$c->sql(2, "SET statement_timeout = '60s'; ALTER TABLE t ADD COLUMN extra int");
$s->finish(60);
LockstepCluster::is_error($s->error, '40001', qr/in the way/, 'it yields');
open_gate(1);
is_everywhere('late', 'false false', 'and leaves an invalid index everywhere');
$c->sql(3, 'DROP INDEX late');

# ---------- each kind of thing that a definition can say; what can't be made so is made by the plain command

{
	$c->sql(1, <<'SQL');
CREATE SCHEMA "A b";
CREATE TABLE "A b"."T ""x" (id int PRIMARY KEY, "K" text, n int, v int[], j jsonb);
INSERT INTO "A b"."T ""x" SELECT g, g::text, NULLIF(g, 3), ARRAY[g], '{}' FROM generate_series(1, 10) g;
CREATE UNIQUE INDEX CONCURRENTLY "I 1" ON "A b"."T ""x" (n) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "I 2" ON "A b"."T ""x" ("K" COLLATE "C" DESC NULLS LAST, lower("K"), (n + 1), lower("K"))
	INCLUDE (n, v) WITH (fillfactor = 50, deduplicate_items = off) WHERE n > 1 AND "K" <> 'it''s';
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "I 2" ON "A b"."T ""x" ("K");
CREATE INDEX CONCURRENTLY "I 3" ON "A b"."T ""x" USING gin (j jsonb_path_ops, v) WITH (fastupdate = off);
CREATE INDEX CONCURRENTLY "I 4" ON "A b"."T ""x" USING brin (id int4_minmax_multi_ops (values_per_range = 16)) WITH (pages_per_range = 2);
CREATE UNLOGGED TABLE kinds_u (id int PRIMARY KEY, k int);
CREATE INDEX CONCURRENTLY uk ON kinds_u (k);
CREATE TABLE kinds_r (id int PRIMARY KEY, k int);
CREATE FUNCTION kf(kinds_r) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.k';
SQL
	$c->drain;
	for my $n (1 .. 3)
	{
		$c->fails($n, 'INSERT INTO "A b"."T ""x" VALUES (20)', '23505', qr/I 1/, "NULLS NOT DISTINCT holds on n$n");
	}
	my (undef, $err) = $c->try(2, 'CREATE INDEX CONCURRENTLY called ON kinds_r ((kinds_r.kf)); CREATE INDEX CONCURRENTLY named ON kinds_r ((kinds_r.k + 1))');
	is($err, '', 'a function that is written as if it were a column');
	$c->drain;

	my @indexes = map { scalar $c->sql($_, <<'SQL') } 1 .. 3;
SELECT string_agg(concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready, indisunique, indnullsnotdistinct, indkey, indoption,
	(SELECT array_agg(concat_ws(' ', attname, attoptions) ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid),
	(SELECT count(*) FROM pg_depend WHERE objid = indexrelid), c.relowner::regrole, c.relpersistence), E'\n' ORDER BY c.relname)
FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid IN ('"A b"."T ""x"'::regclass, 'kinds_u'::regclass, 'kinds_r'::regclass)
SQL
	is(scalar(() = $indexes[0] =~ /^CREATE/mg), 10, 'all indexes are there');
	is($indexes[$_], $indexes[0], 'alike on n' . ($_ + 1)) for 1, 2;
	is($c->sql(2, q(SELECT count(*) FROM pg_class WHERE relname ~ '^pg_temp_')), 0, 'and no table that they were tried on');
}

$c->same('equal in the end');
my ($out, undef, $rc) = $c->ctl('verify');
is($rc, 0, 'lockstepctl verify agrees') or diag($out);

done_testing;
