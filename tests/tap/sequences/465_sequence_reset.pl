# A sequence that is set anew just after it was used: what was handed out before, and was not known to the
# other nodes yet, does not come after it.  Without this, a position outside of the sequence's new bounds was
# ordered, and it could not be used any more on any node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $s = $c->session(1);
my $n = 8;

$s->do("CREATE SEQUENCE s$_ INCREMENT -4 MINVALUE -36 MAXVALUE -24 START -24") for 1 .. $n;
for my $i (1 .. $n)
{
	$s->do("SELECT nextval('s$i')") for 1 .. 4;
	$s->do("ALTER SEQUENCE s$i RESTART WITH 32 START WITH 32 INCREMENT BY 4 MAXVALUE 36 MINVALUE 5 CYCLE");
}
$c->same('set anew');
is($c->sql($_, "SELECT count(last_value) FROM pg_sequences WHERE sequencename ~ '^s'"), 0, "node $_: as if none had been used") for 1, 2;
is($c->sql(1 + $_ % 2, "SELECT nextval('s$_')"), 32, 'the first value is the new one') for 1 .. $n;
$c->same('used again');
done_testing;
