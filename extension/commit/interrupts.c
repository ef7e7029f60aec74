/*
 * interrupts.c
 *	  Who wants the end of a transaction to stop, while no interrupt may be taken?
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/procsignal.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "commit.h"

bool
interrupts_wants_out(void)
{
	return ProcDiePending || QueryCancelPending || ClientConnectionLost || ls_transaction_timed_out();
}

/* Interrupts that others wait for, and that can't fail. */
void
interrupts_absorb(void)
{
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	if (LogMemoryContextPending)
		ProcessLogMemoryContextInterrupt();
}

/*
 * PostgreSQL stops statement_timeout before it commits.  Here COMMIT may wait
 * for other nodes, so it gets the timeout once more: for the verdict and the
 * turn together, and again for `applied`.  After an error PostgreSQL itself
 * stops it.
 */
static bool timeout_armed = false;

void
interrupts_arm_timeout(void)
{
	if (StatementTimeout <= 0 || get_timeout_active(STATEMENT_TIMEOUT))
		return;
	timeout_armed = true;
	enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
}

/*
 * The transaction commits.  Were a timeout that came too late kept, it would be
 * reported while the session is idle already, as an answer to nothing.  Returns
 * whether it came.
 */
bool
interrupts_disarm_timeout(void)
{
	if (!timeout_armed)
		return false;
	timeout_armed = false;
	disable_timeout(STATEMENT_TIMEOUT, true);
	if (!get_timeout_indicator(STATEMENT_TIMEOUT, true))
		return false;
	QueryCancelPending = false;
	return true;
}

bool
interrupts_timed_out(void)
{
	return timeout_armed && get_timeout_indicator(STATEMENT_TIMEOUT, false);
}

void
interrupts_forget_timeout(void)
{
	timeout_armed = false;
}
