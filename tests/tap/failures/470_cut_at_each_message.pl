# A connection that is cut at a message - before it, within it, right behind it - leaves
# nothing in between: a transaction of which the client was told that it is committed is on
# all nodes, one that failed on none, and of one whose outcome is unknown lockstep.outcome()
# says which of both; and the cluster takes writes again by itself.  Of each type of message
# between a backend and the replicator, as replicator/protocol/protocol.h lists them, and of each
# message of an apply connection between the replicator and a peer.
#
# LOCKSTEP_LONG: with each commit_wait, and with a large transaction, on apply connections.
# LOCKSTEP_CUTS, a pattern, takes only some of the types: 'P|V', or none: '-'.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../../soak";
use Cables;
use LockstepCluster;
use Test::More;

my $long = $ENV{LOCKSTEP_LONG};
my $only = $ENV{LOCKSTEP_CUTS};
my @positions = ('before', 'within', 'after');

# Without failover_wait each loss of a link that matters is seen; LOCKSTEP_LONG: with it, outcomes become known.
my $failover_wait = $ENV{LOCKSTEP_LONG} ? '5s' : 0;
my $c = LockstepCluster->new(nodes => 2, replicator_conf => "node_timeout = 3s\nstall_timeout = 3s\n",
	conf => "lockstep.commit_wait = executed\nlockstep.connect_timeout = 2s\nlockstep.failover_wait = $failover_wait\n");
$c->sql(1, <<'SQL');
CREATE TABLE mark (id int PRIMARY KEY, how text, filler text);
CREATE TABLE filler (id int, filler text);
CREATE TABLE hot (id int PRIMARY KEY, v int);
INSERT INTO hot VALUES (1, 0);
DO $$ BEGIN FOR i IN 1 .. 40 LOOP EXECUTE format('CREATE SEQUENCE s%s', i); END LOOP; END $$;
SQL
$c->drain;

# the token of a transaction that was rolled back, to ask for
my $asked = $c->session(2);
my $gone = $asked->do('BEGIN; DELETE FROM hot; SELECT lockstep.transaction_token()');
$asked->do('ROLLBACK');
my $cables = Cables->new($c, 3);
$cables->put_between(1, 2);
$c->cluster('restart-replicator') or die('the replicator does not start');
$c->wait_state($_, 'online') or die("n$_ is not online") for $c->all;

# ---------- a transaction, and what its client was told

my ($number, %told) = (0);

# By the text of its error: C committed, F failed, U unknown (with a token), or N: committed, but not here.
sub note_told
{
	my ($id, $how, $error) = @_;
	my ($state) = $error =~ /^(?:psql:.*?: )?(?:ERROR|FATAL):\s+(\w{5}):/m;
	my %t = (how => $how, error => $error);
	if ($error !~ /^(?:ERROR|FATAL)/m)
	{
		$t{result} = 'C';
	}
	elsif ($state ne '08007')
	{
		$t{result} = 'F';
		$t{state} = $state;
	}
	elsif ($error =~ /committed by the cluster/)
	{
		$t{result} = 'N';
	}
	else
	{
		$t{result} = 'U';
		($t{token}) = $error =~ /Transaction: (\S+?)\. /;
	}
	$told{$id} = \%t;
	return \%t;
}

# The client's own words, with what they come to.
sub transact
{
	my ($s, $id, $body, %o) = @_;
	my $begin = 'BEGIN' . ($o{level} ? " ISOLATION LEVEL $o{level}" : '');
	$s->query("$begin;\n$body;\nINSERT INTO mark VALUES ($id);\nCOMMIT");
	return $s->error;
}

# COMMIT while n2 does not go on, and what is done meanwhile.
sub commit_held_up
{
	my ($s, $id, $meanwhile) = @_;
	$s->query("BEGIN; INSERT INTO mark VALUES ($id)");
	$c->frozen([2], sub {
		$s->send('COMMIT');
		# it has asked, or was cut as it did
		$c->wait_until(sub { !$s->blocked(0.02) || $c->sql(1, 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $s->pid) eq 'Extension' });
		$meanwhile->();
	});
	$s->finish;
	return $s->error;
}

my $sequence = 0;

# Per type: who sends it, and a transaction in whose life it comes.
my %plain = (run => sub { transact(@_, '') });
my %handshake = (%plain, fresh => 1);
my %ddl = (run => sub { my ($s, $id) = @_; transact($s, $id, "CREATE TABLE made_$id (id int)") });
my %causal = (run => sub { transact(@_, 'SET LOCAL lockstep.causal_reads = on; SELECT count(*) FROM hot') });
my $large = "INSERT INTO filler SELECT i, repeat('x', 100) FROM generate_series(1, 2000) i";
my %lease = (run => sub { $sequence++; transact(@_, "SELECT nextval('s$sequence')") });
my %alone = (run => sub { $sequence++; transact(@_, "SELECT setval('s$sequence', 100)") });
# done or not, the session goes on; tests/tap/membership/661 looks at the databases
my %database = (run => sub { my ($s, $id) = @_; $s->query("CREATE DATABASE made_$id"); transact($s, $id, '') });
my %facts = (run => sub { transact(@_, 'SELECT count(*) FROM lockstep.conflicts') });
my %fate = (run => sub {
	my ($s, $id) = @_;
	my $error = transact($s, $id, '');
	$s->query("SELECT lockstep.outcome('$gone')");
	like($s->error, qr/^$|57P03|08\w\w\w/, 'who asks for an outcome is told that it could not be found out') if $s->error ne '';
	return $error;
});
my %withdrawn = (run => sub {
	my ($s, $id) = @_;
	return commit_held_up($s, $id, sub { $c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')'); $s->blocked(20) });
});

my @cuts = (
	[ 'H', 'c', %handshake ], [ 'C', 's', %handshake ], [ 'A', 'c', %handshake ], [ 'W', 's', %handshake ],
	[ 'L', 'c', %ddl ], [ 'l', 's', %ddl ],
	[ 'B', 'c', run => sub { my ($s, $id) = @_; transact($s, $id, "SAVEPOINT s; CREATE TABLE gone_$id (id int); ROLLBACK TO s") } ],
	[ 'Q', 'c', %plain ],
	[ 'Q', 'c', run => sub { transact(@_, "$large; DELETE FROM filler") }, name => 'streamed' ],
	[ 'R', 'c', run => sub { transact(@_, "SAVEPOINT s; $large; ROLLBACK TO s") } ],
	[ 'P', 'c', %plain ], [ 'V', 's', %plain ],
	[ 'P', 'c', run => sub { transact(@_, 'SET LOCAL lockstep.commit_wait = ordered') }, name => 'ordered' ],
	[ 'V', 's', run => sub { transact(@_, 'SET LOCAL lockstep.commit_wait = ordered') }, name => 'ordered' ],
	[ 'Y', 's', run => sub { transact(@_, 'SET LOCAL lockstep.commit_wait = applied') } ],
	[ 'D', 'c', %withdrawn ], [ 'V', 's', %withdrawn, name => 'withdrawn' ],
	# a session says at its end what it has committed
	[ 'F', 'c', run => sub { my ($s, $id) = @_; my $error = transact($s, $id, ''); $s->close; return $error } ],
	[ 'Z', 'c', run => sub { my ($s) = @_; $s->query("BEGIN; INSERT INTO mark VALUES ($_[1]); $large; ROLLBACK"); return 'ERROR:  00000: rolled back by its client' } ],
	[ 'N', 'c', %causal ], [ 'n', 's', %causal ],
	[ 'K', 's', run => sub { my ($s, $id) = @_; commit_held_up($s, $id, sub { $s->blocked(20) }) } ],	# until it is cut, at one that comes each second
	[ 'O', 'c', %fate ], [ 'o', 's', %fate ],
	[ 'S', 'c', %lease ], [ 's', 's', %lease ],
	[ 'U', 'c', %alone ], [ 'u', 's', %alone ],
	[ 'T', 'c', %database ], [ 't', 's', %database ],
	[ 'I', 'c', %facts ], [ 'i', 's', %facts ],
	[ 'J', 'c', run => sub {
		my ($s, $id) = @_;
		$s->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT v FROM hot');
		$c->sql(2, 'SET lockstep.commit_wait = applied; UPDATE hot SET v = v + 1');
		$s->query("INSERT INTO mark VALUES ($id); UPDATE hot SET v = v + 1; COMMIT");
		return $s->error;
	} ],
	[ 'E', 's', run => sub {
		my ($s, $id) = @_;
		my $error = commit_held_up($s, $id, sub { $c->ctl('drop', 'n1'); $s->blocked(20) });
		$c->ctl('attach', 'n1');
		return $error;
	} ],
);

# ---------- none is forgotten

sub protocol_types
{
	open(my $f, '<', "$FindBin::Bin/../../../replicator/protocol/protocol.h") or die $!;
	my ($enum) = join('', <$f>) =~ /typedef enum LsMsgType\s*\{(.*?)\}/s;
	return $enum =~ /LS_MSG_\w+ = '(.)'/g;
}
my %cut_at = map { $_->[0] => 1 } @cuts;
my @types = protocol_types();
cmp_ok(scalar @types, '>', 25, 'the protocol has types of messages');
is(join('', grep { !$cut_at{$_} } @types), '', 'connections are cut at each of them: add a transaction in whose life a new one comes');

# ---------- cuts

my %writers;

# Do all nodes take writes again?  Nobody helps them.
sub writes_again
{
	my ($name) = @_;
	for my $node ($c->all)
	{
		my $ok = $c->wait_until(sub {
			my $id = ++$number;
			$writers{$node} //= $c->session($node);
			$writers{$node}->query("INSERT INTO mark VALUES ($id)");
			return note_told($id, "after $name", $writers{$node}->error)->{result} eq 'C';
		}, 30);
		ok($ok, "$name: n$node takes writes again") unless $ok;
		return 0 unless $ok;
	}
	return 1;
}

sub check_told
{
	my ($name, $t) = @_;
	if ($t->{result} eq 'F' && $t->{state} !~ /^(?:57P03|08\w\w\w|40001|57014|00000)$/)
	{
		fail("$name: a clean error");
		diag($t->{error});
		return 0;
	}
	return 1 unless $t->{result} eq 'U';
	# until it is known: the transaction may be under way
	my $ok = $c->wait_until(sub { ($t->{outcome}) = $c->try(2, "SELECT lockstep.outcome('$t->{token}')"); return $t->{outcome} =~ /^(?:committed|aborted)$/ }, 20);
	return 1 if $ok;
	fail("$name: the outcome of an unknown one can be had");
	diag("$t->{token}: $t->{outcome}");
	return 0;
}

# One cut, which must come about, and its consequences.
sub cut
{
	my ($kind, $node, $order, $name, $run, $s) = @_;
	my $id = ++$number;
	$cables->order($kind, $node, $order);
	my $t = note_told($id, $name, $run->($s, $id));
	my $type = $cables->was_cut($kind, $node, 5);
	$s->query('ROLLBACK') unless $s->{closed};
	if (!defined $type)
	{
		$cables->forget($kind, $node);
		fail("$name: it was cut there");
		diag("$t->{result}: $t->{error}");
		return;
	}
	return unless check_told($name, $t) && writes_again($name);
	pass("$name: $t->{result}" . ($t->{outcome} ? ", $t->{outcome}" : $t->{state} ? " $t->{state}" : ''));
}

my $session = $c->session(1);
for (@cuts)
{
	my ($type, $side, %o) = @$_;
	next if $only && $type !~ /^(?:$only)$/;
	for my $where (@positions)
	{
		my $name = 'cut ' . join(' ', $where, $type, $o{name} // ());
		my $s = $o{fresh} || $type eq 'F' ? $c->session(1) : $session;
		$s->query('INSERT INTO hot VALUES (0, 0) ON CONFLICT (id) DO UPDATE SET v = excluded.v') unless $o{fresh};	# it is connected
		cut('up', 1, "cut $side $type $where", $name, $o{run}, $s);
		$s->close if $s != $session;
	}
}

# ---------- the replicator and a peer

my $fresh = 0;

# Of each message on apply connections that there is in a transaction's life.
sub cut_apply
{
	my ($what, $body) = @_;
	my %all = map { $_ => 1 } 'c P', 's 1', $cables->told_by('down', 2, 'lockstep apply', sub {
		for (1, 2)
		{
			my $id = ++$number;
			note_told($id, $what, transact($session, $id, $body));
			$c->drain;
		}
	});
	# statements are bound, executed, flushed (but for one call that commits), the transaction is ended, in both directions
	my @said = sort keys %all;
	is(join(', ', grep { !$all{$_} } 'c B', 'c E', ($what eq 'ordered' ? () : 'c H'), 'c S', 's 2', 's C', 's Z'), '', "$what: each step is told on an apply connection (@said)");
	for my $said (@said)
	{
		my ($side, $type) = split / /, $said;
		for (my $nth = 1; ; $nth++)
		{
			my $was_cut;
			for my $where (@positions)
			{
				my $id = ++$number;
				$c->wait_state(2, 'online');
				$cables->order('down', 2, "cut $side $type $where $nth lockstep apply");
				my $all = $body;
				if ($type =~ /[P1]/)
				{
					last if $nth > 1;
					# a command, which is never prepared before
					$fresh++;
					$all .= "; COMMENT ON TABLE filler IS '$fresh'";
				}
				my $t = note_told($id, "apply $side $type $nth", transact($session, $id, $all));
				$session->query('ROLLBACK');
				$c->drain;
				$was_cut = defined $cables->was_cut('down', 2, 0) or last;
				my $name = "$what: cut $where $type, " . ($side eq 'c' ? 'of the replicator' : 'of the peer') . ($nth > 1 ? ", $nth" : '');
				next unless check_told($name, $t);
				is($t->{result}, 'C', "$name: the client does not notice") or diag($t->{error});
			}
			ok($was_cut, "$what: it was cut at $said") if $nth == 1 && !$was_cut;
			last unless $was_cut;
		}
		$cables->forget('down', 2);
	}
	ok(writes_again($what), "$what: all nodes take writes again");
}
cut_apply('executed', '');
if ($long)
{
	cut_apply($_, "SET LOCAL lockstep.commit_wait = $_") for 'ordered', 'applied';
	cut_apply('large', "$large; DELETE FROM filler");
}

# ---------- what was told against what is there

$c->wait_state($_, 'online') for $c->all;
$c->same('all nodes are equal');
$c->holds_what_was_told(\%told, sub { my ($t) = @_; return $t->{result} =~ /[CN]/ || ($t->{outcome} // '') eq 'committed' });
my %results;
$results{ $_->{result} . ($_->{outcome} ? " $_->{outcome}" : '') }++ for values %told;
note(join(', ', map { "$results{$_} x $_" } sort keys %results));
if ($failover_wait eq '0')
{
	cmp_ok($results{'U committed'} // 0, '>', 0, 'outcomes were unknown, and committed');
	cmp_ok($results{'U aborted'} // 0, '>', 0, 'and aborted');
}
$cables->unplug_all;
$c->down;
done_testing;
