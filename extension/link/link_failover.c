/*
 * link_failover.c
 *	  Waiting for a replicator that is away for a moment.
 *
 * While the replicator restarts, or attaches this node again, a write waits instead of failing
 * with 57P03, for at most lockstep.failover_wait.  So does the COMMIT of a transaction of which the
 * replicator has heard nothing yet: its queue is in this backend, and its keys are certified
 * from the seq at which it first wrote.
 *
 * A refusal that will last (a dropped node, another secret) is an error at once.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"

#include "guc.h"
#include "link_private.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "turn.h"

/* Between two attempts: the first pause and the longest; an attempt has at least the latter. */
#define FIRST_PAUSE_MS 5
#define MAX_PAUSE_MS 200

long
link_pause(long ms, MonoTime deadline)
{
	long		time = ms == 0 ? FIRST_PAUSE_MS : Min(ms * 2, MAX_PAUSE_MS);

	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Max(1, Min(time, mono_ms_left(deadline))), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	return time;
}

void
link_open_again(MonoTime deadline)
{
	link_open_until(Max(deadline, mono_after(MAX_PAUSE_MS)));
}

/* False: not now, and there is time for another attempt. */
static bool
try_to_connect(bool again, MonoTime deadline)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		if (!again)
			link_connect();
		else if (!link_is_alive(false))
			link_open_again(deadline);
	}
	PG_CATCH();
	{
		if (!link_loss_is_passing() || mono_ms_left(deadline) == 0 ||
			geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_ADMIN_SHUTDOWN)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return link_is_open() && (turn_is_open() || mono_ms_left(deadline) == 0);
}

void
link_connect_or_wait(void)
{
	MonoTime	deadline = mono_after(ls_failover_wait);

	for (long ms = 0; !try_to_connect(ms > 0, deadline);)
	{
		ms = link_pause(ms, deadline);
		CHECK_FOR_INTERRUPTS();
	}
}
