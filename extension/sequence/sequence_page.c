/*
 * sequence_page.c
 *	  The page of a sequence: last_value, log_cnt, is_called.
 *
 * Changes are not transactional, as in PostgreSQL.  WAL is written a few values ahead, as by
 * PostgreSQL, but never beyond the lease of the value: after a crash the page must not include
 * values that other nodes may hand out.
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "compat.h"
#include "commands/sequence.h"
#include LS_SEQUENCE_XLOG_HEADER
#include "sequence_private.h"

/* As PostgreSQL does, and shows in log_cnt. */
#define LOGGED_AHEAD 32

/* The tuple on the page, locked in this mode. */
static Form_pg_sequence_data
lock_page(Relation rel, int mode, Buffer *buffer, HeapTupleData *tuple)
{
	ItemId		item;
	Page		page;

	*buffer = ReadBuffer(rel, 0);
	LockBuffer(*buffer, mode);
	page = BufferGetPage(*buffer);
	item = PageGetItemId(page, FirstOffsetNumber);
	if (!ItemIdIsNormal(item))
		elog(ERROR, "sequence \"%s\" has no value", RelationGetRelationName(rel));
	tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
	tuple->t_len = ItemIdGetLength(item);
	return (Form_pg_sequence_data) GETSTRUCT(tuple);
}

SeqPosition
sequence_page_read(Relation rel)
{
	Buffer		buffer;
	HeapTupleData tuple;
	Form_pg_sequence_data data = lock_page(rel, BUFFER_LOCK_SHARE, &buffer, &tuple);
	SeqPosition result = {data->last_value, data->is_called};

	UnlockReleaseBuffer(buffer);
	return result;
}

/* In a critical section: WAL of the tuple as it is. */
static void
log_tuple(Relation rel, Buffer buffer, const HeapTupleData *tuple)
{
	xl_seq_rec	record;
	XLogRecPtr	end;

	ls_set_sequence_file(record, rel);
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData((char *) &record, sizeof(record));
	XLogRegisterData((char *) tuple->t_data, tuple->t_len);
	end = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(BufferGetPage(buffer), end);
}

void
sequence_page_set(Relation rel, SeqPosition position)
{
	Buffer		buffer;
	HeapTupleData tuple;
	Form_pg_sequence_data data;

	if (RelationNeedsWAL(rel))
		(void) GetTopTransactionId();	/* so that the commit flushes it */
	data = lock_page(rel, BUFFER_LOCK_EXCLUSIVE, &buffer, &tuple);
	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	data->last_value = position.value;
	data->is_called = position.called;
	data->log_cnt = 0;
	if (RelationNeedsWAL(rel))
		log_tuple(rel, buffer, &tuple);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

/* Steps from value on that stay within the bounds, at most n. */
static int64
steps_left(const SeqShape *shape, int64 value, int64 n)
{
	uint64		room = shape->increment > 0 ? (uint64) shape->max - (uint64) value :
	(uint64) value - (uint64) shape->min;
	uint64		step = shape->increment > 0 ? (uint64) shape->increment :
	-(uint64) shape->increment;

	return Min((uint64) n, room / step);
}

void
sequence_page_advance(Relation rel, const SeqShape *shape, int64 value, int64 limit,
					  int64 *logged, bool *logged_valid)
{
	Buffer		buffer;
	HeapTupleData tuple;
	Form_pg_sequence_data data;
	int64		fetched;
	int64		log_cnt;
	bool		logit;

	data = lock_page(rel, BUFFER_LOCK_EXCLUSIVE, &buffer, &tuple);
	if (!shape->cycle && data->is_called && !seq_is_behind(shape, data->last_value, value))
	{
		/* other nodes are further */
		UnlockReleaseBuffer(buffer);
		return;
	}

	/* what PostgreSQL would show */
	fetched = data->is_called ? shape->cache : shape->cache - 1;
	logit = data->log_cnt < fetched || !data->is_called ||
		PageGetLSN(BufferGetPage(buffer)) <= GetRedoRecPtr();
	log_cnt = steps_left(shape, value, logit ? LOGGED_AHEAD : data->log_cnt - fetched);
	if (!*logged_valid || seq_is_behind(shape, *logged, value))
		logit = true;

	/* no ERROR from here on: it would release the buffer, and lose the value */
	if (logit && RelationNeedsWAL(rel))
		(void) GetTopTransactionId();
	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	data->is_called = true;
	if (logit && RelationNeedsWAL(rel))
	{
		int64		ahead = value + log_cnt * shape->increment;

		if (seq_is_behind(shape, limit, ahead))
			ahead = limit;
		data->last_value = ahead;
		data->log_cnt = 0;
		log_tuple(rel, buffer, &tuple);
		*logged = ahead;
		*logged_valid = true;
	}
	data->last_value = value;
	data->log_cnt = log_cnt;
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}
