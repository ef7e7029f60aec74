# Indexes made concurrently are defined alike on all nodes: each kind of thing that
# a definition can say; and what can't be made so is made by the plain command.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);

$c->sql(1, <<'SQL');
CREATE SCHEMA "A b";
CREATE TABLE "A b"."T ""x" (id int PRIMARY KEY, "K" text, n int, v int[], j jsonb);
INSERT INTO "A b"."T ""x" SELECT g, g::text, NULLIF(g, 3), ARRAY[g], '{}' FROM generate_series(1, 10) g;
CREATE UNIQUE INDEX CONCURRENTLY "I 1" ON "A b"."T ""x" (n) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "I 2" ON "A b"."T ""x" ("K" COLLATE "C" DESC NULLS LAST, lower("K"), (n + 1), lower("K"))
	INCLUDE (n, v) WITH (fillfactor = 50, deduplicate_items = off) WHERE n > 1 AND "K" <> 'it''s';
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "I 2" ON "A b"."T ""x" ("K");
CREATE INDEX CONCURRENTLY "I 3" ON "A b"."T ""x" USING gin (j jsonb_path_ops, v) WITH (fastupdate = off);
CREATE INDEX CONCURRENTLY "I 4" ON "A b"."T ""x" USING brin (id int4_minmax_multi_ops (values_per_range = 16)) WITH (pages_per_range = 2);
CREATE UNLOGGED TABLE u (id int PRIMARY KEY, k int);
CREATE INDEX CONCURRENTLY uk ON u (k);
CREATE TABLE r (id int PRIMARY KEY, k int);
CREATE FUNCTION kf(r) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.k';
SQL
$c->drain;
for my $n (1 .. 3)
{
	$c->fails($n, 'INSERT INTO "A b"."T ""x" VALUES (20)', '23505', qr/I 1/, "NULLS NOT DISTINCT holds on n$n");
}
my (undef, $err) = $c->try(2, 'CREATE INDEX CONCURRENTLY called ON r ((r.kf)); CREATE INDEX CONCURRENTLY named ON r ((r.k + 1))');
is($err, '', 'a function that is written as if it were a column');
$c->drain;

my @indexes = map { scalar $c->sql($_, <<'SQL') } 1 .. 3;
SELECT string_agg(concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid, indisready, indisunique, indnullsnotdistinct, indkey, indoption,
	(SELECT array_agg(concat_ws(' ', attname, attoptions) ORDER BY attnum) FROM pg_attribute WHERE attrelid = indexrelid),
	(SELECT count(*) FROM pg_depend WHERE objid = indexrelid), c.relowner::regrole, c.relpersistence), E'\n' ORDER BY c.relname)
FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid IN ('"A b"."T ""x"'::regclass, 'u'::regclass, 'r'::regclass)
SQL
is(scalar(() = $indexes[0] =~ /^CREATE/mg), 10, 'all indexes are there');
is($indexes[$_], $indexes[0], 'alike on n' . ($_ + 1)) for 1, 2;
is($c->sql(2, q(SELECT count(*) FROM pg_class WHERE relname ~ '^pg_temp_')), 0, 'and no table that they were tried on');

done_testing;
