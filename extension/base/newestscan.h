/*
 * newestscan.h
 *	  All rows of a table that are committed by now, or are this transaction's.
 */
#ifndef LOCKSTEP_NEWESTSCAN_H
#define LOCKSTEP_NEWESTSCAN_H

#include "access/tableam.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

typedef struct NewestScan
{
	Snapshot	snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;
} NewestScan;

/* The caller has the table open and locked, until the end. */
extern NewestScan newestscan_begin(Relation rel);
extern TupleTableSlot *newestscan_next(NewestScan *s);	/* NULL: there are no
														 * more */
extern void newestscan_end(NewestScan *s);

#endif							/* LOCKSTEP_NEWESTSCAN_H */
