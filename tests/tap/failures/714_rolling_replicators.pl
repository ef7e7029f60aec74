# All replicators of a group are restarted one after the other, as for an update, while clients write on all nodes and a large
# transaction (200 MB; LOCKSTEP_LONG: 1 GB) is in flight: its queries are in the leader's journal directory, not decided.  Restarts of standbys do
# not disturb it; with a switchover it commits, or fails with 40001 and commits when it is called again; one
# whose COMMIT is under way is committed on all nodes or on none, as its client was told.  Others wait for some hundredths of a second.
# Nothing that was acknowledged is lost or doubled, nodes and journals are equal at the end, files of large transactions included.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time usleep);

my $mb = $ENV{LOCKSTEP_MB} // ($ENV{LOCKSTEP_LONG} ? 1000 : 200);
my $patience = 60 + $mb / 2;
my $c = LockstepCluster->new(nodes => 2, replicators => 3, on_disk => $mb > 500, replicator_conf => "journal_keep = 8GB\n", conf => "max_wal_size = 4GB\n");
my $load = LockstepCounters->new($c);
my $row = 8000;			# bytes, not to be compressed
my $rows = int($mb * 1e6 / $row);
my $s = $c->session(1);

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub key { return $c->etcd_key }
sub sqlstate { my ($else) = @_; return $s->error eq '' ? $else : $s->error =~ /(?:ERROR|FATAL):\s+(\w{5})/ ? $1 : $s->error }
sub body_bytes { my ($i) = @_; my $sum = 0; $sum += -s $_ // 0 for glob(journal($i) . '/*.body'); return $sum }

sub roles
{
	my $key = key();
	my ($leader) = $key->{leader} =~ /(\d)/;
	my ($synced) = map { /(\d)/ } grep { $_ ne "r$leader" } @{ $key->{in_sync} };
	return ($leader, $synced, grep { $_ != $leader && $_ != $synced } $c->replicators);
}

# The statement of a large transaction, in the table of that number.
sub fill { my ($n) = @_; return "INSERT INTO big$n SELECT g, repeat(md5(g::text), " . int($row / 32) . ") FROM generate_series(1, $rows) g" }

# A test.
sub holds
{
	my ($n, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_until(sub { join(' ', $c->sql_everywhere("SELECT count(*) FROM big$n", timeout => $patience)) eq "$expected $expected" }, $patience), $name);
}

sub restart
{
	my ($i, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $since = time;
	$c->kill_replicator($i, 'TERM');
	$c->start_replicator($i);
	ok($c->wait_copies(2, $patience), "$what: r$i is restarted, and has everything again");
	$load->goes_on(time, $what);
	diag(sprintf '%s: longest pause of others %.2f s', $what, $load->longest_pause($since));
}

$c->sql(1, "CREATE TABLE big$_ (id int PRIMARY KEY, v text); ALTER TABLE big$_ ALTER v SET STORAGE EXTERNAL") for 1 .. 3;
ok($c->wait_copies(2), 'three replicators');
$load->goes_on(time, 'with them');
my $began = time;

# ---------- standbys are restarted while it runs

my ($leader, $synced, $spare) = roles();
$s->do('BEGIN');
$s->send(fill(1));
ok($c->wait_until(sub { body_bytes($leader) > $mb * 1e5 }, $patience), 'a large transaction is in flight') or diag(body_bytes($leader));
restart($spare, 'meanwhile, the standby that is not in sync');
restart($synced, 'meanwhile, the one that is');
$s->finish($patience);
is($s->error, '', 'it has not been disturbed');
cmp_ok(body_bytes($leader), '>', $mb * 0.9e6, sprintf '%.0f MB are in flight', body_bytes($leader) / 1e6);
my $asked = time;
$s->query('COMMIT', $patience);
is($s->error, '', 'it is committed');
my $took = time - $asked;
holds(1, $rows, 'on all nodes');
ok($c->wait_until(sub { body_bytes($synced) == body_bytes($leader) }, $patience), 'and its queries are in the copy');
$load->goes_on(time, 'afterwards');
diag(sprintf 'its COMMIT: %.2f s; longest pause of others %.2f s', $took, $load->longest_pause($asked));

# ---------- the leader hands over while it runs

($leader, $synced, $spare) = roles();
my $since = time;
$s->do('BEGIN');
$s->query(fill(2), $patience);
is($s->error, '', 'another large transaction has been executed');
restart($leader, 'it is idle, and the leader is restarted');
isnt(($c->leader // 0), $leader, 'another one leads');
$s->query('COMMIT', $patience);
like($s->error, qr/^$|40001/, 'it is committed, or may be called again: ' . sqlstate('committed'));
my $again = $s->error ne '';
$s->query('ROLLBACK') if $again;
holds(2, $again ? 0 : $rows, 'that is true');
if ($again)
{
	$s->query(fill(2), $patience);
	is($s->error, '', 'called again it is committed');
}
holds(2, $rows, 'on all nodes');

# ---------- the leader is restarted while COMMIT is under way

($leader, $synced, $spare) = roles();
$s->do('BEGIN');
my $token = $s->query('SELECT lockstep.transaction_token()');
$s->query(fill(3), $patience);
$s->send('COMMIT');
usleep(rand 100_000);
restart($leader, 'COMMIT is under way, and the leader is restarted');
$s->finish($patience);
my $told = sqlstate('done');
my $fate = '';
ok($c->wait_until(sub { $fate = $c->try(2, "SELECT lockstep.outcome('$token')"); $fate =~ /^(?:committed|aborted)$/ }, $patience), "its client was told: $told; the outcome: $fate");
like($told, $fate eq 'committed' ? qr/^(?:done|08007)$/ : qr/^(?:40001|08007)$/, 'that fits');
holds(3, $fate eq 'committed' ? $rows : 0, 'and is true on all nodes');
diag(sprintf '%d MB; all three replicators restarted twice in %.1f s', $mb, time - $began);

# ---------- all bodies are on all

sub bodies { my ($i) = @_; return join ' ', map { s{.*/}{}r } glob(journal($i) . '/*.body') }

ok($c->wait_copies(2, $patience), 'all are there');
$c->drain;
for my $n (1 .. 3)
{
	my @sums = $c->sql_everywhere("SELECT count(*), sum(hashtext(substr(v, id % 7000, 50))) FROM big$n", timeout => $patience);
	is($sums[0], $sums[1], "table $n is equal on both nodes");
}
$s->do(join '; ', map { "DROP TABLE big$_" } 1 .. 3);	# to compare all rows takes longer than the test
$load->stop_and_compare;
for my $i (2, 3)
{
	# each removes by itself what is not needed any more
	ok($c->wait_until(sub { bodies($i) eq bodies(1) }), "r1 and r$i have the same files of large transactions");
	is(system('cmp', '-s', $_, journal($i) . '/' . s{.*/}{}r), 0, 'which are equal') for glob(journal(1) . '/*.body');
}
done_testing;
