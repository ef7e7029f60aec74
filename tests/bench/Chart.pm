# Charts as SVG, without any library: panels side by side, from zero.
#
#	chart('x.svg', 'a line below', panel(...), panel(...));
#	panel(title => 'reads', x => [1, 2, 4], x_label => 'connections', y_label => 'of one server', marks => [2],
#		lines => [ [ 'both nodes', 1.1, 1.9, 2 ], ... ])
#	panel(title => 'pgbench -C', bars => [ [ 'none', 1, 1 ], ... ], kinds => [ 'here', 'original' ])
#
# Places on the x axis are equally far apart.  A value that is undef leaves a gap; marks are levels with a dotted line.
package Chart;
use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max);
use POSIX ();

our @EXPORT = qw(chart panel round_up short svg_text svg_file);

my @colours = ('#1f5fa8', '#c05a00', '#3a7d34', '#8a3fa0', '#777777', '#b01030', '#008a8a');
my ($width, $height, $left, $top, $gap) = (300, 190, 50, 40, 375);

sub svg_text
{
	my ($x, $y, $text, $anchor, $more) = @_;
	return sprintf '<text x="%.0f" y="%.0f" text-anchor="%s"%s>%s</text>', $x, $y, $anchor, $more // '', $text;
}

# 1, 2 or 5 times a power of ten, at least that much.
sub round_up
{
	my ($v) = @_;
	return 1 if $v <= 0;
	my $unit = 10**POSIX::floor(log($v) / log(10));
	for my $f (1, 2, 5, 10) { return $f * $unit if $f * $unit >= $v * 0.999999 }
	return 10 * $unit;
}

sub short
{
	my ($v) = @_;
	return $v >= 1_000_000 ? $v / 1_000_000 . 'M' : $v >= 1000 ? $v / 1000 . 'k' : $v;
}

sub panel { return {@_} }

# Its size, too.
sub draw
{
	my ($p, $x0) = @_;
	my @series = $p->{lines} ? @{ $p->{lines} } : @{ $p->{bars} };
	my @values = grep { defined } map { my (undef, @v) = @$_; @v } @series;
	my $highest = round_up(max(@values, @{ $p->{marks} // [] }, 0));
	my $y = sub { return $top + $height * (1 - $_[0] / $highest) };
	my @out = (svg_text($x0 + $width / 2, $top - 14, $p->{title}, 'middle', ' font-weight="bold"'),
		sprintf('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>', $x0, $top, $width, $height));
	push @out, svg_text($x0 - 5, $y->($_) + 4, short($_), 'end') for 0, $highest / 2, $highest;
	push @out, svg_text($x0, $top - 3, $p->{y_label}, 'start', ' fill="#555" font-size="10"') if $p->{y_label};
	push @out, sprintf('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#999" stroke-dasharray="2 3"/>', $x0, $x0 + $width, $y->($_), $y->($_)) for @{ $p->{marks} // [] };
	my $below = $top + $height;
	if ($p->{lines})
	{
		my @x = @{ $p->{x} };
		my $place = sub { return $x0 + 15 + ($width - 30) * $_[0] / max(1, $#x) };
		push @out, svg_text($place->($_), $below + 15, $x[$_], 'middle') for 0 .. $#x;
		push @out, svg_text($x0 + $width / 2, $below + 31, $p->{x_label}, 'middle');
		for my $i (0 .. $#series)
		{
			my ($name, @v) = @{ $series[$i] };
			my $colour = $colours[ $i % @colours ];
			my @points = map { [ $place->($_), $y->($v[$_]) ] } grep { defined $v[$_] } 0 .. $#v;
			push @out, sprintf '<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>', $colour, join ' ', map { sprintf '%.1f,%.1f', @$_ } @points;
			push @out, map { sprintf '<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>', @$_, $colour } @points;
			push @out, svg_text($x0 + 10 + 165 * ($i % 2), $below + 51 + 16 * int($i / 2), "&#9679; $name", 'start', qq( fill="$colour"));
		}
		return (51 + 16 * int(($#series + 2) / 2), @out);
	}
	my @kinds = @{ $p->{kinds} };
	my $room = $width / @series;
	for my $i (0 .. $#series)
	{
		my ($name, @v) = @{ $series[$i] };
		for my $k (0 .. $#kinds)
		{
			next unless defined $v[$k];
			my $bar = $room * 0.8 / @kinds;
			my $x = $x0 + $room * ($i + 0.1) + $bar * $k;
			push @out, sprintf('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>', $x, $y->($v[$k]), $bar - 1, $below - $y->($v[$k]), $colours[$k]);
		}
		my $line = 0;
		push @out, svg_text($x0 + $room * ($i + 0.5), $below + 15 + 13 * $line++, $_, 'middle', ' font-size="10"') for split /\n/, $name;
	}
	push @out, svg_text($x0 + 10 + 150 * ($_ % 2), $below + 61 + 16 * int($_ / 2), "&#9632; $kinds[$_]", 'start', qq( fill="$colours[$_]")) for 0 .. $#kinds;
	return (61 + 16 * int((@kinds + 1) / 2), @out);
}

sub svg_file
{
	my ($to, $w, $h, @out) = @_;
	open my $svg, '>', $to or die "$to: $!\n";
	print $svg qq(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $w $h" width="$w" height="$h" font-family="sans-serif" font-size="11">\n),
		qq(<rect width="$w" height="$h" fill="white"/>\n), join("\n", @out), "\n</svg>\n";
	close $svg or die "$to: $!\n";
	return;
}

sub chart
{
	my ($to, $note, @panels) = @_;
	my ($lowest, @out) = (0);
	for my $i (0 .. $#panels)
	{
		my ($below, @drawn) = draw($panels[$i], $left + $gap * $i);
		$lowest = max($lowest, $below);
		push @out, @drawn;
	}
	my $h = $top + $height + $lowest + 24;
	push @out, svg_text($left, $h - 10, $note, 'start', ' fill="#555"');
	svg_file($to, max($left + $gap * @panels, 800), $h, @out);
	return;
}

1;
