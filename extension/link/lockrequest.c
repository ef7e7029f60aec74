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
send_lock(const LsKey *keys, int nkeys, bool ddl, bool yields)
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
	lock.ddl = ddl;
	lock.yields = yields;

	size = ls_put_lock(NULL, 0, &lock);
	ls_put_lock(xact_queue_room(size), size, &lock);
	xact_queue_added(size);
	pfree(packed.data);
	ls_xact.locks_asked++;
	xact_stream();
}

static bool
lock_first(const LsKey *keys, int nkeys, bool ddl, bool yields, int timeout_ms)
{
	uint64		seq = 0;
	LsMsgType	type;
	LsSlice		payload;
	MonoTime	deadline = timeout_ms > 0 ? mono_after(timeout_ms) : 0;

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
	if (deadline != 0)
		return turn_wait_applied_until(seq, deadline);
	xact_wait_applied(seq);
	return true;
}

/* The request is given up when the (sub)transaction ends, which is now. */
void
lockrequest_tables(const LsKey *keys, int nkeys, bool ddl, bool nowait)
{
	if (lock_first(keys, nkeys, ddl, false, nowait ? NOWAIT_MS : LockTimeout))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 nowait ? errmsg("could not obtain the lock of a table on all nodes") : errmsg("canceling statement due to lock timeout"),
			 nkeys > 0 ? errdetail("A transaction of this or another node has table \"%.*s\", or one that was named with it.",
								   (int) keys[0].name.len, (const char *) keys[0].name.data) : 0));
}

bool
lockrequest_rows(const LsKey *keys, int nkeys, int nrows, bool yields, int timeout_ms)
{
	int			rows = heldlocks_rows();
	LsRollbackTo unlock;
	uint8_t		message[64];

	heldlocks_note_rows(keys, nrows);
	if (lock_first(keys, nkeys, false, yields, timeout_ms))
		return true;

	/* others need not wait for a request that nobody waits for */
	unlock.xcount = ls_xact.xcount;
	unlock.keep = ls_xact.locks_asked - 1;
	heldlocks_cut(rows, unlock.keep);
	link_send_or_close(message, ls_put_unlock(message, sizeof(message), &unlock));
	return false;
}
