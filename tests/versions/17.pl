# What is new in PostgreSQL 17 and changes data: MERGE with RETURNING and for rows
# that only the target has, COPY that skips wrong rows, identity columns of
# partitioned tables, SET EXPRESSION, SET ACCESS METHOD DEFAULT.  Login triggers
# write once, and never in sessions of the replicator.  transaction_timeout ends a
# session that waits at COMMIT, and no session of the replicator.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "transaction_timeout = '20s'\n");

# ---------- MERGE

$c->sql(1, 'CREATE TABLE m (id int PRIMARY KEY, v text, at timestamptz DEFAULT clock_timestamp());
	INSERT INTO m SELECT i, \'old\' FROM generate_series(1, 20) i; CREATE TABLE s (id int, v text);
	INSERT INTO s SELECT i, \'new\' FROM generate_series(11, 30) i');
is($c->sql(2, "WITH done AS (MERGE INTO m USING s ON m.id = s.id
	WHEN MATCHED AND m.id % 2 = 0 THEN UPDATE SET v = s.v, at = clock_timestamp()
	WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)
	WHEN NOT MATCHED BY SOURCE AND m.id < 5 THEN DELETE
	RETURNING merge_action() a) SELECT string_agg(a || n, ' ' ORDER BY a) FROM (SELECT a, count(*) n FROM done GROUP BY a)"),
	'DELETE4 INSERT10 UPDATE5', 'MERGE: what it did');
$c->same('after MERGE ... RETURNING in a WITH');
$c->sql(1, 'CREATE VIEW mv AS SELECT id, v FROM m');
$c->sql(2, "MERGE INTO mv USING s ON mv.id = s.id WHEN MATCHED THEN UPDATE SET v = random()::text WHEN NOT MATCHED BY SOURCE THEN DELETE");
$c->same('after MERGE into a view');

# ---------- COPY ON_ERROR

my $wrong = $c->file('wrong', "100\ta\nx\tb\n101\tc\n");
$c->sql(1, "COPY m (id, v) FROM '$wrong' (ON_ERROR ignore, LOG_VERBOSITY verbose)");
is($c->sql(1, 'SELECT string_agg(v, \'\' ORDER BY id) FROM m WHERE id >= 100'), 'ac', 'COPY skipped the wrong row');
$c->sql(1, 'CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY, n int)');
my $wrong_n = $c->file('wrong-n', "1\nx\n2\n");
$c->sql(2, "COPY i (n) FROM '$wrong_n' (ON_ERROR ignore)");
is($c->sql(2, 'SELECT string_agg(n::text, \' \' ORDER BY n) FROM i'), '1 2', 'the same into a table with an identity');
$c->same('after COPY ... ON_ERROR');

# ---------- DDL

$c->sql(1, 'CREATE TABLE p (id int GENERATED ALWAYS AS IDENTITY, k int, v int, g int GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (k, id))
	PARTITION BY RANGE (k); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)');
$c->drain;
$c->sql($_, 'INSERT INTO p (k, v) SELECT i, i FROM generate_series(0, 19) i; INSERT INTO p1 (k, v) VALUES (1, 1)') for $c->all;
my $rows = $c->file('rows', "2\t5\n3\t6\n");
$c->sql($_, "COPY p1 (k, v) FROM '$rows'; COPY p (k, v) FROM '$rows'") for $c->all;
is($c->sql(1, 'SELECT count(*), count(DISTINCT id) FROM p'), '50|50', 'partitions share their identity, on all nodes');
$c->sql(2, 'ALTER TABLE p ALTER g SET EXPRESSION AS (v * 3)');
$c->drain;
is($c->sql(1, 'SELECT count(*) FROM p WHERE g = v * 3'), 50, 'SET EXPRESSION');
$c->sql(1, 'ALTER TABLE m SET ACCESS METHOD DEFAULT; ALTER TABLE p SET ACCESS METHOD heap');
$c->sql(1, 'CREATE TABLE q (k int) PARTITION BY LIST (k) USING heap');
$c->same('after DDL');

# ---------- login triggers

# of the sessions that want it, and of the replicator's
$c->sql(1, "CREATE TABLE logins (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text, app text);
	CREATE FUNCTION note_login() RETURNS event_trigger LANGUAGE plpgsql AS \$\$
	BEGIN
		IF current_setting('test.noted', true) = 'yes' OR current_setting('application_name') LIKE 'lockstep%' THEN
			INSERT INTO logins (node, app) VALUES (current_setting('lockstep.node_name'), current_setting('application_name'));
		END IF;
	END \$\$;
	CREATE EVENT TRIGGER t ON login EXECUTE FUNCTION note_login()");
$c->drain;
$c->sql($_, 'SELECT 1', options => '-c test.noted=yes') for $c->all;
$c->drain;
is($c->sql($_, "SELECT string_agg(node, ' ' ORDER BY node) FROM logins"), 'n1 n2', "n$_: a login trigger writes once, for all nodes")
	for $c->all;
$c->sql(1, 'ALTER EVENT TRIGGER t ENABLE ALWAYS');
$c->drain;

# the replicator's sessions begin anew
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2);
$c->cluster('wait-online');
$c->sql($_, 'SELECT 1', options => '-c test.noted=yes') for $c->all;
$c->same('login triggers that fire always, after a node came back');
is($c->sql(1, "SELECT string_agg(node || app, ' ' ORDER BY node) FROM logins"), 'n1psql n1psql n2psql n2psql',
	"none of the replicator's sessions fires them");
$c->sql(2, 'DROP EVENT TRIGGER t');
$c->drain;
$c->sql($_, 'SELECT 1') for $c->all;
$c->same('no login trigger any more');

# ---------- transaction_timeout

$c->sql(1, 'CREATE TABLE w (id int PRIMARY KEY)');
$c->drain;
$c->frozen([2], sub {
	$c->fails(1, "SET transaction_timeout = '1s'; INSERT INTO w VALUES (1)", '25P04', qr/transaction timeout/,
		'a COMMIT that waits ends with transaction_timeout');
});
$c->sql(1, "SET transaction_timeout = '30s'; INSERT INTO w VALUES (2)");
is($c->sql(2, 'SELECT count(*) FROM w WHERE id = 1'), 0, 'it is nowhere');
$c->same('after transaction_timeout');

done_testing();
