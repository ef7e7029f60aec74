# Beside a cluster, as docs/beside.md says: a streaming standby of a node can be read and,
# promoted when its node is lost, takes that node's place; while the node lives it is
# refused.  What changes data can be followed with logical decoding, on any node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "wal_level = logical\n");
my $port = $c->{base} + 3;
my $standby = "$c->{dir}/standby";
my $bin = $LockstepCluster::bindir;

sub sql_at { return $c->psql_says($port, 'app', @_) }
sub pg_ctl { return $c->run_owned("$bin/pg_ctl", '-D', $standby, '-l', "$standby.log", '-w', '-s', @_) }
END { my $rc = $?; pg_ctl('-m', 'immediate', 'stop') if $c && -e "$standby/postmaster.pid"; $? = $rc }

$c->sql(1, "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (0, 'before'); CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader");

# ---------- logical decoding

$c->sql(1, "SELECT pg_create_logical_replication_slot('cdc', 'test_decoding')");
$c->sql(1, "INSERT INTO t VALUES (1, 'n1')");
$c->sql(2, "INSERT INTO t VALUES (2, 'n2')");
$c->drain;
# applied changes are flushed a little later, and decoded from then on
$c->wait_sql(1, q{SELECT count(*) FROM pg_logical_slot_peek_changes('cdc', NULL, NULL, 'only-local', '1') WHERE data LIKE '%''n2''%'}, '1');
my $changes = $c->sql(1, "SELECT data FROM pg_logical_slot_get_changes('cdc', NULL, NULL, 'only-local', '1')");
like($changes, qr/'n1'.*lockstep\.progress: [A-Z]+: .*seq\[bigint\]:(\d+).*'n2'.*lockstep\.progress: [A-Z]+: .*seq\[bigint\]:(?!\1)\d+/s,
	'changes made on both nodes come, each with its seq');
$c->sql(1, "SELECT pg_drop_replication_slot('cdc')");

# ---------- a standby

my ($rc, $out) = $c->run_owned("$bin/pg_basebackup", '-d', $c->conninfo(1, 'postgres'), '-D', $standby, '-R', '-c', 'fast', '-X', 'stream');
is($rc, 0, 'pg_basebackup of a node') or diag($out);
open(my $f, '>>', "$standby/postgresql.auto.conf") or die $!;
print $f "port = $port\n";
close $f;
is((pg_ctl('start'))[0], 0, 'a standby of n1 starts');
$c->sql(2, "INSERT INTO t VALUES (3, 'n2')");
ok($c->wait_until(sub { sql_at('SELECT count(*) FROM t') eq '4' }), 'it shows what n1 has') or diag(sql_at('SELECT * FROM t'));
like(sql_at("INSERT INTO t VALUES (9, 'standby')"), qr/25006/, 'it takes no writes');
like(sql_at("SET lockstep.max_staleness = '60s'; SELECT count(*) FROM t"), qr/57P03/, 'nor does it know how old it is');
like(sql_at($_), qr/57P03: this server is a standby/, "it asks the replicator nothing: $_")
  for 'SELECT lockstep.transaction_token()', 'SELECT * FROM lockstep.conflicts', 'SET lockstep.causal_reads = on; SELECT count(*) FROM t';
unlike($c->replicator_log, qr/was dropped/, 'nobody takes it for a node that has restarted');

# ---------- promoted while its node lives

is((pg_ctl('promote'))[0], 0, 'it is promoted');
my $error = '';
ok($c->wait_until(sub { $error = sql_at("INSERT INTO t VALUES (9, 'promoted')"); $error =~ /28000/ }), 'and refused while n1 lives') or diag($error);
ok($c->wait_state(1, 'online'), 'n1 goes on');
$c->sql(1, "INSERT INTO t VALUES (4, 'n1')");

# ---------- promoted because its node is lost

$c->cluster('kill-node', 1);
$c->sql(2, "INSERT INTO t VALUES (5, 'n2')") if $c->wait_state(1, 'dropped');
# who reads there waits until it has what was acknowledged
open(my $reader, '-|', "$bin/psql", '-XAtq', '-d', "host=127.0.0.1 port=$port user=reader dbname=app", '-c', 'SELECT max(id) FROM t') or die $!;
ok($c->wait_until(sub { sql_at("SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active' AND wait_event_type = 'Extension'") eq '1' }), 'who reads there waits');
$c->edit_replicator_conf(sub { s/^(node\.n1 = .*port=)\d+/$1$port/m });
is(($c->ctl('reload'))[2], 0, 'its address in replicator.conf, and a reload');
ok($c->wait_state(1, 'online', 60), 'it is node n1 now') or diag($c->reason(1));
is(readline($reader), "5\n", 'and reads what was acknowledged');
close $reader;
is(sql_at("INSERT INTO t VALUES (6, 'new n1') RETURNING id"), '6', 'it takes writes');
$c->drain;
is(sql_at("SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), '0,1,2,3,4,5,6', 'and has all that was acknowledged');
is($c->sql(2, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), '0,1,2,3,4,5,6', 'as n2 has');

# ---------- the old server comes back

$c->cluster('start-node', 1, '--no-wait');
$c->fails(1, "INSERT INTO t VALUES (9, 'old n1')", '28000|57P03', qr/another server is node "n1"|not online|does not take writes/, 'the old server is refused');
ok($c->wait_state(1, 'online', 60), 'the new one stays');
is(sql_at("INSERT INTO t VALUES (7, 'new n1') RETURNING id"), '7', 'and goes on');

done_testing;
