# The disk of the journal is full: writers get a clear error (53100), whoever got
# no error is in the journal, reads go on, a large transaction does not take the
# journal's last room, and writing goes on by itself when there is space again.
# Needs root for a small file system of its own.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

plan skip_all => 'needs root, for mount' if $> != 0;

my $c = LockstepCluster->new(nodes => 2,
	replicator_conf => "journal_segment_size = 1MB\ntransaction_memory = 64kB\n");
my $journal = "$c->{dir}/journal";
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;

# The journal moves to a file system of 8 MB.
$c->cluster('stop-replicator');
system("mv $journal $journal.moved && mkdir $journal") == 0 or die;
if (system("mount -t tmpfs -o size=8m,mode=0777 tmpfs $journal 2>/dev/null") != 0)
{
	rmdir $journal;
	system("mv $journal.moved $journal");
	plan skip_all => 'mount is not permitted here';
}
system("cp -p $journal.moved/* $journal/ && chown -R postgres: $journal") == 0 or die;
ok($c->cluster('start-replicator'), 'the replicator starts with the journal on a small disk');
$c->wait_state($_, 'online') for 1, 2;

# ---------- a large transaction finds no room, others do

my $id = 0;
my (undef, $err) = $c->try(1, "INSERT INTO t SELECT i, repeat(md5(i::text), 10) FROM generate_series(100001, 140000) i");
LockstepCluster::is_error($err, '53100', qr/No space left/, 'a transaction that is larger than the room is refused');
ok($c->wait_until(sub { $c->bodies == 0 }), 'and gives the room back');
$c->sql(1, 'INSERT INTO t VALUES (0)');
$c->same('the others go on');

my ($checked, undef, $how) = $c->ctl('check');
like($checked, qr/^LOCKSTEP WARNING - only \d MB are free on the journal's disk \|/, 'check warns before it is full');
is($how, 1, '... as of a warning');
like($c->ctl('status'), qr/^only \d MB are free on the journal's disk; when it is full, nothing commits\n  hint: +Make room/m, 'and so does the status');

# ---------- full

my $ballast = "$journal/ballast";
system("head -c 32m /dev/zero > $ballast 2>/dev/null");
my %acknowledged = (0 => 1);
my %refused;
for my $i (1 .. 400)
{
	(undef, $err) = $c->try($i % 2 + 1, "INSERT INTO t VALUES ($i, repeat('x', 10000))");
	$err eq '' ? $acknowledged{$i} = 1 : $refused{$i} = $err;
	last if %refused;
}
my ($error) = values %refused;
LockstepCluster::is_error($error // '', '53100', qr/journal.*No space left/s, 'writers are refused when the disk is full');
like($error // '', qr/HINT: .*Make room in journal_directory/, 'and are told what to do');
LockstepCluster::is_error(($c->try(2, "INSERT INTO t VALUES (1000, 'x')"))[1], '53100', qr/./, 'on all nodes, at once');
is($c->sql($_, 'SELECT count(*) > 0 FROM t'), 't', "reads go on (n$_)") for 1, 2;
is($c->status->{nodes}[0]{state}, 'online', 'the nodes stay online');
like($c->ctl('status'), qr/no transaction is taken: .*No space left/, 'the status says why');
unlike($c->ctl('status'), qr/MB are free on the journal's disk; when/, '... and only that');
$c->drain;
is($c->sql($_, "SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), join(',', sort { $a <=> $b } keys %acknowledged),
	"what was acknowledged is there, and nothing else (n$_)") for 1, 2;

# ---------- killed while it is full: it starts again

$c->cluster('kill-replicator');
ok($c->cluster('start-replicator'), 'killed while the disk is full, it starts again');
$c->wait_state($_, 'online') for 1, 2;

# ---------- space again

unlink $ballast;
ok($c->wait_until(sub { ($c->try(1, "INSERT INTO t VALUES (2000, 'space') ON CONFLICT DO NOTHING"))[1] eq '' }, 20),
	'writing goes on by itself when there is space again');
unlike($c->ctl('status'), qr/no transaction is taken/, 'and the status is silent');
$c->sql(2, "INSERT INTO t VALUES (2001, 'space')");
$c->same('and all are equal');

END
{
	my $rc = $?;
	if ($c && -d $journal)
	{
		$c->cluster('stop-replicator');
		system("umount $journal 2>/dev/null; rm -rf $journal.moved");
		$c->down;
	}
	$? = $rc;
}

done_testing;
