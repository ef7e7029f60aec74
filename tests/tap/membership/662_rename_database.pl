# ALTER DATABASE ... RENAME by SQL, from any database and any node: on every node, and it goes on under its new name, sequences
# included.  Rights and refusals are PostgreSQL's.  Nodes that were away for several of them, names exchanged in between, have what the
# others have, also if no transaction separates them; so do a replicator that starts anew and a node that failed in the middle.
# What lockstepctl database add has brought is refused, and the way around it works.  One that it has brought since, with the name of one
# that was renamed or dropped, is not taken for that.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "reconnect_interval = 200ms\n");
my %in = (db => 'postgres');

sub names { return $c->sql($_[0], "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1', 'app')", %in) // '' }
sub everywhere
{
	my ($query, $wanted, $name, %opt) = @_;
	is($c->sql($_, $query, %opt), $wanted, "$name: n$_") for $c->all;
}
sub named { my ($wanted, $name) = @_; is(names($_), $wanted, "$name: n$_") for $c->all }

# ---------- it goes on under its new name

$c->sql(1, 'CREATE DATABASE one', %in);
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, by int)', db => 'one');
$c->drain;
$c->sql($_, "INSERT INTO t (by) SELECT $_ FROM generate_series(1, 40)", db => 'one') for $c->all;
$c->sql(2, 'ALTER DATABASE one RENAME TO two', %in);
named('two', 'renamed from a database that is not replicated');
$c->sql($_, "INSERT INTO t (by) SELECT $_ FROM generate_series(1, 40)", db => 'two') for $c->all;
$c->sql(3, 'ALTER DATABASE two RENAME TO "odd""name"');
named('odd"name', 'from one that is');
$c->sql($_, "INSERT INTO t (by) SELECT $_ FROM generate_series(1, 40)", db => 'odd"name') for $c->all;
$c->drain;
everywhere('SELECT count(*), count(DISTINCT id) FROM t', '360|360', 'rows', db => 'odd"name');
$c->same('equal', db => 'odd"name');

# the same name for another one, which has a sequence of the same name: neither takes what is the other's
$c->sql(1, 'CREATE DATABASE one', %in);
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, by int)', db => 'one');
$c->drain;
$c->sql($_, "INSERT INTO t (by) VALUES ($_)", db => 'one') for $c->all;
$c->drain;
cmp_ok($c->sql(1, 'SELECT max(id) FROM t', db => 'one'), '<', 360, 'a new sequence of the old name begins anew');
cmp_ok($c->sql(3, 'WITH n AS (INSERT INTO t (by) VALUES (3) RETURNING id) SELECT id FROM n', db => 'odd"name'), '>', 360, 'the old one goes on');
$c->drain;

# values that no transaction has reported: under the name that it has now, not for the one that has the name of then
$c->sql(1, 'CREATE DATABASE seq', %in);
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, by int)', db => 'seq');
$c->sql(1, "SELECT nextval('t_id_seq') FROM generate_series(1, 500)", db => 'seq');
$c->sql(1, 'ALTER DATABASE seq RENAME TO seq2', %in);
$c->sql(1, 'CREATE DATABASE seq', %in);
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, by int)', db => 'seq');
$c->drain;
$c->sql($_, "INSERT INTO t (by) VALUES ($_)", db => 'seq') for $c->all;
my $value = $c->sql(1, "SELECT max(nextval('t_id_seq')) FROM generate_series(1, 100)", db => 'seq2');
for my $n (2, 3)
{
	ok($c->wait_until(sub { $c->sql($n, 'SELECT last_value FROM t_id_seq', db => 'seq2') == $value }, 20), "n$n learns the position");
	cmp_ok($c->sql($n, 'SELECT last_value FROM t_id_seq', db => 'seq'), '<', 500, "of that one: n$n");
}
$c->sql(1, "DROP DATABASE $_", %in) for qw(seq seq2);
$c->drain;

# ---------- who may, and what may not

$c->sql(1, 'CREATE ROLE u_owner LOGIN; CREATE ROLE u_maker LOGIN CREATEDB');
$c->sql(1, 'ALTER DATABASE one OWNER TO u_owner', %in);
$c->fails(1, 'ALTER DATABASE one RENAME TO no', '42501', qr/must be owner of database one/, 'not the owner', %in, user => 'u_maker');
$c->fails(1, 'ALTER DATABASE one RENAME TO no', '42501', qr/permission denied to rename database/, 'who may not make one', %in, user => 'u_owner');
$c->fails(1, 'ALTER DATABASE one RENAME TO app', '42P04', qr/"app" already exists/, 'a name that exists', %in);
$c->fails(1, 'ALTER DATABASE nothing RENAME TO no', '3D000', qr/"nothing" does not exist/, 'a missing one', %in);
$c->fails(1, 'ALTER DATABASE one RENAME TO no', '0A000', qr/current database cannot be renamed/, 'the open one', db => 'one');
$c->fails(1, 'BEGIN; ALTER DATABASE one RENAME TO no; COMMIT', '25001', qr/transaction block/, 'in a block');
$c->fails(1, 'BEGIN; ALTER DATABASE one RENAME TO no; COMMIT', '25001', qr/transaction block/, 'in a block of postgres', %in);
$c->fails(1, 'ALTER DATABASE app RENAME TO no', '0A000', qr/which CREATE DATABASE has not made.*lockstepctl database drop/s, 'one without a number', db => 'one');
$c->sql_local(2, 'CREATE DATABASE taken', %in);
$c->fails(1, 'ALTER DATABASE one RENAME TO taken', '42P04', qr/"taken" already exists.*"n2"/s, 'a name that one node has', %in);
$c->fails(2, 'ALTER DATABASE taken RENAME TO no', '3D000', qr/"taken" is not replicated.*lockstep.replicate to off/s, 'one that is not replicated', %in);
$c->sql_local(2, 'DROP DATABASE taken', %in);
my $user = $c->session(3, db => 'one');
my $pid = $user->pid;
$c->fails(1, 'ALTER DATABASE one RENAME TO no', '55006', qr/"one" is being accessed by other users.*$pid.*"n3"/s, 'a session on another node', %in);
$user->close;
named('odd"name one', 'nothing was renamed');
$c->sql(1, 'GRANT u_owner TO u_maker', %in);
$c->sql(1, 'ALTER DATABASE one RENAME TO three', %in, user => 'u_maker');
everywhere("SELECT datdba::regrole FROM pg_database WHERE datname = 'three'", 'u_owner', 'by a member of its owner', %in);

# ---------- nodes that are away

$c->sql(1, 'ALTER DATABASE "odd""name" RENAME TO four', %in);
$c->cluster('stop-node', 3);
ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
$c->sql(1, "INSERT INTO t (by) VALUES (11)", db => $_) for 'three', 'four';

# they exchange their names, with a transaction in between and without one; new ones get names that were others'
$c->sql(1, 'ALTER DATABASE three RENAME TO x', %in);
$c->sql(2, 'ALTER DATABASE four RENAME TO three', %in);
$c->sql(1, 'ALTER DATABASE x RENAME TO four', %in);
$c->sql(2, 'INSERT INTO t (by) VALUES (12)', db => $_) for 'three', 'four';
$c->sql(1, 'ALTER DATABASE three RENAME TO x', %in);
$c->sql(1, 'ALTER DATABASE x RENAME TO three', %in);
$c->sql(1, 'ALTER DATABASE three RENAME TO y', %in);
$c->sql(1, 'CREATE DATABASE three', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 13 AS by', db => 'three');
$c->sql(1, 'CREATE DATABASE passing', %in);
$c->sql(1, 'ALTER DATABASE passing RENAME TO passed', %in);
$c->sql(1, 'DROP DATABASE passed', %in);
$c->sql(1, 'ALTER DATABASE y RENAME TO five', %in);
$c->sql(1, 'CREATE DATABASE six', %in);
$c->sql(1, 'ALTER DATABASE six RENAME TO seven', %in);
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is online again') or diag($c->reason(3));
named('five four seven three', 'n3 has renamed them');
$c->sql(3, 'INSERT INTO t (by) VALUES (14)', db => $_) for qw(five four three);
$c->sql(3, 'CREATE TABLE t AS SELECT 15 AS by', db => 'seven');
$c->drain;
$c->same("$_ is the same", db => $_) for qw(five four three seven app);
everywhere('SELECT count(*) FROM t WHERE by IN (11, 12, 14)', 3, 'five is what it was', db => 'five');
everywhere('SELECT max(id) < 200 FROM t', 't', 'four is what it was', db => 'four');

# a replicator that starts anew, from a journal of several segments, and nodes that have nothing to catch up
for my $round (1, 2)
{
	$c->cluster('kill-replicator');
	$c->cluster('start-replicator');
	ok($c->wait_state($_, 'online', 30), "n$_ is online") or diag($c->reason($_)) for $c->all;
	$c->cluster('kill-node', 2);
	$c->cluster('start-node', 2, '--no-wait');
	ok($c->wait_state(2, 'online', 30), 'n2 is online') or diag($c->reason(2));
	$c->sql(2, 'INSERT INTO t (by) SELECT 20 FROM generate_series(1, 50)', db => $_) for qw(five four);
	$c->drain;
	$c->same("$_ is still the same", db => $_) for qw(five four);
}
my ($text) = $c->ctl('journal');
like($text, qr/database \d+ renamed: five, from y$/m, 'lockstepctl journal says it');

# ---------- a transaction that names it, and is older

my $commenting = $c->session(2);
$commenting->do("BEGIN; COMMENT ON DATABASE five IS 'mine'");
my $setting = $c->session(1);
$setting->do('BEGIN; ALTER DATABASE five CONNECTION LIMIT 50');
$c->cluster('stop-node', 3);
ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
my $started = time;
$c->sql(1, 'ALTER DATABASE five RENAME TO fifth', %in);
for ($commenting, $setting)
{
	$_->query('COMMIT');
	like($_->error, qr/40001|57P01|08006|terminat|closed/, 'it gives way');
	$_->close;
}
cmp_ok(time - $started, '<', 60, 'soon');
$c->sql(2, "COMMENT ON DATABASE fifth IS 'mine'; ALTER DATABASE fifth CONNECTION LIMIT 40");
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is online again') or diag($c->reason(3));
$c->drain;
everywhere("SELECT shobj_description(oid, 'pg_database'), datconnlimit FROM pg_database WHERE datname = 'fifth'", 'mine|40', 'equal', %in);
$c->sql(1, 'ALTER DATABASE fifth RENAME TO five', %in);

# ---------- a node where it can't be renamed goes out, and does it when it returns

$c->sql(1, 'CREATE TABLE numbered (id serial)', db => 'seven');
$c->drain;
$c->sql($_, 'INSERT INTO numbered DEFAULT VALUES', db => 'seven') for 1, 2;
$c->drain;
my $space = $c->session(3, %in);
$space->do('BEGIN; LOCK TABLE pg_database IN SHARE MODE');
my $renaming = $c->session(1, %in);
$renaming->send('ALTER DATABASE seven RENAME TO eight');
$c->wait_until(sub { $c->sql(3, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ALTER DATABASE%' AND wait_event_type = 'Lock'", %in) > 0 }, 20)
	or fail('it waits on n3');
$c->sql(1, 'CREATE TABLE behind_it (id int)');
$c->wait_until(sub { $c->sql(3, "SELECT to_regclass('behind_it') IS NOT NULL") eq 't' }, 20) or fail('n3 has applied more');

# n2 is done, and its server has forgotten its leases: their ends are not ordered before n3 has the new name, too
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online', 30), 'another node is online again meanwhile') or diag($c->reason(2));
is($c->sql(3, "SELECT count(*) FROM pg_database WHERE datname = 'seven'", %in), 1, 'meanwhile');
$c->cluster('kill-node', 3);
$renaming->finish;
is($renaming->error, '', 'the others have done it');
$c->sql(1, 'INSERT INTO t VALUES (16)', db => 'eight');
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is online again') or diag($c->reason(3));
$c->drain;
$c->same('it has done it', db => 'eight');
$c->sql($_, 'INSERT INTO numbered DEFAULT VALUES', db => 'eight') for $c->all;
$c->drain;
everywhere('SELECT count(*), count(DISTINCT id) FROM numbered', '5|5', 'values', db => 'eight');

# ---------- one that lockstepctl database add has brought

$c->ctl('database', 'add', 'plain');
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'plain');
$c->drain;
$c->fails(1, 'ALTER DATABASE plain RENAME TO fancy', '0A000', qr/lockstepctl database drop/, 'it is refused', %in);
$c->ctl('database', 'drop', 'plain');
$c->sql_local($_, 'ALTER DATABASE plain RENAME TO fancy', %in) for $c->all;
$c->ctl('database', 'add', 'fancy');
$c->sql(2, 'INSERT INTO t VALUES (2)', db => 'fancy');
$c->drain;
$c->same('the way around', db => 'fancy');

# ---------- and one that has the name of another

$c->sql(1, "DROP DATABASE $_", %in) for qw(three four eight fancy);	# each takes connections

sub restart
{
	$c->cluster('kill-replicator');
	$c->cluster('start-replicator');
	ok($c->wait_state($_, 'online', 30), "$_[0]: n$_ is online") or diag($c->reason($_)) for $c->all;
}

sub add { my ($out, $error, $rc) = $c->ctl('database', 'add', $_[0]); is($rc, 0, "$_[0] is added") or diag($out . $error) }

# while n3 is away, something is done in first, with $id
sub miss
{
	my ($id, $name) = @_;
	$c->cluster('stop-node', 3);
	ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
	$c->sql(1, "CREATE TABLE t AS SELECT $id AS id", db => 'first');
	$c->cluster('start-node', 3, '--no-wait');
	ok($c->wait_state(3, 'online', 30), "$name: n3 is online again") or diag($c->reason(3));
	$c->drain;
	$c->same("$name: n3 has it", db => 'first');
}

$c->sql(1, 'CREATE DATABASE first', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'first');
$c->drain;
$c->sql(1, 'ALTER DATABASE first RENAME TO second', %in);
add('first');
restart('the name of one that was renamed');
miss(2, 'the name of one that was renamed');
$c->same('that one', db => 'second');
everywhere('SELECT id FROM t', 1, 'that one', db => 'second');

$c->sql(1, 'DROP DATABASE first', %in);
$c->sql_local($_, 'CREATE DATABASE first', %in) for $c->all;
$c->sql_local($_, 'CREATE TABLE restored (id int)', db => 'first') for $c->all;
restart('the name of one that was dropped');
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'first'", 1, 'what was restored is not dropped', %in);
add('first');
restart('the same, added');
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'first'", 1, 'it is not dropped again', %in);
miss(3, 'the name of one that was dropped');
restart('that, later');

# dropped by lockstepctl, it does not take along what the one did that had the name before
$c->sql(1, 'CREATE DATABASE before', %in);
$c->sql(1, 'CREATE TABLE t (id int)', db => 'before');
$c->drain;
$c->cluster('stop-node', 3);
ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
$c->sql(1, 'INSERT INTO t VALUES (1)', db => 'before');
$c->sql(1, 'ALTER DATABASE before RENAME TO after', %in);
add('before');
$c->ctl('database', 'drop', 'before');
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is online again') or diag($c->reason(3));
$c->drain;
everywhere('SELECT count(*) FROM t', 1, 'done by the old name', db => 'after');

done_testing;
