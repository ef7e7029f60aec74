/* extension/lockstep--1.0--1.1.sql */

-- complain if script is sourced in psql, rather than via ALTER EXTENSION
\echo Use "ALTER EXTENSION lockstep UPDATE TO '1.1'" to load this file. \quit

-- ---------- catching up

CREATE FUNCTION lockstep.apply_begin(first bigint, last bigint, chain bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_begin_several' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_begin(bigint, bigint, bigint) IS 'claim all seqs from first to last for this transaction; SQLSTATE LS004 if that is not possible';

-- ---------- reading one's own writes on another node

CREATE FUNCTION lockstep.last_seq() RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_last_seq' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.last_seq() IS 'seq of the last transaction of this session that changed something; null if there is none';

CREATE FUNCTION lockstep.applied_seq() RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_applied_seq' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.applied_seq() IS 'seq of the last transaction that this node has committed';

CREATE FUNCTION lockstep.wait_for(seq bigint, timeout interval DEFAULT NULL) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_wait_for' LANGUAGE C VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION lockstep.wait_for(bigint, interval) IS 'wait until this node has committed everything up to seq; false on timeout';

-- ---------- what became of a transaction

CREATE FUNCTION lockstep.transaction_token() RETURNS text
AS 'MODULE_PATHNAME', 'lockstep_transaction_token' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.transaction_token() IS 'token of the current transaction, for lockstep.outcome()';

CREATE FUNCTION lockstep.outcome(token text) RETURNS text
AS 'MODULE_PATHNAME', 'lockstep_outcome' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.outcome(text) IS 'outcome of a transaction of any node: committed, aborted, in progress or unknown';

-- ---------- heartbeats, and how old is what a node shows

CREATE FUNCTION lockstep.heartbeat(seq bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_heartbeat' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.heartbeat(bigint) IS 'receive the position of the cluster from the replicator; return that of this node';
REVOKE EXECUTE ON FUNCTION lockstep.heartbeat(bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.staleness() RETURNS interval
AS 'MODULE_PATHNAME', 'lockstep_staleness' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.staleness() IS 'age of the data of this node; null if unknown';

CREATE FUNCTION lockstep.hold_writers(how text, ms bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_hold_writers' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.hold_writers(text, bigint) IS 'refuse new transactions that write, or make them wait, for so many milliseconds; return the number of those that are open';
REVOKE EXECUTE ON FUNCTION lockstep.hold_writers(text, bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.recovered() RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_recovered' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.recovered() IS 'false after a crash of this server until the node has got back all commits that it may have forgotten';

-- ---------- who is in the way

DROP FUNCTION lockstep.yield(integer, text);
CREATE FUNCTION lockstep.yield(pid integer, detail text, seq bigint, lxid bigint) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_yield' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.yield(integer, text, bigint, bigint) IS 'make transaction lxid (0 is any) of that process fail with 40001, because the one decided as seq (0 is not yet) waits for it; false if it has ended';
REVOKE EXECUTE ON FUNCTION lockstep.yield(integer, text, bigint, bigint) FROM PUBLIC;

-- ---------- sequences

CREATE FUNCTION lockstep.apply_sequence(effect text, name text, value bigint, called boolean, extra text)
RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_sequence' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_sequence(text, text, bigint, boolean, text) IS 'change the position of a sequence at the turn of this transaction';

CREATE FUNCTION lockstep.sequence_positions(
	OUT database text, OUT name text, OUT value bigint, OUT extra text, OUT keys bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_sequence_positions' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.sequence_positions() IS 'sequences of which this node has handed out values that no transaction has reported';
REVOKE EXECUTE ON FUNCTION lockstep.sequence_positions() FROM PUBLIC;

CREATE FUNCTION lockstep.sequences_reported() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_sequences_reported' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.sequences_reported() IS 'note that all positions of sequences are equal again after the server''s start';
REVOKE EXECUTE ON FUNCTION lockstep.sequences_reported() FROM PUBLIC;

CREATE FUNCTION lockstep.sequence_leases(
	OUT database text, OUT name text, OUT value bigint, OUT increment bigint, OUT keys bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_sequence_leases' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.sequence_leases() IS 'for a replicator that has just come: how far this node may hand out values of sequences, or has done so';
REVOKE EXECUTE ON FUNCTION lockstep.sequence_leases() FROM PUBLIC;

-- ---------- comparing nodes while they are written to: lockstepctl verify

CREATE FUNCTION lockstep.hold_commits(seq bigint, patience interval) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_hold_commits' LANGUAGE C VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION lockstep.hold_commits(bigint, interval) IS 'hold commits on this node above seq (null is the current one) until released, until the session ends, or until the time is over; return the seq';
REVOKE EXECUTE ON FUNCTION lockstep.hold_commits(bigint, interval) FROM PUBLIC;

CREATE FUNCTION lockstep.release_commits() RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_release_commits' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.release_commits() IS 'release commits held by lockstep.hold_commits(); false if the time was over';
REVOKE EXECUTE ON FUNCTION lockstep.release_commits() FROM PUBLIC;

CREATE FUNCTION lockstep.verify_start() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_verify_start' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.verify_start() IS 'prepare this session for lockstep.row_digest()';
REVOKE EXECUTE ON FUNCTION lockstep.verify_start() FROM PUBLIC;

CREATE FUNCTION lockstep.repair_start() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_repair_start' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.repair_start() IS 'make this session, which holds commits, change this node only, without triggers';
REVOKE EXECUTE ON FUNCTION lockstep.repair_start() FROM PUBLIC;

CREATE FUNCTION lockstep.repair_place(seq bigint, chain bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_repair_place' LANGUAGE C VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION lockstep.repair_place(bigint, bigint) IS 'move the position of this node to seq at the commit of this transaction of a repair';
REVOKE EXECUTE ON FUNCTION lockstep.repair_place(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.row_digest(image record) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_row_digest' LANGUAGE C STABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION lockstep.row_digest(record) IS 'hash of a row as stored, equal on all nodes for equal values; after lockstep.verify_start()';

CREATE FUNCTION lockstep.definition_is_seen(relation regclass) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_definition_is_seen' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.definition_is_seen(regclass) IS 'true if the snapshot sees the current definition and storage of the table, which is locked';
REVOKE EXECUTE ON FUNCTION lockstep.definition_is_seen(regclass) FROM PUBLIC;

-- ---------- conflicts

CREATE FUNCTION lockstep.replicator_conflicts(what text DEFAULT 'conflicts',
	OUT time_us bigint, OUT database text, OUT node text, OUT pid integer, OUT transaction bigint,
	OUT winner_node text, OUT winner_pid integer, OUT winner_seq bigint, OUT "table" text, OUT key text,
	OUT reason text, OUT sqlstate text, OUT update_order text, OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_replicator_facts' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.replicator_conflicts(text) IS 'conflicts, for the view lockstep.conflicts';
REVOKE EXECUTE ON FUNCTION lockstep.replicator_conflicts(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lockstep.replicator_conflicts(text) TO pg_monitor;

CREATE VIEW lockstep.conflicts AS
SELECT to_timestamp(time_us / 1e6) AS "time", database, node, pid, transaction, winner_node, winner_pid, winner_seq,
	"table", key, reason, sqlstate, update_order, detail
FROM lockstep.replicator_conflicts();
COMMENT ON VIEW lockstep.conflicts IS 'last conflicts of the cluster, latest first, since the replicator started';
REVOKE ALL ON lockstep.conflicts FROM PUBLIC;
GRANT SELECT ON lockstep.conflicts TO pg_monitor;

CREATE FUNCTION lockstep.replicator_conflict_counts(what text DEFAULT 'conflict counts',
	OUT database text, OUT "table" text, OUT reason text, OUT conflicts bigint, OUT last_us bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_replicator_facts' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.replicator_conflict_counts(text) IS 'numbers of conflicts, for the view lockstep.conflict_counts';
REVOKE EXECUTE ON FUNCTION lockstep.replicator_conflict_counts(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lockstep.replicator_conflict_counts(text) TO pg_monitor;

CREATE VIEW lockstep.conflict_counts AS
SELECT database, "table", reason, conflicts, to_timestamp(last_us / 1e6) AS last
FROM lockstep.replicator_conflict_counts();
COMMENT ON VIEW lockstep.conflict_counts IS 'number of conflicts by table and reason, since the replicator started';
REVOKE ALL ON lockstep.conflict_counts FROM PUBLIC;
GRANT SELECT ON lockstep.conflict_counts TO pg_monitor;

CREATE FUNCTION lockstep.replicator_waits(what text DEFAULT 'waits',
	OUT node text, OUT pid integer, OUT transaction bigint, OUT seq bigint, OUT kind text, OUT waits text, OUT at_node text,
	OUT object text, OUT for_ms bigint,
	OUT blocker_node text, OUT blocker_pid integer, OUT blocker_transaction bigint, OUT blocker_seq bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_replicator_facts' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.replicator_waits(text) IS 'waits, for the view lockstep.waits';
REVOKE EXECUTE ON FUNCTION lockstep.replicator_waits(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lockstep.replicator_waits(text) TO pg_monitor;

CREATE VIEW lockstep.waits AS
SELECT node, pid, transaction, seq, kind, waits, at_node, object, for_ms * interval '1 ms' AS duration,
	blocker_node, blocker_pid, blocker_transaction, blocker_seq
FROM lockstep.replicator_waits();
COMMENT ON VIEW lockstep.waits IS 'waits of all transactions of the cluster, longest first';
REVOKE ALL ON lockstep.waits FROM PUBLIC;
GRANT SELECT ON lockstep.waits TO pg_monitor;

CREATE FUNCTION lockstep.replicator_nodes(what text DEFAULT 'nodes',
	OUT name text, OUT state text, OUT state_ms bigint, OUT applied bigint, OUT lag bigint, OUT lag_bytes bigint,
	OUT silent_ms bigint, OUT waiting integer, OUT reason text, OUT cause text, OUT hint text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_replicator_facts' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.replicator_nodes(text) IS 'nodes of the cluster, for the view lockstep.nodes';
REVOKE EXECUTE ON FUNCTION lockstep.replicator_nodes(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lockstep.replicator_nodes(text) TO pg_monitor;

CREATE VIEW lockstep.nodes AS
SELECT name, state, state_ms * interval '1 ms' AS state_duration, applied, lag, lag_bytes,
	silent_ms * interval '1 ms' AS silent, waiting, reason, cause, hint
FROM lockstep.replicator_nodes();
COMMENT ON VIEW lockstep.nodes IS 'nodes of the cluster as the replicator sees them, as lockstepctl nodes shows them';
REVOKE ALL ON lockstep.nodes FROM PUBLIC;
GRANT SELECT ON lockstep.nodes TO pg_monitor;

CREATE FUNCTION lockstep.replicator_events(what text DEFAULT 'events',
	OUT time_us bigint, OUT event text, OUT node text, OUT description text, OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_replicator_facts' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.replicator_events(text) IS 'last events of the cluster, for the view lockstep.events';
REVOKE EXECUTE ON FUNCTION lockstep.replicator_events(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lockstep.replicator_events(text) TO pg_monitor;

CREATE VIEW lockstep.events AS
SELECT to_timestamp(time_us / 1e6) AS "time", event, node, description, detail
FROM lockstep.replicator_events();
COMMENT ON VIEW lockstep.events IS 'last 100 events of the cluster, latest first, since the replicator started';
REVOKE ALL ON lockstep.events FROM PUBLIC;
GRANT SELECT ON lockstep.events TO pg_monitor;

-- ---------- CPU priority of sessions

CREATE FUNCTION lockstep.session_priorities(OUT pid integer, OUT kind text, OUT asked integer, OUT nice integer, OUT autogroup integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_session_priorities' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.session_priorities() IS 'nice values of the processes of this server, for the view lockstep.priorities';

CREATE VIEW lockstep.priorities AS
SELECT pid, a.leader_pid, a.datname::text AS database, a.usename::text AS role, p.kind, p.asked, p.nice, p.autogroup
FROM lockstep.session_priorities() p JOIN pg_catalog.pg_stat_activity a USING (pid);
COMMENT ON VIEW lockstep.priorities IS 'CPU priority of the sessions of this node that have run a query: what was asked for, and what the operating system has';
GRANT SELECT ON lockstep.priorities TO PUBLIC;

-- ---------- a place in the journal's history: seq, and what it is known by

-- Who commits holds this table, and may wait for its turn behind one who would wait behind
-- ALTER TABLE: so the column comes without a lock that they meet.
CREATE FUNCTION lockstep.add_progress_chain() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_add_progress_chain' LANGUAGE C VOLATILE STRICT;
SELECT lockstep.add_progress_chain();
DROP FUNCTION lockstep.add_progress_chain();
COMMENT ON COLUMN lockstep.progress.chain IS 'checksum of the journal up to that transaction; null if version 1.0 wrote it';

CREATE FUNCTION lockstep.turn_open(at_seq bigint, at_chain bigint, OUT seq bigint, OUT chain bigint)
AS 'MODULE_PATHNAME', 'lockstep_turn_open_at' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.turn_open(bigint, bigint) IS 'set the applied position and its chain after the server''s start; return the current ones';
REVOKE EXECUTE ON FUNCTION lockstep.turn_open(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.apply_begin(seq bigint, chain bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_begin' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_begin(bigint, bigint) IS 'claim seq, with its chain, for this transaction before it runs';

CREATE FUNCTION lockstep.deliver_verdict(pid integer, boot bigint, xcount bigint, seq bigint, chain bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_deliver_verdict' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.deliver_verdict(integer, bigint, bigint, bigint, bigint) IS 'tell a backend that lost the replicator that its transaction is decided, and wait until it has committed; SQLSTATE LS001 if it has';

CREATE FUNCTION lockstep.apply_commit(seq bigint, chain bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_commit' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_commit(bigint, bigint) IS 'commit this transaction at its turn, with its chain';

-- Each start of a replicator takes a higher generation: one whose place another has
-- taken is refused.
CREATE TABLE lockstep.generation (
	generation bigint NOT NULL,
	run bigint NOT NULL
);
COMMENT ON TABLE lockstep.generation IS 'replicator that this database follows; empty if none yet, or one of version 1.0';
COMMENT ON COLUMN lockstep.generation.generation IS 'generation of the replicator, higher for each start; the highest of all databases of the server counts';
COMMENT ON COLUMN lockstep.generation.run IS 'random number of that start';

CREATE FUNCTION lockstep.enter_generation(generation bigint, run bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_enter_generation' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.enter_generation(bigint, bigint) IS 'make this session one of that replicator, which replaces lower generations; SQLSTATE LS005 if it is outdated';
REVOKE EXECUTE ON FUNCTION lockstep.enter_generation(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.known_generation(OUT generation bigint, OUT run bigint, OUT silent_ms bigint)
AS 'MODULE_PATHNAME', 'lockstep_known_generation' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.known_generation() IS 'replicator that this server or database follows, and how long it has been silent; null if it is not connected';
REVOKE EXECUTE ON FUNCTION lockstep.known_generation() FROM PUBLIC;

CREATE FUNCTION lockstep.server_key() RETURNS bytea
AS 'MODULE_PATHNAME', 'lockstep_server_key' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.server_key() IS 'key by which sessions prove to the replicator that they are of this server; new at each start';
REVOKE EXECUTE ON FUNCTION lockstep.server_key() FROM PUBLIC;

-- ---------- a server that has run without lockstep, or whose WAL was reset

CREATE FUNCTION lockstep.outside_run() RETURNS text
AS 'MODULE_PATHNAME', 'lockstep_outside_run' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.outside_run() IS 'why this server may hold changes of which no other node knows: it has run without lockstep since it was a node last, or its WAL was reset after a crash; null: neither';
REVOKE EXECUTE ON FUNCTION lockstep.outside_run() FROM PUBLIC;

CREATE FUNCTION lockstep.clear_outside_run() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_clear_outside_run' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.clear_outside_run() IS 'this server is what the others are, although it has run without lockstep or its WAL was reset: it may be attached again';
REVOKE EXECUTE ON FUNCTION lockstep.clear_outside_run() FROM PUBLIC;

-- ---------- indexes that are made and dropped concurrently

CREATE FUNCTION lockstep.apply_index(step text, schema text, "table" text, index text, definition text) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_index' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_index(text, text, text, text, text) IS 'execute a step of CREATE or DROP INDEX CONCURRENTLY: enter, ready, valid, invalid, dead or gone';

-- ---------- partitions that are detached concurrently

CREATE FUNCTION lockstep.apply_detach(step text, schema text, "table" text, partition_schema text, partition text, "constraint" text) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_detach' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_detach(text, text, text, text, text, text) IS 'execute a step of DETACH PARTITION CONCURRENTLY: pending, wait, detach or finalize';

-- ---------- what two nodes have to have in common: columns of catalogs that not
-- every PostgreSQL has (daticulocale is datlocale from 17 on) are asked for by name

CREATE OR REPLACE FUNCTION lockstep.fingerprint(OUT object text, OUT value text)
RETURNS SETOF record
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
SET bytea_output = hex
SET datestyle = 'ISO, MDY'
SET intervalstyle = postgres
SET timezone = 'UTC'
SET quote_all_identifiers = off
SET standard_conforming_strings = on
SET lc_monetary = 'C'
SET row_security = off
AS $$
	WITH schemas AS (
		SELECT oid, nspname FROM pg_namespace
		WHERE nspname NOT IN ('information_schema', 'lockstep') AND nspname !~ '^pg_'
	), relations AS (
		SELECT c.*, format('%I.%I', s.nspname, c.relname) AS qname
		FROM pg_class c JOIN schemas s ON s.oid = c.relnamespace
	)
	SELECT 'database', concat_ws(' ', pg_encoding_to_char(encoding), datcollate, datctype,
			datlocprovider, to_jsonb(d) ->> 'daticulocale', to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticurules',
			pg_database_collation_actual_version(oid))
		FROM pg_database d WHERE datname = current_database()
	UNION ALL
	SELECT 'server', (current_setting('server_version_num')::int / 10000)::text
	UNION ALL
	SELECT 'extension ' || extname, extversion FROM pg_extension
	UNION ALL
	SELECT 'role ' || quote_ident(rolname), md5(concat_ws(' ', rolsuper, rolinherit, rolcreaterole,
			rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolpassword, rolvaliduntil,
			(SELECT string_agg(concat_ws(' ', g.rolname, m.admin_option, to_jsonb(m) ->> 'inherit_option', to_jsonb(m) ->> 'set_option'),
				',' ORDER BY g.rolname, m.admin_option, to_jsonb(m) ->> 'inherit_option', to_jsonb(m) ->> 'set_option')
			 FROM pg_auth_members m JOIN pg_authid g ON g.oid = m.roleid WHERE m.member = r.oid)))
		FROM pg_authid r WHERE rolname !~ '^pg_'
	UNION ALL
	SELECT 'schema ' || quote_ident(nspname), concat_ws(' ', pg_get_userbyid(nspowner), nspacl)
		FROM pg_namespace JOIN schemas USING (oid, nspname)
	UNION ALL
	SELECT 'relation ' || qname, concat_ws(' ', relkind, relpersistence, pg_get_userbyid(relowner),
			relreplident, relrowsecurity, relacl, reloptions,
			CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(oid) END,
			CASE WHEN relkind = 'p' THEN pg_get_partkeydef(oid) END,
			pg_get_expr(relpartbound, oid))
		FROM relations WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c')
	UNION ALL
	SELECT 'columns ' || qname, string_agg(concat_ws(' ', quote_ident(a.attname),
			format_type(a.atttypid, a.atttypmod),
			CASE WHEN a.attcollation <> 0 THEN a.attcollation::regcollation::text END,
			CASE WHEN a.attnotnull THEN 'not null' END,
			a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), a.attacl), ', ' ORDER BY a.attnum)
		FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid
			LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
		WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f', 'c') AND a.attnum > 0 AND NOT a.attisdropped
		GROUP BY qname
	UNION ALL
	SELECT 'index ' || qname, concat_ws(' ', pg_get_indexdef(oid), i.indisvalid, i.indisreplident)
		FROM relations JOIN pg_index i ON i.indexrelid = oid
	UNION ALL
	SELECT 'constraint ' || qname || ' ' || quote_ident(conname),
			concat_ws(' ', pg_get_constraintdef(c.oid), convalidated)
		FROM relations r JOIN pg_constraint c ON c.conrelid = r.oid
	UNION ALL
	SELECT 'trigger ' || qname || ' ' || quote_ident(tgname), concat_ws(' ', pg_get_triggerdef(t.oid), tgenabled)
		FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT tgisinternal
	UNION ALL
	SELECT 'rule ' || qname || ' ' || quote_ident(w.rulename), concat_ws(' ', pg_get_ruledef(w.oid), w.ev_enabled)
		FROM relations r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
	UNION ALL
	SELECT 'policy ' || qname || ' ' || quote_ident(polname), concat_ws(' ', polcmd, polpermissive,
			pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
		FROM relations r JOIN pg_policy p ON p.polrelid = r.oid
	UNION ALL
	SELECT 'function ' || p.oid::regprocedure, md5(concat_ws(' ', pg_get_userbyid(proowner), proacl,
			CASE WHEN prokind <> 'a' THEN pg_get_functiondef(p.oid) END))
		FROM pg_proc p JOIN schemas s ON s.oid = p.pronamespace
	UNION ALL
	SELECT 'type ' || format('%I.%I', s.nspname, typname), concat_ws(' ', typtype, pg_get_userbyid(typowner), typacl,
			(SELECT string_agg(quote_literal(enumlabel), ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
			CASE WHEN typtype = 'd' THEN concat_ws(' ', format_type(typbasetype, typtypmod), typnotnull, typdefault) END,
			(SELECT string_agg(pg_get_constraintdef(oid), ',' ORDER BY conname) FROM pg_constraint WHERE contypid = t.oid))
		FROM pg_type t JOIN schemas s ON s.oid = t.typnamespace
		WHERE typtype IN ('e', 'd', 'r', 'b') AND typcategory <> 'A'
	UNION ALL
	SELECT 'sequence ' || qname, concat_ws(' ', format_type(seqtypid, NULL), seqstart, seqincrement,
			seqmin, seqmax, seqcache, seqcycle, pg_sequence_last_value(r.oid))
		FROM relations r JOIN pg_sequence q ON q.seqrelid = r.oid
	UNION ALL
	SELECT 'large objects', count(*) || ' ' || coalesce(sum(hashtextextended(row(l.*)::text, 0)::numeric), 0)
		FROM pg_largeobject l
	UNION ALL
	SELECT 'rows ' || qname, lockstep.rows_fingerprint(oid)
		FROM relations WHERE relkind IN ('r', 'm') AND relpersistence <> 't'
	ORDER BY 1
$$;

-- ---------- a transaction of changed rows, in one call

CREATE PROCEDURE lockstep.apply_transaction(work bytea)
AS 'MODULE_PATHNAME', 'lockstep_apply_transaction' LANGUAGE C;
COMMENT ON PROCEDURE lockstep.apply_transaction(bytea) IS 'change the rows of a transaction, which commits at its turn if it is decided';

CREATE PROCEDURE lockstep.commit_transaction(work bytea)
AS 'MODULE_PATHNAME', 'lockstep_commit_transaction' LANGUAGE C;
COMMENT ON PROCEDURE lockstep.commit_transaction(bytea) IS 'this transaction has been decided, and commits at its turn';

CREATE FUNCTION lockstep.apply_piece(piece bytea) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_piece' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_piece(bytea) IS 'add a piece to the parameters of the next lockstep.apply_pieced_row() or apply_pieced_copy()';

CREATE FUNCTION lockstep.apply_pieced_row(query text, rows bigint, length bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_pieced_row' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_pieced_row(text, bigint, bigint) IS 'change a row whose parameters came in pieces of this total length';

CREATE FUNCTION lockstep.apply_pieced_copy(command text, length bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_apply_pieced_copy' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_pieced_copy(text, bigint) IS 'COPY ... FROM STDIN with data that came in pieces of this total length';

DROP FUNCTION lockstep.blockers(integer[]);
CREATE FUNCTION lockstep.blockers(pids integer[],
	OUT waiting integer, OUT blocker integer, OUT writes boolean, OUT is_apply boolean, OUT at_row integer, OUT lxid bigint,
	OUT asked bigint, OUT since bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_blockers' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.blockers(integer[]) IS 'processes that block these, with their transactions; at_row is the row of lockstep.apply_transaction() that is blocked; asked is the number of the transaction that the blocker awaits a verdict for (0 is none), which began when seq since was applied';
REVOKE EXECUTE ON FUNCTION lockstep.blockers(integer[]) FROM PUBLIC;

CREATE FUNCTION lockstep.deny_verdict(pid integer, asked bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_deny_verdict' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.deny_verdict(integer, bigint) IS 'tell a backend that lost the replicator that its transaction was not decided, and never will be';
REVOKE EXECUTE ON FUNCTION lockstep.deny_verdict(integer, bigint) FROM PUBLIC;

CREATE FUNCTION lockstep.yield_in_circle(pid integer, lxid bigint, detail text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_yield_in_circle' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.yield_in_circle(integer, bigint, text) IS 'make transaction lxid (0 is any) of that process fail with 40P01; false if it has ended';
REVOKE EXECUTE ON FUNCTION lockstep.yield_in_circle(integer, bigint, text) FROM PUBLIC;
CREATE FUNCTION lockstep.turn_waits(OUT pid integer, OUT seq bigint, OUT holds boolean) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_turn_waits' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION lockstep.turn_waits() IS 'processes that wait until this node has applied everything up to seq; holds is true for one that holds commits';
REVOKE EXECUTE ON FUNCTION lockstep.turn_waits() FROM PUBLIC;
CREATE FUNCTION lockstep.step_waits(OUT pid integer, OUT blocker integer) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_step_waits' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION lockstep.step_waits() IS 'apply sessions in which a step of a CONCURRENTLY command waits for the transaction of a process, without a lock';
REVOKE EXECUTE ON FUNCTION lockstep.step_waits() FROM PUBLIC;

-- ---------- values whose texts are not exact

CREATE FUNCTION lockstep.received(value bytea, of anyelement) RETURNS anyelement
AS 'MODULE_PATHNAME', 'lockstep_received' LANGUAGE C STABLE CALLED ON NULL INPUT;
COMMENT ON FUNCTION lockstep.received(bytea, anyelement) IS 'value of the type of the second argument whose binary form is the first';

-- ---------- unlogged tables

CREATE UNLOGGED TABLE lockstep.unlogged_marker (
	is_set boolean NOT NULL
);
COMMENT ON TABLE lockstep.unlogged_marker IS 'has a row, until a crash of the server empties this table and all unlogged ones';
COMMENT ON COLUMN lockstep.unlogged_marker.is_set IS 'true';

CREATE TABLE lockstep.unlogged_missing (
	relation oid PRIMARY KEY
);
COMMENT ON TABLE lockstep.unlogged_missing IS 'unlogged tables of which this node has lost the rows, until they are fetched from another node or deleted everywhere';
COMMENT ON COLUMN lockstep.unlogged_missing.relation IS 'OID of the table';

-- in a database that is replicated already, unlogged tables were not: see docs/operating.md
INSERT INTO lockstep.unlogged_marker VALUES (true);
INSERT INTO lockstep.unlogged_missing
	SELECT oid FROM pg_catalog.pg_class
	WHERE relkind = 'r' AND relpersistence = 'u' AND relnamespace <> 'lockstep'::pg_catalog.regnamespace
		AND EXISTS (SELECT FROM lockstep.cluster);

CREATE FUNCTION lockstep.missing_unlogged() RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_missing_unlogged' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.missing_unlogged() IS 'number of unlogged tables of this database of which this node has lost the rows';
REVOKE EXECUTE ON FUNCTION lockstep.missing_unlogged() FROM PUBLIC;

CREATE FUNCTION lockstep.send_unlogged(truncate boolean) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_send_unlogged' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.send_unlogged(boolean) IS 'send the rows of all unlogged tables to nodes that have lost them; or truncate those that this node has lost';
REVOKE EXECUTE ON FUNCTION lockstep.send_unlogged(boolean) FROM PUBLIC;

CREATE FUNCTION lockstep.unlogged_settled() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_unlogged_settled' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.unlogged_settled() IS 'let those read who have waited for unlogged tables';
REVOKE EXECUTE ON FUNCTION lockstep.unlogged_settled() FROM PUBLIC;

CREATE FUNCTION lockstep.apply_refill(schema text, "table" text, begins boolean) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_refill' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_refill(text, text, boolean) IS 'all rows of an unlogged table follow, or have come';

-- ---------- for the operator of a server that has left its cluster

CREATE FUNCTION lockstep.leave_cluster() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_leave_cluster' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.leave_cluster() IS 'remove this database from its cluster, so that DROP EXTENSION lockstep is allowed; fails while it is replicated';
REVOKE EXECUTE ON FUNCTION lockstep.leave_cluster() FROM PUBLIC;
