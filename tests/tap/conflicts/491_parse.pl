# A transaction is told to give way while its client prepares a statement: the statement
# is prepared, and the transaction fails with 40001 when it is used.  Else clients that
# take it for granted (pgbench -M prepared) can't repeat the transaction.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)');
$c->drain;

# pgbench stands in the analysis of its second command, holding the row, until it is shot at.
my $script = $c->file('parse.sql', <<'SQL');
BEGIN;
UPDATE t SET n = n + 1 WHERE id = 1;
SELECT n AS slowly FROM t WHERE id = 2;
END;
SQL
my $b = do
{
	local $ENV{PGOPTIONS} = '-c lockstep_fault.slow_parse=slowly';
	$c->pgbench_start(1, qw(-n -M prepared -c 1 -t 1 --max-tries=100 -f), $script);
};
ok($c->wait_sql(1, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench' AND state = 'active' AND query ~ 'slowly'", 1),
	'a session of n1 that holds a row prepares a statement');
$c->sql(2, 'UPDATE t SET n = n + 10 WHERE id = 1');
$b->{handle}->finish;
unlike(${ $b->{text} }, qr/does not exist|aborted/, 'it is there when the transaction is repeated');
like(${ $b->{text} }, qr/number of transactions actually processed: 1\/1/, 'which succeeds') or diag(${ $b->{text} });
like(${ $b->{text} }, qr/number of transactions retried: 1 /, 'after it has failed');
$c->drain;
is($c->sql($_, 'SELECT n FROM t WHERE id = 1'), 11, "n$_ has both changes") for $c->all;

# A simple query and a command are not let through.
for my $case ([ 'a simple query', 'SELECT 2 AS slowly' ], [ 'a command', 'CREATE TABLE made AS SELECT 1 AS slowly' ])
{
	my $s = $c->session(1, options => '-c lockstep_fault.slow_parse=slowly');
	$s->do('BEGIN; UPDATE t SET n = 0 WHERE id = 1');
	$s->send($case->[1]);
	ok($c->wait_sql(1, "SELECT count(*) FROM pg_stat_activity WHERE pid = @{[ $s->pid ]} AND state = 'active' AND query ~ 'slowly'", 1), "$case->[0] is analysed");
	$c->sql(2, 'UPDATE t SET n = n + 100 WHERE id = 1');
	$s->finish;
	like($s->error, qr/40001/, "$case->[0] fails");
	$s->do('ROLLBACK');
	$c->drain;
}
$c->same('all nodes are equal');

done_testing;
