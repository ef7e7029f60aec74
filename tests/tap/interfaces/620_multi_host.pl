# A client that names several hosts and wants one that takes writes gets one: a node that is
# dropped or drained, or does not reach the replicator, reports default_transaction_read_only when a session begins.  It is
# an announcement only: a session that stays gets the errors that it always gets, and writes when the node is back.
# load_balance_hosts=random (libpq 16 and later) spreads clients over the nodes, and leaves out one that is down.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2, conf => "lockstep.failover_wait = 500ms\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY); CREATE SEQUENCE s; CREATE ROLE reader SUPERUSER LOGIN; ALTER ROLE reader SET default_transaction_read_only = on');
$c->drain;

# (output, error) of psql, which may choose among both
sub choose
{
	my ($attributes, $sql, %o) = @_;
	my ($out, $err) = ('', '');
	my @ports = map { $c->port($_) } $o{only} ? $o{only} : (1, 2);
	my $dsn = 'host=' . join(',', ('127.0.0.1') x @ports) . ' port=' . join(',', @ports) .
		' dbname=app user=' . ($o{user} // 'postgres') . " target_session_attrs=$attributes";

	IPC::Run::run([ "psql", '-XqAt', '-v', 'VERBOSITY=verbose', $dsn, map { ('-c', $_) } ref $sql ? @$sql : $sql ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(60));
	chomp $out;
	return ($out, $err);
}

sub chosen
{
	my ($attributes, $only) = @_;
	my ($out, $err) = choose($attributes, 'SHOW lockstep.node_name', only => $only);
	return $out ne '' ? $out : $err;
}

sub goes_to
{
	my ($node, $when) = @_;
	ok($c->wait_until(sub { chosen('read-write') eq $node }), "$when: a writer gets $node") or diag(chosen('read-write'));
	is(chosen('any'), 'n1', "$when: whoever takes any gets the first");
	return;
}

goes_to('n1', 'all is well');
is(chosen('read-only'), (choose('read-only', 'SELECT 1'))[1], 'no node is read-only');
is((choose('any', 'SHOW transaction_read_only', only => 1))[0], 'off', 'as drivers ask');

# ---------- dropped

$c->ctl('drop', 'n1');
$c->wait_state(1, 'dropped');
goes_to('n2', 'dropped');
is(chosen('read-only'), 'n1', 'and a reader gets n1');
is((choose('any', $_, only => 1))[0], 'on', "$_, as drivers ask") for 'SHOW transaction_read_only', 'SHOW default_transaction_read_only';
is((choose('any', [ 'SELECT pg_is_in_recovery()', 'SHOW transaction_read_only' ], only => 1))[0], "f\non", 'in two steps, too');
for my $write ('INSERT INTO t VALUES (1)', 'BEGIN; INSERT INTO t VALUES (1); COMMIT', "SELECT nextval('s')", 'COPY t FROM PROGRAM \'echo 1\'', 'CREATE TABLE u ()',
	'WITH w AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT * FROM w', 'DO $$BEGIN INSERT INTO t VALUES (1); END$$', 'SELECT lo_create(0)')
{
	my ($out, $err) = choose('any', $write, only => 1);
	# from 16 on the function itself looks first, and finds the session read-only
	like($err, $write =~ /lo_create/ && $c->version >= 16 ? qr/57P03|25006/ : qr/57P03/, "$write: the error is the one that it was");
}
like((choose('any', 'BEGIN READ ONLY; INSERT INTO t VALUES (1)', only => 1))[1], qr/25006/, 'READ ONLY is what it says');
is((choose('any', [ 'CREATE TEMP TABLE mine (x int)', 'SHOW default_transaction_read_only' ], only => 1))[0], 'off', 'restored by a write');
like((choose('any', 'INSERT INTO t VALUES (1)', only => 1, user => 'reader'))[1], qr/25006/, 'a role that is read-only is so by itself');
my $pooled = $c->session(1);
is($pooled->query('SELECT count(*) FROM t'), '0', 'a session that begins now reads');

$c->ctl('attach', 'n1');
$c->wait_state(1, 'online');
goes_to('n1', 'attached');
$pooled->do('INSERT INTO t VALUES (2)');
is($c->sql(1, 'SELECT count(*) FROM t'), '1', 'it writes when the node is back');
is($pooled->query('SHOW default_transaction_read_only'), 'off', 'and is as ever');

# ---------- drained

$c->ctl('drain', 'n1');
is(chosen('read-write'), 'n2', 'drained: a writer gets n2');
$c->ctl('resume', 'n1');
$c->wait_state(1, 'online');
goes_to('n1', 'resumed');

# ---------- spread by chance

# How many of 20 clients get each node.
sub spread
{
	my ($attributes) = @_;
	my %got;

	$got{ chosen("$attributes load_balance_hosts=random") }++ for 1 .. 20;
	return \%got;
}

my ($libpq) = `psql --version` =~ /(\d+)/;

SKIP:
{
	skip "libpq $libpq has no load_balance_hosts, 16 has", 9 if $libpq < 16;
	my $got = spread('any');
	is_deeply([ sort keys %$got ], [ 'n1', 'n2' ], 'by chance: both nodes get clients') or diag(explain($got));
	$got = spread('read-write');
	is_deeply([ sort keys %$got ], [ 'n1', 'n2' ], '... and writers') or diag(explain($got));
	$c->ctl('drop', 'n2');
	ok($c->wait_state(2, 'dropped'), 'one is out');
	ok($c->wait_until(sub { chosen('read-write', 2) !~ /^n2/ }), '... and says so');
	is_deeply(spread('read-write'), { n1 => 20 }, '... no writer gets it');
	$c->ctl('attach', 'n2');
	$c->wait_state(2, 'online');
	$c->cluster('stop-node', 1);
	ok($c->wait_state(1, 'dropped'), 'one is down');
	is_deeply(spread('any'), { n2 => 20 }, '... nobody gets it');
	is_deeply(spread('read-write'), { n2 => 20 }, '... and no writer');
	$c->cluster('start-node', 1);
	ok($c->wait_state(1, 'online'), '... and is back');
}

# ---------- without a replicator

$c->cluster('stop-replicator');
ok($c->wait_until(sub { chosen('read-write') !~ /^n/ }), 'without a replicator none takes writes');
like(chosen('read-write'), qr/read-only/, 'which the client is told');
is(chosen('any'), 'n1', 'and any can be read');
$c->cluster('start-replicator');
goes_to('n1', 'with it');

# a server that was just started, and a replicator that dies before its first heartbeat, again and again
sub dies_at_once
{
	my ($start) = @_;
	$c->order_at('replicator', 'TURN_OPENED', 'kill');
	$start->();
	return $c->wait_until(sub { $c->was_there('replicator', 'TURN_OPENED') && $c->is_gone($c->replicator_pid) });
}
ok(dies_at_once(sub { $c->cluster($_, 1) for 'stop-node', 'start-node' }), 'the replicator dies when it has opened the turn of a node');
my $since = time;
ok(dies_at_once(sub { eval { $c->cluster('start-replicator') } }), 'again') until time > $since + 4;
is(chosen('read-write', 1) =~ /^n1/, '', 'without it that node takes no writes');
like(chosen('read-write', 1), qr/read-only/, 'which the client is told');
$c->cluster('start-replicator');
goes_to('n1', 'with it');
$c->same('in the end');

done_testing();
