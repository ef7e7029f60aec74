/*
 * delivery.h
 *	  A verdict that comes by the apply session: see delivery.c.
 */
#ifndef LOCKSTEP_DELIVERY_H
#define LOCKSTEP_DELIVERY_H

#include "turn.h"

extern void delivery_shmem_request(void);
extern void delivery_shmem_startup(void);

/* ---------- the backend that has asked */

extern void delivery_await(uint64 xcount);	/* from now on it may come */
extern void delivery_end(void); /* it is committed, or rolled back; cheap if
								 * none is awaited */

/* Has it come?  Then where to commit, and the generation of the replicator that says so. */
extern bool delivery_take(JournalPosition *position, uint64 *generation);

/* ---------- the apply session */

/*
 * If that backend still waits for its verdict, tell it, and wait until it has committed or
 * rolled back, or for DELIVERY_PATIENCE_MS.
 */
extern void delivery_make(int pid, uint64 boot, uint64 xcount, JournalPosition position);

#endif							/* LOCKSTEP_DELIVERY_H */
