/*
 * conflictreport.c
 *	  Conflicts that this node detects by itself: their messages, and a report to the
 *	  replicator, which knows all others, for lockstep.conflicts.
 *
 * From REPEATABLE READ up, PostgreSQL fails a transaction that changes a row which has changed
 * since its snapshot, with no more than "could not serialize access due to concurrent update".
 * In most cases the row was changed by another node's transaction, applied here.  So heap.c
 * notes the row and that transaction when it detects the conflict, and explain_error() in
 * hooks.c adds them to the error's DETAIL.  turn.c knows the seq of that transaction, the
 * replicator its node.
 *
 * An error may be caught (in PL/pgSQL), so a conflict is reported only if the error leaves
 * the transaction; and it is sent at the transaction's end, because nothing may be sent while an
 * error is being raised.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "conflictreport.h"
#include "lockstep.h"
#include "ls_link.h"
#include "mode.h"
#include "qualifiedname.h"
#include "relation.h"
#include "request.h"
#include "turn.h"
#include "xact_state.h"

/* How long to wait for the replicator's answer, which only makes the message better. */
#define WINNER_PATIENCE_MS 1000

#define KEY_SIZE 256
#define DETAIL_SIZE 1024

static struct
{
	bool		noted;
	bool		told;			/* the error was raised, and is to be reported */
	LsConflictReason reason;
	uint64		seq;
	char		key[KEY_SIZE];
	char		detail[DETAIL_SIZE];
}			lost;

void
conflictreport_note(LsConflictReason reason, const char *key, const char *detail)
{
	lost.noted = true;
	lost.told = reason != LS_LOST_UPDATE;
	lost.reason = reason;
	lost.seq = 0;
	strlcpy(lost.key, key, sizeof(lost.key));
	strlcpy(lost.detail, detail, sizeof(lost.detail));
}

/* ---------- who won */

/*
 * The winner's node and pid, from the replicator.  NULL: it does not know them, or does not
 * answer in time; then the error does not name them.
 */
static char *
winner_words(uint64 seq)
{
	LsFacts		facts;
	LsSlice		node;
	LsSlice		pid;

	if (!request_winner(seq, WINNER_PATIENCE_MS, &facts) || facts.ncells < 2 ||
		!ls_next_param(&facts.cells, &node) || !ls_next_param(&facts.cells, &pid))
		return NULL;
	return psprintf("node \"%s\" (pid %s, seq %llu)", xact_text_of(node), xact_text_of(pid),
					(unsigned long long) seq);
}

/* ---------- which row */

/* "(id)=(7)", of the primary key; NULL if the table has none, or the user may not see it. */
static char *
row_words(Relation rel, ItemPointer tid, Oid pkey)
{
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	char	   *words = NULL;

	if (OidIsValid(pkey) && table_tuple_fetch_row_version(rel, tid, SnapshotAny, slot))
	{
		Relation	index = index_open(pkey, AccessShareLock);
		Datum		values[INDEX_MAX_KEYS];
		bool		nulls[INDEX_MAX_KEYS];

		FormIndexDatum(BuildIndexInfo(index), slot, NULL, values, nulls);
		words = BuildIndexValueDescription(index, values, nulls);
		index_close(index, AccessShareLock);
	}
	ExecDropSingleTupleTableSlot(slot);
	return words;
}

static void
note_update(Relation rel, ItemPointer tid, TransactionId xid)
{
	char	   *table = qualified_name(get_namespace_name(RelationGetNamespace(rel)),
									   RelationGetRelationName(rel));
	List	   *indexes = RelationGetIndexList(rel);	/* finds rd_pkindex */
	char	   *row = row_words(rel, tid, rel->rd_pkindex);
	char	   *who = NULL;
	uint64		seq = 0;
	char	   *key = table;

	list_free(indexes);
	if (TransactionIdIsValid(xid))
	{
		/* its commit may be visible shortly before it passes the turn */
		XactLockTableWait(xid, NULL, NULL, XLTW_None);
		seq = turn_seq_of(xid);
	}
	if (seq != 0)
		who = winner_words(seq);
	if (who == NULL)
		who = seq != 0 ? psprintf("the cluster (seq %llu)", (unsigned long long) seq) :
			psprintf("this node (xid %u)", xid);
	if (OidIsValid(rel->rd_pkindex))
		key = psprintf("%s %s%s%s", table, qualified_name(NULL, get_rel_name(rel->rd_pkindex)),
					   row != NULL ? " " : "", row != NULL ? row : "");
	conflictreport_note(LS_LOST_UPDATE, key,
						psprintf("%s%s of table %s was changed by a transaction of %s, which this transaction's snapshot does not have.",
								 row != NULL ? "Row " : "A row", row != NULL ? row : "", table, who));
	lost.seq = seq;
}

/* Called by heap.c: the row was changed by xid, and the error will follow. */
void
conflictreport_note_update(Relation rel, ItemPointer tid, TransactionId xid)
{
	MemoryContext context;
	MemoryContext old;

	if (!IsolationUsesXactSnapshot() || ls_mode() != LS_MODE_ORIGIN || !relation_is_replicated(rel))
		return;
	context = AllocSetContextCreate(CurrentMemoryContext, "lockstep lost row", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	note_update(rel, tid, xid);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---------- the error, and the end of the transaction */

static bool
is_concurrent_update(const ErrorData *edata)
{
	return edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE && edata->message_id != NULL &&
		(strcmp(edata->message_id, "could not serialize access due to concurrent update") == 0 ||
		 strcmp(edata->message_id, "could not serialize access due to concurrent delete") == 0);
}

void
conflictreport_explain(ErrorData *edata)
{
	if (!lost.noted || lost.reason != LS_LOST_UPDATE || !is_concurrent_update(edata))
		return;
	lost.told = true;
	if (edata->detail == NULL)
		edata->detail = pstrdup(lost.detail);
	if (edata->hint == NULL)
		edata->hint = pstrdup("The transaction might succeed if retried.");
}

/* Whether committed or not: a savepoint may have caught the error. */
void
conflictreport_at_xact_end(void)
{
	uint8_t		message[KEY_SIZE + DETAIL_SIZE + 128];
	LsConflictReport report;
	bool		told = lost.told;

	lost.noted = lost.told = false;
	if (likely(!told) || !link_is_open())
		return;
	report = (LsConflictReport) {ls_xact.xcount, lost.reason, lost.seq, ls_slice_of(lost.key), ls_slice_of(lost.detail)};
	link_send_or_close(message, ls_put_conflict_report(message, sizeof(message), &report));
}
