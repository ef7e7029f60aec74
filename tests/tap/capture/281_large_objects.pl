# Large objects have equal oids, contents, owners, privileges and comments on every
# node, however they are changed: SQL functions, libpq's fastpath calls, server-side
# import, descriptors, contrib/lo, savepoints, pg_restore; two nodes that change
# one at the same time conflict; after two transactions of one node that do, every node has the same.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, 'CREATE ROLE lo_user LOGIN; CREATE ROLE lo_other; GRANT CREATE ON SCHEMA public TO lo_user');
my $big = join '', map { chr(($_ * 7 + int($_ / 251)) % 256) } 1 .. 300_001;
my $file = $c->file('import.bin', '');
open(my $f, '>:raw', $file) or die $!;
print $f $big;
close $f;

# ---------- one call each

my $oid = $c->sql(1, q{SELECT lo_create(1000001)});
is($oid, 1000001, 'lo_create with an oid');
$c->fails(1, 'SELECT lo_create(1000001)', '23505', qr/1000001|already exists/, 'twice');
my %made = map { $_ => $c->sql($_, 'SELECT lo_creat(-1)') } $c->all;
my $from = $c->sql(2, q{SELECT lo_from_bytea(0, decode('00ff01','hex') || repeat('x', 5000)::bytea)});
my $given = $c->sql(3, q{SELECT lo_from_bytea(1000002, 'given')});
is($given, 1000002, 'lo_from_bytea with an oid');
my $imported = $c->sql(2, "SELECT lo_import('$file')");
my $imported2 = $c->sql(3, "SELECT lo_import('$file', 1000003)");
my $empty = $c->sql(1, q{SELECT lo_from_bytea(0, '')});
my $gone = $c->sql(1, q{SELECT lo_from_bytea(0, 'gone')});
$c->same('created, imported');
cmp_ok($_, '<', 2**31, 'a chosen oid fits in a signed integer') for values %made, $from;
is($c->sql(1, "SELECT md5(lo_get($_)) FROM (SELECT md5(pg_read_binary_file('$file')) = md5(lo_get($_)) AS ok) x WHERE ok"),
	$c->sql(3, "SELECT md5(lo_get($imported))"), "the file's content ($_)") for $imported, $imported2;

$c->sql(1, "SELECT lo_put($from, 3000, 'in the middle'), lo_put($from, 100000, 'behind a hole'), lo_put(1000001, 0, repeat('ab', 200000)::bytea)");
$c->sql(2, "SELECT lo_put($empty, 0, '')");
$c->sql(3, "SELECT lo_unlink($gone)");
$c->sql(2, <<"SQL");
BEGIN;
SELECT lo_open($imported, x'60000'::int);
SELECT lo_lseek(0, 2000, 0);
SELECT lowrite(0, 'first'), lowrite(0, '-second');
SELECT lo_lseek64(0, -10, 2);
SELECT lowrite(0, repeat('beyond the end', 1000)::bytea);
SELECT lo_open($made{1}, x'20000'::int), lo_open($made{2}, x'20000'::int);
SELECT lowrite(2, 'two'), lowrite(1, 'one'), lo_close(1), lowrite(2, '2');
SELECT lo_open($made{3}, x'20000'::int);
SELECT lowrite(1, repeat('three', 1000)::bytea), lo_truncate(1, 3000), lo_truncate64(2, 100);
COMMIT;
SQL
$c->same('written, truncated, unlinked');
is($c->sql(3, "SELECT lo_get($imported, 2000, 12) = 'first-second'"), 't', 'content is what was written');
is($c->sql(3, "SELECT convert_from(lo_get($made{2}, 0, 4), 'UTF8') || length(lo_get($made{2})) || convert_from(lo_get($made{1}), 'UTF8') || length(lo_get($made{3}))"),
	'two2100one3000', 'each descriptor its object');
$c->sql(3, "BEGIN; SELECT lo_open($imported2, x'20000'::int); SELECT lo_truncate(0, 4097); COMMIT");
$c->fails(1, "BEGIN; SELECT lo_open($imported, x'40000'::int); SELECT lowrite(0, 'x')", '55000', qr/not opened for writing/, 'a descriptor for reading');
$c->fails(1, q{SELECT lowrite(7, 'x')}, '42704', qr/invalid large-object descriptor/, 'no descriptor');
$c->fails(2, 'SELECT lo_unlink(999)', '42704', qr/does not exist/, 'no object');
$c->same('after errors');

# ---------- what is rolled back

$c->sql(1, <<"SQL");
BEGIN;
SAVEPOINT a;
SELECT lo_create(1000010), lo_put($from, 0, 'rolled back');
SELECT lo_open($made{1}, x'20000'::int);
SELECT lowrite(0, 'rolled back');
ROLLBACK TO a;
SELECT lo_create(1000011), lo_put($from, 10, 'kept');
SELECT lo_open($made{2}, x'20000'::int);
SELECT lowrite(0, 'kept');
DO \$\$ BEGIN
	BEGIN
		PERFORM lo_unlink(1000011);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM lo_put(1000011, 0, 'in a block');
	END;
END \$\$;
COMMIT;
BEGIN; SELECT lo_create(1000012); SELECT lo_unlink($from); ROLLBACK;
SQL
$c->same('savepoints and rollbacks');
is($c->sql(2, q{SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_largeobject_metadata WHERE oid BETWEEN 1000010 AND 1000012}), '1000011', 'what is kept');
is($c->sql(2, "SELECT convert_from(lo_get($made{2}, 0, 4) || lo_get($from, 10, 4) || lo_get(1000011), 'UTF8')"), 'keptkeptin a block', 'and its content');

# ---------- with rows, in functions and triggers; more than a buffer holds

$c->sql(3, <<'SQL');
CREATE TABLE doc (id int PRIMARY KEY, body oid);
CREATE FUNCTION make_body() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.body := lo_from_bytea(0, repeat('body ' || NEW.id, 3000)::bytea); RETURN NEW; END $$;
CREATE TRIGGER make_body BEFORE INSERT ON doc FOR EACH ROW EXECUTE FUNCTION make_body();
SQL
$c->drain;
$c->sql($_, "INSERT INTO doc SELECT g FROM generate_series($_ * 100, $_ * 100 + 9) g") for $c->all;
$c->same('from a trigger');
is($c->sql(2, q{SELECT count(*) FROM doc WHERE lo_get(body) = repeat('body ' || id, 3000)::bytea}), 30, 'the rows have theirs');

# ---------- commands, owners, privileges

$c->sql(2, <<"SQL");
SET ROLE lo_user;
SELECT lo_create(1000020), lo_from_bytea(1000021, 'mine'), lo_create(1000022), lo_create(1000023);
GRANT SELECT, UPDATE ON LARGE OBJECT 1000020, 1000021 TO lo_other;
COMMENT ON LARGE OBJECT 1000020 IS 'a comment';
RESET ROLE;
ALTER LARGE OBJECT 1000022 OWNER TO lo_other;
SQL
$c->sql(1, "COMMENT ON LARGE OBJECT $from IS 'of another node'; GRANT ALL ON LARGE OBJECT $from TO PUBLIC");
$c->drain;
$c->sql(3, "SET ROLE lo_other; SELECT lo_put(1000021, 2, 'theirs')");
$c->fails(3, 'SET ROLE lo_other; SELECT lo_unlink(1000021)', '42501', qr/must be owner/, 'permissions are checked where it is asked for');
$c->sql(1, "SET lo_compat_privileges = on; SET ROLE lo_other; SELECT lo_put(1000023, 2, 'compat')");
$c->same('owners, privileges, comments');
is($c->sql(3, 'SELECT pg_get_userbyid(lomowner), lomacl IS NOT NULL FROM pg_largeobject_metadata WHERE oid = 1000021'), 'lo_user|t', 'as they were given');
$c->sql(3, "SELECT lo_unlink(1000020)");
$c->drain;
$c->sql(1, 'BEGIN; SELECT lo_create(1000024); ALTER LARGE OBJECT 1000024 OWNER TO lo_user; REASSIGN OWNED BY lo_other TO lo_user; COMMIT');
$c->same('REASSIGN OWNED');
$c->sql(2, 'DROP OWNED BY lo_user, lo_other');
$c->same('DROP OWNED');
is($c->sql(3, 'SELECT count(*) FROM pg_largeobject_metadata WHERE oid BETWEEN 1000020 AND 1000024'), 0, 'has dropped them');
is($c->sql(1, "SELECT count(*) FROM pg_description WHERE classoid = 'pg_largeobject'::regclass"), 1, 'with their comments');

# ---------- psql's commands: fastpath calls

sub psql
{
	my ($node, @commands) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$LockstepCluster::bindir/psql", '-XAt', '-v', 'ON_ERROR_STOP=1', '-d', $c->conninfo($node), map { ('-c', $_) } @commands ],
		'<', \undef, '>', \$out, '2>', \$err);
	is($err, '', "psql: @commands");
	return $out;
}
my ($fast) = psql(3, "\\lo_import $file 'by psql'") =~ /^lo_import (\d+)/m;
ok($fast, 'psql \lo_import');
my $exported = $c->file('exported.bin', '');
chmod 0666, $exported;
$c->drain;
psql(1, "\\lo_export $fast $exported");
is(-s $exported, length $big, 'psql \lo_export on another node');
is(system('cmp', '-s', $file, $exported), 0, 'gives the file');
psql(2, "\\lo_unlink $made{3}");
$c->same('by fastpath calls');

# ---------- contrib/lo

SKIP: {
	skip 'contrib/lo is not installed', 3 unless $c->sql(1, "SELECT count(*) FROM pg_available_extensions WHERE name = 'lo'");
	$c->sql(1, <<'SQL');
CREATE EXTENSION lo;
CREATE TABLE image (id int PRIMARY KEY, raster lo);
CREATE TRIGGER t_raster BEFORE UPDATE OR DELETE ON image FOR EACH ROW EXECUTE FUNCTION lo_manage(raster);
INSERT INTO image SELECT g, lo_from_bytea(0, ('image ' || g)::bytea) FROM generate_series(1, 4) g;
SQL
	$c->drain;
	my $before = $c->sql(2, 'SELECT count(*) FROM pg_largeobject_metadata');
	$c->sql(2, "UPDATE image SET raster = lo_from_bytea(0, 'new') WHERE id = 1; DELETE FROM image WHERE id IN (2, 3)");
	$c->same('lo_manage');
	is($c->sql(3, 'SELECT count(*) FROM pg_largeobject_metadata'), $before - 2, 'has unlinked three of them');
	is($c->sql(3, 'SELECT string_agg(convert_from(lo_get(raster), $$UTF8$$), $$ $$ ORDER BY id) FROM image'), 'new image 4', 'and left the others');
}

# ---------- two nodes at once

my ($x, $y) = map { $c->session($_) } 1, 2;
sub both
{
	my ($sql1, $sql2, $name) = @_;
	$x->do('BEGIN');
	$y->do('BEGIN');
	$x->do($sql1);
	$y->do($sql2);
	$x->send('COMMIT');
	$y->send('COMMIT');
	$_->finish for $x, $y;
	my @errors = grep { $_ ne '' } map { $_->error } $x, $y;
	is(scalar(@errors), 1, "$name: one of them fails");
	LockstepCluster::is_error($errors[0] // '', '40001', qr/./, "$name: with 40001");
	$_->query('ROLLBACK') for $x, $y;
	$c->same($name);
}
both("SELECT lo_put($from, 0, 'n1')", "SELECT lo_put($from, 3, 'n2')", 'written on two nodes');
both("SELECT lo_put($from, 0, 'n1')", "SELECT lo_unlink($from)", 'written and unlinked');
both('SELECT lo_create(1000030)', 'SELECT lo_create(1000030)', 'created twice');
both("COMMENT ON LARGE OBJECT 1000030 IS 'a'", "GRANT SELECT ON LARGE OBJECT 1000030 TO PUBLIC", 'commands');

my $script = $c->file('lo.sql', <<'SQL');
BEGIN;
SELECT lo_creat(-1) AS o \gset
SELECT lo_put(:o, 0, random()::text::bytea);
SELECT lo_put(oid, 0, 'x') FROM pg_largeobject_metadata ORDER BY random() LIMIT 1;
COMMIT;
BEGIN;
SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid > 2000000 ORDER BY random() LIMIT 1;
COMMIT;
SQL
my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 3, '-t', 40, '--max-tries=1') } $c->all;
my $processed = 0;
for my $run (@runs)
{
	$run->{handle}->finish;
	$processed += LockstepCluster::processed(${ $run->{text} });
}
cmp_ok($processed, '>', 20, 'load on all nodes');
$c->same('load on all nodes at once');

# ---------- nodes that were away

my ($before) = $c->sql(1, 'SELECT count(*) FROM pg_largeobject_metadata');
$c->cluster('kill-node', 3);
$c->sql(1, "SELECT lo_put(1000001, 1, 'while n3 is away'); SELECT lo_from_bytea(1000040, repeat('y', 10000)::bytea)");
$c->sql(2, 'SELECT lo_unlink(1000003)');
$c->cluster('start-node', 3);
$c->wait_state(3, 'online', 60);
$c->same('caught up from the journal');

# ---------- pg_dump and pg_restore, through one node

my $dump = "$c->{top}/dump";
for my $format ([ 'directory', '-Fd', '-j', 2 ], [ 'plain', '-Fp' ])
{
	my ($name, @format) = @$format;
	my $err = '';
	system('rm', '-rf', $dump);
	IPC::Run::run([ $c->client(2, 'pg_dump'), @format, '-d', $c->{db}, '--blobs', '-N', 'lockstep', '-f', $dump ], '<', \undef, '2>', \$err);
	is($err, '', "pg_dump --blobs, format $name");
	$c->sql(3, 'DROP TABLE IF EXISTS image; DROP TABLE doc; DROP FUNCTION make_body; DROP EXTENSION IF EXISTS lo; SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata');
	$c->same('emptied');
	my @restore = $name eq 'plain' ? ([ $c->client(3, 'psql'), '-Xq', '-d', $c->{db}, '-f', $dump ]) :
		([ $c->client(3, 'pg_restore'), '-d', $c->{db}, ($name eq 'directory' ? ('-j', 2) : ()), $dump ]);
	IPC::Run::run($restore[0], '<', \undef, '>', \my $out, '2>', \$err);
	$err = join "\n", grep { !/^psql:.*NOTICE/ } split /\n/, $err;
	is($err, '', 'restored');
	$c->same("restored from format $name");
	cmp_ok($c->sql(1, 'SELECT count(*) FROM pg_largeobject_metadata'), '>=', 40, 'all are back');
}

# ---------- two transactions of one node that change one at the same time, each not seeing what the other does

{
	my $truncate = 'SELECT lo_truncate64(lo_open(5001, 131072), 10)';
	my $append = q{SELECT lo_put(5001, 10000, 'behind')};

	$c->sql(1, q{SELECT lo_create(5001); SELECT lo_put(5001, 0, repeat('a', 3000)::bytea)});

	# each waits for the one before it, whichever asks to commit first
	for ([ $truncate, $append ], [ $append, $truncate ], [ $truncate, $truncate ], [ $append, 'SELECT lo_unlink(5001)' ])
	{
		my ($first, $second) = @$_;
		my $a = $c->session(1);
		my $b = $c->session(1);

		$a->query("BEGIN; $first");
		$b->send("BEGIN; $second; COMMIT");
		ok($b->blocked(5), "waits: $second");
		$a->query('COMMIT');
		$b->finish;
		$c->same("$first, meanwhile $second");
	}
	is($c->sql(2, 'SELECT count(*) FROM pg_largeobject WHERE loid = 5001'), 0, 'nothing of it is left');

	# writers don't wait for each other, nor does who has made it take a lock
	my $many = join ',', map { "lo_put(lo_create($_), 0, 'x')" } 6001 .. 6010;
	my $s = $c->session(1);
	$s->query("BEGIN; SELECT $many");
	is($c->sql(1, q{SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND objid BETWEEN 6001 AND 6010}), 0, 'new ones are not locked');
	$s->query('COMMIT');
	$s->query(q{BEGIN; SELECT lo_put(6001, 5000, 'one')});
	$c->sql(1, q{SET statement_timeout = '30s'; SELECT lo_put(6001, 10000, 'two')});
	$s->query('COMMIT');
	$c->same('two writers');
}

done_testing;
