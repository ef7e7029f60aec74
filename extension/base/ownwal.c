/*
 * ownwal.c
 *	  What has this transaction written to the WAL?
 *
 * Reading writes, too: a reader of a page may remove its dead rows, and a value that
 * is read from a TOAST table is found on such pages.  A counter of records does not tell this
 * from a change.  So the records themselves are looked at; that is for the rare case
 * that there are any where none is expected.
 */
#include "postgres.h"

#include "access/heapam_xlog.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogutils.h"
#include "catalog/pg_control.h"

#include "compat.h"
#include "ownwal.h"

/* Of all backends; more is not read. */
#define MAX_BYTES (16 * 1024 * 1024)

XLogRecPtr
ownwal_position(void)
{
	return ProcLastRecPtr;
}

static bool
is_of_reading(XLogReaderState *reader)
{
	uint8		info = XLogRecGetInfo(reader) & ~XLR_INFO_MASK;

	switch (XLogRecGetRmid(reader))
	{
		case RM_HEAP2_ID:
			return ls_is_prune_record(info & XLOG_HEAP_OPMASK);
		case RM_XLOG_ID:
			return info == XLOG_FPI_FOR_HINT;
		default:
			return false;
	}
}

/* From the record behind since to our last one. */
static bool
look(XLogReaderState *reader, XLogRecPtr since, XLogRecPtr last)
{
	XLogBeginRead(reader, since);
	for (;;)
	{
		char	   *error;

		if (XLogReadRecord(reader, &error) == NULL)
			return false;
		if (reader->ReadRecPtr > since && TransactionIdIsCurrentTransactionId(XLogRecGetXid(reader)) &&
			!is_of_reading(reader))
			return false;
		if (reader->ReadRecPtr >= last)
			return reader->ReadRecPtr == last;
	}
}

bool
ownwal_only_reads(XLogRecPtr since)
{
	XLogRecPtr	last = ProcLastRecPtr;
	ReadLocalXLogPageNoWaitPrivate private = {0};
	XLogReaderState *reader;
	bool		result = false;

	if (XLogRecPtrIsInvalid(since) || last <= since || last - since > MAX_BYTES)
		return false;
	XLogFlush(XactLastRecEnd);
	reader = XLogReaderAllocate(wal_segment_size, NULL,
								XL_ROUTINE(.page_read = read_local_xlog_page_no_wait,
										   .segment_open = wal_segment_open,
										   .segment_close = wal_segment_close),
								&private);
	if (reader == NULL)
		return false;
	PG_TRY();
	{
		result = look(reader, since, last);
	}
	PG_FINALLY();
	{
		XLogReaderFree(reader);
	}
	PG_END_TRY();
	return result;
}
