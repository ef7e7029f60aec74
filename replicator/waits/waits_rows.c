/*
 * waits_rows.c
 *	  The wait-for graph as rows of texts, the oldest wait first: for SQL
 *	  (lockstep.waits), lockstepctl waits and the watchdog's line in the log.
 */
#include "waits_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "node.h"

const FactsColumn wait_columns[WAIT_COLUMNS] = {
	{"node", false},
	{"pid", true},
	{"transaction", true},
	{"seq", true},
	{"kind", false},
	{"waits", false},
	{"at_node", false},
	{"object", false},
	{"for_ms", true},
	{"blocker_node", false},
	{"blocker_pid", true},
	{"blocker_transaction", true},
	{"blocker_seq", true},
};

static WaitGraph graph;			/* between the first row and the last */
static uint32_t *order;			/* its edges */

/* Not known counts as the youngest. */
static int
compare(const void *a, const void *b)
{
	uint64_t	x = graph.edges[*(const uint32_t *) a].since_us - 1;
	uint64_t	y = graph.edges[*(const uint32_t *) b].since_us - 1;

	return x < y ? -1 : x > y;
}

static void
forget(void)
{
	waitgraph_free(&graph);
	free(order);
	order = NULL;
}

static void
take(void)
{
	forget();
	waits_build(&graph);
	order = xmalloc((graph.nedges + 1) * sizeof(uint32_t));
	for (uint32_t i = 0; i < graph.nedges; i++)
		order[i] = i;
	if (graph.nedges > 1)
		qsort(order, graph.nedges, sizeof(uint32_t), compare);
}

/* Of a number that is not known, NULL. */
static const char *
number(char *text, size_t size, uint64_t n)
{
	snprintf(text, size, "%" PRIu64, n);
	return n != 0 ? text : NULL;
}

static void
party_cells(const WaitParty *p, const char **cells, char texts[3][24])
{
	cells[0] = p->node_name;
	cells[1] = number(texts[0], 24, p->pid);
	cells[2] = number(texts[1], 24, p->xcount);
	cells[3] = number(texts[2], 24, p->seq);
}

int64_t
wait_age_ms(const WaitEdge *e)
{
	uint64_t	now = loop_now_us();

	if (e->since_us == 0)
		return -1;
	return e->since_us < now ? (int64_t) ((now - e->since_us) / 1000) : 0;
}

bool
waits_row(size_t i, const char **cells)
{
	static char waiter[3][24];
	static char blocker[3][24];
	static char age[24];
	const WaitEdge *e;
	int64_t		ms;

	if (i == 0)
		take();
	if (order == NULL || i >= graph.nedges)
	{
		forget();
		return false;
	}
	e = &graph.edges[order[i]];
	ms = wait_age_ms(e);
	party_cells(&graph.parties[e->waiter], cells, waiter);
	cells[4] = wait_kind_name(e->kind);
	cells[5] = wait_kind_words(e->kind);
	cells[6] = e->at >= 0 ? node_name(e->at) : NULL;
	cells[7] = e->what;
	snprintf(age, sizeof(age), "%" PRId64, ms);
	cells[8] = ms >= 0 ? age : NULL;
	for (int j = 9; j < WAIT_COLUMNS; j++)
		cells[j] = NULL;
	if (e->blocker != WAIT_NOBODY)
		party_cells(&graph.parties[e->blocker], cells + 9, blocker);
	return true;
}
