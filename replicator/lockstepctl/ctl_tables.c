/*
 * ctl_tables.c
 *	  Compare the rows of all tables of a database: number and sum of digests of
 *	  each, several tables at a time, each on all nodes at once.
 *
 * A lane is a thread with a connection to every node.  It takes a table, begins a transaction
 * with the snapshot of each node, and ends it when that table is done, so that its lock does not
 * block DDL for long.  DDL that was decided after the snapshot is detected
 * (lockstep.definition_is_seen), or cancels the lane's query; the table is then compared again
 * with the next snapshot.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"

/* Matched by name between nodes; OIDs differ. */
static const char list_query[] =
"SELECT format('%I.%I', n.nspname, c.relname), c.oid, "
"coalesce((SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.n) FROM pg_index i, "
"unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n), pg_attribute a "
"WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.attnum), ''), "
"(SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum) "
"FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), "
"coalesce(pg_relation_size(c.oid), 0) "
"FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
"WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND c.relpersistence <> 't' "
"AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lockstep') "
"ORDER BY format('%I.%I', n.nspname, c.relname) COLLATE \"C\"";

enum
{
	LIST_NAME, LIST_OID, LIST_KEY, LIST_COLUMNS, LIST_BYTES
};

/* ---------- which tables there are */

static Table *
table_find(const Tables *t, const char *name)
{
	for (int i = 0; i < t->n; i++)
	{
		if (strcmp(t->tables[i].name, name) == 0)
			return &t->tables[i];
	}
	return NULL;
}

static Table *
table_add(Tables *t, const char *name, const char *key, const char *columns)
{
	Table	   *table;

	t->tables = xrealloc(t->tables, (size_t) (t->n + 1) * sizeof(Table));
	table = &t->tables[t->n++];
	memset(table, 0, sizeof(*table));
	table->name = xstrdup(name);
	table->key = xstrdup(key);
	table->columns = xstrdup(columns);
	table->same_columns = true;
	table->pending = true;
	return table;
}

static void
take_list(Tables *t, int node, const PGresult *r)
{
	int			at = 0;			/* both lists have the same order */

	for (int i = 0; i < PQntuples(r); i++)
	{
		const char *name = PQgetvalue(r, i, LIST_NAME);
		Table	   *table;

		while (at < t->n && strcmp(t->tables[at].name, name) < 0)
			at++;
		if (at < t->n && strcmp(t->tables[at].name, name) == 0)
			table = &t->tables[at];
		else
			table = table_find(t, name);
		if (table == NULL)
			table = table_add(t, name, PQgetvalue(r, i, LIST_KEY), PQgetvalue(r, i, LIST_COLUMNS));
		if (strcmp(table->columns, PQgetvalue(r, i, LIST_COLUMNS)) != 0)
			table->same_columns = false;
		if (strcmp(table->key, PQgetvalue(r, i, LIST_KEY)) != 0)
			table->key[0] = '\0';
		table->oids[node] = xstrdup(PQgetvalue(r, i, LIST_OID));
		table->bytes = strtoll(PQgetvalue(r, i, LIST_BYTES), NULL, 10);
	}
}

/* Of an earlier list, only what could not be compared then. */
static bool
is_wanted(const Verify *v, const Tables *before, const Table *table)
{
	const char *dot = strchr(table->name, '.');
	const Table *old = before != NULL ? table_find(before, table->name) : NULL;

	if (before != NULL)
		return old != NULL && old->pending;
	if (v->options->table == NULL)
		return true;
	return strcmp(v->options->table, table->name) == 0 ||
		(strchr(v->options->table, '.') == NULL && strcmp(v->options->table, dot + 1) == 0);
}

/* On some nodes only, or with other columns: a difference of the schema. */
static bool
is_comparable(Verify *v, const char *database, const Table *table)
{
	json_t	   *nodes;
	int			present = 0;

	for (int i = 0; i < v->nnodes; i++)
		present += table->oids[i] != NULL;
	if (present == v->nnodes && table->same_columns)
		return true;
	nodes = json_object();
	for (int i = 0; i < v->nnodes; i++)
		json_object_set_new(nodes, v->names[i],
							json_string(table->oids[i] == NULL ? "is not there, or not populated" :
										present < v->nnodes ? "is there" : "has other columns"));
	verify_add(v, verify_difference(database, "table", table->name, nodes));
	return false;
}

static int
by_size(const void *a, const void *b)
{
	const Table *x = a;
	const Table *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

bool
tables_list(Tables *t, const Snapshots *s, int database, const Tables *before)
{
	Verify	   *v = s->v;
	Answer		answers[CONFIG_MAX_NODES];
	Table	   *lo;

	memset(t, 0, sizeof(*t));
	t->database = database;
	if (!peers_ask((Peers *) &s->leaders[database], list_query, answers))
		return false;
	for (int i = 0; i < v->nnodes; i++)
		take_list(t, i, answers[i].rows[0]);
	answers_free(answers, v->nnodes);
	for (int i = 0; i < t->n; i++)
	{
		if (!is_wanted(v, before, &t->tables[i]) || !is_comparable(v, v->databases[database], &t->tables[i]))
			t->tables[i].pending = false;
	}
	if (v->options->table == NULL)
	{
		lo = table_add(t, LARGE_OBJECTS, "loid, pageno", "");
		for (int i = 0; i < v->nnodes; i++)
			lo->oids[i] = xstrdup("'" LARGE_OBJECTS "'::regclass");
		lo->pending = is_wanted(v, before, lo);
	}
	qsort(t->tables, (size_t) t->n, sizeof(Table), by_size);	/* large ones first:
																 * they last */
	return true;
}

void
tables_free(Tables *t)
{
	for (int i = 0; i < t->n; i++)
	{
		free(t->tables[i].name);
		free(t->tables[i].key);
		free(t->tables[i].columns);
		free(t->tables[i].why);
		for (int node = 0; node < CONFIG_MAX_NODES; node++)
			free(t->tables[i].oids[node]);
	}
	free(t->tables);
	memset(t, 0, sizeof(*t));
}

int
tables_pending(const Tables *t)
{
	int			n = 0;

	for (int i = 0; i < t->n; i++)
		n += t->tables[i].pending;
	return n;
}

/* ---------- comparing one */

static void
send_sums(Peers *p, const Tables *t, const Table *table)
{
	for (int i = 0; i < p->v->nnodes; i++)
	{
		char	   *begin = snapshot_begin(t->snapshots, t->database, i);
		char	   *sql = xasprintf("%s SELECT lockstep.definition_is_seen(%s::oid::regclass);"
									"SELECT count(*), sum(lockstep.row_digest(t.*)) FROM ONLY %s t",
									begin, table->oids[i], table->name);

		peers_send(p, i, sql);
		free(sql);
		free(begin);
	}
}

typedef struct Sums
{
	bool		usable;			/* of all nodes, of the seq */
	bool		equal;
	long long	rows;			/* most of any node */
	char	   *why;			/* not usable, NULL: was changed */
} Sums;

static Sums
receive_sums(Peers *p)
{
	Sums		s = {.usable = true,.equal = true};
	Answer		answers[CONFIG_MAX_NODES];
	int			n = p->v->nnodes;

	for (int i = 0; i < n; i++)
	{
		peers_receive(p, i, &answers[i]);
		if (answers[i].error != NULL && s.why == NULL)
			s.why = xasprintf("node %s: %s", p->v->names[i], answers[i].error);
		if (answers[i].n != 2 || strcmp(answer_value(&answers[i], 0), "t") != 0)
			s.usable = false;
	}
	for (int i = 0; i < n && s.usable; i++)
	{
		const PGresult *r = answers[i].rows[1];
		long long	rows = strtoll(PQgetvalue(r, 0, 0), NULL, 10);

		if (rows > s.rows)
			s.rows = rows;
		for (int column = 0; column < 2; column++)
			s.equal &= strcmp(PQgetvalue(r, 0, column), PQgetvalue(answers[0].rows[1], 0, column)) == 0;
	}
	answers_free(answers, n);
	return s;
}

static void
compare_table(Peers *p, Tables *t, Table *table)
{
	Verify	   *v = p->v;
	Answer		answers[CONFIG_MAX_NODES];
	Sums		sums;

	send_sums(p, t, table);
	sums = receive_sums(p);
	free(table->why);
	table->why = sums.why;
	if (sums.usable)
	{
		if (strcmp(table->name, LARGE_OBJECTS) != 0)
		{
			verify_count(v, p->database, "tables", 1);
			verify_count(v, p->database, "rows", sums.rows);
		}
		table->pending = !sums.equal && !rows_differ(p, p->database, table, sums.rows);
	}
	if (!verify_failed(v) && peers_ask(p, "ROLLBACK", answers))
		answers_free(answers, v->nnodes);
}

/* ---------- lanes */

static Table *
next_table(Tables *t, Verify *v)
{
	Table	   *table = NULL;

	pthread_mutex_lock(&v->lock);
	while (t->next < t->n && table == NULL && v->error == NULL)
	{
		if (t->tables[t->next].pending)
			table = &t->tables[t->next];
		t->next++;
	}
	pthread_mutex_unlock(&v->lock);
	return table;
}

#define MB(bytes) ((double) (bytes) / (1 << 20))

static void
say_done(Tables *t, Verify *v, const Table *table)
{
	pthread_mutex_lock(&v->lock);
	t->done++;
	t->done_bytes += table->bytes;
	progress_say("database %s: %d of %d tables, %.0f of %.0f MB are compared", v->databases[t->database], t->done, t->all, MB(t->done_bytes), MB(t->all_bytes));
	pthread_mutex_unlock(&v->lock);
}

static void *
lane(void *arg)
{
	Tables	   *t = arg;
	Verify	   *v = t->snapshots->v;
	Peers		peers;
	Table	   *table;

	if (peers_open(&peers, v, v->databases[t->database]))
	{
		while ((table = next_table(t, v)) != NULL)
		{
			compare_table(&peers, t, table);
			say_done(t, v, table);
		}
	}
	peers_close(&peers);
	return NULL;
}

bool
tables_compare(Tables *t, const Snapshots *s)
{
	Verify	   *v = s->v;
	pthread_t	threads[VERIFY_MAX_JOBS];
	int			n;

	t->snapshots = s;
	t->next = t->all = t->done = 0;
	t->all_bytes = t->done_bytes = 0;
	for (int i = 0; i < t->n; i++)
	{
		t->all += t->tables[i].pending;
		t->all_bytes += t->tables[i].pending ? t->tables[i].bytes : 0;
	}
	progress_say("database %s: %d tables, %.0f MB are to be compared", v->databases[t->database], t->all, MB(t->all_bytes));
	n = verify_start_lanes(v, threads, t->all, lane, t);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return !verify_failed(v);
}
