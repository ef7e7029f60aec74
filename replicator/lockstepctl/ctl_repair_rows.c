/*
 * ctl_repair_rows.c
 *	  Make the rows of a table, and large objects, on the repaired node equal to those of
 *	  the node that is right.
 *
 * Surplus rows are deleted by ctid, and missing rows are copied: a changed row is one of each.
 * That needs no key, and counts duplicates.  Deletes come first, so that no unique index is
 * violated.  Then the checksum of the whole table has to equal the source's.
 *
 * The session is an apply session, so no trigger and no rule fires, and nothing
 * is forwarded.  Rows travel as text, as all rows do between nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_repair.h"

#define MOST_ROWS 4000000		/* at most so many are compared; beyond that a
								 * clone is quicker */
#define ROWS_AT_A_TIME 5000
#define COPY_SIZE (1024 * 1024)

static PGconn *
leader(const Repair *r, int node)
{
	return r->snapshots.leaders[r->leader].conns[node];
}

/* A query on another node, by the snapshot. */
static PGresult *
ask_node(Repair *r, int node, const char *sql)
{
	PGresult   *result = PQexec(leader(r, node), sql);

	if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
		return result;
	(void) verify_fail(r->v, "node %s: %s", r->v->names[node], PQerrorMessage(leader(r, node)));
	PQclear(result);
	return NULL;
}

/* ---------- checksums */

static const char sums_query[] = "SELECT count(*) || ' ' || coalesce(sum(lockstep.row_digest(t.*)), 0) FROM ONLY %s t";

/* Of a node that is not repaired; NULL: not to be had. */
static char *
sum_of_other(Repair *r, int node, const char *name)
{
	char	   *literal = PQescapeLiteral(leader(r, node), name, strlen(name));
	char	   *seen = xasprintf("SELECT lockstep.definition_is_seen(%s)", literal != NULL ? literal : "NULL");
	char	   *sql = xasprintf(sums_query, name);
	PGresult   *result = ask_node(r, node, seen);
	char	   *sum = NULL;

	if (result != NULL && strcmp(PQgetvalue(result, 0, 0), "t") != 0)
		(void) verify_fail(r->v, "table %s has been altered on node %s meanwhile: try again", name, r->v->names[node]);
	else if (result != NULL)
	{
		PQclear(result);
		result = ask_node(r, node, sql);
		if (result != NULL)
			sum = xstrdup(PQgetvalue(result, 0, 0));
	}
	PQclear(result);
	PQfreemem(literal);
	free(seen);
	free(sql);
	return sum;
}

static char *
sum_of_target(Repair *r, const char *name)
{
	char	   *sql = xasprintf(sums_query, name);
	PGresult   *result = repair_do(r, sql, 0, NULL);
	char	   *sum = result != NULL ? xstrdup(PQgetvalue(result, 0, 0)) : NULL;

	PQclear(result);
	free(sql);
	return sum;
}

/* The source's checksum, with which the other nodes have to agree. */
static char *
right_sum(Repair *r, const char *name)
{
	char	   *right = sum_of_other(r, r->source, name);

	for (int i = 0; right != NULL && i < r->v->nnodes; i++)
	{
		char	   *its;

		if (i == r->source || i == r->target || r->v->options->source != NULL)
			continue;
		its = sum_of_other(r, i, name);
		if (its == NULL || strcmp(its, right) != 0)
		{
			if (its != NULL)
				(void) verify_fail(r->v, "nodes %s and %s do not agree about table %s: name the one that is right by --source",
								   r->v->names[r->source], r->v->names[i], name);
			free(right);
			right = NULL;
		}
		free(its);
	}
	return right;
}

static bool
is_right_now(Repair *r, const char *name, const char *right)
{
	char	   *sum = sum_of_target(r, name);
	bool		same = sum != NULL && strcmp(sum, right) == 0;

	if (sum != NULL && !same)
		(void) verify_fail(r->v, "table %s would not be equal after its repair (%s rows and checksum, not %s): nothing was changed",
						   name, sum, right);
	free(sum);
	return same;
}

/* ---------- deleting and copying */

/* The next rows of a node, as the text of an array; NULL: no more. */
static char *
next_places(const RowRef *refs, size_t n, int node, size_t *at, int *count)
{
	Buffer		list = {0};

	*count = 0;
	for (; *at < n && *count < ROWS_AT_A_TIME; (*at)++)
	{
		if (refs[*at].node != node)
			continue;
		buffer_append(&list, (*count)++ > 0 ? ",\"" : "{\"", 2);
		buffer_append(&list, refs[*at].ctid, strlen(refs[*at].ctid));
		buffer_append(&list, "\"", 1);
	}
	if (*count == 0)
		return NULL;
	buffer_append(&list, "}", 2);
	return (char *) list.data;
}

static bool
delete_rows(Repair *r, const char *name, const RowRef *refs, size_t n, long long *removed)
{
	char	   *sql = xasprintf("DELETE FROM ONLY %s WHERE ctid = ANY($1::tid[])", name);
	size_t		at = 0;
	int			count;
	char	   *places;
	bool		ok = true;

	while (ok && (places = next_places(refs, n, 1, &at, &count)) != NULL)
	{
		const char *params[1] = {places};
		PGresult   *result = repair_do(r, sql, 1, params);

		ok = result != NULL;
		if (ok && strtol(PQcmdTuples(result), NULL, 10) != count)
			ok = verify_fail(r->v, "table %s: rows to be deleted were not where they had been", name);
		*removed += count;
		PQclear(result);
		free(places);
	}
	free(sql);
	return ok;
}

/* Columns that are stored, generated ones too, and how their values are read. */
static bool
columns_of(Repair *r, const char *name, char **columns, char **values)
{
	const char *params[1] = {name};
	PGresult   *result = repair_do(r, "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), "
								   "string_agg(quote_ident(attname) || CASE WHEN format_type(atttypid, NULL) = 'xml' OR EXISTS "
								   "(WITH RECURSIVE b(t) AS (VALUES (atttypid) UNION ALL SELECT typbasetype FROM pg_type, b "
								   "WHERE oid = b.t AND typbasetype <> 0) SELECT 1 FROM b WHERE t = 'xml'::regtype) "
								   "THEN '::text' ELSE '' END, ', ' ORDER BY attnum) FROM pg_attribute "
								   "WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated IN ('', 's')", 1, params);
	bool		ok = result != NULL && !PQgetisnull(result, 0, 0);

	if (ok)
	{
		*columns = xstrdup(PQgetvalue(result, 0, 0));
		*values = xstrdup(PQgetvalue(result, 0, 1));
	}
	else if (result != NULL)
		(void) verify_fail(r->v, "cannot repair table %s: it has no columns", name);
	PQclear(result);
	return ok;
}

static bool
put_copied(Repair *r, const char *command, Buffer *data)
{
	const char *params[2] = {command};
	PGresult   *result;

	buffer_append(data, "", 1);
	params[1] = (const char *) data->data;
	result = repair_do(r, "SELECT lockstep.apply_copy($1, $2)", 2, params);
	PQclear(result);
	data->len = 0;
	return result != NULL;
}

/* Copy rows from the source, in pieces that the target accepts. */
static bool
copy_some(Repair *r, const char *select, const char *command)
{
	PGconn	   *source = leader(r, r->source);
	char	   *out = xasprintf("COPY (%s) TO STDOUT", select);
	PGresult   *result = PQexec(source, out);
	Buffer		data = {0};
	char	   *line;
	int			len;
	bool		ok = PQresultStatus(result) == PGRES_COPY_OUT;

	PQclear(result);
	free(out);
	while ((len = PQgetCopyData(source, &line, 0)) > 0)
	{
		if (ok)
			buffer_append(&data, line, (size_t) len);
		PQfreemem(line);
		if (ok && data.len > COPY_SIZE)
			ok = put_copied(r, command, &data);
	}
	while ((result = PQgetResult(source)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			ok = verify_fail(r->v, "node %s: %s", r->v->names[r->source], PQresultErrorMessage(result));
		PQclear(result);
	}
	if (ok && data.len > 0)
		ok = put_copied(r, command, &data);
	buffer_free(&data);
	if (!ok)
		(void) verify_fail(r->v, "node %s: %s", r->v->names[r->source], PQerrorMessage(source));
	return ok;
}

static bool
copy_rows(Repair *r, const char *name, const RowRef *refs, size_t n, long long *added)
{
	char	   *columns = NULL;
	char	   *values = NULL;
	char	   *command;
	char	   *places;
	size_t		at = 0;
	int			count;
	bool		ok = columns_of(r, name, &columns, &values);

	/* the data is a parameter, so it is in the database's encoding by then */
	command = xasprintf("COPY %s (%s) FROM STDIN (ENCODING '%s')", name, columns != NULL ? columns : "",
						PQparameterStatus(r->conn, "server_encoding"));
	while (ok && (places = next_places(refs, n, 0, &at, &count)) != NULL)
	{
		char	   *select = xasprintf("SELECT %s FROM ONLY %s WHERE ctid = ANY('%s'::tid[])", values, name, places);

		ok = copy_some(r, select, command);
		*added += count;
		free(select);
		free(places);
	}
	free(command);
	free(columns);
	free(values);
	return ok;
}

/* ---------- a table */

/* The rows that differ between the source (0) and the target (1). */
static bool
find_rows(Repair *r, const char *name, const char *right, RowRef **refs, size_t *n)
{
	Verify		two = {.options = r->v->options,.lock = PTHREAD_MUTEX_INITIALIZER,.nnodes = 2,.behind = -1};
	Peers		peers = {.v = &two,.database = r->database};
	bool		complete;
	bool		ok;

	two.names[0] = r->v->names[r->source];
	two.names[1] = r->v->names[r->target];
	peers.conns[0] = leader(r, r->source);
	peers.conns[1] = r->conn;
	ok = rows_find(&peers, name, strtoll(right, NULL, 10), MOST_ROWS, refs, n, &complete);
	if (!ok)
		(void) verify_fail(r->v, "could not find the rows of %s that differ: %s", name, two.error != NULL ? two.error : "try again");
	free(two.error);
	if (ok && !complete)
		return verify_fail(r->v, "too much differs in table %s to be repaired row by row: clone the node anew (lockstepctl join)", name);
	return ok;
}

/* A materialized view cannot be locked, but not refreshed meanwhile, either. */
static bool
lock_table(Repair *r, const char *name)
{
	const char *params[1] = {name};
	PGresult   *result = repair_do(r, "SELECT relkind FROM pg_class WHERE oid = $1::regclass", 1, params);
	char	   *sql = xasprintf("LOCK TABLE ONLY %s IN SHARE ROW EXCLUSIVE MODE", name);
	bool		ok = result != NULL && (strcmp(PQgetvalue(result, 0, 0), "m") == 0 || repair_run(r, sql));

	PQclear(result);
	free(sql);
	return ok;
}

/*
 * The rows cannot be inserted there, perhaps because a function in an index fails on that node
 * only.  Indexes that rows need not be checked against are left behind, invalid: the node works
 * without them.  False: there is none.
 */
static bool
set_indexes_aside(Repair *r, const char *name)
{
	const char *params[1] = {name};
	PGresult   *result = repair_do(r, "UPDATE pg_index SET indisvalid = false, indisready = false "
								   "WHERE indrelid = $1::regclass AND indisready AND NOT indisunique AND NOT indisexclusion "
								   "AND NOT indisreplident AND (indexprs IS NOT NULL OR indpred IS NOT NULL) "
								   "RETURNING indexrelid::regclass", 1, params);
	int			n = result != NULL ? PQntuples(result) : 0;

	for (int i = 0; i < n; i++)
		repair_note(r, INDEX_LEFT, PQgetvalue(result, i, 0), 0, 0);
	PQclear(result);
	return n > 0;
}

/* Delete and copy; again without indexes, if it fails. */
static bool
change_rows(Repair *r, const char *name, const RowRef *refs, size_t n, long long *removed, long long *added)
{
	char	   *error;

	if (!repair_run(r, "SAVEPOINT lockstep_rows"))
		return false;
	if (delete_rows(r, name, refs, n, removed) && copy_rows(r, name, refs, n, added))
		return true;
	if (PQtransactionStatus(r->conn) != PQTRANS_INERROR)
		return false;
	error = verify_take_error(r->v);
	*removed = *added = 0;
	if (!repair_run(r, "ROLLBACK TO SAVEPOINT lockstep_rows") || !repair_run(r, "SET LOCAL allow_system_table_mods = on") ||
		!set_indexes_aside(r, name) || !repair_run(r, "SET LOCAL allow_system_table_mods = off"))
	{
		free(verify_take_error(r->v));
		(void) verify_fail(r->v, "%s\nIts rows cannot be entered on node %s: mend that there with lockstep.replicate = off, or change "
						   "the rows on another node, and repair then", error, r->v->names[r->target]);
		free(error);
		return false;
	}
	free(error);
	return delete_rows(r, name, refs, n, removed) && copy_rows(r, name, refs, n, added);
}

bool
repair_table(Repair *r, const char *name)
{
	RowRef	   *refs = NULL;
	size_t		n = 0;
	long long	removed = 0;
	long long	added = 0;
	char	   *right;
	bool		ok;

	progress_say("database %s: table %s of node %s is repaired", r->database, name, r->v->names[r->target]);
	right = right_sum(r, name);
	ok = right != NULL && lock_table(r, name) &&
		find_rows(r, name, right, &refs, &n) &&
		change_rows(r, name, refs, n, &removed, &added) && is_right_now(r, name, right);

	if (ok && n > 0)
		repair_note(r, "rows", name, removed, added);
	free(refs);
	free(right);
	return ok;
}

/* ---------- large objects */

/* What is copied of each: owner, privileges, comment, content. */
static const char objects_query[] =
"SELECT m.oid, r.rolname, m.lomacl::text, d.description, "
"concat_ws(' ', r.rolname, (SELECT array_agg(a ORDER BY a) FROM unnest(m.lomacl::text[]) a), quote_nullable(d.description), s.sum) "
"FROM pg_largeobject_metadata m LEFT JOIN pg_authid r ON r.oid = m.lomowner "
"LEFT JOIN pg_description d ON d.objoid = m.oid AND d.classoid = 'pg_largeobject'::regclass "
"LEFT JOIN (SELECT loid, count(*) || ' ' || sum(lockstep.row_digest(l.*)) AS sum FROM pg_largeobject l GROUP BY 1) s "
"ON s.loid = m.oid ORDER BY m.oid";

enum
{
	LO_OID, LO_OWNER, LO_PRIVILEGES, LO_COMMENT, LO_ALL
};

static bool
repair_format(Repair *r, const char *format, const char *oid, const char *name)
{
	const char *params[3] = {format, oid, name};
	PGresult   *command = repair_do(r, "SELECT format($1, $2::oid, $3::text)", 3, params);
	bool		ok = command != NULL && repair_run(r, PQgetvalue(command, 0, 0));

	PQclear(command);
	return ok;
}

static bool
put_pages(Repair *r, const char *oid)
{
	char	   *sql = xasprintf("SELECT pageno::bigint * 2048, data FROM pg_largeobject WHERE loid = %s ORDER BY pageno", oid);
	PGresult   *pages = ask_node(r, r->source, sql);
	bool		ok = pages != NULL;

	free(sql);
	for (int i = 0; ok && i < PQntuples(pages); i++)
	{
		const char *params[3] = {oid, PQgetvalue(pages, i, 0), PQgetvalue(pages, i, 1)};
		PGresult   *result = repair_do(r, "SELECT lo_put($1::oid, $2::bigint, $3::bytea)", 3, params);

		ok = result != NULL;
		PQclear(result);
	}
	PQclear(pages);
	return ok;
}

/* Grant the privileges as they were granted, each by its grantor. */
static bool
put_privileges(Repair *r, const char *oid, const char *owner)
{
	char	   *sql = xasprintf("SELECT g.rolname, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(e.rolname) END, "
								"format('GRANT %%s ON LARGE OBJECT %%s TO ', a.privilege_type, m.oid), "
								"CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END "
								"FROM pg_largeobject_metadata m, aclexplode(m.lomacl) a JOIN pg_authid g ON g.oid = a.grantor "
								"LEFT JOIN pg_authid e ON e.oid = a.grantee WHERE m.oid = %s ORDER BY a.grantor <> m.lomowner", oid);
	PGresult   *grants = ask_node(r, r->source, sql);
	bool		ok = grants != NULL && repair_format(r, "REVOKE ALL ON LARGE OBJECT %s FROM %I", oid, owner);

	free(sql);
	for (int i = 0; ok && i < PQntuples(grants); i++)
	{
		char	   *grant = xasprintf("%s%s%s", PQgetvalue(grants, i, 2), PQgetvalue(grants, i, 1), PQgetvalue(grants, i, 3));

		ok = repair_format(r, "SET LOCAL ROLE %2$I", oid, PQgetvalue(grants, i, 0)) && repair_run(r, grant) &&
			repair_run(r, "RESET ROLE");
		free(grant);
	}
	PQclear(grants);
	return ok;
}

/* Create it as on the source (row of its list). */
static bool
put_object(Repair *r, const PGresult *its, int row)
{
	const char *oid = PQgetvalue(its, row, LO_OID);
	const char *owner = PQgetvalue(its, row, LO_OWNER);

	return repair_format(r, "SELECT lo_create(%s)", oid, "") && put_pages(r, oid) &&
		repair_format(r, "ALTER LARGE OBJECT %s OWNER TO %I", oid, owner) &&
		(PQgetisnull(its, row, LO_COMMENT) ||
		 repair_format(r, "COMMENT ON LARGE OBJECT %s IS %L", oid, PQgetvalue(its, row, LO_COMMENT))) &&
		(PQgetisnull(its, row, LO_PRIVILEGES) || put_privileges(r, oid, owner));
}

static unsigned long
oid_at(const PGresult *r, int row)
{
	return row < PQntuples(r) ? strtoul(PQgetvalue(r, row, LO_OID), NULL, 10) : (unsigned long) -1;
}

static bool
merge_objects(Repair *r, const PGresult *right, const PGresult *wrong)
{
	int			i = 0;
	int			j = 0;

	while (i < PQntuples(right) || j < PQntuples(wrong))
	{
		unsigned long want = oid_at(right, i);
		unsigned long have = oid_at(wrong, j);
		bool		same = want == have && strcmp(PQgetvalue(right, i, LO_ALL), PQgetvalue(wrong, j, LO_ALL)) == 0;
		const char *oid = have <= want ? PQgetvalue(wrong, j, LO_OID) : PQgetvalue(right, i, LO_OID);

		if (!same && have <= want && !repair_format(r, "SELECT lo_unlink(%s)", oid, ""))
			return false;
		if (!same && want <= have && !put_object(r, right, i))
			return false;
		if (!same)
			repair_note(r, "large object", oid, have <= want, want <= have);
		j += have <= want;
		i += want <= have;
	}
	return true;
}

bool
repair_large_objects(Repair *r)
{
	char	   *sum = right_sum(r, LARGE_OBJECTS);
	PGresult   *right = sum != NULL ? ask_node(r, r->source, objects_query) : NULL;
	PGresult   *wrong = right != NULL ? repair_do(r, objects_query, 0, NULL) : NULL;
	PGresult   *after = NULL;
	bool		ok = wrong != NULL && merge_objects(r, right, wrong);

	if (ok)
		after = repair_do(r, objects_query, 0, NULL);
	ok = ok && after != NULL;
	if (ok && PQntuples(after) != PQntuples(right))
		ok = verify_fail(r->v, "large objects would not be equal after their repair: nothing was changed");
	for (int i = 0; ok && i < PQntuples(right); i++)
	{
		if (strcmp(PQgetvalue(after, i, LO_ALL), PQgetvalue(right, i, LO_ALL)) != 0)
			ok = verify_fail(r->v, "large object %s would not be equal after its repair: nothing was changed",
							 PQgetvalue(right, i, LO_OID));
	}
	PQclear(right);
	PQclear(wrong);
	PQclear(after);
	free(sum);
	return ok;
}
