/*
 * applywait.c
 *	  In an apply session: waiting for transactions that have a table open, without
 *	  blocking any.
 *
 * A step of a CONCURRENTLY command (applyindex.c, applydetach.c) comes after all
 * transactions that had the table open before.  A local transaction among them blocks
 * nothing but this step.  A lock wait for it would have the replicator make it fail at once
 * (lockconflict.c), so it is polled instead, and the replicator is told who waits for whom
 * (lockstep.step_waits()), because that transaction may itself be waiting for this step.  After
 * lockstep.index_patience the wait becomes an ordinary one.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "apply.h"
#include "commit.h"
#include "compat.h"
#include "guc.h"
#include "lockconflict.h"
#include "monotonic.h"

#define LOOK_MS 10

static void
note_blocker(VirtualTransactionId vxid)
{
	PGPROC	   *proc = ls_proc_of(vxid);

	lockconflict_note_step_waits(proc != NULL ? proc->pid : 0);
}

/* Another apply session may wait for its turn behind us: the replicator has to see that. */
static void
wait_for_one(VirtualTransactionId vxid, MonoTime deadline)
{
	PG_TRY();
	{
		while (!VirtualXactLock(vxid, false))
		{
			if (lockconflict_is_apply(ls_proc_of(vxid)) || mono_now() >= deadline)
			{
				lockconflict_note_step_waits(0);
				(void) VirtualXactLock(vxid, true);
				break;
			}
			note_blocker(vxid);
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LOOK_MS,
							 PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
	PG_FINALLY();
	{
		lockconflict_note_step_waits(0);
	}
	PG_END_TRY();
}

/*
 * All who hold a lock on the table now that conflicts with mode, but us.  A step
 * that is decided already holds the turn: no reader is waited for with patience then.
 */
void
applywait_lockers(Oid table, LOCKMODE mode)
{
	int			patience = commit_is_claimed() ? 0 : ls_index_patience;
	MonoTime	deadline = mono_after(patience);
	VirtualTransactionId *lockers;
	LOCKTAG		tag;
	int			n;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table);
	lockers = GetLockConflicts(&tag, mode, &n);
	for (int i = 0; i < n; i++)
		wait_for_one(lockers[i], deadline);
}
