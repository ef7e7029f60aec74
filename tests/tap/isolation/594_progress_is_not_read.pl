# Each commit writes its place into lockstep.progress, after the transaction is decided.  That is no
# part of what a SERIALIZABLE transaction reads or writes: nobody's may fail for it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepPoints;
use Test::More;

my $c = LockstepPoints->new(nodes => 2);
$c->sql(1, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t VALUES (1, 0);
CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (id int PRIMARY KEY);
SQL
$c->drain;

# The reader's row of progress will be its first, so the index gets an entry.
my $serializable = 'BEGIN ISOLATION LEVEL SERIALIZABLE';
my ($other, $writer, $reader) = map { $c->session(1) } 1 .. 3;
$reader->do("$serializable; SELECT v FROM t WHERE id = 1; INSERT INTO b VALUES (1)");

# It has read what the writer changes, who is about to commit.
$writer->do("$serializable; UPDATE t SET v = 1 WHERE id = 1");
$c->order_at(1, 'ASKING', 'wait');
$writer->send('COMMIT');
ok($c->wait_until(sub { $c->was_there(1, 'ASKING') }, 20), 'a writer is about to commit');

# Another session looks for its row of progress, by the index.
$other->do("$serializable; INSERT INTO a VALUES (1)");
$other->query('COMMIT');
is($other->error, '', 'another transaction commits meanwhile');

$reader->query('COMMIT');
is($reader->error, '', 'the reader commits: its place is in no conflict with theirs');
$c->let_go(1, 'ASKING');
$writer->finish(20);
is($writer->error, '', 'and so does the writer');
$c->same('equal at the end');
done_testing;
