# Point-in-time recovery of a cluster, as docs/beside.md says: one node's base backup and
# WAL are restored to a point before an accident, a journal is begun there, the other
# nodes are cloned from it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, up => 0);
my $archive = "$c->{top}/archive";
my $backup = "$c->{top}/backup";
my $bin = $LockstepCluster::bindir;
mkdir $archive or die $!;
chmod 0777, $archive;
chmod 0777, $c->{top};
$c->{options}{conf} = "wal_level = replica\narchive_mode = on\narchive_command = 'test \@NODE\@ != 1 || cp %p $archive/%f'\n";
$c->up;

$c->sql(1, "CREATE TABLE t (id serial PRIMARY KEY, v text); INSERT INTO t (v) VALUES ('first')");
my ($rc, $out) = $c->run_owned("$bin/pg_basebackup", '-d', $c->conninfo(1, 'postgres'), '-D', $backup, '-c', 'fast', '-X', 'none');
is($rc, 0, 'a base backup of n1, with its WAL archived') or diag($out);
$c->sql(2, "INSERT INTO t (v) SELECT 'kept' FROM generate_series(1, 10)");
$c->drain;
$c->sql(1, "SELECT pg_create_restore_point('before')");
$c->sql(2, "INSERT INTO t (v) VALUES ('lost')");
$c->sql(2, 'DROP TABLE t');
$c->drain;
$c->sql(1, 'SELECT pg_switch_wal()');
ok($c->wait_until(sub { $c->sql(1, "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name ~ 'ready\$'") eq '0' }), 'the WAL is archived');

# ---------- back to before

$c->cluster('stop-replicator');
$c->cluster('stop-node', $_) for $c->all;
system('mv', "$c->{dir}/journal", "$c->{top}/journal.old") == 0 or die;
system('rm', '-rf', $c->pgdata($_)) == 0 or die for $c->all;
system('cp', '-a', $backup, $c->pgdata(1)) == 0 or die;
open(my $f, '>>', $c->pgdata(1) . '/postgresql.auto.conf') or die $!;
print $f "restore_command = 'cp $archive/%f %p'\nrecovery_target_name = 'before'\nrecovery_target_action = 'promote'\n";
close $f;
is(($c->run_owned('touch', $c->pgdata(1) . '/recovery.signal'))[0], 0, 'recovery.signal');
ok($c->cluster('start-node', 1, '--no-wait'), 'the backup is started');
ok($c->wait_sql(1, 'SELECT pg_is_in_recovery()', 'f', 60), 'and recovered up to that point');
is($c->sql(1, 'SELECT count(*) FROM t'), 11, 'the table is there');

my $line;
$c->edit_replicator_conf(sub { ($line) = /^(node\.n2.*\n)/m; s/^node\.n2.*\n//m });
($rc, $out) = $c->run_owned($ENV{LOCKSTEP_REPLICATOR} // "$bin/lockstep-replicator", '--config', $c->replicator_conf, '--adopt-nodes');
is($rc, 0, 'a journal is begun where it is') or diag($out);
ok($c->cluster('start-replicator'), 'the replicator starts');
ok($c->wait_state(1, 'online', 60), 'the node is online') or diag($c->reason(1));
is($c->sql(1, "INSERT INTO t (v) VALUES ('after') RETURNING id > 11"), 't', 'and takes writes, with new values of sequences');

$c->edit_replicator_conf(sub { $_ .= $line });
is(($c->ctl('reload'))[2], 0, 'the other node is known again');
($rc, $out) = $c->run_owned("$bin/lockstepctl", '--config', $c->replicator_conf, 'join', 'n2', '--donor=n1', '--pgdata=' . $c->pgdata(2), '--set=port=' . $c->port(2), '--timeout=100');
is($rc, 0, 'and cloned') or diag($out);
$c->sql(2, "INSERT INTO t (v) VALUES ('n2')");
$c->same('the nodes');

done_testing;
