# What lockstepctl verify --indexes finds: an index that does not say what its table has: a
# page that is gone, a page of yesterday.  It says what it could not check, and needs
# amcheck.  Without it rows are compared, and are equal.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

sub verify { return $c->ctl('verify', @_) }

sub index_file { my ($index) = @_; return $c->pgdata(2) . '/' . $c->sql(2, "SELECT pg_relation_filepath('$index')") }

# Stop n2, change a file of it, start it.
sub change_file
{
	my ($code) = @_;
	$c->cluster('stop-node', 2);
	$code->();
	$c->cluster('start-node', 2) or die;
	$c->wait_state(2, 'online') or die;
}

$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v text, tags int[], big text);
CREATE INDEX t_v ON t (v);
CREATE INDEX t_lower ON t (lower(v)) WHERE id > 10;
CREATE INDEX t_hash ON t USING hash (v);
CREATE INDEX t_tags ON t USING gin (tags);
INSERT INTO t SELECT i, 'value ' || i, ARRAY[i], repeat(md5(i::text), 200) FROM generate_series(1, 2000) i;
CREATE TABLE other (id int PRIMARY KEY);
SQL
$c->drain;

my ($out, $err, $rc) = verify('--indexes');
is($rc, 2, 'without amcheck it is not done') or diag($out);
like($err, qr/needs the extension amcheck, which database "app" does not have on node n1: run CREATE EXTENSION amcheck/, 'and says what to do');
$c->sql(1, 'CREATE EXTENSION amcheck');
$c->drain;

# ---------- all is well

($out, $err, $rc) = verify('--indexes', '--jobs', 2);
is($rc, 0, 'indexes are in order') or diag("$out\n$err");
like($out, qr/^equal$/m, 'and all is equal');
my ($n) = $out =~ /(\d+) index checks/;
cmp_ok($n, '>', 200, "on both nodes, with the catalogs' ($n)");
like($out, qr/^database app: indexes not checked \(amcheck has no check for indexes of kind gin\):\n\s+n1, n2: 1$/m, 'what is not checked is said');
like($out, qr/of kind hash\):\n\s+n1, n2: 1$/m, 'each kind');
($out, $err, $rc) = verify('--indexes', '--table', 'other');
like($out, qr/ 2 index checks/, 'of one table only');
is($rc, 0, 'which is equal');
($out) = verify();
unlike($out, qr/index/, 'only when it is wanted');

# ---------- while it is written to, and altered

my $load = $c->pgbench_start(1, '-n', '-c', 2, '-T', 5, '--max-tries=0', '-f', $c->file('load.sql', <<'SQL'));
\set id random(1, 2000)
UPDATE t SET v = v || 'x' WHERE id = :id;
SQL
($out, $err, $rc) = verify('--indexes', '--table', 't');
is($rc, 0, 'beside writers') or diag("$out\n$err");
$load->{handle}->finish;

# ---------- damage

$c->sql(1, 'UPDATE t SET v = md5(id::text)');
$c->drain;
$c->sql(2, 'CHECKPOINT');
my $file = index_file('t_v');
my $size = -s $file;
cmp_ok($size, '>', 3 * 8192, 'an index of some pages');
change_file(sub {
	open(my $f, '+<', $file) or die "$file: $!";
	seek($f, 2 * 8192, 0);
	print $f "\0" x 8192;
	close $f;
});
($out, $err, $rc) = verify();
is($rc, 0, 'rows are equal') or diag("$out\n$err");
($out, $err, $rc) = verify('--indexes');
is($rc, 1, 'a page of zeros in an index is found') or diag("$out\n$err");
like($out, qr/^database app: index public\.t_v of public\.t is damaged \(REINDEX INDEX, on that node\):\n    n2: .*page/m, 'named, with its node') or diag($out);
unlike($out, qr/index public\.t_pkey/, 'and no other');
my ($json) = verify('--indexes', '--json');
my $result = JSON::PP::decode_json($json);
my ($d) = @{ $result->{differences} };
is("$d->{kind} $d->{object} $d->{table}", 'index public.t_v public.t', 'in JSON, too');
is_deeply([ keys %{ $d->{nodes} } ], ['n2'], 'with the node');
($out, $err, $rc) = verify('--indexes', '--repair', 'n2');
is($rc, 2, 'that is no repair of rows') or diag("$out\n$err");
like($err, qr/run REINDEX INDEX public\.t_v there/, 'but of the index');
is($c->node_status(2)->{state}, 'online', 'the node is not touched');
$c->sql(2, 'REINDEX INDEX t_v');
($out, $err, $rc) = verify('--indexes', '--table', 'public.t');
is($rc, 0, 'which mends it') or diag("$out\n$err");

# An index that is whole, but of yesterday: a write that a disk has lost.
$file = index_file('t_v');
$c->sql(2, 'CHECKPOINT');
change_file(sub { system('cp', '-p', $file, "$c->{top}/old") == 0 or die });
$c->sql(1, "UPDATE t SET v = 'new ' || id WHERE id % 100 = 0");
$c->drain;
change_file(sub { system('cp', '-p', "$c->{top}/old", $file) == 0 or die });
($out, $err, $rc) = verify('--indexes');
is($rc, 1, 'entries that are missing are found') or diag("$out\n$err");
like($out, qr/index public\.t_v of public\.t is damaged.*\n    n2: heap tuple \(\d+,\d+\) from table "t" lacks matching index tuple/, 'by the table') or diag($out);
$c->sql(2, 'REINDEX INDEX t_v');
($out, $err, $rc) = verify('--indexes');
is($rc, 0, 'mended again') or diag("$out\n$err");

done_testing;
