# What an operator does with a new cluster, as docs/operating.md has it: a replicator
# without databases, the first one added while everything runs, writes at once; status,
# metrics, the log after a rotation.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "databases = ''\n");
is_deeply($c->status->{databases}, [], 'a cluster without a database');
is($c->node_status($_)->{state}, 'online', "n$_ is online") for $c->all;
$c->sql_local($_, 'DROP DATABASE app', db => 'postgres') for $c->all;

my (undef, $err, $rc) = $c->ctl('database', 'add', 'app');
is($rc, 0, 'the first database is added') or diag($err);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
$c->drain;
$c->sql(2, 'INSERT INTO t VALUES (1)');
pass('and written to at once, on each node');
$c->same('it is replicated');
unlike($c->replicator_log, qr/was dropped/, 'no node was dropped meanwhile');

ok($c->wait_sql($_, 'SELECT lockstep.staleness() IS NOT NULL', 't'), "n$_ hears how far the cluster is") for $c->all;

# A server that restarts is found out as ever.
$c->cluster('restart-node', 1);
ok($c->wait_state(1, 'online', 30), 'a node restarts');
$c->sql(1, 'INSERT INTO t VALUES (2)');
$c->same('and goes on');

my ($out) = $c->ctl('metrics');
like($out, qr/^lockstep_node_state\{node="n2",state="online"\} 1$/m, 'metrics: a state');
like($out, qr/^lockstep_committed_total \d+$/m, 'metrics: a counter');
my @wrong = grep { !/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{[^}]*\})? -?\d+)$/ } split /\n/, $out;
is_deeply(\@wrong, [], 'metrics: each line is one of the format');

my $log = "$c->{dir}/replicator.log";
rename($log, "$log.1") or die;
$c->ctl('reload');
kill 'HUP', $c->replicator_pid;
ok($c->wait_until(sub { -e $log && LockstepCluster::_slurp($log) =~ /configuration reloaded/ }), 'SIGHUP opens the log anew after its rotation');

done_testing;
