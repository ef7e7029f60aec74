/*
 * waits.c
 *	  Everything that waits, as one graph: see waits.h.
 */
#include "waits.h"

#include <stdlib.h>

#include "sequencer.h"
#include "waits_private.h"

#define PATIENCE_MS 1000		/* with a node that does not answer */

/* Who wants to know, when the nodes have answered. */
typedef struct Asker
{
	void		(*done) (void *arg);
	void	   *arg;
	struct Asker *next;
} Asker;

static Asker *askers;
static Timer *patience;
static Deferred answered;

static void
tell_askers(void *unused)
{
	Asker	   *a = askers;

	loop_cancel(patience);
	patience = NULL;
	askers = NULL;
	while (a != NULL)
	{
		Asker	   *next = a->next;

		a->done(a->arg);
		free(a);
		a = next;
	}
}

static void
on_patience_over(void *arg)
{
	patience = NULL;
	tell_askers(NULL);
}

static bool
any_asked(void)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (node_get(i)->local_waits_asked)
			return true;
	}
	return false;
}

void
waits_node_answered(void)
{
	if (askers != NULL && !any_asked())
		loop_defer(&answered);
}

void
waits_refresh(void (*done) (void *arg), void *arg)
{
	Asker	   *a = xmalloc(sizeof(Asker));

	*a = (Asker) {done, arg, askers};
	askers = a;
	for (int i = 0; i < nodes_count(); i++)
		(void) localwaits_ask(node_get(i));
	if (!any_asked())
		loop_defer(&answered);
	if (patience == NULL)
		patience = loop_after(PATIENCE_MS, on_patience_over, NULL);
}

void
waits_build(WaitGraph *g)
{
	sequencer_add_waits(g);
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		if (n->state == NODE_ONLINE)
			localwaits_add(g, n);
	}
}

void
waits_each(WaitFound found, void *arg)
{
	WaitGraph	g = {0};

	waits_build(&g);
	for (uint32_t i = 0; i < g.nedges; i++)
	{
		const WaitEdge *e = &g.edges[i];

		found(arg, e, &g.parties[e->waiter], e->blocker != WAIT_NOBODY ? &g.parties[e->blocker] : NULL);
	}
	waitgraph_free(&g);
}

void
waits_start(void)
{
	answered.callback = tell_askers;
}
