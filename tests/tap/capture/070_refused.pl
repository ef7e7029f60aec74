# What is not built yet is refused with 0A000, never let through, and leaves
# nothing behind; lockstep.unreplicated and lockstep.replicate say otherwise
# only for superusers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "max_prepared_transactions = 5\n");
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1000, 'a'), (1001, 'b');
SQL
$c->drain;
my $before = $c->status->{journal}{decided};

my @refused = (
	[ 'two-phase commit', "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'x'" ],
	[ 'RENAME of a database', 'ALTER DATABASE app RENAME TO other' ],
	[ 'ALTER EXTENSION', 'ALTER EXTENSION lockstep SET SCHEMA public' ],
	[ 'its own tables', 'DELETE FROM lockstep.progress' ],
);
for (@refused)
{
	my ($name, $sql) = @$_;
	my (undef, $err) = $c->try(1, $sql);
	my $ok = $name eq 'its own tables' ? $err =~ /ERROR:\s+(0A000|42501|55000)/ : $err =~ /ERROR:\s+0A000/;
	ok($ok, "$name is refused") or diag($err eq '' ? 'no error' : $err);
}
is($c->status->{journal}{decided}, $before, 'and nothing of it was decided') or diag(scalar $c->ctl('journal'));
$c->same('nothing of it is on any node');

# Local commands are not replicated and not refused.
my $local = $c->session(1);
for my $sql ('VACUUM t', 'ANALYZE t', 'CHECKPOINT', 'SET work_mem = 1000', 'LISTEN a', 'UNLISTEN a', 'DISCARD ALL', 'EXPLAIN SELECT * FROM t',
	'EXPLAIN ANALYZE SELECT * FROM t', 'SHOW ALL', 'BEGIN; DECLARE c CURSOR FOR TABLE t; FETCH c; COMMIT', 'SELECT txid_current()',
	'SELECT pg_create_restore_point(\'x\')', 'SELECT pg_advisory_lock(1)', 'SELECT * FROM t FOR UPDATE', 'LOAD \'plpgsql\'',
	'CREATE TEMP TABLE tmp (a int)', 'INSERT INTO tmp VALUES (1)', 'DO $$ BEGIN PERFORM 1; END $$')
{
	$local->query($sql);
	is($local->error =~ s/^(NOTICE|WARNING|LOCATION).*\n//gmr, '', "local: $sql");
}
is($c->status->{journal}{decided}, $before, 'nothing of it was decided either');

# SELECT FOR UPDATE and txid_current under an xid do not make a transaction that
# can't commit, together with changes.
$c->sql(1, "BEGIN; SELECT txid_current(); SELECT * FROM t FOR UPDATE; INSERT INTO t VALUES (2, 'x'); CREATE TEMP TABLE tmp (a int);
	INSERT INTO tmp VALUES (1); COMMIT");
$c->same('with changes that are replicated');

# A SELECT that writes WAL, of which no row tells: it is forwarded itself.
like($c->sql(1, "BEGIN; SELECT 1 FROM pg_logical_emit_message(true, 'a', 'b'); SELECT form, query FROM lockstep.forwarded; COMMIT"),
	qr/^statement\|.*pg_logical_emit_message/m, 'a SELECT that writes WAL is forwarded');

# The way out, for superusers.
my (undef, $err) = $c->try(1, "SET lockstep.unreplicated = allow; SELECT pg_import_system_collations('public')");
like($err, qr/^WARNING:.*is not replicated/, 'lockstep.unreplicated = allow: a warning instead of the error');
$c->sql_local(2, "INSERT INTO t VALUES (99, 'local')");
is($c->sql(1, 'SELECT count(*) FROM t WHERE id = 99'), 0, 'lockstep.replicate = off: the change stays on its node');
$c->sql_local(2, 'DELETE FROM t WHERE id = 99');
$c->try(1, 'CREATE ROLE plain LOGIN');
for my $name (qw(lockstep.replicate lockstep.unreplicated))
{
	$c->fails(1, "SET ROLE pg_monitor; SET $name = " . ($name =~ /unrep/ ? 'allow' : 'off'), '42501', qr/permission denied/, "$name is for superusers");
}
$c->fails(1, 'SET lockstep.no_such_setting = 1', '42602', qr/./, 'an unknown setting is refused');


# With pg_temp first in search_path, PostgreSQL makes a session's schema for temporary tables as soon as
# it looks at the path, once for each slot of a backend.  That is no effect to be replicated.
my @temp = map { $c->session(1) } 1 .. 6;
$_->query('SELECT 1') for @temp;
for my $i (0 .. $#temp)
{
	$temp[$i]->query('SET search_path = pg_temp, pg_catalog');
	$temp[$i]->query("INSERT INTO public.t SELECT 2000 + $i, (current_schema() LIKE 'pg_temp%')::text");
	is($temp[$i]->error, '', 'a transaction in which the schema of temporary tables is made');
}
$_->close for @temp;
ok($c->wait_sql(2, "SELECT count(*) FROM t WHERE id >= 2000 AND v = 'true'", 6), 'the rows are on the other node');
done_testing;
