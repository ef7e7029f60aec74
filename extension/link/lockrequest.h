/*
 * lockrequest.h
 *	  Locks that a transaction requests from the replicator before it goes on.
 */
#ifndef LOCKSTEP_LOCKREQUEST_H
#define LOCKSTEP_LOCKREQUEST_H

#include "protocol.h"

/* The ddl lock: between nodes it excludes all others; within a node */
typedef enum LsDdlLock
{
	LS_DDL_NONE,				/* (not wanted) */
	LS_DDL_PARALLEL,			/* those of the database, but parallel ones */
	LS_DDL_DATABASE,			/* those of the database */
	LS_DDL_CLUSTER				/* all: the command changes what databases
								 * have in common */
} LsDdlLock;

/*
 * Request table locks, and the ddl lock, before a command that must not fail later.
 * Returns when they are granted and this node has applied what the grant names. Interruptible.
 * ERROR 40P01 when the replicator finds a deadlock, 55P03 after lock_timeout or, with nowait, the
 * time that an answer takes.
 */
extern void lockrequest_tables(const LsKey *keys, int nkeys, LsDdlLock ddl, bool nowait);

/*
 * The same for the first nrows keys, rows or tables; the rest are the tables of the
 * rows.  False if it takes longer than timeout_ms (0: no limit); then nothing of it is held.  yields:
 * only other requests wait for them, not transactions that commit.
 */
extern bool lockrequest_rows(const LsKey *keys, int nkeys, int nrows, bool yields, int timeout_ms);

#endif							/* LOCKSTEP_LOCKREQUEST_H */
