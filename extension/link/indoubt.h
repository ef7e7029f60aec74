/*
 * indoubt.h
 *	  Transactions of this node that were rolled back here, but that the cluster may have
 *	  committed.
 */
#ifndef LOCKSTEP_INDOUBT_H
#define LOCKSTEP_INDOUBT_H

#include "nodes/plannodes.h"

#include "outcome.h"

extern void indoubt_shmem_request(void);
extern void indoubt_shmem_startup(void);

/*
 * The current transaction is rolled back, but perhaps committed by the cluster, at seq
 * (0: not known).  Before its locks are released.  Does not fail.
 */
extern void indoubt_begin(const Token *token, uint64 seq);

/*
 * Before the first row of a transaction is locked or changed: by this statement, or by
 * a command that certainly writes.  Settles all doubts, which needs the replicator.
 */
extern void indoubt_before_statement(PlannedStmt *stmt);
extern void indoubt_before_write(void);

/* Before the transaction writes or asks: ERROR 40001 if it ran while there was a doubt. */
extern void indoubt_check(void);
extern void indoubt_at_xact_end(void);

#endif							/* LOCKSTEP_INDOUBT_H */
