# Ways to write that pass neither the executor nor the heap's access method as a client's
# statement does: functions in C of contrib, connections of a node to itself, a walsender that takes
# SQL, catalogs.  Each is replicated, or refused; nothing stays on one node without an error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $self = "host=127.0.0.1 port=" . $c->port(1) . " user=postgres dbname=app";
$c->sql(1, "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'); CREATE SCHEMA coll");
$c->sql(1, "CREATE EXTENSION $_") for qw(pg_surgery dblink postgres_fdw lo autoinc pg_visibility);
$c->drain;

# ---------- refused

for my $how ("'t', array['(0,3)']::tid[]", "'t'::regclass, array['(0,2)', '(0,3)']::tid[]")
{
	$c->fails(1, "SELECT heap_force_$_($how)", '0A000', qr/cannot run a function of pg_surgery on a node/, "heap_force_$_") for qw(kill freeze);
}
$c->sql(1, "CREATE FUNCTION mine(regclass, tid[]) RETURNS void LANGUAGE C STABLE AS '\$libdir/pg_surgery', 'heap_force_kill'");
$c->fails(1, "SELECT mine('t', array['(0,3)']::tid[])", '0A000', qr/pg_surgery/, 'by another name, said to be STABLE');
$c->fails(1, "SELECT pg_import_system_collations('coll')", '0A000', qr/cannot run pg_import_system_collations/, 'pg_import_system_collations');
$c->fails(1, "SELECT pg_replication_origin_create('x')", '0A000', qr/effect that is not replicated/, 'pg_replication_origin_create');
is($c->sql($_, 'SELECT count(*) FROM t'), 3, "n$_ has all rows") for 1, 2;

# ---------- replicated

my $file = $c->file('large', "hello\n");
chmod 0644, $file;
$c->sql(1, "SELECT lo_import('$file', 777)");
$c->sql(1, 'CREATE TABLE l (id int PRIMARY KEY, o lo); CREATE TRIGGER t BEFORE UPDATE OR DELETE ON l FOR EACH ROW EXECUTE FUNCTION lo_manage(o)');
$c->sql(1, "INSERT INTO l VALUES (1, lo_from_bytea(888, 'x')), (2, lo_from_bytea(889, 'y'))");
$c->sql(1, 'DELETE FROM l WHERE id = 1');
$c->fails(1, 'SET allow_system_table_mods = on; DELETE FROM pg_largeobject', '0A000', qr/cannot change system catalog/, 'pg_largeobject');
$c->drain;
is($c->sql($_, "SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_largeobject_metadata"), '777,889', "n$_: lo_import, and the trigger of contrib/lo") for 1, 2;
$c->sql(1, 'CREATE SEQUENCE s; CREATE TABLE n (id int, v int PRIMARY KEY); CREATE TRIGGER t BEFORE INSERT ON n FOR EACH ROW EXECUTE FUNCTION autoinc(id, s)');
$c->drain;
$c->sql($_, "INSERT INTO n VALUES (null, $_)") for 1, 2;
is($c->sql(1, 'SELECT count(DISTINCT id) FROM n'), 2, 'numbers of autoinc');
$c->sql(1, 'BEGIN; CREATE TABLE f (i int PRIMARY KEY); COPY f FROM PROGRAM \'echo 1; echo 2\' WITH (FREEZE); COMMIT');
my ($out, $err) = ('', '');
IPC::Run::run([ "$LockstepCluster::bindir/psql", '-XAtq', "$self replication=database", '-c', "INSERT INTO t VALUES (50, 'walsender')" ], '<', \undef, '>', \$out, '2>', \$err);
is($err, '', 'a connection for replication takes SQL');
$c->sql(1, "SELECT dblink_exec('$self', 'INSERT INTO t VALUES (60, ''dblink'')')");
$c->sql(1, "CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '" . $c->port(1) . "', dbname 'app');
	CREATE USER MAPPING FOR postgres SERVER self OPTIONS (user 'postgres', password 'x'); CREATE FOREIGN TABLE ft (id int, v text) SERVER self OPTIONS (table_name 't')");
$c->drain;
$c->sql($_, "INSERT INTO ft VALUES (7$_, 'fdw')") for 1, 2;
$c->sql(1, "SELECT pg_logical_emit_message(true, 'a', 'b')");
$c->sql(1, "SELECT pg_truncate_visibility_map('t')");
$c->drain;
is($c->sql($_, "SELECT string_agg(v, ',' ORDER BY id) FROM t WHERE id >= 50"), 'walsender,dblink,fdw,fdw', "n$_ has what came by other ways") for 1, 2;
$c->same('all nodes are equal');
done_testing;
