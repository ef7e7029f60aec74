/*
 * delivery.c
 *	  A verdict that comes by the apply session.
 *
 * A backend that has asked may lose its link before the verdict comes, as when the replicator
 * restarts.  If the transaction was decided, the replicator applies it on this node, too, where
 * that backend still holds its locks.  So the apply session first looks whether the backend waits;
 * then it tells it the seq, and the backend commits:
 *
 *		backend						apply session
 *		asks, loses its link
 *		waits (failover_wait)		gets seq 7: delivery_make()
 *		claims 7, commits  <-------	  waits
 *									  7 is applied: LS001
 *
 * A backend that is in the way of what is decided before its own outcome can be asked for is told
 * by the control session if it was not decided, and so fails with 40001, not 08007.
 *
 * A backend that gives up (08007) ends its wait here before it releases its locks, and the apply
 * session goes on with the transaction itself.
 *
 * Locking: `awaited` and `since` are written by their backend and read by any; the rest of a slot is protected
 * by the LWLock of the tranche "LockstepDelivery".  A delivery names its transaction, so a late
 * one is no other transaction's.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"

#include "compat.h"
#include "delivery.h"
#include "generation.h"
#include "lockstep.h"
#include "monotonic.h"

/* How long the apply session waits for a backend that has been told. */
#define DELIVERY_PATIENCE_MS 10000

/* Between two looks at a backend that does not commit: it gave up, perhaps. */
#define LOOK_MS 20

typedef struct Slot
{
	pg_atomic_uint64 awaited;	/* number of the transaction, or 0 */
	uint64		since;			/* of that; written before it */
	uint64		delivered;		/* number of the transaction that this is for */
	JournalPosition position;
	uint64		generation;
} Slot;

static Slot *slots = NULL;		/* by pgprocno */
static LWLock *delivery_lock = NULL;

static Size
delivery_shmem_size(void)
{
	return mul_size(MaxBackends, sizeof(Slot));
}

void
delivery_shmem_request(void)
{
	RequestAddinShmemSpace(delivery_shmem_size());
	RequestNamedLWLockTranche("LockstepDelivery", 1);
}

/* Called with AddinShmemInitLock held. */
void
delivery_shmem_startup(void)
{
	bool		found;

	slots = ShmemInitStruct("lockstep delivery", delivery_shmem_size(), &found);
	delivery_lock = &(GetNamedLWLockTranche("LockstepDelivery"))->lock;
	if (found)
		return;
	memset(slots, 0, delivery_shmem_size());
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u64(&slots[i].awaited, 0);
}

/* ---------- the backend that has asked */

void
delivery_await(uint64 xcount, uint64 since)
{
	Slot	   *slot;

	if (slots == NULL)
		return;
	slot = &slots[ls_procno(MyProc)];

	/* an earlier one's: should the clock have gone back, numbers come again */
	if (xcount != 0)
		slot->delivered = 0;
	slot->since = since;
	pg_write_barrier();
	pg_atomic_write_u64(&slot->awaited, xcount);
}

void
delivery_end(void)
{
	delivery_await(0, 0);
}

bool
delivery_take(JournalPosition *position, uint64 *generation)
{
	Slot	   *slot = &slots[ls_procno(MyProc)];
	bool		taken;

	if (*(volatile const uint64 *) &slot->delivered != pg_atomic_read_u64(&slot->awaited))
		return false;
	LWLockAcquire(delivery_lock, LW_SHARED);
	taken = slot->delivered != 0 && slot->delivered == pg_atomic_read_u64(&slot->awaited);
	*position = slot->position;
	*generation = slot->generation;
	LWLockRelease(delivery_lock);
	return taken;
}

/* ---------- the apply session */

static bool
is_awaited(const PGPROC *proc, int pid, uint64 xcount)
{
	return *(volatile const int *) &proc->pid == pid &&
		pg_atomic_read_u64(&slots[ls_procno(proc)].awaited) == xcount;
}

static void
deliver(PGPROC *proc, uint64 xcount, JournalPosition position, uint64 generation)
{
	Slot	   *slot = &slots[ls_procno(proc)];

	LWLockAcquire(delivery_lock, LW_EXCLUSIVE);
	slot->delivered = xcount;
	slot->position = position;
	slot->generation = generation;
	LWLockRelease(delivery_lock);
	SetLatch(&proc->procLatch);
}

void
delivery_make(int pid, uint64 boot, uint64 xcount, JournalPosition position)
{
	PGPROC	   *proc = boot == turn_boot_id() && xcount != 0 ? BackendPidGetProc(pid) : NULL;
	MonoTime	deadline = mono_after(DELIVERY_PATIENCE_MS);

	if (proc == NULL || !is_awaited(proc, pid, xcount))
		return;
	deliver(proc, xcount, position, generation_of_session());
	while (turn_applied() < position.seq && is_awaited(proc, pid, xcount) && mono_ms_left(deadline) > 0)
	{
		turn_wait_applied_for(position.seq, LOOK_MS);
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---------- the control session */

uint64
delivery_awaited(int pid, uint64 *since)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	Slot	   *slot;
	uint64		xcount;

	if (proc == NULL)
		return 0;
	slot = &slots[ls_procno(proc)];
	xcount = pg_atomic_read_u64(&slot->awaited);
	pg_read_barrier();
	*since = *(volatile const uint64 *) &slot->since;
	pg_read_barrier();
	return is_awaited(proc, pid, xcount) ? xcount : 0;
}

void
delivery_deny(int pid, uint64 xcount)
{
	PGPROC	   *proc = xcount != 0 ? BackendPidGetProc(pid) : NULL;
	JournalPosition nowhere = {0, 0};

	if (proc != NULL && is_awaited(proc, pid, xcount))
		deliver(proc, xcount, nowhere, 0);
}
