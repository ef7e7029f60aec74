# The views for monitoring are on every node, for roles of pg_monitor and no others, and the custom queries for postgres_exporter in
# packaging/monitoring give the columns that it declares; where postgres_exporter is installed (or POSTGRES_EXPORTER
# names it), it takes them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0); CREATE ROLE monitor LOGIN IN ROLE pg_monitor; CREATE ROLE nobody LOGIN');
$c->drain;

# a conflict and a wait, to be seen
my ($first, $second) = ($c->session(1), $c->session(2));
$_->query('BEGIN'), $_->query('UPDATE t SET v = v + 1') for $first, $second;
$first->query('COMMIT');
$second->query('COMMIT');
$first->query('BEGIN; LOCK TABLE t');
$second->send('UPDATE t SET v = v + 1');
$c->wait_sql(1, 'SELECT count(*) FROM lockstep.waits', 1);

for my $node ($c->all)
{
	is($c->sql($node, 'SET ROLE monitor; SELECT string_agg(name || state, \' \' ORDER BY name) FROM lockstep.nodes'), 'n1online n2online', "n$node: nodes");
	is($c->sql($node, 'SET ROLE monitor; SELECT node, blocker_node FROM lockstep.waits'), 'n2|n1', '... waits');
	is($c->sql($node, 'SET ROLE monitor; SELECT count(*) FROM lockstep.conflicts'), '1', '... conflicts');
	is($c->sql($node, "SET ROLE monitor; SELECT count(DISTINCT node) FROM lockstep.events WHERE event = 'node_online'"), '2', '... events');
	$c->fails($node, "SET ROLE nobody; SELECT * FROM lockstep.$_", '42501', qr/permission denied/, "... $_: not for everybody") for qw(nodes waits conflicts conflict_counts events);
}

# ---------- postgres_exporter

my $file = "$LockstepCluster::tests/../packaging/monitoring/postgres_exporter.yml";
my %queries;
for my $block (split /^(?=\w+:$)/m, LockstepCluster::_slurp($file))
{
	my ($name) = $block =~ /^(\w+):$/m or next;
	my (undef, $query) = $block =~ /^  query: (["'])(.*)\1$/m or next;
	$queries{$name} = { query => $query, columns => [ $block =~ /^    - (\w+):$/mg ], kinds => [ $block =~ /^        usage: "(\w+)"$/mg ] };
}
is(join(' ', sort keys %queries), 'pg_lockstep pg_lockstep_conflict pg_lockstep_node pg_lockstep_wait', 'all queries are read');
for my $name (sort keys %queries)
{
	my ($query, $columns, $kinds) = @{ $queries{$name} }{qw(query columns kinds)};
	for my $node ($c->all)
	{
		my $rows = $c->sql($node, "SET ROLE monitor; SELECT count(*) FROM ($query) q");
		cmp_ok($rows, '>', 0, "$name: rows on n$node");
		is($c->sql($node, "SET ROLE monitor; SELECT DISTINCT (SELECT string_agg(k, ' ' ORDER BY k) FROM json_object_keys(row_to_json(q)) k) FROM ($query) q"), join(' ', sort @$columns), '... with the columns that are declared');
		my @numbers = grep { $kinds->[$_] ne 'LABEL' } 0 .. $#$columns;
		is($c->sql($node, "SET ROLE monitor; SELECT bool_and(j->>k ~ '^[0-9.]+\$') FROM ($query) q, row_to_json(q) j, unnest(ARRAY['" . join("', '", @{$columns}[@numbers]) . "']) k"), 't', '... which are numbers where they have to be');
	}
}

SKIP:
{
	my ($exporter) = grep { $_ && -x } $ENV{POSTGRES_EXPORTER}, map { "/usr/bin/$_" } qw(prometheus-postgres-exporter postgres_exporter);
	skip 'there is no postgres_exporter', 5 unless $exporter;
	my $port = $c->{base} + 9;
	local $ENV{DATA_SOURCE_NAME} = 'host=127.0.0.1 port=' . $c->port(1) . ' user=monitor dbname=app sslmode=disable';
	my $said = '';
	# its sizes of tables wait for the lock that is held here
	my @without = `$exporter --help 2>&1` =~ /collector\.stat_user_tables\b/ ? '--no-collector.stat_user_tables' : ();
	my $run = IPC::Run::start([ $exporter, @without, "--web.listen-address=127.0.0.1:$port", "--extend.query-path=$file", '--disable-default-metrics', '--disable-settings-metrics' ], '<', \undef, '>&', \$said, IPC::Run::timeout(60));
	my $metrics = '';
	ok($c->wait_until(sub { $metrics = `curl -s -m 5 http://127.0.0.1:$port/metrics`; $metrics =~ /^pg_lockstep_node_online/m }, 20), 'postgres_exporter takes them') or diag($said);
	like($metrics, qr/^pg_lockstep_node_online\{node="n2"[^}]*\} 1$/m, '... nodes');
	like($metrics, qr/^pg_lockstep_wait_transactions(?:\{[^}]*\})? 1$/m, '... waits');
	like($metrics, qr/^pg_lockstep_conflict_total\{[^}]*table="public\.t"[^}]*\} 1$/m, '... conflicts');
	like($metrics, qr/^pg_lockstep_applied_seq\{node="n1"[^}]*\} \d+$/m, '... the node itself');
	$run->kill_kill(grace => 2);
}

$first->query('COMMIT');
$second->finish;
$c->drain;
$c->same('nothing has changed it');
done_testing;
