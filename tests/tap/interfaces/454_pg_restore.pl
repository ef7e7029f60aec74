# Dumps and pg_restore with its options, through any node: what is restored is
# what was dumped, on all nodes; the sections through three nodes, and three
# dumps through three nodes at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
my $top = $c->{top};

# PostgreSQL's program against a node; its errors, '' if it succeeded.
sub run_on
{
	my ($node, $program, @args) = @_;
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ $c->client($node, $program), @args ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(120));
	return $ok ? '' : "$program failed: $err";
}

sub restore { my ($node, @args) = @_; return run_on($node, 'pg_restore', '-d', 'app', '--exit-on-error', @args) }

$c->sql(1, 'CREATE ROLE owner; CREATE ROLE reader; CREATE EXTENSION hstore; GRANT CREATE ON DATABASE app TO owner');
for my $n (1 .. 3)
{
	$c->sql($n, <<"SQL");
CREATE SCHEMA s$n AUTHORIZATION owner; SET ROLE owner; SET search_path = s$n, public;
CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.n := coalesce(NEW.n, 0) + 1; RETURN NEW; END \$\$;
CREATE TABLE parent (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, n int);
CREATE TABLE child (id serial PRIMARY KEY, p int NOT NULL REFERENCES parent DEFERRABLE, m mood DEFAULT 'ok', q pos, g int GENERATED ALWAYS AS (p * 2) STORED, h hstore, r float8 DEFAULT random());
CREATE TABLE up (id int PRIMARY KEY, up int REFERENCES up);
CREATE TABLE part (a int, b text) PARTITION BY LIST (a); CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1, 2); CREATE TABLE part2 PARTITION OF part DEFAULT;
CREATE TABLE "Odd ""T" ("C c" bytea, d timestamptz, f float8);
CREATE VIEW v AS SELECT id, v FROM parent WHERE id > 3; CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS n, min(r) AS r FROM child; CREATE UNIQUE INDEX ON mv (n);
CREATE TRIGGER t BEFORE INSERT ON parent FOR EACH ROW EXECUTE FUNCTION trg();
CREATE RULE ru AS ON DELETE TO v DO INSTEAD NOTHING;
GRANT SELECT ON parent TO reader; ALTER DEFAULT PRIVILEGES IN SCHEMA s$n GRANT SELECT ON TABLES TO reader; COMMENT ON COLUMN parent.v IS 'text';
CREATE INDEX ON child USING gin (h); CREATE INDEX ON parent (lower(v)) WHERE n > 0; CREATE STATISTICS st ON id, v FROM parent; ALTER TABLE child ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON child USING (true);
INSERT INTO parent (v) SELECT 'row ' || g FROM generate_series(1, 500) g; INSERT INTO child (p, q, h) SELECT 1 + g % 500, g, 'a=>1, b=>NULL' FROM generate_series(1, 1000) g;
INSERT INTO up VALUES (1, 1), (3, 1), (2, 3); INSERT INTO part SELECT g % 4, repeat('x', g) FROM generate_series(1, 50) g;
INSERT INTO "Odd ""T" VALUES ('\\x00ff', 'infinity', 'NaN'), (NULL, '0044-03-15 00:00+00 BC', '0.1'), (NULL, '0044-03-15 00:00+00 BC', '0.1');
SELECT setval('child_id_seq', 5000); REFRESH MATERIALIZED VIEW mv;
SQL
}
$c->sql(2, "SELECT lo_from_bytea(4711, 'large'); COMMENT ON LARGE OBJECT 4711 IS 'large'; ALTER LARGE OBJECT 4711 OWNER TO owner");
$c->same('what is dumped');

# Content and schema as one node has them.
sub everything { return $c->content(1) . $c->schema(1) }
my $before = everything();
for my $n (1 .. 3)
{
	is(run_on($n, 'pg_dump', '-Fc', '-n', "s$n", '-f', "$top/s$n.dump", 'app'), '', "pg_dump of schema s$n through n$n");
}
is(run_on(2, 'pg_dump', '-Fc', '-f', "$top/all.dump", 'app'), '', 'pg_dump of all');
is(run_on(2, 'pg_dump', '-Fd', '-j', '2', '-n', 's*', '-f', "$top/all.dir", 'app'), '', 'in parallel');
is(run_on(3, 'pg_dump', '--inserts', '--rows-per-insert=100', '--on-conflict-do-nothing', '-n', 's1', '-f', "$top/inserts.sql", 'app'), '', 'as INSERT');

sub drop { my ($node, @schemas) = @_; $c->sql($node, 'SET client_min_messages = error; DROP SCHEMA ' . join(', ', @schemas) . ' CASCADE') }

sub as_before
{
	my ($name) = @_;
	$c->same($name);
	my $after = everything();
	ok($after eq $before, "$name: as it was") or diag(LockstepCluster::_diff($before, $after));
}

is(restore(3, '--clean', '--if-exists', '-n', 's1', "$top/s1.dump"), '', '--clean --if-exists');
as_before('--clean');
is(restore(1, '--clean', '--single-transaction', "$top/s2.dump"), '', '--single-transaction');
as_before('--single-transaction');
drop(2, 's1', 's2', 's3');
is(restore(3, '-j', '3', "$top/all.dir"), '', 'three jobs');
as_before('three jobs');

drop(3, 's1');
is(restore(2, '--section=pre-data', "$top/s1.dump"), '', 'pre-data through n2');
$c->drain;
is(restore(3, '--section=data', "$top/s1.dump"), '', 'data through n3');
is(restore(1, '--section=post-data', '-j', '2', "$top/s1.dump"), '', 'post-data through n1');
as_before('the sections');

$c->sql(1, 'TRUNCATE s2.parent, s2.child, s2.up, s2.part, s2."Odd ""T" RESTART IDENTITY');
is(restore(3, '--data-only', '--disable-triggers', "$top/s2.dump"), '', '--data-only --disable-triggers');
as_before('--data-only');

drop(1, 's1');
is(run_on(2, 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', 'app', '-f', "$top/inserts.sql"), '', 'INSERTs through psql');
as_before('as INSERTs');

drop(1, 's3');
is(restore(2, '--use-set-session-authorization', "$top/s3.dump"), '', '--use-set-session-authorization');
as_before('--use-set-session-authorization');
$c->sql(1, 'DROP TABLE s3."Odd ""T"; DROP TABLE s3.up');
is(restore(2, '-n', 's3', '-t', 'Odd "T', '-t', 'up', '--no-data-for-failed-tables', "$top/s3.dump"), '', 'two tables');
$c->drain;
$c->sql(3, 'ALTER TABLE s3.up ADD PRIMARY KEY (id); ALTER TABLE s3.up ADD FOREIGN KEY (up) REFERENCES s3.up');
as_before('two tables');

# all at once, each through another node
drop(2, 's1', 's2', 's3');
my %pid;
for my $n (1 .. 3)
{
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		my $err = restore($n, "$top/s$n.dump");
		print STDERR $err;
		require POSIX;
		POSIX::_exit($err eq '' ? 0 : 1);
	}
	$pid{$n} = $pid;
}
for my $n (1 .. 3)
{
	waitpid($pid{$n}, 0);
	is($?, 0, "pg_restore through n$n while the others do the same");
}
as_before('three at once');

# everything, with large objects, owners and rights
drop(1, 's1', 's2', 's3');
$c->sql(1, 'SELECT lo_unlink(4711); DROP EXTENSION hstore');
is(restore(2, '--no-publications', '-L', $c->file('list', join '', grep { !/ (EXTENSION|COMMENT - EXTENSION|SCHEMA|ACL|COMMENT) .*lockstep/ } split /^/, do { open(my $f, '-|', "$LockstepCluster::bindir/pg_restore", '-l', "$top/all.dump") or die; local $/; <$f> }), "$top/all.dump"), '', 'a list of all');
as_before('all of it');

done_testing;
