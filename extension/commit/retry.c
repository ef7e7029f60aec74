/*
 * retry.c
 *	  After a lost conflict: the session goes on when a retry can succeed.
 *
 * A transaction that fails with 40001 is usually retried at once.  Until this node has
 * applied the winner, the retry would lose to it again, and each time hold locks that the
 * winner needs here.  (With commit_wait = ordered no peer has executed the winner when
 * it is decided.)  So the verdict says up to which seq the node must have applied:
 *
 *		V 'r', after 7	-> ERROR 40001, rolled back, locks released
 *						   wait until applied >= 7
 *						-> ready for the next query
 *
 * The wait comes when the transaction has been rolled back, so that nothing waits for its
 * locks, and before the client is told that the session is ready.  It lasts at most
 * lockstep.retry_wait; a cancel or termination ends it, because nothing depends on it.
 * Interrupts are held here (a transaction is being aborted), and no ERROR may be raised.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "commit.h"
#include "guc.h"
#include "lockstep.h"
#include "monotonic.h"
#include "turn.h"

static uint64 after = 0;		/* seq to be applied first, 0: none */

void
retry_note(const LsVerdict *verdict)
{
	after = ls_retry_wait > 0 ? verdict->after : 0;
}

/* A cancel is meant for the command that has just failed: it has been obeyed. */
static bool
wants_on(void)
{
	interrupts_absorb();
	if (!QueryCancelPending && !ProcDiePending && !ClientConnectionLost && !proc_exit_inprogress)
		return false;
	if (!ProcDiePending)
		QueryCancelPending = false;
	return true;
}

void
retry_wait(void)
{
	uint64		seq = after;
	MonoTime	deadline;
	long		left;

	after = 0;
	if (seq == 0)
		return;
	deadline = mono_after(ls_retry_wait);
	while (turn_applied() < seq && !wants_on() &&
		   (left = mono_ms_left(deadline)) > 0)
		turn_wait_applied_for(seq, left);
}
