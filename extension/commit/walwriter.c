/*
 * walwriter.c
 *	  How often do asynchronous commits wake the WAL writer?
 *
 * With lockstep.local_flush off all commits of replicated transactions are asynchronous.
 * Before PostgreSQL 17 each of them wakes the WAL writer as long as a full page of WAL is
 * not flushed (XLogSetAsyncXactLSN()), which is nearly always, as it flushes only every
 * wal_writer_delay or wal_writer_flush_after.  A wake-up costs the committing process a signal, and the
 * node two context switches and a small write: together more than a tenth of what applying a small
 * transaction costs.  17 wakes it when there is something to be flushed, and so do we: once
 * in wal_writer_delay, or when wal_writer_flush_after has been written since.
 *
 * The other commits mark its latch as set, so that SetLatch() has nothing to do.
 * A WAL writer that sleeps goes on sleeping until its timeout, which is wal_writer_delay: it hibernates, and
 * sleeps for longer, only when nothing was committed for 50 times that long, and then the next
 * commit wakes it.  One that is awake looks once more whether there is work.  It waits for
 * nothing else by its latch.  Signals end its sleep as ever; one that comes between its last look at
 * the latch and its sleep may be noticed at the timeout only.
 *
 * Only the process that has the turn calls this: so the commit that is to wake it is the next
 * one, and none that spares it comes between.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "port/atomics.h"
#include "postmaster/walwriter.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "compat.h"
#include "monotonic.h"
#include "walwriter.h"

typedef struct WalWriterShared
{
	pg_atomic_uint64 woken;		/* MonoTime of the last wake-up */
	pg_atomic_uint64 woken_at;	/* where WAL was inserted then */
} WalWriterShared;

static WalWriterShared *shared = NULL;

void
walwriter_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(WalWriterShared));
}

/* Called with AddinShmemInitLock held. */
void
walwriter_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep WAL writer", sizeof(WalWriterShared), &found);
	if (found)
		return;
	pg_atomic_init_u64(&shared->woken, 0);
	pg_atomic_init_u64(&shared->woken_at, 0);
}

#ifdef LS_COMMITS_WAKE_WAL_WRITER

/* As much as it lets gather, and never so much that backends have to write it themselves. */
static uint64
most_unwritten(void)
{
	return (uint64) Min(WalWriterFlushAfter, XLOGbuffers / 4) * XLOG_BLCKSZ;
}

static bool
wake_up_is_due(MonoTime now, XLogRecPtr inserted)
{
	MonoTime	woken = (MonoTime) pg_atomic_read_u64(&shared->woken);
	XLogRecPtr	woken_at = pg_atomic_read_u64(&shared->woken_at);

	return woken == 0 || now - woken >= (MonoTime) WalWriterDelay * 1000 ||
		(inserted > woken_at && inserted - woken_at >= most_unwritten());
}

void
walwriter_spare(void)
{
	Latch	   *latch = ProcGlobal->walwriterLatch;
	MonoTime	now;

	if (latch == NULL || WalWriterFlushAfter == 0)
		return;
	now = mono_now();
	if (wake_up_is_due(now, XactLastRecEnd))
	{
		pg_atomic_write_u64(&shared->woken, (uint64) now);
		pg_atomic_write_u64(&shared->woken_at, XactLastRecEnd);
		latch->is_set = false;	/* the commit sets it, and wakes */
	}
	else
		latch->is_set = true;
}

#else

void
walwriter_spare(void)
{
}

#endif
