# A transaction uses what another session has created a moment ago, and shares no key with it: be it
# that it makes no key after that, as it has changed too many rows, or that it sees it before its node
# has passed the turn.  No peer executes it before what it uses is there.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, r regrole)');
$c->drain;

# ---------- it makes no key after the command

my $user = $c->session(1);
$user->do('SET lockstep.max_row_keys = 1; BEGIN; INSERT INTO t VALUES (1), (2), (3)');
$c->order_at(2, 'APPLY_TURN', 'wait');
$c->sql(1, 'CREATE ROLE made');
ok($c->wait_until(sub { $c->was_there(2, 'APPLY_TURN') }), 'a role is there on n1, and not yet on n2');
$user->send("INSERT INTO t VALUES (4, 'made'); COMMIT");
ok($user->blocked(1), 'a row with it waits on n2');
$c->let_go(2, 'APPLY_TURN');
$user->finish;
is($user->error, '', 'and is committed');

# ---------- it sees it before its node has passed the turn

$c->drain;
$c->order_at(1, 'COMMITTED', 'wait');
$c->order_at(2, 'APPLY_TURN', 'wait');
my $maker = $c->session(1);
$maker->send('CREATE ROLE early');
ok($c->wait_until(sub { $c->was_there(1, 'COMMITTED') && $c->was_there(2, 'APPLY_TURN') }), 'a role can be seen on n1, before its turn is passed');
$user->send("INSERT INTO t VALUES (5, 'early')");
ok($user->blocked(1), 'a row with it waits');
$c->let_go(2, 'APPLY_TURN');
$c->let_go(1, 'COMMITTED');
$_->finish for $maker, $user;
is($maker->error . $user->error, '', 'both are committed');
$c->same('all nodes are equal');
is($c->sql(2, 'SELECT id, r FROM t WHERE r IS NOT NULL ORDER BY id'), "4|made\n5|early", 'n2 has the rows');

done_testing;
