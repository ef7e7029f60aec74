/*
 * waits.h
 *	  The wait-for graph (waitgraph.h) of the whole cluster, built on demand from what
 *	  the sequencer, the certifier, the apply tasks and the nodes report.
 *
 *	 sequencer_waits.c  transactions here: locks requested in advance, reservations
 *	 waits_local.c      backends and apply sessions that wait on their node; apply
 *						tasks that wait there
 *	 waits.c            deadlocks and their victims
 *	 waits_rows.c       the graph as rows of text
 *	 waits_watchdog.c   warnings when something makes no progress
 *
 * Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_WAITS_H
#define LOCKSTEP_WAITS_H

#include "node.h"
#include "waitgraph.h"

extern void waits_start(void);

extern void local_waits_forget(Node *n);	/* it is out */

/*
 * Ask every node that is in who waits for whom there; done(arg) when they have
 * answered, or after a while when one doesn't.  What a node said last is kept, and
 * is forgotten when it goes out.
 */
extern void waits_refresh(void (*done) (void *arg), void *arg);

/* Fill in an empty graph, with what is known now; owners and texts are valid until
 * the loop goes on. */
extern void waits_build(WaitGraph *g);

#endif
