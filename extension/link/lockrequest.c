/*
 * lockrequest.c
 *	  Locks that a transaction requests from the replicator before it goes on.
 *
 * The replicator grants the locks of a key in the order of the requests.  The grant says up to
 * which seq this node must have applied before the transaction may use the lock. The locks are
 * released at the transaction's end; ROLLBACK TO releases those of the subtransaction (xact.c).
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "heldlocks.h"
#include "keyset.h"
#include "lockrequest.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "pack.h"
#include "points.h"
#include "turn.h"
#include "xact_state.h"

/*
 * NOWAIT: the replicator answers only when it grants.  Longer than an answer takes on a busy
 * machine, and not long for a user.
 */
#define NOWAIT_MS 200

static void
send_lock(const LsKey *keys, int nkeys, LsDdlLock ddl, bool yields)
{
	LsLock		lock;
	StringInfoData packed;
	size_t		size;

	initStringInfo(&packed);
	for (int i = 0; i < nkeys; i++)
		pack_key(&packed, &keys[i]);
	memset(&lock, 0, sizeof(lock));
	lock.xcount = ls_xact.xcount;
	lock.nkeys = nkeys;
	lock.keys.data = (const uint8_t *) packed.data;
	lock.keys.len = packed.len;
	lock.ddl = ddl != LS_DDL_NONE;
	lock.parallel = ddl == LS_DDL_PARALLEL;
	lock.scope = lock.ddl && ddl != LS_DDL_CLUSTER ? keyset_database()->hash : 0;
	lock.yields = yields;

	size = ls_put_lock(NULL, 0, &lock);
	ls_put_lock(xact_queue_room(size), size, &lock);
	xact_queue_added(size);
	pfree(packed.data);
	ls_xact.locks_asked++;
	xact_stream();
}

/* *granted: up to which seq this node must have applied.  false: not by the deadline (0: there is none). */
static bool
await_grant(const LsKey *keys, int nkeys, LsDdlLock ddl, bool yields, MonoTime deadline, uint64 *granted)
{
	uint64		seq = 0;
	LsMsgType	type;
	LsSlice		payload;

	xact_announce();
	send_lock(keys, nkeys, ddl, yields);
	LS_POINT(LOCK_ASKED);

	/*
	 * A late grant, of an earlier command that was cancelled in a savepoint,
	 * has a lower number.
	 */
	while (ls_xact.locks_granted < ls_xact.locks_asked)
	{
		long		ms = -1;

		if (deadline != 0)
		{
			ms = mono_ms_left(deadline);
			if (ms <= 0)
				return false;
		}
		if (xact_has_message(link_await(&type, &payload, (int) ms, PG_WAIT_EXTENSION)))
			xact_message(type, payload, &seq);
		CHECK_FOR_INTERRUPTS();
	}
	LS_POINT(LOCK_GRANTED);
	heldlocks_note_tables(keys, nkeys, ls_xact.locks_asked);
	*granted = seq;
	return true;
}

/* Until the locks are granted; then nobody else has them. */
void
lockrequest_tables(const LsKey *keys, int nkeys, LsDdlLock ddl, bool nowait)
{
	int			timeout_ms = nowait ? NOWAIT_MS : LockTimeout;
	uint64		seq;

	if (await_grant(keys, nkeys, ddl, false, timeout_ms > 0 ? mono_after(timeout_ms) : 0, &seq))
	{
		xact_wait_applied(seq);
		return;
	}

	/* the request is given up with the (sub)transaction */
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 nowait ? errmsg("could not obtain the lock of a table on all nodes") : errmsg("canceling statement due to lock timeout"),
			 errdetail("It waited for locks of the cluster: %s\"%.*s\".", ddl != LS_DDL_NONE ? "that of commands that change catalogs, and " : "",
					   nkeys > 0 ? (int) keys[0].name.len : 0, nkeys > 0 ? (const char *) keys[0].name.data : "")));
}

bool
lockrequest_rows(const LsKey *keys, int nkeys, int nrows, bool yields, int timeout_ms)
{
	int			rows = heldlocks_rows();
	MonoTime	deadline = timeout_ms > 0 ? mono_after(timeout_ms) : 0;
	uint64		seq;
	LsRollbackTo unlock;
	uint8_t		message[64];

	heldlocks_note_rows(keys, nrows);
	if (await_grant(keys, nkeys, LS_DDL_NONE, yields, deadline, &seq))
	{
		if (deadline == 0)
			xact_wait_applied(seq);
		if (deadline == 0 || turn_wait_applied_until(seq, deadline))
			return true;
	}

	/* others need not wait for a request that nobody waits for */
	unlock.xcount = ls_xact.xcount;
	unlock.keep = ls_xact.locks_asked - 1;
	heldlocks_cut(rows, unlock.keep);
	link_send_or_close(message, ls_put_unlock(message, sizeof(message), &unlock));
	return false;
}
