-- Refusals, each with its SQLSTATE, its reason and what to do instead; nothing of a refused command is done, and the
-- session goes on.
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE TABLE rf (id int PRIMARY KEY, v text);
INSERT INTO rf VALUES (1, 'x');
CREATE SEQUENCE rf_seq;

-- databases, tablespaces
ALTER DATABASE postgres RENAME TO other;
\echo :SQLSTATE
ALTER DATABASE regression SET TABLESPACE pg_default;
\echo :SQLSTATE
ALTER DATABASE regression ALLOW_CONNECTIONS false;
\echo :SQLSTATE
DROP DATABASE postgres;
\echo :SQLSTATE
DROP DATABASE regress_not_there;
\echo :SQLSTATE
DROP DATABASE IF EXISTS regress_not_there;
\echo :SQLSTATE

-- lockstep's own objects
\set VERBOSITY terse
DROP EXTENSION lockstep CASCADE;
\set VERBOSITY default
\echo :SQLSTATE
DROP SCHEMA lockstep CASCADE;
\echo :SQLSTATE
DROP FUNCTION lockstep.status();
\echo :SQLSTATE
ALTER EXTENSION lockstep DROP FUNCTION lockstep.status();
\echo :SQLSTATE
ALTER EXTENSION lockstep SET SCHEMA public;
\echo :SQLSTATE
UPDATE lockstep.progress SET slot = slot;
\echo :SQLSTATE
COPY lockstep.cluster FROM '/dev/null';
\echo :SQLSTATE
TRUNCATE lockstep.progress;
\echo :SQLSTATE

-- catalogs
SET allow_system_table_mods = on;
INSERT INTO pg_description VALUES (0, 0, 0, 'x');
\echo :SQLSTATE
UPDATE pg_class SET reltuples = 5 WHERE oid = 'rf'::regclass;
\echo :SQLSTATE
RESET allow_system_table_mods;

-- what would have to be the same on every node, and is not
CREATE UNIQUE INDEX rf_oid ON rf (('rf'::regclass::oid), id);
\echo :SQLSTATE
CREATE UNIQUE INDEX rf_where ON rf (id) WHERE tableoid > 0;
\echo :SQLSTATE
CREATE TABLE rf_part (o oid) PARTITION BY LIST (((o::int8 + 'rf'::regclass::oid::int8)));
\echo :SQLSTATE
CREATE TABLE rf_exclude (id int, EXCLUDE USING btree (('rf'::regclass::oid) WITH =));
\echo :SQLSTATE
BEGIN;
CREATE TEMP TABLE rf_temp (id int PRIMARY KEY);
CREATE TABLE rf_like (LIKE rf_temp INCLUDING INDEXES);
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CREATE TEMP TABLE rf_temp (id int);
CREATE FUNCTION rf_atomic() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM rf_temp; END;
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CREATE TEMP TABLE rf_temp (id int);
DROP TABLE rf, rf_temp;
SELECT form, query FROM lockstep.forwarded;
ROLLBACK;
CREATE ROLE regress_rf LOGIN;
CREATE TABLE rf_session (id int, who text DEFAULT SESSION_USER);
CREATE POLICY rf_policy ON rf TO SESSION_USER USING (true);
\echo :SQLSTATE

-- two-phase commit; what can't be in a transaction block
BEGIN;
INSERT INTO rf VALUES (2, 'two');
PREPARE TRANSACTION 'rf';
\echo :SQLSTATE
ROLLBACK;
BEGIN;
CREATE INDEX CONCURRENTLY rf_i ON rf (v);
\echo :SQLSTATE
ROLLBACK;
DROP INDEX CONCURRENTLY rf_pkey, rf_pkey;
\echo :SQLSTATE

-- effects that no row tells of
SELECT pg_import_system_collations('public');
\echo :SQLSTATE
SELECT count(*) > 0 FROM pg_replication_origin_create('rf') x;
\echo :SQLSTATE

-- the replicator must be able to connect
ALTER ROLE postgres NOLOGIN;
\echo :SQLSTATE
ALTER ROLE postgres NOSUPERUSER;
\echo :SQLSTATE
DROP ROLE postgres;
\echo :SQLSTATE
ALTER DATABASE regression SET lockstep.replicate = off;
\echo :SQLSTATE
ALTER ROLE regress_rf SET lockstep.replicate = off;
\echo :SQLSTATE

-- a transaction that is read only
BEGIN READ ONLY;
CREATE TABLE rf_never (id int);
\echo :SQLSTATE
ROLLBACK;
BEGIN READ ONLY;
SELECT FROM nextval('rf_seq');
\echo :SQLSTATE
ROLLBACK;

-- the way out, for superusers: the effect is this node's alone
SET lockstep.unreplicated = allow;
SET client_min_messages = notice;
SELECT pg_replication_origin_create('rf') > 0;
SELECT pg_replication_origin_drop('rf');
RESET lockstep.unreplicated;
SET client_min_messages = warning;

-- rights come first: PostgreSQL's own words, before anything is asked of the cluster
\set VERBOSITY terse
SET ROLE regress_rf;
ALTER TABLE rf ADD x int;
\echo :SQLSTATE
CREATE INDEX ON rf (v);
\echo :SQLSTATE
TRUNCATE rf;
\echo :SQLSTATE
CREATE DATABASE regress_never;
\echo :SQLSTATE
CREATE ROLE regress_never;
\echo :SQLSTATE
DROP TABLE rf;
\echo :SQLSTATE
SET lockstep.unreplicated = allow;
\echo :SQLSTATE
RESET ROLE;

-- nothing of it was done
SELECT * FROM rf;
SELECT relname FROM pg_class WHERE relname ~ '^rf_' AND relkind IN ('r', 'p') ORDER BY 1;
SELECT datname FROM pg_database WHERE datname !~ '^template' ORDER BY 1;
SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = 'postgres';
DROP TABLE rf, rf_session;
DROP SEQUENCE rf_seq;
DROP ROLE regress_rf;
