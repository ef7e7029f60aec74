-- What is not replicated yet is refused with 0A000, before it does anything.
\set VERBOSITY default
CREATE TABLE r (id int PRIMARY KEY, v text);
INSERT INTO r VALUES (1, 'x'), (2, 'y');
-- sequences can be made, and not used
CREATE SEQUENCE r_s;
SELECT nextval('r_s');
SELECT setval('r_s', 7);
CREATE TABLE r_serial (id serial, v int);
INSERT INTO r_serial (v) VALUES (1);
INSERT INTO r_serial (id, v) VALUES (1, 1);
CREATE TABLE r_identity (id int GENERATED ALWAYS AS IDENTITY, v int);
INSERT INTO r_identity (v) VALUES (1);
ALTER TABLE r ADD COLUMN n serial;
-- two-phase commit
BEGIN;
INSERT INTO r VALUES (3, 'z');
PREPARE TRANSACTION 'r';
ROLLBACK;
-- outside of transactions
CREATE INDEX CONCURRENTLY r_i ON r (v);
DROP INDEX CONCURRENTLY r_pkey;
CREATE DATABASE r_db;
-- what is lockstep's, or the server's
INSERT INTO lockstep.progress VALUES (99, 1);
DROP TABLE lockstep.cluster;
SET allow_system_table_mods = on;
UPDATE pg_class SET reltuples = 1 WHERE relname = 'r';
RESET allow_system_table_mods;
-- nothing of it is there
SELECT relname, relkind FROM pg_class WHERE relname ~ '^r_' ORDER BY 1;
SELECT * FROM r;
SELECT * FROM r_serial;
-- local, and let through
VACUUM r;
ANALYZE r;
SELECT 1 AS found FROM (SELECT pg_advisory_lock(1)) x;
SELECT * FROM r FOR UPDATE;
CREATE TEMP TABLE r_temp AS SELECT random();
CREATE TEMP SEQUENCE r_ts;
SELECT nextval('r_ts');
DROP TABLE r, r_serial, r_identity;
DROP SEQUENCE r_s;
