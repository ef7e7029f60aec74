# Several databases, one order for all of them; adding and dropping one; roles
# changed from any database.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
ok($c->cluster('make-db', 'second'), 'a database is added');
is_deeply([ sort @{ $c->status->{databases} } ], [ 'app', 'second' ], 'status lists it');

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)', db => $_) for 'app', 'second';
$c->sql(1, "INSERT INTO t VALUES (1, 'app')");
$c->drain;
$c->sql(2, "INSERT INTO t VALUES (1, 'second')", db => 'second');
$c->drain;
is($c->sql(2, 'SELECT v FROM t'), 'app', 'a row of one database');
is($c->sql(1, 'SELECT v FROM t', db => 'second'), 'second', 'is not a row of the other');

# The same keys in both at once are no conflict; one order holds for both.
my $script = $c->file('db.sql', "\\set id random(1, 20)\nINSERT INTO t VALUES (:id, 'x') ON CONFLICT (id) DO UPDATE SET v = t.v || :client_id;\n");
my @runs;
for my $db (qw(app second))
{
	local $c->{db} = $db;
	push @runs, map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 2, '-t', 60, '--max-tries=10000') } 1, 2;
}
$_->{handle}->finish for @runs;
is(LockstepCluster::processed(${ $_->{text} }), 120, 'load on both databases from both nodes') or diag(${ $_->{text} }) for @runs;
$c->same("equal: $_", db => $_) for qw(app second);

# Concurrent transactions on one key in different databases.
my ($x, $y) = ($c->session(1), $c->session(2, db => 'second'));
$_->do("BEGIN; UPDATE t SET v = 'y' WHERE id = 1") for $x, $y;
$_->do('COMMIT') for $x, $y;
pass('equal keys in different databases do not conflict');

# Roles belong to all databases.
my (undef, $err) = $c->try(1, 'CREATE ROLE r1 LOGIN');
SKIP:
{
	skip "roles are refused as yet: $err", 5 if $err =~ /0A000/;
	$c->drain;
	$c->sql(2, "ALTER ROLE r1 CREATEDB; CREATE ROLE r2 IN ROLE r1", db => 'second');
	$c->drain;
	is($c->sql($_, "SELECT rolcreatedb, rolcanlogin FROM pg_roles WHERE rolname = 'r1'"), 't|t', "role changed from any database (n$_)") for 1, 2;
	is($c->sql($_, "SELECT count(*) FROM pg_auth_members m WHERE m.member = 'r2'::regrole"), 1, "membership (n$_)") for 1, 2;
	$c->sql(2, 'DROP ROLE r2');
	$c->same('roles', db => 'second');
}
$c->fails(1, 'BEGIN; CREATE ROLE r3', '25001', qr/./, 'in a database that is not replicated roles can\'t be changed inside of a transaction block', db => 'postgres');
$c->sql(1, 'CREATE TABLE only_here (id int); DROP TABLE only_here', db => 'postgres');
pass('a database without the extension is left alone');

# Dropping one.
$c->sql(1, 'CREATE TABLE last (id int)', db => 'second');
$c->drain;
my $decided = $c->status->{journal}{decided};
my ($out, $ctl_err, $rc) = $c->ctl('database', 'drop', 'second');
is($rc, 0, 'a database is dropped from replication') or diag($ctl_err);
is_deeply($c->status->{databases}, ['app'], 'status lists it no more');
cmp_ok($c->sql($_, 'SELECT max(seq) FROM lockstep.progress'), '>=', $decided, "n$_ knows that it has applied all of it") for 1, 2;
$c->sql(1, 'DROP TABLE last', db => 'second');
$c->sql(2, 'DROP TABLE last', db => 'second');
$c->sql(1, "INSERT INTO t VALUES (500, 'after')");
$c->same('the other goes on');
$c->sql(1, "INSERT INTO t VALUES (500, 'alone')", db => 'second');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 500', db => 'second'), 0, 'the dropped one stays, as a plain one');
($out, $ctl_err, $rc) = $c->ctl('database', 'add', 'second');
isnt($rc, 0, 'it can\'t be added with unequal content');
like($ctl_err, qr/\bt\b/, 'the error names the table') or diag($ctl_err);
$c->sql_local(1, 'DELETE FROM t WHERE id = 500', db => 'second');
($out, $ctl_err, $rc) = $c->ctl('database', 'add', 'second');
is($rc, 0, 'and can with equal') or diag($ctl_err);
$c->sql(1, "INSERT INTO t VALUES (501, 'again')", db => 'second');
$c->same('it is replicated again', db => 'second');
$c->ctl('database', 'drop', 'second');

($out, $ctl_err, $rc) = $c->ctl('database', 'add', 'made');
is($rc, 0, 'a database that no node has is made') or diag($ctl_err);
$c->sql(2, 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)', db => 'made');
$c->same('and replicated', db => 'made');
$c->ctl('database', 'drop', 'made');
$c->sql_local(1, 'CREATE DATABASE half', db => 'postgres');
($out, $ctl_err, $rc) = $c->ctl('database', 'add', 'half');
isnt($rc, 0, 'one that exists on one node only is refused');
like($ctl_err, qr/n2/, 'the error names the node that lacks it') or diag($ctl_err);
$c->sql(2, "INSERT INTO t VALUES (501, 'after')");
$c->same('nothing else is disturbed');

# Restarted replicator: it knows which databases there are.
$c->cluster('make-db', 'third');
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)', db => 'third');
$c->cluster('restart-replicator');
is_deeply([ sort @{ $c->status->{databases} } ], [ 'app', 'third' ], 'databases are remembered');
$c->sql(2, 'INSERT INTO t VALUES (2)', db => 'third');
$c->same('and replicated', db => 'third');

done_testing;
