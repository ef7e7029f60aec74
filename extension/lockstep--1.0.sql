/* extension/lockstep--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION lockstep" to load this file. \quit

GRANT USAGE ON SCHEMA lockstep TO PUBLIC;
COMMENT ON SCHEMA lockstep IS 'objects of the extension lockstep';

-- ---------- what a node remembers.  Not dumped by pg_dump: it is this node's own.

CREATE TABLE lockstep.progress (
	slot integer PRIMARY KEY,
	seq bigint NOT NULL
) WITH (fillfactor = 10);
COMMENT ON TABLE lockstep.progress IS 'position of this database in the journal; the highest seq counts';
COMMENT ON COLUMN lockstep.progress.slot IS 'slot of a backend; one row each, so that commits do not wait for each other';
COMMENT ON COLUMN lockstep.progress.seq IS 'seq of the last transaction that a backend in this slot committed';

CREATE TABLE lockstep.cluster (
	cluster text NOT NULL
);
COMMENT ON TABLE lockstep.cluster IS 'cluster that this database belongs to; empty if none';
COMMENT ON COLUMN lockstep.cluster.cluster IS 'identity of the cluster, from its journal';

-- ---------- for the replicator, on its control connections

CREATE FUNCTION lockstep.node_info(
	OUT node text, OUT cluster text, OUT boot text, OUT turn_open boolean,
	OUT applied bigint, OUT progress bigint, OUT version text)
AS 'MODULE_PATHNAME', 'lockstep_node_info' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.node_info() IS 'identity and position of this node';

CREATE FUNCTION lockstep.set_cluster(cluster text) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_set_cluster' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.set_cluster(text) IS 'make this database part of a cluster, once';

CREATE FUNCTION lockstep.turn_open(seq bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_turn_open' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.turn_open(bigint) IS 'set the applied position after the server''s start; return the current one';

CREATE FUNCTION lockstep.apply_start(cluster text) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_start' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_start(text) IS 'make this session an apply session';

CREATE FUNCTION lockstep.blockers(pids integer[],
	OUT waiting integer, OUT blocker integer, OUT writes boolean, OUT is_apply boolean)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_blockers' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.blockers(integer[]) IS 'processes that block these, with their transactions; at_row is the row of lockstep.apply_rows() that is blocked';

CREATE FUNCTION lockstep.yield(pid integer, detail text) RETURNS boolean
AS 'MODULE_PATHNAME', 'lockstep_yield' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.yield(integer, text) IS 'make the transaction of that process fail with 40001; false if there is none';

CREATE FUNCTION lockstep.rows_fingerprint(relation regclass) RETURNS text
AS 'MODULE_PATHNAME', 'lockstep_rows_fingerprint' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.rows_fingerprint(regclass) IS 'number of rows and hash of their texts, independent of their order';

REVOKE EXECUTE ON FUNCTION lockstep.node_info() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.set_cluster(text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.turn_open(bigint) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.apply_start(text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.blockers(integer[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.yield(integer, text) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION lockstep.rows_fingerprint(regclass) FROM PUBLIC;

-- ---------- for the replicator, while it applies.  These are called under the
-- role of a forwarded query, too, so they check the session, not the role.

CREATE FUNCTION lockstep.apply_wait(seq bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_wait' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_wait(bigint) IS 'wait until this node has applied everything up to seq';

CREATE FUNCTION lockstep.apply_begin(seq bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_begin' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_begin(bigint) IS 'claim seq for this transaction before it runs; SQLSTATE LS001 if it is already applied';

CREATE FUNCTION lockstep.apply_settings(settings text[]) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_settings' LANGUAGE C VOLATILE CALLED ON NULL INPUT;
COMMENT ON FUNCTION lockstep.apply_settings(text[]) IS 'use settings (name, value, ...) for the next query; null resets them';

CREATE FUNCTION lockstep.apply_copy(command text, data text) RETURNS bigint
AS 'MODULE_PATHNAME', 'lockstep_apply_copy' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_copy(text, text) IS 'COPY ... FROM STDIN with the data as a parameter; return the number of rows';

CREATE FUNCTION lockstep.apply_commit(seq bigint) RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_commit' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_commit(bigint) IS 'commit this transaction at its turn; SQLSTATE LS001 if seq is already applied';

CREATE FUNCTION lockstep.apply_rollback() RETURNS void
AS 'MODULE_PATHNAME', 'lockstep_apply_rollback' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.apply_rollback() IS 'raise SQLSTATE LS002, to roll the transaction back';

-- ---------- for people

CREATE FUNCTION lockstep.forwarded_queries(
	OUT n bigint, OUT form text, OUT reason text, OUT query text,
	OUT params text[], OUT rows bigint, OUT keys text[])
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'lockstep_forwarded_queries' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.forwarded_queries() IS 'queries that the current transaction has forwarded';

CREATE VIEW lockstep.forwarded AS
	SELECT n, form, reason, query, params, rows, keys
	FROM lockstep.forwarded_queries();
COMMENT ON VIEW lockstep.forwarded IS 'queries that the current transaction has forwarded, with their form and the reason for it';
GRANT SELECT ON lockstep.forwarded TO PUBLIC;

CREATE FUNCTION lockstep.status(
	OUT node text, OUT mode text, OUT applied bigint, OUT connected boolean, OUT replicator text)
AS 'MODULE_PATHNAME', 'lockstep_status' LANGUAGE C VOLATILE STRICT;
COMMENT ON FUNCTION lockstep.status() IS 'state of this node and of this session';

-- ---------- comparing nodes: equal content gives equal rows

CREATE FUNCTION lockstep.fingerprint(OUT object text, OUT value text)
RETURNS SETOF record
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
SET bytea_output = hex
SET datestyle = 'ISO, MDY'
SET intervalstyle = postgres
SET timezone = 'UTC'
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
			datlocprovider, daticulocale, pg_database_collation_actual_version(oid))
		FROM pg_database WHERE datname = current_database()
	UNION ALL
	SELECT 'server', (current_setting('server_version_num')::int / 10000)::text
	UNION ALL
	SELECT 'extension ' || extname, extversion FROM pg_extension
	UNION ALL
	SELECT 'role ' || quote_ident(rolname), md5(concat_ws(' ', rolsuper, rolinherit, rolcreaterole,
			rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolpassword, rolvaliduntil,
			(SELECT string_agg(g.rolname || m.admin_option, ',' ORDER BY g.rolname)
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
COMMENT ON FUNCTION lockstep.fingerprint() IS 'content and definitions of this database, for comparing nodes';
REVOKE EXECUTE ON FUNCTION lockstep.fingerprint() FROM PUBLIC;
