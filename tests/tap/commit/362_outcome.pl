# What became of a COMMIT whose answer was lost: lockstep.transaction_token() names
# a transaction, lockstep.outcome() tells on any node what became of it, also
# after a restart of the replicator.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.commit_wait = executed\n", replicator_conf => "node_timeout = 30s\nstall_timeout = 30s\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->drain;

# n2 stands still.
sub has_asked { my ($name) = @_; ok($c->wait_until(sub { $c->status->{counters}{reserved_now} == 1 }), $name) }
sub outcome { my ($node, $token) = @_; return scalar $c->sql($node, "SELECT lockstep.outcome('$token')") }

my $s = $c->session(1);
$s->do('BEGIN; INSERT INTO t VALUES (1, 1)');
my $committed = $s->query('SELECT lockstep.transaction_token()');
like($committed, qr/^n1:[0-9a-f]{16}:\d+:\d+:\d+:[0-9a-f]{32}$/, 'a token');
is($s->query('SELECT lockstep.transaction_token()'), $committed, 'is always the same');
is($s->query("SELECT lockstep.outcome('$committed')"), 'in progress', 'in progress for itself');
is(outcome($_, $committed), 'in progress', "in progress, asked on n$_") for 1, 2;
$s->do('COMMIT');
is(outcome($_, $committed), 'committed', "committed, asked on n$_") for 1, 2;

$s->do('BEGIN');
my $aborted = $s->query('SELECT lockstep.transaction_token()');
is(outcome(2, $aborted), 'in progress', 'a transaction that has done nothing yet is in progress');
$s->do('INSERT INTO t VALUES (2, 2); ROLLBACK');
is(outcome(2, $aborted), 'aborted', 'aborted');
$s->do('BEGIN; INSERT INTO t VALUES (3, 3)');
my $gone = $s->query('SELECT lockstep.transaction_token()');
$s->kill;
ok($c->wait_until(sub { outcome(2, $gone) eq 'aborted' }), 'of a client that went: aborted');

# Somebody else's answer is not given for it.
$c->fails(2, "SELECT lockstep.outcome('" . $committed =~ s/(\d+):(\d+):(\w+)$/($1 + 1) . ":$2:$3"/er . "')", '22023', qr/not the token/, 'the token of the next transaction of that session can not be guessed');
$c->fails(1, "SELECT lockstep.outcome('$_')", '22023', qr/not the token/, "not a token: $_") for 'x', 'n1:1:2:3', "$committed:1", ':1:1:1:1';

# Asked for while nobody could know: the replicator is killed.
my $asked = $c->session(1);
$asked->do('BEGIN; INSERT INTO t VALUES (4, 4)');
my $token = $asked->query('SELECT lockstep.transaction_token()');
my @pids = $c->apply_pids(2);
kill 'STOP', @pids;
$asked->send('COMMIT');
has_asked('a COMMIT has asked');
$c->cluster('kill-replicator');
kill 'CONT', @pids;
$asked->finish(20);
LockstepCluster::is_error($asked->error, '08007', qr/HINT.*SELECT lockstep\.outcome\('\Q$token\E'\)/s, '08007 names the transaction and the way to ask');
$c->fails(2, "SELECT lockstep.outcome('$token')", '57P03', qr/./, 'nobody knows without the replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online") for 1, 2;
is(outcome(2, $token), 'aborted', 'it had not been decided');
is(outcome(2, $committed), 'committed', 'what was committed before the restart still is');
is(outcome(2, $aborted), 'aborted', 'what was aborted before the restart still is');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 4'), 0, 'and is not there');

# Decided, but the answer never came: the backend is frozen meanwhile.
my $late = $c->session(1);
$late->do('BEGIN; INSERT INTO t VALUES (5, 5)');
$token = $late->query('SELECT lockstep.transaction_token()');
@pids = $c->apply_pids(2);
kill 'STOP', @pids;
$late->send('COMMIT');
has_asked('a COMMIT has asked');
kill 'STOP', $late->pid;
kill 'CONT', @pids;
ok($c->wait_until(sub { outcome(2, $token) eq 'committed' }), 'committed, though its own session has not heard');
$c->cluster('kill-replicator');
kill 'CONT', $late->pid;
$late->finish(20);
is($late->error, '', 'it finds its verdict in the socket');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online again") for 1, 2;
is(outcome(2, $token), 'committed', 'committed after the restart');
$c->same('all nodes are equal');

# Where there is nothing to ask.
$c->fails(1, "SET lockstep.replicate = off; SELECT lockstep.outcome('$token')", '55000', qr/./, 'not in a session that is not replicated');

done_testing;
