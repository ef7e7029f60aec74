# A COMMIT in a procedure or a DO block that loses a conflict fails with 40001, and says why, as any other statement,
# although its transaction is gone when the error is reported; a cancel by a user is still 57014.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 0);
INSERT INTO t SELECT i FROM generate_series(1, 5) i;
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET v = v + 1 WHERE id = 1; COMMIT; END $$;
SQL
$c->drain;

# The error of that statement, which sleeps within its COMMIT while this is done.
sub error
{
	my ($statement, $do, $s) = @_;
	$s //= $c->session(1);
	$s->send($statement);
	$c->wait_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'}, 1);
	$do->($s);
	$s->finish(20);
	return $s->error;
}

sub conflict { $c->sql(2, 'SET session_replication_role = replica; UPDATE t SET v = 100 WHERE id = 1') }
sub cancel { $c->sql(1, 'SELECT pg_cancel_backend(' . $_[0]->pid . ')') }

for my $statement ('CALL p()', 'DO $$ BEGIN UPDATE t SET v = v + 1 WHERE id = 1; COMMIT; END $$', 'UPDATE t SET v = v + 1 WHERE id = 1')
{
	my $s = $c->session(1);
	like(error($statement, \&conflict, $s), qr/ERROR:\s+40001: .*in the way of another.*DETAIL:.*node "n2".*HINT:.*retried/s, "$statement: loses");
	like(error($statement, \&cancel, $s), qr/ERROR:\s+57014: canceling statement due to user request/, "$statement: cancelled");
}
is($c->sql(1, 'SELECT v FROM t WHERE id = 1'), 100, 'nothing is left of them');
$c->same('nodes are equal');
done_testing;
