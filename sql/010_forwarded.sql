-- What a transaction forwards, in which form and why, kind by kind: rows, runs
-- of inserted rows as COPY, utility commands in their place among the rows.
-- lockstep.forwarded shows it to whoever made the transaction.
\pset format unaligned
\set show 'SELECT n, form, reason, query, params, rows FROM lockstep.forwarded;'

BEGIN;
CREATE TABLE f (id int PRIMARY KEY, v text, n numeric);
:show
INSERT INTO f VALUES (1, 'one', 1.10);
:show
COMMIT;

-- rows: an insert, an update of some columns, an update of the key, a delete
BEGIN;
INSERT INTO f VALUES (2, 'two', NULL);
UPDATE f SET v = 'it''s two' WHERE id = 2;
UPDATE f SET id = 20, n = 0.5 WHERE id = 2;
DELETE FROM f WHERE id = 20;
:show
COMMIT;
SELECT count(*) FROM lockstep.forwarded;

-- a run of inserted rows travels as one COPY
BEGIN;
INSERT INTO f SELECT i, 'row ' || i FROM generate_series(100, 109) i;
:show
ROLLBACK;

-- a rolled-back subtransaction takes its queries along
BEGIN;
INSERT INTO f VALUES (3);
SAVEPOINT a;
UPDATE f SET v = 'gone' WHERE id = 3;
SELECT n, query, params FROM lockstep.forwarded;
ROLLBACK TO a;
UPDATE f SET v = 'kept' WHERE id = 3;
SELECT n, query, params FROM lockstep.forwarded;
COMMIT;

-- an update that changes nothing, a delete that finds nothing
BEGIN;
UPDATE f SET v = v WHERE id = 1;
DELETE FROM f WHERE id = -1;
:show
COMMIT;

-- tables without a key: the image of the whole row, one row of it
BEGIN;
CREATE TABLE f_nokey (a int, b text);
INSERT INTO f_nokey VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
DELETE FROM f_nokey WHERE ctid = (SELECT min(ctid) FROM f_nokey WHERE a = 1);
UPDATE f_nokey SET b = 'y' WHERE a IS NULL;
SELECT n, form, query, params, rows FROM lockstep.forwarded WHERE n > 1;
COMMIT;

-- what was computed is in the rows
BEGIN;
UPDATE f SET n = length(v) WHERE id = 1;
UPDATE f SET v = CASE WHEN now() > '2000-01-01' AND random() >= 0 THEN 'decided here' END WHERE id = 1;
SELECT n, form, query, params FROM lockstep.forwarded;
COMMIT;

-- utility commands run by DO blocks stand where they ran
BEGIN;
DO $$
BEGIN
	INSERT INTO f VALUES (4);
	EXECUTE 'CREATE TABLE f_do (id int PRIMARY KEY)';
	INSERT INTO f_do VALUES (1);
END $$;
SELECT n, form, reason, query FROM lockstep.forwarded;
COMMIT;

-- cascades of a foreign key are rows like any other
CREATE TABLE f_parent (id int PRIMARY KEY);
CREATE TABLE f_child (id int PRIMARY KEY, p int REFERENCES f_parent ON DELETE CASCADE);
INSERT INTO f_parent VALUES (1);
INSERT INTO f_child VALUES (10, 1), (11, 1);
BEGIN;
DELETE FROM f_parent WHERE id = 1;
SELECT form, query, params FROM lockstep.forwarded ORDER BY query, params;
COMMIT;

-- the form does not depend on what the client has set
SET DateStyle = 'German';
SET IntervalStyle = 'sql_standard';
SET bytea_output = 'escape';
SET extra_float_digits = -10;
SET search_path = pg_catalog;
BEGIN;
CREATE TABLE public.f_types (d date, i interval, b bytea, f float8);
INSERT INTO public.f_types VALUES ('2020-02-01', '1 day 02:00', '\x00ff', 0.1);
SELECT form, query, params FROM lockstep.forwarded WHERE n > 1;
COMMIT;
RESET ALL;

-- nothing: reads, temporary tables
BEGIN;
CREATE TEMP TABLE f_temp (a int);
INSERT INTO f_temp VALUES (1);
SELECT count(*) FROM f;
SELECT count(*) FROM lockstep.forwarded;
COMMIT;

-- everybody may look at his own
CREATE ROLE regress_lockstep_user;
SET ROLE regress_lockstep_user;
SELECT count(*) FROM lockstep.forwarded;
RESET ROLE;
DROP ROLE regress_lockstep_user;
