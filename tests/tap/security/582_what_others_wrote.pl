# What others wrote is shown to who may read it: rows and commands in the DETAIL of a lost
# conflict, of an error of another node, and in lockstep.forwarded, where a SECURITY DEFINER
# function has written them.  Operators see all of it: in the log, in lockstep.conflicts.
# Names with line breaks stay on their line wherever people read them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "lockstep.queue_after = 0\n", replicator_conf => "log_conflicts = notice\n");
$c->sql(1, <<'SQL');
CREATE ROLE app LOGIN;
CREATE ROLE reader LOGIN;
CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
CREATE ROLE limited LOGIN;
CREATE TABLE secrets (id int PRIMARY KEY, v text);
INSERT INTO secrets SELECT i, 'old' FROM generate_series(1, 20) i;
ALTER TABLE secrets OWNER TO postgres;
CREATE TABLE guarded (id int PRIMARY KEY, v text);
INSERT INTO guarded SELECT i, 'old' FROM generate_series(1, 20) i;
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON secrets TO reader;
GRANT SELECT ON guarded TO limited;
CREATE FUNCTION writes(t regclass, i int, w text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN EXECUTE format('UPDATE %s SET v = %L WHERE id = %s', t, w, i); END $$;
CREATE FUNCTION adds(i int, w text) RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO secrets VALUES (i, w)';
CREATE FUNCTION commands() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN EXECUTE 'CREATE ROLE made PASSWORD ''hush'''; EXECUTE 'COMMENT ON ROLE made IS ''hush'''; END $$;
SQL
$c->drain;

# ---------- lockstep.forwarded

sub forwarded
{
	my ($role, $do) = @_;
	my $s = $c->session(1);
	$s->do("SET SESSION AUTHORIZATION $role");
	$s->do("BEGIN; $do");
	my $seen = $s->do(q{SELECT string_agg(coalesce(query, '-') || array_to_string(params, ',', '') || array_to_string(keys, ','), ';') FROM lockstep.forwarded});
	my $n = $s->do('SELECT count(*) FROM lockstep.forwarded');
	$s->do('ROLLBACK');
	$s->close;
	cmp_ok($n, '>', 0, "$role: $do: queries are counted");
	return $seen;
}

my $write = q{SELECT writes('public.secrets', 1, 'hush')};
unlike(forwarded('app', $write), qr/hush|secrets/, 'forwarded: not to who may not read it');
unlike(forwarded('app', q{SELECT adds(100, 'hush')}), qr/hush|secrets/, 'nor an inserted row');
unlike(forwarded('app', 'SELECT commands()'), qr/hush/, 'nor a command of another role');
unlike(forwarded('limited', q{SELECT writes('public.guarded', 1, 'hush')}), qr/hush/, 'nor with policies for rows');
like(forwarded('reader', $write), qr/hush/, 'to who may read it');
like(forwarded('watcher', $write), qr/hush/, 'to a member of pg_monitor');
like(forwarded('postgres', $write), qr/hush/, 'to a superuser');
$c->sql(1, 'CREATE SCHEMA mine; GRANT ALL ON SCHEMA mine TO app; SET ROLE app; CREATE TABLE mine.t (id int PRIMARY KEY, v text)');
$c->drain;
like(forwarded('app', q{INSERT INTO mine.t VALUES (1, 'own')}), qr/mine\.t.*own/, 'what one wrote oneself');
like(forwarded('app', q{COMMENT ON TABLE mine.t IS 'own'}), qr/own/, 'and commanded');

# ---------- lost to another node's

my $id = 1;
sub loses
{
	my ($role, $table) = @_;
	my $winner = $c->session(1);
	my $loser = $c->session(2);
	$id++;
	$loser->do("SET SESSION AUTHORIZATION $role");
	$c->frozen([ 2 ], sub {
		$loser->do("BEGIN; SELECT writes('public.$table', $id, 'hush')");
		$winner->do("SET lockstep.commit_wait = ordered; BEGIN; UPDATE $table SET v = 'other' WHERE id = $id; COMMIT");
		$loser->query('COMMIT', 20);
	});
	$winner->close;
	my $error = $loser->error;
	$loser->close;
	like($error, qr/40001/, "$role loses");
	like($error, qr/DETAIL:.*$table/, 'and is told where');
	return $error;
}

unlike(loses('app', 'secrets'), qr/hush|SET v|id = '/, 'DETAIL: not to who may not read it');
unlike(loses('limited', 'guarded'), qr/hush|SET v|id = '/, 'DETAIL: not with policies for rows');
like(loses('reader', 'secrets'), qr/hush/, 'DETAIL: to who may read it');
like($c->sql(1, q{SELECT string_agg(detail, ';') FROM lockstep.conflicts}), qr/hush.*hush.*hush/s, 'all of it in lockstep.conflicts');
unlike($c->sql(1, q{SELECT string_agg(detail, ';') FROM lockstep.conflicts}), qr/[\x01-\x09\x0b-\x1f]/, 'as text');
$c->replicator_logs(qr/DETAIL:.*hush/, 'and in the log');
unlike($c->replicator_log, qr/[\x01-\x08\x0b-\x1f?]{3}/, 'as text');
$c->node_logs(2, qr/DETAIL:.*hush/, "and in the server's");

# in the way, while it is idle and while it runs: another's command, which is executed there before it is confirmed
my $executed = 'SET lockstep.commit_wait = executed;';
for my $idle (1, 0)
{
	my $s = $c->session(2);
	$id++;
	$s->do('SET SESSION AUTHORIZATION app');
	$s->do("BEGIN; SELECT writes('public.secrets', $id, 'mine')");
	$s->send('SELECT pg_sleep(30)') unless $idle;
	$c->sql(1, "$executed UPDATE secrets SET v = 'hush' WHERE id = $id AND v = 'old'");
	$idle ? $s->query('SELECT 1') : $s->finish(40);
	like($s->error, qr/40001.*DETAIL:.*public\.secrets/s, 'in the way: told');
	unlike($s->error, qr/UPDATE|$id'/, 'and not of the row');
	$s->close;
	my $super = $c->session(2);
	$id++;
	$super->do("BEGIN; SELECT writes('public.secrets', $id, 'mine')");
	$super->send('SELECT pg_sleep(30)') unless $idle;
	$c->sql(1, "$executed UPDATE secrets SET v = 'hush' WHERE id = $id AND v = 'old'");
	$idle ? $super->query('SELECT 1') : $super->finish(40);
	like($super->error, qr/UPDATE.*id = '$id'/, 'but a superuser is');
	$super->close;
}

# an error of another node
$c->sql($_, q{SET lockstep.replicate = off; CREATE TABLE local_only (i int)}) for 2;
$c->sql(2, q{SET lockstep.replicate = off; INSERT INTO secrets VALUES (500, 'hush')});
for my $role ('app', 'reader')
{
	my $s = $c->session(1);
	$s->do("SET SESSION AUTHORIZATION $role");
	$s->query(q{SELECT adds(500, 'x')});
	like($s->error, qr/23505.*node "n2"/s, "$role: the other node's error");
	$role eq 'app' ? unlike($s->error, qr/\(500\)/, 'without the row') : like($s->error, qr/\(500\)/, 'with the row');
	$s->close;
}
$c->sql(2, 'SET lockstep.replicate = off; DELETE FROM secrets WHERE id = 500; DROP TABLE local_only');

# ---------- names with line breaks

my $odd = qq{"odd\n2026-01-01 LOG:  forged"};
$c->sql(1, "CREATE TABLE $odd (id int PRIMARY KEY, v int); INSERT INTO $odd VALUES (1, 0)");
$c->drain;
my ($winner, $loser) = ($c->session(1), $c->session(2));
$loser->do("SET application_name = E'a\\nforged'");
$c->frozen([ 2 ], sub {
	$loser->do("BEGIN; UPDATE $odd SET v = 2");
	$winner->do("SET lockstep.commit_wait = ordered; UPDATE $odd SET v = 1");
	$loser->query('COMMIT', 20);
});
like($loser->error, qr/DETAIL:.*odd\\n2026.*forged.*was changed/, 'escaped in DETAIL');
unlike($c->replicator_log, qr/^\s*2026-01-01/m, 'no line of the log begins with it');
$c->replicator_logs(qr/odd\\n2026-01-01/, 'escaped there');
my ($shown) = $c->ctl('conflicts');
unlike($shown, qr/^\s*2026-01-01/m, 'nor of lockstepctl conflicts');
like($shown, qr/odd\\n2026-01-01/, 'escaped there');
like($c->sql(1, q{SELECT "table" FROM lockstep.conflicts LIMIT 1}), qr/odd\\n/, 'and in the view');
my ($journal) = $c->ctl('journal', '--journal-directory', "$c->{dir}/journal", '--keys');
unlike($journal, qr/^\s*2026-01-01/m, 'nor of lockstepctl journal');
$c->same('equal');
done_testing();
