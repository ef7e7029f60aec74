/*
 * staleness.c
 *	  How old the data that this node shows may be: lockstep.max_staleness.
 *
 * The replicator's heartbeats say how far the cluster has come (seq).  When the node has
 * applied that far, it has everything that was decided before the replicator wrote the
 * heartbeat.  Its arrival does not tell when it was written, as the network may have delayed
 * it; but it was written after the node's answer to the previous one:
 *
 *		node		  t1: answer 1				 t2: heartbeat 2 arrives, says 700
 *		replicator			  heartbeat 2: 700
 *
 *		applied >= 700: all that was decided before t1 is here; fresh = t1
 *
 * No clocks are compared, the node is never considered fresher than it is, and a node that is
 * cut off becomes stale by its own clock.
 *
 * Locking: everything under the spinlock.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "guc.h"
#include "mode.h"
#include "monotonic.h"
#include "staleness.h"
#include "turn.h"

typedef struct StalenessShared
{
	slock_t		mutex;
	MonoTime	fresh;			/* all that was decided before is here */
	MonoTime	next;			/* the same, as soon as next_seq is applied */
	uint64		next_seq;		/* 0: nothing is awaited */
} StalenessShared;

static StalenessShared *shared = NULL;

/* When this session answered the replicator last; 0: it has not. */
static MonoTime answered = 0;

void
staleness_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(StalenessShared));
}

/* Called with AddinShmemInitLock held. */
void
staleness_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep staleness", sizeof(StalenessShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->mutex);
}

/* What was awaited may have come.  Caller holds the spinlock. */
static void
look_at_next(uint64 applied)
{
	if (shared->next_seq == 0 || applied < shared->next_seq)
		return;
	shared->fresh = Max(shared->fresh, shared->next);
	shared->next_seq = 0;
}

/* The replicator has asked this session something else, before any heartbeat. */
void
staleness_answered(void)
{
	answered = mono_now();
}

/* The replicator, in this session: the cluster has come to seq. */
uint64
staleness_heartbeat(uint64 seq)
{
	uint64		applied = turn_applied();
	MonoTime	before = answered;	/* 0: this says nothing yet */

	SpinLockAcquire(&shared->mutex);
	look_at_next(applied);
	if (applied >= seq)
		shared->fresh = Max(shared->fresh, before);
	else if (shared->next_seq == 0 && before != 0)
	{
		shared->next = before;
		shared->next_seq = seq;
	}
	SpinLockRelease(&shared->mutex);
	answered = mono_now();
	return applied;
}

/* 0: not known. */
static MonoTime
fresh_at(void)
{
	uint64		applied = turn_applied();
	MonoTime	fresh;

	SpinLockAcquire(&shared->mutex);
	look_at_next(applied);
	fresh = shared->fresh;
	SpinLockRelease(&shared->mutex);
	return fresh;
}

static bool
reads_tables(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_RELATION && rte->relid >= FirstNormalObjectId)
			return true;
	}
	return false;
}

/* Before a query runs: may it show what this node has? */
void
staleness_check(const PlannedStmt *stmt)
{
	MonoTime	fresh;
	long		age_ms;

	if (likely(ls_max_staleness < 0) || ls_mode() != LS_MODE_ORIGIN || !reads_tables(stmt))
		return;
	fresh = fresh_at();
	age_ms = mono_ms_since(fresh);
	if (fresh != 0 && age_ms <= ls_max_staleness)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("what this node has may be older than lockstep.max_staleness allows"),
			 fresh == 0 ? errdetail("Since its server started, it has not been known to be up to date.") :
			 errdetail("It was up to date %ld ms ago, as far as it knows; %d ms are allowed.", age_ms, ls_max_staleness),
			 errhint("It is cut off from the replicator, or catches up: see lockstepctl status. Read from another node, or set lockstep.max_staleness to -1.")));
}

/* For lockstep.status(): milliseconds, -1 = not known. */
int64
staleness_ms(void)
{
	MonoTime	fresh = fresh_at();

	return fresh == 0 ? -1 : mono_ms_since(fresh);
}
