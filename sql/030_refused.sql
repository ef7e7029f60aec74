-- What is not replicated yet is refused with 0A000, before it does anything.
\set VERBOSITY default
CREATE TABLE r (id int PRIMARY KEY, v text);
CREATE SEQUENCE r_s;
CREATE TABLE r_serial (id serial);
CREATE TABLE r_identity (id int GENERATED ALWAYS AS IDENTITY);
SELECT lo_create(0);
SELECT lo_from_bytea(0, 'x');
NOTIFY r;
BEGIN;
INSERT INTO r VALUES (1, 'x');
PREPARE TRANSACTION 'r';
ROLLBACK;
CREATE INDEX CONCURRENTLY r_i ON r (v);
REINDEX TABLE CONCURRENTLY r;
CREATE TABLE r_as AS SELECT random() AS x;
ALTER TABLE r ADD COLUMN w float8 DEFAULT random();
SELECT pg_logical_emit_message(true, 'a', 'b');
CREATE DATABASE r_db;
CREATE PUBLICATION r_p;
CREATE SUBSCRIPTION r_s CONNECTION '' PUBLICATION x WITH (connect = false);
CREATE FOREIGN DATA WRAPPER r_w;
SELECT setval('pg_class', 1);
INSERT INTO lockstep.progress VALUES (99, 1);
SET allow_system_table_mods = on;
UPDATE pg_class SET reltuples = 1 WHERE relname = 'r';
RESET allow_system_table_mods;
-- nothing of it is there
SELECT relname FROM pg_class WHERE relname ~ '^r_' ORDER BY 1;
SELECT count(*) FROM r;
-- local, and let through
VACUUM r;
ANALYZE r;
SELECT 1 AS found FROM (SELECT pg_advisory_lock(1)) x;
SELECT * FROM r FOR UPDATE;
CREATE TEMP TABLE r_temp AS SELECT random();
CREATE TEMP SEQUENCE r_ts;
SELECT nextval('r_ts');
DROP TABLE r;
