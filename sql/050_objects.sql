-- The extension's objects, by pgTAP: what there is, who may use it, and that
-- each says what it is.  pgTAP itself is created in the transaction and rolled back.
\set QUIET on
\pset format unaligned
\pset tuples_only on
BEGIN;
CREATE EXTENSION pgtap;
SELECT plan(32);
SELECT has_table('lockstep', 'progress', 'progress is kept in a table');
SELECT has_table('lockstep', 'cluster', 'so is the identity of the cluster');
SELECT col_is_pk('lockstep', 'progress', 'slot', 'one row of progress per slot');
SELECT has_view('lockstep', 'forwarded', 'people can see what is forwarded');
SELECT view_owner_is('lockstep', 'forwarded', current_user, 'the view belongs to who created the extension');
SELECT has_function('lockstep', 'status', 'people can ask for the status');
SELECT has_function('lockstep', f, args, f || ' is there for the replicator')
FROM (VALUES ('turn_open', '{bigint}'::name[]), ('apply_begin', '{bigint}'), ('apply_commit', '{bigint}'),
	('turn_open', '{bigint,bigint}'), ('apply_begin', '{bigint,bigint}'), ('apply_begin', '{bigint,bigint,bigint}'), ('apply_commit', '{bigint,bigint}')) AS r(f, args);
SELECT has_column('lockstep', 'progress', 'chain', 'a place is a seq and a chain');
SELECT has_function('lockstep', f, args, f || ' is there for causal reads')
FROM (VALUES ('last_seq', '{}'::name[]), ('applied_seq', '{}'), ('wait_for', '{bigint,interval}')) AS r(f, args);
SELECT has_function('lockstep', f, args, f || ' is there for sequences')
FROM (VALUES ('apply_sequence', '{text,text,bigint,boolean,text}'::name[]), ('sequence_positions', '{}'), ('sequences_reported', '{}')) AS r(f, args);
SELECT has_function('lockstep', 'apply_index', '{text,text,text,text,text}'::name[], 'an index can be made step by step');
SELECT has_function('lockstep', 'apply_detach', '{text,text,text,text,text,text}'::name[], 'a partition can be detached step by step');
SELECT has_function('lockstep', f, args, f || ' is there for lockstepctl verify')
FROM (VALUES ('hold_commits', '{bigint,interval}'::name[]), ('release_commits', '{}'), ('row_digest', '{record}')) AS r(f, args);
SELECT has_view('lockstep', v, v || ' shows who lost to whom') FROM (VALUES ('conflicts'::name), ('conflict_counts')) AS r(v);
SELECT is_empty($$
	SELECT c.oid::regclass FROM pg_class c
	WHERE c.oid IN ('lockstep.conflicts'::regclass, 'lockstep.conflict_counts'::regclass)
	AND (has_table_privilege('public', c.oid, 'SELECT') OR NOT has_table_privilege('pg_monitor', c.oid, 'SELECT'))
$$, 'it names values of others: for those who monitor');
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.pronamespace = 'lockstep'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
$$, 'every function has a comment');
SELECT is_empty($$
	SELECT c.oid::regclass FROM pg_class c
	WHERE c.relnamespace = 'lockstep'::regnamespace AND c.relkind IN ('r', 'v')
	AND obj_description(c.oid, 'pg_class') IS NULL
$$, 'every table and view has a comment');
SELECT is_empty($$
	SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.pronamespace = 'lockstep'::regnamespace
	AND p.proname IN ('set_cluster', 'turn_open', 'apply_start', 'blockers', 'yield', 'sequence_positions', 'sequences_reported', 'hold_commits',
		'release_commits', 'verify_start', 'repair_start', 'definition_is_seen')
	AND has_function_privilege('public', p.oid, 'EXECUTE')
$$, 'what is for the replicator is for nobody else');
SELECT has_function('lockstep', 'apply_transaction', '{bytea}'::name[], 'apply_transaction is there for the replicator');
SELECT * FROM finish();
ROLLBACK;
