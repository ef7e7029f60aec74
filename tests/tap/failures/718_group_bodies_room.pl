# The disks of standbys and large transactions.  What the leader trims, goes on the standbys, too, also on one that was away
# meanwhile.  A standby whose disk is too small for a transaction that goes on drops its part, and keeps following; one whose disk is
# full by other files makes room by it.  A required standby whose connection for large transactions does not come does not keep COMMIT waiting.
# Needs root for a small file system.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'needs root, for mount' if $> != 0;

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $c = LockstepCluster->new(nodes => 2, replicators => 3, replicator_conf => "journal_segment_size = 1MB\njournal_keep = 4MB\n");
my $load = LockstepCounters->new($c);
my $s = $c->session(1);
my $moved;

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub names { my ($i) = @_; return join ' ', sort map { s{.*/}{}r } glob(journal($i) . '/*.body'), glob(journal($i) . '/*.part') }
sub parts { my ($i) = @_; my $sum = 0; $sum += -s $_ // 0 for glob(journal($i) . '/*.part'); return $sum / 1e6 }
sub in_sync { my ($leader) = ($c->etcd_key->{leader} =~ /(\d)/); return grep { $_ != $leader } map { /(\d)/ } @{ $c->etcd_key->{in_sync} } }
sub logged { my ($i, $from) = @_; return substr($c->member_log($i), $from) }

# Rows of 8 kB that can't be compressed.
my $from = 0;
sub large { my ($mb) = @_; my $rows = $mb * 125; $from += $rows; return "INSERT INTO big SELECT g, repeat(md5(g::text), 250) FROM generate_series($from - $rows + 1, $from) g" }
sub is_done { my ($query, $what) = @_; local $Test::Builder::Level = $Test::Builder::Level + 1; $s->query($query, 60); is($s->error, '', $what) }

# The journal grows, by as many MB.
sub write_much { $c->try(1, large(0.25)) for 1 .. 4 * $_[0] }

ok($c->wait_copies(2), 'three replicators');
$c->sql(1, 'CREATE TABLE big (id int PRIMARY KEY, v text); ALTER TABLE big ALTER v SET STORAGE EXTERNAL');

# ---------- what is trimmed

my $leader = $c->leader;
my ($synced) = in_sync();
my ($spare) = grep { $_ != $leader && $_ != $synced } $c->replicators;
my $first;
is_done(large(3), 'a large transaction');
ok($c->wait_until(sub { $first = names($leader); return $first =~ /^\S+body$/ && names($synced) eq $first && names($spare) eq $first }), 'all have it')
	or diag(map { "r$_: " . names($_) . "\n" } $c->replicators);
$c->kill_replicator($spare);
is_done(large(3), 'another one') for 1 .. 2;
ok($c->wait_until(sub { write_much(1); return index(names($leader), $first) < 0 }, 60), 'it is trimmed on the leader') or diag(names($leader));
ok($c->wait_until(sub { names($synced) eq names($leader) }), "r$synced has the same files") or diag(names($leader) . "\n" . names($synced));
like(names($spare), qr/$first/, "r$spare, which was away, has it");
$c->start_replicator($spare);
ok($c->wait_copies(2, 30), 'until it is back');
ok($c->wait_until(sub { names($spare) eq names($leader) }), 'then it has the same files, too') or diag(names($leader) . "\n" . names($spare));
ok($c->wait_until(sub { write_much(1); return names($leader) eq '' }, 60), 'all are trimmed') or diag(names($leader));
is_done(large(0.1), 'a session keeps its last transaction until the next one');
my $kept = sub { return join "\n", grep { / \(deleted\)$/ } map { readlink // '' } glob('/proc/' . $c->member_pid($leader) . '/fd/*') };
ok($c->wait_until(sub { $kept->() !~ /body/ }), 'their bytes are given back') or diag($kept->());

# ---------- a connection that does not come

my $log = length $c->member_log($leader);
$c->kill_replicator($spare);
open(my $order, '>', "$points/new") or die;
print $order "wait\n";
close $order;
chmod 0666, "$points/new";
rename("$points/new", "$points/REPLICAS_BODIES") or die;
my $since = time;
$c->kill_replicator($synced);
$c->start_replicator($synced);
ok($c->wait_until(sub { -e "$points/REPLICAS_BODIES.taken" }), "r$synced, which is required, is back, and makes no connection for large transactions");
$load->goes_on($since, 'others commit');
$c->start_replicator($spare);
is_done(large(3), 'a large transaction is committed');
ok($c->wait_until(sub { logged($leader, $log) =~ /makes no connection for large transactions/ }), "as r$synced is not waited for any more");
unlink "$points/REPLICAS_BODIES.taken" or die;
ok($c->wait_copies(2, 30), 'all are there again');

# ---------- a part that is too large

($synced) = in_sync();
($spare) = grep { $_ != $c->leader && $_ != $synced } $c->replicators;
$c->cluster('stop-replicator', $spare);
my $dir = journal($spare);
rename($dir, "$dir.moved") && mkdir($dir) or die "$dir: $!";
$moved = $dir;
if (system("mount -t tmpfs -o size=32m,mode=0777 tmpfs $dir 2>/dev/null") != 0)
{
	diag('mount is not permitted here: a full disk was not tested');
	rmdir $dir and rename("$dir.moved", $dir) or die "$dir: $!";
	undef $moved;
	$c->start_replicator($spare);
	$load->stop_and_compare;
	done_testing;
	exit;
}
system("cp -p $dir.moved/* $dir/ && chown -R postgres: $dir") == 0 or die;
$log = length $c->member_log($spare);
$c->start_replicator($spare);
ok($c->wait_copies(2, 30), "r$spare has a small disk");
$s->do('BEGIN');
is_done(large(30), 'a large transaction goes on');
ok($c->wait_until(sub { parts($spare) > 8 }, 60), 'a part of it is there') or diag(parts($spare));
ok($c->wait_until(sub { write_much(1); return parts($spare) == 0 || logged($spare, $log) =~ /until its disk has room/ }, 60), 'the journal goes on until there is no room for both');
is(parts($spare), 0, 'the part is not there any more');
unlike(logged($spare, $log), qr/until its disk has room/, 'the disk is never full');
is_done('ROLLBACK', 'rolled back');
ok($c->wait_copies(2, 30), 'all have everything');

# ---------- other files

$s->do('BEGIN');
is_done(large(8), 'a large transaction goes on');
ok($c->wait_until(sub { parts($spare) > 7 }, 60), "r$spare has it") or diag(parts($spare));
system("head -c 64m /dev/zero > $dir/ballast 2>/dev/null");
ok($c->wait_until(sub { write_much(0.25); return parts($spare) == 0 }, 60), 'its disk is full by other files: it removes its part') or diag(parts($spare));
ok($c->wait_copies(2, 30), 'and follows');
is_done('COMMIT', 'committed');
unlink("$dir/ballast") or die;
ok($c->wait_copies(2, 60), 'with room it gets it');
ok($c->wait_until(sub { names($spare) eq names($c->leader) && names($spare) !~ /part/ }), 'and has the same files') or diag(names($c->leader) . "\n" . names($spare));
$s->do('DROP TABLE big');
$load->stop_and_compare;

END
{
	my $rc = $?;
	if ($moved)
	{
		$c->cluster('stop-replicator', $_) for $c->replicators;
		system("umount $moved 2>/dev/null; rm -rf $moved.moved");
		$c->down;
	}
	$? = $rc;
}

done_testing;
