/*
 * recentddl.c
 *	  When this node, any session of it, has executed DDL last: shared memory.
 *
 * A statement that travels as its text loses to DDL that may change what it means.  Where there was
 * some a moment ago there is more to come, so rows travel instead (shippable.c): slower, but
 * nobody loses.
 */
#include "postgres.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "monotonic.h"
#include "recentddl.h"

static pg_atomic_uint64 * last = NULL;	/* MonoTime; 0: none yet */

void
recentddl_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(*last));
}

/* Called with AddinShmemInitLock held. */
void
recentddl_shmem_startup(void)
{
	bool		found;

	last = ShmemInitStruct("lockstep recent DDL", sizeof(*last), &found);
	if (!found)
		pg_atomic_init_u64(last, 0);
}

void
recentddl_note(void)
{
	pg_atomic_write_u64(last, (uint64) mono_now());
}

bool
recentddl_within(long ms)
{
	MonoTime	at = (MonoTime) pg_atomic_read_u64(last);

	return at != 0 && mono_ms_since(at) < ms;
}
