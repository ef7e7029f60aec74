# Literals with Unicode escapes (U&'...', with UESCAPE too) are literals like others: a password written so becomes the
# same verifier on all nodes, and a statement with 'now' written so travels as its rows.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# node-postgres' tests make such a role; it failed with XX000.
$c->sql(1, q{
	CREATE ROLE plain LOGIN PASSWORD 'one';
	CREATE ROLE escaped LOGIN PASSWORD U&'IX-\2168' VALID UNTIL '2100-01-01';
	CREATE ROLE other_escape PASSWORD U&'a!0062' /* so */ UESCAPE '!' LOGIN;
	CREATE ROLE altered LOGIN;
	ALTER ROLE altered PASSWORD U&'\0061' UESCAPE '\';
	ALTER ROLE plain PASSWORD U&'two' CONNECTION LIMIT 7});
$c->drain;
my $roles = "SELECT string_agg(rolname || ' ' || rolcanlogin || ' ' || rolconnlimit || ' ' || coalesce(rolvaliduntil::text, '-'), E'\n' ORDER BY rolname)
	FROM pg_authid WHERE rolname IN ('plain', 'escaped', 'other_escape', 'altered') AND rolpassword LIKE 'SCRAM-SHA-256%'";
is($c->sql(1, "SET TimeZone = 'UTC'; $roles"), "altered true -1 -\nescaped true -1 2100-01-01 00:00:00+00\nother_escape true -1 -\nplain true 7 -",
	'roles have such passwords, and what the command says after them');
my $verifiers = "SELECT md5(string_agg(rolname || coalesce(rolpassword, ''), ',' ORDER BY rolname COLLATE \"C\")) FROM pg_authid WHERE rolname !~ '^pg_'";
is($c->sql(2, $verifiers), $c->sql(1, $verifiers), 'verifiers are equal on both nodes');

# The password is the one that was meant: in pg_hba.conf these users need it.
for my $node ($c->all)
{
	my $hba = $c->pgdata($node) . '/pg_hba.conf';
	my $rest = LockstepCluster::_slurp($hba);
	open(my $f, '>', $hba) or die "$hba: $!";
	print $f "host all escaped,other_escape,altered,plain all scram-sha-256\n$rest";
	close $f;
	my $loaded = $c->sql($node, 'SELECT pg_conf_load_time()');
	$c->sql($node, 'SELECT pg_reload_conf()');
	ok($c->wait_sql($node, "SELECT pg_conf_load_time() > '$loaded'", 't'), "n$node has read it");
}
for my $login ([ 'escaped', "IX-\xe2\x85\xa8" ], [ 'other_escape', 'ab' ], [ 'altered', 'a' ], [ 'plain', 'two' ])
{
	my ($role, $password) = @$login;
	local $ENV{PGPASSWORD} = $password;
	is($c->try(2, 'SELECT current_user', user => $role), $role, "$role connects to the other node with its password");
}

# Folded to a constant when the statement is parsed, on each node that parses it: so it travels as rows, though
# statements may travel from one row on, and the last one here does.
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, at timestamptz); INSERT INTO t VALUES (1), (2), (3), (4), (5); ANALYZE t');
sleep 1;						# just after DDL rows would travel
my $n = 0;
for my $now (q{U&'now'}, q{U&'\006eow'}, q{U&'!006eow' UESCAPE '!'}, q{'now'}, q{U&'2100-01-01 \0031:00'})
{
	$n++;
	$c->sql(1, "SET lockstep.statement_rows = 1; UPDATE t SET at = $now WHERE id >= $n");
}
is($c->sql(1, 'SELECT count(*) FROM t WHERE at IS NOT NULL'), 5, 'all rows have a time');
$c->same('both nodes have the same times');
my ($journal) = $c->ctl('journal');
is_deeply([ $journal =~ /^ +\d+ +statement, \d+ rows?: (.*at = .*)$/mg ], [ q{UPDATE t SET at = U&'2100-01-01 \0031:00' WHERE id >= 5} ],
	'what says now in any spelling has travelled as rows');

done_testing;
