/*
 * ctl_indexes.c
 *	  lockstepctl verify --indexes: does each index of each node match its table?
 *
 * Indexes are not compared between nodes: nodes with equal rows may have them on different
 * pages.  contrib's amcheck checks each btree index, by itself and against its table, without
 * blocking writers.  It does not support other kinds of indexes: these are counted and reported.
 *
 * A lane is a thread with a connection to one node; the lanes of all nodes work
 * at the same time.  No transaction lasts longer than one index.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"

#define TRIES 10
#define PAUSE_US 200000

/* The schema of amcheck; no row: it is not installed. */
static const char extension_query[] =
"SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
"WHERE e.extname = 'amcheck'";

/* $1: name of a table, or null for all; $2: shared catalogs, too.  The index of a
 * TOAST table is one of the table it belongs to. */
static const char list_query[] =
"SELECT c.oid, format('%I.%I', n.nspname, c.relname), format('%I.%I', tn.nspname, coalesce(o.relname, t.relname)), "
"am.amname, i.indisvalid AND i.indisready "
"FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
"JOIN pg_am am ON am.oid = c.relam JOIN pg_class t ON t.oid = i.indrelid "
"LEFT JOIN pg_class o ON o.reltoastrelid = t.oid "
"JOIN pg_namespace tn ON tn.oid = coalesce(o.relnamespace, t.relnamespace) "
"WHERE c.relkind = 'i' AND c.relpersistence <> 't' AND (NOT c.relisshared OR $2::boolean) "
"AND ($1::text IS NULL OR $1 = format('%I.%I', tn.nspname, coalesce(o.relname, t.relname)) "
"OR $1 = quote_ident(coalesce(o.relname, t.relname))) "
"ORDER BY pg_relation_size(c.oid) DESC";

enum
{
	LIST_OID, LIST_NAME, LIST_TABLE, LIST_KIND, LIST_VALID
};

/* Of one database, all nodes together; under the lock. */
typedef struct IndexCounts
{
	int			all;
	int			begun;
	int			done;
} IndexCounts;

/* The indexes of one database on one node. */
typedef struct NodeIndexes
{
	Verify	   *v;
	int			node;
	const char *database;
	char	   *extension;		/* schema of amcheck */
	PGresult   *list;
	int			next;			/* to be looked at; under the lock */
	IndexCounts *counts;
} NodeIndexes;

/* ---------- what is found */

/* An index of this node is not checked, for that reason. */
static void
not_checked(const NodeIndexes *x, const char *why)
{
	Verify	   *v = x->v;
	const char *node = v->names[x->node];
	json_t	   *entry = NULL;
	json_t	   *nodes;
	json_t	   *other;
	size_t		i;

	pthread_mutex_lock(&v->lock);
	json_array_foreach(v->not_checked, i, other)
	{
		if (strcmp(json_string_value(json_object_get(other, "database")), x->database) == 0 &&
			strcmp(json_string_value(json_object_get(other, "why")), why) == 0)
			entry = other;
	}
	if (entry == NULL)
	{
		entry = json_pack("{s:o, s:o, s:{}}", "database", json_from_text(x->database), "why", json_from_text(why), "nodes");
		json_array_append_new(v->not_checked, entry);
	}
	nodes = json_object_get(entry, "nodes");
	json_object_set_new(nodes, node, json_integer(json_integer_value(json_object_get(nodes, node)) + 1));
	pthread_mutex_unlock(&v->lock);
}

/* Lanes finish in any order; report the nodes in one. */
static void
order_nodes(const Verify *v, json_t *entry)
{
	json_t	   *found = json_object_get(entry, "nodes");
	json_t	   *nodes = json_object();

	for (int i = 0; i < v->nnodes; i++)
	{
		json_t	   *count = json_object_get(found, v->names[i]);

		if (count != NULL)
			json_object_set(nodes, v->names[i], count);
	}
	json_object_set_new(entry, "nodes", nodes);
}

static void
is_damaged(const NodeIndexes *x, int index, const char *message)
{
	json_t	   *nodes = json_object();
	json_t	   *difference;

	json_object_set_new(nodes, x->v->names[x->node], json_from_text(message));
	difference = verify_difference(x->database, "index", PQgetvalue(x->list, index, LIST_NAME), nodes);
	json_object_set_new(difference, "table", json_from_text(PQgetvalue(x->list, index, LIST_TABLE)));
	verify_add(x->v, difference);
}

/* ---------- one index */

typedef enum Outcome
{
	INDEX_DONE,
	INDEX_AGAIN,				/* it blocked a change */
	INDEX_STOP
} Outcome;

static bool
is_there_still(PGconn *conn, const char *oid)
{
	const char *params[1] = {oid};
	PGresult   *r = PQexecParams(conn, "SELECT 1 FROM pg_class WHERE oid = $1::oid", 1, NULL, params, NULL, NULL, 0);
	bool		there = PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) > 0;

	PQclear(r);
	return there;
}

static Outcome
judge_failure(const NodeIndexes *x, PGconn *conn, int index, const PGresult *r)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
	char	   *text;

	if (PQstatus(conn) != CONNECTION_OK || state == NULL || strncmp(state, "57P", 3) == 0 || strncmp(state, "53", 2) == 0)
	{
		(void) verify_fail(x->v, "node %s: %s", x->v->names[x->node], PQerrorMessage(conn));
		return INDEX_STOP;
	}
	if (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0 || strcmp(state, "57014") == 0)
		return INDEX_AGAIN;
	if (!is_there_still(conn, PQgetvalue(x->list, index, LIST_OID)))
		return INDEX_DONE;
	text = xasprintf("%s%s%s%s", message != NULL ? message : "failed", detail != NULL ? " (" : "",
					 detail != NULL ? detail : "", detail != NULL ? ")" : "");
	/* errors of the system, and pages that can't be read */
	if (strncmp(state, "XX", 2) == 0 || strncmp(state, "58", 2) == 0)
		is_damaged(x, index, text);
	else
		not_checked(x, text);
	free(text);
	return INDEX_DONE;
}

static Outcome
check_once(const NodeIndexes *x, PGconn *conn, int index)
{
	const char *params[1] = {PQgetvalue(x->list, index, LIST_OID)};
	char	   *sql = xasprintf("SELECT %s.bt_index_check($1::oid::regclass, true)", x->extension);
	PGresult   *r = PQexecParams(conn, sql, 1, NULL, params, NULL, NULL, 0);
	Outcome		outcome = INDEX_DONE;

	if (PQresultStatus(r) == PGRES_TUPLES_OK)
		verify_count(x->v, x->database, "index checks", 1);
	else
		outcome = judge_failure(x, conn, index, r);
	PQclear(r);
	free(sql);
	return outcome;
}

/* false: no more of that node. */
static bool
check_index(const NodeIndexes *x, PGconn *conn, int index)
{
	const char *kind = PQgetvalue(x->list, index, LIST_KIND);
	char	   *why;

	if (strcmp(kind, "btree") != 0)
	{
		why = xasprintf("amcheck has no check for indexes of kind %s", kind);
		not_checked(x, why);
		free(why);
		return true;
	}
	if (PQgetvalue(x->list, index, LIST_VALID)[0] != 't')
	{
		not_checked(x, "they are not valid");
		return true;
	}
	for (int i = 0; i < TRIES; i++)
	{
		Outcome		outcome = check_once(x, conn, index);

		if (outcome != INDEX_AGAIN)
			return outcome == INDEX_DONE;
		usleep(PAUSE_US);
	}
	not_checked(x, "the check repeatedly blocked changes");
	return true;
}

/* ---------- lanes */

/* Under the lock. */
static void
say_begun(const NodeIndexes *x, int index)
{
	const char *name = PQgetvalue(x->list, index, LIST_NAME);
	IndexCounts *n = x->counts;
	ProgressFacts f = {.phase = "indexes",.database = x->database,.object = name,.done = n->done,.all = n->all};

	n->begun++;
	progress_say(&f, "database %s: index %d of %d (%s, node %s) is checked", x->database, n->begun, n->all, name, x->v->names[x->node]);
}

/* Under the lock.  Other lanes may still be at theirs, so none is named. */
static void
say_done(const NodeIndexes *x)
{
	IndexCounts *n = x->counts;
	ProgressFacts f = {.phase = "indexes",.database = x->database};

	f.done = ++n->done;
	f.all = n->all;
	progress_say(&f, "database %s: %d of %d indexes are checked", x->database, n->done, n->all);
}

/* after: that one is done, -1: it is the first. */
static int
next_index(NodeIndexes *x, int after)
{
	int			index = -1;

	pthread_mutex_lock(&x->v->lock);
	if (after >= 0)
		say_done(x);
	if (x->v->error == NULL && x->next < PQntuples(x->list))
		index = x->next++;
	if (index >= 0)
		say_begun(x, index);
	pthread_mutex_unlock(&x->v->lock);
	return index;
}

static void *
lane(void *arg)
{
	NodeIndexes *x = arg;
	PGconn	   *conn = peer_connect(x->v, x->node, x->database);
	int			index = -1;

	while (conn != NULL && (index = next_index(x, index)) >= 0 && check_index(x, conn, index))
		;
	PQfinish(conn);
	return NULL;
}

static void
run_lanes(Verify *v, NodeIndexes *all)
{
	pthread_t	threads[VERIFY_MAX_JOBS * CONFIG_MAX_NODES];
	IndexCounts counts = {0};
	int			n = 0;

	for (int i = 0; i < v->nnodes; i++)
	{
		all[i].counts = &counts;
		counts.all += PQntuples(all[i].list);
	}
	for (int i = 0; i < v->nnodes; i++)
		n += verify_start_lanes(v, &threads[n], PQntuples(all[i].list), lane, &all[i]);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* ---------- what there is to be checked */

static bool
read_list(NodeIndexes *x, PGconn *conn, bool shared)
{
	const char *params[2] = {x->v->options->table, shared ? "t" : "f"};
	PGresult   *r = PQexec(conn, extension_query);
	bool		ok = PQresultStatus(r) == PGRES_TUPLES_OK;

	if (ok && PQntuples(r) == 1)
		x->extension = xstrdup(PQgetvalue(r, 0, 0));
	else if (ok)
		(void) verify_fail(x->v, "--indexes needs the extension amcheck, which database \"%s\" does not have on node %s: "
						   "run CREATE EXTENSION amcheck there", x->database, x->v->names[x->node]);
	PQclear(r);
	if (ok && x->extension == NULL)
		return false;
	x->list = ok ? PQexecParams(conn, list_query, 2, NULL, params, NULL, NULL, 0) : NULL;
	if (PQresultStatus(x->list) == PGRES_TUPLES_OK)
		return true;
	return verify_fail(x->v, "node %s: %s", x->v->names[x->node], PQerrorMessage(conn));
}

/* Calls what() with the indexes of each node in this database. */
static bool
with_indexes(Verify *v, int database, void (*what) (Verify *v, NodeIndexes *all))
{
	NodeIndexes all[CONFIG_MAX_NODES];
	bool		ok = true;

	memset(all, 0, sizeof(all));
	for (int i = 0; i < v->nnodes && ok; i++)
	{
		PGconn	   *conn;

		all[i] = (NodeIndexes) {.v = v,.node = i,.database = v->databases[database]};
		conn = peer_connect(v, i, v->databases[database]);
		ok = conn != NULL && read_list(&all[i], conn, database == 0);
		PQfinish(conn);
	}
	if (ok && what != NULL)
		what(v, all);
	for (int i = 0; i < v->nnodes; i++)
	{
		PQclear(all[i].list);
		free(all[i].extension);
	}
	return ok && !verify_failed(v);
}

bool
indexes_possible(Verify *v)
{
	for (int d = 0; d < v->ndatabases; d++)
	{
		if (!with_indexes(v, d, NULL))
			return false;
	}
	return true;
}

void
indexes_check(Verify *v)
{
	size_t		i;
	json_t	   *entry;

	progress_clear();
	for (int d = 0; d < v->ndatabases; d++)
	{
		if (!with_indexes(v, d, run_lanes))
			break;
	}
	json_array_foreach(v->not_checked, i, entry)
		order_nodes(v, entry);
}
