/*
 * ctl_sequences.c
 *	  Compare the values of sequences.  (Their definitions are in the schema.)
 *
 * Values are not part of a snapshot: nextval changes them at once.  While a sequence is in use
 * nodes differ for a moment, as the others receive a value with the transaction that used it, or
 * within half a second.  But soon no node may be behind a value that any node has handed out.
 * So sequences that differ are read again until they are equal, or every node has reached the
 * furthest value seen before; if that does not happen for PATIENCE_MS, they differ.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"
#include "ctl_verify.h"

#define PATIENCE_MS 10000
#define PAUSE_MS 200
#define MARK_MS 3000			/* setval may have set it back: read again */
#define AT_A_TIME 200			/* of one query */

static const char list_query[] =
"SELECT format('%I.%I', n.nspname, c.relname), s.seqincrement > 0 "
"FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
"WHERE c.relpersistence <> 't' ORDER BY 1";

typedef struct Position
{
	int64_t		value;
	bool		called;
	bool		known;
} Position;

typedef struct Sequence
{
	char	   *name;
	bool		up;
	bool		differs;
	Position	at[CONFIG_MAX_NODES];
	Position	mark;			/* the furthest value of any node, some time
								 * ago */
} Sequence;

typedef struct Sequences
{
	Peers	   *p;
	int			n;
	Sequence   *all;
	bool		changed;		/* one of them was dropped: list them again */
} Sequences;

static void
forget(Sequences *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->all[i].name);
	free(s->all);
	s->all = NULL;
	s->n = 0;
	s->changed = false;
}

/* Sequences that all nodes have; others are differences of the schema. */
static bool
list(Sequences *s)
{
	Answer		answers[CONFIG_MAX_NODES];
	json_t	   *nodes = json_object();
	Verify	   *v = s->p->v;

	if (!peers_ask(s->p, list_query, answers))
	{
		json_decref(nodes);
		return false;
	}
	for (int i = 1; i < v->nnodes; i++)
	{
		for (int row = 0; row < PQntuples(answers[i].rows[0]); row++)
		{
			const char *name = PQgetvalue(answers[i].rows[0], row, 0);

			json_object_set_new(nodes, name, json_integer(json_integer_value(json_object_get(nodes, name)) + 1));
		}
	}
	s->all = xcalloc((size_t) PQntuples(answers[0].rows[0]) + 1, sizeof(Sequence));
	for (int row = 0; row < PQntuples(answers[0].rows[0]); row++)
	{
		const char *name = PQgetvalue(answers[0].rows[0], row, 0);

		if (json_integer_value(json_object_get(nodes, name)) != v->nnodes - 1)
			continue;
		s->all[s->n].name = xstrdup(name);
		s->all[s->n].up = PQgetvalue(answers[0].rows[0], row, 1)[0] == 't';
		s->all[s->n++].differs = true;
	}
	answers_free(answers, v->nnodes);
	json_decref(nodes);
	return true;
}

/* Read those from `from` on that differ; where the next query begins. */
static int
read_some(Sequences *s, int from)
{
	Verify	   *v = s->p->v;
	Buffer		sql = {0};
	int			asked = 0;
	int			i;

	for (i = from; i < s->n && asked < AT_A_TIME; i++)
	{
		char	   *part;

		s->all[i].at[0].known = false;
		if (!s->all[i].differs)
			continue;
		part = xasprintf("%sSELECT %d, last_value, is_called FROM %s", asked++ > 0 ? " UNION ALL " : "", i, s->all[i].name);
		buffer_append(&sql, part, strlen(part));
		free(part);
	}
	buffer_append(&sql, "", 1);
	for (int node = 0; node < v->nnodes && asked > 0; node++)
		peers_send(s->p, node, (const char *) sql.data);
	for (int node = 0; node < v->nnodes && asked > 0; node++)
	{
		Answer		a;

		peers_receive(s->p, node, &a);
		s->changed |= a.error != NULL;
		for (int k = from; k < i; k++)
			s->all[k].at[node].known = false;
		for (int row = 0; a.n == 1 && row < PQntuples(a.rows[0]); row++)
		{
			Sequence   *q = &s->all[strtol(PQgetvalue(a.rows[0], row, 0), NULL, 10)];

			q->at[node].value = strtoll(PQgetvalue(a.rows[0], row, 1), NULL, 10);
			q->at[node].called = PQgetvalue(a.rows[0], row, 2)[0] == 't';
			q->at[node].known = true;
		}
		answer_free(&a);
	}
	buffer_free(&sql);
	return i;
}

/* Is a at least as far as b? */
static bool
reaches(const Sequence *q, const Position *a, const Position *b)
{
	if (a->value != b->value)
		return q->up ? a->value > b->value : a->value < b->value;
	return a->called || !b->called;
}

static void
judge(const Verify *v, Sequence *q)
{
	bool		equal = true;
	bool		reached = q->mark.known;

	for (int i = 0; i < v->nnodes; i++)
	{
		if (!q->at[i].known)
			return;				/* altered, or gone: next time */
		equal &= q->at[i].value == q->at[0].value && q->at[i].called == q->at[0].called;
		reached = reached && reaches(q, &q->at[i], &q->mark);
	}
	q->differs = !equal && !reached;
}

static void
mark(const Verify *v, Sequence *q)
{
	q->mark = q->at[0];
	for (int i = 1; i < v->nnodes; i++)
	{
		if (reaches(q, &q->at[i], &q->mark))
			q->mark = q->at[i];
	}
}

/* How many differ now; not 0 as long as some cannot be read. */
static int
look(Sequences *s, bool anew)
{
	int			differing = 0;

	if (s->changed)
	{
		forget(s);
		if (!list(s))
			return 0;
	}

	for (int at = 0; at < s->n && !verify_failed(s->p->v);)
		at = read_some(s, at);
	for (int i = 0; i < s->n; i++)
	{
		Sequence   *q = &s->all[i];

		if (!q->differs)
			continue;
		judge(s->p->v, q);
		if (q->differs && anew && !s->changed)
			mark(s->p->v, q);
		differing += q->differs;
	}
	return differing + s->changed;
}

static void
say(const Sequences *s)
{
	Verify	   *v = s->p->v;

	for (int i = 0; i < s->n; i++)
	{
		const Sequence *q = &s->all[i];
		json_t	   *nodes;

		if (!q->differs)
			continue;
		nodes = json_object();
		for (int node = 0; node < v->nnodes; node++)
		{
			char	   *text = xasprintf("%" PRId64 "%s", q->at[node].value, q->at[node].called ? "" : " (not used yet)");

			json_object_set_new(nodes, v->names[node], q->at[node].known ? json_string(text) : json_null());
			free(text);
		}
		verify_add(v, verify_difference(s->p->database, "sequence", q->name, nodes));
	}
}

bool
sequences_compare(Verify *v, const char *database)
{
	Peers		peers;
	Sequences	s = {.p = &peers};

	s.changed = true;
	if (peers_open(&peers, v, database))
	{
		/* a node whose commits are held cannot reach the others' values */
		int			patience_ms = v->behind >= 0 ? 0 : PATIENCE_MS;

		for (int ms = 0; look(&s, ms % MARK_MS == 0) > 0 && ms < patience_ms && !verify_failed(v); ms += PAUSE_MS)
			usleep(PAUSE_MS * 1000);
		verify_counted(v, database, "sequences", s.n);
		say(&s);
	}
	forget(&s);
	peers_close(&peers);
	return !verify_failed(v);
}
