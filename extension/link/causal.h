/*
 * causal.h
 *	  lockstep.causal_reads: reads that see what was committed on any node.
 */
#ifndef LOCKSTEP_CAUSAL_H
#define LOCKSTEP_CAUSAL_H

#include "executor/execdesc.h"
#include "nodes/plannodes.h"

/* Before a statement of the client runs: renew its snapshot if need be. */
extern void causal_before_query(QueryDesc *desc);
extern bool causal_is_first_statement(void);	/* from REPEATABLE READ up:
												 * the snapshot is new */
extern void causal_renew_snapshot(QueryDesc *desc); /* if it may still be */
extern void causal_before_utility(PlannedStmt *pstmt);
extern void causal_catch_up_for(int ms);	/* with what is decided; at most
											 * so long, and no error if it
											 * can't */

#endif							/* LOCKSTEP_CAUSAL_H */
