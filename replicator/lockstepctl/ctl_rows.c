/*
 * ctl_rows.c
 *	  Which rows of a table differ between nodes.
 *
 *	 1. Each node sums up its rows' digests in buckets, by the lowest bits of the
 *		digest.  Buckets whose sums differ contain differing rows, beside a few
 *		hundred others.
 *	 2. All digests of these buckets are read, with their rows' ctid.  A digest that
 *		not all nodes have equally often belongs to a row that differs.  A changed
 *		row has two: one for each version.
 *	 3. The keys of those rows, in order, and for the first of them the whole
 *		row on every node.  Without a primary key the row itself is its key.
 *
 * All queries use the same snapshots, so the result is exact even if the tables are written to
 * meanwhile.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"

#define ROWS_PER_BUCKET 64
#define MIN_BUCKETS 16
#define MAX_BUCKETS 65536
#define MAX_ROWS 500000			/* compared in step 2; if more differ, that is
								 * not reported in detail */
#define MAX_KEYS 20000			/* fetched in step 3 of each node */

typedef struct Drill
{
	Peers	   *p;
	const char *database;
	const char *name;			/* of the table */
	const char *key;			/* its columns, "" if there is none */
	long long	most;			/* rows looked at in step 2 */
	long long	mask;
	bool	   *buckets;		/* mask + 1 of them: differ */
	bool		complete;		/* all that differ were looked at */
	RowRef	   *refs;			/* of the rows that differ, by digest */
	size_t		nrefs;
	long long	surplus[CONFIG_MAX_NODES];	/* rows that another node does not
											 * have */
} Drill;

/* One query on all nodes; false: not possible now. */
static bool
ask_all(Drill *d, const char *sql, Answer *answers)
{
	Verify	   *v = d->p->v;
	bool		ok = true;

	for (int i = 0; i < v->nnodes; i++)
		peers_send(d->p, i, sql);
	for (int i = 0; i < v->nnodes; i++)
	{
		peers_receive(d->p, i, &answers[i]);
		ok = ok && answers[i].error == NULL && answers[i].n == 1;
	}
	if (!ok)
		answers_free(answers, v->nnodes);
	return ok;
}

/* ---------- 1. buckets */

typedef struct Bucket
{
	long long	rows;
	char		sum[48];
} Bucket;

static Bucket *
take_buckets(const Drill *d, const PGresult *r)
{
	Bucket	   *buckets = xcalloc((size_t) d->mask + 1, sizeof(Bucket));

	for (int i = 0; i < PQntuples(r); i++)
	{
		Bucket	   *b = &buckets[strtoll(PQgetvalue(r, i, 0), NULL, 10) & d->mask];

		b->rows = strtoll(PQgetvalue(r, i, 1), NULL, 10);
		snprintf(b->sum, sizeof(b->sum), "%s", PQgetvalue(r, i, 2));
	}
	return buckets;
}

static void
mark_buckets(Drill *d, Bucket *const *of_nodes)
{
	long long	looked_at = 0;

	d->complete = true;
	for (long long b = 0; b <= d->mask; b++)
	{
		bool		differs = false;
		long long	rows = 0;

		for (int i = 0; i < d->p->v->nnodes; i++)
		{
			differs |= of_nodes[i][b].rows != of_nodes[0][b].rows || strcmp(of_nodes[i][b].sum, of_nodes[0][b].sum) != 0;
			rows += of_nodes[i][b].rows;
		}
		if (!differs)
			continue;
		if (looked_at > 0 && looked_at + rows > d->most)
		{
			d->complete = false;
			continue;
		}
		d->buckets[b] = true;
		looked_at += rows;
	}
}

static bool
find_buckets(Drill *d)
{
	Answer		answers[CONFIG_MAX_NODES];
	Bucket	   *of_nodes[CONFIG_MAX_NODES];
	int			n = d->p->v->nnodes;
	char	   *sql = xasprintf("SELECT h & %lld, count(*), sum(h) FROM (SELECT lockstep.row_digest(t.*) AS h FROM ONLY %s t "
								"OFFSET 0) s GROUP BY 1", d->mask, d->name);
	bool		ok = ask_all(d, sql, answers);

	free(sql);
	if (!ok)
		return false;
	for (int i = 0; i < n; i++)
		of_nodes[i] = take_buckets(d, answers[i].rows[0]);
	answers_free(answers, n);
	mark_buckets(d, of_nodes);
	for (int i = 0; i < n; i++)
		free(of_nodes[i]);
	return true;
}

/* ---------- 2. digests that not all have */

static char *
bucket_list(const Drill *d)
{
	Buffer		list = {0};

	for (long long b = 0; b <= d->mask; b++)
	{
		char		text[24];

		if (!d->buckets[b])
			continue;
		snprintf(text, sizeof(text), "%s%lld", list.len > 0 ? "," : "", b);
		buffer_append(&list, text, strlen(text));
	}
	buffer_append(&list, "", 1);
	return (char *) list.data;
}

static int
by_digest(const void *a, const void *b)
{
	const RowRef *x = a;
	const RowRef *y = b;

	if (x->digest != y->digest)
		return x->digest < y->digest ? -1 : 1;
	return x->node - y->node;
}

static size_t
take_refs(RowRef *refs, int node, const PGresult *r)
{
	for (int i = 0; i < PQntuples(r); i++)
	{
		refs[i].digest = strtoll(PQgetvalue(r, i, 0), NULL, 10);
		refs[i].node = node;
		snprintf(refs[i].ctid, sizeof(refs[i].ctid), "%s", PQgetvalue(r, i, 1));
	}
	return (size_t) PQntuples(r);
}

/* Keep those whose digest another node has less often: as many as it lacks. */
static void
keep_differing(Drill *d)
{
	size_t		kept = 0;
	size_t		next;

	for (size_t at = 0; at < d->nrefs; at = next)
	{
		long long	count[CONFIG_MAX_NODES] = {0};
		long long	seen[CONFIG_MAX_NODES] = {0};
		long long	least = -1;

		for (next = at; next < d->nrefs && d->refs[next].digest == d->refs[at].digest; next++)
			count[d->refs[next].node]++;
		for (int i = 0; i < d->p->v->nnodes; i++)
			least = least < 0 || count[i] < least ? count[i] : least;
		for (size_t i = at; i < next; i++)
		{
			if (seen[d->refs[i].node]++ < least)
				continue;		/* all nodes have an equal one */
			d->surplus[d->refs[i].node]++;
			d->refs[kept++] = d->refs[i];
		}
	}
	d->nrefs = kept;
}

static bool
find_refs(Drill *d)
{
	Answer		answers[CONFIG_MAX_NODES];
	int			n = d->p->v->nnodes;
	char	   *list = bucket_list(d);
	char	   *sql = xasprintf("SELECT h, c FROM (SELECT lockstep.row_digest(t.*) AS h, t.ctid AS c FROM ONLY %s t OFFSET 0) s "
								"WHERE h & %lld = ANY('{%s}'::bigint[])", d->name, d->mask, list);
	bool		ok = ask_all(d, sql, answers);

	free(list);
	free(sql);
	if (!ok)
		return false;
	for (int i = 0; i < n; i++)
		d->nrefs += (size_t) PQntuples(answers[i].rows[0]);
	d->refs = xmalloc((d->nrefs + 1) * sizeof(RowRef));
	d->nrefs = 0;
	for (int i = 0; i < n; i++)
		d->nrefs += take_refs(d->refs + d->nrefs, i, answers[i].rows[0]);
	answers_free(answers, n);
	qsort(d->refs, d->nrefs, sizeof(RowRef), by_digest);
	keep_differing(d);
	return true;
}

/* ---------- 3. the rows */

static bool
has_key(const Drill *d)
{
	return d->key[0] != '\0';
}

/*
 * A row as text.  (t.*)::text would call a function of the table's owner, if there is a cast of
 * its row type; ROW(...) is an anonymous record, which cannot have one.
 */
#define ROW_AS_TEXT "ROW(t.*)::text"

/* An SQL expression that identifies a row. */
static char *
key_of(const Drill *d)
{
	return has_key(d) ? xasprintf("ROW(%s)::text", d->key) : xstrdup(ROW_AS_TEXT);
}

static char *
ctid_list(const Drill *d, int node)
{
	Buffer		list = {0};
	int			n = 0;

	for (size_t i = 0; i < d->nrefs && n < MAX_KEYS; i++)
	{
		if (d->refs[i].node != node)
			continue;
		if (n++ > 0)
			buffer_append(&list, ",", 1);
		buffer_append(&list, "\"", 1);
		buffer_append(&list, d->refs[i].ctid, strlen(d->refs[i].ctid));
		buffer_append(&list, "\"", 1);
	}
	buffer_append(&list, "", 1);
	return (char *) list.data;
}

/* Their keys, in the key's order, each once. */
static json_t *
find_keys(Drill *d)
{
	Verify	   *v = d->p->v;
	char	   *key = key_of(d);
	json_t	   *keys = json_array();
	json_t	   *seen = json_object();
	bool		ok = true;

	for (int i = 0; i < v->nnodes; i++)
	{
		char	   *list = ctid_list(d, i);
		char	   *sql = xasprintf("SELECT %s AS \"key of row\" FROM ONLY %s t WHERE ctid = ANY('{%s}'::tid[]) ORDER BY %s",
									key, d->name, list, has_key(d) ? d->key : "1");

		peers_send(d->p, i, sql);
		free(sql);
		free(list);
	}
	for (int i = 0; i < v->nnodes; i++)
	{
		Answer		a;

		peers_receive(d->p, i, &a);
		ok = ok && a.error == NULL;
		for (int row = 0; a.error == NULL && row < PQntuples(a.rows[0]); row++)
		{
			const char *text = PQgetvalue(a.rows[0], row, 0);

			if (json_object_get(seen, text) != NULL)
				continue;
			json_object_set_new(seen, text, json_true());
			json_array_append_new(keys, json_from_text(text));
		}
		answer_free(&a);
	}
	free(key);
	json_decref(seen);
	if (ok)
		return keys;
	json_decref(keys);
	return NULL;
}

static char *
literal_list(Drill *d, const json_t *keys)
{
	Buffer		list = {0};
	size_t		i;
	json_t	   *key;

	json_array_foreach((json_t *) keys, i, key)
	{
		char	   *literal;

		if ((int) i >= d->p->v->options->rows)
			break;
		literal = PQescapeLiteral(d->p->conns[0], json_string_value(key), json_string_length(key));
		if (literal == NULL)
			continue;
		if (list.len > 0)
			buffer_append(&list, ",", 1);
		buffer_append(&list, literal, strlen(literal));
		PQfreemem(literal);
	}
	buffer_append(&list, "", 1);
	return (char *) list.data;
}

/* Row of each node by key: the rows' texts; of a row without key: how many. */
static json_t *
rows_shown(Drill *d, const json_t *keys)
{
	Verify	   *v = d->p->v;
	Answer		answers[CONFIG_MAX_NODES];
	char	   *key = key_of(d);
	char	   *list = literal_list(d, keys);
	char	   *sql = xasprintf("SELECT %s, " ROW_AS_TEXT ", count(*) FROM ONLY %s t WHERE %s = ANY(ARRAY[%s]::text[]) GROUP BY 1, 2 ORDER BY 1, 2",
								key, d->name, key, list);
	bool		ok = ask_all(d, sql, answers);
	json_t	   *rows = json_array();
	size_t		i;
	json_t	   *name;

	free(key);
	free(list);
	free(sql);
	if (!ok)
	{
		json_decref(rows);
		return NULL;
	}
	json_array_foreach((json_t *) keys, i, name)
	{
		json_t	   *nodes = json_object();

		if ((int) i >= v->options->rows)
		{
			json_decref(nodes);
			break;
		}
		for (int n = 0; n < v->nnodes; n++)
		{
			const PGresult *r = answers[n].rows[0];
			json_t	   *value = has_key(d) ? json_null() : json_integer(0);

			for (int row = 0; row < PQntuples(r); row++)
			{
				if (strcmp(PQgetvalue(r, row, 0), json_string_value(name)) != 0)
					continue;
				json_decref(value);
				value = has_key(d) ? json_from_text(PQgetvalue(r, row, 1)) :
					json_integer(strtoll(PQgetvalue(r, row, 2), NULL, 10));
			}
			json_object_set_new(nodes, v->names[n], value);
		}
		json_array_append_new(rows, json_pack("{s:O, s:o}", has_key(d) ? "key" : "row", name, "nodes", nodes));
	}
	answers_free(answers, v->nnodes);
	return rows;
}

static json_t *
difference_of(Drill *d, const json_t *keys, json_t *rows)
{
	Verify	   *v = d->p->v;
	json_t	   *nodes = json_object();
	json_t	   *difference;
	long long	most = 0;

	for (int i = 0; i < v->nnodes; i++)
	{
		json_object_set_new(nodes, v->names[i], json_integer(d->surplus[i]));
		most = d->surplus[i] > most ? d->surplus[i] : most;
	}
	difference = verify_difference(d->database, "rows", d->name, nodes);
	if (most <= MAX_KEYS && has_key(d))
		most = (long long) json_array_size(keys);
	json_object_set_new(difference, "rows_that_differ", json_integer(most));
	json_object_set_new(difference, "all_counted", json_boolean(d->complete));
	json_object_set_new(difference, "key_columns", json_from_text(d->key));
	json_object_set_new(difference, "rows", rows);
	return difference;
}

static bool
show_rows(Drill *d)
{
	json_t	   *keys = find_keys(d);
	json_t	   *rows = keys != NULL ? rows_shown(d, keys) : NULL;

	if (rows != NULL)
		verify_add(d->p->v, difference_of(d, keys, rows));
	json_decref(keys);
	return rows != NULL;
}

static bool
find(Drill *d, long long rows)
{
	long long	n = MIN_BUCKETS;
	bool		ok;

	while (n < MAX_BUCKETS && n * ROWS_PER_BUCKET < rows)
		n *= 2;
	d->mask = n - 1;
	d->buckets = xcalloc((size_t) n, sizeof(bool));
	ok = find_buckets(d) && find_refs(d);
	free(d->buckets);
	d->buckets = NULL;
	return ok;
}

bool
rows_find(Peers *p, const char *name, long long rows, long long most, RowRef **refs, size_t *n, bool *complete)
{
	Drill		d = {.p = p,.name = name,.key = "",.most = most};
	bool		ok = find(&d, rows);

	*refs = d.refs;
	*n = d.nrefs;
	*complete = d.complete;
	return ok;
}

/* False: not known now, as DDL came between: look again. */
bool
rows_differ(Peers *p, const char *database, const Table *table, long long rows)
{
	Drill		d = {.p = p,.database = database,.name = table->name,.key = table->key,.most = MAX_ROWS};
	bool		ok = find(&d, rows) && show_rows(&d);

	free(d.refs);
	return ok;
}
