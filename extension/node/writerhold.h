/*
 * writerhold.h
 *	  Transactions that begin to write are refused, or wait, when the operator wants it.
 */
#ifndef LOCKSTEP_WRITERHOLD_H
#define LOCKSTEP_WRITERHOLD_H

#include "lockstep.h"

extern void writerhold_shmem_request(void);
extern void writerhold_shmem_startup(void);

/* Before a transaction writes first.  ERROR 25006 if new writers are refused. */
extern void writerhold_wait(void);

/* Are new writers refused now, or soon? */
extern bool writerhold_turns_away(void);

/*
 * It writes from now on, and is counted.  False: writers have been held meanwhile, so it isn't;
 * it has to wait again.
 */
extern bool writerhold_enter(void);

/*
 * The replicator's order: "refuse", "announce" that, "wait" or "none", for so many milliseconds.
 * Returns the number of open transactions that write.
 */
extern int64 writerhold_set(const char *how, int64 ms);

#endif							/* LOCKSTEP_WRITERHOLD_H */
