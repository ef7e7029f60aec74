# CREATE and DROP DATABASE by SQL, from any database and any node: on every node, with owner, encoding, collation, limit;
# replicated from the first statement.  Rights and refusals are PostgreSQL's.  A node that fails names itself, and nothing
# is left anywhere.  A node's position is not lost with a database.  Nodes that were away for a create, a drop, and a create after a drop of one name have what the others have.
#
# LOCKSTEP_LONG: until connections for the replicator run out.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "reconnect_interval = 200ms\n");
my %in = (db => 'postgres');
my $shape = "SELECT datname, pg_encoding_to_char(encoding), datcollate, datctype, datconnlimit, datistemplate, datdba::regrole FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1') ORDER BY 1";

sub everywhere
{
	my ($query, $wanted, $name, %opt) = @_;
	my @nodes = @{ $opt{nodes} // [ $c->all ] };
	delete $opt{nodes};
	is($c->sql($_, $query, %opt), $wanted, "$name: n$_") for @nodes;
}
sub databases { return join ' ', map { $c->sql($_[0], "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')", %in) } 1 }
sub command { my ($name, @args) = @_; return system("$LockstepCluster::bindir/$name", '-h', '127.0.0.1', '-p', $c->port(1), '-U', 'postgres', @args) }

# ---------- from a database that is not replicated, and from one that is

$c->sql(1, 'CREATE DATABASE x', %in);
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'x'", 1, 'created', %in);
$c->sql(2, 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)', db => 'x');
$c->drain;
$c->sql(3, 'INSERT INTO t VALUES (2)', db => 'x');
$c->drain;
$c->same('replicated from its first statement', db => 'x');
$c->sql(2, 'DROP DATABASE x');
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'x'", 0, 'dropped', %in);

$c->sql(1, "CREATE ROLE u_maker CREATEDB LOGIN; CREATE ROLE u_none LOGIN; CREATE ROLE u_owner; GRANT u_owner TO u_maker");
$c->drain;
my %maker = (%in, user => 'u_maker');
$c->sql(3, q(CREATE DATABASE "odd""name" OWNER u_owner TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' CONNECTION LIMIT 7 IS_TEMPLATE true), %maker);

everywhere(q(SELECT pg_encoding_to_char(encoding), datcollate, datctype, datconnlimit, datistemplate, datdba::regrole FROM pg_database WHERE datname = 'odd"name'),
	'LATIN1|C|C|7|t|u_owner', 'options', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS one', db => 'odd"name');
$c->drain;
everywhere('SELECT one FROM t', 1, 'in it', db => 'odd"name');

# ---------- who may

$c->fails(1, 'CREATE DATABASE no', '42501', qr/permission denied to create database/, 'who may not', %in, user => 'u_none');
$c->fails(1, 'CREATE DATABASE no OWNER postgres', '42501', qr/postgres/, 'for another owner', %maker);
$c->fails(1, 'CREATE DATABASE no OWNER nobody', '42704', qr/nobody/, 'for nobody', %in);
$c->fails(1, 'CREATE DATABASE no TEMPLATE app', '0A000', qr/as a template/, 'a replicated template', %in);
$c->fails(1, 'CREATE DATABASE no TEMPLATE postgres', '42501', qr/permission denied to copy/, "another's", %maker);
$c->fails(1, 'CREATE DATABASE no TEMPLATE nothing', '3D000', qr/"nothing" does not exist/, 'a missing one', %in);
$c->fails(2, 'CREATE DATABASE app', '42P04', qr/"app" already exists/, 'one that exists', %in);
$c->fails(2, 'CREATE DATABASE no OID 99999', '0A000', qr/OID/, 'OID', %in);
$c->fails(2, 'CREATE DATABASE no ALLOW_CONNECTIONS false', '0A000', qr/could not connect/, 'ALLOW_CONNECTIONS', %in);
$c->fails(2, "CREATE DATABASE no ENCODING 'nonsense'", '42704', qr/no.*node/, 'an encoding', %in);
$c->fails(2, 'BEGIN; CREATE DATABASE no; COMMIT', '25001', qr/transaction block/, 'in a block', %in);
$c->fails(2, 'BEGIN; DROP DATABASE app; COMMIT', '25001', qr/transaction block/, 'the same of a drop');
$c->fails(1, 'DROP DATABASE "odd""name"', '42501', qr/must be owner/, 'a drop by another', %in, user => 'u_none');
$c->fails(1, 'DROP DATABASE "odd""name"', '42809', qr/template/, 'of a template', %in);
$c->fails(1, 'DROP DATABASE app', '55006', qr/currently open/, 'of the open one');
$c->fails(1, 'DROP DATABASE nothing', '3D000', qr/does not exist/, 'of a missing one', %in);
$c->sql(1, 'DROP DATABASE IF EXISTS nothing', %in);
$c->sql(1, 'ALTER DATABASE "odd""name" IS_TEMPLATE false', %in);
$c->sql(1, 'DROP DATABASE "odd""name"', %maker);

# ---------- sessions in it

$c->sql(1, 'CREATE DATABASE used', %in);
my $user = $c->session(3, db => 'used');
my $pid = $user->pid;
$user->do('CREATE TABLE t (id int)');
$c->fails(1, 'DROP DATABASE used', '55006', qr/"used" is being accessed by other users.*$pid.*"n3"/s, 'a session on another node', %in);
$user->do('INSERT INTO t VALUES (1)');
$c->sql(1, 'ALTER DATABASE used OWNER TO u_maker; CREATE ROLE u_member LOGIN; CREATE ROLE u_else LOGIN; GRANT u_member TO u_maker');
$c->fails(1, 'DROP DATABASE used WITH (FORCE)', '42501', qr/superuser/, "FORCE by an ordinary role does not end a superuser's", %maker);
$user->close;
$user = $c->session(3, db => 'used', user => 'u_none');
my $own = $c->session(2, db => 'used', user => 'u_maker');
my $members = $c->session(2, db => 'used', user => 'u_member');
$c->fails(1, 'DROP DATABASE used WITH (FORCE)', '42501', qr/"used" is being accessed by other users.*role "u_none" on node "n3".*HINT:.*pg_signal_backend/s, "nor that of a role whose privileges it does not have", %maker);
$c->sql(1, 'ALTER ROLE u_maker NOINHERIT; GRANT u_none TO u_maker');
$c->sql(1, 'GRANT u_none TO u_maker WITH INHERIT FALSE') if $c->version >= 16;
$c->drain;
$c->fails(1, 'DROP DATABASE used WITH (FORCE)', '42501', qr/role "u_(none|member)"/, 'nor that of one that it would have to SET ROLE to', %maker);
is($own->query('SELECT 1') . $members->query('SELECT 1') . $user->query('SELECT 1'), '111', 'so all of them go on');
$user->close;
$c->sql(1, 'ALTER ROLE u_maker INHERIT; CREATE DATABASE ours OWNER u_maker; CREATE DATABASE theirs OWNER u_maker', %in);
my @ours = ($c->session(3, db => 'ours', user => 'u_maker'), $c->session(2, db => 'ours', user => 'u_member'));
$c->sql(2, 'DROP DATABASE ours WITH (FORCE)', %maker);
$_->query('SELECT 1') for @ours;
is(scalar(grep { $_->error =~ /57P01|closed|terminat/ } @ours), 2, 'it ends its own, and those of its group');
my $theirs = $c->session(3, db => 'theirs', user => 'u_else');
$c->sql(1, 'GRANT pg_signal_backend TO u_maker');
$c->drain;
$c->sql(1, 'DROP DATABASE theirs WITH (FORCE)', %maker);
$theirs->query('SELECT 1');
like($theirs->error, qr/57P01|closed|terminat/, 'with pg_signal_backend also others');
$_->close for $own, $members;
$user = $c->session(3, db => 'used');
$user->do('BEGIN; INSERT INTO t VALUES (2)');
$c->sql(1, 'DROP DATABASE used WITH (FORCE)', %in);
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'used'", 0, 'FORCE', %in);
$user->query('COMMIT');
like($user->error, qr/57P01|closed|terminat/, 'it is ended');

# ---------- programs, two at once

is(command('createdb', '-E', 'UTF8', '-T', 'template0', 'tools', 'a comment'), 0, 'createdb');
$c->drain;
everywhere("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'tools'", 'a comment', 'its comment', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT generate_series(1, 100) AS id', db => 'tools');
is(command('pg_dump', '-Fc', '-C', '-f', "$c->{dir}/tools.dump", 'tools'), 0, 'pg_dump');
is(command('dropdb', 'tools'), 0, 'dropdb');
is(command('pg_restore', '-C', '-d', 'postgres', "$c->{dir}/tools.dump"), 0, 'pg_restore -C');
$c->drain;
$c->same('restored', db => 'tools');
everywhere('SELECT count(*) FROM t', 100, 'its rows', db => 'tools');
is(command('dropdb', '--force', 'tools'), 0, 'dropdb --force');

my ($a, $b) = ($c->session(1, %in), $c->session(2, %in));
$_->send('CREATE DATABASE twice') for $a, $b;
$_->finish for $a, $b;
like($a->error . $b->error, qr/^ERROR:\s+42P04: database "twice" already exists/, 'two creations of one name: one fails');
is(scalar(grep { $_->error eq '' } $a, $b), 1, 'the other does not');
$c->sql(3, 'DROP DATABASE twice', %in);

# ---------- a node that fails

$c->sql_local(2, 'CREATE DATABASE half', %in);
$c->fails(1, 'CREATE DATABASE half', '42P04', qr/could not create database "half" on node "n2".*of its own/s, 'a node has one of its own', %in);
is($c->sql($_, "SELECT count(*) FROM pg_database WHERE datname = 'half'", %in), $_ == 2 ? 1 : 0, "nothing is left on n$_") for $c->all;
$c->sql_local(2, 'DROP DATABASE half', %in);
$c->sql_local(3, 'CREATE TABLE only_here (id int)', db => 'template1');
$c->fails(1, 'CREATE DATABASE half', '55000', qr/template is not the same.*"n3".*only_here/s, 'templates differ', %in);
$c->sql_local(3, 'DROP TABLE only_here', db => 'template1');
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'half'", 0, 'nothing is left', %in);
mkdir "$c->{dir}/space" or die;
chown +(stat $c->pgdata(1))[4, 5], "$c->{dir}/space";
$c->sql_local(1, "CREATE TABLESPACE space LOCATION '$c->{dir}/space'");
$c->fails(1, 'CREATE DATABASE half TABLESPACE space', '42704', qr/node "n[23]".*space/s, 'a tablespace that others lack', %in);
everywhere("SELECT count(*) FROM pg_database WHERE datname = 'half'", 0, 'nothing is left', %in);
$c->sql(1, 'CREATE DATABASE moved', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'moved');
$c->fails(1, 'ALTER DATABASE moved SET TABLESPACE space', '0A000', qr/lockstepctl drop/, 'another tablespace', %in);
$c->ctl('drop', 'n1');
$c->sql_local(1, 'ALTER DATABASE moved SET TABLESPACE space', %in);
$c->ctl('attach', 'n1');
ok($c->wait_state(1, 'online', 30), 'on one node after the other: n1 is online');
$c->sql(2, 'INSERT INTO t VALUES (2)', db => 'moved');
$c->drain;
$c->same('moved on one node', db => 'moved');
is($c->sql(1, "SELECT spcname FROM pg_database d JOIN pg_tablespace s ON s.oid = dattablespace WHERE datname = 'moved'", %in), 'space', 'it is there');
$c->sql(1, 'DROP DATABASE moved', %in);
$c->sql_local(1, 'DROP TABLESPACE space');

# ---------- without connections for the replicator

if ($ENV{LOCKSTEP_LONG})
{
	$c->sql(1, 'ALTER SYSTEM SET max_connections = 55');
	$c->cluster('restart-node', 1);
	ok($c->wait_state(1, 'online', 30), 'n1 is online');
	my @many;
	for (1 .. 12)
	{
		my (undef, $error) = $c->try(2, "CREATE DATABASE many$_", %in);
		if ($error =~ /ERROR/)
		{
			like($error, qr/53300.*on node "n1".*needs \d+ connections/s, 'connections run out: an error');
			last;
		}
		push @many, "many$_";
	}
	cmp_ok(scalar @many, '<', 12, 'after some databases');
	is($c->node_status($_)->{state}, 'online', "n$_ stays online") for $c->all;
	$c->sql(1, "DROP DATABASE $_", %in) for @many;
	$c->sql(1, 'ALTER SYSTEM RESET max_connections');
	$c->cluster('restart-node', 1);
	ok($c->wait_state(1, 'online', 30), 'n1 is online');
}

# ---------- lockstepctl database drop of one that SQL has made

$c->sql(1, 'CREATE DATABASE "left"', %in);
$c->ctl('database', 'drop', 'left');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 30), "n$_ is online") for $c->all;
$c->sql_local($_, 'DROP DATABASE "left"', %in) for $c->all;

# ---------- a node that starts anew, when its position was in one that has been dropped

$c->sql(1, 'CREATE DATABASE "last"', %in);
$c->sql(1, 'CREATE TABLE t (id int); CREATE ROLE u_last', db => 'last');
$c->sql(1, 'DROP DATABASE "last"', %in);
$c->cluster('kill-node', 3);
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is where it was') or diag($c->reason(3));

# ---------- a node that is away

$c->sql(1, 'CREATE DATABASE old', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'old');
$c->sql(1, 'CREATE DATABASE gone', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'gone');
$c->drain;
$c->cluster('stop-node', 3);
ok($c->wait_state(3, 'dropped', 20), 'n3 is away');
$c->sql(1, 'INSERT INTO t VALUES (2); CREATE ROLE u_of_gone', db => 'gone');
$c->sql(1, 'ALTER DATABASE gone CONNECTION LIMIT 5', %in);
$c->sql(2, 'DROP DATABASE gone', %in);
$c->sql(1, 'CREATE ROLE u_new CREATEDB', %in);
$c->sql(1, 'CREATE DATABASE new OWNER u_new', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id', db => 'new');
$c->sql(2, 'DROP DATABASE old', %in);
$c->sql(2, 'CREATE DATABASE old', %in);
$c->sql(2, 'CREATE TABLE u AS SELECT 1 AS id', db => 'old');
$c->sql(1, 'CREATE DATABASE passing', %in);
$c->sql(1, 'CREATE ROLE u_passing', db => 'passing');
$c->sql(1, 'DROP DATABASE passing', %in);
$c->sql(1, 'CREATE DATABASE last', %in);
$c->cluster('start-node', 3, '--no-wait');
ok($c->wait_state(3, 'online', 30), 'n3 is online again') or diag($c->reason(3));
everywhere("SELECT string_agg(datname || ' ' || datdba::regrole, ',' ORDER BY datname) FROM pg_database WHERE datname IN ('old', 'gone', 'new', 'passing', 'last')",
	'last postgres,new u_new,old postgres', 'databases', %in);
everywhere("SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname IN ('u_of_gone', 'u_passing')", 'u_of_gone u_passing', 'what was done in those that are gone', %in);
$c->sql(3, 'INSERT INTO u VALUES (2)', db => 'old');
$c->sql(2, 'CREATE TABLE t (id int)', db => 'last');
$c->drain;
$c->same("$_ is the same", db => $_) for 'old', 'new', 'last', 'app';

# the replicator starts anew, and so does a node that has nothing to catch up
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 30), "n$_ is online") for $c->all;
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online', 30), 'n2 is online');
$c->sql(2, 'INSERT INTO u VALUES (3)', db => 'old');
$c->drain;
$c->same('still the same', db => 'old');

# the journal says it
my ($text) = $c->ctl('journal');
like($text, qr/database \d+ created: old$/m, 'lockstepctl journal: created');
like($text, qr/database \d+ removed: gone$/m, 'and removed');

# ---------- the last one, and one that the operator has added

$c->sql(1, "DROP DATABASE $_", %in) for qw(old new last);
$c->fails(1, 'DROP DATABASE app', '57P03', qr/cannot run DROP DATABASE now/, 'the last one', %in);
$c->sql(1, 'CREATE DATABASE next', %in);
$c->sql(1, 'DROP DATABASE app', %in);
everywhere("SELECT string_agg(datname, ' ') FROM pg_database WHERE datname IN ('app', 'next')", 'next', 'the first one can go', %in);
$c->sql(1, 'CREATE DATABASE app', %in);
$c->sql(1, 'CREATE TABLE t AS SELECT 1 AS id');
$c->drain;
$c->same('and come back');

done_testing;
