# Those in sync are lost: --force-leader says what a replicator that is not in sync has, what etcd says and what the nodes have, and
# changes nothing; with --accept-loss it leads, and the others follow.  It refuses one that needs no force, one while another leads, an
# incomplete copy, and one that has less than every node: then a journal is made from the nodes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP qw(encode_json decode_json);
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, replicators => 3);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');
my $id = 0;
sub insert { my ($node) = @_; $id++; return $c->sql($node, "INSERT INTO t VALUES ($id)") }
sub journal { my ($i) = @_; return "$c->{dir}/journal" . ($i == 1 ? '' : $i) }
sub conf { my ($i) = @_; return "$c->{dir}/replicator" . ($i == 1 ? '' : $i) . '.conf' }

# (exit status, what it says)
sub force
{
	my ($i, @options) = @_;
	return $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--config', conf($i), '--force-leader', @options);
}

# The leader, the other one in sync, and the third.
sub roles
{
	my $leader = $c->leader;
	my %in = map { $_ => 1 } @{ $c->group($leader)->{in_sync} };
	return ($leader, (grep { $_ != $leader && $in{"r$_"} } 1 .. 3), (grep { !$in{"r$_"} } 1 .. 3));
}

# Everything that the third one lacks has been sent to it.
sub third_has_all
{
	my ($third) = @_;
	return $c->wait_until(
		sub {
			my $g = $c->group($c->leader);
			my ($l) = grep { $_->{state} eq 'leader' } @{ $g->{members} };
			my $there = $c->group($third);
			my ($m) = grep { $_->{name} eq "r$third" } @{ $there->{members} };
			return $m->{segment} == $l->{segment} && $m->{offset} == $l->{offset};
		});
}

insert($_ % 2 + 1) for 1 .. 10;
$c->wait_copies(2);
$c->drain;
my ($leader, $second, $third) = roles();
ok(third_has_all($third), 'the third one has everything, and is not in sync');

# ---------- refused

my ($rc, $out) = force($third, '--accept-loss');
is($rc, 1, 'one that runs is refused');
like($out, qr/could not start|another (?:replicator|process)|is running|in use/, '... and says so') or diag($out);
$c->kill_replicator($third, 'TERM');
($rc, $out) = force($third, '--accept-loss');
is($rc, 1, 'while another one leads: refused');
like($out, qr/replicator "r$leader" runs, and leads/, '... and says which') or diag($out);
$c->start_replicator($third);
$c->wait_copies(2);
ok(third_has_all($third), 'the third one is back');
$c->kill_replicator($_) for $third, $second, $leader;
($rc, $out) = force($second, '--accept-loss');
is($rc, 1, 'one in sync is refused');
like($out, qr/is in sync, and has everything that was acknowledged\nHINT:  Start it/, '... it needs no force') or diag($out);

my $group = decode_json(LockstepCluster::_slurp(journal($third) . '/group'));
sub write_group { open(my $f, '>', journal($third) . '/group') or die; print $f encode_json($_[0]); close $f }
write_group({ %$group, copy_epoch => 0 });
($rc, $out) = force($third, '--accept-loss');
is($rc, 1, 'an incomplete copy is refused');
like($out, qr/is an incomplete copy/, '... and says so') or diag($out);
write_group($group);

# ---------- done

system('rm', '-rf', journal($leader), journal($second)) == 0 or die;
($rc, $out) = force($third);
is($rc, 1, 'without --accept-loss');
like($out, qr/etcd: replicator r$leader leads in epoch \d+; in sync: r\d r\d\n/, '... it says what etcd has');
like($out, qr/replicator r$_: nobody answers at \S+; make sure that it is stopped/, "... that r$_ does not answer") for $leader, $second;
unlike($out, qr/replicator r$third: nobody/, '... nothing of the kind of itself');
like($out, qr/node n$_: seq (\d+): it goes on\n/, "... what n$_ has") for 1, 2;
like($out, qr/ends with seq (\d+)\n.*lost: all transactions behind seq \1, which .*\n.*nothing was changed\n/s, '... what is lost, and changes nothing') or diag($out);
$c->start_replicator($third);
ok($c->wait_until(sub { $c->group($third)->{trouble} =~ /cannot be followed/ }, 20), '... the replicator does not lead');
$c->kill_replicator($third, 'TERM');
$c->cluster('kill-node', 2);
($rc, $out) = force($third, '--accept-loss');
is($rc, 0, 'with --accept-loss, a node away') or diag($out);
like($out, qr/node n2: not known, what it has: /, '... which it says');
like($out, qr/replicator r$third is to lead, from epoch \d+ on/, '... it is to lead');
$c->cluster('start-node', 2, '--no-wait');
$c->start_replicator($_) for 1 .. 3;
is($c->wait_leader(undef, 30), $third, '... and leads, when it is started');
ok($c->wait_copies(2, 30), 'the others copy its journal');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1, 2;
insert($_ % 2 + 1) for 1 .. 4;
$c->drain;
is($c->sql($_, 'SELECT count(*) FROM t'), $id, "n$_ has all rows") for 1, 2;

# ---------- the nodes have more

($leader, $second, $third) = roles();
ok(third_has_all($third), 'the third one has everything');
$c->kill_replicator($third, 'TERM');
insert(1) for 1 .. 3;
$c->drain;
$c->kill_replicator($_) for $second, $leader;
system('rm', '-rf', journal($leader), journal($second)) == 0 or die;
($rc, $out) = force($third, '--accept-loss');
is($rc, 1, 'all nodes have more than the journal');
like($out, qr/node n1: seq \d+: it has 3 transactions that this journal lacks/, '... it says how much');
like($out, qr/all nodes that can be reached have more than this journal.*--adopt-nodes/s, '... and what loses less') or diag($out);
system('rm', '-rf', journal($third)) == 0 or die;
$c->cluster('restart-node', $_, '--no-wait') for 1, 2;
($rc, $out) = $c->run_owned("$LockstepCluster::bindir/lockstep-replicator", '--config', conf($leader), '--adopt-nodes');
is($rc, 0, 'a journal is made from the nodes') or diag($out);
($rc, $out) = force($leader, '--accept-loss');
is($rc, 0, '... is to lead, though etcd says that its replicator was in sync') or diag($out);
$c->start_replicator($_) for 1 .. 3;
is($c->wait_leader(undef, 30), $leader, '... and leads');
ok($c->wait_copies(2, 30), 'the others copy it');
ok($c->wait_state($_, 'online', 60), "n$_ is online") for 1, 2;
insert($_ % 2 + 1) for 1 .. 4;
$c->drain;
is($c->sql($_, 'SELECT count(*) FROM t'), $id, "n$_ has all rows") for 1, 2;
$c->same('the nodes are equal');
done_testing;
