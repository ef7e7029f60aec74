# A node without connections for a new database: CREATE DATABASE and lockstepctl database add fail, also when the last
# connections are taken while they run, and no node goes out; nothing is left of it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use POSIX ();
use Test::More;

my $c = LockstepPoints->new(nodes => 2, conf => "max_connections = 50\n");
my %in = (db => 'postgres');
my @taken;

# All connections of n1 that are left, also those of sessions that are ending.
sub fill
{
	for (my $refused = 0; $refused < 5; $refused++)
	{
		next if ($c->try(1, 'SELECT 1', %in))[1] =~ /too many clients/;
		push @taken, $c->session(1, %in);
		eval { $taken[-1]->pid };
		$refused = 0;
	}
}

sub give_back
{
	$_->kill for @taken;
	@taken = ();
	ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql'", %in) <= 1 }), 'they are given back');
}

sub nothing_happened
{
	my ($what, @left) = @_;
	is_deeply([ map { "$_->{name} $_->{state}" } @{ $c->status->{nodes} } ], [ 'n1 online', 'n2 online' ], "$what: the nodes stay online");
	give_back();
	is($c->sql($_, "SELECT count(*) FROM pg_database WHERE datname = 'other'", %in), $left[$_] // 0, "$what: what is left on n$_") for $c->all;
	$c->sql(1, 'INSERT INTO t DEFAULT VALUES');
	$c->same($what);
}

sub add
{
	return ($c->ctl('database', 'add', 'other'))[1];
}

$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY)');

# ---------- they are taken before

push @taken, map { my $s = $c->session(1, %in); $s->pid; $s } 1 .. 25;
$c->fails(2, 'CREATE DATABASE other', '53300', qr/on node "n1".*needs 15 connections for a database, of max_connections \d+ are left/s, 'CREATE DATABASE', %in);
like(add(), qr/node "n1": the replicator needs 15 connections for a database, of max_connections \d+ are left/, 'database add');
nothing_happened('taken before');

# ---------- they are taken while it runs

# At DATABASE_CREATED none has looked into it yet: what is left is one connection, of the one that has made it.
for my $point ('DATABASE_CREATED', 'DATABASE_MADE')
{
	$c->order_at('replicator', $point, 'wait');
	my $s = $c->session(2, %in);
	$s->send('CREATE DATABASE other');
	ok($c->wait_until(sub { $c->was_there('replicator', $point) }), "CREATE DATABASE: a node is at $point");
	fill();
	$c->let_go('replicator', $point);
	$s->finish;
	like($s->error, qr/could not create database "other" on node "n1".*too many clients already.*Nothing is left/s, 'it fails');
	nothing_happened("CREATE DATABASE, $point");
}

$c->sql_local($_, 'CREATE DATABASE other', %in) for $c->all;
my $writer = $c->session(1, db => 'other');
$writer->do('BEGIN; CREATE TABLE u (id int)');
my $pid = fork // die;
if ($pid == 0)
{
	open(my $out, '>', "$c->{dir}/added") or POSIX::_exit(1);
	print $out add();
	close $out;
	POSIX::_exit(0);
}
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_extension WHERE extname = 'lockstep'", db => 'other') == 1 }), 'database add looks at it');
fill();
$writer->do('ROLLBACK');
waitpid $pid, 0;
like(LockstepCluster::_slurp("$c->{dir}/added"), qr/node "n1": could not open an apply connection: .*too many clients already/, 'it fails');
$writer->close;
nothing_happened('database add', undef, 1, 1);

# ---------- and then it works

is(add(), '', 'it can be added then');
$c->sql(1, 'CREATE TABLE u (id int)', db => 'other');
$c->same('it is replicated', db => 'other');
$c->sql(2, 'DROP DATABASE other', %in);
$c->sql(1, 'CREATE DATABASE other', %in);
$c->sql(2, 'CREATE TABLE u (id int)', db => 'other');
$c->same('it is made', db => 'other');

done_testing;
