# A replicator that starts on a copy of the journal from before a lease was given does not give
# its values again: nodes say which leases they have.  Two that are started at once on two
# copies, and each get a node, do not wait for each other for ever: one of them ends.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicator_conf => "reconnect_interval = 200ms\n");
my $journal = "$c->{dir}/journal";
my $daemon = $ENV{LOCKSTEP_REPLICATOR} // "$LockstepCluster::bindir/lockstep-replicator";
my %pid = (one => $c->replicator_pid);
my (%port, %out, %run);

END { my $rc = $?; for (grep { defined } values %run) { $_->signal('CONT'); $_->signal('TERM'); eval { $_->finish } } $? = $rc }

# Another replicator, on a journal directory of its own; it can't reach the nodes in $without.
sub conf
{
	my ($name, $without) = @_;
	my $conf = LockstepCluster::_slurp($c->replicator_conf) =~ s/^port = \d+/port = $port{$name}/mr =~ s/^(admin_socket|unix_socket|pid_file|journal_directory) = '(.*)'/$1 = '$2.$name'/mgr =~ s/^log_file.*\n//mr;
	$conf =~ s/^(node\.n$_ = .*)port=\d+/$1port=1/m for $without ? ($without) : ();
	return $c->file("$name.conf", $conf);
}

sub start
{
	my ($name, $without) = @_;
	$port{$name} = $c->{base} + 4 + keys %pid;
	$out{$name} = '';
	$run{$name} = IPC::Run::start([ $c->owned($daemon, '--config', conf($name, $without)) ], '<', \undef, '>&', \$out{$name});
	$c->wait_until(sub { ($pid{$name}) = LockstepCluster::_slurp("$c->{dir}/replicator.pid.$name") =~ /^(\d+)/ }) or die "no $name: $out{$name}";
}
sub gone { my ($pid) = @_; return LockstepCluster::_slurp("/proc/$pid/stat") !~ /^\d+ \(.*\) [^ZX]/ }
sub said { my ($name) = @_; eval { $run{$name}->pump_nb }; return $out{$name} }
sub state_of { my ($name, $node) = @_; my ($json) = $c->ctl('--socket', "$c->{dir}/admin.sock.$name", 'status', '--json');
	my ($n) = grep { $_->{name} eq "n$node" } @{ (eval { JSON::PP::decode_json($json) } // {})->{nodes} // [] }; return ($n // {})->{state} // '' }
sub online { my ($name, $node) = @_; return $c->wait_until(sub { said($name); state_of($name, $node) eq 'online' }, 30) || (diag(said($name)), 0)[1] }
sub follow { my ($name) = @_; $c->set($_, 'lockstep.replicator', "'127.0.0.1:$port{$name}'") for $c->all }

# ---------- a lease from after the copy

$c->sql(1, 'CREATE SEQUENCE s; CREATE SEQUENCE down INCREMENT -1; CREATE SEQUENCE fresh; CREATE SEQUENCE again; CREATE SEQUENCE often CACHE 5');
$c->sql(1, "SELECT nextval('s'), nextval('down'), nextval('again')");
$c->drain;
$c->sql(1, 'ALTER SEQUENCE again RESTART');
$c->drain;
my @apply = $c->apply_pids(2);
kill 'STOP', @apply;				# nothing more is decided
LockstepCluster::copy_tree($journal, "$journal.two");
my %given;
for my $s ('s', 'down', 'fresh', 'often')
{
	$given{$s} = [ split /\n/, $c->sql(1, "SELECT nextval('$s') FROM generate_series(1, 50)") ];
}
kill 'KILL', $pid{one};
kill 'CONT', @apply;
start('two');
ok(online('two', $_), "a replicator on the copy has n$_") for 1, 2;
follow('two');
for my $s ('s', 'down', 'fresh', 'often')
{
	my %seen = map { $_ => 1 } @{ $given{$s} };
	my @later = map { split /\n/, $c->sql($_, "SELECT nextval('$s') FROM generate_series(1, 50)") } 2, 1;
	is(scalar(grep { $seen{$_}++ } @later), 0, "sequence $s: no value is given twice");
}
is($c->sql(2, "SELECT nextval('again')"), 1, 'a lease from before RESTART is none any more');
ok($c->wait_until(sub { said('two') =~ /sequence public\.s of database "app" goes on behind \d+: a node has leases/ }), 'its log says so') or diag(said('two'));

# ---------- a node that was started anew has forgotten its leases

$c->wait_until(sub { $c->sql(1, 'SELECT last_value FROM s') == $c->sql(2, 'SELECT last_value FROM s') });
@apply = $c->apply_pids(2);
kill 'STOP', @apply;
LockstepCluster::copy_tree("$journal.two", "$journal.three");
$given{restarted} = [ split /\n/, $c->sql(1, "SELECT nextval('s') FROM generate_series(1, 300)") ];
kill 'KILL', $pid{two};
kill 'CONT', @apply;
$c->cluster('stop-node', 1);
$c->cluster('start-node', 1);
start('three');
ok(online('three', $_), "the third has n$_") for 1, 2;
follow('three');
{
	my %seen = map { $_ => 1 } @{ $given{restarted} };
	is(scalar(grep { $seen{$_}++ } split /\n/, $c->sql(2, "SELECT nextval('s') FROM generate_series(1, 400)")), 0, 'none of its values is given again');
}

# ---------- two at once

kill 'KILL', $pid{three};
LockstepCluster::copy_tree("$journal.three", "$journal.$_") for 'four', 'five';
start('four', 2);
start('five', 1);
for (['four', 1], ['five', 2])
{
	my ($name, $node) = @$_;
	ok($c->wait_until(sub { said($name); state_of($name, $node) eq 'catching up' || said($name) =~ /n$node\] node is attached/ }, 30), "$name has n$node") or diag(said($name));
}
conf($_) for 'four', 'five';
kill 'HUP', $pid{$_} for 'four', 'five';
my ($ended) = grep { $c->wait_until(sub { said('four'); said('five'); gone($pid{four}) || gone($pid{five}) }, 15); gone($pid{$_}) } 'four', 'five';
ok($ended, 'one of two that each have a node ends') or diag(said('four'), said('five'));
$ended //= 'five';
my $stays = $ended eq 'four' ? 'five' : 'four';
ok($c->wait_until(sub { said($ended) =~ /another replicator has this node, while this one has others and is not online: this one ends/ }), 'and says why') or diag(said($ended));
ok(online($stays, $_), "the other gets n$_") for 1, 2;
follow($stays);
$c->sql(1, 'CREATE TABLE t (i int PRIMARY KEY)');
ok($c->wait_sql(2, 'SELECT count(*) FROM t', 0), 'and goes on');
done_testing;
