# A node that comes back applies several transactions in a row as one: it has what the
# others have, with DDL and whatever else goes alone between them, exactly once when it
# is killed meanwhile; and what fails as one is done one by one, up to the one that can't
# be applied and not further.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id serial PRIMARY KEY, v int, note text);
CREATE TABLE hot (id int PRIMARY KEY, v int);
CREATE TABLE no_key (v int);
INSERT INTO hot VALUES (1, 0), (2, 0);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i;
SELECT setval('t_id_seq', 50);
SQL
$c->drain;
my $script = $c->file('load.sql', <<'SQL');
\set a random(1, 50)
\set b random(1, 2)
BEGIN;
UPDATE t SET v = v + 1 WHERE id = :a;
UPDATE hot SET v = v + 1 WHERE id = :b;
INSERT INTO t (v, note) VALUES (:a, 'x');
INSERT INTO no_key VALUES (:a);
COMMIT;
SQL
sub load { my ($n) = @_; $c->pgbench([1], '-n', '-f', $script, '-c', 2, '-t', $n / 2, '--max-tries=1000') }

# How many transactions of this server made the rows of a table?
sub transactions { my ($node) = @_; return $c->sql($node, 'SELECT count(DISTINCT xmin::text) FROM no_key') }

# ---------- all kinds

$c->ctl('drop', 'n2');
load(400);
$c->sql(1, <<'SQL');
ALTER TABLE t ADD COLUMN added int DEFAULT 7;
CREATE TABLE made AS SELECT id, v FROM t;
INSERT INTO t (v, added) VALUES (1, 8);
DELETE FROM t WHERE id = 50;
INSERT INTO t (id, v) VALUES (50, 1);
BEGIN; INSERT INTO made VALUES (-1, 1); SAVEPOINT s; INSERT INTO made VALUES (-2, 1); ROLLBACK TO s; INSERT INTO made VALUES (-3, 1); COMMIT;
SELECT lo_from_bytea(4711, 'large');
NOTIFY nobody, 'hears';
COPY made FROM stdin;
-10	1
-11	2
\.
TRUNCATE made;
INSERT INTO made SELECT i, i FROM generate_series(1, 1000) i;
SET lockstep.statement_rows = 10;
UPDATE made SET v = v + 1;
SELECT setval('t_id_seq', 100000);
SQL
load(400);
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online', 60), 'n2 is back');
$c->same('with what it missed');
is(transactions(1), 800, 'n1 made 800 transactions');
cmp_ok(transactions(2), '<', 200, 'n2 made fewer of them: ' . transactions(2));
is($c->sql(2, "INSERT INTO t (v) VALUES (0) RETURNING id > 100000"), 't', 'a sequence goes on on n2');

# ---------- readers see all of several or none

$c->ctl('drop', 'n2');
load(1000);
my $reader = $c->file('reader.sql', "SELECT 1 / (((SELECT sum(v) FROM hot) = (SELECT count(*) FROM no_key))::int);\n");
my $reading = $c->pgbench_start(2, '-n', '-f', $reader, '-c', 1, '-T', 60);
$c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'", 1);
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online', 60), 'n2 is back under the eyes of a reader');
$reading->{handle}->signal('TERM');
eval { $reading->{handle}->finish };
unlike(${ $reading->{text} }, qr/division by zero/, 'who saw only states that were');

# ---------- killed meanwhile

$c->ctl('drop', 'n2');
load(2000);
for my $round (1 .. 3)
{
	$c->ctl('--timeout=1', 'attach', 'n2');
	$c->cluster('kill-node', 2);
	$c->cluster('start-node', 2, '--no-wait');
}
ok($c->wait_state(2, 'online', 60), 'n2 is back after having been killed while it caught up');
$c->same('exactly once');

# ---------- commits are held within several

$c->ctl('drop', 'n2');
$c->sql(1, join('', map { "INSERT INTO no_key VALUES ($_);\n" } 1 .. 60));
my $last = $c->sql(1, 'SELECT lockstep.applied_seq()');
my $holder = $c->session(2);
my ($at) = $holder->query("SELECT lockstep.hold_commits(NULL, '60s')") =~ /(\d+)/;
is($holder->query('SELECT lockstep.hold_commits(' . ($at + 10) . ", '60s')"), $at + 10, 'commits are held on n2 ten further on');
$c->ctl('--timeout=1', 'attach', 'n2');
ok($c->wait_sql(2, 'SELECT lockstep.applied_seq()', $at + 10, 20), 'it comes there, one by one');
$holder->query('SELECT lockstep.release_commits()');
ok($c->wait_sql(2, "SELECT lockstep.applied_seq() >= $last", 't', 20), 'and goes on when it may');
ok($c->wait_state(2, 'online', 60), 'until it is online');
$c->same('and all are equal');

# ---------- one that can't be applied

$c->ctl('drop', 'n2');
$c->sql_local(2, 'DELETE FROM hot WHERE id = 2');
$c->sql(1, join('', map { "INSERT INTO no_key VALUES ($_);\n" } 1 .. 30));
$c->sql(1, 'UPDATE hot SET v = v + 1 WHERE id = 2');
my ($seq) = $c->sql(1, 'SELECT lockstep.applied_seq()');
$c->sql(1, join('', map { "INSERT INTO no_key VALUES ($_);\n" } 1 .. 30));
$c->ctl('--timeout=1', 'attach', 'n2');
ok($c->wait_until(sub { $c->reason(2) =~ /could not apply seq $seq:/ }), 'what differs is found') or diag($c->reason(2));
is($c->sql(2, 'SELECT lockstep.applied_seq()'), $seq - 1, 'all before it has been applied, nothing after it');
my $v = $c->sql(1, 'SELECT v FROM hot WHERE id = 2') - 1;
$c->sql_local(2, "INSERT INTO hot VALUES (2, $v)");
ok($c->wait_state(2, 'online', 60), 'mended, it comes back');
$c->same('and all are equal');

done_testing;
