# What shared memory knows of sequences: no more of them than lockstep.max_sequences; dropped
# ones make room, whoever dropped them and however, and so does the one that was used longest
# ago, which goes on behind its lease: one user's sequences do not keep others from using theirs.
# A background worker whose own code calls nextval, as pg_cron's does, gets values of the cluster, too.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1, conf => "lockstep.max_sequences = 20\nlockstep_fault.numbers_in = 'app'\n");

sub use_all
{
	my ($node, $from, $to) = @_;
	return $c->sql($node, 'SELECT ' . join(', ', map { "nextval('s$_')" } $from .. $to));
}

sub create { my ($from, $to) = @_; return $c->sql(1, join('; ', map { "CREATE SEQUENCE s$_" } $from .. $to)) }

create(1, 21);
$c->drain;
is(use_all(1, 1, 20), join('|', (1) x 20), 'as many sequences as are allowed');
is($c->sql(1, "SELECT nextval('s21')"), 1, 'and one more: the one used longest ago makes room');
is($c->sql(1, "BEGIN; DROP SEQUENCE s21; ROLLBACK; SELECT nextval('s21')"), 2, 'a DROP that is rolled back changes nothing');
my $s1 = $c->sql(1, "SELECT nextval('s1')");
cmp_ok($s1, '>', 1, "the one that made room goes on ($s1)");
is($c->sql(1, "SELECT nextval('s1')"), $s1 + 1, 'as ever');
{
	# values that a session keeps are void when the sequence is set, also if nobody knew of it then
	$c->sql(1, 'CREATE SEQUENCE kept CACHE 10');
	$c->drain;
	my $keeper = $c->session(1);
	is($keeper->query("SELECT nextval('kept')"), 1, 'a session keeps ten values');
	use_all(1, 1, 20);
	$c->sql(2, "SELECT setval('kept', 1000)");
	$c->drain;
	is($c->sql(1, "SELECT nextval('kept')"), 1001, 'another session after setval');
	is($c->sql(1, 'SELECT count(DISTINCT v), min(v) FROM (SELECT nextval(' . "'s' || 1 + i % 21) v FROM generate_series(0, 99) i) x WHERE v > 0") =~ /^\d+\|\d+$/ ? 1 : 0, 1, 'more than there is room for, in one statement');
}

$c->sql(1, 'DROP SEQUENCE s1');
cmp_ok($c->sql(1, "SELECT nextval('s21')"), '>', 2, 'one was dropped, another goes on');
$c->sql(2, 'DROP SEQUENCE s2, s3');
$c->drain;
create(22, 24);
is(use_all(1, 22, 23), '1|1', 'dropped on another node');
$c->sql(1, join('; ', map { "ALTER SEQUENCE s$_ OWNED BY NONE" } 4 .. 6));
$c->sql(1, 'CREATE SCHEMA x; ' . join('; ', map { "ALTER SEQUENCE s$_ SET SCHEMA x" } 4 .. 6) . '; DROP SCHEMA x CASCADE');
is($c->sql(1, "SELECT nextval('s24')"), 1, 'dropped by CASCADE');

# many that come and go
for my $i (1 .. 30)
{
	$c->sql(1, "CREATE SEQUENCE t$i");
	is($c->sql(1, "SELECT nextval('t$i')"), 1, "t$i") if $i % 10 == 0;
	$c->sql(1, "SELECT nextval('t$i')");
	$c->sql(1, "DROP SEQUENCE t$i");
}
is($c->sql(1, "CREATE TABLE u (id serial); INSERT INTO u DEFAULT VALUES; INSERT INTO u DEFAULT VALUES RETURNING id"), 2, 'there is still room');
is($c->sql(1, "TRUNCATE u RESTART IDENTITY; INSERT INTO u DEFAULT VALUES RETURNING id"), 1, 'new storage is no new sequence');
$c->same('equal');

# ---------- leases: a busy caller hardly asks, an idle one leaves a small gap

sub leases
{
	my ($out) = $c->ctl('journal', '--journal-directory', "$c->{dir}/journal");
	return scalar(() = $out =~ /\blease\b.*busy/g);
}

$c->sql(1, 'CREATE SEQUENCE busy');
$c->drain;
my @busy = map { $c->session($_) } 1, 2;
$_->send("SELECT count(nextval('busy')) FROM generate_series(1, 50000)") for @busy;
is($_->finish(120), 50000, 'many values at once on both nodes') for @busy;
cmp_ok(leases(), '>=', 2, 'the journal has the leases') or diag(($c->ctl('journal', '--journal-directory', "$c->{dir}/journal"))[0]);
cmp_ok(leases(), '<=', 40, 'which are few: ' . leases() . ' for 100000 values');
$_->close for @busy;

$c->sql(1, 'DROP SEQUENCE busy');
$c->sql(1, 'CREATE SEQUENCE idle');
$c->drain;
is($c->sql(1, "SELECT nextval('idle')"), 1, 'a caller that asks now and then');
cmp_ok($c->sql(2, "SELECT nextval('idle')"), '<=', 33, 'and goes to another node leaves a gap of one small lease');

# ---------- a session's settings are not part of a sequence's name

$c->sql(1, 'CREATE SEQUENCE quoted');
$c->drain;
my @quoting = map { my $s = $c->session($_ % 2 + 1); $s->do("SET quote_all_identifiers = " . ($_ % 2 ? 'on' : 'off')); $s } 0 .. 3;
my %drawn;
for (1 .. 10)
{
	$drawn{ $_->query("SELECT nextval('quoted')") }++ for @quoting;
}
is(join(' ', grep { $drawn{$_} > 1 } sort keys %drawn), '', 'quote_all_identifiers: each value once');
$quoting[1]->do('ALTER SEQUENCE quoted RENAME TO unquoted');
$c->drain;
$drawn{ $_->query("SELECT nextval('unquoted')") }++ for @quoting;
is(scalar(keys %drawn), 44, 'also when it has been renamed');
$_->close for @quoting;

# ---------- a background worker of a module that the server loads at its start: each node's numbers five rows of one table

$c->sql(1, 'CREATE TABLE numbered (n bigserial PRIMARY KEY, node text DEFAULT current_setting(\'port\'))');
ok($c->wait_sql($_, 'SELECT count(*) FROM numbered', 10, 120), "n$_: both workers have numbered their rows") for $c->all;
is($c->sql(1, 'SELECT count(*), count(DISTINCT node) FROM numbered'), '10|2', 'none was refused, and both nodes numbered some');
for my $node ($c->all)
{
	unlike($c->node_log($node), qr/duplicate key/, "n$node: no number was given out twice");
}
$c->drain;
$c->same('the nodes are equal');
done_testing;
