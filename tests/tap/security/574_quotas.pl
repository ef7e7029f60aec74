# What one role takes of the replicator is bounded: the data of its open transactions
# (max_role_size), and what of it, and of commands that are arriving, is in memory (max_role_memory).
# The transaction that wants more fails with 53400, when it asks; others of that role, and other
# roles, go on.  Neither are they stopped by its sequences, row locks, or function that won't be cancelled.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.max_sequences = 40\n",
	replicator_conf => "max_role_size = 3MB\nmax_role_memory = 200MB\ntransaction_memory = 1MB\napply_patience = 1s\n");
$c->sql(1, 'CREATE ROLE mallory LOGIN; CREATE ROLE alice LOGIN; CREATE TABLE t (id int PRIMARY KEY, v text); GRANT ALL ON t TO PUBLIC; CREATE SCHEMA m AUTHORIZATION mallory');
$c->drain;

sub load { my ($from) = @_; return "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series($from, $from + 1499) i" }

# ---------- bytes of queries

my @s = map { $c->session(1, user => 'mallory') } 1 .. 3;
$_->do('BEGIN') for @s;
$s[0]->do(load(1));
$s[1]->do(load(10_001));
$s[2]->do(load(20_001));
$s[2]->query('COMMIT');
LockstepCluster::is_error($s[2]->error, '53400', qr/open transactions of role "mallory" take more of the replicator than one role may \(3145728 bytes\).*HINT.*max_role_size/s, 'the third transaction of 1.5 MB fails');
$c->sql(1, 'INSERT INTO t VALUES (-1, \'small\')', user => 'alice');
pass('another role goes on');
my $alice = $c->session(2, user => 'alice');
$alice->do(load(30_001));
pass('also with one as large');
$s[0]->do('COMMIT');
$s[1]->do('COMMIT');
pass('what the role had before is committed');
$s[2]->do(load(20_001));
pass('and then there is room for the third');
$c->replicator_logs(qr/LOG.*a transaction is refused: role "mallory" has reached max_role_size/, 'the log says so');

# given back by whatever ends a transaction
for my $end ('ROLLBACK', 'ROLLBACK TO a', 'PERMISSION')
{
	$s[0]->do('BEGIN');
	$s[0]->do('SAVEPOINT a');
	$s[0]->do('DELETE FROM t WHERE id > 40000');
	$s[0]->do(load(40_001));
	if ($end eq 'PERMISSION') { $s[0]->query('SELECT 1/0'); $s[0]->do('ROLLBACK') }
	else { $s[0]->do($end) }
	$s[1]->do('BEGIN');
	$s[1]->do(load(50_001));
	$s[2]->do('BEGIN');
	$s[2]->do('UPDATE t SET v = v WHERE id = 1');
	$s[2]->do('COMMIT');
	$s[1]->do('ROLLBACK');
	$s[0]->do('ROLLBACK') if $end eq 'ROLLBACK TO a';
	pass("$end gives back what it took");
}
$s[0]->do('BEGIN');
$s[0]->do(load(40_001));
$s[0]->close;
ok($c->wait_until(sub { my ($r) = $c->try(1, load(60_001), user => 'mallory'); $c->sql(1, 'SELECT count(*) FROM t WHERE id BETWEEN 60001 AND 61500') == 1500 }), 'so does a session that goes');

# ---------- a command that is arriving

$c->edit_replicator_conf(sub { s/^max_role_memory = .*/max_role_memory = 4MB/m });
$c->ctl('reload');
$c->sql(1, 'CREATE TABLE m.c (i int)', user => 'mallory');
$c->fails(1, "COMMENT ON TABLE m.c IS '" . ('x' x 8_000_000) . "'", '53400',
	qr/open transactions of role "mallory" take more memory of the replicator than one role may \(4194304 bytes\)/, 'a command of 8 MB does not get in', user => 'mallory');
$c->sql(1, 'COMMENT ON TABLE m.c IS \'short\'', user => 'mallory');
$c->sql(1, 'INSERT INTO t VALUES (-2, \'small\')', user => 'alice');

# ---------- sequences

$c->sql(1, join(';', map { "CREATE SEQUENCE m.s$_" } 1 .. 80), user => 'mallory');
$c->sql(1, join(';', (map { "CREATE SEQUENCE a$_" } 1 .. 4), 'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO alice'));
$c->drain;
my $hog = $c->session(1, user => 'mallory');
$hog->send('DO $$ BEGIN LOOP FOR i IN 1 .. 80 LOOP PERFORM nextval(\'m.s\' || i); END LOOP; END LOOP; END $$');
ok($hog->blocked(1), 'one role uses more sequences than there is room for, all the time');
for my $round (1 .. 3)
{
	is($c->sql(1, "SELECT nextval('a$_')", user => 'alice'), $round, "another role's goes on, with its lease (a$_, $round)") for 1 .. 4;
	ok($hog->blocked(0.7), 'meanwhile');
}
$hog->kill;
$c->sql(1, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'mallory'");
$c->drain;
$c->same('all nodes are equal');
done_testing;
