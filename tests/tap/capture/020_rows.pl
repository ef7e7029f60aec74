# Every way in which SQL changes a row arrives on the peer exactly: savepoints,
# functions, DO, COPY, partitions, cascades, triggers, tables without a key,
# ON CONFLICT, MERGE, CTEs, prepared statements, values of every kind.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

# One topic: prepare on n1, change on both, compare.
sub topic
{
	my ($name, $prepare, @changes) = @_;
	my $node = 0;
	$c->sql(1, $prepare) if $prepare;
	for my $change (@changes)
	{
		$c->sql(++$node, "SET lockstep.commit_wait = applied;\n$change");
		$node %= 2;
	}
	$c->same($name);
}

topic('savepoints and rolled-back subtransactions',
	'CREATE TABLE sp (id int PRIMARY KEY, v text)',
	"BEGIN; INSERT INTO sp VALUES (1, 'kept'); SAVEPOINT a; INSERT INTO sp VALUES (2, 'gone'); ROLLBACK TO a;
	 INSERT INTO sp VALUES (2, 'kept'); SAVEPOINT b; UPDATE sp SET v = 'gone'; SAVEPOINT c; DELETE FROM sp;
	 RELEASE c; ROLLBACK TO b; SAVEPOINT d; INSERT INTO sp VALUES (3, 'kept'); RELEASE d; COMMIT",
	"DO \$\$ BEGIN
		INSERT INTO sp VALUES (10, 'kept');
		BEGIN INSERT INTO sp VALUES (11, 'gone'); INSERT INTO sp VALUES (1, 'duplicate');
		EXCEPTION WHEN unique_violation THEN INSERT INTO sp VALUES (12, 'kept'); END;
	 END \$\$");
is($c->sql(2, "SELECT string_agg(id || v, ',' ORDER BY id) FROM sp"), '1kept,2kept,3kept,10kept,12kept', 'savepoints: the right rows');

topic('functions, procedures and DO blocks',
	"CREATE TABLE fn (id int PRIMARY KEY, v text)",
	"DO \$\$ BEGIN FOR i IN 1..50 LOOP INSERT INTO fn VALUES (i, 'x' || i); END LOOP; END \$\$",
	"DO \$\$ BEGIN UPDATE fn SET v = v || random()::text || clock_timestamp()::text WHERE id % 2 = 0;
		DELETE FROM fn WHERE id > 40; END \$\$");

topic('COPY', 'CREATE TABLE cp (id int PRIMARY KEY, v text, d timestamptz DEFAULT clock_timestamp())',
	"COPY cp (id, v) FROM stdin;\n" . join('', map { "$_\tvalue $_\\twith tab\n" } 1 .. 2000) . "\\.\n",
	"COPY cp (id, v) FROM stdin (FORMAT csv);\n" . join('', map { "$_,\"quoted, \"\"$_\"\"\"\n" } 3001 .. 3100) . "\\.\n");
is($c->sql(2, 'SELECT count(*) FROM cp'), 2100, 'COPY: all rows');

topic('partitions and row movement',
	"CREATE TABLE pt (id int, r text, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
	 CREATE TABLE pt_a PARTITION OF pt FOR VALUES IN ('a');
	 CREATE TABLE pt_b PARTITION OF pt FOR VALUES IN ('b') PARTITION BY RANGE (id);
	 CREATE TABLE pt_b1 PARTITION OF pt_b FOR VALUES FROM (0) TO (100);
	 CREATE TABLE pt_d PARTITION OF pt DEFAULT",
	"INSERT INTO pt SELECT i, chr(97 + i % 3), 'v' FROM generate_series(1, 90) i",
	"UPDATE pt SET r = 'b' WHERE r = 'a' AND id < 50; UPDATE pt SET r = 'zz' WHERE id = 1; DELETE FROM pt WHERE r = 'c' AND id > 60");

topic('inheritance',
	"CREATE TABLE parent (id int PRIMARY KEY, v text); CREATE TABLE child (extra text, PRIMARY KEY (id)) INHERITS (parent)",
	"INSERT INTO parent VALUES (1, 'p'); INSERT INTO child VALUES (2, 'c', 'e')",
	"UPDATE parent SET v = v || '!'; DELETE FROM ONLY parent");

topic('foreign keys with cascades',
	"CREATE TABLE fk_p (id int PRIMARY KEY, v int UNIQUE);
	 CREATE TABLE fk_c (id int PRIMARY KEY, p int REFERENCES fk_p ON DELETE CASCADE ON UPDATE CASCADE,
		pv int REFERENCES fk_p (v) ON DELETE SET NULL ON UPDATE SET DEFAULT DEFERRABLE INITIALLY DEFERRED);
	 CREATE TABLE fk_g (id int PRIMARY KEY, c int REFERENCES fk_c ON DELETE CASCADE)",
	"INSERT INTO fk_p SELECT i, i FROM generate_series(1, 20) i; INSERT INTO fk_c SELECT i, i, i FROM generate_series(1, 20) i;
	 INSERT INTO fk_g SELECT i, i FROM generate_series(1, 20) i",
	"DELETE FROM fk_p WHERE id <= 5; UPDATE fk_p SET id = id + 100 WHERE id > 15",
	"BEGIN; INSERT INTO fk_c VALUES (50, NULL, 500); INSERT INTO fk_p VALUES (500, 500); COMMIT");

topic('triggers, also ones that are always enabled',
	"CREATE TABLE tr (id int PRIMARY KEY, v text); CREATE TABLE tr_log (n int, what text, at timestamptz)",
	"INSERT INTO tr VALUES (0, 'x')");
SKIP:
{
	my (undef, $err) = $c->try(1, <<'SQL');
CREATE FUNCTION tr_f() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO tr_log VALUES (NEW.id, TG_OP, clock_timestamp());
	NEW.v := NEW.v || random()::text;
	RETURN NEW;
END $$;
CREATE TRIGGER tr_t BEFORE INSERT OR UPDATE ON tr FOR EACH ROW EXECUTE FUNCTION tr_f();
CREATE TRIGGER tr_a AFTER INSERT ON tr FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger();
SQL
	$c->try(1, 'DROP TRIGGER tr_a ON tr');
	skip "functions or triggers are refused as yet: $err", 2 if $err =~ /0A000/;
	$c->sql(1, 'ALTER TABLE tr ENABLE ALWAYS TRIGGER tr_t');
	topic('trigger rows', '', "INSERT INTO tr VALUES (1, 'a'), (2, 'b')", "UPDATE tr SET v = 'z' WHERE id = 2");
	is($c->sql(2, 'SELECT count(*) FROM tr_log'), 3, 'a trigger fires once, on the origin');
}

topic('tables without a key',
	'CREATE TABLE nk (a int, b text)',
	"INSERT INTO nk VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL), (NULL, NULL), (NULL, NULL)",
	"DELETE FROM nk WHERE ctid = (SELECT min(ctid) FROM nk WHERE a = 1)",
	"UPDATE nk SET b = 'y' WHERE ctid = (SELECT min(ctid) FROM nk WHERE a IS NULL)",
	"CREATE TABLE nf (v float8, n numeric); INSERT INTO nf VALUES ('NaN', 'NaN'), ('-0', 1.0), ('0', 1.00), ('Infinity', 0)",
	"UPDATE nf SET n = 2 WHERE v = 0 AND n::text = '1.00'; DELETE FROM nf WHERE v = 'NaN'");
is($c->sql(2, 'SELECT count(*) FROM nk'), 5, 'no key: one row of equals was deleted');

topic('ON CONFLICT',
	'CREATE TABLE oc (id int PRIMARY KEY, u int UNIQUE, n int DEFAULT 0)',
	'INSERT INTO oc SELECT i, i FROM generate_series(1, 10) i',
	'INSERT INTO oc SELECT i, i + 100 FROM generate_series(5, 15) i ON CONFLICT (id) DO UPDATE SET n = oc.n + 1, u = excluded.u',
	'INSERT INTO oc VALUES (1, 1), (90, 2) ON CONFLICT DO NOTHING');

topic('MERGE',
	'CREATE TABLE mg (id int PRIMARY KEY, v int)',
	'INSERT INTO mg SELECT i, i FROM generate_series(1, 10) i',
	'MERGE INTO mg USING generate_series(5, 15) s(i) ON mg.id = s.i
	 WHEN MATCHED AND i % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -v WHEN NOT MATCHED THEN INSERT VALUES (i, 0)');

topic('data-modifying CTEs, INSERT ... SELECT, RETURNING',
	'CREATE TABLE ct (id int PRIMARY KEY, v text); CREATE TABLE ct_old (LIKE ct)',
	"INSERT INTO ct SELECT i, md5(random()::text) FROM generate_series(1, 100) i",
	'WITH d AS (DELETE FROM ct WHERE id IN (SELECT id FROM ct ORDER BY random() LIMIT 10) RETURNING *)
	 INSERT INTO ct_old SELECT * FROM d',
	"WITH u AS (UPDATE ct SET v = gen_random_uuid()::text WHERE id < 20 RETURNING id) SELECT count(*) FROM u");

topic('generated, identity-like and dropped columns',
	"CREATE TABLE gc (id int PRIMARY KEY, a int, gone text, s int GENERATED ALWAYS AS (a * 2) STORED)",
	"INSERT INTO gc (id, a) VALUES (1, 2)",
	"ALTER TABLE gc DROP COLUMN gone",
	"INSERT INTO gc (id, a) VALUES (2, 3); UPDATE gc SET a = 10 WHERE id = 1");

topic('values of many types, whatever the client has set',
	"CREATE TABLE ty (id int PRIMARY KEY, i2 int2, n numeric, f4 float4, f8 float8, m money, t text, vc varchar(10), c char(5),
		b bytea, d date, ts timestamp, tz timestamptz, iv interval, bo boolean, u uuid, ip inet, bits bit(4), vb varbit,
		j json, jb jsonb, x xml, arr int[], arr2 text[][], p point, r int4range, mr int4multirange, o oid, rc regclass,
		tsv tsvector, na name)",
	"SET DateStyle = 'German'; SET TimeZone = 'Asia/Tokyo'; SET IntervalStyle = 'sql_standard'; SET extra_float_digits = -5;
	 SET bytea_output = 'escape';
	 INSERT INTO ty VALUES (1, -32768, 123456789.123456789012345678901234567890, 0.1, 0.1, '\$12.34', E'q\\'uo\\\\te\\n\\tä', 'abc', 'a',
		'\\\\x00ff5c27', '2020-02-29', '0044-03-15 BC', '2020-10-25 02:30:00+01', '-1 year 2 days 3:04:05.678', true,
		'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '::1/128', '1010', '101', '{\"a\":  1}', '{\"b\": [1, null]}', '<a>b</a>',
		'{1,NULL,3}', '{{a,\"b c\"},{\"\",NULL}}', '(1.5,-2)', '[1,5)', '{[1,2),[5,9)}', 4294967295, 'pg_class', 'a b:3', 'n')",
	"SET DateStyle = 'SQL, DMY'; INSERT INTO ty (id, f4, f8, d, ts, n) VALUES (2, 'NaN', '-Infinity', 'infinity', '-infinity', 'Infinity'),
		(3, 1.17549435e-38, 4.9406564584124654e-324, '4713-01-01 BC', '294276-12-31 23:59:59.999999', 'NaN')",
	"SET TimeZone = 'America/New_York'; UPDATE ty SET tz = tz + '1 day', f8 = f8 / 3, n = n * 1.0000000001, arr[5] = 9 WHERE id = 1");

topic('TOASTed values, changed and unchanged',
	"CREATE TABLE tt (id int PRIMARY KEY, big text, small int)",
	"INSERT INTO tt SELECT i, (SELECT string_agg(md5(i::text || j), '') FROM generate_series(1, 3000) j), i FROM generate_series(1, 3) i",
	"UPDATE tt SET small = small + 1", "UPDATE tt SET big = big || 'x' WHERE id = 2; DELETE FROM tt WHERE id = 3");

topic('names that need quoting',
	'CREATE SCHEMA "My Schema"; CREATE TABLE "My Schema"."Tab""le" ("Id" int PRIMARY KEY, "select" text, "a\'b" int)',
	'INSERT INTO "My Schema"."Tab""le" VALUES (1, \'x\', 2)',
	'SET search_path = "My Schema"; UPDATE "Tab""le" SET "select" = \'y\'; INSERT INTO "Tab""le" VALUES (2)');

topic('multi-statement strings and transactions that end in them', 'CREATE TABLE ms (id int PRIMARY KEY)',
	'INSERT INTO ms VALUES (1)\; INSERT INTO ms VALUES (2)\; BEGIN\; INSERT INTO ms VALUES (3)\; ROLLBACK',
	'INSERT INTO ms VALUES (4)\; COMMIT\; INSERT INTO ms VALUES (5)\; SELECT 1');

topic('temporary tables stay where they are', '',
	'CREATE TEMP TABLE tmp (a int); INSERT INTO tmp VALUES (1); INSERT INTO ms SELECT a + 100 FROM tmp; DROP TABLE tmp',
	'CREATE TEMP TABLE tmp ON COMMIT DROP AS SELECT 1 AS a');

# pgbench speaks the extended protocol, with and without named statements.
$c->sql(1, 'CREATE TABLE ep (id int PRIMARY KEY, v text, n numeric)');
$c->drain;
my $script = $c->file('ep.sql', <<'SQL');
\set id random(1, 100000000)
\set v random(1, 1000)
INSERT INTO ep VALUES (:id, :v, :v / 7.0) ON CONFLICT (id) DO NOTHING;
UPDATE ep SET n = n + :v WHERE id = :id;
SQL
for my $mode (qw(simple extended prepared))
{
	$c->pgbench([ 1, 2 ], '-n', '-M', $mode, '-f', $script, '-c', 2, '-t', 50, '--max-tries=100');
}
$c->same('simple, extended and prepared protocol');
cmp_ok($c->sql(1, 'SELECT count(*) FROM ep'), '>', 550, 'all of them arrived');

done_testing;
