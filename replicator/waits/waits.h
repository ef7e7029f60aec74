/*
 * waits.h
 *	  Everything that waits in the cluster, as one graph (waitgraph.h): built when
 *	  somebody wants to look at it, from what the sequencer, the certifier, the
 *	  works and the nodes themselves say.
 *
 *	 sequencer_waits.c  transactions: locks asked first, reservations, tickets
 *	 waits_local.c       backends and apply sessions that wait in PostgreSQL, on
 *						their node; tasks that wait there
 *	 waits.c            looks for cycles, and who loses
 *	 waits_rows.c       the graph as rows of texts, for people
 *	 waits_watchdog.c   tells the log what stands still
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
