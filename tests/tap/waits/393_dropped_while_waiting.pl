# A command that has its locks, and waits for what its node has not applied yet,
# fails when the node is dropped: it would wait for ever.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, what text); INSERT INTO t VALUES (1)');
$c->drain;

my @stopped = $c->apply_pids(2);
my $s = $c->session(2);

ok(@stopped > 0, 'apply sessions are stopped');
kill STOP => @stopped;
$c->sql(1, q{SET lockstep.commit_wait = ordered; UPDATE t SET what = 'ordered'});
$s->send('ALTER TABLE t ADD COLUMN more int');
ok($s->blocked(3), 'the command waits for what comes before it');
$c->ctl('drop', 'n2');
ok(!$s->blocked(60), 'it goes on when its node is dropped');
kill CONT => @stopped;
$s->finish;
like($s->error, qr/40001.*not online/s, 'and says why');

$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online'), 'the node is back');
$c->sql(2, 'ALTER TABLE t ADD COLUMN more int');
$c->same('afterwards');

done_testing();
