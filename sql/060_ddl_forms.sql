-- Commands that go in another form than they were written: as structure and
-- rows, or with a value in place of what only this session knows.
\set VERBOSITY default
CREATE TABLE d (id int PRIMARY KEY, v text);
INSERT INTO d VALUES (1, 'x'), (2, 'y');
-- values that differ from node to node: the rows travel
BEGIN;
ALTER TABLE d ADD COLUMN r boolean DEFAULT random() < 2;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
BEGIN;
ALTER TABLE d ALTER COLUMN v TYPE text USING v || (random() < 2)::text;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
-- not if they depend on the row, or on the time of the transaction, only
BEGIN;
ALTER TABLE d ADD COLUMN t timestamptz DEFAULT now(), ADD COLUMN n int DEFAULT length('abc');
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
ROLLBACK;
-- materialized views
BEGIN;
CREATE MATERIALIZED VIEW d_m AS SELECT id, v FROM d;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
BEGIN;
REFRESH MATERIALIZED VIEW d_m;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
CREATE UNIQUE INDEX ON d_m (id);
DELETE FROM d WHERE id = 1;
BEGIN;
REFRESH MATERIALIZED VIEW CONCURRENTLY d_m;
SELECT form, left(query, 30) AS query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
DELETE FROM d;
BEGIN;
REFRESH MATERIALIZED VIEW d_m;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
-- EXPLAIN ANALYZE runs what it explains
BEGIN;
\o /dev/null
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) CREATE TABLE d_e AS SELECT 7 AS seven;
\o
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
-- the mark of CLUSTER ... USING
BEGIN;
CLUSTER d USING d_pkey;
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
-- what the session has set
SET work_mem = '7MB';
SET search_path = public, "Other";
BEGIN;
CREATE FUNCTION d_f() RETURNS int LANGUAGE sql SET work_mem FROM CURRENT SET search_path FROM CURRENT AS 'SELECT 1';
SELECT form, query, params, rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
SELECT proconfig FROM pg_proc WHERE proname = 'd_f';
RESET work_mem;
RESET search_path;
-- foreign data, publications, access methods go as they are
BEGIN;
CREATE FOREIGN DATA WRAPPER d_w;
CREATE SERVER d_s FOREIGN DATA WRAPPER d_w;
CREATE USER MAPPING FOR SESSION_USER SERVER d_s;
CREATE FOREIGN TABLE d_ft (a int) SERVER d_s;
SELECT form, query FROM lockstep.forwarded ORDER BY n;
COMMIT;
-- another name for the heap is as good
CREATE ACCESS METHOD d_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE d_h (a int) USING d_heap;
INSERT INTO d_h VALUES (1);
DROP FOREIGN DATA WRAPPER d_w CASCADE;
DROP FUNCTION d_f();
DROP TABLE d_e, d_h;
DROP ACCESS METHOD d_heap;
