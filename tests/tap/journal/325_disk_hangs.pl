# The disk of the journal does not answer.  The loop writes small batches itself (journal_writer.c); while it
# hangs in one, another thread runs the loop: the operator gets answers, nodes stay online, reads and what
# asks nothing go on, SIGHUP is heard; COMMIT waits, and succeeds as soon as the disk answers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = LockstepCluster->new(nodes => 2, disk => 1, replicator_conf => "node_timeout = 2s\njournal_segment_size = 256kB\n");
my $journal = "$c->{dir}/journal";

sub disk
{
	my ($how, $text) = @_;
	open(my $f, '>', "$journal/disk_$how.new") or die $!;
	print $f $text // '';
	close $f;
	rename "$journal/disk_$how.new", "$journal/disk_$how" or die $!;
}

# The first thread, which has the loop unless it waits for the disk.
sub first_thread_waits { return -e "$journal/waits." . $c->replicator_pid }

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
my $id = 0;

# A transaction waits for the disk, in the first thread: where the last one was quick, which it may not be on a busy machine.
sub hang
{
	my ($s) = @_;
	for (1 .. 20)
	{
		$c->sql(1, 'INSERT INTO t VALUES (' . ++$id . ", 'before')") for 1 .. 5;
		disk('stands_still');
		$s->send('INSERT INTO t VALUES (' . ++$id . ", 'meanwhile')");
		return 1 if $c->wait_until(\&first_thread_waits, 1);
		unlink "$journal/disk_stands_still";
		$s->finish(10);
	}
	return 0;
}

# ---------- it hangs

my $s = $c->session(1);
ok(hang($s), 'the loop hangs in its own write');
my $other = $c->session(2);
$other->send("INSERT INTO t VALUES (1000, 'meanwhile')");
my $began = time;
for my $i (1 .. 8)
{
	my $asked = time;
	my $status = $c->status;
	cmp_ok(time - $asked, '<', LockstepCluster::soon(2), "status answers ($i)");
	is_deeply([ map { $_->{state} } @{ $status->{nodes} } ], [ 'online', 'online' ], 'the nodes are online');
	sleep 0.5;
}
cmp_ok(time - $began, '>', 3, 'for longer than node_timeout');
is($c->sql(2, 'SELECT count(*) > 0 FROM t'), 't', 'reads go on');
my $log_at = -s "$c->{dir}/replicator.log";
kill 'HUP', $c->replicator_pid;
ok($c->wait_until(sub { substr($c->replicator_log, $log_at) =~ /configuration reloaded/ }, 5), 'SIGHUP is heard');
ok($s->blocked(0.1), 'COMMIT waits');
ok($other->blocked(0.1), '... also what was asked by another node meanwhile');
unlink "$journal/disk_stands_still" or die $!;
$s->finish(10);
is($s->error, '', 'it succeeds when the disk answers');
$other->finish(10);
is($other->error, '', '... and so does the other one');
$c->same('equal');

# ---------- it is slow, now and then, around the time after which the loop is taken over

my @writers = map { $c->session($_) } 1, 2, 1, 2;
my @done = (0) x @writers;
my @failed;
my $until = time + 8;
while (time < $until)
{
	disk('is_slow', int(rand(12)));
	unlink "$journal/disk_is_slow" if rand() < 0.5;
	for my $w (0 .. $#writers)
	{
		my $n = 10_000 * ($w + 1) + $done[$w]++;
		$writers[$w]->send("INSERT INTO t VALUES ($n, repeat('x', " . int(rand(2000)) . '))');
	}
	for my $w (@writers)
	{
		$w->finish(20);
		push @failed, $w->error if $w->error ne '';
	}
}
unlink "$journal/disk_is_slow";
is("@failed", '', "all commit ($done[0] rounds)");
$c->same('equal');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id >= 10000'), $done[0] * @writers, 'each once');

# ---------- stopped while it hangs

ok(hang($s), 'it hangs again');
my $pid = $c->replicator_pid;
kill 'TERM', $pid;
ok($c->wait_until(sub { $c->replicator_log =~ /received SIGTERM/ }, 5), 'SIGTERM is heard');
unlink "$journal/disk_stands_still" or die $!;
ok($c->wait_until(sub { !kill 0, $pid }, 10), 'it stops when the disk answers');
$c->cluster('start-replicator');
$s->finish(30);
is($s->error, '', 'what it had begun to write is committed');
$c->wait_state($_, 'online', 30) for 1, 2;
$c->same('equal at the end');
done_testing;
