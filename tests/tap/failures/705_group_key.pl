# The key that etcd has, while clients write on all nodes: etcd is restarted, its key is put back to an older value, replaced by
# what is no key or another cluster's, deleted; and members that do not belong to the group: with another secret, with
# another cluster's journal, with a name that is there already.  Each is refused by name, nothing is led by guessing, what
# docs/replicators.md says to do works, nothing that was acknowledged is lost, nodes and journals are equal at the end.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP;
use LockstepCluster;
use LockstepCounters;
use MIME::Base64;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $c = LockstepCluster->new(nodes => 2, replicators => 3);
my $load = LockstepCounters->new($c);
my $dir = $c->{dir};

sub journal { my ($i) = @_; return "$dir/journal" . ($i == 1 ? '' : $i) }
sub config { my ($i) = @_; return "$dir/replicator" . ($i == 1 ? '' : $i) . '.conf' }
sub trouble { my ($i) = @_; return $c->group($i)->{trouble} // '' }
sub says { my ($i, $like, $name) = @_; return ok($c->wait_until(sub { trouble($i) =~ $like }), $name) || diag("r$i: " . trouble($i)) }
sub others { my ($i) = @_; return grep { $_ != $i } $c->replicators }

# ---------- etcd's key, by its API

sub etcd
{
	my ($call, %body) = @_;
	return decode_json(($c->run_owned('curl', '-s', "http://127.0.0.1:@{[ $c->{base} + 3000 ]}/v3/kv/$call", '-d', encode_json(\%body)))[1]);
}

my $key = encode_base64('/lockstep', '');
sub get { my %o = @_; return decode_base64(etcd('range', key => $key, %o)->{kvs}[0]{value} // '') }
sub put { my ($value) = @_; return etcd('put', key => $key, value => encode_base64($value, '')) }

# ---------- etcd is restarted

my $beginning = get();
my $leader = $c->leader;
$c->cluster('kill-etcd');
my $since = time;
says($leader, qr/could not read etcd's key/, 'etcd is killed: the leader says so');
$load->goes_on($since, 'without etcd');
$c->cluster('start-etcd');
ok($c->wait_until(sub { trouble($leader) eq '' }), 'etcd is back: there is no trouble');
is($c->leader, $leader, 'the leader is the same');
ok($c->wait_copies(2), 'two are in sync');
$c->kill_replicator($leader);
$since = time;
my $next = $c->wait_leader($leader);
ok($next, 'the leader is killed: another one leads');
$load->goes_on($since, 'with it');
$c->start_replicator($leader);
ok($c->wait_copies(2), 'all are there');

# ---------- the key is changed by somebody else

$leader = $c->leader;
my $right = get();
my $fake = decode_json($right);
my ($spare) = grep { $right !~ /"r$_"/ } $c->replicators;
$fake->{in_sync} = [ "r$leader", "r$spare" ];
put(encode_json($fake));
ok($c->wait_until(sub { get() eq $right }), 'the leader puts back who is in sync');
$c->member_logs($leader, qr/etcd's key has been changed by somebody else: it is put back/, 'and logs it');

my $revision = etcd('range', key => $key)->{header}{revision};
for my $case (
	[ $beginning, qr/etcd's key has been set back: it is of epoch 1, and was of \d+: see "etcd" in docs/, 'an older value' ],
	[ encode_json({ %$fake, run => 'f' x 16 }), qr/etcd's key has been changed by somebody else: epoch \d+ has another leader/, 'another leader in the same epoch' ],
	[ '{"cluster":', qr/etcd's key "\/lockstep" has something else than a group of replicators/, 'no JSON' ],
	[ "\0\xff\0", qr/etcd's key "\/lockstep" has something else/, 'no text' ],
	[ '', qr/etcd's key "\/lockstep" has something else/, 'nothing' ],
	[ encode_json({ %$fake, in_sync => [ ("r$leader") x 2 ] }), qr/etcd's key "\/lockstep" has something else/, 'a member twice' ],
	[ $right =~ s/"cluster":"\w/"cluster":"x/r, qr/etcd's key is of another cluster than this replicator's journal/, 'another cluster' ])
{
	my ($value, $like, $name) = @$case;
	$since = time;
	put($value);
	says($leader, $like, "the key has $name: the leader says so");
	$load->goes_on($since, 'meanwhile');
	is($c->leader, $leader, 'it goes on leading');
}

# the leader dies meanwhile: nobody leads by guessing
put($beginning);
says($leader, qr/set back/, 'the key is set back again');
$c->kill_replicator($leader);
says($_, qr/etcd's key has been set back/, "the leader is killed: r$_ says why it does not lead") for others($leader);
$c->start_replicator($leader);
says($leader, qr/etcd's key has been set back/, "and the one that led, when it is back");
is($c->leader, undef, 'nobody leads');
$since = time;
put(get(revision => $revision));
ok($c->wait_leader, 'with what the key had, one leads again');
$load->goes_on($since, 'with it');
ok($c->wait_copies(2), 'all are there');

# ---------- the key is deleted

$leader = $c->leader;
$since = time;
is(etcd('deleterange', key => $key)->{deleted}, 1, 'the key is deleted');
says($leader, qr/etcd has no key any more/, 'the leader says so');
$load->goes_on($since, 'meanwhile');
$c->kill_replicator($leader);
says($_, qr/etcd has no key any more.*see "etcd"/, "the leader is killed: r$_ says why it does not lead") for others($leader);
is($c->leader, undef, 'nobody leads');

# what docs/replicators.md says: the one with most begins a new group
$c->kill_replicator($_) for others($leader);
unlink(journal($_) . '/group') or die $! for $c->replicators;
$since = time;
$c->start_replicator($leader);
ok($c->wait_until(sub { trouble($leader) =~ /writers wait/ }), "r$leader has most and is started first: it begins a new group");
$c->start_replicator($_) for others($leader);
is($c->wait_leader, $leader, 'it leads');
$load->goes_on($since, 'with the new group');
ok($c->wait_copies(2), 'the others copy its journal');

# ---------- members that do not belong to it

sub configure
{
	my ($i, $code) = @_;
	local $_ = LockstepCluster::_slurp(config($i));
	$code->();
	open(my $f, '>', config($i)) or die $!;
	print $f $_;
	close $f;
}

# A replicator that is none of tests/cluster's.
sub daemon
{
	my ($config) = @_;
	my $pid = fork // die;
	return $pid if $pid;
	open(STDOUT, '>', "$c->{top}/daemon.out");
	open(STDERR, '>&', \*STDOUT);
	chdir '/';
	exec($c->owned("$LockstepCluster::bindir/lockstep-replicator", '--config', $config)) or POSIX::_exit(1);
}

sub end
{
	my ($pid) = @_;
	kill 'KILL', $pid;
	waitpid $pid, 0;
}

my ($guest) = grep { get() !~ /"r$_"/ } $c->replicators;
my $conf = LockstepCluster::_slurp(config($guest));
$c->kill_replicator($guest);
my $secret = $c->file('other-secret', 'x' x 40 . "\n");
system('chown', '--reference', "$dir/secret", $secret);
chmod 0600, $secret;
configure($guest, sub { s/^secret_file.*/secret_file = '$secret'/m });
$since = time;
$c->start_replicator($guest);
says($guest, qr/replicator "r$leader", which leads, cannot be followed: it could not prove that it has the group's secret/, 'a member with another secret is told');
ok($c->wait_until(sub { $c->member_log($leader) =~ /\[r$guest\] replicator is refused: it ended the connection when it was to prove that it has the group's secret/ }), 'and so is who looks at the leader');
$load->goes_on($since, 'meanwhile');
is_deeply([ map { $_->{state} } grep { $_->{name} eq "r$guest" } @{ $c->group($leader)->{members} } ], ['not connected'], 'it is not connected');
$c->kill_replicator($guest);

# a journal of another cluster: one that it makes when it is alone
my $own = journal($guest);
rename($own, "$own.own") or die $!;
configure($guest, sub { $_ = $conf; s/^(?:replicator[._]|etcd_).*\n//mg });
my $alone = daemon(config($guest));
ok($c->wait_until(sub { () = glob("$own/*.journal") }), 'a replicator that is alone makes a journal');
end($alone);
configure($guest, sub { $_ = $conf });
$since = time;
$c->start_replicator($guest);
says($guest, qr/etcd's key is of another cluster than this replicator's journal: give the group another etcd_key, or move the journal away/, "a member with another cluster's journal is told");
$load->goes_on($since, 'meanwhile');
$c->kill_replicator($guest);
system('rm', '-rf', $own) == 0 && rename("$own.own", $own) or die;
$c->start_replicator($guest);
ok($c->wait_copies(2), 'with its own secret and journal it is a standby');

# two of a name: a second process with another directory
my $twin = $conf =~ s/\b(journal|admin|replicator)$guest\b/twin-$1$guest/gr;
$c->file('twin.conf', $twin);
my $twin_ctl = sub { my @a = @_; return ($c->run_owned("$LockstepCluster::bindir/lockstepctl", '--config', "$c->{top}/twin.conf", '--socket', "$dir/twin-admin$guest.sock", @a))[1] };
$since = time;
my $pid = daemon("$c->{top}/twin.conf");
ok($c->wait_until(sub { $twin_ctl->('replicators') =~ /a replicator of this name is connected already/ }), 'a second one of a name is told');
$c->member_logs($leader, qr/r$guest.*replicator is refused: a replicator of this name is connected already/, 'the leader logs it');
$load->goes_on($since, 'meanwhile');
is_deeply([ map { $_->{state} } grep { $_->{name} eq "r$guest" } @{ $c->group($leader)->{members} } ], ['standby'], 'the first one stays connected');
end($pid);
is($c->leader, $leader, 'nobody else has led');
$load->stop_and_compare;
done_testing;
