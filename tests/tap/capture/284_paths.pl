# Rows are the same on all nodes whatever way they were changed: views with rules
# and triggers, CTEs, MERGE, ON CONFLICT, keys and partition keys, cascades,
# deferred constraints, cursors, COPY in all formats, foreign tables, row security,
# TOAST, dropped and generated columns, REPLICA IDENTITY, no key at all.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
my $turn = 0;

# On the next node in turn; then all are equal.
sub step
{
	my ($name, $sql) = @_;
	my $node = $turn++ % 3 + 1;
	my ($out, $err) = $c->try($node, $sql);
	my @errors = $err =~ /^(?:psql:.*?: )?(?:ERROR|FATAL).*$/mg;
	is("@errors", '', "$name: no error on n$node");
	$c->same($name);
	return $out;
}

sub everywhere
{
	my ($sql, $expected, $name) = @_;
	is($c->sql($_, $sql), $expected, "$name (n$_)") for $c->all;
}

# ---------- views

step('views', <<'SQL');
CREATE TABLE base (id int PRIMARY KEY, a text, b int DEFAULT 7);
CREATE TABLE log (who text, id int, at timestamptz);
CREATE VIEW simple AS SELECT id, a FROM base;
CREATE VIEW checked AS SELECT * FROM base WHERE b < 100 WITH CHECK OPTION;
CREATE VIEW ruled AS SELECT id, upper(a) AS a FROM base;
CREATE RULE ins AS ON INSERT TO ruled DO INSTEAD (INSERT INTO base VALUES (NEW.id, NEW.a || random()); INSERT INTO log VALUES ('rule', NEW.id, clock_timestamp()));
CREATE RULE upd AS ON UPDATE TO ruled DO INSTEAD UPDATE base SET a = NEW.a WHERE id = OLD.id;
CREATE RULE del AS ON DELETE TO ruled DO INSTEAD DELETE FROM base WHERE id = OLD.id;
CREATE RULE also AS ON INSERT TO base DO ALSO INSERT INTO log VALUES ('also', NEW.id, clock_timestamp());
CREATE VIEW triggered AS SELECT id, b FROM base;
CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN DELETE FROM base WHERE id = OLD.id; RETURN OLD; END IF;
	IF TG_OP = 'UPDATE' THEN UPDATE base SET b = NEW.b WHERE id = OLD.id; RETURN NEW; END IF;
	INSERT INTO base VALUES (NEW.id, gen_random_uuid()::text, NEW.b); RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF INSERT OR UPDATE OR DELETE ON triggered FOR EACH ROW EXECUTE FUNCTION instead();
INSERT INTO simple VALUES (1, 'one'), (2, 'two');
INSERT INTO checked VALUES (3, 'three', 3);
INSERT INTO ruled VALUES (4, 'four'), (5, 'five');
INSERT INTO triggered VALUES (6, 6), (7, 7), (8, 8);
UPDATE simple SET a = a || a WHERE id = 1;
UPDATE checked SET b = b + 1;
UPDATE ruled SET a = 'ruled' WHERE id = 4;
UPDATE triggered SET b = b * 10 WHERE id > 6;
DELETE FROM simple WHERE id = 2;
DELETE FROM ruled WHERE id = 5;
DELETE FROM triggered WHERE id = 6;
SQL

# ---------- one statement that does much

step('writable CTEs', <<'SQL');
CREATE TABLE one (id int PRIMARY KEY, v float8);
CREATE TABLE two (LIKE one);
WITH a AS (INSERT INTO one SELECT g, random() FROM generate_series(1, 20) g RETURNING *),
	b AS (INSERT INTO two SELECT id, v FROM a WHERE v < 0.5 RETURNING *)
	SELECT count(*) FROM b;
WITH moved AS (DELETE FROM one WHERE v >= 0.5 RETURNING *) INSERT INTO two SELECT * FROM moved;
WITH u AS (UPDATE one SET v = v + 1 RETURNING id, v), d AS (DELETE FROM two WHERE id % 2 = 0 RETURNING id)
	INSERT INTO two SELECT 100 + u.id, u.v FROM u;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) INSERT INTO two SELECT 200 + n, random() FROM r;
SQL

step('MERGE', <<'SQL');
CREATE TABLE target (id int PRIMARY KEY, v text, n int DEFAULT 0);
INSERT INTO target SELECT g, 'old' FROM generate_series(1, 10) g;
MERGE INTO target t USING (SELECT g AS id, random() AS r FROM generate_series(5, 15) g) s ON t.id = s.id
	WHEN MATCHED AND t.id = 7 THEN DELETE
	WHEN MATCHED AND t.id = 8 THEN DO NOTHING
	WHEN MATCHED THEN UPDATE SET v = 'merged ' || s.r, n = t.n + 1
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'new ' || s.r);
SQL

step('ON CONFLICT', <<'SQL');
INSERT INTO target VALUES (1, 'x'), (50, 'y'), (51, 'z') ON CONFLICT DO NOTHING;
INSERT INTO target VALUES (1, 'up'), (52, 'in') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v || target.v || random(), n = target.n + 1;
INSERT INTO target VALUES (2, 'up'), (3, 'up') ON CONFLICT (id) DO UPDATE SET id = target.id + 1000 WHERE target.id = 2;
INSERT INTO target SELECT g, 'many' FROM generate_series(1, 100) g ON CONFLICT (id) DO UPDATE SET n = -1;
SQL

step('keys', <<'SQL');
CREATE TABLE swap (id int PRIMARY KEY DEFERRABLE, u int UNIQUE DEFERRABLE INITIALLY DEFERRED, v text);
INSERT INTO swap SELECT g, g, 'v' || g FROM generate_series(1, 10) g;
UPDATE swap SET id = 11 - id;
UPDATE swap SET id = id + 1, u = u - 1;
BEGIN; UPDATE swap SET u = 5 WHERE id = 2; UPDATE swap SET u = -5 WHERE u = 5 AND id <> 2; COMMIT;
CREATE TABLE two_keys (a int, b text, c int UNIQUE, PRIMARY KEY (a, b));
INSERT INTO two_keys SELECT g, 'b' || g, g FROM generate_series(1, 10) g;
UPDATE two_keys SET a = a + 100, b = b || 'x' WHERE a % 2 = 0;
UPDATE two_keys SET c = NULL WHERE a % 3 = 0;
UPDATE two_keys SET a = a;
CREATE TABLE part_key (id int, v text); CREATE UNIQUE INDEX ON part_key (id) WHERE v IS NOT NULL; CREATE UNIQUE INDEX ON part_key (lower(v));
INSERT INTO part_key VALUES (1, 'A'), (1, NULL), (1, NULL), (2, 'b'), (NULL, 'c'), (NULL, NULL);
UPDATE part_key SET v = upper(v) || 'x', id = id + 10 WHERE v IS NOT NULL;
DELETE FROM part_key WHERE id = 1 AND ctid = (SELECT max(ctid) FROM part_key WHERE id = 1);
SQL

# ---------- partitions, inheritance

step('partitions', <<'SQL');
CREATE TABLE p (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1, 2);
CREATE TABLE p2 (v text, gone int, k int NOT NULL, id int NOT NULL); ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (3) ;
CREATE TABLE pd PARTITION OF p DEFAULT PARTITION BY HASH (id);
CREATE TABLE pd0 PARTITION OF pd FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE pd1 PARTITION OF pd FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO p SELECT g, g % 6, 'row ' || g FROM generate_series(1, 60) g;
UPDATE p SET k = k + 1 WHERE id % 5 = 0;
UPDATE p SET k = 3, v = v || random() WHERE k = 1;
UPDATE p SET id = id + 1000 WHERE k > 3;
UPDATE p1 SET v = 'direct';
DELETE FROM p WHERE k = 3 AND id % 2 = 0;
DELETE FROM pd1 WHERE id % 3 = 0;
WITH m AS (UPDATE p SET k = 2 WHERE k = 5 RETURNING id) SELECT count(*) FROM m;
ALTER TABLE p DETACH PARTITION p1; INSERT INTO p VALUES (5000, 1, 'in default'); INSERT INTO p1 VALUES (5000, 1, 'no partition');
CREATE TABLE parent (id int PRIMARY KEY, v text); CREATE TABLE child (extra float8 DEFAULT random()) INHERITS (parent);
INSERT INTO parent SELECT g, 'parent' FROM generate_series(1, 5) g; INSERT INTO child SELECT g, 'child' FROM generate_series(3, 8) g;
UPDATE parent SET v = v || ' updated' WHERE id > 2; DELETE FROM parent WHERE id = 4; UPDATE ONLY parent SET v = 'only' WHERE id = 3;
SQL

# ---------- foreign keys

step('foreign keys', <<'SQL');
CREATE TABLE f1 (id int PRIMARY KEY, u int UNIQUE);
CREATE TABLE f2 (id int PRIMARY KEY, r int REFERENCES f1 ON DELETE CASCADE ON UPDATE CASCADE, s int DEFAULT 1 REFERENCES f1 (u) ON DELETE SET DEFAULT ON UPDATE SET NULL);
CREATE TABLE f3 (r int REFERENCES f2 ON DELETE CASCADE, v float8 DEFAULT random());
CREATE TABLE f4 (id int PRIMARY KEY, up int REFERENCES f4 ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO f1 SELECT g, g FROM generate_series(1, 10) g;
INSERT INTO f2 SELECT g, g % 10 + 1, g % 10 + 1 FROM generate_series(1, 30) g;
INSERT INTO f3 SELECT g FROM generate_series(1, 30) g; INSERT INTO f3 SELECT g FROM generate_series(1, 30) g;
UPDATE f1 SET id = id + 100 WHERE id IN (3, 4);
UPDATE f1 SET u = u + 100 WHERE id IN (5, 103);
DELETE FROM f1 WHERE id IN (6, 104);
BEGIN; INSERT INTO f4 VALUES (2, 1), (3, 2), (4, 3); INSERT INTO f4 VALUES (1, NULL); COMMIT;
DELETE FROM f4 WHERE id = 2;
BEGIN; SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO f4 VALUES (10, NULL), (11, 10); UPDATE f4 SET up = 11 WHERE id = 11; COMMIT;
SQL
everywhere('SELECT count(*) FROM f4', 3, 'cascades have run once');

# ---------- cursors, portals

step('cursors', <<'SQL');
CREATE TABLE cur (id int PRIMARY KEY, v text);
INSERT INTO cur SELECT g, 'v' FROM generate_series(1, 20) g;
BEGIN;
DECLARE a CURSOR FOR SELECT * FROM cur ORDER BY id FOR UPDATE;
FETCH 3 FROM a; UPDATE cur SET v = 'current' WHERE CURRENT OF a;
MOVE 4 IN a; DELETE FROM cur WHERE CURRENT OF a;
DECLARE h CURSOR WITH HOLD FOR SELECT id, random() FROM cur;
COMMIT;
INSERT INTO cur SELECT 100, 'x'; FETCH ALL FROM h; CLOSE h;
CREATE FUNCTION loops() RETURNS void LANGUAGE plpgsql AS $$
DECLARE r record; c CURSOR FOR SELECT * FROM nokey WHERE v > 3;
BEGIN
	FOR r IN c LOOP UPDATE nokey SET v = v + random() WHERE CURRENT OF c; END LOOP;
	FOR r IN SELECT * FROM cur LOOP UPDATE cur SET v = r.id || clock_timestamp()::text WHERE id = r.id AND r.id % 2 = 0; END LOOP;
END $$;
CREATE TABLE nokey (v float8); INSERT INTO nokey SELECT g / 2 FROM generate_series(1, 20) g;
SELECT loops();
CREATE FUNCTION writes(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO cur VALUES (1000 + i, 'by select'); RETURN i; END $$;
BEGIN; DECLARE w CURSOR FOR SELECT writes(g) FROM generate_series(1, 10) g; FETCH 4 FROM w; COMMIT;
BEGIN; DECLARE w CURSOR WITH HOLD FOR SELECT writes(g) FROM generate_series(11, 15) g; COMMIT; FETCH ALL FROM w;
PREPARE ins (int, text) AS INSERT INTO cur VALUES ($1, $2 || random()); EXECUTE ins (2000, 'p'); EXECUTE ins (2001, 'q');
DO $$ BEGIN EXECUTE 'UPDATE cur SET v = $1 WHERE id = $2' USING 'dynamic', 1; END $$;
CREATE PROCEDURE proc() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO cur VALUES (3000, 'a'); COMMIT; INSERT INTO cur VALUES (3001, 'b'); ROLLBACK; INSERT INTO cur VALUES (3002, 'c'); END $$;
CALL proc();
SQL
everywhere('SELECT count(*) FROM cur WHERE id > 1000 AND id < 2000', 9, 'rows written by the SELECT of a cursor');

# ---------- COPY

my $csv = $c->file('data.csv', qq{"id";"t"\n1;"a;""quoted"""\n2;\n3;"multi\nline"\n4;"\\N"\n});
my $binary = $c->file('c.bin', '');
chmod 0666, $binary;
step('COPY', <<"SQL");
CREATE TABLE cp (id int PRIMARY KEY, t text, d timestamptz DEFAULT clock_timestamp(), r float8 DEFAULT random(), g int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE cpn (a int, b text);
COPY cp (id, t) FROM '$csv' WITH (FORMAT csv, HEADER, DELIMITER ';');
COPY cp (t, id) FROM stdin;
a\\tb\\\\c	10
\\N	11
\\.
COPY cp FROM stdin WITH (FORMAT csv, NULL 'nil', FORCE_NOT_NULL (t), QUOTE '''');
20,'x',nil,0.5
21,,infinity,NaN
\\.
COPY cp (id, t) FROM stdin WHERE id % 2 = 0;
30	yes
31	no
\\.
\\copy cpn FROM PROGRAM 'seq 1 1000 | sed "s/\$/\\tx/"'
BEGIN; CREATE TABLE fr (id int PRIMARY KEY, v text); COPY fr FROM stdin WITH (FREEZE);
1	frozen
2	also
\\.
COMMIT;
BEGIN; TRUNCATE cpn; COPY cpn FROM stdin WITH (FREEZE);
1	after truncate
\\.
COMMIT;
COPY cpn TO '$binary' WITH (FORMAT binary);
COPY cpn FROM '$binary' WITH (FORMAT binary);
COPY cpn TO STDOUT;
COPY (INSERT INTO cpn SELECT 77, 'by COPY TO' RETURNING *) TO STDOUT;
COPY (UPDATE cpn SET b = b || random() WHERE a = 1 RETURNING *) TO STDOUT;
COPY p FROM stdin WITH (FORMAT csv);
7001,3,copied
7002,9,copied
\\.
SQL
everywhere('SELECT count(*) FROM cpn', 3, 'COPY with FREEZE, binary, of a query');

# ---------- TOAST, dropped and generated columns, replica identity

step('TOAST', <<'SQL');
CREATE TABLE toast (id int PRIMARY KEY, a text, b text, n int);
ALTER TABLE toast ALTER a SET STORAGE EXTERNAL, ALTER b SET COMPRESSION pglz;
CREATE TABLE toast_nokey (a text, b text, n int);
INSERT INTO toast SELECT g, (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 300) i), repeat('compressible ' || g, 2000), 0 FROM generate_series(1, 10) g;
INSERT INTO toast_nokey SELECT a, b, n FROM toast; INSERT INTO toast_nokey SELECT a, b, n FROM toast WHERE id < 3;
UPDATE toast SET n = n + 1;
UPDATE toast SET a = a WHERE id = 1;
UPDATE toast SET a = a || 'x' WHERE id = 2;
UPDATE toast SET a = b, b = a WHERE id IN (3, 4);
UPDATE toast SET a = 'short' WHERE id = 5;
UPDATE toast SET a = NULL, b = DEFAULT WHERE id = 6;
UPDATE toast SET id = id + 100 WHERE id > 8;
UPDATE toast_nokey SET n = 1 WHERE length(b) % 2 = 0;
UPDATE toast_nokey SET n = 2 WHERE ctid = (SELECT min(ctid) FROM toast_nokey);
UPDATE toast_nokey SET a = b;
DELETE FROM toast_nokey WHERE ctid IN (SELECT max(ctid) FROM toast_nokey GROUP BY a HAVING count(*) > 1);
SQL

step('columns', <<'SQL');
CREATE TABLE col (a int, b text, c int PRIMARY KEY, d int GENERATED ALWAYS AS (c + length(coalesce(b, ''))) STORED, e int);
INSERT INTO col VALUES (1, 'x', 1), (2, 'yy', 2), (3, NULL, 3);
ALTER TABLE col DROP COLUMN a; ALTER TABLE col ADD COLUMN f text DEFAULT 'added'; ALTER TABLE col ADD COLUMN g int NOT NULL DEFAULT 5; ALTER TABLE col DROP COLUMN e;
INSERT INTO col (b, c) VALUES ('zzz', 4); UPDATE col SET b = b || b; UPDATE col SET c = c * 10; UPDATE col SET f = DEFAULT, g = c WHERE c = 40;
ALTER TABLE col RENAME b TO "B b"; ALTER TABLE col ALTER f TYPE varchar(20); UPDATE col SET "B b" = 'renamed' WHERE c = 10; DELETE FROM col WHERE d < 25;
CREATE TABLE nocol (); INSERT INTO nocol DEFAULT VALUES; INSERT INTO nocol DEFAULT VALUES; INSERT INTO nocol DEFAULT VALUES; DELETE FROM nocol WHERE ctid = (SELECT min(ctid) FROM nocol);
CREATE TABLE onlygen (a int GENERATED ALWAYS AS (1) STORED); INSERT INTO onlygen DEFAULT VALUES; INSERT INTO onlygen DEFAULT VALUES;
CREATE TABLE wide (id int PRIMARY KEY); 
SELECT format('ALTER TABLE wide %s', string_agg(format('ADD c%s text', g), ', ')) FROM generate_series(1, 300) g \gexec
INSERT INTO wide (id, c1, c150, c300) VALUES (1, 'a', 'b', 'c'), (2, 'd', 'e', 'f'); UPDATE wide SET c200 = c300, c3 = 'x' WHERE id = 2;
SQL
everywhere('SELECT count(*) FROM nocol', 2, 'rows without columns');

step('REPLICA IDENTITY', <<'SQL');
CREATE TABLE ri_full (id int PRIMARY KEY, v text); ALTER TABLE ri_full REPLICA IDENTITY FULL;
CREATE TABLE ri_nothing (id int PRIMARY KEY, v text); ALTER TABLE ri_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE ri_index (id int PRIMARY KEY, u int NOT NULL UNIQUE, v text); ALTER TABLE ri_index REPLICA IDENTITY USING INDEX ri_index_u_key;
CREATE TABLE ri_none (v text); ALTER TABLE ri_none REPLICA IDENTITY FULL;
INSERT INTO ri_full VALUES (1, 'a'), (2, 'b'); INSERT INTO ri_nothing VALUES (1, 'a'), (2, 'b'); INSERT INTO ri_index VALUES (1, 1, 'a'), (2, 2, 'b'); INSERT INTO ri_none VALUES ('a'), ('a'), (NULL), (NULL);
UPDATE ri_full SET id = id + 10, v = v || 'x'; UPDATE ri_nothing SET v = v || random(); UPDATE ri_index SET u = u + 10, v = 'c' WHERE id = 1; UPDATE ri_index SET id = 100 WHERE id = 2;
UPDATE ri_none SET v = 'b' WHERE ctid = (SELECT min(ctid) FROM ri_none); DELETE FROM ri_none WHERE ctid = (SELECT max(ctid) FROM ri_none);
DELETE FROM ri_full WHERE id = 12; DELETE FROM ri_nothing WHERE id = 1; DELETE FROM ri_index WHERE id = 1;
SQL

step('no key', <<'SQL');
CREATE TABLE heap (a int, b text, c float8, d timestamptz);
INSERT INTO heap SELECT g % 3, CASE WHEN g % 4 = 0 THEN NULL ELSE 'x' END, CASE g % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN NULL ELSE '0' END::float8, NULL FROM generate_series(1, 200) g;
UPDATE heap SET d = now() WHERE ctid IN (SELECT ctid FROM heap ORDER BY random() LIMIT 50);
UPDATE heap SET c = -c WHERE ctid IN (SELECT ctid FROM heap ORDER BY random() LIMIT 50);
DELETE FROM heap WHERE ctid IN (SELECT ctid FROM heap ORDER BY random() LIMIT 50);
UPDATE heap SET a = a + 1, b = NULL WHERE a = 1 AND b IS NOT DISTINCT FROM 'x';
UPDATE heap SET a = a;
SELECT count(*) FROM heap LIMIT 1;
DELETE FROM heap WHERE c = 'NaN';
SQL

# ---------- row security, roles, security definer

step('row security', <<'SQL');
CREATE ROLE rls_user; CREATE ROLE rls_owner; GRANT CREATE, USAGE ON SCHEMA public TO rls_owner; GRANT USAGE ON SCHEMA public TO rls_user;
SET ROLE rls_owner;
CREATE TABLE rls (id int PRIMARY KEY, owner text DEFAULT current_user, v text);
ALTER TABLE rls ENABLE ROW LEVEL SECURITY; ALTER TABLE rls FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON rls USING (owner = current_user) WITH CHECK (owner = current_user);
GRANT ALL ON rls TO rls_user;
INSERT INTO rls (id, v) VALUES (1, 'owner''s');
RESET ROLE; INSERT INTO rls VALUES (2, 'somebody', 'superuser''s');
SET ROLE rls_user; INSERT INTO rls (id, v) VALUES (3, 'user''s'), (4, 'too'); UPDATE rls SET v = v || '!'; DELETE FROM rls WHERE v LIKE 'too%';
RESET ROLE;
CREATE FUNCTION definer(i int) RETURNS void SECURITY DEFINER LANGUAGE sql SET search_path = public AS $$ INSERT INTO rls VALUES (i, 'rls_user', session_user || current_user) $$;
SELECT definer(10);
SQL
everywhere('SELECT string_agg(id || owner || v, $$,$$ ORDER BY id) FROM rls', q{1rls_ownerowner's,2somebodysuperuser's,3rls_useruser's!,10rls_userpostgrespostgres}, 'row security');

# ---------- temporary and foreign tables

step('temporary tables', <<'SQL');
CREATE TEMP TABLE tmp (id int PRIMARY KEY, v text); CREATE TABLE perm (id int PRIMARY KEY, v text);
WITH t AS (INSERT INTO tmp VALUES (1, 'temp'), (2, 'temp') RETURNING *) INSERT INTO perm SELECT id, v || random() FROM t;
WITH t AS (INSERT INTO perm VALUES (3, 'perm') RETURNING *) INSERT INTO tmp SELECT * FROM t;
UPDATE perm SET v = tmp.v || ' joined' FROM tmp WHERE tmp.id = perm.id; DELETE FROM tmp; DELETE FROM perm USING tmp WHERE tmp.id = perm.id;
CREATE TEMP TABLE tp (LIKE perm) ON COMMIT DELETE ROWS; INSERT INTO tp SELECT * FROM perm;
SQL
for my $node ($c->all)
{
	$c->sql_local($node, <<"SQL");
CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE outside (id int, t text) SERVER files OPTIONS (filename '$csv', format 'csv', header 'true', delimiter ';');
SQL
}
step('foreign tables are read', 'CREATE TABLE inside AS TABLE one WITH NO DATA; INSERT INTO inside SELECT id, id FROM outside; UPDATE inside SET v = 3 FROM outside WHERE outside.id = inside.id AND t IS NULL');
everywhere('SELECT count(*), sum(v) FROM inside', '4|11', 'what was read from one');

# ---------- functions, savepoints, batches

step('functions and savepoints', <<'SQL');
CREATE TABLE sp (id int PRIMARY KEY, v text);
BEGIN; INSERT INTO sp VALUES (1, 'kept'); SAVEPOINT a; INSERT INTO sp VALUES (2, 'gone'); UPDATE sp SET v = 'gone'; ROLLBACK TO a; INSERT INTO sp VALUES (3, 'kept'); RELEASE a; COMMIT;
CREATE FUNCTION catches(i int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	BEGIN INSERT INTO sp VALUES (i, 'gone'); INSERT INTO sp VALUES (1, 'duplicate'); EXCEPTION WHEN unique_violation THEN INSERT INTO sp VALUES (i + 1, 'caught'); END;
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN INSERT INTO sp VALUES (i + 2, 'outer'); RETURN 'x';
END $$;
SELECT catches(10), catches(20);
CREATE FUNCTION sqlf(i int) RETURNS SETOF sp LANGUAGE sql AS $$ INSERT INTO sp VALUES (i, random()::text), (i + 1, clock_timestamp()::text) RETURNING * $$;
SELECT * FROM sqlf(30); SELECT sqlf(40); SELECT (sqlf(50)).v;
CREATE FUNCTION atomic(i int) RETURNS void BEGIN ATOMIC INSERT INTO sp VALUES (i, 'atomic'); DELETE FROM sp WHERE id = 40; END;
SELECT atomic(60);
INSERT INTO sp VALUES (70, 'batch')\; UPDATE sp SET v = v || '!' WHERE id = 70\; INSERT INTO sp VALUES (71, 'batch');
SQL
everywhere('SELECT count(*) FROM sp', 12, 'rows of functions');

done_testing;
