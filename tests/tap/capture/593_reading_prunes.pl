# Whoever reads a page removes its dead rows, and writes that to the WAL.  A C function that
# reads a value from a TOAST table may come to such a page: that is no effect of the
# function, and neither refused nor forwarded.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "autovacuum = off\n");
$c->sql(1, <<'SQL');
CREATE EXTENSION pgcrypto;
CREATE TABLE s (id int PRIMARY KEY, v text);
ALTER TABLE s ALTER COLUMN v SET STORAGE EXTERNAL;
CREATE TABLE result (id int PRIMARY KEY, v bytea);
INSERT INTO s SELECT i, repeat('x', 3992) FROM generate_series(1, 40) i;
SQL
is($c->sql(1, q{SELECT provolatile FROM pg_proc WHERE proname = 'pgp_sym_encrypt' AND pronargs = 2 AND proargtypes[0] = 'text'::regtype}), 'v', 'a volatile function in C');

# A transaction reads rows of the TOAST table, on pages with dead ones.
my $pruned = 0;
for my $round (1 .. 4)
{
	$c->sql(1, "UPDATE s SET v = repeat('$round', 3992) WHERE id % 2 = $round % 2");
	$c->drain;
	my $s = $c->session(1);
	$s->do("BEGIN; INSERT INTO result VALUES (-$round, '')");
	my $before = $s->do(q{SELECT pg_current_wal_insert_lsn()});
	$s->do("INSERT INTO result SELECT 1000 * $round + id, pgp_sym_encrypt(v, 'key') FROM s");
	my $after = $s->do(q{SELECT pg_current_wal_insert_lsn()});
	$s->query('COMMIT');
	is($s->error, '', "round $round: the transaction is not refused");
	# a COMMIT does not wait for that (lockstep.local_flush), and pg_waldump reads files
	ok($c->wait_sql(1, "SELECT pg_current_wal_flush_lsn() >= '$after'", 't'), 'its WAL is flushed');
	my ($waldump) = `"\${PG_CONFIG:-pg_config}" --bindir` =~ /(.*)/;
	$pruned += () = `"$waldump/pg_waldump" -p @{[ $c->pgdata(1) ]}/pg_wal -r Heap2 -s $before -e $after 2>/dev/null` =~ /PRUNE/g;
}
cmp_ok($pruned, '>', 0, 'pages were pruned meanwhile');
$c->same('equal');

done_testing;
