# What one user's functions do when they are called on another node does not stop the
# others: a role can't take all apply connections, a transaction that is executed there
# far longer than at its origin while others wait is rolled back, and the log and
# lockstepctl status say who.  Without it eight sleeping transactions stopped every commit.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes 'time';

my $c = LockstepCluster->new(nodes => 3, replicator_conf => "apply_patience = 1h\n");
my @roles = qw(mallory eve alice);
$c->sql(1, join ';', map { "CREATE ROLE $_ LOGIN" } @roles);
$c->sql(1, 'CREATE TABLE quick (id int PRIMARY KEY, v int); GRANT ALL ON quick TO PUBLIC; CREATE SCHEMA m; GRANT ALL ON SCHEMA m TO PUBLIC');
$c->sql(1, <<'SQL');
CREATE FUNCTION m.slow_elsewhere(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF i >= 700 AND current_setting('lockstep.node_name') <> 'n1' THEN PERFORM pg_sleep(i - 700); END IF;
	RETURN i;
END $$;
CREATE TABLE m.slow (i int PRIMARY KEY, j int);
CREATE INDEX ON m.slow (m.slow_elsewhere(j));
GRANT ALL ON m.slow TO PUBLIC;
SQL
$c->drain;

my $next = 0;

# So many sessions of a role whose transactions sleep on the other nodes.
sub sleepers
{
	my ($role, $n, $seconds, $table) = @_;
	my @s = map { $c->session(1, user => $role) } 1 .. $n;
	$_->send('INSERT INTO ' . ($table // 'm.slow') . ' VALUES (' . ++$next . ', ' . (700 + $seconds) . ')') for @s;
	return @s;
}

# How long the longest of some commits of that role took.
sub slowest
{
	my ($role, $commits) = @_;
	my $longest = 0;
	for (1 .. $commits)
	{
		my $from = time;
		$c->sql(1, 'INSERT INTO quick VALUES (' . ++$next . ', 0)', user => $role, timeout => 60);
		$longest = time - $from if time - $from > $longest;
	}
	return $longest;
}

sub busy { return $c->sql(2, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND wait_event = 'PgSleep'") }

sub end_sleepers
{
	$c->sql(1, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename IN ('mallory', 'eve')");
	ok($c->wait_until(sub { busy() == 0 }), 'nothing is left of those whose sessions are ended');
	return;
}

# ---------- one role

my @sleepers = sleepers('mallory', 10, 90);
ok($c->wait_until(sub { busy() >= 6 }), 'ten of her transactions sleep, or wait, elsewhere');
my $took = slowest('alice', 3);
cmp_ok($took, '<', 30, sprintf 'others commit meanwhile: %.2f s at most', $took);
$took = slowest('mallory', 3);
cmp_ok($took, '<', 30, sprintf 'and so does she in another table: %.2f s at most', $took);
ok($c->wait_until(sub { $c->reason(2) =~ /wait for an apply connection to database "app".*role "mallory" holds \d of 12/ }), 'status says who has them');
$c->edit_replicator_conf(sub { s/^apply_patience = .*/apply_patience = 1s/m });
$c->ctl('reload');
sub ended { return $c->node_status(2)->{overlong_ended} + $c->node_status(3)->{overlong_ended} }
ok($c->wait_until(sub { ended() >= 3 }), 'as many of hers are rolled back as others wait: status says how many');
my @canceled;
ok($c->wait_until(sub { @canceled = grep { !$_->blocked(0) } @sleepers }), 'and their clients told');
$_->finish for @canceled;
LockstepCluster::is_error($canceled[0]->error, '57014', qr/node "n[23]" has executed it for too long while others wait.*DETAIL.*m\.slow.*role "mallory".*HINT.*apply_patience/s, 'with an error that says why');
$c->replicator_logs(qr/WARNING.*role "mallory" there \(process \d+\) has taken \d/, 'the log says who');
end_sleepers();

# ---------- several roles and tables: what is reserved is taken, too

$c->sql(1, "CREATE TABLE m.slow$_ (LIKE m.slow INCLUDING ALL); GRANT ALL ON m.slow$_ TO PUBLIC") for 1 .. 3;
@sleepers = map { my $n = $_; map { sleepers($_, 4, 90, "m.slow$n") } qw(mallory eve) } 1 .. 3;
ok($c->wait_until(sub { busy() >= 7 }), 'two roles sleep there');
$took = slowest('alice', 3);
cmp_ok($took, '<', 45, sprintf 'somebody else gets through: %.1f s', $took);
end_sleepers();

# ---------- who takes long at the origin, too, is not disturbed

$c->sql(1, <<'SQL');
CREATE FUNCTION m.slow(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN IF i >= 700 THEN PERFORM pg_sleep(i - 700); END IF; RETURN i; END $$;
CREATE TABLE m.everywhere (i int PRIMARY KEY, j int);
CREATE INDEX ON m.everywhere (m.slow(j));
GRANT ALL ON m.everywhere TO PUBLIC;
SQL
my @long = map { $c->session(1, user => 'mallory') } 1 .. 12;
$_->send('INSERT INTO m.everywhere VALUES (' . ++$next . ', 702)') for @long;
$_->finish(60) for @long;
is((join '', map { $_->error } @long), '', 'twelve that take 2 s everywhere: none is rolled back');
$c->drain;
$c->same('all nodes are equal');
done_testing;
