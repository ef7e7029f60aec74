# TRUNCATE of foreign tables: the remote table is emptied once, by the node of the command, not
# again by each that applies it, at whatever time; the tables beside, above and below are emptied everywhere.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my %far = (db => 'postgres');

# The remote tables are in a database of n1 that is not replicated, and note who empties them.
$c->sql_local(1, <<'SQL', %far);
CREATE TABLE log (t text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.log VALUES (TG_TABLE_NAME); RETURN NULL; END';
CREATE TABLE one (a int); CREATE TABLE two (a int); CREATE TABLE three (a int);
CREATE TRIGGER n AFTER TRUNCATE ON one EXECUTE FUNCTION note();
CREATE TRIGGER n AFTER TRUNCATE ON two EXECUTE FUNCTION note();
CREATE TRIGGER n AFTER TRUNCATE ON three EXECUTE FUNCTION note();
SQL
$c->sql(1, 'CREATE EXTENSION postgres_fdw');
$c->sql(1, "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '" . $c->port(1) . "', dbname 'postgres'); CREATE USER MAPPING FOR PUBLIC SERVER far OPTIONS (user 'postgres')");
$c->sql(1, <<'SQL');
CREATE TABLE t (a int);
CREATE FOREIGN TABLE one (a int) SERVER far;
CREATE TABLE p (a int, n int GENERATED ALWAYS AS IDENTITY) PARTITION BY LIST (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (a);
CREATE FOREIGN TABLE two PARTITION OF p2 DEFAULT SERVER far OPTIONS (table_name 'two');
CREATE TABLE refers (a int);
CREATE TABLE parent (a int); CREATE FOREIGN TABLE three () INHERITS (parent) SERVER far; CREATE TABLE grandchild () INHERITS (three);
CREATE TABLE keyed (a int PRIMARY KEY); CREATE TABLE child (a int REFERENCES keyed);
CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.refers VALUES (7); RETURN NULL; END';
CREATE TRIGGER n AFTER TRUNCATE ON t EXECUTE FUNCTION log(); ALTER TABLE t ENABLE ALWAYS TRIGGER n;
SQL

sub fill
{
	$c->sql_local(1, 'TRUNCATE log; INSERT INTO one VALUES (1); INSERT INTO two VALUES (2); INSERT INTO three VALUES (3)', %far);
	$c->sql(1, 'INSERT INTO t VALUES (1); INSERT INTO p VALUES (1); INSERT INTO parent VALUES (1); INSERT INTO grandchild VALUES (1); INSERT INTO keyed VALUES (1) ON CONFLICT DO NOTHING; INSERT INTO child VALUES (1)');
}

# What was emptied: of the remote ones once, of the others everywhere.
sub empties
{
	my ($sql, $remote, %left) = @_;
	fill();
	$c->sql(1, $sql);
	$c->same($sql);
	is($c->sql(1, q{SELECT coalesce(string_agg(t, ' ' ORDER BY t), '') FROM log}, %far), $remote, "$sql: remote tables are emptied once");
	is($c->sql(2, "SELECT count(*) FROM ONLY $_"), $left{$_}, "$sql: rows of $_") for sort keys %left;
}

empties('TRUNCATE one', 'one', t => 1, p1 => 1);

# a sequence of a foreign table is of all nodes
$c->sql(1, "CREATE FOREIGN TABLE numbered (a serial) SERVER far OPTIONS (table_name 'one')");
$c->sql(1, "SELECT nextval('numbered_a_seq') FROM generate_series(1, 100)");
empties('TRUNCATE numbered RESTART IDENTITY', 'one', t => 2);
cmp_ok($c->sql(2, "SELECT nextval('numbered_a_seq')"), '<', 100, 'RESTART IDENTITY restarts it on all nodes');
$c->sql(1, 'DROP FOREIGN TABLE numbered; TRUNCATE t, p1; INSERT INTO p VALUES (1)');
empties('TRUNCATE one, t', 'one', t => 0, p1 => 2);
empties('TRUNCATE p', 'two', p1 => 0, t => 1);
empties('TRUNCATE p, keyed RESTART IDENTITY CASCADE', 'two', p1 => 0, keyed => 0, child => 0);
empties('TRUNCATE p2', 'two', p1 => 1);
empties('TRUNCATE parent', 'three', parent => 0, grandchild => 0);
empties('TRUNCATE ONLY parent, three', 'three', parent => 0, grandchild => 0);
empties('TRUNCATE three', 'three', parent => 1, grandchild => 0);
empties('TRUNCATE ONLY three', 'three', parent => 2, grandchild => 1);
empties('CREATE TEMP TABLE tmp (a int); TRUNCATE tmp, one, t', 'one', t => 0);
empties('BEGIN; TRUNCATE one; INSERT INTO t VALUES (9); COMMIT', 'one', t => 2);

# Two at once wait for one lock, one behind the other.
fill();
my @sessions = map { $c->session(1) } 1 .. 3;
$sessions[0]->do('BEGIN');
$sessions[0]->query('SELECT * FROM one');
$_->send('TRUNCATE one') for @sessions[1, 2];
ok($_->blocked(0.3), 'TRUNCATE waits for a reader') for @sessions[1, 2];
$sessions[0]->do('COMMIT');
for my $s (@sessions[1, 2])
{
	$s->finish;
	is($s->error, '', 'and goes on, as the other one does');
}
$_->close for @sessions;

# A node that is away empties its own tables when it returns, and no other.
fill();
$c->cluster('stop-node', 2);
$c->sql(1, 'TRUNCATE p, one');
$c->sql_local(1, 'INSERT INTO one VALUES (1); INSERT INTO two VALUES (2)', %far);
$c->cluster('start-node', 2);
ok($c->wait_state(2, 'online', 60), 'n2 comes back');
$c->same('and has emptied its own tables');
is($c->sql(1, "SELECT (SELECT count(*) FROM p1) || ' ' || (SELECT count(*) FROM one) || ' ' || (SELECT count(*) FROM two)"), '0 1 1', 'and what was inserted into the remote ones since is there');

done_testing();
