# What the lints in Perl share.
package Lint;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT = qw(slurp);

# The whole of a file.  If it can't be read: $otherwise, or an error if that is not given.
sub slurp
{
	my ($path, $otherwise) = @_;
	open(my $file, '<', $path) or return $otherwise // die "could not open $path: $!\n";
	local $/;
	return scalar <$file>;
}

1;
