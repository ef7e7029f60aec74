-- lockstep's functions and views, as clients and operators call them: what they give, what they refuse, and who may.
\pset format unaligned
\pset tuples_only on
CREATE TABLE fn (id int PRIMARY KEY, v text);
CREATE ROLE regress_fn;

-- where this node is: numbers grow by what is written
SELECT lockstep.last_seq() AS before \gset
INSERT INTO fn VALUES (1, 'x');
SELECT lockstep.last_seq() > :before, lockstep.applied_seq() >= lockstep.last_seq();
SELECT lockstep.wait_for(lockstep.last_seq()), lockstep.wait_for(lockstep.last_seq(), '1s');
SELECT lockstep.wait_for(lockstep.applied_seq() + 1000000, '10ms');
SELECT lockstep.wait_for(-1);
\echo :SQLSTATE
SELECT lockstep.wait_for(NULL);
SELECT lockstep.staleness() < '1 minute';

-- a token of a transaction, and what became of it
BEGIN;
SELECT lockstep.transaction_token() AS token \gset
SELECT length(:'token') > 20, lockstep.transaction_token() = :'token';
INSERT INTO fn VALUES (2, 'y');
COMMIT;
SELECT lockstep.outcome(:'token');
BEGIN;
SELECT lockstep.transaction_token() AS token \gset
INSERT INTO fn VALUES (3, 'z');
ROLLBACK;
SELECT lockstep.outcome(:'token');
SELECT lockstep.outcome('nonsense');
\echo :SQLSTATE
SELECT lockstep.outcome(NULL);

-- views of the cluster: their columns, and who may read them
SELECT v, string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
FROM unnest('{lockstep.forwarded,lockstep.conflicts,lockstep.conflict_counts,lockstep.waits,lockstep.nodes,lockstep.events}'::regclass[]) v, pg_attribute
WHERE attrelid = v AND attnum > 0 GROUP BY v ORDER BY v::text;
SELECT count(*) FROM lockstep.waits WHERE pid = pg_backend_pid();
SELECT state, lag >= 0, cause FROM lockstep.nodes WHERE name = current_setting('lockstep.node_name');
SELECT count(*) > 0 FROM lockstep.events WHERE event = 'node_online' AND node = current_setting('lockstep.node_name');
SELECT v, r, has_table_privilege(r, v, 'SELECT')
FROM unnest('{lockstep.forwarded,lockstep.conflicts,lockstep.conflict_counts,lockstep.waits,lockstep.nodes,lockstep.events,lockstep.progress,lockstep.cluster}'::regclass[]) v,
	unnest('{public,pg_monitor,pg_read_all_data}'::text[]) r ORDER BY v::text, r;
SET ROLE regress_fn;
SELECT * FROM lockstep.conflicts;
\echo :SQLSTATE
SELECT * FROM lockstep.waits;
\echo :SQLSTATE
SELECT * FROM lockstep.nodes;
\echo :SQLSTATE
SELECT * FROM lockstep.events;
\echo :SQLSTATE
SELECT node, connected FROM lockstep.status();
INSERT INTO lockstep.progress VALUES (1000, 1);
\echo :SQLSTATE
RESET ROLE;

-- who may execute which
SELECT has_function_privilege('public', p.oid, 'EXECUTE'), has_function_privilege('pg_monitor', p.oid, 'EXECUTE'), string_agg(DISTINCT proname, ' ' ORDER BY proname)
FROM pg_proc p WHERE pronamespace = 'lockstep'::regnamespace GROUP BY 1, 2 ORDER BY 1, 2;

-- what is for the replicator refuses everybody else, a superuser too; the commits of a node are held by one session
SELECT lockstep.apply_begin(1);
\echo :SQLSTATE
CALL lockstep.apply_transaction('');
\echo :SQLSTATE
CALL lockstep.commit_transaction('');
\echo :SQLSTATE
SELECT lockstep.apply_sequence('set', 'fn', 1, true, '');
\echo :SQLSTATE
SELECT lockstep.apply_settings('{work_mem}');
\echo :SQLSTATE
SELECT lockstep.repair_start();
\echo :SQLSTATE
SELECT lockstep.set_cluster('');
\echo :SQLSTATE
SELECT lockstep.hold_commits(NULL, '1s') > 0;
SELECT lockstep.release_commits();
SELECT lockstep.release_commits();

-- what verify compares: equal rows have equal digests, whatever their place
SELECT lockstep.row_digest(fn) = lockstep.row_digest(ROW(1, 'x')::fn), lockstep.row_digest(fn) = lockstep.row_digest(ROW(1, 'y')::fn) FROM fn WHERE id = 1;
SELECT lockstep.rows_fingerprint('fn') = lockstep.rows_fingerprint('fn');
SELECT count(*) > 0 FROM lockstep.fingerprint() WHERE object ~ 'fn';

-- everything says what it is
SELECT 'no comment', p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'lockstep'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL;
SELECT 'no comment', c.oid::regclass FROM pg_class c WHERE relnamespace = 'lockstep'::regnamespace AND relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') IS NULL;
SELECT 'no description', name FROM pg_settings WHERE name ~ '^lockstep\.' AND coalesce(short_desc, '') = '';
SELECT obj_description(oid, 'pg_extension') <> '' FROM pg_extension WHERE extname = 'lockstep';

-- settings: type, unit, range, who may change them and when
SELECT name, vartype, unit, context, min_val, max_val, enumvals FROM pg_settings WHERE name ~ '^lockstep\.' ORDER BY name COLLATE "C";
DROP TABLE fn;
DROP ROLE regress_fn;
