/*
 * hostchoice.h
 *	  What a client that chooses among several hosts is told of this node.
 */
#ifndef LOCKSTEP_HOSTCHOICE_H
#define LOCKSTEP_HOSTCHOICE_H

#include "nodes/plannodes.h"

/* The client is authenticated, and has been told nothing yet. */
extern void hostchoice_at_connection(void);

/* Before the session runs that query, or that command. */
extern void hostchoice_before_query(const PlannedStmt *pstmt);
extern void hostchoice_before_utility(const PlannedStmt *pstmt);

/* It goes on as if it had not been told: before a function that writes. */
extern void hostchoice_forget(void);

/* It is not told: a session of the replicator or an operator begins. */
extern void hostchoice_leave_out(void);

#endif							/* LOCKSTEP_HOSTCHOICE_H */
