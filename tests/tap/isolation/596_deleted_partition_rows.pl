# Who waits for a row of a partition, while a transaction of another node deletes it, finds none, as on a single server; while it
# moves the row to another partition, gets 40001, as there.  The rows are applied one by one, as a run, without a key, and
# by the executor.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
for my $table ('p', 'k')
{
	my $key = $table eq 'p' ? ', PRIMARY KEY (id, at)' : '';
	$c->sql(1, <<"SQL");
CREATE TABLE $table (id int, at int, v text$key) PARTITION BY RANGE (at);
CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES FROM (0) TO (10);
CREATE TABLE ${table}_2 PARTITION OF $table FOR VALUES FROM (10) TO (20);
INSERT INTO $table SELECT i, 1, 'old' FROM generate_series(1, 100) i;
SQL
}
$c->drain;

# What a statement of node 2 comes to that waits for a row which the change of node 1 has, on node 2.
sub waits_for
{
	my ($change, $statement) = @_;
	my $holder = $c->session(2);
	my $waiter = $c->session(2);

	$holder->query('SELECT lockstep.hold_commits(NULL, NULL)');
	$c->sql(1, $change);
	my $apply = $c->wait_until(sub { $c->sql_local(2, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockstep apply' AND wait_event_type = 'Extension' AND state = 'active'") > 0 });
	ok($apply, 'the change waits for its turn on node 2') or diag($c->sql_local(2, 'SELECT application_name, wait_event, left(query, 60) FROM pg_stat_activity'));
	$waiter->send($statement);
	ok($waiter->blocked, 'the statement waits') or diag($waiter->{out}, $waiter->{err});
	$holder->query('SELECT lockstep.release_commits()');
	my $result = $waiter->finish;
	my $error = $waiter->error;
	$_->close for $holder, $waiter;
	return $error =~ /ERROR:  (\w+)/ ? $1 : $result;
}

my $count = 'WITH u AS (UPDATE %s SET v = \'new\' WHERE id = %d RETURNING 1) SELECT count(*) FROM u';
my $by_row = 'SET lockstep.statement_rows = -1;';

is(waits_for('DELETE FROM p WHERE id = 1', sprintf($count, 'p', 1)), '0', 'a row is deleted');
is(waits_for("$by_row DELETE FROM p WHERE id BETWEEN 10 AND 40", sprintf($count, 'p', 30)), '0', 'a run of rows');
is(waits_for('DELETE FROM k WHERE id = 1', sprintf($count, 'k', 1)), '0', 'a row without a key');
is(waits_for('DELETE FROM p_1 WHERE id = 2', 'SELECT count(*) FROM (SELECT FROM p WHERE id = 2 FOR UPDATE) x'), '0', 'a row is to be locked');
is(waits_for('UPDATE p SET at = 11 WHERE id = 3', sprintf($count, 'p', 3)), '40001', 'a row moves');
is(waits_for("$by_row UPDATE p SET at = 12 WHERE id BETWEEN 50 AND 80", sprintf($count, 'p', 60)), '40001', 'a run of rows moves');
is(waits_for('UPDATE k SET at = 11 WHERE id = 3', sprintf($count, 'k', 3)), '40001', 'a row without a key moves');

# an index with an expression, whose rows are left to the executor, where they are changed
$c->sql(1, 'CREATE FUNCTION f(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT upper($1) $$; CREATE INDEX ON p (f(v))');
$c->drain;
is(waits_for('DELETE FROM p WHERE id = 4', sprintf($count, 'p', 4)), '0', 'a row of a table with an index of an expression');
is(waits_for('UPDATE p SET at = 11 WHERE id = 5', sprintf($count, 'p', 5)), '40001', 'which moves');
$c->same('in the end');
$c->down;
done_testing();
