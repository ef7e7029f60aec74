# A journal of another past than a node's: restored from an old copy and gone on
# since, behind the nodes, of another day.  It is found out and nobody diverges.
# A second replicator by mistake disturbs nobody.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "journal_segment_size = 64kB\njournal_keep = 0\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->sql(1, "INSERT INTO t VALUES ($_)") for 1 .. 5;
$c->drain;
my $journal = "$c->{dir}/journal";
my $daemon = $ENV{LOCKSTEP_REPLICATOR} // "$LockstepCluster::bindir/lockstep-replicator";

sub replace_journal { my ($with) = @_; $c->cluster('stop-replicator'); LockstepCluster::copy_tree($with, $journal); return $c->cluster('start-replicator') }
sub place { my ($node) = @_; return $c->sql($node, 'SELECT seq, chain FROM lockstep.progress ORDER BY seq DESC LIMIT 1') }
sub daemon
{
	my ($conf) = @_;
	my $out = '';
	my $h = IPC::Run::start([ $c->owned($daemon, '--config', $conf) ], '<', \undef, '>&', \$out);
	return ($h, \$out);
}

# ---------- a place is the same everywhere

my ($seq, $chain) = split /\|/, place(1);
is(place(2), "$seq|$chain", 'both nodes stand at the same place of the same history');
my ($shown) = $c->ctl('journal', '--from', $seq) =~ /chain ([0-9a-f]{16})/;
is(sprintf('%016x', $chain), $shown, 'the one that the journal has');

# ---------- a second replicator

my $conf = LockstepCluster::_slurp($c->replicator_conf);
my $other = $conf =~ s/^port = \d+/"port = " . ($c->{base} + 5)/mer =~ s/^(admin_socket|unix_socket|pid_file) = '(.*)'/$1 = '$2.other'/mgr =~ s/^log_file.*\n//mr;
my ($h, $out) = daemon($c->file('same-journal.conf', $other));
$h->finish;
isnt($h->result, 0, 'a second replicator on the same journal does not start');
like($$out, qr/in use by another replicator/, 'and says why');
($h, $out) = daemon($c->file('same-nodes.conf', $other =~ s/^journal_directory = '(.*)'/journal_directory = '$1.other'/mr));
ok($c->wait_until(sub { eval { $h->pump_nb }; 2 == (() = $$out =~ /belongs to another cluster/g) }, 30),
	'one with a journal of its own is refused by the nodes') or diag($$out);
$c->sql(1, 'INSERT INTO t VALUES (6)');
is($c->node_status($_)->{state}, 'online', "n$_ is not disturbed") for $c->all;
$h->signal('TERM');
$h->finish;

# ---------- an old copy, behind one node

$c->keep_old_journal;
$c->cluster('stop-node', 2);
$c->wait_state(2, 'dropped');
$c->sql(1, "INSERT INTO t VALUES ($_)") for 10 .. 15;
$c->cluster('stop-replicator');
LockstepCluster::copy_tree($journal, "$journal.good");
LockstepCluster::copy_tree("$journal.old", $journal);
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(1) =~ /but the journal ends at/ }), 'a journal older than a node is recognised') or diag($c->reason(1));
$c->cluster('start-node', 2, '--no-wait');
ok($c->wait_until(sub { $c->reason(2) =~ /node "n1" has applied seq \d+, but the journal ends at/ }), 'a node that knows less does not go on with it') or diag($c->reason(2));
like($c->reason(2), qr/docs\/operating\.md/, 'where the remedy is, is said');
$c->fails($_, 'INSERT INTO t VALUES (20)', '57P03', qr/./, "n$_ takes no writes") for $c->all;
is($c->sql(1, 'SELECT count(*) FROM t'), 12, 'reads go on');
replace_journal("$journal.good");
ok($c->wait_state($_, 'online', 60), "with the right journal n$_ is online") for $c->all;
$c->sql(2, 'INSERT INTO t VALUES (20)');
$c->drain;
$c->same('and nothing is lost');

# ---------- an old copy that has gone on with somebody else

# Both journals begin where both nodes are; each goes on with one node, on another day.
$c->cluster('stop-replicator');
LockstepCluster::copy_tree($journal, "$journal.both");
$c->cluster('stop-node', 2);
$c->cluster('start-replicator');
ok($c->wait_state(1, 'online'), 'n1 goes on alone');
$c->sql(1, "INSERT INTO t VALUES ($_, 'tuesday')") for 40 .. 42;
$c->cluster('stop-replicator');
LockstepCluster::copy_tree($journal, "$journal.tuesday");
LockstepCluster::copy_tree("$journal.both", $journal);
$c->cluster('stop-node', 1);
$c->cluster('start-node', 2, '--no-wait');
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /waits for node "n1"/ }, 30), 'with a copy of the journal n2 waits for n1');
$c->ctl('drop', 'n1');
ok($c->wait_state(2, 'online', 60), 'unless the operator thinks that it is gone');
$c->sql(2, "INSERT INTO t VALUES ($_, 'wednesday')") for 50 .. 59;
$c->cluster('start-node', 1, '--no-wait');
$c->ctl('attach', 'n1');
ok($c->wait_until(sub { $c->reason(1) =~ /its transaction \d+ is not the journal's \(chain [0-9a-f]{16} there, [0-9a-f]{16} in the journal\)/ }, 30),
	'the copy has gone beyond n1, with other transactions: refused') or diag($c->reason(1));
like($c->reason(1), qr/clone it anew/, 'with the remedy');
$c->fails(1, 'INSERT INTO t VALUES (60)', '57P03', qr/./, 'it takes no writes');
$c->sql(2, "INSERT INTO t VALUES (60, 'wednesday')");
is($c->sql(1, "SELECT count(*) FROM t WHERE v = 'wednesday'"), 0, 'and gets nothing of the other history');

# ... and the other way round
$c->cluster('stop-replicator');
LockstepCluster::copy_tree($journal, "$journal.wednesday");
LockstepCluster::copy_tree("$journal.tuesday", $journal);
$c->cluster('start-replicator');
ok($c->wait_until(sub { $c->reason(2) =~ /but the journal ends at/ }, 30), 'the other journal does not fit n2') or diag($c->reason(2));

# ---------- the place that the journal begins with

replace_journal("$journal.wednesday");
ok($c->wait_state(2, 'online', 60), 'n2 is online');
$c->sql(2, "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series($_ * 1000, $_ * 1000 + 99) i") for 1 .. 6;
ok($c->wait_until(sub { $c->status->{journal}{first} > 1 }, 60), 'the journal is trimmed');
$c->cluster('stop-replicator');
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 60), 'a trimmed journal knows the place');

# ---------- a node that has never heard of places

$c->cluster('stop-node', 2);
$c->cluster('stop-replicator');
$c->cluster('start-node', 2, '--no-wait');
$c->sql_local(2, 'UPDATE lockstep.progress SET chain = NULL');
$c->cluster('start-replicator');
ok($c->wait_state(2, 'online', 60), 'a node whose rows are of an earlier version is admitted');
$c->sql(2, "INSERT INTO t VALUES (61, 'x')");
like(place(2), qr/^\d+\|-?\d+$/, 'and has a place from then on');

done_testing;
