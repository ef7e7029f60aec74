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

/* From now on it may come.  since: seq up to which this node had applied when the transaction began. */
extern void delivery_await(uint64 xcount, uint64 since);
extern void delivery_end(void); /* it is committed, or rolled back; cheap if
								 * none is awaited */

/*
 * Has it come?  Then where to commit, and the generation of the replicator that says so; seq 0:
 * it was not decided, and never will be.
 */
extern bool delivery_take(JournalPosition *position, uint64 *generation);

/* ---------- the apply session */

/*
 * If that backend still waits for its verdict, tell it, and wait until it has committed or
 * rolled back, or for DELIVERY_PATIENCE_MS.
 */
extern void delivery_make(int pid, uint64 boot, uint64 xcount, JournalPosition position);

/* ---------- the replicator's control session */

/* Number of the transaction that this backend awaits a verdict for; 0: none. */
extern uint64 delivery_awaited(int pid, uint64 *since);

/* Tell it, if it still waits, that the transaction was not decided, and never will be. */
extern void delivery_deny(int pid, uint64 xcount);

#endif							/* LOCKSTEP_DELIVERY_H */
