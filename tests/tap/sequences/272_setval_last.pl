# What setval() has set stays, whoever has used values of before, and whoever tells of them
# afterwards: the replicator's question for positions, or a COMMIT of another node.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
$c->sql(1, 'CREATE SEQUENCE s; CREATE SEQUENCE other; CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->drain;

sub positions
{
	my ($sequence) = @_;
	return join(' ', map { $c->sql($_, "SELECT last_value, is_called FROM $sequence") } $c->all);
}

sub all_at { my ($sequence, $expected) = @_; return $c->wait_until(sub { positions($sequence) eq "$expected $expected" }, 20) }

# ---------- the replicator asks a node for what it has used, and gets the answer when that is over

$c->order_at(1, 'POSITIONS_READ', 'wait');
$c->sql(1, "SELECT nextval('s') FROM generate_series(1, 20)");
$c->sql(1, "SELECT nextval('other') FROM generate_series(1, 7)");
ok($c->wait_until(sub { $c->was_there(1, 'POSITIONS_READ') }, 20), 'n1 has read what it has used');
$c->sql(2, "SELECT setval('s', 3)");
$c->drain;
is(positions('s'), '3|t 3|t', 'n2 sets the sequence');
$c->let_go(1, 'POSITIONS_READ');
$c->sql(1, "SELECT nextval('other')");
ok(all_at('other', '8|t'), 'later values of another sequence arrive') or diag(positions('other'));
is(positions('s'), '3|t 3|t', 'what was set has stayed');

# ---------- a transaction that has used a value asks to commit when the sequence has been set

my $s = $c->session(1);

sub commit_while_set_to
{
	my ($value) = @_;
	$s->do("BEGIN; INSERT INTO t VALUES (1, nextval('s'))");
	$c->order_at(1, 'ASKING', 'wait');
	$s->send('COMMIT');
	ok($c->wait_until(sub { $c->was_there(1, 'ASKING') }, 20), 'a transaction is about to commit');
	$c->sql(2, "SELECT setval('s', $value)");
	$c->let_go(1, 'ASKING');
	$s->finish(20);
}

commit_while_set_to(2);
like($s->error, qr/40001.*Sequence public\.s, of which this transaction has used a value, was changed by a transaction of node "n2"/s, 'and loses to setval') or diag($s->error);
$c->drain;
is(positions('s'), '2|t 2|t', 'which has stayed');
is($c->sql(2, q{SELECT reason, "table" FROM lockstep.conflicts WHERE node = 'n1'}), 'changed|public.s', 'the conflict is shown');
$s->do('ROLLBACK');

# where the sequence was set beyond that value, it has nothing to lose
commit_while_set_to(30);
is($s->error, '', 'and commits, as the sequence was set beyond its value');
$c->drain;
is(positions('s'), '30|t 30|t', 'where it has stayed');

# ---------- what the same node has seen set is no conflict

$s->do("BEGIN; INSERT INTO t VALUES (2, nextval('s'))");
$c->sql(2, "SELECT setval('s', 100)");
$c->drain;
$s->do("INSERT INTO t VALUES (3, nextval('s')); COMMIT");
is($s->error, '', 'a transaction with values of before and behind');
ok(all_at('s', '101|t'), 'the position is that of the latter') or diag(positions('s'));
$s->do("BEGIN; INSERT INTO t VALUES (4, nextval('s')); SELECT setval('s', 50); COMMIT");
is($s->error, '', 'a transaction that sets it itself');
ok(all_at('s', '50|t'), 'has set it') or diag(positions('s'));

# ---------- somebody sets sequences all the time: the others' positions arrive nevertheless

my $script = $c->file('set.sql', "SELECT setval('s', 10), nextval('s');\n");
my @runs = map { $c->pgbench_start($_, '-n', '-f', $script, '-c', 4, '-T', 5) } $c->all;
for my $i (1 .. 4)
{
	$c->sql(1, "SELECT nextval('other')");
	my $at = 8 + $i;
	ok(all_at('other', "$at|t"), "position $at of another sequence") or diag(positions('other'));
}
for (@runs)
{
	$_->{handle}->finish;
	unlike(${ $_->{text} }, qr/aborted|ERROR/, 'no setval has failed') or diag(${ $_->{text} });
}
$c->same('equal at the end');
done_testing;
