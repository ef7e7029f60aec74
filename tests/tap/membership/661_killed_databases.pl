# CREATE and DROP DATABASE, with a kill at each point of each step: of the replicator, and of a node's whole server.  All nodes come
# back by themselves and have the same databases; what the client was told is so; nothing half-made is left.
#
# LOCKSTEP_LONG: of both at all points.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2, conf => "lockstep.connect_timeout = 2s\n",
	replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 100ms\n");
my %in = (db => 'postgres');
my $made = 0;
my %short = map { $_ => 1 } 'replicator DATABASE_CREATED', 'replicator DATABASE_READY', 'replicator DATABASE_DECIDED', 'server DATABASE_MADE',
	'replicator DATABASE_DROPPED', 'catching up server DATABASE_CREATED', 'catching up replicator DATABASE_CAUGHT_UP';
sub is_tried { return $ENV{LOCKSTEP_LONG} || $short{ $_[0] } }

sub databases
{
	my ($node) = @_;
	return $c->sql($node, "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datname LIKE 'm%'", %in) // '';
}

# The command of a client, and what it was told: done, failed (nothing has changed) or unknown.
sub run_held
{
	my ($sql, $arm, $meanwhile) = @_;
	my $s = $c->session(1, %in);
	$arm->();
	$s->send($sql);
	$meanwhile->();
	eval { $s->finish; 1 } or return 'unknown';
	return $s->error =~ /^(?:ERROR|FATAL)/m ? $s->error =~ /08007|server closed|connection to server|terminating/ ? 'unknown' : 'failed' : 'done';
}

sub recovered
{
	my ($name, $database, $told, $drop) = @_;
	$c->wait_state($_, 'online', 40) or return fail("$name: n$_ is online again: " . $c->reason($_)) for $c->all;
	# what was undecided is taken back, when all nodes are online again
	$c->wait_until(sub { databases(1) eq databases(2) }, 20);
	is(databases(1), databases(2), "$name: the same databases") or return;
	my $there = databases(1) =~ /\b$database\b/ ? 1 : 0;
	is($there, $told eq 'unknown' ? $there : ($told eq 'done') == !$drop ? 1 : 0, "$name: $told");
	if ($there)
	{
		$c->wait_until(sub { ($c->try(2, 'CREATE TABLE IF NOT EXISTS t (id int)', db => $database))[1] !~ /ERROR/ }, 20) or fail("$name: it takes writes");
		$c->sql($_, "INSERT INTO t VALUES ($_)", db => $database) for $c->all;
		$c->drain;
		is($c->sql($_, 'SELECT count(*) FROM t', db => $database), 2, "$name: n$_ takes writes") for $c->all;
		$c->sql(2, "DROP DATABASE $database", %in);
	}
	is(databases($_), '', "$name: nothing is left on n$_") for $c->all;
}

sub kill_replicator
{
	my ($point) = @_;
	$c->wait_until(sub { $c->was_there('replicator', $point) }, 20) or fail("$point: it comes there");
	$c->wait_until(sub { $c->is_gone($c->replicator_pid) }, 10) or fail("$point: it is gone");
	$c->cluster('start-replicator');
}

sub kill_node
{
	my ($point) = @_;
	$c->wait_until(sub { $c->was_there('replicator', $point) }, 20) or fail("$point: it comes there");
	$c->cluster('kill-node', 2);
	$c->let_go('replicator', $point);
	$c->cluster('start-node', 2, '--no-wait');
}

my %kinds = (replicator => [ 'kill', \&kill_replicator ], server => [ 'wait', \&kill_node ]);
my @points = grep { /^DATABASE_/ && $_ ne 'DATABASE_CAUGHT_UP' } LockstepPoints::points_of('replicator');
cmp_ok(scalar @points, '>', 5, 'there are points');
for my $point (@points)
{
	for my $kind (sort keys %kinds)
	{
		next unless is_tried("$kind $point");
		my ($order, $kill) = @{ $kinds{$kind} };
		for my $drop ($point eq 'DATABASE_DROPPED' ? 1 : $point eq 'DATABASE_DECIDED' ? (0, 1) : 0)
		{
			my $database = 'm' . ++$made;
			my $name = ($drop ? 'DROP' : 'CREATE') . ", $kind killed at $point";
			$c->sql(1, "CREATE DATABASE $database", %in) if $drop;
			my $told = run_held(($drop ? 'DROP' : 'CREATE') . " DATABASE $database", sub { $c->order_at('replicator', $point, $order) }, sub { $kill->($point) });
			recovered($name, $database, $told, $drop);
		}
	}
}

# ---------- while a node catches up

for my $kind (sort keys %kinds)
{
	my ($order, $kill) = @{ $kinds{$kind} };
	for my $point (qw(DATABASE_CREATED DATABASE_CHECKED DATABASE_MADE DATABASE_CAUGHT_UP DATABASE_DROPPED))
	{
		next unless is_tried("catching up $kind $point");
		my $old = 'm' . ++$made;
		my $new = 'm' . ++$made;
		$c->sql(1, "CREATE DATABASE $old", %in);
		$c->ctl('drop', 'n2');
		$c->sql(1, 'CREATE TABLE t (id int); INSERT INTO t VALUES (7)', db => $old);
		$c->sql(1, "DROP DATABASE $old", %in);
		$c->sql(1, "CREATE DATABASE $new", %in);
		$c->sql(1, 'CREATE TABLE u (id int); INSERT INTO u VALUES (7)', db => $new);
		$c->order_at('replicator', $point, $order);
		$c->ctl('--timeout=1', 'attach', 'n2');
		$kill->($point);
		my $name = "catching up, $kind killed at $point";
		$c->wait_state($_, 'online', 40) or fail("$name: n$_ is online again: " . $c->reason($_)) for $c->all;
		is(databases($_), $new, "$name: n$_") for $c->all;
		$c->drain;
		is($c->sql(2, 'SELECT id FROM u', db => $new), 7, "$name: its rows");
		$c->sql(1, "DROP DATABASE $new", %in);
	}
}

done_testing;
