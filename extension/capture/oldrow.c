/*
 * oldrow.c
 *	  The version of a row that a change has replaced.
 *
 * An UPDATE or DELETE without a join has it in the slot of its scan, which pins the page.  Else it is read from its
 * page once more, in a buffer that the executor or the change itself has just used.  Looking there first
 * (ReadRecentBuffer()) spares the search in the table of buffers: rows of a bulk change follow each other in a page, and
 * an UPDATE has fetched the version by its TID before.  A wrong guess costs a look.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

#include "capture.h"
#include "compat.h"

static Buffer recent = InvalidBuffer;	/* a guess; not pinned by it */
static TupleTableSlot *scanned = NULL;

TupleTableSlot *
oldrow_set_scan(TupleTableSlot *slot)
{
	TupleTableSlot *outer = scanned;

	scanned = slot;
	return outer;
}

/* NULL: it has another row, as after a wait for who has changed this one. */
static inline HeapTuple
scanned_tuple(Relation rel, ItemPointer tid)
{
	if (scanned == NULL || TTS_EMPTY(scanned) || scanned->tts_tableOid != RelationGetRelid(rel) || !ItemPointerEquals(&scanned->tts_tid, tid))
		return NULL;
	return ((BufferHeapTupleTableSlot *) scanned)->base.tuple;
}

void
oldrow_note_fetched(TupleTableSlot *slot)
{
	if (likely(TTS_IS_BUFFERTUPLE(slot)))
		recent = ((BufferHeapTupleTableSlot *) slot)->buffer;
}

static Buffer
pin(Relation rel, BlockNumber block)
{
	if (likely(BufferIsValid(recent)) && !BufferIsLocal(recent) && likely(!RelationUsesLocalBuffers(rel)) &&
		ReadRecentBuffer(ls_rel_file(rel), MAIN_FORKNUM, block, recent))
		return recent;
	return ReadBuffer(rel, block);
}

/*
 * As heap_fetch() with SnapshotAny.  A pin keeps the tuple where it is; the lock is
 * for one that is being moved (heap_page_prune()) when we come.
 */
static void
fetch(Relation rel, ItemPointer tid, OldRow *row)
{
	OffsetNumber offset = ItemPointerGetOffsetNumber(tid);
	ItemId		item = NULL;
	Page		page;

	row->buffer = recent = pin(rel, ItemPointerGetBlockNumber(tid));
	LockBuffer(recent, BUFFER_LOCK_SHARE);
	page = BufferGetPage(recent);
	if (offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page))
		item = PageGetItemId(page, offset);
	if (item == NULL || !ItemIdIsNormal(item))
		elog(ERROR, "could not find the old version of a changed row of %s", RelationGetRelationName(rel));
	row->tuple = &row->fetched;
	row->fetched.t_self = *tid;
	row->fetched.t_tableOid = RelationGetRelid(rel);
	row->fetched.t_data = (HeapTupleHeader) PageGetItem(page, item);
	row->fetched.t_len = ItemIdGetLength(item);
	LockBuffer(recent, BUFFER_LOCK_UNLOCK);
}

void
oldrow_get(Relation rel, ItemPointer tid, OldRow *row)
{
	row->buffer = InvalidBuffer;
	row->tuple = scanned_tuple(rel, tid);
	if (row->tuple == NULL)
		fetch(rel, tid, row);
}
