# A node that can't apply what was decided while it was away: its state names the seq, the
# statement, the error and the ways out; the log says it once; and it comes back by
# lockstepctl verify --repair, past that seq, whatever it fails by, in every database.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, fault => 1);
my ($out, $err, $rc);
my @dbs = ('app', 'second');
$c->cluster('make-db', 'second') or die;

for my $db (@dbs)
{
	$c->sql(1, <<'SQL', db => $db);
CREATE FUNCTION not_on_n2(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF i >= 666 AND current_setting('lockstep.node_name') = 'n2' THEN RAISE EXCEPTION 'not here'; END IF;
	IF i = 661 AND current_setting('lockstep.node_name') = 'n2' THEN RAISE disk_full USING MESSAGE = 'not here'; END IF;
	RETURN i;
END $$;
CREATE TABLE indexed (i int PRIMARY KEY, j int);
CREATE INDEX by_function ON indexed (not_on_n2(j));
CREATE TABLE checked (i int PRIMARY KEY, j int);
CREATE UNIQUE INDEX ON checked (not_on_n2(j));
CREATE TABLE plain (i int PRIMARY KEY, v text);
CREATE SEQUENCE s;
INSERT INTO indexed VALUES (1, 1);
INSERT INTO plain SELECT i, 'value' FROM generate_series(1, 100) i;
SQL
}
$c->drain;

sub trouble { return $c->node_status(2)->{trouble} }

# n2 is out, that is done on n1, and n2 fails by it.
sub poison
{
	my ($name, $sql, $statement, %args) = @_;
	$c->ctl('drop', 'n2');
	$c->sql(1, $sql, %args);
	$c->sql(1, "INSERT INTO plain VALUES (1000 + (SELECT max(i) FROM plain), '$name')", %args);
	$c->ctl('attach', 'n2');
	ok($c->wait_until(sub { (trouble() // {})->{times} // 0 >= 2 }), "$name: it is stuck");
	my $t = trouble();
	like($t->{statement} // '', $statement, "$name: by which statement");
	is($t->{database}, $args{db} // 'app', "$name: in which database");
	return $t;
}

# ---------- the server's own trouble: nothing to repair

$c->set(2, 'lockstep_fault.full_disk', "'checked'");
my $t = poison('no room', 'INSERT INTO checked VALUES (3, 660)', qr/^(?:INSERT|COPY).*checked/);
is("$t->{sqlstate} " . @{ $t->{ways_out} }, '53100 1', 'one way out');
($out) = $c->ctl('status');
like($out, qr/ways out: +mend what the server of node n2 says .*lockstepctl attach n2$/m, '... for people');
unlike($out, qr/--repair|lockstepctl join/, '... and no work for nothing');
$c->replicator_logs(qr/WARNING: +\[n2\] seq $t->{seq} .*no room.* \(53100\)\n.*\n.*HINT: +\[n2\] Mend what the server says/, '... in the log, too');
$c->set(2, 'lockstep_fault.full_disk', "''");
ok($c->wait_state(2, 'online'), '... then it comes back by itself');
$c->sql(1, 'DELETE FROM checked');

# ---------- named, once

$t = poison('a row among others', 'BEGIN; INSERT INTO plain SELECT i, repeat(\'x\', i) FROM generate_series(200, 220) i; ' .
	'UPDATE plain SET v = v || \'!\' WHERE i < 30; UPDATE indexed SET j = 666 WHERE i = 1; INSERT INTO plain VALUES (300); COMMIT', qr/UPDATE ONLY public\.indexed SET j = '666'/);
is("$t->{sqlstate} $t->{error}", 'P0001 not here', 'by which error');
is(scalar @{ $t->{ways_out} }, 3, 'and what can be done');
ok($c->wait_until(sub { trouble()->{times} >= 3 }), 'it is tried again');
# it may just be on its way once more
my $status;
ok($c->wait_until(sub { $status = $c->node_status(2); $status->{reason} =~ /could not apply seq $t->{seq}: not here \(P0001\)/ }), 'the reason') or diag($status->{reason});
is($status->{cause}, 'apply_failed', 'the name of the cause');
($out) = $c->ctl('status');
like($out, qr/node n2 cannot apply seq $t->{seq} of database app \(tried \d+ times.*statement: UPDATE.*error: +P0001: not here.*verify --repair n2.*lockstepctl join n2/s, 'the same for people');
my @told = $c->replicator_log =~ /seq $t->{seq} of database "app" cannot be applied here: not here \(P0001\)/g;
is(scalar @told, 1, 'the log says it once');
my @moves = $c->replicator_log =~ /\[n2\] node (?:is back|was dropped while it caught up)/g;
cmp_ok(scalar @moves, '<=', 2, 'and has no loop of lines');

# ---------- a repair that takes longer than --timeout says that the node is out

{
	my $lock;

	# stopped, so that it does not yield; it may have had to before
	ok($c->wait_until(sub {
		$lock = $c->session(2);
		$lock->query('SET lockstep.replicate = off; BEGIN; LOCK TABLE plain');
		my $pid = $lock->pid;
		kill 'STOP', $pid;
		my $has = $c->sql_local(2, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND relation = 'plain'::regclass AND granted");
		kill 'CONT', $pid unless $has;
		return $has;
	}), 'a table is locked');
	($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2', '--timeout=3');
	is($rc, 2, 'a repair that is not done in time') or diag("$out\n$err");
	like($err, qr/not done within --timeout\nHINT: +Node n2 may still be out: .*lockstepctl attach n2/, '... says who is out');
	ok($c->node_status(2)->{administrative}, '... which it is');
	kill 'CONT', $lock->pid;
	$lock->query('ROLLBACK');
	$c->ctl('attach', 'n2', '--timeout=1');
	ok($c->wait_until(sub { (trouble() // {})->{times} // 0 >= 2 }), '... until it is attached, and is stuck again');
}

# ---------- repaired: the index can't be kept, the node is in

$c->sql_local(3, 'CREATE INDEX only_there ON plain (v)');    # a definition that differs is looked at twice
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 1, 'the index differs') or diag("$out\n$err");
my %counts = map { $_ => 1 } $out =~ /^database app: (\d+ tables)/mg;
is(scalar keys %counts, 1, 'and what is looked at twice is counted once') or diag($out);
$c->sql_local(3, 'DROP INDEX only_there');
like($out, qr/repaired: node n2 stood at seq \d+ and has now what the others had at seq \d+/, 'it went on past the seq');
like($out, qr/index that is invalid there now.*by_function/, 'without the index');
ok($c->wait_state(2, 'online'), 'it is in');
is(trouble(), undef, 'and has no trouble any more');
is($c->sql(2, 'SELECT j FROM indexed WHERE i = 1'), 666, 'with the row');
$c->sql(3, 'INSERT INTO indexed VALUES (2, 667)');
$c->drain;
$c->sql(1, 'DELETE FROM indexed WHERE j > 600');
$c->sql(1, 'DROP INDEX by_function');
($out, $err, $rc) = $c->ctl('verify');
is($rc, 0, 'equal again') or diag("$out\n$err");

# ---------- the same raised by a function: the data's

$t = poison('raised', 'INSERT INTO checked VALUES (4, 661)', qr/^(?:INSERT|COPY).*checked/);
is("$t->{sqlstate} $t->{error} " . @{ $t->{ways_out} }, '38000 not here 3', 'a function says so: it is not the server\'s');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 2, 'a row that a unique index refuses');
$c->sql(1, 'DELETE FROM checked');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'repaired') or diag("$out\n$err");
ok($c->wait_state(2, 'online'), 'it is in');

# ---------- a unique index can't be left out: said, and possible when the row is gone

poison('a unique index', 'INSERT INTO checked VALUES (1, 666)', qr/^(?:INSERT|COPY).*checked/);
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 2, 'a row that can not be entered');
like($err, qr/not here.*cannot be entered on node n2: mend that there/s, 'is said');
ok(!$c->node_status(2)->{administrative}, 'and the node is tried again');
is($c->sql(2, 'SELECT count(*) FROM lockstep.progress WHERE slot < 0', db => $_), 0, "no database is done: $_") for @dbs;
$c->sql(3, 'UPDATE checked SET j = 5');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'without that row it can') or diag("$out\n$err");
is($c->sql(2, 'SELECT j FROM checked'), 5, 'it has what the others have');

# ---------- in the second database, written meanwhile, with sequences and large objects; out by command

$c->ctl('drop', 'n2');
$c->sql(1, "SELECT nextval('s'); SELECT lo_from_bytea(4711, 'large')", db => $_) for @dbs;
$c->sql(1, 'INSERT INTO checked VALUES (7, 700)', db => 'second');
$c->sql(1, 'DELETE FROM plain WHERE i < 10; UPDATE plain SET v = NULL WHERE i = 50', db => $_) for @dbs;
$c->sql(1, 'DELETE FROM checked', db => 'second');
my $script = $c->file('load.sql', "\\set id random(20, 90)\nUPDATE plain SET v = 'load ' || :id WHERE i = :id;\n");
my @load = map { $c->pgbench_start($_, '-n', '-c', 2, '-T', 2, '--max-tries=0', '-f', $script) } 1, 3;
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'two databases, under load') or diag("$out\n$err");
$_->{handle}->finish for @load;
unlike(join('', map { ${ $_->{text} } } @load), qr/aborted/, 'nobody was disturbed');
$c->same("equal: $_", db => $_) for @dbs;
is($c->sql(2, 'SELECT count(*) FROM lockstep.progress WHERE slot < 0', db => $_), 0, "no mark is left: $_") for @dbs;
$c->sql(2, "INSERT INTO plain VALUES (5000, 'works')", db => $_) for @dbs;
$c->same("it works: $_", db => $_) for @dbs;

# ---------- restarted while it is stuck; several thousand transactions are jumped over

$c->ctl('drop', 'n2');
$c->sql(1, 'INSERT INTO checked VALUES (8, 800)');
my $many = $c->file('many.sql', "\\set id random(20, 90)\nUPDATE plain SET v = 'many ' || :id WHERE i = :id;\n");
$c->pgbench([1], '-n', '-c', 4, '-t', 1100, '--max-tries=100', '-f', $many);
$c->sql(1, 'DELETE FROM checked');
$c->cluster('stop-node', 2);
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_until(sub { ($c->try(2, 'SELECT 1'))[0] // '' eq '1' }), 'its server has been restarted');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'repaired, past more than the ring of turns has') or diag("$out\n$err");
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_state(2, 'online', 30), 'a crash afterwards loses nothing of it');
$c->same("equal: $_", db => $_) for @dbs;

# ---------- DDL lies between: nothing is changed, and the way is said

$c->ctl('drop', 'n2');
$c->sql(1, 'INSERT INTO checked VALUES (9, 900); ALTER TABLE plain ADD extra int; DELETE FROM checked');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 2, 'other definitions are not repaired') or diag("$out\n$err");
like($err, qr/lockstep\.replicate = off.*lockstepctl journal/s, 'what can be done');
is($c->node_status(2)->{state}, 'dropped', 'it is out as it was');
$c->sql_local(2, 'ALTER TABLE plain ADD extra int');
($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'then it is repaired') or diag("$out\n$err");
$c->same("in the end: $_", db => $_) for @dbs;

done_testing();
