# Asynchronous commits, which all commits of replicated transactions are by default, do not wake the
# WAL writer one by one, at the origin and where they are applied; and it flushes all the same.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $load = $c->file('load.sql', "\\set id random(1, 1000)\nUPDATE t SET v = v + 1 WHERE id = :id;\n");

sub flushed { my ($node) = @_; return $c->wait_sql($node, 'SELECT pg_current_wal_flush_lsn() >= ' . $_[1], 't', 20) }
sub sleeps
{
	my ($node) = @_;
	my $pid = $c->sql($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
	open(my $f, '<', "/proc/$pid/status") or die "/proc/$pid/status: $!";
	my ($n) = join('', <$f>) =~ /^voluntary_ctxt_switches:\s+(\d+)/m;
	return $n;
}

$c->sql(1, "CREATE TABLE t (id int PRIMARY KEY, v int, filler text); INSERT INTO t SELECT i, 0, repeat('x', 500) FROM generate_series(1, 1000) i");
$c->drain;
my @before = (0, sleeps(1), sleeps(2));
$c->pgbench([1], '-n', '-f', $load, '-c', 4, '-t', 1000, '--max-tries=1000');
$c->drain;
my $share = sub { my ($node) = @_; return (sleeps($node) - $before[$node]) / 4000 };
cmp_ok($share->(1), '<', 0.2, sprintf('the WAL writer of the origin slept %.3f times for each commit', $share->(1)));
cmp_ok($share->(2), '<', 0.2, sprintf('that of the other node %.3f times', $share->(2)));

for my $node (1, 2)
{
	my $lsn = $c->sql($node, 'SELECT pg_current_wal_insert_lsn()');
	ok(flushed($node, "'$lsn'"), "what node $node has committed is flushed");
}
$c->sql(1, 'UPDATE t SET v = -1 WHERE id = 1');
my $lsn = $c->sql(1, 'SELECT pg_current_wal_insert_lsn()');
ok(flushed(1, "'$lsn'"), 'and so is a single commit');
$c->same('the nodes are equal');
done_testing;
