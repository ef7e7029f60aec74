# What the operating system does for the replicator: systemd is told when it is ready, and that it is alive as long as its
# loop makes rounds; its unit exposes little; programs and library are hardened binaries; no function of the extension that
# changes something is everybody's, and none that runs with its owner's rights finds objects by the caller's search_path.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::UNIX;
use LockstepCluster;
use Socket qw(SOCK_DGRAM);
use Test::More;
use Time::HiRes 'time';

my $c = LockstepCluster->new(nodes => 1);
my $root = "$FindBin::Bin/../../..";

# ---------- systemd

my $path = "$c->{dir}/notify";
my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $path) or die("$path: $!");
chmod 0777, $path;
my $told = '';

# Waits for a message like that, and forgets it.
sub hears
{
	my ($like, $seconds) = @_;
	my $end = time + LockstepSession::patience($seconds);
	while ($told !~ s/^.*?$like//s)
	{
		my $left = $end - time;
		my $bits = '';
		vec($bits, fileno($socket), 1) = 1;
		return 0 if $left <= 0 || select($bits, undef, undef, $left) <= 0;
		$socket->recv(my $text, 4096);
		$told .= "$text\n";
	}
	return 1;
}

sub restart
{
	my (%env) = @_;
	local @ENV{ keys %env } = values %env;
	$c->cluster('restart-replicator') or die($c->{cluster_output});
}

restart(NOTIFY_SOCKET => $path, WATCHDOG_USEC => 600000);
ok(hears(qr/READY=1\nWATCHDOG_USEC=600000\nSTATUS=ready\n/, 10), 'systemd is told when the replicator is ready');
ok(hears(qr/WATCHDOG=1\n/, 10) && hears(qr/WATCHDOG=1\n/, 10), 'and again and again that it is alive');
my $pid = $c->replicator_pid;
kill 'STOP', $pid;
hears(qr/nothing/, 0.3);
$told = '';
ok(!hears(qr/WATCHDOG=1\n/, 1.2), 'one that hangs says nothing');
kill 'CONT', $pid;
ok(hears(qr/WATCHDOG=1\n/, 10), 'until it goes on');
restart(NOTIFY_SOCKET => $path, WATCHDOG_USEC => 600000, WATCHDOG_PID => 1);
ok(hears(qr/STOPPING=1\nSTATUS=stops\n/, 10), 'it says that it stops');
ok(hears(qr/READY=1\nSTATUS=ready\n/, 10), 'and is ready again');
ok(!hears(qr/WATCHDOG=1\n/, 1), 'the watchdog of another process is none of its');
restart(NOTIFY_SOCKET => "$path.gone");
ok($c->wait_until(sub { $c->replicator_log =~ /could not notify systemd/ }, 10), 'a socket that is gone is logged');
$c->wait_state(1, 'online');
close $socket;

my $unit = "$root/packaging/debian/lockstep-replicator.service";
my $text = LockstepCluster::_slurp($unit);
like($text, qr/^Type=notify$/m, 'the unit waits for READY=1');
like($text, qr/^WatchdogSec=\d+$/m, 'and has a watchdog');
SKIP:
{
	skip 'there is no systemd-analyze', 1 unless `systemd-analyze --version 2>/dev/null`;
	my $out = `systemd-analyze security --offline=true --threshold=20 --no-pager '$unit' 2>&1`;
	is($?, 0, 'it exposes at most 2.0') or diag($out);
}

# ---------- binaries

my $pkglibdir = `$LockstepCluster::bindir/pg_config --pkglibdir`;
chomp $pkglibdir;
my $flags = `$LockstepCluster::bindir/pg_config --cflags`;	# a module is built as its server
for my $file ("$LockstepCluster::bindir/lockstep-replicator", "$LockstepCluster::bindir/lockstepctl", "$pkglibdir/lockstep.so")
{
	my ($name) = $file =~ m{([^/]+)$};
	if ($name eq 'lockstep.so' && $flags !~ /-fstack-protector/)
	{
		SKIP: { skip "$name: the server was built without hardening", 7 }
		next;
	}
	my $elf = `readelf -W -h -l -d --dyn-syms '$file'`;
	is($?, 0, "readelf $name");
	like($elf, qr/Type:\s+DYN/, '... is at a random address');
	like($elf, qr/GNU_RELRO/, '... has read-only relocations');
	like($elf, qr/BIND_NOW|FLAGS_1\).*NOW/, '... all of them');
	like($elf, qr/GNU_STACK\s.*\sRW\s/, '... and a stack that is not executable');
	like($elf, qr/__stack_chk_fail/, '... and is protected');
	like($elf, qr/__(?:mem|str|sn?|vsn?)\w+_chk/, '... and fortified');
}

# ---------- functions of the extension

is($c->sql(1, <<'SQL'), '', 'whoever runs a function as its owner has its search_path');
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
WHERE nspname = 'lockstep' AND prosecdef AND NOT coalesce(proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)
SQL
is($c->sql(1, <<'SQL'), '', 'and SQL and PL/pgSQL of ours, too');
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace JOIN pg_language l ON l.oid = prolang
WHERE nspname = 'lockstep' AND lanname <> 'c' AND NOT coalesce(proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)
SQL
# What everybody may call is harmless, or refuses those who are no apply session itself: that has the rights of the
# transaction's role.
$c->sql(1, 'CREATE ROLE nobody LOGIN');
my %harmless = map { $_ => 1 } qw(applied_seq forwarded_queries last_seq outcome received recovered row_digest session_priorities staleness status transaction_token wait_for);
my $session = $c->session(1, user => 'nobody');
my @wrong;
for (split /\n/, $c->sql(1, <<'SQL'))
SELECT concat_ws('|', proname, prokind, oidvectortypes(proargtypes)) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
WHERE nspname = 'lockstep' AND has_function_privilege('nobody', p.oid, 'EXECUTE')
SQL
{
	my ($name, $kind, $types) = split /\|/;
	next if $harmless{$name};
	my @arguments = map { /\[\]$/ ? "'{1}'::$_" : $_ eq 'boolean' ? 'true' : "'1'::$_" } split /, /, $types // '';
	$session->query(($kind eq 'p' ? 'CALL' : 'SELECT') . " lockstep.$name(" . join(', ', @arguments) . ')');
	push @wrong, "$name: " . ($session->error || 'works') if $session->error !~ /42501: +(?:function|procedure) lockstep\.$name is for the replicator only/;
}
is("@wrong", '', 'functions of the replicator refuse everybody else');
is($c->sql(1, <<'SQL'), '', 'nobody but superusers changes tables of lockstep');
SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace CROSS JOIN aclexplode(relacl) a
WHERE nspname = 'lockstep' AND a.grantee <> relowner AND a.privilege_type <> 'SELECT'
SQL
is($c->sql(1, "SELECT has_schema_privilege('public', 'lockstep', 'CREATE')"), 'f', 'nor creates any');
done_testing;
