/*
 * aftercommit.c
 *	  What a committed transaction still waits for after its locks have been released: the
 *	  flush of its WAL and, with commit_wait = applied, the other nodes.
 *
 * The flush is outside of the turn because thousands of commits a second could not each wait
 * for the disk in turn; outside, they share flushes as usual.  It is left out where the
 * journal has all of the transaction, unless lockstep.local_flush is on: the WAL writer
 * flushes it soon, and a node that crashes before gets it from the journal (crashhold.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/origin.h"
#include "replication/syncrep.h"
#include "storage/lwlock.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/wait_event.h"

#include "commit.h"
#include "compat.h"
#include "guc.h"
#include "lockstep.h"
#include "ls_link.h"
#include "mode.h"
#include "points.h"

static struct
{
	bool		wanted;			/* there is one */
	bool		flush;			/* after the locks are released, flush */
	int			sync_wish;		/* the session's synchronous_commit */
	bool		is_off;			/* which has been made off meanwhile */
	uint64		applied_xcount; /* then wait for Y of this transaction, 0 = no */
}			wish;

/*
 * Has the journal all that the transaction has done?  Not what a superuser has kept local, or a
 * command that is each node's own, not the progress of a subscription, and not what a standby of this node is to have.
 */
static bool
journal_has_everything(void)
{
	return ls_mode() == LS_MODE_ORIGIN && !mode_keeps_here() && ls_unreplicated == LS_UNREPLICATED_REFUSE &&
		!ls_has_replication_origin() && SyncRepStandbyNames[0] == '\0';
}

/*
 * The variable itself is changed, as nothing reads the setting from here to the commit: to set it for the transaction,
 * and take it back, would cost a microsecond.
 */
void
aftercommit_begin(void)
{
	wish.sync_wish = synchronous_commit;
	wish.flush = ls_local_flush || !journal_has_everything();
	wish.wanted = true;
	wish.is_off = true;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
}

void
aftercommit_restore(void)
{
	if (wish.is_off)
		synchronous_commit = wish.sync_wish;
	wish.is_off = false;
}

void
aftercommit_wait_applied(uint64 xcount)
{
	wish.applied_xcount = xcount;
}

void
aftercommit_forget(void)
{
	aftercommit_restore();
	memset(&wish, 0, sizeof(wish));
}

/* As the commit itself would have done, had we left it synchronous. */
static void
flush_as_wished(void)
{
	if (!wish.flush || wish.sync_wish == SYNCHRONOUS_COMMIT_OFF)
		return;
	XLogFlush(XactLastCommitEnd);
	if (wish.sync_wish > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		SyncRepWaitForLSN(XactLastCommitEnd, true);
}

/* Is waiting for "applied" to be given up?  As in SyncRepWaitForLSN. */
static bool
stop_waiting_for_applied(void)
{
	if (ProcDiePending)
	{
		ereport(WARNING,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("canceling the wait for other nodes and terminating connection due to administrator command"),
				 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
		whereToSendOutput = DestNone;
		return true;
	}
	if (QueryCancelPending)
	{
		bool		timeout = interrupts_disarm_timeout();

		QueryCancelPending = false;
		ereport(WARNING,
				(timeout ? errmsg("canceling the wait for other nodes due to statement timeout") :
				 errmsg("canceling the wait for other nodes due to user request"),
				 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
		return true;
	}
	return false;
}

/*
 * The replicator is told that this node has committed before it is waited for: until then it owes
 * nothing, and says nothing to a backend that may have lost its verdict.
 */
static void
wait_for_applied(uint64 xcount)
{
	LsMsgType	type;
	LsSlice		payload;
	LsNumber	number;
	bool		told = false;

	while (!stop_waiting_for_applied())
	{
		switch (told ? link_await(&type, &payload, -1, PG_WAIT_EXTENSION) :
				link_receive(&type, &payload, 0, PG_WAIT_EXTENSION))
		{
			case LINK_MESSAGE:
				if (type == LS_MSG_APPLIED && ls_get_number(payload, &number) == NULL &&
					number.value == xcount)
					return;
				break;
			case LINK_LOST:
				ereport(WARNING,
						(errcode(ERRCODE_CONNECTION_FAILURE),
						 errmsg("the connection to the replicator was lost while waiting for other nodes"),
						 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
				return;
			case LINK_NOTHING:
				if (!told)
					verdict_confirm();
				told = true;
				break;
		}
		interrupts_absorb();
	}
}

static void
flush_and_wait(uint64 xcount)
{
	LS_POINT(FLUSHING);
	flush_as_wished();
	LS_POINT(FLUSHED);
	if (xcount == 0)
		return;
	interrupts_arm_timeout();
	wait_for_applied(xcount);
	(void) interrupts_disarm_timeout();
}

/* To the server's log only, and without a second error, whatever happens. */
static void
log_failed_wait(MemoryContext context)
{
	PG_TRY();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		ereport(LOG,
				(errmsg("an error at the end of a committed transaction was ignored: %s", edata->message)));
		FreeErrorData(edata);
	}
	PG_CATCH();
	{
		FlushErrorState();
	}
	PG_END_TRY();
}

/*
 * The transaction is committed, so an ERROR in here would be a PANIC.  None of
 * what is done here is needed for it to stay: the journal has it, should this
 * node lose what it has not flushed.  So an error (out of memory, a client's
 * encoding that can't show a warning) is logged, and that is all.  Throwing it
 * has let go of held interrupts, and left locks of its own taken.
 */
void
aftercommit_on_release(bool isCommit)
{
	uint64		xcount = wish.applied_xcount;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;
	MemoryContext context = CurrentMemoryContext;

	if (!isCommit)
		retry_wait();
	if (!wish.wanted || !isCommit)
		return;
	wish.wanted = false;
	wish.applied_xcount = 0;
	PG_TRY();
	{
		flush_and_wait(xcount);
	}
	PG_CATCH();
	{
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		LWLockReleaseAll();
		pgstat_report_wait_end();
		(void) interrupts_disarm_timeout();
		log_failed_wait(context);
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
}
