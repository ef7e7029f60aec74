/*
 * waits_private.h
 *	  What waits.c (the whole graph, cycles) and waits_local.c (one node) offer each
 *	  other.
 */
#ifndef LOCKSTEP_WAITS_PRIVATE_H
#define LOCKSTEP_WAITS_PRIVATE_H

#include "peer.h"
#include "waits.h"

/* ---------- in waits_local.c */

extern bool local_waits_ask(Node *n);	/* false: not now; else
										 * waits_node_answered() */
extern void local_waits_add(WaitGraph *g, Node *n, bool fresh); /* fresh: only what it
																 * said when asked last */

/* A backend that waits there: it is told why, with 40P01. */
extern void local_waits_fail_backend(Node *n, uint32_t pid, uint32_t lxid, const char *detail);

/* ---------- in waits.c */

extern void waits_node_answered(void);	/* or it has gone out */

#endif
