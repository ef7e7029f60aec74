# The setting lockstep.scheduling_priority is the nice value of a session's processes, its parallel workers too, from its
# role, its database, the configuration or SET.  Where the operating system doesn't let a process return, SET LOCAL is
# refused and RESET warns; where it does, both work.  The replicator's sessions never get any of it, but
# lockstep.apply_priority.  On one core two roles get shares of the CPU by their priorities.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $setting = 'lockstep.scheduling_priority';

sub text_of
{
	my ($path) = @_;
	open(my $f, '<', $path) or return '';
	local $/;
	return scalar(<$f>) // '';
}

# As the kernel has it; 'gone' if there is no such process.
sub nice_of
{
	my ($pid) = @_;
	my @fields = split ' ', text_of("/proc/$pid/stat") =~ s/^.*\) //r;
	return $fields[16] // 'gone';
}

my $autogroups = text_of('/proc/sys/kernel/sched_autogroup_enabled') =~ /^1/;

sub autogroup_of
{
	my ($pid) = @_;
	return text_of("/proc/$pid/autogroup") =~ /nice (-?\d+)/ ? $1 : 'none';
}

# Its scheduling group gets the same value, in a while: the kernel takes ten changes in a second.
sub has_priority
{
	my ($pid, $nice, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $ok = is(nice_of($pid), $nice, $name);
	return $ok unless $autogroups;
	return ok($c->wait_until(sub { autogroup_of($pid) eq $nice }), "$name: and its autogroup") || diag(autogroup_of($pid));
}


plan skip_all => 'the servers run with another priority' if nice_of($c->postmaster_pid(1)) ne '0';

$c->sql(1, <<"SQL");
CREATE ROLE ordinary LOGIN;
CREATE ROLE reports LOGIN;
ALTER ROLE reports SET $setting = 10;
CREATE TABLE numbers AS SELECT n AS id FROM generate_series(1, 10000) n;
CREATE TABLE t (id int PRIMARY KEY, v int);
GRANT ALL ON t, numbers TO ordinary, reports;
GRANT CREATE ON SCHEMA public TO ordinary;
SQL
$c->drain;

# ---------- asked for by the session, its options, its role, its database

my $plain = $c->session(1, user => 'ordinary');
is($plain->do("SHOW $setting"), 0, 'a session has the value of the server');
has_priority($plain->pid, 0, 'a session that asks for nothing');
$plain->do("SET $setting = 7");
has_priority($plain->pid, 7, 'SET');
is($plain->do("SELECT kind, role, database, asked, nice, autogroup IS NOT DISTINCT FROM " . ($autogroups ? '7' : 'NULL') .
		' FROM lockstep.priorities WHERE pid = pg_backend_pid()'), 'client|ordinary|app|7|7|t', 'the view shows it to anyone');

for my $node (1, 2)
{
	my $s = $c->session($node, user => 'reports');
	has_priority($s->pid, 10, "a role's setting, on n$node");
}
has_priority($c->session(1, user => 'reports', options => "-c $setting=12")->pid, 12, 'the options of a connection');
has_priority($c->session(1, user => 'reports', options => "-c $setting=0")->pid, 0, 'which win over the role, as ever');

# ---------- parallel workers

{
	my $s = $c->session(1, user => 'reports');
	$s->do('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
	$s->send('SELECT count(*) FROM numbers a, numbers b, numbers c WHERE a.id + b.id + c.id < 0');
	my $workers = "SELECT pid FROM lockstep.priorities WHERE leader_pid = ${\ $s->pid} AND pid <> leader_pid AND kind = 'parallel worker' ORDER BY 1";
	ok($c->wait_until(sub { my @nice = map { nice_of($_) } split /\n/, $c->sql(1, $workers); @nice >= 2 && !grep { $_ eq '0' } @nice }), 'a query has parallel workers, which have begun');
	has_priority($_, 10, 'a parallel worker is as nice as its leader') for split /\n/, $c->sql(1, $workers);
	$c->sql(1, "SELECT pg_cancel_backend(${\ $s->pid})");
	$s->finish;
}

# ---------- refused

sub refused
{
	my ($s, $sql, $state, $like, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$s->query($sql);
	LockstepCluster::is_error($s->error, $state, $like, $name);
	$s->query('ROLLBACK');
	return;
}

sub warned
{
	my ($s, $sql, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$s->query($sql);
	like($s->error, qr/^WARNING:  42501: could not set the nice value of this process to 0: Permission denied.*DETAIL:  It stays \d+\./ms, $name);
	return;
}

$c->fails(1, "SET $setting = 20", '22023', qr/-20 \.\. 19/, 'more than there is');
$c->fails(1, "SET $setting = -1", '42501', qr/permission denied to set.*below 0.*Only superusers/s, 'an ordinary role cannot go below the server', user => 'ordinary');
$c->fails(1, "ALTER ROLE ordinary SET $setting = -1", '42501', qr/permission denied/, 'nor for its next session', user => 'ordinary');
$c->fails(1, "SET $setting = 9", '42501', qr/permission denied to set.*below 10/, "nor below its role's", user => 'reports');
{
	my (undef, $err) = $c->try(1, 'SELECT 1', user => 'ordinary', options => "-c $setting=-1");
	like($err, qr/permission denied to set "$setting" below 0/, 'nor by the options of its connection');
}
$c->fails(1, "SET $setting = -1", '42501', qr/could not set the nice value of this process to -1: Permission denied.*go down from 0.*LimitNICE/s, 'a superuser can no more than the system lets');
refused($plain, "SET $setting = 3", '42501', qr/could not set the nice value of this process to 3/, 'the way back');
is($plain->do("SHOW $setting"), 7, 'what was refused is not shown');
has_priority($plain->pid, 7, 'and not done');

my $for_a_while = qr/cannot be set for a transaction or in a function here.*return to the nice value 7/s;
refused($plain, "BEGIN; SET LOCAL $setting = 9", '55000', $for_a_while, 'SET LOCAL');
refused($plain, "SELECT set_config('$setting', '9', true)", '55000', $for_a_while, 'set_config for a transaction');
refused($plain, "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET $setting = 9 AS 'SELECT 1'", '55000', $for_a_while, 'a function that sets it');
is($plain->do("BEGIN; SET LOCAL $setting = 7; COMMIT; SHOW $setting"), 7, 'SET LOCAL to what it is already');
has_priority($plain->pid, 7, 'nothing of all this was done');

# ---------- what PostgreSQL takes back without asking

warned($plain, "RESET $setting", 'RESET warns');
is($plain->do("SELECT asked, nice FROM lockstep.priorities WHERE pid = pg_backend_pid()"), '0|7', 'and the view shows both values');
refused($plain, "SET $setting = 0", '42501', qr/could not set the nice value of this process to 0/, 'asked again, it fails');
{
	my $s = $c->session(1, user => 'ordinary');
	warned($s, "BEGIN; SET $setting = 5; ROLLBACK", 'ROLLBACK of SET warns');
	has_priority($s->pid, 5, 'and changes nothing');
	$s->do("SET $setting = 6");
	warned($s, 'DISCARD ALL', 'DISCARD ALL warns');
	has_priority($s->pid, 6, 'and changes nothing');
}
$c->sql(1, "ALTER ROLE ordinary SET $setting = -5");
{
	my $s = $c->session(1, user => 'ordinary');
	is(nice_of($s->pid), 0, 'a setting that the system refuses: the session is there');
	my (undef, $err) = $c->try(1, 'SELECT 1', user => 'ordinary');
	like($err, qr/WARNING:  42501: could not set the nice value of this process to -5/, 'and is told');
}
$c->sql(1, "ALTER ROLE ordinary RESET $setting");

# ---------- sessions of the replicator

# (nice value, application) of each of its sessions on a node
sub of_replicator
{
	my ($node) = @_;
	return map { my ($pid, $name) = split /\|/; [ nice_of($pid), $name ] }
		split /\n/, $c->sql($node, "SELECT pid, application_name FROM pg_stat_activity WHERE application_name LIKE 'lockstep%'");
}

sub new_apply_sessions
{
	my ($node) = @_;
	my @old = $c->apply_pids($node);
	$c->sql($node, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lockstep apply'");
	my %old = map { $_ => 1 } @old;
	ok($c->wait_until(sub { my @now = $c->apply_pids($node); @now == @old && !grep { $old{$_} } @now }), "n$node has new apply sessions");
	return;
}

$c->set(2, $setting, 8);
$c->sql(1, "ALTER DATABASE app SET $setting = 3; ALTER ROLE postgres SET $setting = 4");
$c->drain;
new_apply_sessions(2);
$c->sql(1, 'INSERT INTO t SELECT n, n FROM generate_series(1, 100) n');
$c->drain;
is_deeply([ grep { $_->[0] ne '0' } of_replicator(2) ], [], 'no session of the replicator is slowed by settings of its role, its database or the server');
ok((grep { $_->[1] eq 'lockstep apply' } of_replicator(2)) >= 2, 'there are some');
is($c->sql(2, "SELECT current_setting('$setting'), kind, asked IS NULL, nice FROM lockstep.priorities WHERE pid = pg_backend_pid()", options => '-c lockstep.replicate=off'),
	'0|replicator|t|0', 'nor is another session that begins as they do');
is($c->sql(2, "SELECT kind, asked, nice FROM lockstep.priorities WHERE pid = pg_backend_pid()", options => "-c lockstep.replicate=off -c $setting=5"), 'client|5|5', 'unless it asks');
is($c->sql(2, "SELECT DISTINCT kind, asked, nice FROM lockstep.priorities WHERE kind = 'apply'"), 'apply|0|0', 'as the view shows');
has_priority($c->session(2)->pid, 4, 'which other sessions have: of the role');
has_priority($c->session(2, user => 'ordinary')->pid, 3, 'of the database');
$c->sql(1, "ALTER DATABASE app RESET $setting; ALTER ROLE postgres RESET $setting");
$c->drain;
{
	my $s = $c->session(2, user => 'ordinary');
	has_priority($s->pid, 8, 'of the configuration');
	$c->set(2, $setting, 9);
	ok($c->wait_until(sub { $s->do("SHOW $setting") eq '9' }), 'a reload changes it');
	has_priority($s->pid, 9, 'for sessions that are there');
}
$c->set(2, 'lockstep.apply_priority', 1);
ok($c->wait_until(sub { $c->sql(1, 'UPDATE t SET v = v + 1'); grep { $_->[1] eq 'lockstep apply' && $_->[0] eq '1' } of_replicator(2) }), 'apply sessions have a setting of their own');
$c->set(2, 'lockstep.apply_priority', 2);
new_apply_sessions(2);
# one may be seen before it has said what it is for
ok($c->wait_until(sub { !grep { $_->[1] eq 'lockstep apply' && $_->[0] ne '2' } of_replicator(2) }), 'which they have from their beginning');
$c->set(2, 'lockstep.apply_priority', -4);
new_apply_sessions(2);
$c->node_logs(2, qr/lockstep apply WARNING:  could not set the nice value of this process to -4/, 'and if the system refuses it, they work without');

# ---------- where the system lets processes return

SKIP:
{
	# LimitNICE would do the same, but root of a container may not raise it
	my @may = ('setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--init-groups', '--inh-caps', '+sys_nice', '--ambient-caps', '+sys_nice', '--');
	skip 'only root can give servers the right', 1 if $> != 0 || system("@may nice -n -1 true 2>/dev/null") != 0;
	for my $node (1, 2)
	{
		my $data = $c->pgdata($node);
		system("cd / && @may $LockstepCluster::bindir/pg_ctl -D $data -l $data.log -m fast -w restart >/dev/null") == 0 or die "n$node did not start";
	}
	$c->wait_state($_, 'online') for 1, 2;
	ok($c->wait_until(sub { my @apply = grep { $_->[1] eq 'lockstep apply' } of_replicator(2); @apply && !grep { $_->[0] ne '-4' } @apply }), 'apply sessions have more than others');
	my $s = $c->session(1, user => 'ordinary');
	is($s->do("BEGIN; SET LOCAL $setting = 9; SELECT nice FROM lockstep.priorities WHERE pid = pg_backend_pid()"), 9, 'SET LOCAL');
	$s->do('COMMIT');
	has_priority($s->pid, 0, 'ends with its transaction');
	$s->do("BEGIN; SAVEPOINT a; SET $setting = 8; ROLLBACK TO a");
	has_priority($s->pid, 0, 'ROLLBACK TO takes it back');
	$s->do("COMMIT; SET $setting = 8; RESET $setting");
	has_priority($s->pid, 0, 'so does RESET');
	$s->do("SET $setting = 8; SET $setting = 0");
	has_priority($s->pid, 0, 'and SET');
	refused($s, "SET $setting = -1", '42501', qr/permission denied/, 'the right gives an ordinary role no more than it had');
	is($s->do("CREATE FUNCTION f(int) RETURNS int LANGUAGE plpgsql IMMUTABLE SET $setting = 9 AS 'BEGIN RETURN (SELECT nice FROM lockstep.priorities WHERE pid = pg_backend_pid()); END'; SELECT f(1)"),
		9, 'a function has its own');
	has_priority($s->pid, 0, 'while it runs');

	# the index calls it where the row is applied
	$s->do("CREATE FUNCTION g(int) RETURNS int LANGUAGE sql IMMUTABLE SET $setting = 9 AS 'SELECT \$1'");
	$c->sql(1, 'CREATE INDEX ON t (g(v))');
	$c->sql(1, 'UPDATE t SET v = v + 1');
	$c->drain;
	is_deeply([ grep { $_->[1] eq 'lockstep apply' && $_->[0] ne '-4' } of_replicator(2) ], [], 'what is applied does not change the priority of the apply session');

	my $super = $c->session(1);
	$super->do("SET $setting = -5");
	has_priority($super->pid, -5, 'a superuser goes below');
}

# ---------- two roles on one core

{
	$c->sql(1, "ALTER ROLE reports SET $setting = 19");
	my %s = map { $_ => $c->session(1, user => $_) } qw(ordinary reports);
	has_priority($s{ordinary}->pid, 0, 'one role has 0');
	has_priority($s{reports}->pid, 19, 'the other 19');
	my ($core) = text_of('/proc/self/status') =~ /^Cpus_allowed_list:\s+(\d+)/m;
	for (values %s)
	{
		system("taskset -pc $core ${\ $_->pid} >/dev/null") == 0 or die 'taskset';
	}
	$_->send('DO $$BEGIN LOOP END LOOP; END$$') for values %s;
	my %before = map { $_ => $c->cpu_seconds($s{$_}->pid) } keys %s;
	my $used = sub { my ($role) = @_; return $c->cpu_seconds($s{$role}->pid) - $before{$role} };
	ok($c->wait_until(sub { $used->('ordinary') + $used->('reports') > 3 }, 60), 'both compute on one core');
	my %share = map { $_ => $used->($_) } keys %s;
	cmp_ok($share{ordinary}, '>', 2 * $share{reports}, sprintf 'the one with more priority gets more: %.2f s and %.2f s', @share{qw(ordinary reports)});
	$c->sql(1, "SELECT pg_cancel_backend($_)") for map { $_->pid } values %s;
	$_->finish for values %s;
}

$c->same('all nodes are equal');
done_testing;
