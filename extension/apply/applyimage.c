/*
 * applyimage.c
 *	  A row of a table without an identity, found by what it consists of.
 *
 * Any of several equal rows will do, so the search begins behind the row that was found before, in this session
 * and this table: rows that are changed together often stand together, in the same order on each node.  A
 * query would read the table from its beginning for each row.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "applyimage.h"

#define TABLES 16				/* of which the last row is remembered */

typedef struct LastFound
{
	Oid			relid;
	ItemPointerData tid;
} LastFound;

/* Where to begin, no more: the table may have been rewritten meanwhile. */
static LastFound last_found[TABLES];

/* As record_image_eq(). */
static bool
has_image(const RowImage *image, TupleDesc desc, TupleTableSlot *slot)
{
	for (int i = 0; i < image->n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, image->attnums[i] - 1);
		bool		null;
		Datum		value = slot_getattr(slot, image->attnums[i], &null);

		if (null != image->nulls[i] || (!null && !datum_image_eq(value, image->values[i], att->attbyval, att->attlen)))
			return false;
	}
	return true;
}

bool
applyimage_fetch(Relation rel, BlockNumber block, OffsetNumber offset, TupleTableSlot *slot)
{
	ItemPointerData tid;

	if (offset > MaxHeapTuplesPerPage)
		return false;
	ItemPointerSet(&tid, block, offset);
	ExecClearTuple(slot);
	return table_tuple_fetch_row_version(rel, &tid, GetActiveSnapshot(), slot);
}

static bool
find_within(Relation rel, const RowImage *image, TupleTableSlot *slot, BlockNumber first, BlockNumber nblocks)
{
	TableScanDesc scan;
	bool		found = false;

	if (nblocks == 0)
		return false;
	scan = table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL, true, false);
	heap_setscanlimits(scan, first, nblocks);
	while (!found && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		found = has_image(image, RelationGetDescr(rel), slot);
	}
	table_endscan(scan);
	return found;
}

bool
applyimage_find(Relation rel, const RowImage *image, TupleTableSlot *slot)
{
	LastFound  *last = &last_found[RelationGetRelid(rel) % TABLES];
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber first = 0;
	bool		found = false;

	if (last->relid == RelationGetRelid(rel) && ItemPointerGetBlockNumber(&last->tid) < nblocks)
	{
		first = ItemPointerGetBlockNumber(&last->tid);
		found = applyimage_fetch(rel, first, ItemPointerGetOffsetNumber(&last->tid) + 1, slot) &&
			has_image(image, RelationGetDescr(rel), slot);
	}
	found = found || find_within(rel, image, slot, first, nblocks - first) || find_within(rel, image, slot, 0, first);
	if (found)
	{
		last->relid = RelationGetRelid(rel);
		last->tid = slot->tts_tid;
	}
	return found;
}
