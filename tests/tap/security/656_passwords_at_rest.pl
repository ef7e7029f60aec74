# Passwords are nowhere in clear but where PostgreSQL itself has them: not in the journal, nor in what lockstepctl shows of it,
# nor in the logs of the other nodes and of the replicator.  Those of roles travel as verifiers; those of user mappings
# travel encrypted by the cluster's secret, and arrive.  When the secret is changed, a node that was away
# opens what it missed by the one before, and says so if it has not got that.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE EXTENSION postgres_fdw; CREATE FOREIGN DATA WRAPPER "any one"; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw;
	CREATE SERVER "Other server" FOREIGN DATA WRAPPER "any one"; CREATE ROLE joe LOGIN; CREATE ROLE "Jane D" LOGIN; GRANT USAGE ON FOREIGN SERVER far TO joe');

# ---------- roles

$c->sql(1, q(CREATE ROLE r1 LOGIN PASSWORD 'hush-role-1'; CREATE USER r2 ENCRYPTED PASSWORD 'hush-role-2'; ALTER ROLE r1 PASSWORD 'hush-role-3'));
$c->drain;
$c->sql(2, q(DO $$BEGIN EXECUTE 'ALTER USER r2 PASSWORD ' || quote_literal('hush-role-4'); END$$));
$c->sql(2, "ALTER ROLE r1 PASSWORD E'hush-\\x72ole-5'");
$c->sql(1, q(CREATE GROUP r3 PASSWORD 'hush-role-6'), in => 'postgres');
$c->drain;
is($c->sql(1, "SELECT count(*) FROM pg_authid WHERE rolname ~ '^r[123]\$' AND rolpassword ~ '^SCRAM'"), 3, 'roles have verifiers');
my $roles = "SELECT string_agg(rolname || rolpassword, ' ' ORDER BY 1) FROM pg_authid WHERE rolname ~ '^r[123]\$'";
is($c->sql(2, $roles), $c->sql(1, $roles), '... the same on all nodes');

# ---------- user mappings

my $mappings = "SELECT string_agg(concat_ws(' ', srvname, usename, umoptions), E'\\n' ORDER BY srvname, usename) FROM pg_user_mappings";

sub mapped
{
	my ($node, $command, $role, $options, $what) = @_;
	unlike(($c->try($node, $command))[1], qr/ERROR/, "$what: done");
	$c->drain;
	is($c->sql($_, "SELECT umoptions::text FROM pg_user_mappings WHERE usename = '$role'"), $options, "... n$_ has it") for $c->all;
}
mapped(1, "CREATE USER MAPPING FOR joe SERVER far OPTIONS (user 'a', password 'hush-map-1')", 'joe', '{user=a,password=hush-map-1}', 'CREATE');
mapped(2, "ALTER USER MAPPING FOR joe SERVER far OPTIONS (SET password 'hush-map-2', ADD sslkey 'hush-map-3', SET \"user\" 'b')", 'joe',
	'{user=b,password=hush-map-2,sslkey=hush-map-3}', 'ALTER, SET and ADD');
mapped(2, 'ALTER USER MAPPING FOR joe SERVER far OPTIONS (DROP sslkey, DROP "user")', 'joe', '{password=hush-map-2}', 'ALTER, DROP');
mapped(1, "CREATE USER MAPPING IF NOT EXISTS FOR joe SERVER far OPTIONS (password 'hush-map-4')", 'joe', '{password=hush-map-2}', 'IF NOT EXISTS');
mapped(1, 'CREATE USER MAPPING FOR "Jane D" SERVER "Other server" OPTIONS ("lockstep encrypted" \'hush-map-7\', user \'\')', 'Jane D',
	'{"lockstep encrypted=hush-map-7",user=}', 'the name of what is encrypted');
mapped(1, 'DROP USER MAPPING FOR "Jane D" SERVER "Other server"', 'Jane D', '', 'DROP');
mapped(2, <<'SQL', 'Jane D', '{"a b=hush-map-8","p=hush-map-9 \'\"\\\\ "}', 'strange names and values');
DO $do$BEGIN EXECUTE $q$CREATE USER MAPPING FOR "Jane D" SERVER "Other server" OPTIONS (U&"\0061\0020b" U&'hush-map-\0038', p $x$hush-map-9 '"\ $x$)$q$; END$do$
SQL
mapped(1, "SET ROLE joe; ALTER USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET password 'hush-map-10')", 'joe', '{password=hush-map-10}', 'CURRENT_USER');
mapped(1, "SET SESSION AUTHORIZATION joe; ALTER USER MAPPING FOR SESSION_USER SERVER far OPTIONS (SET password 'hush-map-11')", 'joe', '{password=hush-map-11}', 'SESSION_USER');
$c->sql(2, "CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (user 'all', password 'hush-map-12')");
$c->fails(1, "CREATE USER MAPPING FOR r1 SERVER far OPTIONS (pass 'hush-map-13')", 'HV00D', qr/invalid option "pass"/, 'an option that does not exist');
$c->fails(1, "SET ROLE joe; CREATE USER MAPPING FOR r1 SERVER far OPTIONS (password 'hush-map-14')", '42501', qr/must be owner/, 'without the right');
# what others refuse is shown and logged, on the replicator's side
$c->sql_local(2, "CREATE USER MAPPING FOR r1 SERVER far");
$c->fails(1, "CREATE USER MAPPING FOR r1 SERVER far OPTIONS (password 'hush-map-15')", '42710', qr/already exists.*on node "n2"/s, 'one that another node refuses');
$c->sql_local(2, "DROP USER MAPPING FOR r1 SERVER far");
$c->drain;
is($c->sql(2, $mappings), $c->sql(1, $mappings), 'all are equal');

# ---------- where they are not

my @conflicts = ($c->ctl('conflicts'), $c->ctl('--json', 'conflicts'), $c->ctl('status'), $c->ctl('--json', 'status'));
sub clear
{
	my ($text, $what) = @_;
	ok(length $text, "$what: there is something");
	is(join(' ', $text =~ /hush[-\w\\]*/g), '', '... and no password');
}
my $journal = '';
$journal .= LockstepCluster::_slurp($_) for glob("$c->{dir}/journal/*.journal");
like($journal, qr/CREATE USER MAPPING FOR joe SERVER far OPTIONS \("user" 'a', "lockstep encrypted" '[0-9a-f]{60,}'\)/, 'the journal has the command');
clear($journal, 'the journal');
clear(scalar $c->ctl('journal', '--keys', '--from=1'), 'lockstepctl journal');
clear(scalar $c->ctl('--json', 'journal', '--from=1'), 'lockstepctl journal as JSON');
clear($c->replicator_log, 'the log of the replicator');
clear("@conflicts", 'lockstepctl conflicts and status');
# a server logs commands that its clients gave and that failed, as PostgreSQL does
clear(join('', grep { !/STATEMENT: / } map { "$_\n" } split /\n/, $c->node_log($_)), "the log of n$_") for $c->all;

# ---------- another secret

my $secret = "$c->{dir}/secret";
my $with = "CREATE USER MAPPING FOR r2 SERVER far OPTIONS (password 'hush-map-20')";
$c->ctl('drop', 'n2');
$c->sql(1, $with);
rename $secret, "$secret.away" or die;
{
	open(my $f, '>', $secret) or die;
	print $f 'another secret of this cluster';
	close $f;
	my @old = stat "$secret.away";
	chown $old[4], $old[5], $secret;
	chmod $old[2] & 07777, $secret;
}
$c->cluster('restart-replicator');
$c->sql(1, "CREATE USER MAPPING FOR r3 SERVER far OPTIONS (password 'hush-map-21')");
$c->ctl('--timeout=5', 'attach', 'n2');
ok($c->wait_until(sub { $c->reason(2) =~ /cannot be decrypted by this node's secret/ }), 'a node that was away has only the new secret: it says so') or diag($c->reason(2));
like(scalar $c->ctl('status'), qr/\.old/, '... and status, what to do');
rename "$secret.away", "$secret.old" or die;
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online'), '... with the old one beside it the node comes back');
is($c->sql(2, $mappings), $c->sql(1, $mappings), '... and has all');
$c->same('at the end');

done_testing;
