# Unlogged tables that a node has lost: rows of any size and kind, in several databases; the sender
# or the node dies meanwhile; a node that has them is waited for; what has been done with the
# table before the rows come; readers wait for them; a function that fails keeps no node out; a table that is
# ordinary on one node; objects that are missing; emptied or fetched late.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, durable => $ENV{LOCKSTEP_LONG}, replicator_conf => "node_timeout = 4s\n", conf => "lockstep.recovery_wait = 100s\n");
my $wait = 90;

sub missing { $c->sql($_[0], 'SELECT lockstep.missing_unlogged()') }
sub crash
{
	$c->cluster('kill-node', $_) for @_;
	$c->cluster('start-node', $_) for @_;
	$c->wait_state($_, 'online', $wait) for @_;
}

# ---------- rows of any kind

$c->sql(1, <<'SQL');
CREATE UNLOGGED TABLE big (id int PRIMARY KEY, v text);
ALTER TABLE big ALTER v SET STORAGE EXTERNAL;
INSERT INTO big SELECT g, repeat(md5(g::text), 20) FROM generate_series(1, 4000) g;
INSERT INTO big SELECT g, repeat(md5(g::text), 100000) FROM generate_series(30001, 30002) g;
CREATE FUNCTION low(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower($1); END $$;
CREATE UNLOGGED TABLE expr (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, g text GENERATED ALWAYS AS (low(v)) STORED);
CREATE UNIQUE INDEX ON expr (low(v));
INSERT INTO expr (v) SELECT 'V' || g FROM generate_series(1, 100) g;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE UNLOGGED TABLE kinds (m mood, a int[], j jsonb, f float8, n numeric, b bytea);
INSERT INTO kinds SELECT 'bad', ARRAY[g, NULL], jsonb_build_object('k', g), random(), random()::numeric, sha256(g::text::bytea) FROM generate_series(1, 50) g;
CREATE TABLE part (id int, k int) PARTITION BY HASH (id);
CREATE UNLOGGED TABLE part0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO part SELECT g, g FROM generate_series(1, 100) g;
CREATE UNLOGGED TABLE parent (id int PRIMARY KEY);
CREATE UNLOGGED TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE);
INSERT INTO parent SELECT generate_series(1, 100); INSERT INTO child SELECT g, g FROM generate_series(1, 100) g;
CREATE UNLOGGED TABLE nothing (id int);
CREATE ROLE owner_of_it;
CREATE UNLOGGED TABLE owned (id int PRIMARY KEY);
ALTER TABLE owned OWNER TO owner_of_it;
CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a trigger has fired'; END $$;
INSERT INTO owned VALUES (1);
CREATE TRIGGER loud BEFORE INSERT OR TRUNCATE ON owned EXECUTE FUNCTION loud();
SQL
$c->sql(1, 'CREATE ROLE reader; GRANT SELECT ON big, parent TO reader');
$c->drain;
$c->cluster('kill-node', 2);
$c->sql(1, q{UPDATE big SET v = repeat('x', 30000) WHERE id <= 10; UPDATE big SET v = repeat('y', 2000000) WHERE id = 30001; DELETE FROM parent WHERE id < 50;
	UPDATE expr SET v = v || 'W'; INSERT INTO expr (v) VALUES ('Zz'); DELETE FROM kinds WHERE a[1] < 10; UPDATE part SET id = id + 1000; TRUNCATE nothing; UPDATE kinds SET m = 'good'});
$c->cluster('start-node', 2);
$c->wait_state(2, 'online', $wait);
is(missing(2), 0, 'nothing is missing');
$c->same('rows of all kinds');
ok($c->wait_sql(2, 'SELECT lockstep.recovered()', 't', 30), 'the node has recovered, although nobody reads there');

# ---------- readers wait for the rows

my $open = $c->session(1);
$open->query('BEGIN; UPDATE parent SET id = id WHERE id = 99');
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
my $reader = $c->session(3);
$reader->do('SET SESSION AUTHORIZATION reader');
$reader->send('SELECT count(*) FROM big');
ok($c->wait_until(sub { $c->replicator_log =~ /n3\] unlogged tables could not be restored in database "app".*timeout/ }, $wait), 'an open transaction keeps the rows away');
ok($reader->blocked(1), 'a reader waits until they come');
is($c->sql(3, 'SELECT lockstep.recovered()'), 'f', 'as the node has not recovered');
$open->query('COMMIT');
is($reader->finish($wait), 4002, 'then it sees them');
$c->wait_state(3, 'online', $wait);
ok($c->wait_sql(3, 'SELECT lockstep.recovered()', 't', 30), 'and the node has recovered');
$c->same('after readers have waited');

# ---------- an owner's function that fails

$c->sql(1, <<'SQL');
CREATE FUNCTION odd(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN upper($1); END $$;
CREATE UNLOGGED TABLE aa_unique (v text);
CREATE UNIQUE INDEX ON aa_unique (odd(v));
CREATE UNLOGGED TABLE aa_index (id int PRIMARY KEY, v text);
CREATE INDEX ON aa_index (id) WHERE odd(v) > 'A';
INSERT INTO aa_unique SELECT 'v' || g FROM generate_series(1, 3000) g;
INSERT INTO aa_index SELECT g, 'v' || g FROM generate_series(1, 3000) g;
CREATE OR REPLACE FUNCTION odd(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF $1 = 'v2999' THEN RAISE 'odd fails'; END IF; RETURN upper($1); END $$;
SQL
$c->drain;
$c->sql($_, 'CHECKPOINT') for 2, 3;	# else they could be made again after the crash, and be complete
crash(3);
is(missing(3), 2, 'a node is online without the tables whose functions fail');
is($c->sql(3, 'SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM expr), (SELECT count(*) FROM aa_unique), (SELECT count(*) FROM aa_index)'), '4002|101|0|0', 'and with all others');
$c->node_logs($_->[0], $_->[1], 'which is said') for [1, qr/the rows of unlogged table "aa_index" cannot be sent.*\n.*odd fails/], [1, qr/the rows of unlogged table "aa_unique" cannot be sent/];
$c->replicator_logs(qr/n3\] 2 of its unlogged tables in database "app" could not be fetched/, 'by the replicator, too');
is($c->reason(3), 'came online without the rows of 2 unlogged tables', 'and by lockstepctl status');
$c->fails(3, q{INSERT INTO aa_index VALUES (5000, 'x')}, '55000', qr/cannot change unlogged table "aa_index" yet/, 'they are not changed there');
$c->sql(1, q{INSERT INTO aa_index VALUES (5001, 'x'); DELETE FROM aa_unique WHERE v = 'v1'});
crash(2);
is(missing(2), 2, 'another one is not given more');
$c->sql(1, 'CREATE OR REPLACE FUNCTION odd(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN upper($1); END $$');
$c->drain;
for (2, 3)
{
	$c->ctl('drop', "n$_");
	$c->ctl('attach', "n$_");
	$c->wait_state($_, 'online', $wait);
	is(missing($_), 0, "n$_ gets all when it is attached again and the function works");
}
$c->same('after a function has failed');

# ---------- ordinary where a journal of an earlier version has made it

$c->drain;
$c->sql_local(2, 'ALTER TABLE kinds SET LOGGED');
crash(3);
$c->drain;
is($c->node_status(2)->{state}, 'online', 'a node on which the table is ordinary leaves the rows out that are sent');
$c->sql_local(2, 'ALTER TABLE kinds SET UNLOGGED');
$c->same('an ordinary table');

# ---------- objects of a development build

$c->sql_local(2, 'ALTER TABLE lockstep.unlogged_marker RENAME TO marker_of_other_name');
$c->ctl('drop', 'n2');
$c->ctl('attach', 'n2', '--timeout=1');
ok($c->wait_until(sub { $c->reason(2) =~ /unlogged_marker does not exist/ }, $wait), 'a node without the objects for unlogged tables is not attached') or diag($c->reason(2));
$c->sql_local(2, 'ALTER TABLE lockstep.marker_of_other_name RENAME TO unlogged_marker');
$c->ctl('attach', 'n2');
$c->wait_state(2, 'online', $wait);

# ---------- a backend is killed: the server starts anew by itself

my $victim = $c->session(3);
my $pid = $victim->query('SELECT pg_backend_pid()');
$pid =~ /(\d+)/;
my $log = length $c->node_log(3);
kill 'KILL', $1;
ok($c->wait_until(sub { substr($c->node_log(3), $log) =~ /unlogged tables of database "app" have lost their rows/ }, $wait), 'its rows are lost');
$c->wait_state(3, 'online', $wait);
$c->same('after a backend was killed');

# ---------- who asks for rows early, and who sends them, dies

for my $round ($ENV{LOCKSTEP_LONG} ? (1 .. 3) : (1, 3))
{
	$c->cluster('kill-node', 3);
	$c->cluster('start-node', 3, '--no-wait');
	my $from;
	$c->wait_until(sub { ($from) = $c->replicator_log =~ /.*n3\] its unlogged tables in database "app" are fetched from node "n(\d)"/s; $c->node_status(3)->{state} eq 'online' || $c->node_status(3)->{reason} =~ /waits for its unlogged/ }, $wait);
	$from //= 1;
	crash($round == 3 ? 3 : $from);
	$c->wait_state(3, 'online', $wait);
	$c->same("the " . ($round == 3 ? 'node' : 'sender') . " died, round $round");
	is($c->sql(3, 'SELECT count(*) FROM big'), 4002, 'no row is lost');
}

# ---------- a transaction that made files was rolled back just before the crash

# PostgreSQL's recovery stops at the stub of such a file, if the WAL has how it was made and not that it
# was deleted
my ($walwriter) = $c->sql(1, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'") =~ /(\d+)/;
kill 'STOP', $walwriter;
for my $how ('ROLLBACK', 'ROLLBACK TO a')
{
	my $s = $c->session(1);
	$s->query('BEGIN; SAVEPOINT a; TRUNCATE expr; CREATE UNLOGGED TABLE rolled_back (id int)');
	$c->sql(1, "SET lockstep.local_flush = on; INSERT INTO big VALUES (" . ($how eq 'ROLLBACK' ? 70001 : 70002) . ", 'flushed')");
	$s->query($how);
}
$c->cluster('kill-node', 1);
ok($c->cluster('start-node', 1), 'a server starts whose last transactions with new unlogged files were rolled back');
$c->wait_state(1, 'online', $wait);
$c->sql(1, 'DELETE FROM big WHERE id > 70000');
$c->same('after that crash');

# ---------- one that has them is waited for

$c->cluster('kill-node', 1);
$c->cluster('kill-node', 3);
$c->cluster('stop-node', 2);
$c->cluster('kill-replicator');
$c->cluster('start-node', $_, '--no-wait') for 1, 2, 3;
$c->cluster('start-replicator');
$c->wait_state($_, 'online', $wait) for $c->all;
is($c->sql($_, 'SELECT count(*) FROM big'), 4002, "n$_ has the rows of the node that was stopped") for $c->all;
$c->same('one has them, two have not');

# ---------- none has them when the first comes; one that has comes later

$c->cluster('stop-node', 2);
$c->sql(1, 'DELETE FROM big WHERE id > 100');
$c->cluster('kill-node', $_) for 1, 3;
$c->cluster('start-node', 1, '--no-wait');
$c->wait_state(1, 'online', $wait);
$c->wait_until(sub { missing(1) eq '0' }, $wait);
$c->sql(1, q{INSERT INTO big VALUES (1, 'first')});
$c->cluster('start-node', $_) for 2, 3;
$c->wait_state($_, 'online', $wait) for $c->all;
is($c->sql($_, 'SELECT string_agg(v, $$ $$) FROM big'), 'first', "what was written since is on n$_, and nothing else") for $c->all;
$c->same('emptied while one that had them was away');

# ---------- the same, and it cannot be emptied before that one is online again

$c->sql(1, q{INSERT INTO big SELECT g, 'kept' FROM generate_series(2, 100) g});
$c->drain;
$c->cluster('stop-node', 2);
$c->cluster('kill-node', $_) for 1, 3;
# the replicator, which has them emptied, comes after the reader
kill 'STOP', $c->replicator_pid;
$c->cluster('start-node', 1, '--no-wait');
$open = $c->session(1);
$open->query('BEGIN; SELECT count(*) FROM big');
kill 'CONT', $c->replicator_pid;
$c->wait_state(1, 'online', $wait);
ok($c->wait_sql(1, 'SELECT lockstep.recovered()', 't', 30), 'readers do not wait for what nobody has');
$c->cluster('start-node', 2, '--no-wait');
$c->wait_state(2, 'online', $wait);
$c->sql(2, q{INSERT INTO big VALUES (101, 'acknowledged')});
ok($c->wait_until(sub { missing(1) eq '0' }, $wait), 'a node that could not empty its tables has fetched them');
$open->query('COMMIT');
$c->cluster('start-node', 3);
$c->wait_state($_, 'online', $wait) for $c->all;
is($c->sql($_, 'SELECT count(*), max(v) FROM big WHERE id > 1'), '100|kept', "n$_ has the rows that another node had") for $c->all;
is($c->sql($_, 'SELECT v FROM big WHERE id = 101'), 'acknowledged', "and those that clients have written there: n$_") for $c->all;
$c->same('fetched late');

done_testing;
