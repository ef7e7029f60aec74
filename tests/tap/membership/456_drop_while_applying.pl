# A database is dropped from replication while what was decided in it is still being applied, and
# has to be tried again: its connections stay until that is done, and the order goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "yield_delay = 60s\n");

sub waiting_pid { return $c->sql_local(2, "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND wait_event_type = 'Lock'", db => 'postgres') }

$c->cluster('make-db', 'second');
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)', db => 'second');
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;

my $holder = $c->session(2, db => 'second');
$holder->do('BEGIN');
$holder->do('UPDATE t SET v = 1 WHERE id = 1');
$c->sql(1, 'SET lockstep.commit_wait = ordered; UPDATE t SET v = 2 WHERE id = 1', db => 'second');
ok($c->wait_until(sub { waiting_pid() =~ /^\d+$/ }, 30), 'it is decided, and waits for a row on the other node');
my $pid = waiting_pid();

open(my $drop, '-|', "$LockstepCluster::bindir/lockstepctl --socket $c->{dir}/admin.sock database drop second 2>&1") or die;
ok($c->wait_until(sub { $c->status->{databases}->@* == 1 }, 30), 'the database is being dropped');
$c->sql_local(2, "SELECT pg_cancel_backend($pid)", db => 'postgres');
ok($c->wait_until(sub { $c->node_log(2) =~ /\[$pid\] lockstep apply ERROR:  canceling statement/ }, 30), 'it fails');
$holder->query('ROLLBACK');
$holder->close;
my $told = join '', <$drop>;
ok(close $drop, 'the database is dropped') or diag($told);

$c->sql(1, 'INSERT INTO t VALUES (1)');
$c->same('the other database goes on');
is($c->sql(2, 'SELECT v FROM t', db => 'second'), 2, 'what was decided has been applied');
done_testing;
