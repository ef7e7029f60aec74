# The crash harness.  Clients write on all nodes, DDL too, and record what they were
# told, while backends, servers, the replicator, or all of them are killed -9 at
# random or at a hand-over point, stopped and continued, the network between them is cut, at a certain
# message or anywhere, or swallows everything, the journal's disk is full, nodes are
# dropped and attached, lost and cloned anew, and a third node joins two.
# Afterwards, on every node: all that was acknowledged, nothing that failed, nothing
# twice or in part, no money made or lost, commits in the same order; and what nobody
# could tell is there on all nodes or on none, as lockstep.outcome() says.
#
# LOCKSTEP_SOAK_SECONDS (30), LOCKSTEP_SEED (printed) and LOCKSTEP_SOAK_NODES (3; 2: a third
# one joins) change a run; LOCKSTEP_SOAK_FAULTS names the only faults to make;
# LOCKSTEP_SOAK_HISTORY is an isolation level: tests/histories run meanwhile, too;
# LOCKSTEP_SOAK_DELAYS: everybody stops now and then at a hand-over point.
# `make soak` runs many.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..", "$FindBin::Bin/../../soak";
use File::Path qw(remove_tree);
use List::Util qw(max sum);
use Cables;
use LockstepPoints;
use Order;
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{LOCKSTEP_SOAK_SECONDS} // 30;
my $most_nodes = 3;
my $nodes = $ENV{LOCKSTEP_SOAK_NODES} // $most_nodes;
my $seed = $ENV{LOCKSTEP_SEED} // int(rand(1e6));
my $writers_per_node = 3;
my $node_timeout = 2;
my $soak = "$FindBin::Bin/../../soak";
diag("LOCKSTEP_SEED=$seed");
srand($seed);
my $c = LockstepPoints->new(nodes => $nodes, $ENV{LOCKSTEP_SOAK_DELAYS} ? (random => "$seed 20 20") : (), replicator_conf => "node_timeout = ${node_timeout}s\nstall_timeout = ${node_timeout}s\n",
	conf => "lockstep.connect_timeout = 2s\ntrack_commit_timestamp = on\nmax_wal_senders = 5\n");
$c->sql(1, <<'SQL');
CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE ledger (number bigint PRIMARY KEY, source int NOT NULL, target int NOT NULL, amount int NOT NULL);
CREATE TABLE entry (number bigint NOT NULL, note text);
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY, number bigint);
CREATE UNLOGGED TABLE fleeting (id int PRIMARY KEY, balance bigint, n int DEFAULT 1);
CREATE UNLOGGED TABLE fleeting_entry (number bigint, note text);
CREATE FUNCTION fleet() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_TABLE_NAME = 'entry' THEN
		INSERT INTO fleeting_entry VALUES (NEW.number, NEW.note);
		-- it has no key: each row is looked for in all of it, here and by apply, so it is kept small
		DELETE FROM fleeting_entry WHERE number = NEW.number AND note LIKE 'run%' OR number BETWEEN NEW.number - 1000 AND NEW.number - 100;
	ELSE
		INSERT INTO fleeting VALUES (NEW.id, NEW.balance) ON CONFLICT (id) DO UPDATE SET balance = NEW.balance, n = fleeting.n + 1;
	END IF;
	RETURN NULL;
EXCEPTION WHEN object_not_in_prerequisite_state THEN
	RETURN NULL;	-- all servers have crashed, and the table is not empty everywhere yet
END $$;
CREATE TRIGGER fleet AFTER UPDATE ON account FOR EACH ROW EXECUTE FUNCTION fleet();
CREATE TRIGGER fleet AFTER INSERT ON entry FOR EACH ROW EXECUTE FUNCTION fleet();
INSERT INTO account SELECT i, 1000 FROM generate_series(0, 39) i;
SQL
$c->drain;

# ---------- cables: from each node to the replicator, and from it to each node

my $cables = Cables->new($c, $most_nodes);
$cables->put_between(1 .. $nodes);

# The journal gets a disk of its own, to be filled, if we may mount one.
my $journal = "$c->{dir}/journal";
my $journal_disk = 0;
$c->cluster('stop-replicator');
if ($> == 0)
{
	rename $journal, "$journal.before" or die $!;
	mkdir $journal;
	$journal_disk = system("mount -t tmpfs -o size=4g,mode=0700 tmpfs $journal 2>/dev/null") == 0;
	system("cp -a $journal.before/. $journal/ && chown -R postgres: $journal") == 0 or die;
}
$c->cluster('start-replicator') or die('the replicator does not start');
ok($c->wait_state($_, 'online'), "n$_ is online") for 1 .. $nodes;

# ---------- writers

my @writers;
my $test_pid = $$;

# Whatever becomes of the test, they don't stay behind.
END
{
	my $rc = $?;
	if (defined $test_pid && $test_pid == $$)
	{
		kill 'KILL', map { $_->{pid} } grep { !$_->{ended} } @writers;
		$cables->unplug_all;
		if ($journal_disk)
		{
			$c->cluster('kill-replicator');
			system("umount -l $journal");
		}
	}
	$? = $rc;
}

sub start_writers
{
	for my $node (@_)
	{
		for my $i (1 .. $writers_per_node)
		{
			my $number = @writers + 1;
			my $log = "$c->{top}/writer$number.log";
			my $pid = fork // die "fork: $!";
			if ($pid == 0)
			{
				close $c->{lock};
				exec("$soak/writer", $c->conninfo($node) . ' application_name=writer', $number, $seed * 100 + $number, $log) or exit 127;
			}
			push @writers, { pid => $pid, log => $log, node => $node };
		}
	}
}

# For who has to find out why.
sub show_what_waits
{
	diag(scalar $c->ctl('status', '--json'));
	for my $node (1 .. $nodes)
	{
		diag("n$node:\n", scalar $c->try($node, <<'SQL', timeout => 20));
SELECT * FROM lockstep.status();
SELECT pid, application_name, state, wait_event_type, wait_event, pg_blocking_pids(pid), now() - query_start, left(query, 120)
	FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid();
SELECT pid, locktype, relation::regclass, mode, granted, transactionid FROM pg_locks WHERE locktype IN ('relation', 'transactionid', 'tuple')
	AND relation IS DISTINCT FROM 'pg_locks'::regclass ORDER BY pid;
SQL
	}
}

# true: all of them have ended.
sub stop_writers
{
	my ($patience) = @_;
	kill 'TERM', map { $_->{pid} } @writers;
	my %left = map { $_->{pid} => $_ } @writers;
	my $end = time + $patience;
	while (%left && time < $end)
	{
		for my $pid (keys %left)
		{
			delete $left{$pid} if waitpid($pid, 1) == $pid;
		}
		usleep(20_000);
	}
	diag("a writer on n$_->{node} hangs") for values %left;
	show_what_waits() if %left;
	kill 'KILL', keys %left;
	waitpid($_, 0) for keys %left;
	$_->{ended} = 1 for @writers;
	return !%left;
}

# ---------- faults

my (%counts, %down, %frozen, %ordered, @heal);	# heal: [time, code]

sub heal_later { my ($after, $code) = @_; push @heal, [ time + $after, $code ] }

# Asked again until it is true.
sub heal_when { my ($code) = @_; heal_later(0.5, sub { $code->() or heal_when($code) }) }

sub server_up { my ($node) = @_; return !$down{"n$node"} && !$frozen{"n$node"} }

# Processes of a server by what ps says of them.
sub processes
{
	my ($node, $like) = @_;
	return grep { my $t = LockstepCluster::_slurp("/proc/$_/cmdline"); $t =~ $like } $c->server_pids($node);
}

sub kill_server
{
	my ($node) = @_;
	$c->cluster('kill-node', $node);
	$down{"n$node"} = 1;
	heal_later(rand(2) + 0.1, sub { delete $down{"n$node"}; $c->cluster('start-node', $node, '--no-wait') or die("n$node does not start") });
}

# An order of before may end it again as it starts, before it answers; each is obeyed once.
sub start_replicator
{
	for (0 .. keys %ordered)
	{
		return if $c->cluster('start-replicator');
	}
	die('the replicator does not start');
}

sub kill_replicator
{
	$c->cluster('kill-replicator');
	$down{replicator} = 1;
	heal_later(rand(1.5) + 0.1, sub { delete $down{replicator}; start_replicator() });
}

sub freeze
{
	my ($name, $for, @pids) = @_;
	kill 'STOP', @pids;
	$frozen{$name} = 1;
	heal_later($for, sub { kill 'CONT', @pids; delete $frozen{$name} });
}

# A new server for a node whose data is gone, or never was: a clone of another node.
# It is tried again when the donor does not survive it.
sub clone_node
{
	my ($node, $then) = @_;
	my $data = $c->pgdata($node);
	my $pid;
	$down{"n$node"} = 1;
	heal_when(
		sub {
			if (!$pid)
			{
				my @donors = grep { $_ != $node && server_up($_) } 1 .. $nodes or return 0;
				my $donor = $donors[ rand @donors ];
				$c->cluster('kill-node', $node);
				remove_tree($data);
				$pid = fork // die "fork: $!";
				return 0 if $pid;
				chdir '/';
				open(STDOUT, '>>', "$c->{top}/join.log");
				open(STDERR, '>&', \*STDOUT);
				close $c->{lock};
				exec($c->owned("$LockstepCluster::bindir/lockstepctl"), '--config', $c->replicator_conf, '--timeout=1', 'join', "n$node",
					'--donor=' . $c->conninfo($donor, 'postgres'), "--pgdata=$data", '--set=port=' . $c->port($node),
					'--set=lockstep.replicator=127.0.0.1:' . $cables->port('up', $node)) or POSIX::_exit(127);
			}
			return 0 if waitpid($pid, WNOHANG) != $pid;
			undef $pid;
			# it fails, too, when the node is not online within a second
			return 0 unless -e "$data/postmaster.pid";
			delete $down{"n$node"};
			$counts{'clones'}++;
			$then->() if $then;
			return 1;
		});
}

# The third node comes to two.
sub join_node
{
	my $node = ++$nodes;
	$c->{nodes} = $nodes;
	$cables->plug($_, $node) for 'up', 'down';
	open(my $env, '>>', "$c->{dir}/cluster.env") or die $!;
	print $env "NODES=\"\$NODES 127.0.0.1:", $c->port($node), "\"\nNODE${node}_PORT=", $c->port($node),
		"\nNODE${node}_PGDATA='", $c->pgdata($node), "'\nNODE${node}_LOG='$c->{dir}/n$node.log'\n";
	close $env;
	$c->edit_replicator_conf(sub { $_ .= "node.n$node = 'host=127.0.0.1 port=" . $cables->port('down', $node) . " user=postgres'\n" });
	$c->ctl('reload');		# or it reads it when it starts
	clone_node($node, sub { start_writers($node) });
}

sub journal_disk { my ($size) = @_; return system("mount -o remount,size=$size $journal") == 0 }

# Types of messages, by cable and sender.
my %messages = (upc => 'HAQRPFZNOSUL', ups => 'CWVYnosulK', downc => 'QPBDESHX', downs => 'RSKZTDC12nE');

sub how_long { return rand() < 0.5 ? rand(1) + 0.1 : $node_timeout + rand(2) }

my %faults = (
	'kill client backend' => sub {
		my ($node) = @_;
		my @pids = processes($node, qr/writer|postgres: postgres app 127/) or return 0;
		return kill 'KILL', $pids[ rand @pids ];
	},
	'terminate client backends' => sub {
		my ($node) = @_;
		return 0 unless server_up($node);
		$c->try($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'writer' AND random() < 0.7", timeout => 10);
		return 1;
	},
	'cancel client backends' => sub {
		my ($node) = @_;
		return 0 unless server_up($node);
		$c->try($node, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'writer'", timeout => 10);
		return 1;
	},
	'terminate an apply session' => sub {
		my ($node) = @_;
		return 0 unless server_up($node);
		$c->try($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockstep apply' ORDER BY random() LIMIT 1", timeout => 10);
		return 1;
	},
	'kill server' => sub { my ($node) = @_; return 0 if $down{"n$node"} || $frozen{"n$node"}; kill_server($node); return 1 },
	'stop server immediately' => sub {
		my ($node) = @_;
		return 0 unless server_up($node);
		my $pid = $c->postmaster_pid($node) // return 0;
		kill 'QUIT', $pid;
		$down{"n$node"} = 1;
		heal_later(rand(2) + 0.5, sub { delete $down{"n$node"}; $c->cluster('kill-node', $node); $c->cluster('start-node', $node, '--no-wait') or die("n$node does not start") });
		return 1;
	},
	'kill replicator' => sub { return 0 if $down{replicator} || $frozen{replicator}; kill_replicator(); return 1 },
	'kill all at once' => sub {
		return 0 if %down || %frozen;
		my @pids = (map({ $c->server_pids($_) } 1 .. $nodes), $c->replicator_pid);
		kill 'KILL', @pids;
		kill_server($_) for 1 .. $nodes;
		kill_replicator();
		return 1;
	},
	'freeze server' => sub {
		my ($node) = @_;
		return 0 unless server_up($node);
		freeze("n$node", how_long(), $c->server_pids($node));
		return 1;
	},
	'freeze client backend' => sub {
		my ($node) = @_;
		my @pids = server_up($node) ? processes($node, qr/postgres: postgres app 127/) : () or return 0;
		freeze("backend of n$node", how_long(), $pids[ rand @pids ]);
		return 1;
	},
	'freeze replicator' => sub { return 0 if $down{replicator} || $frozen{replicator}; freeze('replicator', how_long(), $c->replicator_pid); return 1 },
	'cut cable' => sub {
		my ($node) = @_;
		my $it = $cables->it(rand() < 0.5 ? 'up' : 'down', $node) or return 0;
		kill 'USR1', $it->{pid};
		return 1;
	},
	'cut at a message' => sub {
		my ($node) = @_;
		my $kind = rand() < 0.5 ? 'up' : 'down';
		my $side = rand() < 0.5 ? 'c' : 's';
		return 0 unless $cables->it($kind, $node);
		my $types = $messages{"$kind$side"};
		my $order = join(' ', 'cut', $side, substr($types, rand length $types, 1), (qw(before within after))[ rand 3 ]);
		note_down("  $kind: $order");
		$cables->order($kind, $node, $order);
		return 1;
	},
	'journal disk full' => sub {
		return 0 if !$journal_disk || $down{'journal disk'};
		my ($used) = `df -k --output=used $journal` =~ /(\d+)/ or return 0;
		journal_disk($used + int(rand(100)) . 'k') or return 0;
		$down{'journal disk'} = 1;
		heal_later(how_long(), sub { delete $down{'journal disk'}; journal_disk('4g') or die 'the journal keeps its small disk' });
		return 1;
	},
	'kill at a point' => sub {
		my ($node) = @_;
		my $who = rand() < 0.5 ? 'replicator' : $node;
		return 0 if $who eq 'replicator' ? $down{replicator} || $frozen{replicator} : !server_up($node);
		my @points = LockstepPoints::points_of($who);
		my $point = $points[ rand @points ];
		# one order at a place: the second could be neither obeyed nor taken back
		return 0 if $ordered{"$who $point"};
		$ordered{"$who $point"} = 1;
		note_down("  $who: $point");
		$c->order_at($who, $point, 'kill');
		my ($patience, $pid) = (time + 3, $c->replicator_pid);
		heal_when(sub {
			# a server starts anew by itself
			return 0 if !$c->was_there($who, $point) && (time < $patience || !$c->take_back($who, $point));
			return 0 if $who eq 'replicator' && !$down{replicator} && $c->was_there($who, $point) && !$c->is_gone($pid);
			delete $ordered{"$who $point"};
			start_replicator() if $who eq 'replicator' && !$down{replicator};
			return 1;
		});
		return 1;
	},
	'drop and attach' => sub {
		my ($node) = @_;
		# a command that failed, its replicator having been killed or frozen, may have been obeyed
		$c->ctl('drop', "n$node");
		heal_later(rand(3), sub {
			heal_when(sub { return ($c->ctl('--timeout=1', 'attach', "n$node"))[2] == 0 });
		});
		return 1;
	},
	'lose a server' => sub {
		my ($node) = @_;
		return 0 if grep { !server_up($_) } 1 .. $nodes;
		clone_node($node);
		return 1;
	},
	'unplug cable' => sub {
		my ($node) = @_;
		my $kind = rand() < 0.5 ? 'up' : 'down';
		return 0 if $frozen{"$kind$node"} || $down{"$kind$node"};
		$cables->unplug("$kind$node");
		$down{"$kind$node"} = 1;
		heal_later(how_long(), sub { delete $down{"$kind$node"}; $cables->plug($kind, $node) });
		return 1;
	},
	'swallow' => sub {
		my ($node) = @_;
		my @kinds = rand() < 0.4 ? ('up', 'down') : rand() < 0.5 ? ('up') : ('down');
		return 0 if grep { $frozen{"$_$node"} || $down{"$_$node"} } @kinds;
		my $for = how_long();
		freeze("$_$node", $for, $cables->it($_, $node)->{pid}) for @kinds;
		return 1;
	},
);
# Those not named here: 2.
my %weights = ('cancel client backends' => 1, 'terminate client backends' => 1, 'kill server' => 6, 'stop server immediately' => 3,
	'kill replicator' => 6, 'kill all at once' => 3, 'freeze server' => 5, 'freeze replicator' => 3, 'cut at a message' => 10, 'kill at a point' => 10,
	'unplug cable' => 4, 'swallow' => 4, 'drop and attach' => 3);
my @names = map { ($_) x ($weights{$_} // 2) } sort keys %faults;
if (my $only = $ENV{LOCKSTEP_SOAK_FAULTS})
{
	@names = grep { my $n = $_; grep { $n eq $_ } split /\s*,\s*/, $only } @names;
	@names or die("no such faults: $only");
}

sub heal
{
	my ($until) = @_;
	my @due = sort { $a->[0] <=> $b->[0] } grep { $_->[0] <= $until } @heal;
	@heal = grep { $_->[0] > $until } @heal;
	$_->[1]->() for @due;
}

# ---------- the run

open(my $history, '>', "$c->{dir}/faults.log") or die $!;
$history->autoflush;
sub note_down { printf $history "%s %s\n", scalar(localtime) =~ s/^\w+ \w+ +\d+ (\S+) .*/$1/r, join(' ', @_) }

my $started = time;
start_writers(1 .. $nodes);
my $joins_at = $nodes < $most_nodes && !$ENV{LOCKSTEP_SOAK_FAULTS} ? $started + $seconds / 3 : undef;
my ($history_out, $checker) = ('');
if (my $level = $ENV{LOCKSTEP_SOAK_HISTORY})
{
	local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
	$checker = IPC::Run::start([ '/usr/bin/python3', "$FindBin::Bin/../../histories/run.py", '--seed', $seed, '--seconds', $seconds + 5, '--clients', 1,
		'--level', $level, map { $c->conninfo($_) } 1 .. $nodes ], '<', \undef, '>&', \$history_out, IPC::Run::timeout($seconds + 400));
}
my $next = time + 1;
while (time < $started + $seconds)
{
	heal(time);
	if (defined $joins_at && time > $joins_at)
	{
		undef $joins_at;
		note_down("n3 joins");
		join_node();
	}
	if (time > $next)
	{
		if (@heal < 4)
		{
			my $name = $names[ rand @names ];
			my $node = 1 + int(rand($nodes));
			note_down($name, "n$node");
			$counts{$name}++ if $faults{$name}->($node);
		}
		# now and then there is peace for long enough that all come back
		$next = time + (rand() < 0.1 ? 3 + rand(3) : rand(0.8));
	}
	usleep(20_000);
}
note_down('end of faults');
$cables->forget_all;
while (@heal)
{
	heal(time + 1e6);
	usleep(100_000) if @heal;
}
is(join(' ', sort keys %down, keys %frozen), '', 'all faults are over');
if ($checker)
{
	ok($checker->finish, 'the checker of histories finds nothing') or diag($history_out);
	note($history_out);
}
# They should come back under load; on a machine that is too busy for that, without.
$c->wait_until(sub { !grep { $c->node_status($_)->{state} ne 'online' } 1 .. $nodes }, 60) or diag('not all nodes are back under load after 60 s');
ok(stop_writers(90), 'no writer hangs');
ok($c->wait_state($_, 'online', 180), "n$_ comes back online by itself") for 1 .. $nodes;
note_down('writers have stopped');
$c->same('all nodes are equal');

# ---------- what was told against what is there

my (%told, %results, %latest);
for my $w (@writers)
{
	open(my $f, '<', $w->{log}) or next;
	while (<$f>)
	{
		my ($kind, $number, $rows, $result, $state, $token) = split ' ';
		$told{$number} = { number => $number, kind => $kind, rows => $rows, result => $result, state => $state, token => $token };
		$results{$result}++;
		$latest{"$result $state"}++ if $result ne 'C';
	}
}

for my $node (1 .. $nodes)
{
	my %there = map { split /\|/ } split /\n/, $c->sql($node, 'SELECT number, count(*) FROM entry GROUP BY 1');
	my %ledger = map { $_ => 1 } split /\n/, $c->sql($node, 'SELECT number FROM ledger');
	my @wrong;

	for my $number (sort { $a <=> $b } keys %told)
	{
		my $t = $told{$number};
		my $found = $there{$number} // 0;
		my $in_ledger = $ledger{$number} // 0;

		push @wrong, "$t->{kind} $number was acknowledged, $found of $t->{rows} rows are there" if $t->{result} eq 'C' && $found != $t->{rows};
		push @wrong, "$t->{kind} $number failed ($t->{state}), $found rows are there" if $t->{result} eq 'F' && $found != 0;
		push @wrong, "$t->{kind} $number: $found of $t->{rows} rows are there" if $found != 0 && $found != $t->{rows};
		push @wrong, "$t->{kind} $number: $found rows in entry, $in_ledger in ledger" if $t->{kind} eq 'transfer' && $found != $in_ledger;
	}
	push @wrong, "$_ is there, nobody sent it or it was rolled back" for grep { !$told{$_} } keys %there, keys %ledger;
	is(scalar(@wrong), 0, "n$node has what was acknowledged, once, and nothing else") or diag(join("\n", @wrong[ 0 .. ($#wrong > 20 ? 20 : $#wrong) ]));
	is($c->sql($node, <<'SQL'), '', "n$node: the tables that were made are those that entry names");
WITH expected AS (SELECT 'made_' || number AS name FROM entry WHERE note = 'create'
		EXCEPT SELECT 'made_' || substr(note, 6) FROM entry WHERE note LIKE 'drop %'),
	found AS (SELECT relname::text AS name FROM pg_class WHERE relname LIKE 'made\_%' AND relkind = 'r')
SELECT coalesce(e.name, f.name), e.name IS NOT NULL, f.name IS NOT NULL FROM expected e FULL JOIN found f USING (name)
	WHERE e.name IS NULL OR f.name IS NULL
SQL
	is($c->sql($node, <<'SQL'), '', "n$node: the accounts are what the ledger says");
SELECT id, balance, expected FROM account
	JOIN LATERAL (SELECT 1000 + coalesce((SELECT sum(amount) FROM ledger WHERE target = id), 0)
		- coalesce((SELECT sum(amount) FROM ledger WHERE source = id), 0) AS expected) e ON true
	WHERE balance <> expected
SQL
}
# ---------- the order of commits

{
	my %swapped = (first => { 1 => 10, 2 => 20, 3 => 20, 4 => 30 }, second => { 1 => 5, 3 => 6, 2 => 7, 4 => 7 }, third => { 1 => 5, 2 => 6, 3 => 6, 4 => 4 });
	is(scalar(Order::differences(@swapped{ 'first', 'second' })), 0, 'commits at one time have no order');
	is(scalar(Order::differences(@swapped{ 'first', 'third' })), 1, 'a commit at another place is found');
}
my @committed_at = map {
	+{ map { split /\|/ } split /\n/, $c->sql($_, 'SELECT DISTINCT number, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint FROM entry') }
} 1 .. $nodes;
for my $node (2 .. $nodes)
{
	my @wrong = Order::differences($committed_at[0], $committed_at[ $node - 1 ]);
	is(scalar(@wrong), 0, "n$node committed " . scalar(keys %{ $committed_at[ $node - 1 ] }) . ' transactions in the order of n1')
		or diag(join("\n", map { "$_->[0], $_->[1]" } @wrong[ 0 .. ($#wrong > 20 ? 20 : $#wrong) ]));
}
{
	my @asked = grep { $_->{token} ne '-' && ($_->{result} ne 'F' || rand() < 0.1) && ($_->{result} ne 'C' || rand() < 0.01) } values %told;
	my @answers = split /\n/, $c->sql(1 + int(rand($nodes)), join('', map { "SELECT lockstep.outcome('$_->{token}');\n" } @asked));
	my %there = map { $_ => 1 } split /\n/, $c->sql(1, 'SELECT DISTINCT number FROM entry');
	my @wrong;

	for my $i (0 .. $#asked)
	{
		my $expected = $asked[$i]{result} eq 'C' || $there{ $asked[$i]{number} } ? 'committed' : 'aborted';
		push @wrong, "$asked[$i]{number} ($asked[$i]{result}) $asked[$i]{token}: $answers[$i], not $expected" if $answers[$i] ne $expected;
	}
	is(scalar(@wrong), 0, 'lockstep.outcome() tells the truth about ' . @asked . ' transactions') or diag(join("\n", @wrong));
}
cmp_ok($results{C} // 0, '>', 100, 'there was load');
my $summary = sprintf('seed %d, %d s, %d nodes: %d acknowledged, %d failed, %d unknown', $seed, $seconds, $nodes,
	map { $results{$_} // 0 } 'C', 'F', 'U');
diag($summary);
diag('faults: ' . join(', ', map { "$counts{$_} x $_" } sort keys %counts));
note('errors: ' . join(', ', map { "$latest{$_} x $_" } sort keys %latest));
if (my $file = $ENV{LOCKSTEP_SOAK_LOG})
{
	open(my $f, '>>', $file) or die "$file: $!";
	printf $f "%s %s%s\n", Test::More->builder->is_passing ? 'ok' : 'FAILED', $summary, ', faults ' . (sum(values %counts) // 0);
	close $f;
}

done_testing;
