# No two transactions have the same identity, though process IDs come back while a
# server runs: what a session counts begins elsewhere in each of them.  The old
# session's question must not be answered with the new one's outcome.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');

my $aborted = $c->session(1);
$aborted->do('BEGIN; INSERT INTO t VALUES (1)');
my $old = $aborted->do('SELECT lockstep.transaction_token()');
$aborted->do('ROLLBACK');

# first transactions of other sessions, as if each had got that process ID
my ($node, $boot, $pid, $count, @rest) = split /:/, $old;
my %seen = ($count => 1);
for my $n (1 .. 5)
{
	my $s = $c->session(1);
	my $token = $s->do("BEGIN; INSERT INTO t VALUES (10 + $n); SELECT lockstep.transaction_token()");
	my $own = (split /:/, $token)[3];

	ok(!$seen{$own}++, "session $n: the first transaction has a number of its own");
	$s->do('COMMIT');
	is($c->sql(2, "SELECT lockstep.outcome('$token')"), 'committed', 'what committed did');
	is($c->sql(2, "SELECT lockstep.outcome('$old')"), 'aborted', 'what aborted stays so');
	$c->fails(2, "SELECT lockstep.outcome('" . join(':', $node, $boot, $s->pid, $own, @rest) . "')", '22023',
		qr/is not the token of a transaction/, 'a token that no node gave is none');
}

done_testing();
