/*
 * indoubt.c
 *	  Transactions in doubt: rolled back on this node, perhaps committed by the cluster.
 *
 * A backend that asked and lost the replicator, or that was stopped between the verdict and
 * its commit, rolls back and releases its locks.  The cluster may have committed the
 * transaction, and this node gets it later, by apply.  Meanwhile another transaction
 * of this node can lock the same rows, and sees their old values:
 *
 *		T1 (v = v + 50)			T2 (v = v + 1)			node
 *		asked, decided: seq 7
 *		cancelled: 08007		.
 *		locks released			v is still 0: writes 1
 *								.						seq 7 by apply: v = 50
 *
 * The certifier cannot detect this.  Transactions of one node never conflict with each other
 * there, because PostgreSQL's locks have ordered them; these locks were released too early.  So
 * the node remembers the transaction, from before its locks are released until everything that
 * it may have done is applied (settled).  A transaction that ran while one was in doubt does not
 * commit: it gets 40001, and its retry sees everything.
 *
 * Each beginning and end of a doubt counts as an event.  A transaction remembers the number of
 * events before it locks its first row, and must find the same number when it asks.
 *
 * The next writer settles all doubts, preferably before its first row, when nothing is lost by
 * that.  It asks the replicator for the outcome and states that the backend has given up; from
 * then on the transaction is decided or never will be.  Then the writer waits for the seq in the
 * answer.  See session_outcome.c.
 *
 * Locking: doubts[] under the LWLock of tranche "LockstepDoubt", exclusive; events and open
 * are written under it and read without.  A crash of a backend resets shared memory, and ends
 * all transactions.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "conflictreport.h"
#include "indoubt.h"
#include "lockstep.h"
#include "ls_link.h"
#include "outcome.h"
#include "request.h"
#include "turn.h"
#include "xact.h"

typedef struct Doubt
{
	bool		used;
	Token		token;
	uint64		seq;			/* it is decided, at that seq; 0: not known */
} Doubt;

typedef struct DoubtShared
{
	pg_atomic_uint64 events;
	pg_atomic_uint32 open;		/* entries in use */
	Doubt		doubts[FLEXIBLE_ARRAY_MEMBER];	/* max_doubts() of them */
} DoubtShared;

static DoubtShared *shared = NULL;
static LWLock *doubt_lock = NULL;

static uint64 sample = 0;		/* events when this transaction began */
static bool sampled = false;

/*
 * A backend with a doubt writes nothing before all doubts are settled, so one entry for each
 * backend would do; twice as many allow for backends that had asked before.
 */
static int
max_doubts(void)
{
	return 2 * MaxBackends;
}

static Size
indoubt_shmem_size(void)
{
	return add_size(offsetof(DoubtShared, doubts), mul_size(max_doubts(), sizeof(Doubt)));
}

void
indoubt_shmem_request(void)
{
	RequestAddinShmemSpace(indoubt_shmem_size());
	RequestNamedLWLockTranche("LockstepDoubt", 1);
}

/* Called with AddinShmemInitLock held. */
void
indoubt_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep doubt", indoubt_shmem_size(), &found);
	doubt_lock = &(GetNamedLWLockTranche("LockstepDoubt"))->lock;
	if (found)
		return;
	memset(shared, 0, indoubt_shmem_size());
	pg_atomic_init_u64(&shared->events, 0);
	pg_atomic_init_u32(&shared->open, 0);
}

/* ---------- beginning */

/*
 * The current transaction becomes one in doubt, before its locks are released.  Does not fail.
 */
void
indoubt_begin(const Token *token, uint64 seq)
{
	if (seq != 0 && turn_applied() >= seq)
		return;
	LWLockAcquire(doubt_lock, LW_EXCLUSIVE);
	for (int i = 0; i < max_doubts(); i++)
	{
		Doubt	   *d = &shared->doubts[i];

		if (d->used)
			continue;
		d->used = true;
		d->token = *token;
		d->seq = seq;
		pg_atomic_fetch_add_u64(&shared->events, 1);
		pg_atomic_fetch_add_u32(&shared->open, 1);
		LWLockRelease(doubt_lock);
		return;
	}
	/* forgetting one could lose an update */
	elog(PANIC, "no room for another transaction in doubt");
}

/* ---------- the end */

static bool
indoubt_first(Doubt *copy)
{
	bool		found = false;

	LWLockAcquire(doubt_lock, LW_EXCLUSIVE);
	for (int i = 0; i < max_doubts() && !found; i++)
	{
		found = shared->doubts[i].used;
		if (found)
			*copy = shared->doubts[i];
	}
	LWLockRelease(doubt_lock);
	return found;
}

static void
indoubt_end(const Token *token)
{
	LWLockAcquire(doubt_lock, LW_EXCLUSIVE);
	for (int i = 0; i < max_doubts(); i++)
	{
		Doubt	   *d = &shared->doubts[i];

		if (!d->used || d->token.pid != token->pid || d->token.xcount != token->xcount)
			continue;
		d->used = false;
		pg_atomic_fetch_add_u64(&shared->events, 1);
		pg_atomic_fetch_sub_u32(&shared->open, 1);
	}
	LWLockRelease(doubt_lock);
}

static void
settle(const Doubt *d)
{
	uint64		seq = d->seq;

	if (seq == 0)
		(void) request_outcome(&d->token, true, &seq);
	xact_wait_applied(seq);
	indoubt_end(&d->token);
}

/* ---------- who ran meanwhile */

static void
settle_all(void)
{
	Doubt		d;

	while (indoubt_first(&d))
		settle(&d);
}

static bool
is_any_open(void)
{
	return unlikely(pg_atomic_read_u32(&shared->open) != 0);
}

static void
take_sample(void)
{
	sample = pg_atomic_read_u64(&shared->events);
	sampled = true;
}

void
indoubt_before_write(void)
{
	if (sampled)
		return;
	if (is_any_open())
	{
		link_connect_or_wait();
		settle_all();
	}
	take_sample();
}

/*
 * A statement that only locks rows, or writes temporary tables, must work without the
 * replicator.
 */
void
indoubt_before_statement(PlannedStmt *stmt)
{
	ListCell   *lc;

	if (sampled)
		return;
	if (is_any_open())
	{
		foreach(lc, ls_result_relations(stmt))
		{
			RangeTblEntry *rte = rt_fetch(lfirst_int(lc), stmt->rtable);

			if (get_rel_persistence(rte->relid) != RELPERSISTENCE_TEMP)
			{
				indoubt_before_write();
				return;
			}
		}
	}
	take_sample();
}

void
indoubt_at_xact_end(void)
{
	/*
	 * for what is not announced before it writes (fastpath calls) the events
	 * count from here
	 */
	if (shared != NULL)
		sample = pg_atomic_read_u64(&shared->events);
	sampled = false;
}

/*
 * The current transaction is about to write, or to ask.  Needs the link.  If the transaction ran
 * while another was in doubt, it settles all doubts, so that a retry succeeds, and fails.
 */
void
indoubt_check(void)
{
	if (likely(!is_any_open() && pg_atomic_read_u64(&shared->events) == sample))
		return;
	settle_all();
	conflictreport_note(LS_LOST_DOUBT, "", "A transaction of this node whose outcome was in doubt.");
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a transaction of this node whose outcome was in doubt"),
			 errdetail("It had lost the replicator, or was stopped, while it committed; this transaction may have seen rows as they were before it."),
			 errhint("The transaction might succeed if retried.")));
}
