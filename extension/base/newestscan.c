/*
 * newestscan.c
 *	  All rows of a table that are committed by now: see newestscan.h.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "newestscan.h"

NewestScan
newestscan_begin(Relation rel)
{
	NewestScan	s;

	s.snapshot = RegisterSnapshot(GetLatestSnapshot());
	s.scan = ls_table_beginscan(rel, s.snapshot, 0, NULL);
	s.slot = table_slot_create(rel, NULL);
	return s;
}

TupleTableSlot *
newestscan_next(NewestScan *s)
{
	return table_scan_getnextslot(s->scan, ForwardScanDirection, s->slot) ? s->slot : NULL;
}

void
newestscan_end(NewestScan *s)
{
	ExecDropSingleTupleTableSlot(s->slot);
	table_endscan(s->scan);
	UnregisterSnapshot(s->snapshot);
}
