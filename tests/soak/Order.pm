# Did two nodes commit in the same order?  Each tells when it committed each transaction
# (pg_xact_commit_timestamp of a row, which grows in commit order, as commits are made
# one after the other).  What a node committed at one time - as one, when it caught up -
# may be in any order there.
package Order;
use strict;
use warnings;

# Two hashes, number of the transaction => time.  Pairs of numbers [x, y] that the first
# node committed in this order, and the second in the other.
sub differences
{
	my ($first, $second) = @_;
	my @numbers = sort { $first->{$a} <=> $first->{$b} || $second->{$a} <=> $second->{$b} }
		grep { exists $second->{$_} } keys %$first;
	my ($latest, @wrong);

	# in the first's order, and ties in the second's, the second's times never go back
	for my $n (@numbers)
	{
		if (defined $latest && $second->{$n} < $second->{$latest})
		{
			push @wrong, [ $latest, $n ];
		}
		else
		{
			$latest = $n;
		}
	}
	return @wrong;
}

1;
