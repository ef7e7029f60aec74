# With synchronous_commit = off a COMMIT does not wait for its node's own WAL, and is
# as durable all the same: what a node loses in a crash the journal gives it back,
# once, also when all nodes and the replicator crash together.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

# The WAL writer sleeps, so that there is something to lose.
my $c = LockstepCluster->new(nodes => 2, conf => "synchronous_commit = off\nwal_writer_delay = '10s'\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (0, 0)');
$c->drain;
$c->sql($_, 'CHECKPOINT') for $c->all;

# Each is acknowledged; the counter tells of one that is applied twice or never.
sub commit
{
	my ($from, $to) = @_;
	$c->sql(1, "BEGIN; INSERT INTO t VALUES ($_, $_); UPDATE t SET v = v + 1 WHERE id = 0; COMMIT") for $from .. $to;
}

sub all_there
{
	my ($n, $name) = @_;
	$c->cluster('wait-online');
	$c->same("$name: equal");
	is($c->sql($_, 'SELECT count(*) - 1 FROM t'), $n, "$name: every acknowledged commit is on n$_") for $c->all;
	is($c->sql(1, 'SELECT v FROM t WHERE id = 0'), $n, "$name: once");
}

commit(1, 20);
$c->cluster('kill-node', 1);
$c->cluster('start-node', 1);
all_there(20, 'the origin crashed');

commit(21, 40);
$c->cluster('kill-replicator');
$c->cluster('kill-node', $_) for $c->all;
$c->cluster('start-node', $_) for $c->all;
note('missing after the crash on n1, n2: ', join(', ', map { 40 - $c->sql($_, 'SELECT count(*) - 1 FROM t') } $c->all));
$c->cluster('start-replicator');
all_there(40, 'all crashed');

done_testing;
