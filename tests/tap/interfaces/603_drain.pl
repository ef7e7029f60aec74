# After lockstepctl drain NODE: from then on balancers get 503 and new writers 25006, while transactions that have begun
# to write finish; then the node is out, and no transaction has failed for another reason.  resume brings
# it back, or ends the drain.  A node that dies meanwhile stays out, but while the drain is only announced.
# A drain, or its announcement, ends when no other node is online any more: the last one goes on to take writes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my $http = $c->{base} + 9;
my $bin = $LockstepCluster::bindir;
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\n";
$c->up;
$c->sql(1, 'CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text); CREATE SEQUENCE s');
$c->drain;

sub check
{
	my ($path) = @_;
	my $code = `curl -s -m 10 -o /dev/null -w '%{http_code}' http://127.0.0.1:$http$path`;
	return $code;
}

# lockstepctl in the background: { out, err } and its handle.
sub begin_ctl
{
	my (@args) = @_;
	my %run = (out => '', err => '');
	$run{handle} = IPC::Run::start([ "$bin/lockstepctl", '--config', $c->replicator_conf, '--socket', "$c->{dir}/admin.sock", @args ],
		'<', \undef, '>', \$run{out}, '2>', \$run{err}, IPC::Run::timeout(120));
	return \%run;
}

sub end_ctl
{
	my ($run) = @_;
	IPC::Run::finish($run->{handle});
	return $? >> 8;
}

sub insert { return "INSERT INTO t (v) VALUES ('$_[0]')" }
my $refused = qr/node "n1" takes no new transactions that write, because it is being drained/;

# ---------- a drain with a transaction that writes

my $writer = $c->session(1);
my $reader = $c->session(1);
my $idle = $c->session(1);
$idle->query(insert('before'));
$writer->query('BEGIN');
$writer->query(insert('writer 1'));
$reader->query('BEGIN');
$reader->query('SELECT count(*) FROM t');
is(check('/nodes/n1/write'), 200, 'before: balancers may send writers');

my $drain = begin_ctl('drain', 'n1');
ok($c->wait_until(sub { check('/nodes/n1/write') eq '503' }), 'a drain begins: no more writers from balancers');
ok($c->wait_until(sub { ($c->node_status(1)->{writers_open} // -1) == 1 }), 'status counts the transactions that write');
ok($c->node_status(1)->{draining}, '... and says that it is drained');
like($c->reason(1), qr/being drained: 1 transactions/, '... in words');
is($c->node_status(1)->{state}, 'online', '... the node is still online');
is(check('/nodes/n1/read'), 200, '... readers may come');
is(check('/nodes/n1/write?draining=404'), 404, '... for HAProxy, whose sessions are to stay: 404');
is(check('/nodes/n2/write?draining=404'), 200, '... 200 for the other node');
is(check('/nodes/n2/write'), 200, '... writers go to the other node');
$c->fails(1, insert('new'), '25006', $refused, 'a new session that writes: refused');
$idle->query(insert('idle'));
like($idle->error, $refused, 'one that wrote before: refused');
$reader->query(insert('reader'));
like($reader->error, $refused, 'a transaction that has only read: refused');
$reader->query('ROLLBACK');
$c->fails(1, $_, '25006', $refused, "refused: $_")
  for 'CREATE TABLE u (i int)', "SELECT setval('s', 7)", 'NOTIFY a', 'SELECT lockstep.transaction_token()',
  'BEGIN; LOCK TABLE t; COMMIT', "DO \$\$BEGIN BEGIN INSERT INTO t (v) VALUES ('sub'); EXCEPTION WHEN unique_violation THEN END; END\$\$";
# from 16 on the function itself looks first, and finds the session read-only
$c->fails(1, 'SELECT lo_create(0)', '25006', $c->version < 16 ? $refused : qr/$refused|in a read-only transaction/, 'refused: a large object');
is($c->sql(1, 'SELECT count(*) FROM t'), '1', 'reads go on');
is($c->sql(1, 'SET lockstep.causal_reads = on; SELECT count(*) FROM t'), '1', '... causal ones, too');
$c->sql(2, insert('other node'));
$c->wait_sql(1, 'SELECT count(*) FROM t', '2');
pass('what others commit is applied');

$writer->query(insert('writer 2'));
is($writer->error, '', 'the transaction that had begun goes on');
$writer->query("SELECT setval('s', 9)");
is($writer->error, '', '... and may do what new ones may not');
$writer->query('COMMIT');
is($writer->error, '', '... and commits');
is(end_ctl($drain), 0, 'then the drain is over') or diag($drain->{err});
is($c->node_status(1)->{state}, 'dropped', '... the node is out');
ok($c->node_status(1)->{administrative}, '... by command');
is(check('/nodes/n1/read'), 503, '... no readers any more');
$c->fails(1, insert('out'), '57P03|25006', qr/is not online|$refused/, '... writers are refused');
$c->drain('online');
is($c->sql(2, 'SELECT count(*) FROM t'), '4', 'nothing was lost');
like(($c->ctl('drain', 'n1'))[1], qr/could not drain node "n1": it is not online/, 'a second drain says so');
{
	my @rest = grep { $c->node_status($_)->{state} eq 'online' } $c->all;
	my $last = pop @rest;
	$c->ctl('drop', "n$_") for @rest;
	my (undef, $error, $rc) = $c->ctl('drain', "n$last");
	is($rc, 1, 'the last node that is online');
	like($error, qr/could not drain node "n$last": no other node is online/, 'is not drained');
	$c->sql($last, insert('last'));
	for (@rest)
	{
		$c->ctl('attach', "n$_");
		ok($c->wait_state($_, 'online'), "n$_ is back");
	}
}

my (undef, $err, $rc) = $c->ctl('resume', 'n1');
is($rc, 0, 'resume') or diag($err);
is($c->node_status(1)->{state}, 'online', '... brings it back');
$idle->query(insert('after'));
is($idle->error, '', '... the old session writes again');
is(check('/nodes/n1/write'), 200, '... balancers know');

# ---------- a drain that is given up

$writer->query('BEGIN');
$writer->query(insert('writer 3'));
(undef, $err, $rc) = $c->ctl('drain', 'n1', '--readers', '--timeout=1');
is($rc, 1, 'a drain that takes too long');
like($err, qr/still being drained: 1 transactions that write are open.*\nHINT:.*resume/, '... says what is open, and what to do');
is(check('/nodes/n1/read'), 503, '... --readers: balancers send no readers');
$c->fails(1, insert('new'), '25006', $refused, '... it goes on');
is(($c->ctl('resume', 'n1'))[2], 0, 'resume ends it');
is(($c->try(1, insert('resumed')))[1], '', '... new writers are taken');
is(check('/nodes/n1/read'), 200, '... readers, too');
$writer->query('COMMIT');
is($writer->error, '', '... who was there commits');
is($c->node_status(1)->{state}, 'online', '... the node was never out');

# ---------- one that is announced

ok(!$c->node_status(1)->{draining}, 'before');
my $pooler = "$c->{top}/pooler";
$drain = begin_ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler; while [ -e $pooler -a -d $c->{top} ]; do sleep 0.1; done");
ok($c->wait_until(sub { -e $pooler }), 'a drain is announced: the command for poolers is run');
is(check('/nodes/n1/write'), 503, '... balancers send no more writers');
is($c->sql(1, 'SHOW default_transaction_read_only'), 'on', '... new sessions are told');
like($c->reason(1), qr/is to be drained.*writers go on/, '... status says so');
is(($c->try(1, insert('announced')))[1], '', '... and nobody is refused');
$idle->query(insert('announced'));
is($idle->error, '', '... one that was there neither');
unlink $pooler;
is(end_ctl($drain), 0, 'then it is drained') or diag($drain->{err});
is($c->node_status(1)->{state}, 'dropped', '... and out');
is(($c->ctl('resume', 'n1'))[2], 0, '... and back');
is($c->sql(1, 'SHOW default_transaction_read_only'), 'off', '... for new sessions, too');
is(($c->ctl('status', '--announce=1'))[2], 2, '--announce of another command');
is(($c->ctl('drain', '--poolers=true'))[2], 2, '--poolers without a node');

# ---------- announced while the answer to an earlier drain is under way

my @control = split /\n/, $c->sql(1, "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockstep control'");
kill 'STOP', @control;
my $earlier = begin_ctl('drain', 'n1');
ok($c->wait_until(sub { $c->node_status(1)->{draining} }), 'a drain begins');
(undef, $err, $rc) = $c->ctl('resume', 'n1', '--timeout=1');
is($rc, 0, '... and is given up before the node has answered') or diag($err, $c->reason(1));
is(end_ctl($earlier), 1, '... which is said') or diag($earlier->{out});
$drain = begin_ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler; while [ -e $pooler -a -d $c->{top} ]; do sleep 0.1; done");
ok($c->wait_until(sub { $c->reason(1) =~ /is to be drained/ }), '... another one is announced');
sleep(2);						# longer than --announce says
ok(!-e $pooler, '... poolers wait until the node knows it');
kill 'CONT', @control;
ok($c->wait_until(sub { -e $pooler }), '... and when it has answered they are called');
is($c->sql(1, 'SHOW default_transaction_read_only'), 'on', '... and find that new sessions are told');
is($c->node_status(1)->{state}, 'online', '... and is online');
# The earlier drain, which the node carries out first, holds writers until the replicator has its answer.
ok($c->wait_until(sub { ($c->try(1, insert('announced again')))[1] eq '' }), '... and takes writes');
unlink $pooler;
is(end_ctl($drain), 0, '... until it is drained') or diag($drain->{err});
is(($c->ctl('resume', 'n1'))[2], 0, '... and back');

# ---------- one that is announced to a node that does not answer

kill 'STOP', @control = split /\n/, $c->sql(1, "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockstep control'");
(undef, $err, $rc) = $c->ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler");
isnt($rc, 0, 'a node that does not hear of it') or diag($err);
like($err, qr/node "n1" has not answered: the drain is given up/, '... which is said');
ok(!$c->node_status(1)->{draining}, '... and given up');
ok(!-e $pooler, '... before poolers are called');
kill 'CONT', @control;
is($c->node_status(1)->{state}, 'online', '... the node stays');
ok($c->wait_until(sub { check('/nodes/n1/write') == 200 }), '... and balancers send writers');

# ---------- under load nobody fails but by 25006

my $script = $c->file('insert.sql', "INSERT INTO t (v) VALUES ('load');\nBEGIN;\nINSERT INTO t (v) VALUES ('a');\nINSERT INTO t (v) VALUES ('b');\nCOMMIT;\n");
my ($out, $said) = ('', '');
my $load = IPC::Run::start([ $c->client(1, 'pgbench'), '-n', '-f', $script, '-c', '6', '-T', '30', 'app' ], '<', \undef, '>', \$out, '2>', \$said, IPC::Run::timeout(90));
ok($c->wait_until(sub { $c->sql(2, "SELECT count(*) > 20 FROM t WHERE v = 'load'") eq 't' }), 'six clients write');
is(($c->ctl('drain', 'n1', '--timeout=30'))[2], 0, '... a drain succeeds');
IPC::Run::finish($load);
my @errors = grep { /ERROR|FATAL|connection/ } split /\n/, $said;
is(scalar(grep { /being drained/ } @errors), scalar(@errors), '... each client was told that, and nothing else') or diag($said);
$c->drain('online');
is($c->sql(2, "SELECT count(*) FROM t WHERE v = 'a'"), $c->sql(2, "SELECT count(*) FROM t WHERE v = 'b'"), '... no half transactions');
is(($c->ctl('resume', 'n1'))[2], 0, '... and back');

# ---------- the server dies while it is drained

$writer = $c->session(1);
$writer->query('BEGIN');
$writer->query(insert('lost'));
$drain = begin_ctl('drain', 'n1', '--timeout=60');
ok($c->wait_until(sub { ($c->node_status(1)->{writers_open} // -1) == 1 }), 'drained, with a transaction');
$c->cluster('kill-node', 1);
is(end_ctl($drain), 0, 'its server is killed: it is out') or diag($drain->{err});
$c->cluster('start-node', 1, '--no-wait');
ok($c->node_status(1)->{administrative}, '... and stays out');
is(($c->ctl('resume', 'n1'))[2], 0, '... until resume');

# ---------- the server dies while its drain is only announced

$drain = begin_ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler; while [ -e $pooler -a -d $c->{top} ]; do sleep 0.1; done");
ok($c->wait_until(sub { -e $pooler }), 'announced again');
$c->cluster('kill-node', 1);
ok($c->wait_until(sub { $c->node_status(1)->{state} ne 'online' }), 'its server is killed: it is out');
unlink $pooler;
is(end_ctl($drain), 1, '... the drain fails');
like($drain->{err}, qr/could not drain node "n1": it is not online/, '... and says so');
$c->cluster('start-node', 1, '--no-wait');
ok($c->wait_state(1, 'online'), '... it comes back by itself');
is(($c->try(1, insert('back')))[1], '', '... and takes writes');

# ---------- the other node dies while one is drained, or is to be

$writer = $c->session(1);
$writer->query('BEGIN');
$writer->query(insert('the last node'));
$drain = begin_ctl('drain', 'n1', '--timeout=60');
ok($c->wait_until(sub { ($c->node_status(1)->{writers_open} // -1) == 1 }), 'drained, with a transaction');
$c->cluster('kill-node', 2);
is(end_ctl($drain), 1, 'the server of the other node is killed: the drain fails') or diag($drain->{out});
like($drain->{err}, qr/node "n1" was not drained: no other node is online any more/, '... and says why');
ok($c->wait_until(sub { ($c->try(1, insert('taken by the last')))[1] eq '' }), '... the node takes writes again');
$writer->query('COMMIT');
is($writer->error, '', '... the transaction commits');
is($c->node_status(1)->{state}, 'online', '... and the node stays online');
is(check('/nodes/n1/write'), 200, '... balancers know');
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online'), '... the other one comes back');

$drain = begin_ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler; while [ -e $pooler -a -d $c->{top} ]; do sleep 0.1; done");
ok($c->wait_until(sub { -e $pooler }), 'announced');
$c->cluster('kill-node', 2);
ok($c->wait_until(sub { check('/nodes/n1/write') eq '200' }), 'the server of the other node is killed: balancers send writers again');
ok($c->wait_until(sub { $c->sql(1, 'SHOW default_transaction_read_only') eq 'off' }), '... and new sessions are told');
unlink $pooler;
is(end_ctl($drain), 1, '... the drain is refused') or diag($drain->{out});
like($drain->{err}, qr/could not drain node "n1": no other node is online/, '... and says why');
ok(!$c->node_status(1)->{draining}, '... and nothing is left of it');
(undef, $err, $rc) = $c->ctl('restart', 'n1', '--command=true');
is($rc, 1, 'a restart is refused');
like($err, qr/could not drain node "n1": no other node is online/, '... and says why');
unlike($err, qr/lockstepctl drop/, '... without advising to drop the last node');
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online'), '... the other one comes back');

# ---------- interrupted

unlink $pooler;
$drain = begin_ctl('drain', 'n1', '--announce=1', "--poolers=touch $pooler; while [ -e $pooler -a -d $c->{top} ]; do sleep 0.1; done");
ok($c->wait_until(sub { -e $pooler }), 'announced');
$drain->{handle}->signal('INT');
is(end_ctl($drain), 1, 'interrupted');
like($drain->{err}, qr/interrupted.*"n1".*\nHINT:.*lockstepctl resume n1/s, '... which says what is left, and how to end it');
is(($c->ctl('resume', 'n1'))[2], 0, '... resume does');
is(check('/nodes/n1/write'), 200, '... balancers send writers again');
unlink $pooler;

# ---------- without the function (version 1.0), and nonsense

$c->sql_local(2, 'ALTER FUNCTION lockstep.hold_writers(text, bigint) RENAME TO hold_writers_not_there');
(undef, $err, $rc) = $c->ctl('drain', 'n2');
is($rc, 1, 'a node with the objects of version 1.0');
like($err, qr/was not drained: function lockstep\.hold_writers.* does not exist/, '... says so');
is(($c->try(2, insert('still'), ))[1], '', '... and takes writes');
$c->sql_local(2, 'ALTER FUNCTION lockstep.hold_writers_not_there(text, bigint) RENAME TO hold_writers');
like(($c->ctl('drain', 'n7'))[1], qr/there is no node "n7"/, 'no such node');
is(($c->ctl('drain', '--readers'))[2], 2, '--readers without a node');
is(($c->ctl('drain'))[2], 0, 'without a node: waits until all have applied everything');
like(($c->ctl('resume'))[1], qr/writes are not paused/, 'resume without a pause');
$c->same('afterwards');

done_testing;
