# A clone that is older than the journal, which has been trimmed since: status says so,
# with the seqs and the remedy; so does lockstepctl join, and ends.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 1, conf => "wal_level = replica\nmax_wal_senders = 5\n", replicator_conf => "journal_segment_size = 64kB\njournal_keep = 0\n");
my $port = $c->{base} + 2;
my $data = "$c->{dir}/n2";

sub ctl { return $c->run_owned("$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, @_) }
sub stop2 { $c->run_owned("$LockstepCluster::bindir/pg_ctl", '-D', $data, '-m', 'immediate', '-s', 'stop') if -e "$data/postmaster.pid" }
END { my $rc = $?; stop2() if $c; $? = $rc }

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
my ($rc, $out) = $c->run_owned("$LockstepCluster::bindir/pg_basebackup", '-h', '127.0.0.1', '-p', $c->port(1), '-U', 'postgres', '-D', $data, '-X', 'stream', '-c', 'fast');
is($rc, 0, 'a clone is made') or diag($out);
$c->sql(1, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series($_ * 1000, $_ * 1000 + 99) i") for 1 .. 6;
ok($c->wait_until(sub { $c->status->{journal}{first} > 1 }, 60), 'the journal is trimmed');

# ---------- attached by itself

$c->edit_replicator_conf(sub { $_ .= "node.n2 = 'host=127.0.0.1 port=$port user=postgres'\n" });
open(my $f, '>>', "$data/postgresql.auto.conf") or die $!;
print $f "lockstep.node_name = 'n2'\nport = $port\n";
close $f;
is(($c->run_owned("$LockstepCluster::bindir/pg_ctl", '-D', $data, '-l', "$c->{dir}/n2.log", '-w', '-t', 180, '-s', 'start'))[0], 0, 'it is started as a node of its own');
is((ctl('reload'))[0], 0, 'the replicator knows it');
my $too_old = qr/it lacks the transactions from seq \d+ on, but the journal begins at \d+: clone it anew from another node/;
ok($c->wait_until(sub { $c->reason(2) =~ $too_old }, 30), 'status says that it is too old, and what to do') or diag($c->reason(2));
($rc, $out) = ctl('attach', 'n2');
isnt($rc, 0, 'attach fails');
like($out, $too_old, 'and says why');

# ---------- while it is joined: the donor's backup takes longer than the journal is kept

stop2();
system('rm', '-rf', $data) == 0 or die;
# pg_basebackup's place is taken by one that clones, and then waits
my $bin = "$c->{top}/bin";
mkdir $bin or die $!;
symlink("$LockstepCluster::bindir/$_", "$bin/$_") for 'pg_ctl';
system('cp', "$LockstepCluster::bindir/lockstepctl", "$bin/lockstepctl") == 0 or die;
open($f, '>', "$bin/pg_basebackup") or die $!;
print $f "#!/bin/sh\n$LockstepCluster::bindir/pg_basebackup \"\$@\" || exit 1\ntouch $c->{dir}/cloned\nwhile [ -e $c->{dir}/cloned ]; do sleep 0.1; done\n";
close $f;
chmod 0755, $bin, "$bin/pg_basebackup";
my $text = '';
my $join = IPC::Run::start([ $c->owned("$bin/lockstepctl"), '--config', $c->replicator_conf, 'join', 'n2', '--donor=n1', "--pgdata=$data", "--set=port=$port", '--timeout=100' ], '<', \undef, '>&', \$text);
ok($c->wait_until(sub { eval { $join->pump_nb }; -e "$c->{dir}/cloned" }, 100), 'the clone is made') or diag($text);
my $first = $c->status->{journal}{first};
$c->sql(1, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series($_ * 1000, $_ * 1000 + 99) i") for 11 .. 16;
ok($c->wait_until(sub { $c->status->{journal}{first} > $first }, 60), 'the journal is trimmed meanwhile');
unlink "$c->{dir}/cloned";
$join->finish;
isnt($join->result, 0, 'join fails');
like($text, $too_old, 'and says that the clone is too old, and what to do');
like($text, qr/journal_keep/, 'and how to keep it from happening again');
done_testing;
