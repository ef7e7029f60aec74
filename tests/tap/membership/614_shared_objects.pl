# Roles, settings of roles and databases, privileges and comments on databases are the same on all nodes, from whatever
# database they are changed: createuser and psql in a database that is not replicated, a node that was away, other nodes' sessions.
# Rights are those of the user.  What can't be so is refused, and leaves nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "max_worker_processes = 10\n");
my %in = (db => 'postgres');
sub roles { $c->sql($_[0], "SELECT string_agg(rolname || CASE WHEN rolcanlogin THEN '+' ELSE '' END, ' ' ORDER BY rolname) FROM pg_authid WHERE rolname LIKE 'u\\_%'", %in) // '' }
sub both
{
	my ($query, $wanted, $name) = @_;
	$c->drain;
	is($c->sql($_, $query, %in), $wanted, "$name: n$_") for 1, 2;
}

# ---------- what is replicated

$c->sql(1, 'CREATE ROLE u_one', %in);
$c->sql(2, "CREATE USER u_two PASSWORD 'secret' VALID UNTIL 'tomorrow'", %in);
$c->drain;
is(roles($_), 'u_one u_two+', "roles: n$_") for 1, 2;
is($c->sql(1, "SELECT rolpassword || rolvaliduntil FROM pg_authid WHERE rolname = 'u_two'", %in),
	$c->sql(2, "SELECT rolpassword || rolvaliduntil FROM pg_authid WHERE rolname = 'u_two'", %in), 'one verifier, one time');
my @createuser = ("$LockstepCluster::bindir/createuser", '-h', '127.0.0.1', '-p', $c->port(1), '-U', 'postgres', '--createrole', 'u_three');
is(system(@createuser), 0, 'createuser');
$c->sql(2, 'GRANT u_one TO u_two', %in);
both("SELECT pg_has_role('u_two', 'u_one', 'member')", 't', 'membership');
$c->sql(2, 'ALTER ROLE u_one RENAME TO u_four', %in);
both("SELECT count(*) FROM pg_roles WHERE rolname = 'u_four'", 1, 'renamed');
$c->sql(1, "SET search_path = pg_catalog, public;\nALTER ROLE u_four SET search_path FROM CURRENT", %in);
both("SELECT rolconfig FROM pg_roles WHERE rolname = 'u_four'", '{"search_path=pg_catalog, public"}', 'FROM CURRENT');
$c->sql(1, "ALTER DATABASE postgres SET work_mem = '7MB'", %in);
both("SELECT setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase WHERE datname = 'postgres'", '{work_mem=7MB}', 'ALTER DATABASE SET');
$c->sql(2, 'ALTER DATABASE postgres RESET ALL', %in);
$c->sql(1, "COMMENT ON DATABASE app IS 'of n1'", %in);
both("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'app'", 'of n1', 'COMMENT ON DATABASE');
$c->sql(2, 'GRANT CREATE ON DATABASE app TO u_two', %in);
both("SELECT has_database_privilege('u_two', 'app', 'CREATE')", 't', 'GRANT ON DATABASE');
$c->sql(1, 'ALTER DATABASE postgres OWNER TO u_two', %in);
both("SELECT datdba::regrole FROM pg_database WHERE datname = 'postgres'", 'u_two', 'ALTER DATABASE OWNER');
$c->sql(1, 'ALTER DATABASE postgres OWNER TO postgres', %in);

# ALTER DATABASE, from both kinds of databases
my $limits = "SELECT string_agg(datname || datconnlimit || datistemplate, ' ' ORDER BY datname) FROM pg_database WHERE datname IN ('app', 'postgres')";
$c->sql(1, 'ALTER DATABASE app CONNECTION LIMIT 50', %in);
$c->sql(2, 'BEGIN; ALTER DATABASE postgres WITH CONNECTION LIMIT 60 IS_TEMPLATE true; COMMIT');
both($limits, 'app50false postgres60true', 'ALTER DATABASE');
$c->sql(2, 'BEGIN; ALTER DATABASE app CONNECTION LIMIT 51; ROLLBACK');
$c->sql(2, 'ALTER DATABASE postgres IS_TEMPLATE false CONNECTION LIMIT -1');
$c->fails(1, 'ALTER DATABASE app ALLOW_CONNECTIONS false', '0A000', qr/replicator could not connect/, 'the replicator is not locked out', %in);
$c->fails(2, 'ALTER DATABASE app SET TABLESPACE pg_default', '0A000', qr/moves the database's files.*lockstepctl drop/s, 'SET TABLESPACE', %in);
$c->fails(1, 'ALTER DATABASE app RENAME TO b', '57P03', qr/there is none but the one that it is about/, 'RENAME of the only one', %in);
$c->sql_local(1, 'CREATE DATABASE half', %in);
$c->fails(1, 'ALTER DATABASE half CONNECTION LIMIT 1', '3D000', qr/half/, 'of a database that another node does not have', %in);
$c->sql_local(1, 'DROP DATABASE half', %in);
both($limits, 'app50false postgres-1false', 'after the refusals');

# a replication connection takes SQL, too
is(system("$LockstepCluster::bindir/psql", '-XAtqd', "host=127.0.0.1 port=" . $c->port(1) . ' user=postgres dbname=postgres replication=database', '-c', 'CREATE ROLE u_walsender'), 0, 'a walsender');
both("SELECT count(*) FROM pg_roles WHERE rolname = 'u_walsender'", 1, 'a walsender');
$c->sql(2, 'DROP ROLE u_walsender', %in);

# ---------- the session's user, settings, notices, errors

$c->sql(1, 'REVOKE CONNECT ON DATABASE app FROM PUBLIC', %in);
my %three = (%in, user => 'u_three');
$c->sql(1, 'CREATE ROLE u_five', %three);
$c->fails(1, 'ALTER ROLE postgres SET work_mem = 0', '42501', qr/./, 'who may not', %three);
$c->fails(1, 'CREATE ROLE u_six SUPERUSER', '42501', qr/superuser/i, 'nor this', %three);
$c->fails(1, 'CREATE ROLE u_five', '42710', qr/already exists/, 'an error of the command', %in);
$c->fails(1, "SET ROLE u_two;\nCREATE ROLE u_six", '42501', qr/./, 'SET ROLE counts', %in);
my (undef, $notice) = $c->try(1, 'DROP ROLE IF EXISTS u_none', %in);
like($notice, qr/NOTICE:\s+00000: role "u_none" does not exist, skipping/, 'notices arrive');
(undef, $notice) = $c->try(1, "SET client_min_messages = warning;\nDROP ROLE IF EXISTS u_none", %in);
is($notice, '', 'unless they are not wanted');

# ---------- refused

for (['BEGIN; CREATE ROLE u_six', 'a block'], ["DO 'BEGIN CREATE ROLE u_six; END'", 'a function'])
{
	$c->fails(1, $_->[0], '25001', qr/not replicated.*HINT:.*connect to database "app"/s, "$_->[1] is refused", %in);
}
$c->fails(1, 'DROP OWNED BY u_five', '0A000', qr/not replicated/, 'DROP OWNED is refused', %in);
$c->fails(1, "SET default_transaction_read_only = on;\nCREATE ROLE u_six", '25006', qr/read-only/, 'a read-only transaction', %in);
$c->sql(2, 'DROP ROLE u_five', %in);
$c->sql(1, 'CREATE ROLE u_six', %in);
both("SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname LIKE 'u\\_%'", 'u_four u_six u_three u_two', 'what is left');

# ---------- one that fails on another node, is cancelled, waits

$c->sql(2, "SET lockstep.replicate = off;\nCREATE ROLE u_only2", %in);
$c->fails(1, 'CREATE ROLE u_only2', '42710', qr/./, 'what fails on the other node fails', %in);
is($c->sql(1, "SELECT count(*) FROM pg_roles WHERE rolname = 'u_only2'", %in), 0, 'and leaves nothing');
$c->sql(2, "SET lockstep.replicate = off;\nDROP ROLE u_only2", %in);

my $holder = $c->session(2);
$holder->do('BEGIN; CREATE TABLE h (id int PRIMARY KEY)');
$c->fails(1, "SET statement_timeout = '500ms';\nCREATE ROLE u_seven", '57014', qr/statement timeout/, 'statement_timeout', %in);
my $waiter = $c->session(1, %in);
$waiter->send('CREATE ROLE u_eight');
ok($waiter->blocked(0.3), 'it waits for DDL of another node');
$c->sql(1, 'SELECT pg_cancel_backend(' . $waiter->pid . ')', %in);
$waiter->finish;
LockstepCluster::is_error($waiter->error, '57014', qr/user request/, 'and can be cancelled');
$waiter->send('CREATE ROLE u_nine');
ok($waiter->blocked(0.3), 'another waits');
$holder->do('COMMIT');
$waiter->finish;
is($waiter->error, '', 'and goes on');
both("SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname ~ 'u_(seven|eight|nine)'", 'u_nine', 'one of three');

# ---------- a node that is away

$c->cluster('stop-node', 2);
$c->wait_state(2, 'dropped', 30);
$c->sql(1, 'DROP ROLE u_nine', %in);
$c->sql(1, "ALTER ROLE u_six LOGIN PASSWORD 'x'", %in);
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', 30), 'it returns');
both("SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname LIKE 'u\\_%'", 'u_four u_six u_three u_two', 'a node that was away');
is($c->sql(1, 'SELECT rolpassword FROM pg_authid WHERE rolname = \'u_six\'', %in), $c->sql(2, 'SELECT rolpassword FROM pg_authid WHERE rolname = \'u_six\'', %in), 'the same verifier');

# ---------- without the replicator

$c->cluster('stop-replicator');
$c->fails(1, "SET lockstep.failover_wait = 0;\nCREATE ROLE u_ten", '57P03', qr/./, 'without the replicator it is refused', %in);
is($c->sql(1, "SELECT count(*) FROM pg_roles WHERE rolname = 'u_ten'", %in), 0, 'and not done');
$c->cluster('start-replicator');
$c->wait_state($_, 'online', 30) for 1, 2;
$c->same('all nodes are equal');
is(($c->ctl('verify'))[2], 0, 'verify finds no difference');
done_testing;
