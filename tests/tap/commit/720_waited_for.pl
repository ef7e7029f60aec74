# A node tells with its question whether another session of it waits for the transaction's locks (the replicator is in no
# hurry otherwise, if that node is late: sequencer_pace.c), also for those of a subtransaction that was released.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepRelay;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 3) i');
$c->drain;

# The tags of the last question that has passed.
my $asked = $c->file('asked', '');
my $relay = LockstepRelay->new(
	$c->{base} + 9,
	$c->{base},
	sub {
		my ($side, $message) = @_;
		my ($type, $payload) = unpack('aN/a*', $message);
		if ($side == 0 && $type eq 'P')
		{
			my @fields = unpack('(aN/a*)*', $payload);
			open(my $f, '>', $asked) or die "$asked: $!";
			print $f join('', map { $fields[ 2 * $_ ] . (length $fields[ 2 * $_ + 1 ]) } 0 .. $#fields / 2);
			close $f;
		}
		return $message;
	});
$c->set(1, 'lockstep.replicator', "'127.0.0.1:@{[ $c->{base} + 9 ]}'");

# What the transaction of those commands is asked for with, while another session waits for that row (0: none).
sub question
{
	my ($row, @commands) = @_;
	my $s = $c->session(1);
	my $other = $c->session(1);
	$s->do($_) for 'BEGIN', @commands;
	if ($row)
	{
		$other->do('BEGIN');	# its own question must not come behind
		$other->send("UPDATE t SET v = v + 1 WHERE id = $row");
		ok($c->wait_sql(1, 'SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' . $other->pid, 1), "another session waits for row $row");
	}
	$c->file('asked', '');
	$s->do('COMMIT');
	my $tags = LockstepCluster::_slurp($asked);
	if ($row)
	{
		$other->finish(10);
		$other->do('COMMIT');
	}
	$_->close for $s, $other;
	like($tags, qr/^X8N8W1S8F8/, 'the question has passed here');
	return $tags;
}

sub updates { return map { "UPDATE t SET v = v + 1 WHERE id = $_" } @_ }

unlike(question(0, updates(1)), qr/w/, 'nobody waits');
like(question(1, updates(1)), qr/w8/, 'one waits');
like(question(2, 'SAVEPOINT a', updates(2), 'RELEASE a', updates(3)), qr/w8/, 'one waits for a row of a subtransaction');

$c->set(1, 'lockstep.replicator', "'127.0.0.1:$c->{base}'");
$relay->stop;
$c->same('the nodes');
done_testing;
