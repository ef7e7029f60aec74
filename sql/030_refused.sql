-- What is not replicated yet is refused with 0A000, before it does anything.
\set VERBOSITY default
CREATE TABLE r (id int PRIMARY KEY, v text);
INSERT INTO r VALUES (1, 'x'), (2, 'y');
-- two-phase commit
BEGIN;
INSERT INTO r VALUES (3, 'z');
PREPARE TRANSACTION 'r';
ROLLBACK;
-- outside of transactions
CREATE DATABASE r_db TEMPLATE regression;
-- what is lockstep's, or the server's
INSERT INTO lockstep.progress VALUES (99, 1);
DROP TABLE lockstep.cluster;
SET allow_system_table_mods = on;
UPDATE pg_class SET relname = 'r_2' WHERE relname = 'r';
RESET allow_system_table_mods;
-- nothing of it is there
SELECT relname, relkind FROM pg_class WHERE relname ~ '^r_' ORDER BY 1;
SELECT * FROM r;
-- local, and let through
VACUUM r;
ANALYZE r;
SELECT 1 AS found FROM (SELECT pg_advisory_lock(1)) x;
SELECT * FROM r FOR UPDATE;
CREATE TEMP TABLE r_temp AS SELECT random();
DROP TABLE r;
