# During lockstepctl pause: transactions that begin to write wait, on all nodes, those that have begun finish, reads go on;
# resume, the end of its time, or the loss of the replicator let them go on, and nothing fails.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $bin = $LockstepCluster::bindir;
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;

my ($open, $w1, $w2) = ($c->session(1), $c->session(1), $c->session(2));
my ($out, $err) = ('', '');

sub pause_begins
{
	($out, $err) = ('', '');
	return IPC::Run::start([ "$bin/lockstepctl", '--config', $c->replicator_conf, '--socket', "$c->{dir}/admin.sock", 'pause', @_ ],
		'<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
}

# Is that so many sessions' state on a node?
sub held
{
	my ($node) = @_;
	return $c->sql($node, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND query LIKE '%held%' AND pid <> pg_backend_pid()");
}

# ---------- one transaction is open, others want to begin

$open->query('BEGIN');
$open->query("INSERT INTO t VALUES (1, 'open')");
my $pause = pause_begins('--timeout=60');
ok($c->wait_until(sub { defined $c->status->{paused_ms} }), 'a pause begins');
ok($c->wait_until(sub { ($c->node_status(1)->{writers_open} // -1) == 1 && ($c->node_status(2)->{writers_open} // -1) == 0 }), 'who writes is counted on each node');
like(scalar $c->ctl('status'), qr/^paused: .* for \d+ s more \(lockstepctl resume\)$/m, 'status says so');
$w1->send("INSERT INTO t VALUES (2, 'held')");
$w2->send("BEGIN; INSERT INTO t VALUES (3, 'held'); COMMIT");
ok($c->wait_until(sub { held(1) == 1 && held(2) == 1 }), 'new writers wait, on each node');
is($c->sql($_, 'SELECT count(*) FROM t'), '0', "n$_ can be read") for $c->all;
$c->fails(1, "SET statement_timeout = '200ms'; INSERT INTO t VALUES (4, 'timeout')", '57014', qr/statement timeout/, 'statement_timeout ends a wait');
$open->query("UPDATE t SET v = 'still open' WHERE id = 1");
is($open->error, '', 'what was open goes on');
ok($pause->pumpable, '... and the pause waits for it');
$open->query('COMMIT');
is($open->error, '', '... commits');
IPC::Run::finish($pause);
is($? >> 8, 0, 'then nothing writes, and the command says so') or diag($err);
is(held(1) + held(2), 2, '... the others wait all the same');
my ($last) = $c->status->{journal}{last};
is($c->status->{journal}{last}, $last, '... nothing is committed');
is(($c->ctl('resume'))[2], 0, 'resume');
$w1->finish;
$w2->finish;
is($w1->error . $w2->error, '', '... who waited, writes');
$c->drain;
is($c->sql(2, 'SELECT count(*) FROM t'), '3', '... everything is there');
ok($c->wait_until(sub { my $s = $c->status; $s->{nodes} && !defined $s->{paused_ms} }), '... and the pause is over');

# ---------- its time is over

$open->query('BEGIN');
$open->query("INSERT INTO t VALUES (5, 'open')");
$pause = pause_begins('--timeout=5');		# it is to be seen in between
ok($c->wait_until(sub { defined $c->status->{paused_ms} }), 'a short pause');
$w2->send("INSERT INTO t VALUES (6, 'held')");
IPC::Run::finish($pause);
is($? >> 8, 1, '... ends before the open transaction');
like($err, qr/the pause is over, and 1 transactions that write are still open/, '... says so');
$w2->finish;
is($w2->error, '', '... who waited, writes');
$open->query('COMMIT');
is($open->error, '', '... and who was open');

# ---------- the replicator is gone in the middle of it

$pause = pause_begins('--timeout=600');
IPC::Run::finish($pause);
is($? >> 8, 0, 'a long pause');
$w1->send("INSERT INTO t VALUES (7, 'held')");
ok($c->wait_until(sub { held(1) == 1 }), '... a writer waits');
$c->cluster('restart-replicator');
$w1->finish;
is($w1->error, '', 'the replicator is killed and started again: it writes, as the nodes forget the pause');
ok($c->wait_until(sub { my $s = $c->status; $s->{nodes} && !defined $s->{paused_ms} }), '... so does the replicator');

is(($c->ctl('pause', "--timeout=$_"))[2], 1, "no pause of $_ s") for 0, 3601;
$c->same('afterwards');

done_testing;
