# Edges of a transaction's end: what would fail only after the verdict, settings
# changed inside the transaction, a timeout that comes too late, SQL over the
# replication protocol, backends killed at the wait for the verdict and the turn.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 2, conf => "max_prepared_transactions = 2\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE other (id int PRIMARY KEY)');
$c->drain;

# Of n1's server.
sub boot { return ($c->try(1, 'SELECT boot FROM lockstep.node_info()'))[0] }

# After a kill -9 of a backend.
sub online_again
{
	my ($before) = @_;
	ok($c->wait_until(sub { my $now = boot(); $now ne '' && $now ne $before }), 'the server has started anew');
	$c->wait_state(1, 'online');
}

sub there
{
	my ($id, $expected, $name) = @_;
	$c->drain;
	is($c->sql($_, "SELECT count(*) FROM t WHERE id = $id"), $expected, "$name (n$_)") for 1, 2;
}

# ---------- a walsender with a database takes SQL, too

system("$LockstepCluster::bindir/psql", '-XAtq', '-d', $c->conninfo(1) . ' replication=database',
	'-c', q{INSERT INTO t VALUES (1, 'over the replication protocol')});
is($?, 0, 'INSERT over the replication protocol');
there(1, 1, 'and it is replicated');

# ---------- lockstep.replicate = off at COMMIT, after a change that has to be forwarded

my $s = $c->session(1);
$s->do(q{BEGIN; INSERT INTO t VALUES (2, 'before'); SET LOCAL lockstep.replicate = off; COMMIT});
there(2, 1, 'a row that waits for more of its kind is forwarded after SET lockstep.replicate = off');
$s->do(q{BEGIN; INSERT INTO t VALUES (3, 'before'); SET LOCAL lockstep.replicate = off});
$s->query(q{PREPARE TRANSACTION 'x'});
LockstepCluster::is_error($s->error, '0A000', qr/cannot PREPARE/, 'nor does PREPARE TRANSACTION let it escape');
$s->do('ROLLBACK');
there(3, 0, 'it is rolled back');

# ---------- ON COMMIT actions that fail, fail before the question

$s->do('CREATE TEMP TABLE a (id int PRIMARY KEY) ON COMMIT DELETE ROWS; CREATE TEMP TABLE b (id int)');
$s->do(q{BEGIN; INSERT INTO t VALUES (4, 'x'); ALTER TABLE b ADD FOREIGN KEY (id) REFERENCES a});
$s->query('COMMIT');
LockstepCluster::is_error($s->error, '0A000', qr/unsupported ON COMMIT/, 'ON COMMIT that fails');
there(4, 0, 'is rolled back everywhere');
$s->do(q{BEGIN; CREATE TEMP TABLE d (id int) ON COMMIT DROP; INSERT INTO a VALUES (1); INSERT INTO d VALUES (1);
	INSERT INTO t VALUES (5, 'x'); COMMIT});
there(5, 1, 'ON COMMIT that succeeds');
is($s->query(q{SELECT count(*), to_regclass('d') IS NULL FROM a}), '0|t', 'has been done');

# ---------- statement_timeout fires when the verdict is there already

my $replicator = $c->replicator_pid;
my $watch = $c->session(1);
$s->do(q{INSERT INTO t VALUES (6, 'connects')});
$s->do("SET statement_timeout = '2s'");		# it is to be stopped before
kill 'STOP', $replicator;
my $sent = time;
$s->send(q{INSERT INTO t VALUES (7, 'late')});
ok($c->wait_until(sub { $watch->query('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $s->pid) eq 'Extension' }), 'waits for the verdict');
kill 'STOP', $s->pid;
kill 'CONT', $replicator;
$c->wait_until(sub { $c->sql(2, 'SELECT count(*) FROM t WHERE id = 7') == 1 });
ok($c->wait_until(sub { time > $sent + 2.5 }), 'its time is over');
kill 'CONT', $s->pid;
$s->finish;
is($s->error, '', 'a timeout that comes too late is none');
is($s->query('SELECT 1'), 1, 'and answers no later query');
is($s->error, '', 'nor fails it');
$s->do('SET statement_timeout = 0');
there(7, 1, 'it is committed');

# ---------- functions of constraints that write: the origin's effect is the only one

$c->sql(1, <<'SQL');
CREATE TABLE log (x int);
CREATE FUNCTION writes(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (i); RETURN true; END $$;
CREATE FUNCTION hidden(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM public.writes(i); RETURN i; END $$;
CREATE DOMAIN dom AS int CHECK (writes(VALUE));
CREATE TABLE with_check (id int PRIMARY KEY CHECK (writes(id)));
CREATE TABLE with_domain (id int PRIMARY KEY, d dom);
CREATE TABLE with_array (id int PRIMARY KEY, d dom[]);
CREATE TABLE with_generated (id int PRIMARY KEY, g int GENERATED ALWAYS AS (hidden(id)) STORED);
CREATE TABLE with_plain (id int PRIMARY KEY CHECK (id > 0));
SQL
$c->sql(1, "INSERT INTO with_$_") for 'check VALUES (1)', 'check VALUES (2), (3)', 'domain VALUES (1, 1)', 'domain VALUES (2, 2), (3, 3)', "array VALUES (1, '{1}')";
$c->sql(1, $_) for 'UPDATE with_check SET id = 10 WHERE id = 1', 'UPDATE with_domain SET d = 10 WHERE id = 1';
$c->same('checks that write');
$c->fails(1, "INSERT INTO with_$_", '0A000', qr/constraints, indexes or defaults change table "log"/, "refused: $_")
	for "array VALUES (2, '{2}'), (3, '{3}')";
# a generated value travels, so its function is called at the origin only
$c->sql(1, 'INSERT INTO with_generated VALUES (1)');
$c->sql(1, 'INSERT INTO with_plain VALUES (1), (2)');
$c->drain;
$c->same('constraints that write');

# ---------- kill -9 of a backend, which restarts the server

sub victim
{
	my ($sql) = @_;
	my $v = $c->session(1);
	$v->do('SET lockstep.commit_wait = ordered; INSERT INTO other VALUES (' . $v->pid . ')');
	return $v;
}

my $boot = boot();
my $v = victim();
kill 'STOP', $replicator;
$v->send(q{INSERT INTO t VALUES (8, 'asked')});
ok($v->blocked(0.2), 'waits for the verdict');
kill 'KILL', $v->pid;
kill 'CONT', $replicator;
$v->finish;
isnt($v->error, '', 'kill -9 at the wait for the verdict');
online_again($boot);
$c->drain;
$c->same('after it');

$boot = boot();
$v = victim();
my $other = $c->session(2);
my @apply = $c->apply_pids(1);
kill 'STOP', @apply;
$other->do(q{SET lockstep.commit_wait = ordered; INSERT INTO t VALUES (9, 'comes before')});
my $decided = $c->status->{journal}{decided};
$v->send(q{INSERT INTO t VALUES (10, 'waits for its turn')});
ok($c->wait_until(sub { $c->status->{journal}{decided} > $decided }), 'it is decided');
ok($v->blocked(0.3), 'waits for its turn');
kill 'KILL', $v->pid;
kill 'CONT', @apply;
$v->finish;
isnt($v->error, '', 'kill -9 in the turn');
online_again($boot);
there(10, 1, 'what was decided is there');
$c->same('after that');

done_testing();
