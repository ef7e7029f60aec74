# A row that UPDATE, ON CONFLICT DO UPDATE or a BEFORE trigger has locked, and then left as
# it was, is locked until the end of the transaction, and counts on all nodes like any
# locked row: its transaction is refused if another node's has changed the row.  Else it would be
# decided behind one that waits for its lock on this node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, status text, v int DEFAULT 0);
INSERT INTO t SELECT i, 'new' FROM generate_series(1, 20) i;
CREATE TABLE other (id int PRIMARY KEY, v int);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TABLE kept (id int PRIMARY KEY, v int);
INSERT INTO kept SELECT i, 0 FROM generate_series(1, 20) i;
CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON kept FOR EACH ROW EXECUTE FUNCTION keep();
CREATE TABLE undeleted (id int PRIMARY KEY, v int);
INSERT INTO undeleted SELECT i, 0 FROM generate_series(1, 100) i;
CREATE TRIGGER keep BEFORE DELETE ON undeleted FOR EACH ROW EXECUTE FUNCTION keep();
CREATE TABLE a_table_with_a_name_that_is_longer_than_that_of_the_other (id int PRIMARY KEY);
INSERT INTO a_table_with_a_name_that_is_longer_than_that_of_the_other VALUES (1);
SQL
$c->drain;

my $id = 0;

# What locks row $id without changing it, on n1; then n2 changes that row, which n1 has not applied yet.
sub is_refused
{
	my ($what, $table, $lock) = @_;
	my $s = $c->session(1);
	$s->do("BEGIN; INSERT INTO other VALUES ($id, 0)");
	$lock->($s);
	$c->drain;
	is($c->sql(1, "SELECT count(*) FROM (SELECT 1 FROM $table WHERE id = $id FOR UPDATE SKIP LOCKED) l"), 0, "$what: the row is locked");
	$c->frozen([1], sub {
		my $other = $c->session(2);
		$other->do("SET lockstep.commit_wait = ordered; SET session_replication_role = replica; UPDATE $table SET v = v + 1 WHERE id = $id");
		$s->query('COMMIT');
		like($s->error, qr/^ERROR:\s+40001|could not serialize access/m, "$what: its transaction is refused");
	});
	$c->same("$what: equal");
}

$id++;
is_refused('UPDATE that waited, and changes nothing', 't', sub {
	my ($s) = @_;
	my $first = $c->session(1);
	$first->do("BEGIN; UPDATE t SET status = 'old' WHERE id = $id");
	$s->send("UPDATE t SET v = 9 WHERE id = $id AND status = 'new'");
	$c->wait_sql(1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " . $s->pid, 1);
	$first->do('COMMIT');
	$s->finish(20);
});
$id++;
is_refused('ON CONFLICT DO UPDATE WHERE false', 't', sub { $_[0]->do("INSERT INTO t VALUES ($id, 'x') ON CONFLICT (id) DO UPDATE SET status = 'x' WHERE false") });
$id++;
is_refused('a trigger that keeps UPDATE from a row', 'kept', sub { $_[0]->do("UPDATE kept SET v = 9 WHERE id = $id") });
$id++;
is_refused('a trigger that keeps DELETE from a row', 'kept', sub { $_[0]->do("DELETE FROM kept WHERE id = $id") });

# Such a row is changed afterwards, which needs no key for the lock - but if that is rolled back.
my $change = 'UPDATE undeleted SET v = 9 WHERE id';
$id++;
is_refused('a lock from before a savepoint', 'undeleted', sub {
	$_[0]->do($_) for "DELETE FROM undeleted WHERE id = $id", 'SAVEPOINT s', "$change = $id", 'SELECT FROM undeleted WHERE id = 50 FOR UPDATE', 'ROLLBACK TO s';
});
$id++;
is_refused('a lock after one of the transaction before', 'undeleted', sub {
	$_[0]->do($_) for 'ROLLBACK', 'DELETE FROM undeleted WHERE id = 51', "BEGIN; INSERT INTO other VALUES ($id, 0)",
		"SELECT FROM undeleted WHERE id = $id FOR UPDATE", "$change = 51";
});
{
	my $s = $c->session(1);
	$s->do($_) for 'BEGIN', 'DELETE FROM undeleted WHERE id = 52', 'SAVEPOINT s', "$change = 52",
		'SELECT FROM a_table_with_a_name_that_is_longer_than_that_of_the_other FOR UPDATE', 'ROLLBACK TO s', 'INSERT INTO other VALUES (52)', 'COMMIT';
	is($c->sql(1, 'SELECT count(*) FROM other WHERE id = 52'), 1, 'a longer key in between is cut off as a whole');
}
$id++;
is_refused('... and a savepoint', 't', sub {
	$_[0]->do("SAVEPOINT a; INSERT INTO t VALUES ($id, 'x') ON CONFLICT (id) DO UPDATE SET status = 'x' WHERE false; RELEASE a") });

# rolled back with its savepoint, it is no longer locked
$id++;
my $s = $c->session(1);
$s->do("BEGIN; INSERT INTO other VALUES ($id, 0); SAVEPOINT a; INSERT INTO t VALUES ($id, 'x') ON CONFLICT (id) DO UPDATE SET status = 'x' WHERE false; ROLLBACK TO a");
$c->sql(2, "UPDATE t SET v = v + 1 WHERE id = $id");
$s->do('COMMIT');
pass('a lock that was rolled back keeps nobody away');

# What the journal has of a transaction, and the forms of its queries.
sub journaled
{
	my ($sql) = @_;
	$c->sql(1, $sql);
	my $last = $c->status->{journal}{decided};
	my ($json) = $c->ctl('journal', "--from=$last", '--json', '--keys', '--journal-directory', "$c->{dir}/journal");
	return $json;
}
sub forms { return join(' ', journaled(@_) =~ /"form": ?"(\w+)"/g) }
my $json = journaled("INSERT INTO t SELECT i, 'y' FROM generate_series(10, 15) i ON CONFLICT (id) DO UPDATE SET status = excluded.status");
my ($locked) = $json =~ /"form":"keys".*?"keys":\[(.*?)\]/;
unlike($locked // '', qr/t_pkey/, 'a row that is changed has the keys of its change only');
like($json, qr/"public\.t"/, 'and its table has one');
like(forms("WITH n AS (INSERT INTO other VALUES (99, 0)) INSERT INTO t VALUES (16, 'x') ON CONFLICT (id) DO UPDATE SET status = 'x' WHERE false"),
	qr/keys/, 'one that is left has those of its lock');

# Without an identity the lock has no key: it would be the whole table's.
$c->sql(1, <<'SQL');
CREATE TABLE bare (id int, v int);
INSERT INTO bare VALUES (1, 0), (2, 0);
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER pass BEFORE UPDATE ON bare FOR EACH ROW EXECUTE FUNCTION pass();
SQL
$c->drain;
$s = $c->session(1);
$s->do('BEGIN; UPDATE bare SET v = v + 1 WHERE id = 1');
$c->sql(2, 'UPDATE bare SET v = v + 1 WHERE id = 2');
$s->query('COMMIT');
is($s->error, '', 'rows of a table without a primary key and with a trigger do not conflict with each other');
$c->same('equal at the end');
done_testing;
