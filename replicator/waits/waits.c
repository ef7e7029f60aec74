/*
 * waits.c
 *	  The wait-for graph of the cluster (waits.h), and the search for deadlocks in it.
 *
 * Cycles that consist of locks requested in advance only are found as they close
 * (certify_locks.c): they are common and cheap to find.  All others pass through a
 * node, where PostgreSQL sees only a part of them.  So when any transaction has
 * waited for the same thing for PATIENCE_MS, all nodes are asked for their waits, and
 * the answers are combined with what is known here.
 *
 *		tick -> stalled? -> ask nodes -> graph -> cycle? -> seen before? -> victim
 *		 ^																	  |
 *		 +--------------------------------------------------------------------+
 *
 * A node's answer is older than the local part of the graph, so a cycle may never
 * have existed as a whole.  It counts only if each of its edges was there at the
 * previous look, too: edges name transactions, not processes, and a transaction keeps
 * its locks until it ends, so all of them existed at the same time.
 */
#include "waits.h"

#include <inttypes.h>
#include <stdlib.h>

#include "log.h"
#include "sequencer.h"
#include "waits_private.h"

#define TICK_MS 100
#define PATIENCE_MS 200			/* of who waits, before it is looked at */
#define LOOK_MS 300				/* between two looks */
#define LOOK_AGAIN_MS 80		/* the same, when there may be a cycle */
#define NODE_PATIENCE_MS 300	/* with a node that does not answer */
#define TELL_US (10 * UINT64_C(1000000))	/* between two warnings */

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

static WaitGraph before;		/* as the last look found it */
static uint64_t looked_us;		/* when that was */
static bool may_be_cycle;		/* there was one that had not been seen before */
static bool looking;

/* ---------- the graph */

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

static void
node_answered(void)
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
		local_waits_ask(node_get(i), node_answered);
	if (!any_asked())
		loop_defer(&answered);
	if (patience == NULL)
		patience = loop_after(NODE_PATIENCE_MS, on_patience_over, NULL);
}

/* fresh: what nodes said long ago, as they don't answer now, does not count. */
static void
build(WaitGraph *g, bool fresh)
{
	sequencer_add_waits(g);
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);

		if (n->state == NODE_ONLINE)
			local_waits_add(g, n, fresh);
	}
}

void
waits_build(WaitGraph *g)
{
	build(g, false);
}

/* ---------- cycles */

static bool
seen_before(const WaitGraph *g, const uint32_t *edges, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (!waitgraph_has(&before, g, edges[i]))
			return false;
	}
	return true;
}

static void
let_lose(const WaitGraph *g, uint32_t victim, uint32_t *edges, size_t n)
{
	const WaitParty *p = &g->parties[victim];
	char	   *detail = waitgraph_words(g, victim, edges, n);

	if (p->loses == LOSES_HERE)
	{
		const WaitParty *winner = &g->parties[waitgraph_blocker_of(g, victim, edges, n)];

		sequencer_refuse_deadlock(p->owner, detail, winner->node_name, winner->pid);
	}
	else
	{
		log_message(LOG_INFO, p->node_name, "canceling the transaction of backend %" PRIu32 " with 40P01: %s", p->pid, detail);
		local_waits_fail_backend(node_get(p->node), p->pid, p->lxid, detail);
	}
	free(detail);
}

static void
tell_hopeless(const WaitGraph *g, const uint32_t *edges, size_t n)
{
	static uint64_t told_us;
	char	   *words;

	if (told_us != 0 && loop_now_us() - told_us < TELL_US)
		return;
	told_us = loop_now_us();
	words = waitgraph_words(g, g->edges[edges[0]].waiter, edges, n);
	log_message(LOG_WARNING, NULL, "deadlock detected, but none of its transactions can be rolled back: %s", words);
	free(words);
}

/* Those that were seen at the look before, too, are broken. */
static void
break_cycles(WaitGraph *g)
{
	uint32_t   *edges = xmalloc((g->nparties + 1) * sizeof(uint32_t));
	size_t		n;

	may_be_cycle = false;
	while ((n = waitgraph_cycle(g, edges, g->nparties)) > 0)
	{
		uint32_t	victim = waitgraph_victim(g, edges, n);
		bool		certain = seen_before(g, edges, n);

		if (certain && victim != WAIT_NOBODY)
			let_lose(g, victim, edges, n);
		else if (certain)
			tell_hopeless(g, edges, n);
		may_be_cycle |= !certain;
		waitgraph_remove(g, victim != WAIT_NOBODY ? victim : g->edges[edges[0]].waiter);
	}
	free(edges);
}

static void
on_looked(void *unused)
{
	WaitGraph	g = {0};

	looking = false;
	build(&g, true);
	break_cycles(&g);
	waitgraph_free(&before);
	before = g;
	looked_us = loop_now_us();
}

static void
on_tick(void *unused)
{
	bool		stuck = sequencer_is_stalled(PATIENCE_MS);
	uint64_t	pause_ms = may_be_cycle ? LOOK_AGAIN_MS : LOOK_MS;

	loop_after(TICK_MS, on_tick, NULL);
	if (!stuck && !looking)
		waitgraph_free(&before);
	if (!stuck || looking || loop_now_us() - looked_us < pause_ms * 1000)
		return;
	looking = true;
	waits_refresh(on_looked, NULL);
}

void
waits_start(void)
{
	answered.callback = tell_askers;
	loop_after(TICK_MS, on_tick, NULL);
}
