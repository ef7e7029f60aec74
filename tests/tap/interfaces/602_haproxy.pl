# HAProxy as docs/beside.md has it: its recipe, typed as it stands but for addresses, sends writers to nodes that
# take writes and readers to nodes that are online, and moves sessions when a node is dropped, killed, or the replicator ends.
# And the status page in a browser, where there is one: pictures in tests/results.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Path qw(make_path);
use IO::Socket::UNIX;
use LockstepBalancer;
use LockstepCluster;
use Test::More;

plan skip_all => 'there is no haproxy' unless `haproxy -v 2>/dev/null`;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my ($http) = LockstepBalancer::ports($c);
$c->{options}{replicator_conf} = "http_listen = '127.0.0.1:$http'\n";
$c->up;
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
my $haproxy = LockstepBalancer->haproxy($c);
my ($writers, $readers) = @$haproxy{qw(writers readers)};

# The node that a new session gets there; '': none.
sub node_at
{
	my $said = $c->psql_says($_[0], 'app', 'SHOW lockstep.node_name');
	return $said =~ /^(n\d)$/ ? $1 : '';
}

# What HAProxy says of a server.
sub state_of
{
	my ($proxy, $server) = @_;
	my $s = IO::Socket::UNIX->new("$c->{top}/haproxy.sock") or return "no socket: $!";
	print $s "show stat\n";
	for (<$s>)
	{
		my @field = split /,/;
		return $field[17] if $field[0] eq $proxy && $field[1] eq $server;
	}
	return 'unknown';
}

sub becomes
{
	my ($port, $like, $what) = @_;
	my $last = '';
	ok($c->wait_until(sub { $last = node_at($port); $last =~ /^(?:$like)$/ }, 15), $what) or diag("it is \"$last\"\n", $haproxy->log);
}

# ---------- who gets whom

becomes($writers, 'n1', 'writers: n1');
becomes($readers, 'n1|n2', 'readers: some node');
my %seen;
ok($c->wait_until(sub { $seen{ node_at($readers) } = 1; $seen{n1} && $seen{n2} }), '... both, in turn');

my $session = LockstepSession->new("$LockstepCluster::bindir/psql", "host=127.0.0.1 port=$writers user=postgres dbname=app", undef, 'writers');
$session->query('INSERT INTO t VALUES (1)');
is($session->error, '', 'a session of a writer');

$c->ctl('drop', 'n1');
becomes($writers, 'n2', 'n1 is dropped: writers get n2');
ok($c->wait_until(sub { node_at($readers) eq 'n2' && node_at($readers) eq 'n2' }), '... readers, too');
$session->query('SELECT 1');
like($session->error, qr/terminat|closed|lost|reset/, '... the old session has ended, as it could not write');
is($c->psql_says($writers, 'app', 'INSERT INTO t VALUES (2)'), '', '... a new one writes');
$c->ctl('attach', 'n1');
becomes($writers, 'n1', 'n1 is attached: writers get n1 again');

$session = LockstepSession->new("$LockstepCluster::bindir/psql", "host=127.0.0.1 port=$writers user=postgres dbname=app", undef, 'writers');
$session->query('BEGIN');
$session->query('INSERT INTO t VALUES (10)');
is($session->error, '', 'a transaction on n1');
$c->ctl('drain', 'n1', '--timeout=1');
becomes($writers, 'n2', 'n1 is being drained: writers get n2');
$session->query('INSERT INTO t VALUES (11)');
is($session->error, '', '... the transaction goes on');
ok($c->wait_until(sub { state_of('writers', 'n1') eq 'NOLB' }), '... as HAProxy takes n1 for one that gets no new sessions');
$session->query('COMMIT');
is($session->error, '', '... and commits');
$c->wait_state(1, 'dropped');
$c->ctl('resume', 'n1');
becomes($writers, 'n1', 'n1 is back');
is($c->sql(1, 'DELETE FROM t WHERE id > 9 RETURNING id'), "10\n11", '... with what was written');

$c->cluster('kill-node', 1);
becomes($writers, 'n2', 'the server of n1 is killed: writers get n2');
is($c->psql_says($writers, 'app', 'INSERT INTO t VALUES (3)'), '', '... and write');
$c->cluster('start-node', 1);
becomes($writers, 'n1', 'it is back');

$c->cluster('stop-replicator');
ok($c->wait_until(sub { node_at($writers) eq '' }), 'the replicator is stopped: no writers');
$c->cluster('start-replicator');
becomes($writers, 'n1', 'it is back');
is($c->sql(2, 'SELECT count(*) FROM t'), '3', 'each row is there once');

# ---------- the page in a browser

SKIP:
{
	my ($browser) = grep { -x } map { ("/usr/bin/$_") } qw(chromium-headless-shell chromium);
	skip 'there is no chromium-headless-shell (tests/setup drivers)', 10 unless $browser;

	my $results = "$LockstepCluster::tests/results";
	my $url = "http://127.0.0.1:$http/";
	my @options = ($browser, '--headless', '--no-sandbox', '--disable-gpu', '--virtual-time-budget=5000');
	make_path($results);
	$c->sql(1, 'CREATE TABLE "<b>table</b>" (id int PRIMARY KEY, n int); INSERT INTO "<b>table</b>" VALUES (1, 0)');
	$c->drain;
	my $s = $c->session(2);
	$s->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$s->query('SELECT count(*) FROM t');
	$c->sql(1, 'UPDATE "<b>table</b>" SET n = 1');
	$c->drain;
	$s->query('UPDATE "<b>table</b>" SET n = 2');
	$s->query('ROLLBACK');
	$c->ctl('drop', 'n2');

	# what lockstepctl verify tells
	my $verify = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => "$c->{dir}/admin.sock") or die $!;
	syswrite $verify, qq(progress {"command": "verify", "text": "table 3 of 12 (public.<i>)", "ran_ms": 42000}\n);
	ok($c->wait_until(sub { ($c->ctl('status'))[0] =~ /^running:      verify: table 3 of 12 \(public\.<i>\), for 0:4\d \(process $$, user id $>\)$/m }), 'something runs');

	my ($page, $said) = ('', '');
	IPC::Run::run([ @options, '--enable-logging=stderr', '--dump-dom', $url ], '<', \undef, '>', \$page, '2>', \$said, IPC::Run::timeout(120));
	like($page, qr{id="overall" class="pill mid">1 of 2 nodes are online<}, 'the page in a browser: the whole');
	like($page, qr{class="name">n1</span><span class="pill good">online<}, '... a node that is online');
	like($page, qr{class="name">n2</span><span class="pill bad">dropped<}, '... and one that is not');
	like($page, qr{<li>Node n2 is out \(command\)\. Run: lockstepctl attach n2</li>}, '... what to do');
	like($page, qr{<li>verify: table 3 of 12 \(public\.&lt;i&gt;\)<span class="weak"> for (?:4[2-9]|[5-9]\d|1[01]\d) s, process $$</span></li>}, '... what runs');
	like($page, qr{&lt;b&gt;table&lt;/b&gt;}, '... a name with HTML in it, as text');
	unlike($page, qr{<b>}, '... and as nothing else');
	unlike($said, qr/CONSOLE|Content Security Policy|Uncaught/, '... nothing was refused, no error');

	my %size = ('page.png' => [ '1100,1400' ], 'page-phone.png' => [ '390,1900' ], 'page-dark.png' => [ '1100,1400', '--blink-settings=preferredColorScheme=0' ]);
	for my $name (sort keys %size)
	{
		my ($window, @more) = @{ $size{$name} };
		my $out = '';
		unlink "$results/$name";
		IPC::Run::run([ @options, "--window-size=$window", @more, "--screenshot=$results/$name", $url ], '<', \undef, '>&', \$out, IPC::Run::timeout(120));
	}
	is((grep { -s "$results/$_" } keys %size), 3, '... pictures in tests/results');
}

done_testing;
