# From nothing to a cluster by "lockstepctl init" and "lockstepctl join": from three servers, one with data, to three nodes online, on
# servers made by initdb.  --dry-run changes nothing; a second run has nothing to do; what can't be is
# refused by name before anything is changed; secrets are in files that only their owner reads.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use Digest::MD5 qw(md5_hex);
use LockstepCluster;
use LockstepServers;
use Test::More;
use Time::HiRes qw(time);

my $s = LockstepServers->new(servers => 3);
my @nodes = map { "n$_=127.0.0.1:" . $s->port($_) } 1 .. 3;
my $conf = "$s->{dir}/r/replicator.conf";
my $join = "$s->{dir}/r/join";
my @init = ('init', @nodes, "--replicator=127.0.0.1:$s->{base}", "--config=$conf", "--server=port=" . $s->port(1));

sub refuses
{
	my ($pattern, $name, @command) = @_;
	my ($rc, $out) = $s->ctl(@command);
	is($rc, 1, "refused: $name") or diag($out);
	like($out, $pattern, "by name: $name");
}

# The files that the commands write, by name and content.
sub everything
{
	return md5_hex(join "\n", map { "$_ " . LockstepCluster::_slurp($_) } grep { -f } glob("$s->{dir}/n*/*.conf $s->{dir}/n*/*secret* $s->{dir}/r/*.conf $s->{dir}/r/{secret,pgpass,join}"));
}

$s->sql(1, 'postgres', 'CREATE DATABASE shop');
$s->sql(1, 'shop', 'CREATE TABLE orders (id serial PRIMARY KEY, item text); INSERT INTO orders (item) SELECT i::text FROM generate_series(1, 1000) i');

# ---------- what can't be

my ($rc, $out) = $s->ctl('init', '--help');
is($rc, 0, 'init --help');
like($out, qr/--restart.*--dry-run/s, 'has its own help');
refuses(qr/given as NAME=HOST/, 'no address', 'init', 'n1', @init[2 .. $#init]);
refuses(qr/invalid node name "N-1"/, 'a name', 'init', 'N-1=127.0.0.1', @init[2 .. $#init]);
refuses(qr/node "n1" is given twice/, 'a name twice', 'init', $nodes[0], 'n1=127.0.0.2', @init[4 .. $#init]);
refuses(qr/nodes "n1" and "n2" have the same address/, 'an address twice', 'init', $nodes[0], $nodes[0] =~ s/n1/n2/r, @init[4 .. $#init]);
refuses(qr/could not resolve "no.such.host.invalid"/, 'a host that is not there', 'init', $nodes[0], 'n2=no.such.host.invalid', @init[4 .. $#init]);
refuses(qr/node "n1" has port 1, and the server of this machine has port/, 'another port', 'init', 'n1=127.0.0.1:1', @init[4 .. $#init]);
refuses(qr/could not connect to the server of this machine.*\n.*--server/, 'no server', 'init', @nodes, "--config=$conf", '--server=port=1');
refuses(qr/could not open join file ".*".*\n.*init makes it/, 'no join file', 'join', 'n2', "--join-file=$s->{dir}/none");

# ---------- the first node

my $before = everything();
($rc, $out) = $s->ctl(@init, '--dry-run');
is($rc, 0, 'init --dry-run') or diag($out);
like($out, qr/max_connections 100 -> 115, of which 18 are reserved/, 'computes the connections');
like($out, qr/create   role lockstep.*database add shop/s, 'says what would be done');
is(everything(), $before, 'and does nothing of it');
is($s->sql(1, 'postgres', "SELECT count(*) FROM pg_roles WHERE rolname = 'lockstep'"), 0, 'the role neither');

my $start = time;
($rc, $out) = $s->ctl(@init);
is($rc, 0, 'init without --restart') or diag($out);
like($out, qr/has to be restarted.*pg_ctl -D \S+n1 .*lockstep-replicator --config.*Not finished/s, 'says what the operator has to do');
is($s->sql(1, 'shop', 'SELECT count(*) FROM orders'), 1000, 'the server runs on as it did');
($rc, $out) = $s->ctl(@init, '--restart');
is($rc, 0, 'and goes on with --restart') or diag($out);
unlike($out, qr/^(?:create|change)/m, 'with what is left');
like($out, qr/Node n1 is online, 1 database is replicated: shop.*join n2 --join-file=.*join n3 --join-file=/s, 'n1 is online, and the next commands are shown');
($rc, $out) = $s->ctl(@init);
like($out, qr/Nothing to do/, 'a further run has nothing to do');
is($rc, 0, 'and succeeds');

$before = everything();
refuses(qr/node "n2" is at 127\.0\.0\.1:\d+, says ".*replicator\.conf", and not at 127\.0\.0\.9:5432\n.*Correct the line/, 'another address than that of replicator.conf',
	'init', $nodes[0], 'n2=127.0.0.9', @init[3 .. $#init]);
refuses(qr/node "n3" is at .* and not at 127\.0\.0\.1:1$/m, 'another port', @init[0 .. 2], 'n3=127.0.0.1:1', @init[4 .. $#init]);
is(everything(), $before, 'and nothing is changed');

is(sprintf('%o', (stat "$s->{dir}/r/$_")[2] & 07777), '600', "only the owner reads $_") for qw(secret pgpass join replicator.conf);
is(sprintf('%o', (stat "$s->{dir}/n1/lockstep.secret")[2] & 07777), '600', 'and the node\'s copy of the secret');
my ($password) = LockstepCluster::_slurp("$s->{dir}/r/pgpass") =~ /:lockstep:(\w{48})$/m;
my ($secret) = LockstepCluster::_slurp("$s->{dir}/r/secret") =~ /^([0-9a-f]{64})$/m;
ok($password && $secret, 'a password and a secret of 24 and 32 random bytes');
unlike(LockstepCluster::_slurp($_) . $out, qr/$password|$secret/, "they are not in $_") for $conf, "$s->{dir}/n1.log", "$s->{dir}/r/replicator.log";
like($s->sql(1, 'postgres', "SELECT rolpassword FROM pg_authid WHERE rolname = 'lockstep'"), qr/^SCRAM-SHA-256/, 'the server never got the password itself');
ok(!-s "$s->{dir}/n1/postgresql.auto.conf" || LockstepCluster::_slurp("$s->{dir}/n1/postgresql.auto.conf") !~ /^[a-z]/m, 'postgresql.auto.conf has no setting');

# ---------- what an interrupted run has left: modes of secrets, a pg_hba.conf that is not read yet

chmod 0644, "$s->{dir}/r/$_" for qw(secret pgpass join);
chmod 0640, "$s->{dir}/n1/lockstep.secret";
my $loaded = $s->sql(1, 'postgres', 'SELECT pg_conf_load_time()');
utime undef, undef, "$s->{dir}/n1/pg_hba.conf";
($rc, $out) = $s->ctl(@init);
is($rc, 0, 'init again') or diag($out);
is(() = $out =~ /^protect /mg, 4, 'it protects the secrets that others could read') or diag($out);
is(sprintf('%o', (stat $_)[2] & 07777), '600', "$_") for map { "$s->{dir}/$_" } qw(r/secret r/pgpass r/join n1/lockstep.secret);
ok($s->await(sub { $s->sql(1, 'postgres', "SELECT pg_conf_load_time() > '$loaded'") eq 't' }), 'pg_hba.conf is read again');

# ---------- the others: what can't be

my @join = ('join', 'n2', "--join-file=$join", '--server=port=' . $s->port(2));
$before = everything();
chmod 0644, $join;
refuses(qr/others can read it \(mode 0644\)/, 'a join file that others read', @join);
chmod 0600, $join;
refuses(qr/there is no node "n9" in the join file/, 'a name that is not in the join file', 'join', 'n9', @join[2 .. 3]);
refuses(qr/has port \d+, and the cluster expects node "n3" at/, 'the server of another node', 'join', 'n3', @join[2 .. 3]);
refuses(qr/already node "n1"/, 'the first node as another one', 'join', 'n2', "--join-file=" . $s->join_file_with($join, 2, $s->port(1)), '--server=port=' . $s->port(1));
$s->sql(2, 'postgres', 'CREATE DATABASE precious');
refuses(qr/has data of its own: database "precious"/, 'a server with a database', @join);
$s->sql(2, 'postgres', 'DROP DATABASE precious');
$s->sql(2, 'postgres', 'CREATE TABLE precious (v int)');
refuses(qr/has data of its own: public\.precious/, 'a server with a table', @join);
$s->sql(2, 'postgres', 'DROP TABLE precious');
$s->run_or_die('mkdir', "$s->{dir}/space");
$s->sql(1, 'postgres', "CREATE TABLESPACE space LOCATION '$s->{dir}/space'");
refuses(qr{tablespace "space" of node "n1" is in "$s->{dir}/space", which is no empty directory here}, 'the donor\'s tablespace, on the same machine', @join);
$s->sql(1, 'postgres', 'DROP TABLESPACE space');
is(everything(), $before, 'nothing was changed');

# ---------- the others

# What n2 has in directories of its own is kept; what the donor has in such is not.
$s->run_or_die('mkdir', "$s->{dir}/n2/certs", "$s->{dir}/n2/site.d", "$s->{dir}/n1/donor.d");
LockstepServers::_write("$s->{dir}/n2/certs/server.key", "key\n", 0600);
LockstepServers::_write("$s->{dir}/n2/site.d/site.conf", "work_mem = 9MB\n", 0644);
LockstepServers::_write("$s->{dir}/n1/donor.d/donor.conf", "\n", 0644);
$s->own("$s->{dir}/n2/certs/server.key", "$s->{dir}/n2/site.d/site.conf", "$s->{dir}/n1/donor.d/donor.conf");
LockstepServers::_write("$s->{dir}/n2/postgresql.conf", LockstepCluster::_slurp("$s->{dir}/n2/postgresql.conf") . "include_dir 'site.d'\n", 0600);
$before = everything();

($rc, $out) = $s->ctl(@join, '--dry-run');
is($rc, 0, 'join --dry-run') or diag($out);
like($out, qr/clone    node n1 .*stop .*replace .*start /s, 'says what would be done');
is(everything(), $before, 'and does nothing of it');
# One that is killed while it clones leaves the server as it was.
{
	my $h = $s->start_ctl(@join);
	ok($s->await(sub { () = glob("$s->{dir}/n2.joining-*/base") }), 'a join clones');
	$h->signal('STOP');		# else it may be done with it before the second one has looked
	refuses(qr/another lockstepctl sets up the server in/, 'two joins at once', @join);
	ok(() = glob("$s->{dir}/n2.joining-*/base"), 'and the second leaves the clone of the first');
	$h->signal('KILL');
	$h->finish;
	is($s->sql(2, 'postgres', 'SELECT count(*) FROM pg_database'), 3, 'killed, it leaves the server as it was');
}
for my $i (2, 3)
{
	($rc, $out) = $s->ctl('join', "n$i", "--join-file=$join", '--server=port=' . $s->port($i));
	is($rc, 0, "join n$i") or diag($out);
	like($out, qr/Node n$i is online, with 1 database/, 'it is online');
	like($out, qr/remove .*interrupted join/, 'what the killed one has left is removed') if $i == 2;
}
is($s->sql(2, 'postgres', 'SHOW work_mem'), '9MB', 'n2 has kept a directory of its configuration');
is(sprintf('%o', (stat "$s->{dir}/n2/certs/server.key")[2] & 07777), '600', 'and of its keys');
ok(!-e "$s->{dir}/n2/donor.d", 'and has none of the donor');
is_deeply([ glob("$s->{dir}/n*.joining-*") ], [], 'no clone is left over');
note(sprintf('%.1f s from three servers to online', time - $start));
$s->sql(3, 'shop', "INSERT INTO orders (item) VALUES ('from n3')");
ok($s->await(sub { $s->sql($_[0], 'shop', "SELECT count(*) FROM orders") eq '1001' }, $_), "n$_ has all rows") for 1 .. 3;
($rc, $out) = $s->ctl(@join);
is($rc, 0, 'join again');
like($out, qr/Nothing to do: this server is a node/, 'has nothing to do');
($rc, $out) = $s->ctl(@init);
like($out, qr/Nothing to do/, 'nor has init');
unlike($out, qr/lockstepctl join/, 'and shows no next command');
($rc, $out) = $s->ctl("--config=$conf", 'doctor');
is($rc, 0, 'doctor finds no problem') or diag($out);
($rc, $out) = $s->ctl("--config=$conf", 'verify');
is($rc, 0, 'all nodes are equal') or diag($out);

# ---------- one more database, and what an ALTER SYSTEM overrides

($rc, $out) = $s->ctl(@init, '--database=shop', '--database=books');
is($rc, 0, 'init with one more database') or diag($out);
like($out, qr/uses 28 connections.*max_connections 115 -> 128, of which 31.*has to be restarted/s, 'wants more connections');
$s->sql(1, 'postgres', 'ALTER SYSTEM SET max_connections = 50');
refuses(qr/postgresql\.auto\.conf" sets max_connections to '50', and overrides.*\n.*ALTER SYSTEM RESET max_connections/, 'a setting that ALTER SYSTEM overrides', @init, '--database=shop', '--database=books');

$s->down;
done_testing;
