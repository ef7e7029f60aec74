# No setting that users give a database or a role reaches the replicator's and lockstepctl's sessions: all that there are get
# another value, by ALTER DATABASE, ALTER ROLE and ALTER ROLE ... IN DATABASE, and the sessions that are opened then have
# the values of before; the nodes are attached, transactions applied, databases compared.  What would lock the replicator's
# role out is refused.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# The first command of the programs' sessions, as servers before 17 would not take it as an option.
my ($version) = `$LockstepCluster::bindir/postgres --version` =~ /\s(\d+)/;
my $first = $version >= 17 ? 'SET transaction_timeout = 0; ' : '';
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE ROLE x; CREATE ROLE helper SUPERUSER LOGIN');

# What a session of the replicator or lockstepctl has, by the options that the program gives it.
my $settings = "SELECT string_agg(name || '=' || setting, E'\\n' ORDER BY name) FROM pg_settings WHERE name NOT IN ('application_name', 'seed')";
sub options_of
{
	my ($pattern, $file) = @_;
	open(my $f, '<', "$FindBin::Bin/../../../replicator/$file") or die $!;
	local $/;
	my $source = <$f>;
	my %macro = $source =~ /#define (\w+_OPTIONS) \\\n((?:.*\\\n)*.*\n)/g;
	my ($text) = $source =~ /$pattern\[\] =\s*(.*?);/s or die "no $pattern in $file";
	$text =~ s/\b(\w+_OPTIONS)\b/$macro{$1}/g;
	return join('', $text =~ /"((?:[^"\\]|\\.)*)"/g) =~ s/\\\\/\\/gr;
}
my %session = (
	'the replicator looks after a node' => options_of('pgclient_control_options', 'base/pgclient.c'),
	'the replicator applies' => options_of('pgclient_apply_options', 'base/pgclient.c'),
	'lockstepctl compares' => options_of('session_options', 'lockstepctl/ctl_peers.c'));
my %before = map { $_ => scalar $c->sql(1, $settings, options => $session{$_}) } sort keys %session;

# ---------- every setting, another value

my $sessions = $c->session(1);
$sessions->do('CREATE TEMP TABLE nasty AS SELECT name, CASE vartype ' .
	"WHEN 'bool' THEN CASE setting WHEN 'on' THEN 'off' ELSE 'on' END " .
	"WHEN 'enum' THEN (SELECT e FROM unnest(enumvals) e WHERE e <> setting LIMIT 1) " .
	# one that converts needs dynamic_library_path at connecting since PostgreSQL 18: with both, nobody can connect any more
	"WHEN 'string' THEN CASE name WHEN 'client_encoding' THEN " . ($c->version >= 18 ? "'SQL_ASCII' " : "'LATIN1' ") .
	"WHEN 'DateStyle' THEN 'German' WHEN 'TimeZone' THEN 'Asia/Tokyo' WHEN 'search_path' THEN 'nowhere' " .
	"WHEN 'session_preload_libraries' THEN 'no_such_library' WHEN 'local_preload_libraries' THEN '\$libdir/plugins/no_such_library' " .
	"WHEN 'lc_messages' THEN 'C' WHEN 'lc_monetary' THEN 'C' WHEN 'lc_numeric' THEN 'C' WHEN 'lc_time' THEN 'C' " .
	"WHEN 'default_transaction_isolation' THEN 'serializable' ELSE 'nonsense' END " .
	"ELSE CASE WHEN min_val <> setting THEN min_val ELSE max_val END END AS value " .
	"FROM pg_settings WHERE context IN ('user', 'superuser', 'backend', 'superuser-backend')");
$sessions->do("UPDATE nasty SET value = '150' WHERE name = 'max_stack_depth'; UPDATE nasty SET value = CASE name WHEN 'transaction_timeout' THEN '500' ELSE '1' END WHERE name LIKE '%_timeout'");
$sessions->do("INSERT INTO nasty VALUES ('role', 'x'), ('session_authorization', 'x')");
cmp_ok($sessions->do('SELECT count(*) FROM nasty'), '>', 180, 'settings that can be set');
for my $where ('DATABASE app', 'ROLE postgres', 'ROLE postgres IN DATABASE app', 'ROLE ALL')
{
	$sessions->do(<<"SQL");
DO \$\$
DECLARE
	n record;
BEGIN
	FOR n IN SELECT * FROM nasty LOOP
		BEGIN
			EXECUTE format('ALTER $where SET %I = %L', n.name, n.value);
		EXCEPTION WHEN others THEN		-- not one that can be set so
			NULL;
		END;
	END LOOP;
END \$\$;
SQL
}
cmp_ok($sessions->do('SELECT count(*) FROM pg_db_role_setting, unnest(setconfig)'), '>', 600, 'most of them are taken');
is($sessions->do("SELECT count(*) FROM pg_db_role_setting, unnest(setconfig) s WHERE s LIKE 'role=%'"), 4, 'role among them');
$sessions->do("INSERT INTO t VALUES (1, 'by a session of before')");
like(($c->try(1, 'SELECT 1'))[1], qr/FATAL:/, 'clients feel them');

# ---------- new sessions do not have them

for my $node ($c->all)
{
	for my $who (sort keys %session)
	{
		my $now = $c->sql($node, "$first$settings", options => $session{$who});
		is(join(' ', grep { my $line = $_; !grep { $_ eq $line } split /\n/, $before{$who} } grep { !/^(port|cluster_name|data_directory|config_file|hba_file|hosts_file|ident_file|external_pid_file|lockstep.node_name|unix_socket_directories)=/ } split /\n/, $now),
			'', "n$node: as $who: the values of before");
	}
}
is($c->sql(2, 'SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE application_name LIKE \'lockstep%\'',
	options => $session{'lockstepctl compares'}), 't', 'the replicator is thrown out of n2');
$sessions->do("INSERT INTO t VALUES (2, 'while it comes back')") if $c->wait_state(1, 'online') && $c->wait_state(2, 'online', 30);
$c->cluster('restart-replicator');
ok($c->wait_state($_, 'online', 30), "n$_ is online after a restart of the replicator") for $c->all;
$c->cluster('restart-node', 2);
ok($c->wait_state(2, 'online', 30), 'n2 is online after a restart of its server');
ok($c->wait_until(sub { $sessions->query("INSERT INTO t VALUES (3, 'after all that')"); $sessions->error !~ /ERROR/ }, 20), 'n1 takes writes');
ok($c->wait_until(sub { $c->sql(2, 'SELECT count(*) FROM public.t', options => $session{'lockstepctl compares'}) eq '3' }, 20), 'and gets what is written');
my ($out, $err, $rc) = $c->ctl('verify');
is($rc, 0, 'lockstepctl verify') or diag($out, $err);

# ---------- and can be taken back

for my $where ('DATABASE app', 'ROLE postgres', 'ROLE postgres IN DATABASE app', 'ROLE ALL')
{
	$sessions->do("ALTER $where RESET ALL");
}
$c->same('equal');

# ---------- lockstep.replicate is nobody's setting

for my $where ('DATABASE app', 'ROLE postgres', 'ROLE ALL', 'SYSTEM')
{
	$c->fails(1, "ALTER $where SET lockstep.replicate = off", '22023', qr/Only a session itself/, "refused: lockstep.replicate = off, $where");
}

# ---------- what would lock out the replicator's role

for my $command ('ALTER ROLE postgres NOLOGIN', 'ALTER ROLE postgres NOSUPERUSER', "ALTER ROLE postgres VALID UNTIL '2020-01-01'", 'ALTER USER postgres WITH NOLOGIN',
	'ALTER ROLE postgres RENAME TO other', 'DO $$ BEGIN ALTER ROLE postgres NOLOGIN; END $$', 'ALTER GROUP postgres RENAME TO other')
{
	$c->fails(1, "SET SESSION AUTHORIZATION helper; $command", '0A000', qr/The replicator connects to this node as that role/, "refused: $command");
}
$c->sql(1, "ALTER ROLE helper NOLOGIN NOSUPERUSER VALID UNTIL '2020-01-01'; ALTER ROLE helper RENAME TO gone; DROP ROLE gone");
$c->sql(1, 'ALTER ROLE postgres CONNECTION LIMIT 0; REVOKE CONNECT ON DATABASE app FROM PUBLIC');
$c->cluster('restart-replicator');
ok($c->wait_state($_, 'online', 30), "n$_ is online whatever connections are left to others") for $c->all;
$c->same('equal at the end');
done_testing();
