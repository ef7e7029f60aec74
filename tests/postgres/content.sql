-- What a database holds, as text: run on every node and compare.  Tables row by
-- row (without order), sequences, large objects, roles and settings.
-- Unlogged tables count, temporary ones don't.
SET search_path = pg_catalog;
SET extra_float_digits = 3;
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SET timezone = 'UTC';
SET row_security = off;
SET lc_messages = 'C';
SET client_min_messages = 'error';

SELECT format('SELECT ''table'', %L, count(*), coalesce(md5(string_agg(row(t.*)::text, E''\n'' ORDER BY row(t.*)::text COLLATE "C")), '''') FROM ONLY %s t',
	c.oid::regclass::text, c.oid::regclass)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND n.nspname !~ '^pg_'
	AND n.nspname NOT IN ('information_schema', 'lockstep') AND (c.relkind <> 'm' OR c.relispopulated)
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C" \gexec

SELECT 'matview', c.oid::regclass, c.relispopulated FROM pg_class c WHERE c.relkind = 'm' ORDER BY c.oid::regclass::text COLLATE "C";

SELECT format('SELECT ''sequence'', %L, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle, s.seqcache, v.last_value, v.is_called FROM pg_sequence s, %s v WHERE s.seqrelid = %L::regclass',
	c.oid::regclass::text, c.oid::regclass, c.oid::regclass)
FROM pg_class c WHERE c.relkind = 'S' AND c.relpersistence <> 't'
ORDER BY c.oid::regclass::text COLLATE "C" \gexec

SELECT 'large object', m.oid, r.rolname, m.lomacl, md5(lo_get(m.oid))
FROM pg_largeobject_metadata m LEFT JOIN pg_roles r ON r.oid = m.lomowner ORDER BY m.oid;
SELECT 'large object comment', objoid, description FROM pg_description WHERE classoid = 'pg_largeobject'::regclass ORDER BY objoid;

SELECT 'role', rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit, rolvaliduntil, rolpassword
FROM pg_authid ORDER BY rolname COLLATE "C";
SELECT 'member', r.rolname, m.rolname, g.rolname, a.admin_option
FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member LEFT JOIN pg_roles g ON g.oid = a.grantor
ORDER BY r.rolname COLLATE "C", m.rolname COLLATE "C";
SELECT 'setting', d.datname, r.rolname, s.setconfig FROM pg_db_role_setting s
LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole
ORDER BY d.datname COLLATE "C" NULLS FIRST, r.rolname COLLATE "C" NULLS FIRST;
SELECT 'parameter', parname, paracl FROM pg_parameter_acl ORDER BY parname COLLATE "C";
