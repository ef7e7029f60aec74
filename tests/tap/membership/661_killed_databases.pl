# CREATE, DROP and ALTER DATABASE RENAME, with a kill at each point of each step: of the replicator, and of a node's whole server.  All nodes come
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
	replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 100ms\njournal_segment_size = 64kB\n");
my %in = (db => 'postgres');
my $made = 0;
my %short = map { $_ => 1 } 'server DATABASE_RENAMED', 'server rename DATABASE_DECIDED', 'catching up replicator DATABASE_RENAMED', 'replicator DATABASE_CREATED', 'replicator DATABASE_READY', 'replicator DATABASE_DECIDED', 'server DATABASE_MADE',
	'replicator DATABASE_DROPPED', 'server DATABASE_KEPT', 'catching up server DATABASE_CREATED', 'catching up replicator DATABASE_CAUGHT_UP';
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
		$c->drain;
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
my @points = grep { /^DATABASE_/ && $_ ne 'DATABASE_CAUGHT_UP' && $_ ne 'DATABASE_RENAMED' } LockstepPoints::points_of('replicator');
cmp_ok(scalar @points, '>', 5, 'there are points');
for my $point (@points)
{
	for my $kind (sort keys %kinds)
	{
		next unless is_tried("$kind $point");
		my ($order, $kill) = @{ $kinds{$kind} };
		for my $drop ($point =~ /^DATABASE_(DROPPED|KEPT)$/ ? 1 : $point eq 'DATABASE_DECIDED' ? (0, 1) : 0)
		{
			my $database = 'm' . ++$made;
			my $name = ($drop ? 'DROP' : 'CREATE') . ", $kind killed at $point";
			$c->sql(1, "CREATE DATABASE $database", %in) if $drop;
			$c->sql(1, 'CREATE TABLE u (id int)', db => $database) if $drop;
			my $told = run_held(($drop ? 'DROP' : 'CREATE') . " DATABASE $database", sub { $c->order_at('replicator', $point, $order) }, sub { $kill->($point) });
			recovered($name, $database, $told, $drop);
		}
	}
}

# ---------- RENAME: the rows stay, by the one name or by the other; the swap of two names is done on both nodes

for my $kind (sort keys %kinds)
{
	my ($order, $kill) = @{ $kinds{$kind} };
	for my $point ('DATABASE_DECIDED', 'DATABASE_RENAMED')
	{
		next unless is_tried("$kind $point") || is_tried("$kind rename $point");
		my ($old, $new) = ('m' . ++$made, 'm' . ++$made);
		my $name = "RENAME, $kind killed at $point";
		$c->sql(1, "CREATE DATABASE $old", %in);
		$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, by int); INSERT INTO t (by) SELECT 1 FROM generate_series(1, 40)', db => $old);
		my $told = run_held("ALTER DATABASE $old RENAME TO $new", sub { $c->order_at('replicator', $point, $order) }, sub { $kill->($point) });
		$c->wait_state($_, 'online', 40) or fail("$name: n$_ is online again: " . $c->reason($_)) for $c->all;
		$c->wait_until(sub { databases(1) eq databases(2) }, 20);
		is(databases(1), databases(2), "$name: the same databases") or next;
		my $there = databases(1);
		is($there, $told eq 'unknown' ? $there : $told eq 'done' ? $new : $old, "$name: $told");
		$c->wait_until(sub { ($c->try(2, 'INSERT INTO t (by) SELECT 2 FROM generate_series(1, 40)', db => $there))[1] !~ /ERROR/ }, 20) or fail("$name: it takes writes");
		$c->sql(1, 'INSERT INTO t (by) SELECT 1 FROM generate_series(1, 40)', db => $there);
		$c->drain;
		is($c->sql($_, 'SELECT count(*), count(DISTINCT id) FROM t', db => $there), '120|120', "$name: n$_") for $c->all;
		$c->sql(2, "DROP DATABASE $there", %in);
	}
}
for my $kind (sort keys %kinds)
{
	my ($order, $kill) = @{ $kinds{$kind} };
	my $point = 'DATABASE_RENAMED';
	for my $nth (1 .. 4)
	{
		next unless is_tried("catching up $kind $point");
		next if $nth != 2 && !$ENV{LOCKSTEP_LONG};
		my ($one, $two) = ('m' . ++$made, 'm' . ++$made);
		my $name = "swapped while it was away, $kind killed at the ${nth}th $point";
		$c->sql(1, "CREATE DATABASE $_", %in) for $one, $two;
		$c->ctl('drop', 'n2');
		$c->sql(1, "CREATE TABLE t AS SELECT '$_'::text AS was", db => $_) for $one, $two;
		$c->sql(1, "ALTER DATABASE $one RENAME TO m_swap", %in);
		$c->sql(1, "ALTER DATABASE $two RENAME TO $one", %in);
		$c->sql(1, "ALTER DATABASE m_swap RENAME TO $two", %in);
		$c->sql(1, "ALTER DATABASE $one RENAME TO m_again", %in);
		$c->order_at('replicator', $point, "$order $nth");
		$c->ctl('--timeout=1', 'attach', 'n2');
		$kill->($point);
		$c->wait_state($_, 'online', 40) or fail("$name: n$_ is online again: " . $c->reason($_)) for $c->all;
		is(databases(2), databases(1), "$name: the same databases");
		$c->sql(2, "INSERT INTO t VALUES ('both')", db => $_) for 'm_again', $two;
		$c->drain;
		is($c->sql($_, 'SELECT min(was) FROM t WHERE was <> $$both$$', db => 'm_again'), $two, "$name: n$_") for $c->all;
		is($c->sql($_, 'SELECT min(was) FROM t WHERE was <> $$both$$', db => $two), $one, "$name: the other, n$_") for $c->all;
		$c->sql(1, "DROP DATABASE $_", %in) for 'm_again', $two;
	}
}

# ---------- a segment that begins with the record of a DROP, and is all that reaches the disk: nothing was dropped

# Bytes that are left in the last segment, which is full of zeros.
sub room
{
	my ($segment) = reverse sort glob("$c->{dir}/journal/*.journal");
	open(my $f, '<:raw', $segment) or die "$segment: $!";
	my $bytes = do { local $/; <$f> };
	close $f;
	return 65536 - length($bytes =~ s/\0+\z//r);
}

{
	my $database = 'm' . ++$made;
	$c->sql(1, "CREATE DATABASE $database", %in);
	$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, v text)', db => $database);
	$c->sql(1, 'ALTER TABLE t ALTER v SET STORAGE EXTERNAL', db => $database);
	my $insert = sub { $c->sql(1, "INSERT INTO t (v) VALUES (repeat('x', $_[0]))", db => $database); $c->drain };

	# again if the replicator has written something of its own meanwhile
	for (1 .. 5)
	{
		$insert->(1000);
		$insert->(1000) while room() > 4500 || room() < 2500;
		my $room = room();
		$insert->(1000);
		my $overhead = $room - room() - 1000;
		$insert->(room() - $overhead - 60);
		last if room() < 100;
	}
	cmp_ok(room(), '<', 100, 'the segment is full');
	my $told = run_held("DROP DATABASE $database", sub { $c->order_at('replicator', 'SEGMENT_BEGUN', 'kill') }, sub { kill_replicator('SEGMENT_BEGUN') });
	$c->wait_state($_, 'online', 40) or fail("n$_ is online again: " . $c->reason($_)) for $c->all;
	is(databases($_), $database, "n$_ has the database") for $c->all;
	$c->sql(1, "INSERT INTO t (v) VALUES ('later')", db => $database);
	$c->cluster($_) for 'stop-replicator', 'start-replicator';
	$c->wait_state($_, 'online', 40) or fail("n$_ is online again: " . $c->reason($_)) for $c->all;
	is(databases($_), $database, "n$_ still has it") for $c->all;
	cmp_ok($c->sql(2, 'SELECT count(*) FROM t', db => $database), '>', 3, 'with its rows');
	$c->sql(1, "DROP DATABASE $database", %in);
}

# ---------- the replicator dies while a node still executes the command, which must not be done later

{
	my $database = 'm' . ++$made;
	my $lock = $c->session(2, %in);
	$lock->do($_) for 'SET lockstep.replicate = off', 'BEGIN', 'LOCK TABLE pg_database IN SHARE MODE';
	my $s = $c->session(1, %in);
	$s->send("CREATE DATABASE $database");
	my $running = "FROM pg_stat_activity WHERE application_name = 'lockstep control' AND query LIKE 'CREATE DATABASE%' AND state = 'active'";
	ok($c->wait_sql(2, "SELECT count(*) $running", 1), 'n2 waits in CREATE DATABASE');
	my $pid = $c->sql(2, "SELECT pid $running", %in);
	$c->cluster('kill-replicator');
	eval { $s->finish };
	is($c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", %in), 1, 'and does so without the replicator');
	$c->cluster('start-replicator');
	ok($c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", 0), 'the next one ends that before it attaches the node');
	$lock->do('ROLLBACK');
	recovered('the node went on without the replicator', $database, 'unknown', 0);
}

# ---------- while a node catches up

for my $kind (sort keys %kinds)
{
	my ($order, $kill) = @{ $kinds{$kind} };
	for my $point (qw(DATABASE_CREATED DATABASE_CHECKED DATABASE_MADE DATABASE_CAUGHT_UP DATABASE_KEPT DATABASE_DROPPED))
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
