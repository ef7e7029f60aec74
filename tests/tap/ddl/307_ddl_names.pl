# SESSION_USER, where it is no expression, and the value of a setting FROM CURRENT are written out
# for the other nodes, or refused: there the one is the replicator's role, the other its setting.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# ---------- SESSION_USER as a role

$c->sql(1, 'CREATE ROLE boss LOGIN SUPERUSER');
my %boss = (user => 'boss');
$c->sql(1, "CREATE ROLE g1 ROLE SESSION_USER; CREATE ROLE g2 ADMIN session_user; CREATE ROLE g3 CREATEDB PASSWORD 'session_user' ROLE CURRENT_USER, SESSION_USER; CREATE ROLE g4; CREATE ROLE \"session_user\" IN ROLE g4", %boss);
$c->sql(1, 'CREATE ROLE g7 ROLE SESSION_USER', %boss, db => 'postgres');
$c->sql(1, 'CREATE GROUP g5 USER SESSION_USER; CREATE USER g6 IN GROUP g4 ADMIN CURRENT_ROLE', %boss);
$c->drain;
my $members = q{SELECT string_agg(roleid::regrole || ' ' || member::regrole || CASE WHEN admin_option THEN ' *' ELSE '' END, ', ' ORDER BY 1) FROM (SELECT * FROM pg_auth_members WHERE roleid::regrole::text ~ '^g\d' ORDER BY roleid::regrole::text, member::regrole::text) m};
is($c->sql($_, $members), $c->sql(1, $members), "the members are the same on n$_") for 2;
like($c->sql(2, $members), qr/g1 boss, g2 boss \*, g3 boss.*g4 "session_user", g4 g6, g5 boss.*g7 boss/, 'and are those that were meant');
is($c->sql(2, "SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname ~ 'session_user|^g'"), 'g1 g2 g3 g4 g5 g6 g7 session_user', 'a name is a name');

$c->sql(1, 'CREATE ROLE low LOGIN; GRANT CREATE ON DATABASE app TO low');
$c->fails(1, $_, '0A000', qr/SESSION_USER/, $_, %boss)
  for 'CREATE SCHEMA s1 CREATE TABLE t (a int) GRANT SELECT ON t TO SESSION_USER', 'CREATE SCHEMA s1 CREATE TABLE t (a int) GRANT SELECT ON t TO low GRANT SELECT ON t TO low, SESSION_USER',
  'CREATE SCHEMA s1 CREATE TABLE t (a int) GRANT SELECT ON t TO low GRANTED BY SESSION_USER', 'CREATE SCHEMA AUTHORIZATION SESSION_USER CREATE TABLE t (a int)';
$c->sql(1, 'CREATE SCHEMA s2 CREATE TABLE t (a name DEFAULT SESSION_USER) GRANT SELECT ON t TO low, CURRENT_USER', %boss);
$c->sql(1, 'CREATE SCHEMA AUTHORIZATION SESSION_USER', %boss);
$c->same('roles and schemas');

# ---------- SET ... FROM CURRENT

my @values = (
	[ "SET search_path = ''", '""' ],
	[ "SELECT set_config('search_path', '', false)", '""' ],
	[ "SELECT set_config('search_path', '  ', false)", '""' ],
	[ "SET search_path = '', public, \"\$user\"", '"", public, "$user"' ],
	[ "SELECT set_config('search_path', 'user, Public', false)", '"user", public' ],
	[ "SELECT set_config('search_path', 'select,\"A \"\"b,c\",  x', false)", '"select", "A ""b,c", x' ],
	[ "SET search_path = public, \"O'x\\y\"", "public, \"O'x\\y\"" ],
	[ "SET search_path TO DEFAULT", '"$user", public' ],
);
my $n = 0;
for (@values)
{
	my ($set, $value) = @$_;
	$n++;
	my (undef, $err) = $c->try(1, "$set; CREATE FUNCTION public.f$n() RETURNS int LANGUAGE sql SET search_path FROM CURRENT AS 'SELECT 1';
		CREATE FUNCTION public.a$n() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION public.a$n() SET search_path FROM CURRENT SET work_mem FROM CURRENT; CREATE ROLE r$n; ALTER ROLE r$n SET search_path FROM CURRENT; ALTER DATABASE app SET search_path FROM CURRENT; ALTER DATABASE app RESET search_path");
	is($err, '', "FROM CURRENT after $set");
	$c->drain;
	for my $node (1, 2)
	{
		is($c->sql($node, "SELECT proconfig[1] FROM pg_proc WHERE proname = '$_$n'"), "search_path=$value", "$_$n has it on n$node") for 'f', 'a';
		is($c->sql($node, "SELECT setconfig[1] FROM pg_db_role_setting WHERE setrole = 'r$n'::regrole"), "search_path=$value", "r$n has it on n$node");
	}
}
$c->sql(1, "SET temp_tablespaces = ''; CREATE FUNCTION ft() RETURNS int LANGUAGE sql SET temp_tablespaces FROM CURRENT SET datestyle FROM CURRENT AS 'SELECT 1'");
$c->sql(1, "SELECT set_config('session_preload_libraries', '\$libdir/Plugins/X, \"\$libdir/y,z\"', false); ALTER ROLE low SET session_preload_libraries FROM CURRENT");
$c->drain;
is($c->sql($_, "SELECT setconfig[1] FROM pg_db_role_setting WHERE setrole = 'low'::regrole"), 'session_preload_libraries="$libdir/Plugins/X", "$libdir/y,z"', "names of files keep their case on n$_") for 1, 2;
$c->same('functions, roles');

done_testing();
