/*
 * lockrequest.h
 *	  Locks that a transaction asks the replicator for before it goes on.
 */
#ifndef LOCKSTEP_LOCKREQUEST_H
#define LOCKSTEP_LOCKREQUEST_H

#include "protocol.h"

/*
 * Ask for table locks, and the ddl lock if ddl, before a command that can't
 * fail later; returns when they are granted and this node has applied what it
 * must have.  Interruptible.  40P01 when the replicator finds a deadlock.
 */
extern void lockrequest_tables(const LsKey *keys, int nkeys, bool ddl);

/*
 * The same for the first nrows keys, rows or tables; the rest are the tables of the
 * rows.  False if it takes longer than timeout_ms (0: no limit).
 */
extern bool lockrequest_rows(const LsKey *keys, int nkeys, int nrows, int timeout_ms);

/* Has the transaction asked for this key?  Of rows, and tables asked for like rows. */
extern bool lockrequest_has(uint64 hash);

/* How many; and all but the first n have been given back. */
extern int	lockrequest_count(void);
extern int	lockrequest_total(void);	/* including those given back */
extern void lockrequest_forget(int n);

extern void lockrequest_at_xact_end(void);

#endif							/* LOCKSTEP_LOCKREQUEST_H */
