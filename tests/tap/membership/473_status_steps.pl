# What lockstepctl status tells: where a node is at each step of its way back: dropped, and why;
# joining, and at what; catching up, how much is to be done, how fast it goes, and how long
# it will take; online.  (The arithmetic: tests/unit/test_catchup.c.)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int)');
$c->drain;

# The state, and what stands beside it, as people and as programs see it.
sub where_is
{
	my ($state, $like, $name) = @_;
	my $ok = $c->wait_until(sub { my $s = $c->node_status(2); return $s->{state} eq $state && $s->{reason} =~ $like }, 20);
	ok($ok, $name) or diag($c->node_status(2)->{state} . ': ' . $c->reason(2));
	my $reason = $c->reason(2);
	like(scalar $c->ctl('status'), qr/^n2\s+$state\b.*\Q$reason\E/m, "$name: for people, too") unless $state eq 'catchup';
	return $c->node_status(2);
}

where_is('online', qr/^$/, 'online');
$c->ctl('drop', 'n2');
my $s = where_is('dropped', qr/^dropped by command$/, 'dropped, and why');
is($s->{seconds_left}, undef, 'nothing is being done, so no time is left');
is("$s->{cause}: $s->{hint}", 'command: Run: lockstepctl attach n2', 'programs are told the cause, and what can be done');
like(scalar $c->ctl('status'), qr/^node n2 is dropped \(command\):\n\s+hint:\s+Run: lockstepctl attach n2$/m, 'for people, too');
$c->sql(1, join('', map { "INSERT INTO t VALUES ($_, 0);\n" } 1 .. 300));
is($c->node_status(2)->{lag}, 300, 'what it lacks is counted');

$c->order_at(2, 'TURN_OPENING', 'wait');
$c->order_at(2, 'APPLY_TURN', 'wait');		# in the order of commits: the first comes there first
$c->order_at(2, 'APPLY_COMMITTED', 'wait 3');	# several are committed as one, up to 64
$c->ctl('--timeout=1', 'attach', 'n2');
where_is('joining', qr/^opening its turn$/, 'joining, and at what');
$c->let_go(2, 'TURN_OPENING');

# It stands: it can't be said how long it takes.
$s = where_is('catchup', qr/^300 transactions to go$/, 'catching up: what is to be done');
is($s->{seconds_left}, undef, 'while it stands no time is told');
like(scalar $c->ctl('status'), qr/^n2\s+catchup\b.*300 transactions to go/m, 'for people, too');

# It goes on, and stands again further on.
$c->let_go(2, 'APPLY_TURN');
ok($c->wait_until(sub { $c->was_there(2, 'APPLY_COMMITTED') }), 'it goes on');
$s = where_is('catchup', qr/^\d+ transactions to go, \d+ a second, about \d+ s left$/, 'catching up: how fast, and how long');
cmp_ok($s->{lag}, '<', 300, 'less is to be done');
cmp_ok($s->{lag}, '>', 0, 'but not nothing');
like($s->{reason}, qr/^$s->{lag} transactions/, 'as many as are told');
ok(defined $s->{seconds_left}, 'programs are told the time, too');
$c->let_go(2, 'APPLY_COMMITTED');
$s = where_is('online', qr/^$/, 'online again');
is($s->{lag}, 0, 'nothing is to be done');
is($s->{seconds_left}, undef, 'in no time');
is($s->{cause}, undef, 'and no cause keeps it out');
$c->same('with all it missed');
done_testing;
