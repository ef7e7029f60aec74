# A token of lockstep.outcome() cannot be guessed, not from those of the same session either;
# asking changes nothing, whoever asks, however often; and "aborted" is final: the
# transaction can't commit afterwards, not after a restart of the replicator either.  20 of 60
# transactions of another role had been made to fail by guessing their tokens, and
# after 4097 questions "aborted" became "committed".
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY); CREATE ROLE mallory LOGIN');
$c->drain;

sub outcome { my ($node, $token, %o) = @_; return scalar $c->sql($node, "SELECT lockstep.outcome('$token')", user => 'mallory', %o) }

# ---------- guessing

my $s = $c->session(1);
my @tokens;
for my $id (1 .. 3)
{
	$s->do("BEGIN; INSERT INTO t VALUES ($id)");
	push @tokens, $s->query('SELECT lockstep.transaction_token()');
	$s->do('COMMIT') if $id < 3;
}
my @seals = map { (split /:/)[-1] } @tokens;
isnt($seals[0], $seals[1], 'two transactions of a session have nothing in common that could be used for the third');
my @third = split /:/, $tokens[2];
$c->fails(2, "SELECT lockstep.outcome('" . join(':', @third[0 .. 4], $_) . "')", '22023', qr/is not the token of a transaction/, "guessed: ...:$_")
	for $seals[0], $seals[1], '0' x 32, '', substr($seals[2], 0, 31), $seals[2] . '0';
$c->fails(2, "SELECT lockstep.outcome('" . join(':', @third[0 .. 4]) . "')", '22023', qr/is not the token of a transaction/, 'without a seal');

# ---------- asking changes nothing

is(outcome($_, $tokens[2]), 'in progress', "in progress, says n$_ to another role") for 1, 2;
is($c->sql(2, "SELECT count(*) FROM generate_series(1, 5000) i WHERE lockstep.outcome('$tokens[2]' || left(i::text, 0)) = 'in progress'", user => 'mallory'), 5000, 'as often as it is asked');
$s->do('COMMIT');
is(outcome(2, $tokens[2]), 'committed', 'and it commits');

# ---------- aborted is final

$s->do('BEGIN');
my $aborted = $s->query('SELECT lockstep.transaction_token()');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online") for 1, 2;
is(outcome(2, $aborted), 'aborted', 'its connection was lost: aborted');
is($s->query("SELECT lockstep.outcome('$tokens[0]')"), 'committed', 'it connects anew');
is(outcome(2, $aborted), 'aborted', 'still aborted');
$c->cluster('kill-replicator');
$c->cluster('start-replicator');
ok($c->wait_state($_, 'online'), "n$_ is online") for 1, 2;
is($s->query("SELECT lockstep.outcome('$tokens[0]')"), 'committed', 'and once more');
is(outcome(2, $aborted), 'aborted', 'still aborted, after another restart');
$s->query('INSERT INTO t VALUES (4)');
$s->query('COMMIT');
LockstepCluster::is_error($s->error, '57P03', qr/./, 'and can not commit');
is(outcome(2, $aborted), 'aborted', 'aborted');
is($c->sql(2, 'SELECT count(*) FROM t WHERE id = 4'), 0, 'nothing of it is there');
$s->do('INSERT INTO t VALUES (5)');
$c->same('all nodes are equal');
done_testing;
