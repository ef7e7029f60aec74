-- The keys of changed rows, as people see them: each unique index of the table
-- with its mode, the parents of foreign keys, the table itself.
CREATE TABLE k_parent (id int PRIMARY KEY);
CREATE TABLE k (id int PRIMARY KEY, u text UNIQUE, p int REFERENCES k_parent, plain int);
CREATE TABLE k_none (a int);
INSERT INTO k_parent VALUES (1), (2);

-- inserted: every unique index, and the parent, shared
BEGIN;
INSERT INTO k VALUES (1, 'a', 1, 0);
SELECT n, regexp_replace(key, '[0-9a-f]{16}', 'HASH') AS key FROM lockstep.forwarded, unnest(keys) key ORDER BY n, 2;
COMMIT;

-- no column of a unique index changed
BEGIN;
UPDATE k SET plain = 1 WHERE id = 1;
SELECT n, regexp_replace(key, '[0-9a-f]{16}', 'HASH') AS key FROM lockstep.forwarded, unnest(keys) key ORDER BY n, 2;
COMMIT;

-- old and new values
BEGIN;
UPDATE k SET u = 'b' WHERE id = 1;
SELECT n, regexp_replace(key, '[0-9a-f]{16}', 'HASH') AS key FROM lockstep.forwarded, unnest(keys) key ORDER BY n, 2;
COMMIT;

-- equal values give equal keys whatever the type of the constant
BEGIN;
INSERT INTO k VALUES (3, 'c');
DELETE FROM k WHERE id = 3.0;
SELECT count(DISTINCT key) AS distinct_row_keys, count(*) AS keys
FROM lockstep.forwarded, unnest(keys) key WHERE key LIKE '%k_pkey%';
ROLLBACK;

-- without a key: the row
BEGIN;
INSERT INTO k_none VALUES (1);
SELECT n, regexp_replace(key, '[0-9a-f]{16}', 'HASH') AS key FROM lockstep.forwarded, unnest(keys) key ORDER BY n, 2;
ROLLBACK;

-- more rows than lockstep.max_row_keys: the table
SET lockstep.max_row_keys = 10;
BEGIN;
INSERT INTO k_none SELECT generate_series(1, 100);
SELECT DISTINCT regexp_replace(key, '[0-9a-f]{16}', 'HASH') AS key FROM lockstep.forwarded, unnest(keys) key
WHERE key ~ '^X|exclusive| X' ORDER BY 1;
ROLLBACK;
RESET lockstep.max_row_keys;
