# DETACH PARTITION CONCURRENTLY keeps nobody from reading or writing the partitioned
# table, on any node, while it waits on any node; the partition is detached on all
# nodes afterwards, or pending on all of them, whoever is cancelled or goes in the
# middle, and FINALIZE completes it from any; also where tables are changed while it waits for
# their locks, where only who gave the command may use the partition's schema, and where a
# partitioned table refers to the one that loses a partition.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "node_timeout = 5s\nstall_timeout = 5s\nreconnect_interval = 200ms\n");

# Partition pN has the ids from 100 * N on.
my $last = 24;
$c->sql(1, 'CREATE TABLE p (id int PRIMARY KEY, w text) PARTITION BY RANGE (id);'
	. join('', map { "CREATE TABLE p$_ PARTITION OF p FOR VALUES FROM ($_ * 100) TO ($_ * 100 + 100);" } 1 .. $last)
	. "INSERT INTO p SELECT 100 * n + i, 'old' FROM generate_series(1, $last) n, generate_series(0, 40) i");
$c->drain;

# ---------- what has become of a partition

sub state_on
{
	my ($n, $name) = @_;
	return $c->sql($n, "SELECT CASE WHEN NOT relispartition THEN 'table' WHEN (SELECT inhdetachpending FROM pg_inherits WHERE inhrelid = c.oid) THEN 'pending' ELSE 'partition' END
		|| ' ' || (SELECT count(*) FROM pg_constraint WHERE conrelid = c.oid AND contype = 'c') FROM pg_class c WHERE oid = to_regclass('$name')");
}

sub is_everywhere
{
	my ($name, $state, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->drain;
	is_deeply([ map { state_on($_, $name) } 1 .. 3 ], [ ($state) x 3 ], $test);
}

sub gets_pending
{
	my ($name, $test, @nodes) = @_;
	@nodes = 1 .. 3 unless @nodes;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_until(sub { !grep { state_on($_, $name) ne 'pending 1' } @nodes }, 60), $test);
}

# Does an apply session of the node wait for those who have the table open?
sub node_waits
{
	my ($n) = @_;
	return ok($c->wait_sql($n, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND state = 'active' AND query ~ 'apply_detach'", 1), "n$n waits");
}

# Transactions of all kinds on every node, none of which may wait.
my $next = 50;

sub write_everywhere
{
	my ($test, $name) = @_;
	my @wrong;
	for my $n (1 .. 3)
	{
		my $script = "SET statement_timeout = '20s';\n";
		for (1 .. 3)
		{
			my $id = $last * 100 + $next++ % 100;
			$script .= "DELETE FROM p WHERE id = $id; INSERT INTO p VALUES ($id, 'new'); UPDATE p SET w = w || 'x' WHERE id = $id; UPDATE p SET w = 'all' WHERE id % 100 = 10 * $n + $_;\n";
			$script .= "UPDATE $name SET w = w || 'y' WHERE id % 100 = 10 * $n + $_;\n" if $name;
		}
		my (undef, $err) = $c->try($n, $script);
		push @wrong, "n$n: $err" if $err ne '';
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@wrong", '', $test);
}

sub detach { my ($n, $name) = @_; return $c->session($n)->send("ALTER TABLE p DETACH PARTITION $name CONCURRENTLY") }
sub kill_node { my ($n) = @_; $c->cluster('kill-node', $n) }

# ---------- nobody waits, and each sees what its snapshot does

for my $n (1, 3)
{
	my ($name, $id) = ("p$n", 100 * $n);
	my $reader = $c->session($n);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $old = $c->session($n);
	$old->do("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM p WHERE id < 0");
	my $s = detach(1, $name);
	gets_pending($name, "pending on all nodes while n$n has a reader");
	node_waits($n) if $n > 1;
	write_everywhere('all nodes write meanwhile', $name);
	for my $m (1 .. 3)
	{
		$c->fails($m, "INSERT INTO p VALUES ($id + 90, 'no')", '23514', qr/no partition of relation "p" found/, "no new row for it (n$m)");
		is($c->sql($m, "SELECT count(*) FROM p WHERE id BETWEEN $id AND $id + 99"), 0, 'nor is one found');
	}
	is($reader->do("SELECT count(*) FROM p WHERE id BETWEEN $id AND $id + 99"), 0, 'a transaction that reads what is committed does not find it any more');
	is($old->do("SELECT count(*) FROM p WHERE id BETWEEN $id AND $id + 99"), 41, 'one with an older snapshot does');
	$old->do("INSERT INTO p VALUES ($id + 91, 'of old')");
	ok($s->blocked(0.1), 'it waits for both');
	$reader->do('COMMIT');
	ok($s->blocked(0.1), 'for the other');
	$old->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'detached');
	is_everywhere($name, 'table 1', 'on all nodes, and its bounds are a check');
	is($c->sql(2, "SELECT w FROM $name WHERE id = $id + 91"), 'of old', 'with the last row');
}
$c->same('equal after waiting');

# But not for ever.
$c->set(2, 'lockstep.index_patience', '100ms');
{
	my $reader = $c->session(2);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my (undef, $err) = $c->try(1, 'ALTER TABLE p DETACH PARTITION p2 CONCURRENTLY');
	is($err, '', 'with little patience it goes on');
	$reader->query('COMMIT');
	LockstepCluster::is_error($reader->error, '40001', qr/in the way/, 'and who is in the way has to retry');
	is_everywhere('p2', 'table 1', 'detached');
}
$c->set(2, 'lockstep.index_patience', '1min');

# ---------- under load

{
	my @load = map { $c->pgbench_start($_, '-n', '-c', 2, '-T', $ENV{LOCKSTEP_LONG} ? 30 : 8, '--max-tries', 1000, '-f', $c->file("load$_.sql", <<"SQL")) } 1 .. 3;
\\set id random(1800, 2399)
\\set own 1800 + 3 * random(0, 199) + $_ - 1
UPDATE p SET w = 'l' || :id WHERE id = :id;
DELETE FROM p WHERE id = :own;
INSERT INTO p VALUES (:own, 'load') ON CONFLICT DO NOTHING;
UPDATE p4 SET w = w || $_ WHERE id = 400 + :own % 40;
UPDATE p5 SET w = w || $_ WHERE id = 500 + :own % 40;
SELECT count(*) FROM p WHERE id % 100 = 7;
SQL
	for my $name (4, 5, 6)
	{
		my (undef, $err) = $c->try($name - 3, "ALTER TABLE p DETACH PARTITION p$name CONCURRENTLY");
		is($err, '', "p$name is detached under load from n" . ($name - 3));
	}
	$_->{handle}->finish for @load;
	unlike(${ $_->{text} }, qr/aborted/, 'no client was aborted') for @load;
}
is_everywhere("p$_", 'table 1', "p$_ is detached") for 4 .. 6;
$c->same('equal after load');

# ---------- cancelled: pending everywhere, until FINALIZE

for my $n (1, 3)
{
	my $name = 'p' . (6 + $n);
	my $reader = $c->session($n);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, $name);
	gets_pending($name, 'pending');
	node_waits($n) if $n > 1;
	$c->sql(1, 'SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->finish(30);
	LockstepCluster::is_error($s->error, '57014', qr/user request/, "cancelled while it waits on n$n");
	is_everywhere($name, 'pending 1', 'pending everywhere');
	$c->fails(2, 'ALTER TABLE p DETACH PARTITION p20 CONCURRENTLY', '55000', qr/partition "$name" already pending detach in partitioned table "public.p"/, 'one at a time');
	$c->fails(2, "ALTER TABLE $name ADD COLUMN no int", '55000', qr/incomplete detach/, 'no other DDL on it');
	write_everywhere('all nodes write', $name);
	if ($n == 3)
	{
		my $f = $c->session(2)->send("ALTER TABLE p DETACH PARTITION $name FINALIZE");
		node_waits(3);
		write_everywhere('all nodes write while FINALIZE waits');
		is(state_on(3, $name), 'pending 1', 'it waits');
		$reader->do('COMMIT');
		$f->finish(30);
		is($f->error, '', 'FINALIZE from another node');
	}
	else
	{
		$reader->do('COMMIT');
		$c->sql(3, "BEGIN; INSERT INTO p VALUES (2390, 'with it') ON CONFLICT DO NOTHING; ALTER TABLE p DETACH PARTITION $name FINALIZE; COMMIT");
	}
	is_everywhere($name, 'table 1', 'FINALIZE completes it everywhere');
}
$c->fails(3, 'ALTER TABLE p DETACH PARTITION p20 FINALIZE', '55000', qr/cannot complete detaching partition "p20"/, 'FINALIZE of what is not pending');
$c->fails(3, 'ALTER TABLE p DETACH PARTITION p20 CONCURRENTLY; ALTER TABLE p DETACH PARTITION p20 CONCURRENTLY', '42P01', qr/is not a partition|not a partition/, 'of what is no partition any more');
$c->same('equal after FINALIZE');

# ---------- DDL that goes down to partitions

# It waits for the first step, and then must not see what was before.
{
	my $keeper = $c->session(1);
	$keeper->do('BEGIN; SELECT count(*) FROM p');
	my $old = $c->session(2);
	$old->do('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');	# DDL here would wait for who has the table open
	my ($s, $ddl);
	$c->frozen([3], sub {
		$s = detach(1, 'p11');
		ok($c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE relation = 'p11'::regclass AND mode = 'ShareUpdateExclusiveLock' AND granted AND pid = " . $s->pid, 1), 'the first step is on its way');
		$ddl = $c->session(2)->send('ALTER TABLE p ADD COLUMN extra int DEFAULT 7');
		ok($c->wait_sql(2, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND pid = " . $ddl->pid, 1), 'DDL waits for it');
	});
	gets_pending('p11', 'pending');
	$old->query('TRUNCATE p');
	LockstepCluster::is_error($old->error, '40001', qr/./, 'DDL with a snapshot of before fails');
	$old->do('ROLLBACK');
	$keeper->query('COMMIT');	# it is in the way of that DDL
	$_->finish(60) for $ddl, $s;
	is($ddl->error, '', 'DDL that has waited goes on');
	is($c->sql($_, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'p11'::regclass AND attname = 'extra'"), 0, "and leaves out what is being detached (n$_)") for 1 .. 3;
	if ($c->version >= 18)
	{
		# PostgreSQL 18 by itself cannot detach a partition that lacks a column of the table
		LockstepCluster::is_error($s->error, '42804', qr/could not convert row type/, 'what it waited for fails as on a server of its own');
		is_everywhere('p11', 'pending 1', 'pending everywhere');
		$c->sql(3, 'ALTER TABLE p DROP COLUMN extra');
		$c->sql(2, 'ALTER TABLE p DETACH PARTITION p11 FINALIZE');
	}
	else
	{
		is($s->error, '', 'and so does what it waited for');
		$c->sql(3, 'ALTER TABLE p DROP COLUMN extra');
	}
	is_everywhere('p11', 'table 1', 'detached');
}
$c->same('equal after DDL');

# ---------- someone goes

# the session
{
	my $reader = $c->session(2);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, 'p12');
	gets_pending('p12', 'pending');
	node_waits(2);
	$c->sql(1, 'SELECT pg_terminate_backend(' . $s->pid . ')');
	eval { $s->finish(10) };
	is_everywhere('p12', 'pending 1', 'the session is terminated: pending everywhere');
	$reader->do('COMMIT');
	$c->sql(1, 'ALTER TABLE p DETACH PARTITION p12 FINALIZE');
	is_everywhere('p12', 'table 1', 'FINALIZE');
}

# the origin
{
	my $reader = $c->session(2);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, 'p13');
	gets_pending('p13', 'pending');
	node_waits(2);
	kill_node(1);
	is(state_on($_, 'p13'), 'pending 1', "the origin crashes: pending on n$_") for 2, 3;
	$reader->do('COMMIT');
	$c->sql(3, "ALTER TABLE p DETACH PARTITION p13 FINALIZE; INSERT INTO p VALUES (2398, 'x') ON CONFLICT DO NOTHING; CREATE TABLE p13b PARTITION OF p FOR VALUES FROM (1300) TO (1400)");
	$c->cluster('restart-node', 1);
	ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1 .. 3;
	is_everywhere('p13', 'table 1', 'completed by another, while it was away');
}

# a peer, and one that is away from the beginning to the end
for my $case ('crashes', 'is away')
{
	my $name = $case eq 'crashes' ? 'p14' : 'p15';
	my $reader = $c->session($case eq 'crashes' ? 3 : 1);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	kill_node(3) if $case eq 'is away';
	my $s = detach(1, $name);
	gets_pending($name, 'pending', 1, 2);
	if ($case eq 'crashes')
	{
		node_waits(3);
		kill_node(3);
	}
	else { $reader->do('COMMIT') }
	$s->finish(60);
	is($s->error, '', "a peer $case: the others go on");
	$c->sql(2, "UPDATE $name SET w = 'after'; CREATE TABLE ${name}b PARTITION OF p FOR VALUES FROM (" . substr($name, 1) . '00) TO (' . substr($name, 1) . '50)');
	$c->cluster('restart-node', 3);
	ok($c->wait_state(3, 'online', 60), 'it is back');
	is_everywhere($name, 'table 1', 'and has followed');
}

# the replicator
{
	my $reader = $c->session(3);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, 'p16');
	gets_pending('p16', 'pending');
	node_waits(3);
	kill 'KILL', $c->replicator_pid;
	$s->finish(60);
	LockstepCluster::is_error($s->error, '08007|57P03', qr/./, 'the replicator crashes: the outcome of that step is unknown');
	$c->cluster('restart-replicator');
	ok($c->wait_state($_, 'online', 60), "n$_ is back") for 1 .. 3;
	is_everywhere('p16', 'pending 1', 'pending everywhere');
	$reader->query('COMMIT');
	ok($c->wait_until(sub { $s->query('ALTER TABLE p DETACH PARTITION p16 FINALIZE'); return $s->error eq '' }, 20), 'FINALIZE');
	is_everywhere('p16', 'table 1', 'completes it');
}
# and while the origin waits, which has nothing to ask then
{
	my $reader = $c->session(1);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, 'p17');
	gets_pending('p17', 'pending');
	kill 'KILL', $c->replicator_pid;
	$c->cluster('restart-replicator');
	ok($c->wait_state($_, 'online', 60), "n$_ is back") for 1 .. 3;
	$reader->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'then it goes on');
	is_everywhere('p17', 'table 1', 'detached');
}

# the tables, or their names
{
	my $reader = $c->session(1);
	$reader->do('BEGIN; SELECT count(*) FROM p');
	my $s = detach(1, 'p10');
	gets_pending('p10', 'pending');
	$c->sql(2, 'ALTER TABLE p10 RENAME TO "P ten"');
	$reader->query('COMMIT');	# it was in the way
	$s->finish(60);
	is($s->error, '', 'a partition is renamed meanwhile');
	is_everywhere('"P ten"', 'table 1', 'and detached');

	$c->sql(1, 'CREATE TABLE gone (a int) PARTITION BY LIST (a); CREATE TABLE gone1 PARTITION OF gone FOR VALUES IN (1)');
	$reader->do('BEGIN; SELECT count(*) FROM gone');
	$s->send('ALTER TABLE gone DETACH PARTITION gone1 CONCURRENTLY');
	gets_pending('gone1', 'pending');
	$c->sql(3, 'DROP TABLE gone');
	$reader->query('COMMIT');
	$s->finish(60);
	LockstepCluster::is_error($s->error, '55000', qr/partitioned table "gone" was removed concurrently/, 'the table goes meanwhile');
	is_everywhere('gone1', '', 'its partition, too');
}
write_everywhere('all nodes write');
$c->same('equal after crashes');

# ---------- foreign keys to the table and from it, kinds of partitions

$c->sql(1, <<'SQL');
CREATE TABLE up (id int PRIMARY KEY);
INSERT INTO up VALUES (1), (2), (3);
CREATE TABLE f (k int PRIMARY KEY, up int REFERENCES up) PARTITION BY LIST (k);
CREATE TABLE f1 PARTITION OF f FOR VALUES IN (1);
CREATE TABLE f2 PARTITION OF f FOR VALUES IN (2);
CREATE TABLE f3 PARTITION OF f FOR VALUES IN (3);
INSERT INTO f VALUES (1, 1), (2, 2), (3, 3);
CREATE TABLE r (id serial PRIMARY KEY, k int REFERENCES f);
INSERT INTO r (k) VALUES (2);
SQL
$c->drain;
$c->fails(3, 'ALTER TABLE f DETACH PARTITION f2 CONCURRENTLY', '23503', qr/removing partition "f2" violates foreign key constraint/, 'rows refer to it');
is_everywhere('f2', 'partition 0', 'so it stays');
{
	my $reader = $c->session(1);
	$reader->do('BEGIN; SELECT count(*) FROM f');
	my $writer = $c->session(2);
	$writer->do('BEGIN; INSERT INTO r (k) VALUES (1)');
	my $s = $c->session(1);
	$s->send('ALTER TABLE f DETACH PARTITION f1 CONCURRENTLY');
	gets_pending('f1', 'pending');
	$writer->query('COMMIT');
	LockstepCluster::is_error($writer->error, '40001', qr/./, 'who refers to it meanwhile, not having known, loses');
	$c->fails($_, 'INSERT INTO r (k) VALUES (1)', '23503', qr/violates foreign key constraint/, "nobody can refer to it any more (n$_)") for 1 .. 3;
	is($c->sql($_, "INSERT INTO r (k) VALUES (3) RETURNING k"), 3, "but to others (n$_)") for 1 .. 3;
	$reader->do('COMMIT');
	$s->finish(30);
	is($s->error, '', 'detached');
	is_everywhere('f1', 'table 1', 'everywhere');
	$c->fails(2, 'INSERT INTO f1 VALUES (1, 99)', '23505|23503', qr/./, 'its keys are its own');
	$c->fails(3, 'DELETE FROM up WHERE id = 1', '23503', qr/f1/, 'as is its foreign key');
}
$c->sql(1, <<'SQL');
CREATE TABLE self (k int PRIMARY KEY, up int REFERENCES self) PARTITION BY LIST (k);
CREATE TABLE self1 PARTITION OF self FOR VALUES IN (1);
CREATE TABLE self2 PARTITION OF self FOR VALUES IN (2);
INSERT INTO self VALUES (1, 2), (2, 2);
SQL
$c->drain;
$c->sql(3, 'SET default_transaction_isolation = serializable; ALTER TABLE self DETACH PARTITION self1 CONCURRENTLY');
is_everywhere('self1', 'table 1', 'a table that refers to itself; at SERIALIZABLE');
$c->fails(3, 'ALTER TABLE self DETACH PARTITION self2 CONCURRENTLY', '23503', qr/violates foreign key/, 'the other is referred to');
$c->sql(1, <<'SQL');
CREATE TABLE h (a int, b text) PARTITION BY HASH (a);
CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO h SELECT g, g FROM generate_series(1, 20) g;
CREATE TABLE m (a int, b text NOT NULL, c text) PARTITION BY RANGE (a);
CREATE TABLE m1 (c text, b text NOT NULL, a int) PARTITION BY LIST (b);
CREATE TABLE m1x PARTITION OF m1 FOR VALUES IN ('x');
ALTER TABLE m ATTACH PARTITION m1 FOR VALUES FROM (0) TO (10);
CREATE TABLE "M 2" PARTITION OF m (CHECK (a IS NOT NULL AND a >= 10 AND a < 20)) FOR VALUES FROM (10) TO (20);
CREATE INDEX mi ON m (b, a);
CREATE TABLE log (what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (TG_TABLE_NAME || TG_OP); RETURN NEW; END $$;
CREATE TRIGGER noted AFTER INSERT ON m FOR EACH ROW EXECUTE FUNCTION note();
CREATE FUNCTION ev() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO public.log VALUES (tg_event || tg_tag); END $$;
CREATE EVENT TRIGGER ev0 ON ddl_command_start EXECUTE FUNCTION ev();
CREATE EVENT TRIGGER ev1 ON ddl_command_end EXECUTE FUNCTION ev();
INSERT INTO m VALUES (1, 'x', 'c'), (11, 'y', 'd');
TRUNCATE log;
SQL
$c->drain;
$c->sql(1, 'CREATE ROLE alice; ALTER TABLE m OWNER TO alice; TRUNCATE log');
$c->drain;
$c->fails(2, 'SET ROLE alice; ALTER TABLE h DETACH PARTITION h1 CONCURRENTLY', '42501', qr/must be owner/, 'who may not, is told so');
$c->sql(2, 'ALTER TABLE h DETACH PARTITION h1 CONCURRENTLY');
$c->sql(3, 'TRUNCATE log; SET search_path = pg_catalog; ALTER TABLE public.m DETACH PARTITION public.m1 CONCURRENTLY');
$c->drain;
is($c->sql(2, 'SELECT string_agg(what, $$ $$ ORDER BY what) FROM log'), 'ddl_command_endALTER TABLE ddl_command_startALTER TABLE', 'event triggers fire once, on one node');
$c->sql(1, 'SET ROLE alice; ALTER TABLE m DETACH PARTITION "M 2" CONCURRENTLY');
is_everywhere('h1', 'table 0', 'by hash');
is_everywhere($_, 'table 1', "$_") for 'm1', '"M 2"';
is_everywhere('m1x', 'partition 1', 'what is below it');
$c->sql(2, "TRUNCATE log; INSERT INTO m1 VALUES ('c', 'x', 2)");
is($c->sql(2, 'SELECT count(*) FROM log'), 0, 'its triggers were the table\'s');
my $temporary = $c->session(1);
$temporary->do('CREATE TEMP TABLE t (a int) PARTITION BY LIST (a); CREATE TEMP TABLE t1 PARTITION OF t FOR VALUES IN (1)');
$temporary->do('ALTER TABLE t DETACH PARTITION t1 CONCURRENTLY');
is($temporary->do("SELECT relispartition FROM pg_class WHERE oid = 't1'::regclass"), 'f', 'of a temporary table');
$temporary->close;

# what is pending goes with its table
{
	my $reader = $c->session(1);
	$reader->do('BEGIN; SELECT count(*) FROM h');
	my $s = $c->session(2);
	$s->send('ALTER TABLE h DETACH PARTITION h0 CONCURRENTLY');
	ok($c->wait_until(sub { state_on(2, 'h0') eq 'pending 0' }, 30), 'pending');
	node_waits(1);
	$c->sql(2, 'SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->finish(30);
	$reader->do('COMMIT');
	$c->sql(3, 'DROP TABLE h');
	is_everywhere('h0', '', 'dropped with the table');
}

# The same, but for the number of constraints.
sub becomes
{
	my ($name, $state, $test) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$c->drain;
	is_deeply([ map { state_on($_, $name) =~ s/ .*//r } 1 .. 3 ], [ ($state) x 3 ], $test);
}

# ---------- what another session of the same node does before it gets the table's lock

sub after_another
{
	my ($first, $command) = @_;
	my $other = $c->session(1);
	$other->do("BEGIN; $first");
	my $s = $c->session(1)->send($command);
	ok($c->wait_for_waiter($s), 'waits for another session of its node');
	$other->do('COMMIT');
	$s->finish(60);
	return $s->error;
}

$c->sql(1, <<'SQL');
CREATE TABLE edge (a int, b int) PARTITION BY LIST (a);
CREATE TABLE edge_p PARTITION OF edge FOR VALUES IN (1) PARTITION BY LIST (b);
CREATE TABLE edge_p1 PARTITION OF edge_p FOR VALUES IN (1);
CREATE TABLE edge_p2 PARTITION OF edge_p FOR VALUES IN (2);
INSERT INTO edge VALUES (1, 1), (1, 2);
SQL
$c->drain;
LockstepCluster::is_error(after_another('CREATE TABLE edge_p0 PARTITION OF edge_p DEFAULT', 'ALTER TABLE edge_p DETACH PARTITION edge_p1 CONCURRENTLY'),
	'55000', qr/cannot detach partitions concurrently when a default partition exists/, 'a default partition');
becomes('edge_p1', 'partition', 'it stays');
is(after_another('DROP TABLE edge_p0', 'ALTER TABLE edge_p DETACH PARTITION edge_p1 CONCURRENTLY'), '', 'none any more, though there was one before');
becomes('edge_p1', 'table', 'it goes, everywhere');
$c->sql(3, 'ALTER TABLE edge_p DETACH PARTITION edge_p2 CONCURRENTLY');
becomes('edge_p2', 'table', 'the other, too');

# ---------- schemas

$c->sql(1, <<'SQL');
CREATE ROLE owner;
CREATE SCHEMA hidden;
CREATE TABLE q (a int) PARTITION BY LIST (a);
CREATE TABLE hidden.q1 PARTITION OF q FOR VALUES IN (1);
CREATE TABLE hidden.q2 PARTITION OF q FOR VALUES IN (2);
ALTER TABLE q OWNER TO owner;
SQL
$c->drain;
$c->sql(2, 'ALTER TABLE q DETACH PARTITION hidden.q1 CONCURRENTLY');
becomes('hidden.q1', 'table', 'the owner of the table may not use the schema of the partition');
$c->fails(3, 'SET ROLE owner; ALTER TABLE q DETACH PARTITION hidden.q2 CONCURRENTLY', '42501', qr/permission denied for schema hidden/, 'and can not do it');
becomes('hidden.q2', 'partition', 'it stays');

# ---------- a partitioned table refers to it

$c->sql(1, <<'SQL');
CREATE TABLE edge_f (k int PRIMARY KEY) PARTITION BY LIST (k);
CREATE TABLE edge_f1 PARTITION OF edge_f FOR VALUES IN (1);
CREATE TABLE edge_f2 PARTITION OF edge_f FOR VALUES IN (2);
INSERT INTO edge_f VALUES (1), (2);
CREATE TABLE edge_r (id int, k int REFERENCES edge_f) PARTITION BY LIST (id);
CREATE TABLE edge_r1 PARTITION OF edge_r FOR VALUES IN (1) PARTITION BY LIST (k);
CREATE TABLE edge_r11 PARTITION OF edge_r1 FOR VALUES IN (1, 2);
SQL
$c->drain;
{
	my $reader = $c->session(1);	# so that the first step is seen alone
	$reader->do('BEGIN; SELECT count(*) FROM edge_f');
	my $writer = $c->session(2);
	$writer->do('BEGIN; INSERT INTO edge_r11 VALUES (1, 1)');
	my $s = $c->session(1)->send('ALTER TABLE edge_f DETACH PARTITION edge_f1 CONCURRENTLY');
	ok($c->wait_until(sub { !grep { $c->sql($_, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") != 1 } 1 .. 3 }, 60), 'pending');
	$writer->query('COMMIT');
	LockstepCluster::is_error($writer->error, '40001', qr/./, 'who refers to it from a partition, not having known, loses');
	$reader->do('COMMIT');
	$s->finish(60);
	is($s->error, '', 'detached');
	becomes('edge_f1', 'table', 'everywhere');
	is($c->sql(3, 'SELECT count(*) FROM edge_r'), 0, 'nobody refers to it');
}
{
	my $writer = $c->session(1);
	$writer->do('BEGIN; INSERT INTO edge_r11 VALUES (1, 2)');
	my $s = $c->session(1)->send('ALTER TABLE edge_f DETACH PARTITION edge_f2 CONCURRENTLY');
	ok($c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " . $s->pid, 1), 'one of its own node, by the name of the partition: it is waited for');
	$writer->do('COMMIT');
	$s->finish(60);
	LockstepCluster::is_error($s->error, '23503', qr/removing partition "edge_f2" violates foreign key constraint/, 'and found');
	becomes('edge_f2', 'partition', 'so it stays');
}

# ---------- the bounds, below the partition

$c->sql(1, <<'SQL');
CREATE TABLE bounds (a int, b text) PARTITION BY RANGE (a);
CREATE TABLE bounds1 (b text, a int) PARTITION BY LIST (b);
CREATE TABLE bounds1x (a int, b text);
ALTER TABLE bounds1 ATTACH PARTITION bounds1x FOR VALUES IN ('x');
ALTER TABLE bounds ATTACH PARTITION bounds1 FOR VALUES FROM (0) TO (10);
INSERT INTO bounds VALUES (1, 'x');
SQL
$c->drain;
$c->sql(2, 'ALTER TABLE bounds DETACH PARTITION bounds1 CONCURRENTLY');
$c->drain;
is($c->sql($_, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'bounds1x'::regclass AND contype = 'c'"),
	'CHECK (((a IS NOT NULL) AND (a >= 0) AND (a < 10)))', "of columns of other numbers (n$_)") for 1 .. 3;
$c->fails(3, "INSERT INTO bounds1 VALUES ('x', 10)", '23514', qr/violates check constraint/, 'they hold');
is($c->sql(1, "INSERT INTO bounds1 VALUES ('x', 9) RETURNING a"), 9, 'and let in what is within');

$c->same('equal in the end');
my ($out, undef, $rc) = $c->ctl('verify');
is($rc, 0, 'lockstepctl verify agrees') or diag($out);

done_testing;
