# At each hand-over point kill -9: of the replicator at those that replicator/base/points.h lists,
# of a backend (its server starts anew), or of an apply session, at those of
# extension/base/points.h; of the replicator while it writes several transactions at once, whose
# end then is torn, and of a node in the middle of several transactions that it applies as
# one.  Whatever has been handed over by then: what the client was told is true, what it was
# not told lockstep.outcome() knows, all nodes are equal and take writes again by themselves.
#
# LOCKSTEP_LONG: the whole server is killed, too, and everybody stops at random meanwhile.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $long = $ENV{LOCKSTEP_LONG};
my $seed = $ENV{LOCKSTEP_SEED} // int(rand(1e6));
diag("LOCKSTEP_SEED=$seed") if $long;

my $c = LockstepPoints->new(nodes => 2, conf => "lockstep.commit_wait = executed\nlockstep.connect_timeout = 2s\n",
	replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\ntransaction_memory = 64kB\njournal_segment_size = 64kB\n",
	$long ? (random => "$seed 50 20") : ());
$c->sql(1, <<'SQL');
CREATE TABLE mark (id int PRIMARY KEY);
CREATE TABLE filler (id int, filler text);
DO $$ BEGIN FOR i IN 1 .. 30 LOOP EXECUTE format('CREATE SEQUENCE s%s', i); END LOOP; END $$;
SQL
$c->drain;
my $large = q{INSERT INTO filler SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i};

# ---------- transactions, and what their clients were told

my ($number, $sequence, %told) = (0, 0);

# A session with a transaction that is open and has a token.
sub begin
{
	my ($node) = @_;
	my $id = ++$number;
	$told{$id} = { result => 'F', how => '', error => 'it never came to its COMMIT' };
	my $s = $c->session($node);
	$told{$id}{token} = $s->do("BEGIN; SELECT lockstep.transaction_token(); INSERT INTO mark VALUES ($id)");
	return ($s, $id);
}

# Of what it said last: C committed, F failed, U unknown.
sub note_told
{
	my ($s, $id, $result) = @_;
	my $t = $told{$id};
	$t->{error} = $s->error;
	$t->{result} = $result // (
		$s->{lost} || $s->error =~ /server closed|connection to server|terminating connection|08007/ ? 'U' : $s->error =~ /^(?:ERROR|FATAL)/m ? 'F' : 'C');
}

sub finish
{
	my ($s, $id) = @_;
	eval { $s->finish; 1 } or do { $s->{lost} = 1; diag($@) };
	note_told($s, $id);
	$s->close;
}

# What is sent with the COMMIT is in the life of its transaction; the order is given before it.
sub commit_with
{
	my ($sql) = @_;
	return sub {
		my ($arm) = @_;
		my ($s, $id) = begin(1);
		$arm->();
		$s->send(ref $sql ? $sql->() : $sql);
		finish($s, $id);
	};
}

my $commit = commit_with('COMMIT');
my $ddl = commit_with(sub { "CREATE TABLE made_$number (id int);\nCOMMIT" });
my $large_commit = commit_with("$large;\nDELETE FROM filler;\nCOMMIT");
my $large_rollback = sub {
	my ($arm) = @_;
	my ($s, $id) = begin(1);
	$s->do($large);
	$arm->();
	$s->send('ROLLBACK');
	$s->finish;
	note_told($s, $id, $s->{lost} ? 'U' : 'F');
	$s->close;
};
my $lease = commit_with(sub { $sequence++; "SELECT nextval('s$sequence');\nCOMMIT" });
my $unreported = sub {
	my ($arm) = @_;
	my ($s, $id) = begin(1);
	$arm->();
	$sequence++;
	$s->send("SELECT nextval('s$sequence');\nROLLBACK");
	$s->finish;
	note_told($s, $id, $s->{lost} ? 'U' : 'F');
	$s->close;
	$c->wait_until(sub { $c->was_there(1, 'POSITIONS_READ') }, 10);	# within half a second
};
my $alone = commit_with(sub { $sequence++; "SELECT setval('s$sequence', 100);\nCOMMIT" });
# asked, and not wanted any more
my $withdraw = sub {
	my ($arm) = @_;
	my ($s, $id) = begin(1);
	$c->frozen([2], sub {
		$s->send('COMMIT');
		$c->wait_sql(1, 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $s->pid, 'Extension');
		$arm->();
		$c->try(1, 'SELECT pg_cancel_backend(' . $s->pid . ')');
		$s->blocked(60);		# whatever becomes of it, it ends before n2 goes on
	});
	finish($s, $id);
};
# its client ends
my $leave = sub {
	my ($arm) = @_;
	my ($s, $id) = begin(1);
	$s->do('COMMIT');
	note_told($s, $id);
	$arm->();
	$s->close;
};
# its backend is killed
my $die = sub {
	my ($arm) = @_;
	my ($s, $id) = begin(1);
	$arm->();
	kill 'KILL', $s->pid;
	$s->send('COMMIT');
	finish($s, $id);
};
my $fresh = sub {
	my ($arm) = @_;
	my $id = ++$number;
	my $s = $c->session(1);
	$arm->();
	$told{$id} = { how => '' };
	$s->send("INSERT INTO mark VALUES ($id)");
	finish($s, $id);
};
my $segments = sub {
	my ($arm) = @_;
	$arm->();
	for (1 .. 3)
	{
		my ($s, $id) = eval { begin(1) } or last;
		$s->send("INSERT INTO filler SELECT i, repeat('x', 100) FROM generate_series(1, 250) i;\nDELETE FROM filler;\nCOMMIT");
		finish($s, $id);
	}
};
sub attach
{
	my $ok = $c->wait_until(sub { return ($c->ctl('--timeout=1', 'attach', 'n2'))[2] == 0 || ($c->node_status(2)->{state} // '') =~ /catchup|online/ }, 20);
	fail('n2 can be attached') unless $ok;
}
my $return = sub {
	my ($arm) = @_;
	$c->ctl('drop', 'n2');
	for (1 .. 3)
	{
		my ($s, $id) = begin(1);
		$s->send('COMMIT');
		finish($s, $id);
	}
	$arm->();
	$c->ctl('--timeout=1', 'attach', 'n2');
};
my $restart = sub { my ($arm) = @_; $c->cluster('kill-replicator'); $arm->(); $c->cluster('start-replicator') };
my $drop = sub { my ($arm) = @_; $arm->(); $c->ctl('drop', 'n2') };

# Who comes to a point, if not a COMMIT.
my %replicator = (
	ROLLED_BACK => $withdraw, UNDONE_THERE => $withdraw, LOCK_GRANTED => $ddl, SESSION_GONE => $die,
	BEGUN_EARLY => $large_commit, BODY_SYNCED => $large_commit,
	SEGMENT_PREPARED => $segments, SEGMENT_BEGUN => $segments,
	LEASE_ASKED => $lease, LEASE_DURABLE => $lease, ALONE_ASKED => $alone, ALONE_ORDERED => $alone,
	GENERATION_TAKEN => $restart, NODE_MOVED => $return, NODE_CHECKED => $return, TURN_OPENED => $return, CATCHUP_FED => $return,
	TOGETHER_GIVEN => $return, BARRIER => $return, ONLINE => $return, DROP_DURABLE => $drop);
my %backend = (
	CAPTURED => commit_with("INSERT INTO filler VALUES (1); DELETE FROM filler;\nCOMMIT"),
	STREAMED => $large_commit, LOCK_ASKED => $ddl, LOCK_GRANTED => $ddl, WITHDRAWN => $withdraw,
	ROLLING_BACK => $large_rollback, CONFIRMING => $leave, LINKED => $fresh,
	LEASE_ASKED => $lease, LEASED => $lease, ALONE_ASKED => $alone, ALONE_ORDERED => $alone,
	POSITIONS_READ => $unreported, GENERATION_RAISED => $return, TURN_OPENING => $return, TURN_OPENED => $return, APPLY_EXECUTING => $commit);

# ---------- deaths

sub replicator_is_gone { return !defined $c->member_pid(1) }	# all of its threads

# All are back, and take writes; nobody helps them, but for starting what was killed.
sub recovered
{
	my ($name) = @_;
	for my $node ($c->all)
	{
		$c->wait_state($node, 'online', 30) or return fail("$name: n$node is online again");
	}
	for my $node ($c->all)
	{
		my $ok = $c->wait_until(sub {
			my $id = ++$number;
			my (undef, $error) = $c->try($node, "INSERT INTO mark VALUES ($id)");
			$told{$id} = { how => "after $name", error => $error, result => $error eq '' ? 'C' : 'U' };
			return $error eq '';
		}, 20);
		return fail("$name: n$node takes writes again") unless $ok;
	}
	return 1;
}

# What was told must be so.
sub check_told
{
	my ($name, @ids) = @_;
	my @wrong;
	for my $t (map { $told{$_} } @ids)
	{
		next unless $t->{token};
		$c->wait_until(sub { ($t->{outcome}) = $c->try(2, "SELECT lockstep.outcome('$t->{token}')"); return $t->{outcome} =~ /^(?:committed|aborted)$/ }, 20);
		push @wrong, "$t->{result}, $t->{outcome}: $t->{error}"
			if $t->{outcome} ne ($t->{result} eq 'C' ? 'committed' : $t->{result} eq 'F' ? 'aborted' : $t->{outcome} =~ /^(committed|aborted)$/ ? $1 : '');
	}
	is(scalar @wrong, 0, join(' ', "$name:", map { $told{$_}{result}, $told{$_}{outcome} // () } @ids)) or diag(join("\n", @wrong));
}

sub kill_at
{
	my ($who, $point, $run, $order) = @_;
	my $name = ($who eq 'replicator' ? $who : "n$who") . ": $order at $point";
	my $first = $number + 1;
	my $armed = sub { $c->order_at($who, $point, $order) };
	eval { $run->($armed); 1 } or do { fail($name); diag($@); return };
	my @ids = $first .. $number;
	if (!$c->wait_until(sub { $c->was_there($who, $point) }, 10))
	{
		$c->take_back($who, $point);
		fail("$name: it comes there");
		return;
	}
	$told{$_}{how} = $name for @ids;
	if ($who eq 'replicator')
	{
		$c->wait_until(\&replicator_is_gone, 10) or return fail("$name: it is gone");
		$c->cluster('start-replicator') or return fail("$name: it starts again");
	}
	elsif ($order eq 'kill all')
	{
		$c->cluster('kill-node', $who);		# what the postmaster left
		$c->cluster('start-node', $who, '--no-wait') or return fail("$name: it starts again");
	}
	attach() if $run == $return || $run == $drop;
	recovered($name) and check_told($name, @ids);
}

# tests/tap/membership/661_killed_databases.pl has the others
my @replicator_points = grep { !/^(?:DATABASE|REPLICAS)_/ } LockstepPoints::points_of('replicator');
my @backend_points = LockstepPoints::points_of('backend');
cmp_ok(scalar @replicator_points, '>', 30, 'there are points in the replicator');
cmp_ok(scalar @backend_points, '>', 25, 'there are points in backends');

for my $point (@replicator_points)
{
	kill_at('replicator', $point, $replicator{$point} // $commit, 'kill');
}
for my $point (@backend_points)
{
	my $node = $point =~ /^(?:APPLY|TURN_OPEN|GENERATION)/ ? 2 : 1;
	kill_at($node, $point, $backend{$point} // $commit, $_) for 'kill', $long ? 'kill all' : ();
}

# ---------- the replicator, while it writes several; the machine dies with it

# Bytes of the last segment that are used: zeros are behind.
sub last_segment
{
	my ($file) = reverse sort grep { !/ffffffffffffffff/ } glob("$c->{dir}/journal/*.journal");
	my $bytes = LockstepCluster::_slurp($file);
	$bytes =~ s/\0+\z//;
	return ($file, length $bytes);
}

for my $torn (0, 1)
{
	my $name = $torn ? 'killed while it writes several, of which the disk has half' : 'killed while it writes several';
	my @open = map { [ begin(1 + $_ % 2) ] } 1 .. 6;
	my $one = pop @open;
	$c->order_at('replicator', 'GROUP_TAKEN', 'wait');
	$one->[0]->send('COMMIT');
	$c->wait_until(sub { $c->was_there('replicator', 'GROUP_TAKEN') }, 10) or fail("$name: it writes one");
	my $decided = $c->status->{journal}{decided};
	$_->[0]->send('COMMIT') for @open;
	# the others are behind it, together
	ok($c->wait_until(sub { return $c->status->{journal}{decided} >= $decided + @open }, 20), "$name: several are to be written");
	$c->order_at('replicator', 'GROUP_WRITTEN', 'kill 2');
	my ($file, $before) = last_segment();
	$c->let_go('replicator', 'GROUP_TAKEN');
	$c->wait_until(\&replicator_is_gone, 10) or fail("$name: it is gone");
	if ($torn)
	{
		my ($same, $after) = last_segment();
		if ($same eq $file)
		{
			# the first one's record is whole: it had been told
			open(my $f, '+<:raw', $file) or die $!;
			my $from = $after - 100;	# in the last record
			seek($f, $from, 0);
			print $f "\0" x ($after - $from);
			close $f;
		}
	}
	finish(@$_) for $one, @open;
	$c->cluster('start-replicator') or fail("$name: it starts again");
	my @ids = map { $_->[1] } $one, @open;
	$told{$_}{how} = $name for @ids;
	recovered($name) and check_told($name, @ids);
	my $committed = grep { $told{$_}{outcome} eq 'committed' } @ids;
	$torn ? cmp_ok($committed, '<', @ids, "$name: what was torn off is not committed") :
		is($committed, scalar @ids, "$name: all of it is in the journal, and committed");
	cmp_ok($committed, '>', 0, "$name: what was written before is");
}

# ---------- a node, in the middle of several that it applies as one

for my $order ('kill 10', $long ? ('kill all 10') : ())
{
	$c->ctl('drop', 'n2');
	$c->sql(1, join('', map { "INSERT INTO filler VALUES ($_);\n" } 1 .. 100));
	$c->order_at(2, 'APPLY_EXECUTING', $order);
	$c->ctl('--timeout=1', 'attach', 'n2');
	my $name = "n2: $order in the middle of several that are applied as one";
	ok($c->wait_until(sub { $c->was_there(2, 'APPLY_EXECUTING') }, 20), "$name: it comes there");
	if ($order =~ /all/)
	{
		$c->cluster('kill-node', 2);
		$c->cluster('start-node', 2, '--no-wait') or fail("$name: it starts again");
	}
	recovered($name);
	$c->drain;
	is($c->sql(2, 'SELECT count(*) FROM filler'), 100, "$name: each is applied once");
	$c->sql(1, 'DELETE FROM filler');
}

# ---------- what was told against what is there

$c->same('all nodes are equal');
$c->holds_what_was_told(\%told, sub {
	my ($t) = @_;
	return undef if $t->{result} eq 'U' && !$t->{token};
	return $t->{outcome} ? $t->{outcome} eq 'committed' : $t->{result} eq 'C';
});
my %results;
$results{ $_->{result} . ' ' . ($_->{outcome} // '') }++ for values %told;
note(join(', ', map { "$results{$_} x $_" } sort keys %results));
done_testing;
