# A subscription on a node fetches what a plain server publishes: the first copy of a
# table and the changes after it are replicated to the other nodes; a conflict with another
# node is tried again by its worker.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "wal_level = logical\nwal_retrieve_retry_interval = 100ms\n");
my $port = $c->{base} + 3;
my $plain = "$c->{dir}/plain";
my $bin = $LockstepCluster::bindir;

sub sql_at { return $c->psql_says($port, 'postgres', @_) }
sub pg_ctl { return $c->run_owned("$bin/pg_ctl", '-D', $plain, '-l', "$plain.log", '-w', '-s', @_) }
END { my $rc = $?; pg_ctl('-m', 'immediate', 'stop') if $c && -e "$plain/postmaster.pid"; $? = $rc }

$c->run_owned("$bin/initdb", '-D', $plain, '-U', 'postgres', '-A', 'trust', '--no-sync');
open(my $f, '>>', "$plain/postgresql.conf") or die $!;
print $f "port = $port\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nwal_level = logical\nfsync = off\n";
close $f;
is((pg_ctl('start'))[0], 0, 'a plain server');
my $tables = 'CREATE TABLE src (id int PRIMARY KEY, v text); CREATE TABLE bare (v text);';
sql_at("$tables ALTER TABLE bare REPLICA IDENTITY FULL; INSERT INTO src SELECT i, 'copied' FROM generate_series(1, 1000) i; INSERT INTO bare VALUES ('a'), ('a'); CREATE PUBLICATION p FOR TABLE src, bare");
$c->sql(2, $tables);
$c->drain;
$c->sql(1, "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port=$port user=postgres dbname=postgres' PUBLICATION p");
ok($c->wait_sql($_, 'SELECT count(*) FROM src', 1000, 60), "the first copy is on n$_") for $c->all;
ok($c->wait_sql(1, "SELECT string_agg(srsubstate::text, '') FROM pg_subscription_rel", 'rr', 60), 'and its end is noted');
is($c->sql(2, 'SELECT count(*) FROM pg_subscription'), 0, 'the subscription is on one node only');

sql_at("UPDATE src SET v = 'changed' WHERE id % 2 = 0; DELETE FROM src WHERE id = 7; INSERT INTO src VALUES (2000, 'new'); DELETE FROM bare WHERE ctid = '(0,1)'");
ok($c->wait_sql($_, "SELECT count(*), count(*) FILTER (WHERE v = 'changed'), max(id), (SELECT count(*) FROM bare) FROM src", '1000|500|2000|1', 60), "changes are on n$_") for $c->all;

# A row is being changed on the other node when its change comes.
my $s = $c->session(2);
$s->do("BEGIN; UPDATE src SET v = 'n2' WHERE id = 1");
sql_at("UPDATE src SET v = 'p' WHERE id = 1");
ok($c->wait_sql($_, "SELECT v FROM src WHERE id = 1", 'p', 60), "a change that is in another's way comes to n$_") for $c->all;
$s->query('COMMIT');
like($s->error, qr/40001/, 'who comes second fails');
$c->sql(1, 'ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)');
$c->sql(1, 'DROP SUBSCRIPTION s');
$c->same('the nodes are equal');

done_testing;
