# NOTIFY and pg_notify reach the listeners of every node, at commit, in commit
# order, once: alone and with rows, from functions and triggers, without what was
# rolled back, and also on the origin when its session could not commit itself.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

# 17 and later can have a small queue
my $small = LockstepCluster->version >= 17;
my $c = LockstepCluster->new(nodes => 3, conf => $small ? "max_notify_queue_pages = 64\n" : '');
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
my %listener = map { $_ => $c->session($_) } $c->all;
$_->do('LISTEN a; LISTEN "B c"; LISTEN done') for values %listener;
my $round = 0;

# What a listener got since the last call: "channel payload" lines.  All that was
# decided before is delivered before the mark that is sent now.
sub heard
{
	my ($node) = @_;
	my $s = $listener{$node};
	my $text = '';
	my $mark = "mark $round";
	$c->wait_until(sub { $text .= $s->query('SELECT 1 WHERE false') . "\n"; return $text =~ /"done" with payload "$mark"/ }, 30)
		or diag("n$node never heard \"$mark\":\n$text");
	$text =~ s/^Asynchronous notification "done".*\n//mg;
	$text =~ s/ received from server process with PID \d+\.$//mg;
	$text =~ s/^Asynchronous notification //mg;
	$text =~ s/^\s*\n//mg;
	return $text;
}

sub everywhere
{
	my ($expected, $name) = @_;
	$round++;
	$c->drain;
	$c->sql(1, "NOTIFY done, 'mark $round'");
	is(heard($_), $expected, "$name: n$_") for $c->all;
}

# ---------- what is delivered

$c->sql(1, "NOTIFY a, 'alone'");
everywhere(qq{"a" with payload "alone"\n}, 'a transaction that only notifies');
$c->sql(2, q{NOTIFY a; SELECT pg_notify('B c', 'it''s \ "quoted" ü'); SELECT pg_notify('a', NULL)});
everywhere(qq{"a"\n"B c" with payload "it's \\ "quoted" ü"\n"a"\n}, 'no payload, other characters');

$c->sql(3, "BEGIN; NOTIFY a, '1'; NOTIFY a, '2'; NOTIFY a, '1'; NOTIFY \"B c\", '1'; SELECT pg_notify('a', '2'); COMMIT");
everywhere(qq{"a" with payload "1"\n"a" with payload "2"\n"B c" with payload "1"\n}, 'duplicates are folded, the order is kept');

$c->sql(1, <<'SQL');
BEGIN;
NOTIFY a, 'before';
SAVEPOINT s;
INSERT INTO t VALUES (1, 'gone');
NOTIFY a, 'gone';
ROLLBACK TO s;
SAVEPOINT s2;
NOTIFY a, 'kept';
RELEASE s2;
DO $$ BEGIN
	BEGIN
		PERFORM pg_notify('a', 'gone, too');
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		NOTIFY a, 'from a block';
	END;
END $$;
COMMIT;
BEGIN; NOTIFY a, 'rolled back'; ROLLBACK;
SQL
everywhere(qq{"a" with payload "before"\n"a" with payload "kept"\n"a" with payload "from a block"\n}, 'savepoints and rollbacks');

$c->try(1, "BEGIN; NOTIFY a, 'failed'; INSERT INTO t VALUES (1, 'x'); SELECT 1/0; COMMIT");
$c->fails(1, "SELECT pg_notify('a', repeat('x', 8000))", '22023', qr/payload string too long/, 'a payload that is too long');
$c->fails(1, "SELECT pg_notify('', 'x')", '22023', qr/channel name/, 'no channel');
everywhere('', 'what failed is not delivered');

$c->sql(1, <<'SQL');
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('a', TG_NAME || ' ' || NEW.id); RETURN NULL; END $$;
CREATE TRIGGER row_trigger AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell();
CREATE CONSTRAINT TRIGGER zdeferred AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tell();
SQL
$c->drain;
$c->sql(2, "BEGIN; INSERT INTO t VALUES (1, 'x'), (2, 'y'); NOTIFY a, 'between'; COMMIT");
everywhere(join('', map { qq{"a" with payload "$_"\n} } 'row_trigger 1', 'row_trigger 2', 'between', 'zdeferred 1', 'zdeferred 2'),
	'triggers, once');
$c->sql(3, <<'SQL');
CREATE FUNCTION tells(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'NOTIFY a, ' || quote_literal(i || clock_timestamp()::text); RETURN true; END $$;
CREATE FUNCTION tells2(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_notify('a', i || clock_timestamp()::text); RETURN true; END $$;
CREATE TABLE checked (id int PRIMARY KEY CHECK (tells(id)) CHECK (tells2(id)));
INSERT INTO checked VALUES (7);
SQL
my %told;
$round++;
$c->sql(1, "NOTIFY done, 'mark $round'");
$told{$_} = heard($_) for $c->all;
like($told{1}, qr/\A"a" with payload "7[^\n]*"\n"a" with payload "7[^\n]*"\n\z/, 'notifications of a constraint');
is($told{$_}, $told{1}, "are the origin's, once, on n$_") for 2, 3;

$c->sql(1, "BEGIN READ ONLY; NOTIFY a, 'read only'; COMMIT");
$c->sql(2, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t; NOTIFY a, 'serializable'; COMMIT");
everywhere(qq{"a" with payload "read only"\n"a" with payload "serializable"\n}, 'in transactions of other kinds');

like($c->sql(1, "BEGIN; NOTIFY a, 'b'; SELECT form, reason, query FROM lockstep.forwarded; ROLLBACK"),
	qr/^statement\|a function with an effect other than rows\|SELECT pg_catalog.pg_notify/m, 'it is forwarded as a call');

# ---------- the row is there when its notification comes

my $ok = 1;
for my $id (100 .. 119)
{
	$c->sql(1 + $id % 3, "BEGIN; INSERT INTO t VALUES ($id, 'x'); COMMIT");
	for my $node ($c->all)
	{
		my $got = '';
		$c->wait_until(sub { $got .= $listener{$node}->query('SELECT 1 WHERE false'); return $got =~ /row_trigger $id"/ }, 30);
		$ok &&= $listener{$node}->query("SELECT count(*) FROM t WHERE id = $id") == 1;
	}
}
ok($ok, 'who hears of a row sees it');
$round++;
$c->drain;
$c->sql(1, "NOTIFY done, 'mark $round'");
heard($_) for $c->all;

# ---------- one order on all nodes

my $script = $c->file('notify.sql', "SELECT pg_notify('a', 'n' || :node || ' ' || :client_id || ' ' || random());\n");
my $notifying = $c->file('both.sql', <<'SQL');
\set id random(1000, 1000000000)
BEGIN;
INSERT INTO t VALUES (:id, 'load') ON CONFLICT DO NOTHING;
NOTIFY a, 'and';
COMMIT;
SQL
my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-f', $notifying, '-D', "node=$_", '-c', 4, '-t', 50) } $c->all;
for my $run (@runs)
{
	$run->{handle}->finish;
	is(LockstepCluster::processed(${ $run->{text} }), 200, 'load') or diag(${ $run->{text} });
}
$c->drain;
$round++;
$c->sql(1, "NOTIFY done, 'mark $round'");
my %order = map { $_ => heard($_) } $c->all;
cmp_ok(scalar(() = $order{1} =~ /\n/g), '>=', 600, 'all are delivered');
is($order{$_}, $order{1}, "n$_ has heard them in the order of n1") for 2, 3;
$c->same('with the load');

# ---------- the origin's session can't commit what was decided

my $other = $c->session(2);
my $victim = $c->session(1);
$_->do('SET lockstep.commit_wait = ordered') for $other, $victim;
$victim->do("NOTIFY done, 'connects'");
$c->drain;
my @apply = $c->apply_pids(1);
kill 'STOP', @apply;
$other->do("NOTIFY a, 'comes before'");
my $decided = $c->status->{journal}{decided};
$victim->send("BEGIN; INSERT INTO t VALUES (5, 'x'); NOTIFY a, 'decided'; COMMIT");
ok($c->wait_until(sub { $c->status->{journal}{decided} > $decided }), 'it is decided');
ok($victim->blocked(0.3), 'waits for its turn');
$c->sql(1, 'SELECT pg_terminate_backend(' . $victim->pid . ')');
$victim->finish;
isnt($victim->error, '', 'is terminated while it waits');
kill 'CONT', @apply;
everywhere(join('', map { qq{"a" with payload "$_"\n} } 'comes before', 'row_trigger 5', 'decided', 'zdeferred 5'),
	'what was decided is delivered, on the origin by apply');
$c->same('and its row is there');

# ---------- the queue is full

SKIP: {
	skip 'max_notify_queue_pages can\'t be set', 12 unless $small;
	my $pages = "INSERT INTO t VALUES (900, 'x'); SELECT count(pg_notify('filled', repeat('x', 7000) || i)) FROM generate_series(1, %d) i";
	$c->fails(1, sprintf("BEGIN; $pages; COMMIT", 100), '54000', qr/too many notifications in the NOTIFY queue of node "n1"/, 'one transaction with more than the queue holds');
	my $stuck = $c->session(2);
	$stuck->do('LISTEN filled');
	$stuck->do('BEGIN');
	$stuck->query('SELECT 1');
	$c->sql(1, sprintf($pages, 40) =~ s/900/901/r);
	$c->fails(1, sprintf("BEGIN; $pages; COMMIT", 30), '54000', qr/too many notifications in the NOTIFY queue of node "n2"/, 'a listener on another node has not read for long');
	is($c->node_status($_)->{state}, 'online', "n$_ stays online") for $c->all;
	$c->sql(3, sprintf($pages, 10) =~ s/900/902/r);
	$c->ctl('drop', 'n2');
	$c->sql(1, "INSERT INTO t VALUES (903, 'x'); NOTIFY a, 'few'");
	$c->sql(1, sprintf($pages, 20) =~ s/900/904/r);
	$c->ctl('attach', 'n2');
	ok($c->wait_until(sub { $c->node_status(2)->{state} eq 'online' }, 30), 'a node without room for what was committed meanwhile is attached') or diag($c->reason(2));
	like($c->node_log(2), qr/WARNING: .*notifications of other nodes are left out on node "n2": its NOTIFY queue is full/, 'and says what it lacks');
	$stuck->do('ROLLBACK');
	$stuck->do('UNLISTEN *');
	$c->sql(3, "NOTIFY done, 'reads'");
	$round++;
	$c->sql(1, "NOTIFY done, 'mark $round'");
	heard($_) for $c->all;
	$c->sql(1, "NOTIFY a, 'again'");
	everywhere(qq{"a" with payload "again"\n}, 'afterwards they are delivered again');
	$c->same('rows were never left out');
}

# ---------- what is refused

SKIP: {
	skip 'contrib/tcn is not installed', 2 unless $c->sql(1, "SELECT count(*) FROM pg_available_extensions WHERE name = 'tcn'");
	$c->sql(1, 'CREATE EXTENSION tcn; CREATE TRIGGER tcn AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION triggered_change_notification(\'a\')');
	$c->fails(1, 'INSERT INTO t VALUES (6)', '0A000', qr/triggered_change_notification/, 'a notification that can\'t be seen');
	$c->sql(1, 'DROP EXTENSION tcn CASCADE');
	everywhere('', 'and nobody hears it');
}

done_testing;
