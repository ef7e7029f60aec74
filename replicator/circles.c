/*
 * circles.c
 *	  Who waits for whom on one node, for circles that go through it.
 *
 * The certifier knows who waits in its queues (certify_locks.c), PostgreSQL who
 * waits for locks on its node.  Neither sees this:
 *
 *		n1: A has row 1 in the queue, waits for a row lock of B
 *		n1: B waits in the queue for row 2
 *		n2: C has row 2 in the queue, waits there for row 1
 *
 * So while anybody waits in a queue, those who have something there and don't
 * wait for the replicator are looked at, on their node, every LOOK_MS: for whom
 * do they wait, directly or not?  The certifier takes it as an edge, and who
 * waits in the queue gets 40P01 if a circle is closed by it.
 *
 * An edge is as old as the last look.  What it led to may have gone on
 * meanwhile; then, at worst, somebody gets 40P01 who would have got through.
 */
#include <stdlib.h>

#include "node_private.h"
#include "sequencer.h"

#define LOOK_MS 300

/* Chains of waits are followed; each pair comes once, so circles end. */
static const char query[] =
"WITH RECURSIVE chain(holder, blocker) AS ("
"SELECT waiting, blocker FROM lockstep.blockers($1) "
"UNION SELECT c.holder, b.blocker FROM chain c, lockstep.blockers(ARRAY[c.blocker]) b) "
"SELECT holder, blocker FROM chain";

static void
on_looked(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	if (!pids_answered(n, r, &n->circles_asked, "ask who waits for whom"))
		return;
	sequencer_forget_local_waits(n->index);
	for (int i = 0; i < PQntuples(r); i++)
		sequencer_local_wait(n->index, (uint32_t) atoi(PQgetvalue(r, i, 0)), (uint32_t) atoi(PQgetvalue(r, i, 1)));
}

static void
add_holder(void *pids, uint32_t pid)
{
	pids_add(pids, (int) pid);
}

void
circles_look(Node *n, int elapsed_ms)
{
	Buffer		pids = {0};

	n->circles_ms += elapsed_ms;
	if (n->circles_asked || n->circles_ms < LOOK_MS)
		return;
	n->circles_ms = 0;
	sequencer_holders(n->index, add_holder, &pids);
	(void) pids_ask(n, &pids, query, &n->circles_asked, on_looked);
}
