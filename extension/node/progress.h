/*
 * progress.h
 *	  How far this database has come, stored with the data.
 */
#ifndef LOCKSTEP_PROGRESS_H
#define LOCKSTEP_PROGRESS_H

#include "nodes/plannodes.h"

#include "lockstep.h"

/*
 * ERROR if the statement, or a COPY of the table, reads lockstep.progress in a
 * SERIALIZABLE transaction, which would conflict with commits.
 */
extern void progress_check_query(const PlannedStmt *stmt);
extern void progress_check_reader(Oid relid);

/* Take the lock for progress_write(), before others wait for this transaction. */
extern void progress_lock(void);

/* Write the row of this backend's slot, in the current transaction. */
extern void progress_write(JournalPosition position);

/* The highest seq in this database; 0: none. */
extern uint64 progress_read(void);

#endif							/* LOCKSTEP_PROGRESS_H */
