# Nobody starves: against streams of small transactions on two other nodes, a transaction of
# many rows, one that takes long, and those of REPEATABLE READ and SERIALIZABLE that read first
# get through within a bounded number of retries, each in a new transaction of the session;
# two of them on two nodes, too; and the streams go on.
# LOCKSTEP_LONG: larger and longer.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $rows = $ENV{LOCKSTEP_LONG} ? 50_000 : 5_000;
my $think = $ENV{LOCKSTEP_LONG} ? 10 : 1;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, <<"SQL");
CREATE TABLE stock (id int PRIMARY KEY, v bigint NOT NULL);
INSERT INTO stock SELECT i, 0 FROM generate_series(1, $rows) i;
CREATE TABLE summary (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, v numeric);
SQL
$c->drain;
is($c->sql(1, 'SHOW lockstep.queue_after'), 5, 'by default a session waits after five losses');

my $script = $c->file('small.sql', "\\set id random(1, 20)\nUPDATE stock SET v = v + 1 WHERE id = :id;\n");
my @streams;

sub start_streams { @streams = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 2, '-T', 600, '--max-tries=100000') } @_ }

sub stop_streams
{
	my ($name) = @_;
	is(scalar(grep { $_->{handle}->pumpable } @streams), scalar @streams, "$name: the streams ran all the time");
	$_->{handle}->kill_kill(grace => 1) for @streams;
}

# How often each had to be tried.  Those that run at the same time are sent together.
sub tries
{
	my ($name, $bound, %todo) = @_;
	my %tries = map { $_ => 0 } keys %todo;
	my $start = time;
	my $before = $c->sql(2, 'SELECT sum(v) FROM stock WHERE id <= 20');
	my %open = map { $_ => $c->session($_) } keys %todo;
	while (%open)
	{
		for my $n (keys %open) { $open{$n}->send($todo{$n}); $tries{$n}++ }
		for my $n (keys %open)
		{
			$open{$n}->finish(120);
			if ($open{$n}->error eq '') { delete $open{$n}; next }
			like($open{$n}->error, qr/40001|40P01/, "$name: nothing but conflicts") unless $open{$n}->error =~ /40001|40P01/;
			$open{$n}->query('ROLLBACK');
			if ($tries{$n} > $bound) { diag($open{$n}->error); delete $open{$n} }
		}
	}
	cmp_ok($tries{$_}, '<=', $bound, sprintf('%s: n%d gets through (%d tries, %.1f s)', $name, $_, $tries{$_}, time - $start)) for sort keys %tries;
	ok($c->wait_until(sub { $c->sql(2, 'SELECT sum(v) FROM stock WHERE id <= 20') > $before }), "$name: the others, too");
}

start_streams(2, 3);
tries('many rows', 8, 1 => 'UPDATE stock SET v = v + 1');
tries('many rows, one by one', 14, 1 => 'BEGIN; ' . join('', map { "UPDATE stock SET v = v + 1 WHERE id = $_; " } 1 .. 40) . 'COMMIT');
tries('a long one', 14, 1 => "BEGIN; UPDATE stock SET v = v + 1 WHERE id = 1; SELECT pg_sleep($think); UPDATE stock SET v = v + 1 WHERE id = 2; COMMIT");
tries('one that has read', 14, 1 => "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(v) FROM stock; SELECT pg_sleep($think); UPDATE stock SET v = v + 1 WHERE id < 10; COMMIT");
tries('one that must have read the latest', 14, 1 => "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO summary (v) SELECT sum(v) FROM stock; SELECT pg_sleep($think); COMMIT");
$c->sql(1, 'CREATE TABLE part (id int PRIMARY KEY, v int) PARTITION BY HASH (id)');
$c->sql(1, join ' ', map { "CREATE TABLE part$_ PARTITION OF part FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2);
$c->sql(1, 'INSERT INTO part SELECT i, 0 FROM generate_series(1, 20) i');
$c->drain;
my $parts = $c->file('parts.sql', "\\set id random(1, 20)\nUPDATE part SET v = v + 1 WHERE id = :id;\n");
push @streams, $c->pgbench_start(3, '-n', '-f', $parts, '-c', 2, '-T', 600, '--max-tries=100000');
tries('a partitioned table', 8, 1 => 'UPDATE part SET v = v + 1');
tries('two', 16, 1 => 'UPDATE stock SET v = v + 1', 2 => 'UPDATE stock SET v = v + 2');
stop_streams('all');

$c->same('all nodes are equal');
$c->down;
done_testing;
