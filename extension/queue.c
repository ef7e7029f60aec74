/*
 * queue.c
 *	  lockstep.update_order = queued: wait for a row instead of losing it.
 *
 * Before an UPDATE, DELETE or SELECT FOR UPDATE runs, the rows that its
 * conditions name by their key are asked for as locks (xact_lock_first, as
 * DDL does for tables): the replicator's queue for a key is in the order asked,
 * and the node goes on when it has applied what came before.  Until the
 * transaction ends no other node's can be reserved with that key.
 *
 *		n1: ask ----> granted			   COMMIT: decided, unlocked
 *		n2:		ask ---> waits --------------------> granted: seq 9 --> applied, runs
 *
 * Sessions of one node don't wait for each other there, but for the row's lock,
 * as ever.  A row that no condition names is not asked for, and may be lost as
 * in the optimistic order.
 *
 * Who waits for whom among nodes is known to the replicator, which lets one of a
 * circle fail with 40P01.  A circle may also go through row locks of one node,
 * which only that node sees; therefore the wait is limited.
 *
 * A session that has lost lockstep.queue_after times in a row, if that is not 0, queues by itself
 * for the first row of its next transactions, until it has got through.  It
 * holds nothing then that others could wait for, so it is in no circle.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/execdesc.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "lockstep.h"

#define MAX_KEYS 32

/* Rows that this transaction has asked for. */
static uint64 held[MAX_KEYS];
static int	nheld = 0;

static int	conflicts = 0;		/* lost in a row */

void
queue_note_conflict(void)
{
	conflicts++;
}

void
queue_note_commit(void)
{
	conflicts = 0;
}

void
queue_at_xact_end(void)
{
	nheld = 0;
}

/* ---------- which tables */

static bool
is_listed(Relation rel)
{
	char	   *name = psprintf("%s.%s", get_namespace_name(RelationGetNamespace(rel)),
								RelationGetRelationName(rel));
	List	   *names;
	ListCell   *lc;

	if (!SplitGUCList(pstrdup(ls_queued_tables), ',', &names))
		return false;
	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

/* Has the session lost so often that it should wait now? */
static bool
is_unlucky(void)
{
	return ls_queue_after > 0 && conflicts >= ls_queue_after && !xact_is_known();
}

static bool
is_queued(Relation rel)
{
	return ls_update_order == LS_ORDER_QUEUED || is_unlucky() || is_listed(rel);
}

/* ---------- asking */

static bool
is_held(uint64 hash)
{
	for (int i = 0; i < nheld; i++)
		if (held[i] == hash)
			return true;
	return false;
}

static void
ask(QueryDesc *desc, const LsKey *keys, int nkeys)
{
	for (int i = 0; i < nkeys && nheld < MAX_KEYS; i++)
		held[nheld++] = keys[i].hash;
	if (!xact_lock_rows(keys, nkeys, ls_queue_timeout))
	{
		char	   *name = pnstrdup((const char *) keys[0].name.data, keys[0].name.len);

		lost_note(LS_LOST_QUEUE, name, psprintf("Nothing came of waiting for %d ms.", ls_queue_timeout));
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("waited too long for a row that transactions of other nodes want to change"),
				 errdetail("Key %s: nothing came of waiting for %d ms.", name, ls_queue_timeout),
				 errhint("The transaction might succeed if retried. See lockstep.queue_timeout.")));
	}
	causal_renew_snapshot(desc);
}

void
queue_before_query(QueryDesc *desc)
{
	PlannedStmt *stmt = desc->plannedstmt;
	LsKey		keys[MAX_KEYS];
	int			found;
	int			nkeys = 0;

	if ((stmt->commandType != CMD_UPDATE && stmt->commandType != CMD_DELETE && stmt->rowMarks == NIL) ||
		likely(ls_update_order != LS_ORDER_QUEUED && ls_queued_tables[0] == '\0' && !is_unlucky()) ||
		XactReadOnly || ls_mode() != LS_MODE_ORIGIN)
		return;
	found = readkeys_rows_to_change(desc, is_queued, keys, MAX_KEYS);
	for (int i = 0; i < found; i++)
	{
		if (!is_held(keys[i].hash))
			keys[nkeys++] = keys[i];
	}
	if (nkeys > 0)
		ask(desc, keys, nkeys);
}
