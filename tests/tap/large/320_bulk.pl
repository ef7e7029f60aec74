# Large transactions: 300,000 rows by COPY, INSERT ... SELECT, UPDATE and DELETE, by row
# and by statement, keep the memory of the replicator and of the backend within a
# bound that does not depend on the number of rows, and arrive whole; with
# savepoints, too.  Their files are gone when they are rolled back, and when the
# replicator starts.  LOCKSTEP_LONG: 1,500,000 rows.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $rows = $ENV{LOCKSTEP_LONG} ? 1_500_000 : 300_000;
my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.max_row_keys = 5000\n", replicator_conf => "transaction_memory = 1MB\n");
my $t = 600;

# What the bound is made of: see "Large transactions" in docs/operating.md.
my $replicator_bound = 40 * 1024;	# kB
my $backend_bound = 6 * 1024;		# kB, above what it had

sub bounded
{
	my ($name, $session, $base) = @_;
	my $peak = $c->memory_kb($c->replicator_pid, 'VmHWM');
	$c->replicator_is_sanitized ? pass("$name: memory of a sanitized replicator is not looked at") : cmp_ok($peak, '<', $replicator_bound, "$name: memory of the replicator is bounded ($peak kB)");
	return unless $session;
	# anonymous: not what is mapped of shared_buffers
	my $now = $c->memory_kb($session->pid, 'RssAnon') - $base;
	cmp_ok($now, '<', $backend_bound, "$name: and that of the backend (+$now kB)");
	return;
}

$c->sql(1, 'CREATE TABLE b (id int PRIMARY KEY, k int, v text)');
$c->sql(1, "INSERT INTO b SELECT i, 0, 'x' FROM generate_series(-100, -1) i");
$c->drain;
my $s = $c->session(1);
$s->do("UPDATE b SET k = 1 WHERE id = -1");
my $base = $c->memory_kb($s->pid, 'RssAnon');

my $file = $c->file('rows', join('', map { "$_\t$_\tvalue number $_ of many\n" } 1 .. $rows));
$s->do("COPY b FROM '$file'", $t);
bounded('COPY', $s, $base);
ok($c->wait_sql(2, 'SELECT count(*) FROM b', $rows + 100), 'and the other node has it');
is($c->bodies, 1, 'its queries are in a file of the journal');
my ($out, $err, $rc) = $c->ctl('journal', '--from=' . $c->status->{journal}{last}, '--journal-directory', "$c->{dir}/journal");
is($rc, 0, 'the journal is printed') or diag($err);
like($out, qr/queries in file .*\n  1  copy, \d+ rows: COPY public\.b/, 'with the queries of that file');
($out) = $c->ctl('journal', '--json', '--from=' . $c->status->{journal}{last}, '--limit=1', '--journal-directory', "$c->{dir}/journal");
my $queries = eval { JSON::PP::decode_json($out)->{queries} } // [];
cmp_ok(scalar @$queries, '>', 10, 'for programs, too');
is(eval { my $sum = 0; $sum += $_->{rows} for @$queries; $sum }, $rows, 'all of them');

my $fds = '/proc/' . $c->replicator_pid . '/fd';
ok($c->wait_until(sub { !grep { (readlink // '') =~ /\.body/ } glob "$fds/*" }), 'and the replicator does not keep it open for the session, which is idle now');

# Row form: arrays of rows.
my $tenth = int($rows / 10);
$s->do('SET lockstep.statement_rows = -1');
$s->do("UPDATE b SET k = k + 1, v = v || '!' WHERE id <= $tenth", $t);
bounded('UPDATE by row', $s, $base);
$s->do('RESET lockstep.statement_rows');
$s->do('UPDATE b SET k = k + 1', $t);
bounded('UPDATE as a statement', $s, $base);
$c->same('nodes are equal after the updates');

# Savepoints: what was stored is taken back from the middle of the file.
$s->do('BEGIN');
$s->do("INSERT INTO b SELECT i, 1, 'a' FROM generate_series($rows + 1, $rows + 40000) i", $t);
$s->do('SAVEPOINT a');
$s->do("INSERT INTO b SELECT i, 1, repeat('b', 50) FROM generate_series($rows + 40001, $rows + 80000) i", $t);
$s->do("SET lockstep.statement_rows = -1; DELETE FROM b WHERE id BETWEEN 1 AND 5000", $t);
$s->do('ROLLBACK TO a');
cmp_ok($c->bodies, '>=', 1, 'it is being stored');
$s->do("INSERT INTO b SELECT i, 2, 'c' FROM generate_series($rows + 40001, $rows + 50000) i", $t);
$s->do('COMMIT', $t);
ok($c->wait_sql(2, "SELECT string_agg(v || n, ',' ORDER BY v) FROM (SELECT v, count(*) AS n FROM b WHERE id > $rows GROUP BY v) x", 'a40000,c10000'),
	'a savepoint takes back what was stored');
bounded('savepoints', $s, $base);

# Rolled back, by the client and by a conflict.
my $before = $c->bodies;
$s->do('BEGIN');
$s->do("INSERT INTO b SELECT i, 1, repeat('d', 20) FROM generate_series($rows + 60001, $rows + 120000) i", $t);
ok($c->wait_until(sub { $c->bodies > $before }, 30), 'it goes to disk');
$s->do('ROLLBACK');
ok($c->wait_until(sub { $c->bodies == $before }, 30), 'and leaves nothing there when it is rolled back');

$s->do('BEGIN');
$s->do("INSERT INTO b SELECT i, 1, repeat('e', 20) FROM generate_series($rows + 60001, $rows + 120000) i", $t);
$s->do('UPDATE b SET k = 7 WHERE id = -5');
$c->sql(2, "UPDATE b SET k = 8 WHERE id = -5");
$s->query('COMMIT', $t);
$err = $s->error;
like($err, qr/40001/, 'a large one loses against an earlier small one');
ok($c->wait_until(sub { $c->bodies == $before }, 30), 'and leaves nothing either');
$s->finish;
$c->same('nodes are equal');

# DELETE by row, on the other node; the replicator starts anew while one is open.
$s = $c->session(2);
$s->do('SET lockstep.statement_rows = -1');
$s->do("DELETE FROM b WHERE id BETWEEN 1 AND $tenth", $t);
bounded('DELETE by row');
$before = $c->bodies;
$s->do('BEGIN');
$s->do("INSERT INTO b SELECT i, 1, repeat('f', 20) FROM generate_series($rows + 60001, $rows + 120000) i", $t);
ok($c->wait_until(sub { $c->bodies > $before }, 30), 'one more is open');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
$s->query('COMMIT', $t);
$err = $s->error;
like($err, qr/57P03|08007|40001/, 'it is lost with the replicator');
$s->finish;
ok($c->wait_until(sub { $c->bodies == $before }), 'its file is gone after the restart, those of the journal are there') or diag($c->bodies . ", not $before");
$c->wait_state(1, 'online');
$c->wait_state(2, 'online');

# A node that was away gets large ones from the journal.
$c->cluster('stop-node', 2);
$c->wait_state(2, 'dropped');
$c->sql(1, "INSERT INTO b SELECT i, 1, repeat('g', 20) FROM generate_series($rows + 60001, $rows + 160000) i", timeout => $t);
$c->sql(1, "DELETE FROM b WHERE id < $tenth * 2", timeout => $t);
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', $t), 'a node that was away catches up');
bounded('catchup');
$c->same('and has everything');

done_testing;
