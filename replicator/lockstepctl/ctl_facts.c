/*
 * ctl_facts.c
 *	  Compare what is in no table and no dump of a schema: roles, memberships,
 *	  settings of roles and databases, the databases themselves; and owners and
 *	  privileges of large objects.
 *
 * Read from the catalogs by the snapshot.  Each fact has a kind, a name and a
 * value; a checksum comes first, as there may be millions of large objects.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"

/* Role names are looked up by joins, because functions look at the present. */
static const char large_objects[] =
"SELECT 'large object' AS kind, m.oid::text AS object, "
"concat_ws(' ', 'owner ' || quote_ident(r.rolname), 'privileges ' || "
"(SELECT array_agg(a ORDER BY a)::text FROM unnest(m.lomacl::text[]) a), "
"'comment ' || quote_literal(d.description)) AS value "
"FROM pg_largeobject_metadata m LEFT JOIN pg_authid r ON r.oid = m.lomowner "
"LEFT JOIN pg_description d ON d.objoid = m.oid AND d.classoid = 'pg_largeobject'::regclass";

/* %s: the databases compared, as a list of literals. */
static const char global[] =
"SELECT 'role' AS kind, quote_ident(rolname) AS object, "
"concat_ws(' ', CASE WHEN rolsuper THEN 'SUPERUSER' END, CASE WHEN rolinherit THEN 'INHERIT' END, "
"CASE WHEN rolcreaterole THEN 'CREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' END, "
"CASE WHEN rolcanlogin THEN 'LOGIN' END, CASE WHEN rolreplication THEN 'REPLICATION' END, "
"CASE WHEN rolbypassrls THEN 'BYPASSRLS' END, 'CONNECTION LIMIT ' || rolconnlimit, "
"'VALID UNTIL ' || rolvaliduntil::text, 'PASSWORD ' || left(md5(rolpassword), 8), "
"'COMMENT ' || quote_literal(d.description)) AS value "
"FROM pg_authid r LEFT JOIN pg_shdescription d ON d.objoid = r.oid AND d.classoid = 'pg_authid'::regclass "
"WHERE rolname !~ '^pg_' "
"UNION ALL SELECT 'membership', format('of %%I in %%I', m.rolname, g.rolname), "
"string_agg(concat_ws(' ', CASE WHEN a.admin_option THEN 'WITH ADMIN OPTION' END, "
"'INHERIT ' || (to_jsonb(a) ->> 'inherit_option'), 'SET ' || (to_jsonb(a) ->> 'set_option'), "	/* from 16 on */
"'granted by ' || quote_ident(b.rolname)), ', ' ORDER BY b.rolname) "
"FROM pg_auth_members a JOIN pg_authid g ON g.oid = a.roleid JOIN pg_authid m ON m.oid = a.member "
"LEFT JOIN pg_authid b ON b.oid = a.grantor GROUP BY m.rolname, g.rolname "
"UNION ALL SELECT 'setting', concat_ws(' ', 'role ' || quote_ident(r.rolname), 'database ' || quote_ident(d.datname)), "
"(SELECT string_agg(c, ', ' ORDER BY c) FROM unnest(s.setconfig) c) "
"FROM pg_db_role_setting s LEFT JOIN pg_authid r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase "
"WHERE s.setdatabase = 0 OR d.datname IN (%s) "
"UNION ALL SELECT 'database', quote_ident(d.datname), concat_ws(' ', 'owner ' || quote_ident(r.rolname), "
"pg_encoding_to_char(d.encoding), d.datcollate, d.datctype, to_jsonb(d) ->> 'datlocprovider', "
"coalesce(to_jsonb(d) ->> 'daticulocale', to_jsonb(d) ->> 'datlocale'), "
"'ICU RULES ' || quote_literal(to_jsonb(d) ->> 'daticurules'), "
"CASE WHEN NOT d.datallowconn THEN 'ALLOW_CONNECTIONS false' END, CASE WHEN d.datistemplate THEN 'IS_TEMPLATE true' END, "
"'CONNECTION LIMIT ' || d.datconnlimit, "
"'privileges ' || (SELECT array_agg(a ORDER BY a)::text FROM unnest(d.datacl::text[]) a), "
"'COMMENT ' || quote_literal(c.description)) "
"FROM pg_database d LEFT JOIN pg_authid r ON r.oid = d.datdba "
"LEFT JOIN pg_shdescription c ON c.objoid = d.oid AND c.classoid = 'pg_database'::regclass WHERE d.datname IN (%s) "
"UNION ALL SELECT 'privileges of parameter', p.parname, "
"(SELECT array_agg(a ORDER BY a)::text FROM unnest(p.paracl::text[]) a) FROM pg_parameter_acl p";

static bool
sums_are_equal(Peers *p, const char *facts, bool *equal, long long *n)
{
	Answer		answers[CONFIG_MAX_NODES];
	char	   *sql = xasprintf("SELECT count(*), sum(lockstep.row_digest(f.*)) FROM (%s) f", facts);
	bool		ok = peers_ask(p, sql, answers);

	free(sql);
	if (!ok)
		return false;
	*equal = true;
	*n = strtoll(answer_value(&answers[0], 0), NULL, 10);
	for (int i = 0; i < p->v->nnodes; i++)
	{
		for (int column = 0; column < 2; column++)
			*equal &= strcmp(PQgetvalue(answers[i].rows[0], 0, column), PQgetvalue(answers[0].rows[0], 0, column)) == 0;
	}
	answers_free(answers, p->v->nnodes);
	return true;
}

/* kind and name -> node -> value */
static json_t *
by_name(const Verify *v, const Answer *answers)
{
	json_t	   *all = json_object();

	for (int i = 0; i < v->nnodes; i++)
	{
		const PGresult *r = answers[i].rows[0];

		for (int row = 0; row < PQntuples(r); row++)
		{
			char	   *name = xasprintf("%s\n%s", PQgetvalue(r, row, 0), PQgetvalue(r, row, 1));
			json_t	   *nodes = json_object_get(all, name);

			if (nodes == NULL)
			{
				nodes = json_object();
				for (int other = 0; other < v->nnodes; other++)
					json_object_set_new(nodes, v->names[other], json_null());
				json_object_set_new(all, name, nodes);
			}
			json_object_set_new(nodes, v->names[i], json_from_text(PQgetvalue(r, row, 2)));
			free(name);
		}
	}
	return all;
}

static void
add_differing(const Verify *v, const char *database, json_t *all, json_t *found)
{
	const char *name;
	json_t	   *nodes;

	json_object_foreach(all, name, nodes)
	{
		const char *object = strchr(name, '\n') + 1;
		char	   *kind = xstrndup(name, (size_t) (object - 1 - name));
		bool		same = true;

		for (int i = 1; i < v->nnodes; i++)
			same &= json_equal(json_object_get(nodes, v->names[i]), json_object_get(nodes, v->names[0]));
		if (!same)
			json_array_append_new(found, verify_difference(database, kind, object, json_incref(nodes)));
		free(kind);
	}
}

static bool
facts_compare(Peers *p, const char *database, const char *what, const char *facts, json_t *found)
{
	Answer		answers[CONFIG_MAX_NODES];
	bool		equal;
	long long	n;
	json_t	   *all;

	if (!sums_are_equal(p, facts, &equal, &n))
		return false;
	verify_counted(p->v, database, what, n);
	if (equal)
		return true;
	if (!peers_ask(p, facts, answers))
		return false;
	all = by_name(p->v, answers);
	add_differing(p->v, strcmp(database, VERIFY_GLOBAL) == 0 ? NULL : database, all, found);
	json_decref(all);
	answers_free(answers, p->v->nnodes);
	return true;
}

bool
facts_compare_large_objects(const Snapshots *s, int database, json_t *found)
{
	return facts_compare((Peers *) &s->leaders[database], s->v->databases[database], "large objects", large_objects, found);
}

bool
facts_compare_globals(const Snapshots *s, json_t *found)
{
	Verify	   *v = s->v;
	Buffer		list = {0};
	char	   *sql;
	bool		ok;

	for (int d = 0; d < v->ndatabases; d++)
	{
		char	   *literal = PQescapeLiteral(s->leaders[0].conns[0], v->databases[d], strlen(v->databases[d]));

		if (literal == NULL)
			return verify_fail(v, "the name of a database cannot be quoted: \"%s\"", v->databases[d]);
		if (d > 0)
			buffer_append(&list, ",", 1);
		buffer_append(&list, literal, strlen(literal));
		PQfreemem(literal);
	}
	buffer_append(&list, "", 1);
	sql = xasprintf(global, (char *) list.data, (char *) list.data);
	ok = facts_compare((Peers *) &s->leaders[0], VERIFY_GLOBAL, "roles, memberships, settings and databases", sql, found);
	free(sql);
	buffer_free(&list);
	return ok;
}
