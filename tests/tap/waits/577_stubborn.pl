# A postmaster that is stopped, alone, is seen: sessions go on, and status says that new connections
# are not accepted.  A function that catches what cancels it, on a node that executes it for too
# long, ends with its session.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 4s\napply_patience = 500ms\napply_connections = 3\nreserved_connections = 0\nearly_connections = 0\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY); CREATE SCHEMA m');
$c->drain;

# ---------- the postmaster

my $postmaster = $c->postmaster_pid(2);
kill 'STOP', $postmaster;
ok($c->wait_until(sub { $c->reason(2) =~ /its server has accepted no new connection for \d+ s/ }, 30), 'a stopped postmaster is seen') or diag($c->reason(2));
is($c->node_status(2)->{state}, 'online', 'the node stays online');
$c->sql(1, 'INSERT INTO t VALUES (1)');
pass('transactions go on');
$c->replicator_logs(qr/WARNING:\s+\[n2\] its server has accepted no new connection/, 'the log says so');
kill 'CONT', $postmaster;
ok($c->wait_until(sub { $c->reason(2) eq '' }, 30), 'and when it goes on') or diag($c->reason(2));
$c->replicator_logs(qr/\[n2\] its server accepts new connections again/, 'in the log, too');
is($c->sql(2, 'SELECT count(*) FROM t'), 1, 'nothing is lost');

# ---------- a function that catches query_canceled

$c->sql(1, <<'SQL');
CREATE FUNCTION m.stubborn(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF i >= 700 AND current_setting('lockstep.node_name') <> 'n1' THEN
		LOOP
			BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN NULL; END;
		END LOOP;
	END IF;
	RETURN i;
END $$;
CREATE TABLE m.t (i int PRIMARY KEY);
CREATE INDEX ON m.t (m.stubborn(i));
SQL
$c->drain;
my @s = map { $c->session(1) } 1 .. 4;
$s[$_]->send('INSERT INTO m.t VALUES (' . (700 + $_) . ')') for 0 .. 3;
my $bystander = $c->session(1);
$bystander->send('INSERT INTO t VALUES (2)');
$bystander->finish(60);
is($bystander->error, '', 'others get a connection');
ok($c->wait_until(sub { $c->replicator_log =~ /apply session \d+ is terminated: it was to roll back a transaction of node "n1"/ }, 30), 'a session that catches the cancel is terminated');
$c->sql(1, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO m.t%' AND pid <> pg_backend_pid()");
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 0 }, 60), 'none is left');
is($c->node_status(2)->{state}, 'online', 'the node is online');
$c->sql(1, 'INSERT INTO t VALUES (3)');
$c->drain;
$c->same('all nodes are equal');
done_testing;
