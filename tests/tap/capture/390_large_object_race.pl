# Two transactions of one node that change one large object at the same time, each
# not seeing what the other does: every node has the same afterwards.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $truncate = 'SELECT lo_truncate64(lo_open(5001, 131072), 10)';
my $append = q{SELECT lo_put(5001, 10000, 'behind')};

$c->sql(1, q{SELECT lo_create(5001); SELECT lo_put(5001, 0, repeat('a', 3000)::bytea)});

# each waits for the one before it, whichever asks to commit first
for ([ $truncate, $append ], [ $append, $truncate ], [ $truncate, $truncate ], [ $append, 'SELECT lo_unlink(5001)' ])
{
	my ($first, $second) = @$_;
	my $a = $c->session(1);
	my $b = $c->session(1);

	$a->query("BEGIN; $first");
	$b->send("BEGIN; $second; COMMIT");
	ok($b->blocked(5), "waits: $second");
	$a->query('COMMIT');
	$b->finish;
	$c->same("$first, meanwhile $second");
}
is($c->sql(2, 'SELECT count(*) FROM pg_largeobject WHERE loid = 5001'), 0, 'nothing of it is left');

# writers don't wait for each other, nor does who has made it take a lock
my $many = join ',', map { "lo_put(lo_create($_), 0, 'x')" } 6001 .. 6010;
my $s = $c->session(1);
$s->query("BEGIN; SELECT $many");
is($c->sql(1, q{SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND objid BETWEEN 6001 AND 6010}), 0, 'new ones are not locked');
$s->query('COMMIT');
$s->query(q{BEGIN; SELECT lo_put(6001, 5000, 'one')});
$c->sql(1, q{SET statement_timeout = '30s'; SELECT lo_put(6001, 10000, 'two')});
$s->query('COMMIT');
$c->same('two writers');

done_testing();
