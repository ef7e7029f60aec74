/*
 * staleness.h
 *	  How old the data that this node shows may be: lockstep.max_staleness.
 */
#ifndef LOCKSTEP_STALENESS_H
#define LOCKSTEP_STALENESS_H

#include "nodes/plannodes.h"

extern void staleness_shmem_request(void);
extern void staleness_shmem_startup(void);

/* A heartbeat says that the cluster has decided up to seq.  Returns the applied seq. */
extern uint64 staleness_heartbeat(uint64 seq);

/* The answer to it is on its way. */
extern void staleness_answered(void);

/* ERROR 57P03 if the statement reads tables and the data may be too old. */
extern void staleness_check(const PlannedStmt *stmt);

/* How long ago this node was known to have everything; -1: never. */
extern int64 staleness_ms(void);

#endif							/* LOCKSTEP_STALENESS_H */
