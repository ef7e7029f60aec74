/*
 * waitgraph.c
 *	  The wait-for graph: see waitgraph.h.
 *
 * A search first takes away all that can go on: a waiter that waits for no other, then
 * those that waited for them alone, and so on.  What is left waits in a cycle, or
 * for one; any walk in it ends in a cycle, and a breadth-first search from there
 * finds a short one.  So a search costs as much as there are edges.
 */
#include "waitgraph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct GraphText
{
	struct GraphText *next;
	char		text[];
} GraphText;

static const struct
{
	const char *name;
	const char *words;
	bool		is_edge;
}			kinds[WAIT_KINDS] = {
	[WAIT_LOCK] = {"lock", "for a lock that was asked for, behind", true},
	[WAIT_LOCK_RESERVED] = {"lock", "for a lock that was asked for, until the end of", true},
	[WAIT_RESERVATION] = {"reservation", "to commit, behind", true},
	[WAIT_TICKET] = {"ticket", "for its turn to be executed, behind", true},
	[WAIT_ORDER] = {"order", "for its node to apply", true},
	[WAIT_ALONE] = {"alone", "for its own query", true},
	[WAIT_LOCAL] = {"local", "in PostgreSQL for a lock, behind", true},
	[WAIT_HELD] = {"held", "to commit, as commits are held by", true},
	[WAIT_EXECUTION] = {"execution", "for a node that executes it", false},
	[WAIT_CONNECTION] = {"connection", "for an apply connection", false},
	[WAIT_PAUSE] = {"pause", "to be tried again", false},
	[WAIT_UNDO] = {"undo", "for being rolled back on a node", false},
	[WAIT_COMMIT] = {"commit", "for a node that commits it", false},
	[WAIT_JOURNAL] = {"journal", "for the journal", false},
};

const char *
wait_kind_name(WaitKind kind)
{
	return kinds[kind].name;
}

const char *
wait_kind_words(WaitKind kind)
{
	return kinds[kind].words;
}

/* ---------- filling in */

void
waitgraph_free(WaitGraph *g)
{
	while (g->texts != NULL)
	{
		GraphText  *next = g->texts->next;

		free(g->texts);
		g->texts = next;
	}
	free(g->parties);
	free(g->edges);
	free(g->buckets);
	memset(g, 0, sizeof(*g));
}

static uint32_t
bucket_of(const WaitGraph *g, int node, uint32_t pid, uint64_t xcount)
{
	uint64_t	h = ((uint64_t) (uint32_t) node << 32 | pid) * UINT64_C(0x9E3779B97F4A7C15) + xcount;

	h *= UINT64_C(0xBF58476D1CE4E5B9);
	return (uint32_t) (h >> 32) & (g->nbuckets - 1);
}

static uint32_t
find_party(const WaitGraph *g, int node, uint32_t pid, uint64_t xcount)
{
	uint32_t	i = g->nbuckets > 0 ? g->buckets[bucket_of(g, node, pid, xcount)] : WAIT_NOBODY;

	while (i != WAIT_NOBODY &&
		   (g->parties[i].node != node || g->parties[i].pid != pid || g->parties[i].xcount != xcount))
		i = g->parties[i].next_same_hash;
	return i;
}

static void
link_party(WaitGraph *g, uint32_t i)
{
	WaitParty  *p = &g->parties[i];
	uint32_t   *bucket = &g->buckets[bucket_of(g, p->node, p->pid, p->xcount)];

	p->next_same_hash = *bucket;
	*bucket = i;
}

static void
grow_parties(WaitGraph *g)
{
	g->parties_cap = g->parties_cap > 0 ? g->parties_cap * 2 : 64;
	g->parties = xrealloc(g->parties, g->parties_cap * sizeof(WaitParty));
	g->nbuckets = g->parties_cap * 2;
	g->buckets = xrealloc(g->buckets, g->nbuckets * sizeof(uint32_t));
	memset(g->buckets, 0xff, g->nbuckets * sizeof(uint32_t));
	for (uint32_t i = 0; i < g->nparties; i++)
		link_party(g, i);
}

uint32_t
waitgraph_party(WaitGraph *g, int node, uint32_t pid, uint64_t xcount)
{
	uint32_t	i = find_party(g, node, pid, xcount);
	WaitParty  *p;

	if (i != WAIT_NOBODY)
		return i;
	if (g->nparties == g->parties_cap)
		grow_parties(g);
	i = g->nparties++;
	p = &g->parties[i];
	memset(p, 0, sizeof(*p));
	p->node = node;
	p->pid = pid;
	p->xcount = xcount;
	p->first_edge = WAIT_NOBODY;
	link_party(g, i);
	return i;
}

static const char *
keep_text(WaitGraph *g, const char *text)
{
	size_t		size = strlen(text) + 1;
	GraphText  *t = xmalloc(sizeof(GraphText) + size);

	memcpy(t->text, text, size);
	t->next = g->texts;
	g->texts = t;
	return t->text;
}

void
waitgraph_add(WaitGraph *g, WaitKind kind, uint32_t waiter, uint32_t blocker,
			  int at, uint64_t since_us, const char *what)
{
	WaitEdge   *e;

	if (waiter == blocker)
		return;
	if (g->nedges == g->edges_cap)
	{
		g->edges_cap = g->edges_cap > 0 ? g->edges_cap * 2 : 128;
		g->edges = xrealloc(g->edges, g->edges_cap * sizeof(WaitEdge));
	}
	e = &g->edges[g->nedges];
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->waiter = waiter;
	e->blocker = kinds[kind].is_edge ? blocker : WAIT_NOBODY;
	e->at = at;
	e->since_us = since_us;
	e->what = what != NULL ? keep_text(g, what) : NULL;
	e->next_of_waiter = g->parties[waiter].first_edge;
	g->parties[waiter].first_edge = g->nedges++;
}

bool
waitgraph_has(const WaitGraph *g, const WaitGraph *of, uint32_t edge)
{
	const WaitEdge *e = &of->edges[edge];
	const WaitParty *from = &of->parties[e->waiter];
	const WaitParty *to = &of->parties[e->blocker];
	uint32_t	waiter = find_party(g, from->node, from->pid, from->xcount);
	uint32_t	blocker = find_party(g, to->node, to->pid, to->xcount);

	if (waiter == WAIT_NOBODY || blocker == WAIT_NOBODY ||
		g->parties[waiter].began != from->began || g->parties[blocker].began != to->began)
		return false;
	for (uint32_t i = g->parties[waiter].first_edge; i != WAIT_NOBODY; i = g->edges[i].next_of_waiter)
	{
		if (g->edges[i].blocker == blocker && g->edges[i].kind == e->kind && g->edges[i].at == e->at)
			return true;
	}
	return false;
}

/* ---------- searching */

/* Does it count: are both still there? */
static bool
is_live(const WaitGraph *g, const WaitEdge *e)
{
	return e->blocker != WAIT_NOBODY && !g->parties[e->waiter].gone && !g->parties[e->blocker].gone;
}

/* Edges by their blocker: of party i, those from starts[i] to starts[i + 1]. */
static void
edges_by_blocker(const WaitGraph *g, uint32_t *starts, uint32_t *by_blocker)
{
	memset(starts, 0, (g->nparties + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < g->nedges; i++)
	{
		if (is_live(g, &g->edges[i]))
			starts[g->edges[i].blocker + 1]++;
	}
	for (uint32_t i = 0; i < g->nparties; i++)
		starts[i + 1] += starts[i];
	/* each start moves to the next one's place while it is filled, and back */
	for (uint32_t i = 0; i < g->nedges; i++)
	{
		if (is_live(g, &g->edges[i]))
			by_blocker[starts[g->edges[i].blocker]++] = i;
	}
	for (uint32_t i = g->nparties; i > 0; i--)
		starts[i] = starts[i - 1];
	starts[0] = 0;
}

/* Sets waits of all parties: 0 for those that can go on. */
static void
take_away_what_goes_on(WaitGraph *g)
{
	uint32_t   *starts = xmalloc((g->nparties + 1) * sizeof(uint32_t));
	uint32_t   *by_blocker = xmalloc((g->nedges + 1) * sizeof(uint32_t));
	uint32_t   *todo = xmalloc((g->nparties + 1) * sizeof(uint32_t));
	uint32_t	n = 0;

	edges_by_blocker(g, starts, by_blocker);
	for (uint32_t i = 0; i < g->nparties; i++)
		g->parties[i].waits = 0;
	for (uint32_t i = 0; i < g->nedges; i++)
	{
		if (is_live(g, &g->edges[i]))
			g->parties[g->edges[i].waiter].waits++;
	}
	for (uint32_t i = 0; i < g->nparties; i++)
	{
		if (g->parties[i].waits == 0)
			todo[n++] = i;
	}
	while (n > 0)
	{
		uint32_t	party = todo[--n];

		for (uint32_t i = starts[party]; i < starts[party + 1]; i++)
		{
			uint32_t	waiter = g->edges[by_blocker[i]].waiter;

			if (--g->parties[waiter].waits == 0)
				todo[n++] = waiter;
		}
	}
	free(starts);
	free(by_blocker);
	free(todo);
}

/* The next edge of the party, from edge i on, to a party that is left. */
static uint32_t
edge_left(const WaitGraph *g, uint32_t i)
{
	while (i != WAIT_NOBODY && !(is_live(g, &g->edges[i]) && g->parties[g->edges[i].blocker].waits > 0))
		i = g->edges[i].next_of_waiter;
	return i;
}

/* A party in a cycle, if any is left. */
static uint32_t
party_in_cycle(WaitGraph *g)
{
	uint32_t	at = 0;

	while (at < g->nparties && g->parties[at].waits == 0)
		at++;
	if (at == g->nparties)
		return WAIT_NOBODY;
	/* after so many steps it has been somewhere twice */
	for (uint32_t i = 0; i < g->nparties; i++)
		at = g->edges[edge_left(g, g->parties[at].first_edge)].blocker;
	return at;
}

size_t
waitgraph_cycle(WaitGraph *g, uint32_t *edges, size_t max)
{
	uint32_t	start;
	uint32_t   *queue;
	uint32_t	head = 0;
	uint32_t	tail = 0;
	uint32_t	last = WAIT_NOBODY;
	size_t		n = 0;

	take_away_what_goes_on(g);
	start = party_in_cycle(g);
	if (start == WAIT_NOBODY)
		return 0;
	queue = xmalloc(g->nparties * sizeof(uint32_t));
	for (uint32_t i = 0; i < g->nparties; i++)
		g->parties[i].came_by = WAIT_NOBODY;
	queue[tail++] = start;
	while (last == WAIT_NOBODY)
	{
		uint32_t	i = edge_left(g, g->parties[queue[head++]].first_edge);

		for (; i != WAIT_NOBODY && last == WAIT_NOBODY; i = edge_left(g, g->edges[i].next_of_waiter))
		{
			WaitParty  *to = &g->parties[g->edges[i].blocker];

			if (g->edges[i].blocker == start)
				last = i;
			else if (to->came_by == WAIT_NOBODY)
			{
				to->came_by = i;
				queue[tail++] = g->edges[i].blocker;
			}
		}
	}
	free(queue);
	for (uint32_t i = last; i != WAIT_NOBODY && n < max; i = g->parties[g->edges[i].waiter].came_by)
		edges[n++] = i;
	for (size_t i = 0; i < n / 2; i++)
	{
		uint32_t	swap = edges[i];

		edges[i] = edges[n - 1 - i];
		edges[n - 1 - i] = swap;
	}
	return n;
}

bool
waitgraph_loses_before(const WaitParty *a, const WaitParty *b)
{
	if (a->at_front != b->at_front)
		return b->at_front;
	if (a->loses != b->loses)
		return a->loses > b->loses;
	if (a->done != b->done)
		return a->done < b->done;
	return a->since_us > b->since_us;
}

uint32_t
waitgraph_victim(const WaitGraph *g, const uint32_t *edges, size_t n)
{
	uint32_t	victim = WAIT_NOBODY;

	for (size_t i = 0; i < n; i++)
	{
		uint32_t	party = g->edges[edges[i]].waiter;

		if (g->parties[party].loses != LOSES_NEVER &&
			(victim == WAIT_NOBODY || waitgraph_loses_before(&g->parties[party], &g->parties[victim])))
			victim = party;
	}
	return victim;
}

/* Which edge of the cycle is the party's? */
static size_t
edge_of(const WaitGraph *g, uint32_t party, const uint32_t *edges, size_t n)
{
	size_t		i = 0;

	while (i + 1 < n && g->edges[edges[i]].waiter != party)
		i++;
	return i;
}

uint32_t
waitgraph_blocker_of(const WaitGraph *g, uint32_t party, const uint32_t *edges, size_t n)
{
	return g->edges[edges[edge_of(g, party, edges, n)]].blocker;
}

static void
append(Buffer *out, char *text)
{
	buffer_append(out, text, strlen(text));
	free(text);
}

static void
append_link(Buffer *out, const WaitGraph *g, const WaitEdge *e, bool first)
{
	append(out, xstrdup(first ? "This transaction waits " : ", which waits "));
	if (e->kind == WAIT_LOCK || e->kind == WAIT_LOCK_RESERVED)
		append(out, xasprintf("for %s behind ", e->what != NULL ? e->what : "a table or row"));
	else if (e->kind == WAIT_LOCAL)
		append(out, xasprintf("for a lock on its node (%s) behind ", e->what != NULL ? e->what : "?"));
	else
		append(out, xasprintf("%s ", kinds[e->kind].words));
}

static void
append_party(Buffer *out, const WaitParty *p)
{
	append(out, xasprintf("%s of node \"%s\" (pid %" PRIu32, p->xcount != 0 ? "a transaction" : "a backend",
						  p->node_name != NULL ? p->node_name : "?", p->pid));
	if (p->xcount != 0)
		append(out, xasprintf(", transaction %" PRIu64, p->xcount));
	append(out, xasprintf(p->seq != 0 ? ", seq %" PRIu64 ")" : ")", p->seq));
}

char *
waitgraph_words(const WaitGraph *g, uint32_t party, const uint32_t *edges, size_t n)
{
	size_t		from = edge_of(g, party, edges, n);
	Buffer		out = {0};

	for (size_t i = 0; i < n; i++)
	{
		const WaitEdge *e = &g->edges[edges[(from + i) % n]];

		append_link(&out, g, e, i == 0);
		if (i + 1 == n)
			append(&out, xstrdup("this one"));
		else
			append_party(&out, &g->parties[e->blocker]);
	}
	buffer_append(&out, ".", 2);	/* and NUL */
	return (char *) out.data;
}

void
waitgraph_remove(WaitGraph *g, uint32_t party)
{
	g->parties[party].gone = true;
}
