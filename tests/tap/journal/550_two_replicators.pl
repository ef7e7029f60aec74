# A replicator is stopped by SIGSTOP, another is started on a copy of the journal, the
# first goes on, in whichever order: no seq is acknowledged twice, no node diverges, the
# older one ends by itself, and whoever waits for it is told at once that he can't know.
# A second replicator beside one that runs disturbs nobody.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2, replicator_conf => "reconnect_interval = 200ms\n");
my $journal = "$c->{dir}/journal";
my $daemon = $ENV{LOCKSTEP_REPLICATOR} // "$LockstepCluster::bindir/lockstep-replicator";
my %pid = (one => $c->replicator_pid);
my (%port, %out, %run);

END { my $rc = $?; for (grep { defined } values %run) { $_->signal('CONT'); $_->signal('TERM'); eval { $_->finish } } $? = $rc }

# Another replicator, on a journal directory of its own.
sub start
{
	my ($name) = @_;
	$port{$name} = $c->{base} + 4 + keys %pid;
	my $conf = LockstepCluster::_slurp($c->replicator_conf) =~ s/^port = \d+/port = $port{$name}/mr =~ s/^(admin_socket|unix_socket|pid_file|journal_directory) = '(.*)'/$1 = '$2.$name'/mgr =~ s/^log_file.*\n//mr;
	local $ENV{LOCKSTEP_POINTS};
	delete $ENV{LOCKSTEP_POINTS};
	$out{$name} = '';
	$run{$name} = IPC::Run::start([ $c->owned($daemon, '--config', $c->file("$name.conf", $conf)) ], '<', \undef, '>&', \$out{$name});
	$c->wait_until(sub { ($pid{$name}) = LockstepCluster::_slurp("$c->{dir}/replicator.pid.$name") =~ /^(\d+)/ }) or die "no $name: $out{$name}";
}
sub said { my ($name) = @_; eval { $run{$name}->pump_nb }; return $out{$name} }
sub node_of { my ($name, $node) = @_; my ($json) = $c->ctl('--socket', "$c->{dir}/admin.sock.$name", 'status', '--json');
	my ($n) = grep { $_->{name} eq "n$node" } @{ (eval { JSON::PP::decode_json($json) } // {})->{nodes} // [] }; return $n // {} }
sub online { my ($name, $node) = @_; return $c->wait_until(sub { said($name); (node_of($name, $node)->{state} // '') eq 'online' }, 30) || (diag(said($name)), 0)[1] }
sub follow { my ($name) = @_; $c->set($_, 'lockstep.replicator', "'127.0.0.1:$port{$name}'") for $c->all }
sub token { my ($error) = @_; return ($error =~ /lockstep\.outcome\('(.*?)'\)/)[0] // die "no token: $error" }
sub same { my ($name) = @_; is($c->content(2), $c->content(1), $name) }
sub ended { my ($name) = @_; return $c->wait_until(sub { said($name) if $run{$name}; $c->is_gone($pid{$name}) }) }

$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;
$c->sql($_, "INSERT INTO t VALUES ($_)") for 1, 2;
my ($told, $open, $waits) = ($c->session(1), $c->session(1), $c->session(2));
for ($told, $open, $waits)
{
	$c->drain;
	$_->do("UPDATE t SET v = 'one'");
}
$c->drain;
my ($generation, $run) = split /\|/, $c->sql(1, 'SELECT generation, run FROM lockstep.generation');
is($c->sql(2, 'SELECT generation, run FROM lockstep.generation'), "$generation|$run", 'all nodes follow one generation');

# ---------- beside one that runs

LockstepCluster::copy_tree($journal, "$journal.two");
start('two');
ok($c->wait_until(sub { said('two') =~ /"n1".*|n1\] node.*follows another replicator, which is running/ && node_of('two', $_)->{reason} =~ /which is running/ }), "n$_ stays with the one that runs") or diag(said('two')) for 1, 2;
is($c->node_status($_)->{state}, 'online', "n$_ is not disturbed") for 1, 2;

# ---------- the first is stopped, and goes on when the second has decided

my @frozen = $c->apply_pids(2);
kill 'STOP', @frozen;
$told->do('SET lockstep.commit_wait = ordered');
$c->order_at(1, 'VERDICT', 'wait');
$told->send("INSERT INTO t VALUES (10, 'one')");
ok($c->wait_until(sub { $c->was_there(1, 'VERDICT') }), 'the first decides, and its verdict is there, but not obeyed yet');
$open->do("BEGIN; INSERT INTO t VALUES (20, 'one')");
kill 'STOP', $pid{one};
$waits->send("INSERT INTO t VALUES (30, 'one')");
ok($c->wait_sql(2, 'SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $waits->pid, 'Extension'), 'another asks it');
ok($waits->blocked, 'and hears nothing');
ok(online('two', $_), "the second takes its place on n$_") for 1, 2;
$waits->finish(20);
LockstepCluster::is_error($waits->error, '08007', qr/another replicator has taken its place/, 'who waits is told that he cannot know');
cmp_ok($c->sql(1, 'SELECT generation FROM lockstep.generation'), '>', $generation, 'n1 follows a higher generation');
kill 'CONT', $pid{one};
ok(ended('one'), 'the first goes on, and ends') or diag(said('two'));
$c->replicator_logs(qr/another replicator has taken the place of this one, which ends/, 'and says why');
follow('two');
my $seq = $c->sql(1, "INSERT INTO t VALUES (11, 'two'); SELECT lockstep.last_seq()");
$c->let_go(1, 'VERDICT');
$told->finish(10);
LockstepCluster::is_error($told->error, '08007', qr/replicator that gave the verdict is outdated/, 'a verdict of the first is not obeyed any more');
is($c->sql(2, "SELECT lockstep.outcome('" . token($told->error) . "')"), 'aborted', 'it never was');
is($c->sql(1, "SELECT lockstep.outcome('" . token($waits->error) . "')"), 'aborted', 'nor was what the other had asked for');
$open->query('COMMIT');
LockstepCluster::is_error($open->error, '40001', qr/whose outcome was in doubt/, 'a transaction that the first knew, and nobody had asked for, fails');
kill 'CONT', @frozen;
$told->do("INSERT INTO t VALUES (10, 'two')");
$waits->do("INSERT INTO t VALUES (30, 'two')");
$c->wait_sql($_, 'SELECT count(*) FROM t', 5) for 1, 2;
same('nothing is lost, nothing differs');

# ---------- one that has claimed its turn; the older goes on before the new one has all nodes

$told->do('SET lockstep.commit_wait = ordered');
$c->order_at(1, 'CLAIMED', 'wait');
$told->send("INSERT INTO t VALUES (40, 'two')");
ok($c->wait_until(sub { $c->was_there(1, 'CLAIMED') }), 'a backend has claimed its turn');
$c->wait_sql(2, 'SELECT count(*) FROM t WHERE id = 40', 1);
kill 'STOP', $pid{two};
LockstepCluster::copy_tree("$journal.two", "$journal.three");
start('three');
ok($c->wait_until(sub { said('three'); $c->sql(1, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FROM lockstep.turn_open(%' AND state = 'active' AND pid <> pg_backend_pid()") == 1 }, 30), 'the third waits for what has claimed its turn') or diag(said('three'));
isnt(node_of('three', 2)->{state}, 'online', 'and does not go online elsewhere before');
kill 'CONT', $pid{two};
ok(ended('two'), 'the second goes on, and ends') or diag(said('two'), said('three'));
like(said('two'), qr/another replicator has taken the place of this one/, 'and says why');
$c->let_go(1, 'CLAIMED');
$told->finish(10);
is($told->error, '', 'who had claimed its turn commits') or diag($told->error);
ok(online('three', $_), "then the third has n$_") for 1, 2;
follow('three');
$c->sql($_, "INSERT INTO t VALUES (4$_, 'three')") for 1, 2;
$c->wait_sql($_, 'SELECT count(*) FROM t', 8) for 1, 2;
same('nothing differs');

# ---------- the first again, on its own journal, which has gone on by itself

$c->cluster('start-replicator');
ok($c->wait_until(sub { 2 == grep { $c->reason($_) =~ /which is running|is not the journal's|but the journal ends at/ } 1, 2 }, 30), 'started again it is refused by all nodes') or diag($c->reason(1), $c->reason(2));
ok(online('three', $_), "the third keeps n$_") for 1, 2;
$c->sql(1, "INSERT INTO t VALUES (50, 'three')");
$c->wait_sql(2, 'SELECT count(*) FROM t', 9);
same('nobody is disturbed');

done_testing;
