# With commit_wait = certified an ordinary user's value that a peer cannot read costs at most that user's
# transaction; and a node that was changed by itself (lockstep.replicate = off), in whatever way,
# makes a transaction fail that meets the change, and drops no node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "max_prepared_transactions = 2\n");

# How was the last transaction decided?  (Then it is not to be taken for late.)
sub how
{
	my $last = $c->status->{journal}{decided};
	my ($json) = $c->ctl('journal', "--from=$last", '--json', '--journal-directory', "$c->{dir}/journal");
	$c->drain;

	return $json =~ /"wait":\s*"(\w+)"/ ? $1 : "none in $json";
}

sub all_online
{
	my ($name) = @_;

	$c->drain;
	is(join(' ', map { $c->node_status($_)->{state} } 1 .. 3), 'online online online', "$name: no node is dropped");
	return;
}

sub proven
{
	my ($table, $columns) = @_;

	$c->sql(1, "CREATE TABLE $table (id int PRIMARY KEY, $columns)");
	$c->sql(1, "INSERT INTO $table (id) VALUES (1)");
	$c->drain;
	return;
}

# ---------- values that their types do not read back

proven('tz', 'v timetz');
$c->fails(1, q{INSERT INTO tz VALUES (2, timetz '12:00+00' AT TIME ZONE interval '-20 hours')}, '22009', qr/displacement out of range/, 'a timetz');
proven('iv', 'v interval, a interval[]');
$c->fails(1, q{INSERT INTO iv VALUES (2, interval '-9223372036854775807 us' - interval '1 us')}, '22007', qr/interval/, 'an interval');
$c->fails(1, q{INSERT INTO iv (id, a) VALUES (2, ARRAY[interval '-9223372036854775807 us' - interval '1 us'])}, '22007', qr/interval/, 'in an array');
all_online('values that cannot be read');

# ---------- a time zone whose offset cannot be read: timestamptz does not depend on it

proven('ts', 'v timestamptz, a timestamptz[], r tstzrange');
for my $zone ('-20', '20', "'<x>+160'", "'Asia/Tokyo'")
{
	$c->sql(1, "SET timezone TO $zone; UPDATE ts SET v = '2020-01-01 00:00:00.5+00', a = ARRAY[v, now(), 'infinity', '294276-12-31 23:59:59.999999+00', '4714-11-24 00:00:00+00 BC'], r = tstzrange('2020-01-01 00:00+00', '2021-01-01 00:00+00')");
	$c->sql(1, "SET timezone TO $zone; INSERT INTO ts (id, v) SELECT 1 + max(id), max(v) FROM ts");
	all_online("timezone $zone");
}
$c->same('time zones');

# ---------- JSON that is nested deeper than a stack

proven('ja', 'a json[]');
proven('jt', 'j json');
proven('js', 'b jsonb');
my $text = 'DO $$ DECLARE j %s := \'1\'; BEGIN FOR i IN 1 .. %d LOOP j := %s(j); END LOOP; INSERT INTO %s VALUES (%d, %s); END $$';
$c->fails(1, sprintf($text, 'json', 20000, 'json_build_array', 'jt', 2, 'j'), '54001', qr/stack depth/, 'json');
$c->fails(1, sprintf($text, 'json', 20000, 'json_build_array', 'ja (id, a)', 2, 'ARRAY[j]'), '54001', qr/stack depth/, 'in an array');
$c->fails(1, q!SET max_stack_depth = '6MB'; INSERT INTO js (id, b) VALUES (2, (repeat('[', 20000) || repeat(']', 20000))::jsonb)!, '54001', qr/stack depth/, 'jsonb');
$c->sql(1, sprintf($text, 'jsonb', 99, 'jsonb_build_array', 'js (id, b)', 5, q{jsonb_build_object('a', j)}));
is(how(), 'ordered', 'jsonb of 100 levels');
$c->sql(1, sprintf($text, 'jsonb', 100, 'jsonb_build_array', 'js (id, b)', 6, q{jsonb_build_object('a', j)}));
is(how(), 'executed', 'jsonb of 101 levels');
$c->sql(1, q{INSERT INTO js SELECT 7, jsonb_agg(v) FROM (SELECT jsonb_build_object('i', i, 's', '[[[') AS v FROM generate_series(1, 150) i) g});
is(how(), 'ordered', 'many, but not deep');
$c->sql(1, 'CREATE CAST (text AS json) WITHOUT FUNCTION AS ASSIGNMENT');
$c->sql(1, 'INSERT INTO jt VALUES (8)');
$c->fails(1, q{INSERT INTO jt VALUES (9, 'no'::text)}, '22P02', qr/invalid input syntax for type json/, 'json that never was parsed');
all_online('JSON');

# ---------- a node that is changed by itself

sub attach_again
{
	my ($table) = @_;

	$c->ctl('drop', 'n2');
	$c->wait_state(2, 'dropped');
	$c->ctl('attach', 'n2');
	$c->wait_state(2, 'online');
	$c->sql(1, "INSERT INTO $table VALUES (3, 3)");
	$c->drain;
	$c->sql(1, "INSERT INTO $table VALUES (4, 4)");
	is(how(), 'ordered', "$table is proven");
	return;
}

$c->sql(1, "CREATE ROLE r");
$c->sql(1, "CREATE TABLE $_ (id int NOT NULL UNIQUE, x int); INSERT INTO $_ VALUES (1, 1)") for 'p', 'o', 'k';
$c->sql(1, 'ALTER TABLE o OWNER TO r');
attach_again('p');
$c->sql_local(2, 'CREATE PUBLICATION all_here FOR ALL TABLES');
$c->fails(1, 'UPDATE p SET x = 5 WHERE id = 1', '55000', qr/replica identity/, 'a publication');
all_online('a publication');
$c->sql_local(2, 'DROP PUBLICATION all_here');

attach_again('o');
$c->sql_local(2, 'DROP OWNED BY r');
$c->fails(1, 'INSERT INTO o VALUES (5, 5)', '42P01', qr/does not exist/, 'DROP OWNED');
all_online('DROP OWNED');

$c->fails(2, q{BEGIN; SET LOCAL lockstep.replicate = off; INSERT INTO p VALUES (20, 20); PREPARE TRANSACTION 'x'}, '0A000', qr/cannot PREPARE/, 'two-phase commit');

# in the middle of CREATE INDEX CONCURRENTLY, which commits several times
attach_again('k');
$c->sql(1, 'INSERT INTO k VALUES (10, 100)');
$c->drain;
my $reader = $c->session(2);
$reader->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM k');
my $builder = $c->session(2);
$builder->do("SET lockstep.replicate = off");
$builder->send("CREATE UNIQUE INDEX CONCURRENTLY only_here ON k (x)");
ok($c->wait_until(sub { $c->sql(2, q{SELECT indisready FROM pg_index WHERE indexrelid = to_regclass('only_here')}) eq 't' }), 'the index is enforced here');
$c->fails(1, 'INSERT INTO k VALUES (11, 100)', '23505', qr/only_here/, 'an index that is being built');
all_online('an index that is being built');
$reader->do('COMMIT');
$builder->finish;

done_testing();
