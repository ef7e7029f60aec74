-- Ways to change a row, and what of it is forwarded: the rows that were changed, as they are then, whatever
-- changed them; never the statement that found them.
\pset format unaligned
\pset tuples_only on
\set show 'SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;'

CREATE TABLE w (id int PRIMARY KEY, a int, v text);
\set reset 'TRUNCATE w; INSERT INTO w SELECT i, i, ''v'' || i FROM generate_series(1, 10) i;'

-- INSERT ... ON CONFLICT: what it did
:reset
BEGIN;
INSERT INTO w VALUES (1, 100, 'new'), (11, 110, 'new') ON CONFLICT (id) DO UPDATE SET v = w.v || ' updated';
INSERT INTO w VALUES (1, 100, 'new') ON CONFLICT DO NOTHING;
:show
COMMIT;

-- MERGE
:reset
BEGIN;
MERGE INTO w USING (VALUES (2, 'two'), (3, NULL), (12, 'twelve')) s (id, v) ON w.id = s.id
WHEN MATCHED AND s.v IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, s.v);
:show
COMMIT;

-- CTEs that write, RETURNING
:reset
BEGIN;
WITH gone AS (DELETE FROM w WHERE id IN (4, 5) RETURNING *)
INSERT INTO w SELECT id + 100, a, v FROM gone RETURNING id;
:show
COMMIT;

-- UPDATE ... FROM, DELETE ... USING, subqueries, a cursor
:reset
BEGIN;
UPDATE w SET v = s.v FROM (VALUES (6, 'six')) s (id, v) WHERE w.id = s.id;
DELETE FROM w USING (VALUES (7)) s (id) WHERE w.id = s.id;
UPDATE w SET a = (SELECT max(a) FROM w) WHERE id = 8;
DECLARE c CURSOR FOR SELECT * FROM w WHERE id = 9 FOR UPDATE;
FETCH c;
UPDATE w SET a = 99 WHERE CURRENT OF c;
:show
COMMIT;

-- many rows of one table: each of them, though they travel in one query
:reset
BEGIN;
UPDATE w SET a = a + 1 WHERE id > 6;
DELETE FROM w WHERE id < 4;
:show
COMMIT;

-- a unique value that moves from row to row
:reset
CREATE UNIQUE INDEX w_a ON w (a);
BEGIN;
UPDATE w SET a = -a WHERE id IN (1, 2);
:show
COMMIT;
DROP INDEX w_a;

-- COPY, as text and as CSV: one run
:reset
BEGIN;
COPY w FROM stdin;
20	1	a\tb
21	\N	\N
\.
COPY w (id, v) FROM stdin (FORMAT csv, HEADER);
id,v
22,"a, ""b"""
\.
:show
COMMIT;

-- triggers: what they make of the row, and what else they write; INSTEAD OF on a view
CREATE TABLE w_log (what text, id int);
CREATE FUNCTION w_before() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END';
CREATE FUNCTION w_after() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO w_log VALUES (TG_OP, NEW.id); RETURN NULL; END';
CREATE TRIGGER w_before BEFORE INSERT OR UPDATE ON w FOR EACH ROW EXECUTE FUNCTION w_before();
CREATE TRIGGER w_after AFTER INSERT OR UPDATE ON w FOR EACH ROW EXECUTE FUNCTION w_after();
:reset
BEGIN;
INSERT INTO w VALUES (30, 1, 'small');
UPDATE w SET v = 'smaller' WHERE id = 30;
:show
COMMIT;
DROP TRIGGER w_before ON w;
DROP TRIGGER w_after ON w;
CREATE VIEW w_view AS SELECT id, v FROM w;
CREATE FUNCTION w_instead() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE w SET v = NEW.v || ''!'' WHERE id = OLD.id; RETURN NEW; END';
:reset
BEGIN;
UPDATE w_view SET v = 'by the view' WHERE id = 1;
CREATE TRIGGER w_instead INSTEAD OF UPDATE ON w_view FOR EACH ROW EXECUTE FUNCTION w_instead();
UPDATE w_view SET v = 'instead' WHERE id = 2;
SELECT form, query, params, rows FROM lockstep.forwarded WHERE query !~ 'TRIGGER' ORDER BY n;
COMMIT;
CREATE RULE w_rule AS ON DELETE TO w_view DO INSTEAD UPDATE w SET v = NULL WHERE id = OLD.id;
:reset
BEGIN;
DELETE FROM w_view WHERE id = 3;
:show
COMMIT;

-- functions, DO blocks, EXECUTE, prepared statements
CREATE FUNCTION w_sql(int) RETURNS void LANGUAGE sql AS 'UPDATE w SET v = ''by SQL'' WHERE id = $1';
CREATE PROCEDURE w_proc(int) LANGUAGE plpgsql AS 'BEGIN DELETE FROM w WHERE id = $1; END';
PREPARE w_prepared (int) AS UPDATE w SET a = -1 WHERE id = $1;
:reset
BEGIN;
SELECT FROM w_sql(1);
CALL w_proc(2);
EXECUTE w_prepared (3);
DO $$ BEGIN EXECUTE 'UPDATE w SET a = $1 WHERE id = $2' USING 7, 4; END $$;
:show
COMMIT;
DEALLOCATE w_prepared;

-- what is caught in an exception block is not forwarded
:reset
BEGIN;
DO $$
BEGIN
	INSERT INTO w VALUES (40);
	BEGIN
		INSERT INTO w VALUES (41);
		INSERT INTO w VALUES (40);
	EXCEPTION WHEN unique_violation THEN
		INSERT INTO w VALUES (42);
	END;
END $$;
:show
COMMIT;

-- generated, identity, default and dropped columns
CREATE TABLE w_columns (gone int, id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int DEFAULT 5, g int GENERATED ALWAYS AS (n * 2) STORED);
ALTER TABLE w_columns DROP COLUMN gone;
BEGIN;
INSERT INTO w_columns DEFAULT VALUES;
INSERT INTO w_columns OVERRIDING SYSTEM VALUE VALUES (1000, 6);
UPDATE w_columns SET n = 7 WHERE id = 1;
UPDATE w_columns SET n = DEFAULT WHERE id = 1;
:show
COMMIT;

-- the row's identity: the key, another unique index, the whole row
CREATE TABLE w_identity (a int NOT NULL, b int, c text);
INSERT INTO w_identity VALUES (1, 1, 'one'), (2, NULL, NULL);
BEGIN;
UPDATE w_identity SET b = 9 WHERE a = 1;
DELETE FROM w_identity WHERE a = 2;
:show
COMMIT;
INSERT INTO w_identity VALUES (2, 2, 'two');
CREATE UNIQUE INDEX w_identity_a ON w_identity (a);
BEGIN;
UPDATE w_identity SET b = 7 WHERE a = 1;
DELETE FROM w_identity WHERE a = 2;
:show
COMMIT;
ALTER TABLE w_identity REPLICA IDENTITY FULL;
BEGIN;
UPDATE w_identity SET b = 8 WHERE a = 1;
:show
COMMIT;

-- partitions: the partition that has the row; a row that moves goes here and comes there
CREATE TABLE w_part (id int, k text, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
CREATE TABLE w_part_a PARTITION OF w_part FOR VALUES IN ('a');
CREATE TABLE w_part_b PARTITION OF w_part FOR VALUES IN ('b') PARTITION BY RANGE (id);
CREATE TABLE w_part_b1 PARTITION OF w_part_b DEFAULT;
BEGIN;
INSERT INTO w_part VALUES (1, 'a'), (2, 'b');
UPDATE w_part SET k = 'b' WHERE id = 1;
DELETE FROM w_part WHERE id = 2;
:show
COMMIT;
CREATE TABLE w_child (extra int) INHERITS (w);
:reset
BEGIN;
INSERT INTO w_child VALUES (50, 1, 'child', 2);
UPDATE w SET a = 2 WHERE id = 50;
:show
COMMIT;
DROP TABLE w_child;

-- actions of foreign keys
CREATE TABLE w_parent (id int PRIMARY KEY);
CREATE TABLE w_cascade (id int PRIMARY KEY, p int REFERENCES w_parent ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE w_set_null (id int PRIMARY KEY, p int REFERENCES w_parent ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED);
INSERT INTO w_parent VALUES (1), (2);
INSERT INTO w_cascade VALUES (1, 1), (2, 2);
INSERT INTO w_set_null VALUES (1, 2);
BEGIN;
UPDATE w_parent SET id = 10 WHERE id = 1;
DELETE FROM w_parent WHERE id = 2;
:show
COMMIT;

-- TRUNCATE
BEGIN;
TRUNCATE w_parent CASCADE;
:show
COMMIT;

-- a large value that an update does not touch stays where it is
CREATE TABLE w_large (id int PRIMARY KEY, big text, n int);
ALTER TABLE w_large ALTER big SET STORAGE EXTERNAL;
INSERT INTO w_large VALUES (1, repeat('x', 10000), 0);
BEGIN;
UPDATE w_large SET n = 1;
:show
UPDATE w_large SET big = big || 'y';
SELECT form, query, array_length(params, 1), length(params[1]), rows FROM lockstep.forwarded WHERE n = 2;
COMMIT;

-- with row security: what is forwarded is the same, and is shown to those who may see all rows
CREATE ROLE regress_ways;
:reset
GRANT ALL ON w TO regress_ways;
ALTER TABLE w ENABLE ROW LEVEL SECURITY;
CREATE POLICY w_policy ON w USING (id < 3);
SET ROLE regress_ways;
BEGIN;
UPDATE w SET v = 'mine' WHERE id < 5;
:show
COMMIT;
RESET ROLE;
SELECT * FROM w WHERE id < 5 ORDER BY id;

-- notifications and messages are forwarded as what they are
BEGIN;
NOTIFY w_channel, 'payload';
SELECT FROM pg_notify('w_channel', 'by a function');
SELECT FROM pg_logical_emit_message(true, 'prefix', 'text');
:show
COMMIT;

-- large objects
BEGIN;
SELECT lo_from_bytea(424242, 'text');
SELECT lo_put(424242, 0, 'T');
:show
COMMIT;
