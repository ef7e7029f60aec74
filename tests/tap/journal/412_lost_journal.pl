# The journal's disk is lost, or only an old copy of it is left: the nodes are the
# truth.  lockstep-replicator --adopt-nodes makes a journal that begins where they
# are; those that have come furthest go on, the others are cloned, nothing that was
# acknowledged is lost and no value of a sequence comes twice.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "wal_level = replica\nmax_wal_senders = 5\n");
my $journal = "$c->{dir}/journal";
my %acknowledged;

sub adopt { return $c->run_owned($ENV{LOCKSTEP_REPLICATOR} // "$LockstepCluster::bindir/lockstep-replicator", '--config', $c->replicator_conf, '--adopt-nodes', @_) }
sub insert { my ($node, $text) = @_; my $id = $c->sql($node, "INSERT INTO t (v) VALUES ('$text') RETURNING id"); die "twice: $id" if $acknowledged{$id}++; return $id }
sub all_there { my ($name) = @_;
	is($c->sql($_, 'SELECT string_agg(id::text, \',\' ORDER BY id) FROM t'), join(',', sort { $a <=> $b } keys %acknowledged), "$name: all that was acknowledged is on n$_") for $c->all }

$c->sql(1, 'CREATE TABLE t (id serial PRIMARY KEY, v text)');
$c->cluster('make-db', 'other');
$c->sql(2, 'CREATE TABLE o (id int PRIMARY KEY)', db => 'other');
insert($_ % 2 + 1, 'first') for 1 .. 6;
$c->keep_old_journal;

# ---------- lost

insert($_ % 2 + 1, 'second') for 1 .. 6;
$c->drain;
# handed out on n1, and told nobody
my @handed_out = split /\n/, $c->sql(1, "BEGIN; INSERT INTO t (v) SELECT 'x' FROM generate_series(1, 20) RETURNING id; ROLLBACK");
$c->cluster('kill-replicator');
system('rm', '-rf', $journal) == 0 or die;
my ($rc, $out) = adopt();
isnt($rc, 0, 'nodes that have gone on since their start are not adopted');
like($out, qr/restart the server first/, 'with the remedy');
$c->cluster('start-replicator');
ok($c->wait_until(sub { 2 == grep { $c->reason($_) =~ /belongs to another cluster.*"The journal is lost, or old"/ } $c->all }, 60), 'an empty journal is recognised') or diag($c->reason(1));
$c->fails(1, 'INSERT INTO t (v) VALUES (0)', '57P03|28000', qr/./, 'nobody writes');
$c->cluster('stop-replicator');
$c->cluster('restart-node', $_, '--no-wait') for $c->all;
($rc, $out) = adopt();
isnt($rc, 0, 'a directory with a journal is left alone');
like($out, qr/is not empty.*Move away/s, 'with the remedy');
system('rm', '-rf', $journal) == 0 or die;
$c->cluster('stop-node', 2);
($rc, $out) = adopt();
isnt($rc, 0, 'a node that is not there may be the one');
like($out, qr/node "n2".*Every node of replicator\.conf is needed/s, 'and that is said');
ok(!glob("$journal/*.journal"), 'nothing was made');
$c->cluster('start-node', 2, '--no-wait');
$c->cluster('kill-node', 2);
$c->cluster('start-node', 2, '--no-wait');
$c->cluster('restart-node', 2, '--no-wait');
is($c->sql(2, 'SELECT lockstep.recovered()'), 'f', 'a server that crashed says so, even if it was restarted since');
($rc, $out) = adopt();
isnt($rc, 0, 'one that crashed may have lost what only the journal had');
like($out, qr/the server of node "n2" crashed.*--accept-loss/s, 'with the remedy');
ok(!glob("$journal/*.journal"), 'nothing was made');
($rc, $out) = adopt('--accept-loss');
is($rc, 0, 'both nodes are adopted') or diag($out);
like($out, qr/node n1: seq (\d+), chain ([0-9a-f]{16}), 2 databases\nnode n2: seq \1, chain \2, 2 databases\n/, 'they are at the same place');
like($out, qr/node n1 goes on\nnode n2 goes on\n/, 'and go on');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online', 60), "n$_ is online again") for $c->all;
my $id = insert(2, 'third');
ok(!(grep { $_ == $id } @handed_out), 'no value of a sequence comes twice') or diag("$id of @handed_out");
insert($_ % 2 + 1, 'third') for 1 .. 4;
$c->sql(1, 'INSERT INTO o VALUES (1)', db => 'other');
$c->drain;
all_there('lost journal');
ok($c->wait_until(sub { my @p = map { $c->sql($_, "SELECT pg_sequence_last_value('t_id_seq')") } $c->all; $p[0] == $p[1] }), 'positions of sequences are equal again');
$c->same('the nodes');

# ---------- an old copy, and one node ahead

# by a heartbeat, so within a second after it is online
ok($c->wait_sql(2, 'SELECT lockstep.recovered()', 't'), 'n2 has recovered from its crash');
$c->cluster('stop-node', 2);
$c->wait_state(2, 'dropped');
insert(1, 'fourth') for 1 .. 5;
$c->cluster('kill-replicator');
system('mv', $journal, "$journal.lost") == 0 && system('cp', '-a', "$journal.old", $journal) == 0 or die;
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(1) =~ /but the journal ends at/ }, 60), 'the old copy is recognised') or diag($c->reason(1));
$c->cluster('stop-replicator');
system('rm', '-rf', $journal) == 0 or die;
$c->cluster('start-node', 2, '--no-wait');
$c->cluster('restart-node', 1, '--no-wait');
($rc, $out) = adopt();
is($rc, 0, 'the nodes are adopted') or diag($out);
# one for each row, and those of positions of the sequence, if the replicator asked for them meanwhile
my ($ahead, $behind) = $out =~ /^node n1: seq (\d+), .*\nnode n2: seq (\d+), /m or diag($out);
my $lacks = $ahead - $behind;
like($out, qr/node n1 goes on\nnode n2 lacks $lacks transactions: clone it anew/, 'one is behind');
cmp_ok($lacks, '>=', 5, 'by what was done without it') or diag($out);
$c->cluster('start-replicator');
ok($c->wait_state(1, 'online', 60), 'the other is online');
insert(1, 'fifth');
ok($c->wait_until(sub { $c->reason(2) =~ /it lacks the transactions from seq \d+ on, but the journal begins at \d+: clone it anew/ }, 30), 'the one behind is refused') or diag($c->reason(2));
$c->cluster('stop-node', 2);
system('rm', '-rf', $c->pgdata(2)) == 0 or die;
($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstepctl", '--config', $c->replicator_conf, 'join', 'n2', '--donor=n1', '--pgdata=' . $c->pgdata(2), '--set=port=' . $c->port(2), '--timeout=100');
is($rc, 0, 'and cloned') or diag($out);
insert(2, 'sixth');
$c->drain;
all_there('old journal');
$c->same('the nodes again');

done_testing;
