/*
 * waits_private.h
 *	  What waits_local.c (one node) offers waits.c (the whole graph, cycles).
 */
#ifndef LOCKSTEP_WAITS_PRIVATE_H
#define LOCKSTEP_WAITS_PRIVATE_H

#include "peer.h"
#include "waits.h"

/* ---------- in waits_local.c */

/* answered(): it has, or it has gone out.  Not asked again while an answer is under way. */
extern void local_waits_ask(Node *n, void (*answered) (void));
extern void local_waits_add(WaitGraph *g, Node *n, bool fresh); /* fresh: only what it
																 * said when asked last */

/* A backend that waits there: it is told why, with 40P01. */
extern void local_waits_fail_backend(Node *n, uint32_t pid, uint32_t lxid, const char *detail);

#endif
