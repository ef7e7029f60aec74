/*
 * pendingdetach.h
 *	  Partitions that are being detached.
 */
#ifndef LOCKSTEP_PENDINGDETACH_H
#define LOCKSTEP_PENDINGDETACH_H

#include "access/htup.h"
#include "nodes/pg_list.h"

typedef bool (*FoundPending) (HeapTuple tuple, void *arg);

/* Calls found() with each such row of pg_inherits, of one parent or (InvalidOid) of all,
 * until it returns true; that is the result. */
extern bool pendingdetach_find(Oid parent, FoundPending found, void *arg);

/* Partitions of it that are being detached, and what is below them. */
extern List *pendingdetach_below(Oid relid);

/* The table, and all partitions below it. */
extern List *pendingdetach_tables_below(Oid relid);

#endif							/* LOCKSTEP_PENDINGDETACH_H */
