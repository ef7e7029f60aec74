/*
 * writerhold.c
 *	  Transactions that begin to write are refused (lockstepctl drain) or wait (lockstepctl
 *	  pause), while those that have begun go on.  Before a drain only new sessions may be told.
 *
 * The replicator says so again and again, each time for a few seconds, so that an order whose
 * replicator has gone is soon forgotten; a restart of the server forgets it as well.
 *
 * A writer marks itself (lockconflict_note_writes) before it looks at the order; the replicator's call
 * gives the order before it counts the marks.  With a barrier in between on both sides, either the writer
 * sees the order and takes its mark back, or it is counted.  So when the count is 0 while an order
 * stands, no transaction writes and none will.
 *
 * The hot path is one barrier and one read.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "compat.h"
#include "guc.h"
#include "lockconflict.h"
#include "mode.h"
#include "monotonic.h"
#include "writerhold.h"

typedef enum Hold
{
	HOLD_NONE,
	HOLD_ANNOUNCE,				/* holds nobody: see hostchoice.c */
	HOLD_WAIT,
	HOLD_REFUSE
} Hold;

typedef struct HoldShared
{
	pg_atomic_uint32 hold;		/* a Hold */
	pg_atomic_uint64 until;		/* a MonoTime: it counts no longer then */
	ConditionVariable changed;
} HoldShared;

static HoldShared *shared = NULL;

void
writerhold_shmem_request(void)
{
	RequestAddinShmemSpace(MAXALIGN(sizeof(HoldShared)));
}

/* Called with AddinShmemInitLock held. */
void
writerhold_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep writer hold", sizeof(HoldShared), &found);
	if (found)
		return;
	pg_atomic_init_u32(&shared->hold, HOLD_NONE);
	pg_atomic_init_u64(&shared->until, 0);
	ConditionVariableInit(&shared->changed);
}

/* *ms: how long it stands, at most. */
static Hold
hold_now(long *ms)
{
	Hold		hold = (Hold) pg_atomic_read_u32(&shared->hold);

	if (likely(hold == HOLD_NONE))
		return HOLD_NONE;
	*ms = mono_ms_left((MonoTime) pg_atomic_read_u64(&shared->until));
	return *ms > 0 ? hold : HOLD_NONE;
}

static void
refuse(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
			 errmsg("node \"%s\" takes no new transactions that write, because it is being drained", ls_node_name),
			 errhint("Connect to another node and retry. Reads go on here.")));
}

void
writerhold_wait(void)
{
	Hold		hold;
	long		ms;

	if (likely(pg_atomic_read_u32(&shared->hold) == HOLD_NONE) || ls_mode() != LS_MODE_ORIGIN)
		return;
	ConditionVariablePrepareToSleep(&shared->changed);
	while ((hold = hold_now(&ms)) > HOLD_ANNOUNCE)
	{
		if (hold == HOLD_REFUSE)
		{
			ConditionVariableCancelSleep();
			refuse();
		}
		(void) ConditionVariableTimedSleep(&shared->changed, ms, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

bool
writerhold_turns_away(void)
{
	long		ms;
	Hold		hold = hold_now(&ms);

	return hold == HOLD_REFUSE || hold == HOLD_ANNOUNCE;
}

bool
writerhold_enter(void)
{
	long		ms;

	lockconflict_note_writes();
	pg_memory_barrier();
	if (likely(hold_now(&ms) <= HOLD_ANNOUNCE) || ls_mode() != LS_MODE_ORIGIN)
		return true;
	lockconflict_note_no_writes();
	return false;
}

int64
writerhold_set(const char *how, int64 ms)
{
	Hold		hold = strcmp(how, "refuse") == 0 ? HOLD_REFUSE : strcmp(how, "wait") == 0 ? HOLD_WAIT :
	strcmp(how, "announce") == 0 ? HOLD_ANNOUNCE : HOLD_NONE;

	if (hold == HOLD_NONE && strcmp(how, "none") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid order for writers: \"%s\"", how)));
	pg_atomic_write_u64(&shared->until, (uint64) mono_after(Max(ms, 0)));
	if ((Hold) pg_atomic_exchange_u32(&shared->hold, (uint32) hold) != hold)
		ConditionVariableBroadcast(&shared->changed);
	pg_memory_barrier();
	return lockconflict_count_writers();
}
