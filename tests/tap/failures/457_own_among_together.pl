# A node that comes back is given several transactions as one, and among them is one that a
# session of its own had been told to commit, and still waits to: it is there once, whoever is first.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');
$c->drain;

sub add { my (@ids) = @_; $c->sql(1, "SET lockstep.commit_wait = ordered; UPDATE t SET v = v + 1 WHERE id = $_") for @ids; return }

my $n = 0;
for my $how ('commits go on before it comes back', 'commits go on when it has come', 'its session is gone')
{
	my $holder = $c->session(2);
	$holder->query("SELECT lockstep.hold_commits(NULL, '60s')");
	add(1 .. 10);
	my $own = $c->session(2);
	my $last = $c->status->{journal}{last};
	$own->send('UPDATE t SET v = v + 1 WHERE id = 50');
	ok($c->wait_until(sub { $c->status->{journal}{last} > $last }) && $own->blocked(0.3), "$how: it is decided, and waits for its turn");
	add(11 .. 20);
	$c->ctl('drop', 'n2');
	add(21 .. 40, 50);
	$holder->query('SELECT lockstep.release_commits()') if $how =~ /before/;
	$own->kill if $how =~ /gone/;
	$c->ctl('--timeout=1', 'attach', 'n2');
	if ($how !~ /before/)
	{
		$c->wait_state(2, 'catchup', 30);
		$holder->query('SELECT lockstep.release_commits()');
	}
	ok($c->wait_state(2, 'online', 60), 'the node is back');
	$own->finish(60) if $how !~ /gone/;
	$n++;
	$c->same('the nodes are equal');
	is($c->sql(2, 'SELECT v FROM t WHERE id = 50'), 2 * $n, 'what its session did is there once');
	is($c->sql(2, 'SELECT sum(v) FROM t'), 42 * $n, 'and all else');
}
done_testing;
