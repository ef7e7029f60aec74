# Sequences and crashes: after kill -9 of a node, of the replicator, and of everything
# at once, no value is handed out that anybody was given before, and the sequences are
# equal on all nodes, although a crash takes with it what a node had handed out.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3, durable => 1, replicator_conf => "journal_segment_size = 64kB\n");
$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, node int); CREATE SEQUENCE s; CREATE SEQUENCE rolled_back');
$c->drain;

my (%given, $repeated);

# What a client is given, committed or not.
sub take
{
	my ($node, $n) = @_;
	my @values = split /\n/, $c->sql($node, "SELECT nextval('s') FROM generate_series(1, $n)");
	$repeated += grep { $given{$_}++ } @values;
	$c->sql($node, "BEGIN; SELECT nextval('rolled_back'); ROLLBACK");
	return;
}

sub nothing_twice
{
	my ($name) = @_;
	$repeated = 0;
	take($_, 40) for $c->all, $c->all;
	is($repeated, 0, "$name: no value twice");
	$c->same("$name: equal");
	my ($highest) = sort { $b <=> $a } keys %given;
	is($c->sql($_, "SELECT last_value >= $highest FROM s"), 't', "$name: the sequence of n$_ is not below") for $c->all;
	return;
}

nothing_twice('at first');

# ---------- a node that comes back with sequences that have other names than when values were leased

$c->sql(1, 'CREATE SCHEMA first; CREATE SEQUENCE first.by_schema; CREATE SEQUENCE by_name');
$c->sql(1, "SELECT nextval('first.by_schema'), nextval('by_name')");
$c->drain;
$c->cluster('kill-node', 1);
$c->sql(2, 'ALTER SCHEMA first RENAME TO second; ALTER SEQUENCE by_name RENAME TO by_new_name');
$c->cluster('start-node', 1, '--no-wait');
ok($c->wait_state(1, 'online', 40), 'n1 is back');
$c->same('renamed meanwhile: equal');
# ---------- a schema is renamed again and again while all take values, and a node comes back

$c->sql(1, "CREATE SCHEMA here; CREATE SEQUENCE here.moving; CREATE TABLE moved (id bigint PRIMARY KEY DEFAULT nextval('here.moving'), node int)");
$c->drain;
my $moving = $c->file('moving.sql', "INSERT INTO moved (node) VALUES (:node);\n");
my @moving = map { $c->pgbench_start($_, '-n', '-f', $moving, '-D', "node=$_", '-c', 2, '-T', 9, '--max-tries=1000') } $c->all;
my $renamed = 0;
my $until = time + 8;
while (time < $until || $renamed <= 20)
{
	my ($from, $to) = $renamed % 2 ? qw(there here) : qw(here there);
	$c->sql(1, "ALTER SCHEMA $from RENAME TO $to");
	$renamed++;
	$c->cluster('kill-node', 2) if $renamed == 10;
	$c->cluster('start-node', 2, '--no-wait') if $renamed == 20;
}
$_->{handle}->finish for @moving;
cmp_ok($renamed, '>', 20, 'renamed');
unlike(LockstepCluster::complaints(@moving), qr/23505|duplicate key/, 'no value twice');
ok($c->wait_state(2, 'online', 40), 'n2 is back');
$c->same('renamed again and again: equal');
my $script = $c->file('load.sql', "INSERT INTO t (node) VALUES (:node);\n");

sub load
{
	my (@nodes) = @_;
	my $rows = $c->sql(1, 'SELECT count(*) FROM t');
	my @runs = map { [ $_, $c->pgbench_start($_, '-n', '-f', $script, '-D', "node=$_", '-c', 3, '-T', 4, '--max-tries=1000') ] } @nodes;
	ok($c->wait_until(sub { $c->sql(1, 'SELECT count(*) FROM t') > $rows + 50 }, 10), 'there is load');
	return @runs;
}

sub end_load
{
	my ($name, @runs) = @_;
	for (@runs)
	{
		my ($node, $run) = @$_;
		$run->{handle}->finish;
		unlike(LockstepCluster::complaints($run), qr/23505|duplicate key/, "$name: no key twice on n$node");
	}
	return;
}

# ---------- a node

take(2, 10);
my @runs = load(1 .. 3);
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', 60), 'n2 is back');
end_load('a node was killed', @runs);
nothing_twice('a node was killed');

# ---------- the replicator

take(3, 10);
@runs = load(1 .. 3);
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for $c->all;
end_load('the replicator was killed', @runs);
nothing_twice('the replicator was killed');
$c->cluster('restart-replicator');
nothing_twice('the replicator was restarted');

# ---------- everything

take(1, 10);
$c->sql(1, "SELECT setval('s', 500000)");
%given = ();
take(1, 50);
$c->cluster('kill-replicator');
$c->cluster('kill-node', $_) for $c->all;
$c->cluster('start-node', $_, '--no-wait') for $c->all;
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for $c->all;
nothing_twice('everything was killed');
cmp_ok((sort { $a <=> $b } keys %given)[0], '>', 500000, 'setval was not forgotten');
$c->sql(2, "INSERT INTO t (node) VALUES (0)");
$c->same('equal at the end');
done_testing();
