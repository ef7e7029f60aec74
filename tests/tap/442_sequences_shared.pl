# What shared memory knows of sequences: no more of them than lockstep.max_sequences,
# exactly; dropped ones make room, whoever dropped them and however, but not those whose DROP
# was rolled back, which go on where they were.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.max_sequences = 20\n");

sub use_all
{
	my ($node, $from, $to) = @_;
	return $c->sql($node, 'SELECT ' . join(', ', map { "nextval('s$_')" } $from .. $to));
}

sub create { my ($from, $to) = @_; return $c->sql(1, join('; ', map { "CREATE SEQUENCE s$_" } $from .. $to)) }

create(1, 21);
$c->drain;
is(use_all(1, 1, 20), join('|', (1) x 20), 'as many sequences as are allowed');
$c->fails(1, "SELECT nextval('s21')", '53400', qr/too many sequences/, 'and not one more');
$c->fails(1, "BEGIN; DROP SEQUENCE s1; ROLLBACK; SELECT nextval('s21')", '53400', qr/too many/, 'a DROP that is rolled back makes no room');
$c->fails(1, "BEGIN; SAVEPOINT a; DROP SEQUENCE s1; ROLLBACK TO a; COMMIT; SELECT nextval('s21')", '53400', qr/too many/, 'nor one in a savepoint');
is($c->sql(1, "SELECT nextval('s1')"), 2, 'and the sequence goes on');

$c->sql(1, 'DROP SEQUENCE s1');
is($c->sql(1, "SELECT nextval('s21')"), 1, 'one was dropped, one more can be used');
$c->sql(2, 'DROP SEQUENCE s2, s3');
$c->drain;
create(22, 24);
is(use_all(1, 22, 23), '1|1', 'dropped on another node');
$c->fails(1, "SELECT nextval('s24')", '53400', qr/too many/, 'exactly');
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
done_testing;
