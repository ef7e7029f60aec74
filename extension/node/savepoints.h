/*
 * savepoints.h
 *	  The savepoints of the transaction, and the commands that set and end them.
 */
#ifndef LOCKSTEP_SAVEPOINTS_H
#define LOCKSTEP_SAVEPOINTS_H

#include "access/xact.h"
#include "nodes/parsenodes.h"

/* ---------- which there are */

extern void savepoints_ran(const TransactionStmt *stmt);	/* without an error */
extern void savepoints_on_subxact(SubXactEvent event, int level);
extern void savepoints_at_xact_end(void);

/* Their names, outermost first, allocated in the current memory context. */
extern List *savepoints_names(void);

/* In a new transaction block: set the same ones again. */
extern void savepoints_set(List *names);

/* ---------- the text of a command */

/* Is there nothing in it but SAVEPOINT, RELEASE, ROLLBACK [TO] and ABORT?  May be called by a signal handler. */
extern bool savepoints_is_command(const char *text);

#endif							/* LOCKSTEP_SAVEPOINTS_H */
