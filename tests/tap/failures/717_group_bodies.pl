# The queries of a large transaction go to the standbys while they arrive at the leader, to files that count for nothing: they are
# there before COMMIT, go on a ROLLBACK, lose what is behind a savepoint.  Others' commits do not wait for them: not while they are
# sent, and not while a standby flushes them for seconds, which is not taken for dead meanwhile.  A standby that dies when it has them,
# before anybody knows, or before the record that refers to them; a standby that comes in the middle; a leader that dies in
# the middle: nobody has anything of them afterwards that the others have not.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use File::Temp;
use LockstepCluster;
use LockstepCounters;
use Test::More;
use Time::HiRes qw(time);

my $points = File::Temp->newdir('lockstep-points-XXXXXX', DIR => '/tmp');
chmod 0777, $points;
$ENV{LOCKSTEP_POINTS} = "$points";
my $mb = $ENV{LOCKSTEP_MB} // 60;
my $patience = 60 + $mb;
my $row = 8000;				# bytes, not to be compressed
my $rows = int($mb * 1e6 / $row);
my $c = LockstepCluster->new(nodes => 2, replicators => 3, disk => 1, replicator_conf => "journal_keep = 8GB\n", conf => "max_wal_size = 4GB\nlockstep.failover_wait = 60s\n");
my $load = LockstepCounters->new($c);
my $s = $c->session(1);
my $n = 0;

sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub bytes { my ($i, $suffix) = @_; my $sum = 0; $sum += -s $_ // 0 for glob(journal($i) . "/*.$suffix"); return $sum }
sub names { my ($i) = @_; return join ' ', map { s{.*/}{}r } glob(journal($i) . '/*.body'), glob(journal($i) . '/*.part') }
sub in_sync { my ($leader) = ($c->etcd_key->{leader} =~ /(\d)/); return grep { $_ != $leader } map { /(\d)/ } @{ $c->etcd_key->{in_sync} } }
sub fill { my ($table, $from, $to) = @_; return "INSERT INTO $table SELECT g, repeat(md5(g::text), " . int($row / 32) . ") FROM generate_series($from, $to) g" }

sub table
{
	$n++;
	$c->sql(1, "CREATE TABLE big$n (id int PRIMARY KEY, v text); ALTER TABLE big$n ALTER v SET STORAGE EXTERNAL");
	return "big$n";
}

sub order
{
	my ($point) = @_;
	open(my $f, '>', "$points/$point.new") or die;
	print $f "kill\n";
	close $f;
	chmod 0666, "$points/$point.new";
	rename("$points/$point.new", "$points/$point") or die;
}

# A test: everything is as on one replicator, on all.
sub equal
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_copies(2, $patience), "$what: all are there");
	my ($names, @differ);
	ok($c->wait_until(sub { $names = names(1); return $names !~ /part/ && !grep { names($_) ne $names } 2, 3 }, $patience), 'with the same files of large transactions')
		or diag(map { "$_: " . names($_) . "\n" } $c->replicators);
	for my $i (2, 3)
	{
		push @differ, grep { system('cmp', '-s', journal(1) . "/$_", journal($i) . "/$_") != 0 } split ' ', $names;
	}
	is("@differ", '', 'which are equal');
	$load->goes_on(time, $what);
}

sub holds
{
	my ($table, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($c->wait_until(sub { join(' ', $c->sql_everywhere("SELECT count(*) FROM $table", timeout => $patience)) eq "$expected $expected" }, $patience), $name);
}

ok($c->wait_copies(2), 'three replicators');

# ---------- while it arrives; ROLLBACK

my $leader = $c->leader;
my @standbys = grep { $_ != $leader } $c->replicators;
my $table = table();
$s->do('BEGIN');
$s->query(fill($table, 1, $rows), $patience);
is($s->error, '', 'a large transaction has been executed');
for my $i (@standbys)
{
	ok($c->wait_until(sub { bytes($i, 'part') > $mb * 0.9e6 }, $patience), "before COMMIT r$i has it") or diag(bytes($i, 'part'));
}
$s->query('ROLLBACK', $patience);
ok($c->wait_until(sub { !grep { names($_) ne '' } $c->replicators }, $patience), 'after ROLLBACK nobody has it') or diag(map { names($_) } $c->replicators);

# ---------- a savepoint; COMMIT

$s->do('BEGIN');
$s->query(fill($table, 1, $rows / 2), $patience);
$s->do('SAVEPOINT a');
$s->query(fill($table, 1 + $rows / 2, $rows), $patience);
ok($c->wait_until(sub { bytes($standbys[0], 'part') > $mb * 0.9e6 }, $patience), 'it is there with what is behind a savepoint');
$s->do('ROLLBACK TO a');
$s->query(fill($table, 1 + $rows, $rows + $rows / 4), $patience);
my $asked = time;
$s->query('COMMIT', $patience);
is($s->error, '', 'it is committed without that');
my $took = time - $asked;
holds($table, int($rows / 2) + int($rows / 4), 'on all nodes');
diag(sprintf 'COMMIT: %.2f s; longest pause of others %.2f s', $took, $load->longest_pause($asked));
equal('afterwards');

# ---------- a standby that flushes it for seconds

my ($synced) = in_sync();
my $log = length $c->member_log($leader);
open(my $slow, '>', journal($synced) . '/bodies_are_slow') or die;
print $slow '2000';
close $slow;
$table = table();
$s->do('BEGIN');
$s->query(fill($table, 1, $rows), $patience);
$asked = time;
$s->query('COMMIT', $patience);
is($s->error, '', 'a large transaction is committed, whose flush takes 2 s on the one in sync');
$took = time - $asked;
cmp_ok($took, '>', 2, 'its COMMIT waits for that');
my $pause = $load->longest_pause($asked);
cmp_ok($pause, '<', LockstepCluster::soon(1.5), 'others do not');
unlike(substr($c->member_log($leader), $log), qr/not connected any more|is not any more/, 'and nobody takes it for dead');
is_deeply([ in_sync() ], [$synced], 'it is in sync');
unlink journal($synced) . '/bodies_are_slow' or die;
diag(sprintf 'COMMIT: %.2f s; longest pause of others %.2f s', $took, $pause);
holds($table, $rows, 'on all nodes');
equal('afterwards');

# ---------- the standby dies

for my $point (qw(REPLICAS_BODY_THERE REPLICAS_BODY_NAMED))
{
	$table = table();
	$s->do('BEGIN');
	$s->query(fill($table, 1, $rows / 4), $patience);
	order($point);
	$s->query('COMMIT', $patience);
	my $dead;
	ok($c->wait_until(sub { ($dead) = grep { !$c->member_pid($_) } $c->replicators; -e "$points/$point.taken" && $dead }), "$point: a standby has died");
	is($s->error, '', 'the transaction is committed');
	$c->start_replicator($dead);
	holds($table, int($rows / 4), 'on all nodes');
	equal('it is started again');
}

# ---------- one comes in the middle; the leader dies in the middle

$leader = $c->leader;
($synced) = in_sync();
my ($spare) = grep { $_ != $leader && $_ != $synced } $c->replicators;
$c->kill_replicator($spare, 'KILL');
$table = table();
$s->do('BEGIN');
$s->query(fill($table, 1, $rows / 2), $patience);
$c->start_replicator($spare);
ok($c->wait_until(sub { bytes($spare, 'part') > $mb * 0.4e6 }, $patience), 'a standby that comes in the middle gets what there is');
$s->query(fill($table, 1 + $rows / 2, $rows), $patience);
is($s->error, '', 'the transaction goes on');
ok($c->wait_until(sub { bytes($spare, 'part') > $mb * 0.9e6 && bytes($synced, 'part') > $mb * 0.9e6 }, $patience), 'both have it');
$c->kill_replicator($leader, 'KILL');
$load->goes_on(time, 'the leader is killed');
ok($c->wait_until(sub { my $l = $c->leader; $l && bytes($l, 'part') == 0 }), 'the new one has no part of it');
$c->start_replicator($leader);
$s->query('COMMIT', $patience);
like($s->error, qr/^$|40001/, 'it is committed, or may be called again');
my $again = $s->error ne '';
$s->query('ROLLBACK') if $again;
holds($table, $again ? 0 : $rows, 'that is true');
equal('the old leader follows');
$s->do(join '; ', map { "DROP TABLE big$_" } 1 .. $n);	# to compare all rows takes longer than the test
$load->stop_and_compare;
done_testing;
