# What the replicator says of a database when it attaches a node: one that is not of the
# same kind is refused, with the fact and both values; collations of another version than
# the node's indexes were made with are told, once, and the node goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $icu = $c->sql(1, "SELECT count(*) FROM pg_collation WHERE collname = 'de-x-icu'");

# ---------- told

SKIP:
{
	skip 'this server has no ICU', 7 unless $icu;
	$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text COLLATE "de-x-icu"); CREATE TABLE u (v text COLLATE "fr-x-icu")');
	$c->sql(1, "INSERT INTO t VALUES (1, 'a')");
	$c->drain;

	# as after an upgrade of ICU; a collation that nothing uses does not matter
	$c->sql_local(2, q{SET allow_system_table_mods = on; UPDATE pg_collation SET collversion = '1.1' WHERE collname IN ('de-x-icu', 'sv-x-icu')});
	$c->ctl('drop', 'n2');
	$c->ctl('attach', 'n2');
	ok($c->wait_state(2, 'online'), 'a node with collations of another version goes on');
	my $told = qr/\[n2\].*database "app" was made with other versions of its collations: pg_catalog\."de-x-icu"$/m;
	$c->replicator_logs($told, 'the log names them, and only those in use');
	$c->replicator_logs(qr/HINT:.*See "Collations"/, 'with where the remedy is');
	$c->ctl('drop', 'n2');
	$c->ctl('attach', 'n2');
	ok($c->wait_state(2, 'online'), 'attached again');
	is(scalar(() = $c->replicator_log =~ /$told/g), 1, 'it is said once');
	$c->sql(2, q{ALTER COLLATION "de-x-icu" REFRESH VERSION}) ;
	is($c->sql(2, q{SELECT collversion = pg_collation_actual_version(oid) FROM pg_collation WHERE collname = 'de-x-icu'}), 't', 'the remedy');
	$c->same('all are equal');
}

# ---------- refused

$c->sql_local($_, "CREATE DATABASE odd TEMPLATE template0 ENCODING '" . ($_ == 1 ? 'UTF8' : 'SQL_ASCII') . "' LOCALE 'C'", db => 'postgres') for 1, 2;
my (undef, $err, $rc) = $c->ctl('database', 'add', 'odd');
is($rc, 1, 'databases of different encodings are not replicated');
like($err, qr/database "odd" has encoding "\w+", but "\w+" on node "n\d"/, 'and it is said why') or diag($err);

done_testing;
