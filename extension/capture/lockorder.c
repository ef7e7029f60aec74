/*
 * lockorder.c
 *	  lockstep.update_order = auto, queued: wait for a row instead of losing it.
 *
 * Before an UPDATE, DELETE or SELECT FOR UPDATE runs, the rows that its conditions name by
 * key are requested as locks (lockrequest.c), as DDL does for tables.  The
 * replicator's queue for a key is in the order of requests; the statement runs when this node has
 * applied what came before.  Until the transaction ends, no transaction of another node with that key is
 * reserved.
 *
 *		n1: request --> granted			  COMMIT: decided, unlocked
 *		n2:		request --> waits -------------------> granted: seq 9 --> applied, runs
 *
 * The tables of these rows are requested with them: after a transaction that has requested
 * a table as a whole, only those get rows of it that will be done before it can have the table.
 *
 * Sessions of one node do not wait for each other there, but for the row's lock, as usual.  A
 * row that no condition names is not requested, and may be lost as in the optimistic order.
 *
 * The replicator knows the waits between nodes, and asks each node for its row lock
 * waits; one transaction of a circle fails with 40P01 (replicator/waits/waits.c).
 *
 * With auto, the default, only rows are requested that several nodes have wanted at the same time lately
 * (contended.c), and the request yields: it orders those that request, but keeps nobody from
 * committing.
 *
 * A session that has lost lockstep.queue_after times in a row (0: never) requests locks,
 * too, until it commits: a client that retries keeps its place that way.  It does so before its transaction has
 * done anything, so it holds nothing that others could wait for and is in no circle.  First it
 * requests the rows that its first statement names.  If there are none, or if that
 * does not help (twice as many losses), it requests whole tables: those of the
 * statement, and those that the lost transactions changed or (SERIALIZABLE) read (losses.c).  While it has
 * them, transactions of other nodes that write there wait at COMMIT, or fail.  From
 * REPEATABLE READ up even a first statement that only reads makes the request, because the
 * snapshot must come after the wait.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "capture.h"
#include "causal.h"
#include "compat.h"
#include "conflictreport.h"
#include "contended.h"
#include "guc.h"
#include "heldlocks.h"
#include "keyset.h"
#include "lockrequest.h"
#include "lockstep.h"
#include "losses.h"
#include "mode.h"
#include "readplan.h"
#include "relation.h"
#include "session.h"
#include "xact.h"

#define MAX_KEYS 64				/* for one statement */
#define CONTENDED_PATIENCE_MS 1000
#define MAX_ASKED 10000			/* in a transaction: each is a lock in the
								 * replicator; further rows are as in the
								 * optimistic order */

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

/* A partition is known by its topmost ancestor: writers of any partition have that key, too. */
static void
note_target(Oid relid)
{
	char		kind;
	LsKey		key;

	if (get_rel_relispartition(relid))
	{
		List	   *ancestors = get_partition_ancestors(relid);

		relid = ancestors != NIL ? llast_oid(ancestors) : relid;
	}
	kind = get_rel_relkind(relid);
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP ||
		(kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE))
		return;
	key = keyset_table_key(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), LS_TABLE_X);
	losses_note_table(key.hash, (const char *) key.name.data, key.mode);
}

/*
 * What the statement changes or locks, after a loss: a transaction that fails
 * before it has changed anything has told nothing else.
 */
static void
note_targets(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, ls_result_relations(stmt))
		note_target(rt_fetch(lfirst_int(lc), stmt->rtable)->relid);
	foreach(lc, stmt->rowMarks)
	{
		const PlanRowMark *mark = lfirst_node(PlanRowMark, lc);
		const RangeTblEntry *rte = rt_fetch(mark->rti, stmt->rtable);

		if (RowMarkRequiresRowShareLock(mark->markType) && rte->rtekind == RTE_RELATION)
			note_target(rte->relid);
	}
}

typedef enum Luck
{
	LUCK_GOOD,
	LUCK_BAD,					/* waits for rows */
	LUCK_WORSE					/* waits for tables */
} Luck;

/* Has the session lost so often that it should wait now? */
static Luck
luck(void)
{
	int			conflicts = losses_in_a_row();

	if (likely(conflicts == 0) || ls_queue_after == 0 || conflicts < ls_queue_after || xact_is_known())
		return LUCK_GOOD;
	return conflicts / 2 < ls_queue_after ? LUCK_BAD : LUCK_WORSE;
}

/* Its rows need not be asked for: others that do so now wait for us, who would wait for them. */
static bool
is_held_as_whole(Relation rel)
{
	LsRelation *r;

	if (!heldlocks_any_table())
		return false;
	r = relation_get(rel);
	for (int i = 0; i < r->ntables; i++)
		if (heldlocks_has_table(r->tables[i].hash))
			return true;
	return false;
}

static bool
is_queued(Relation rel)
{
	return (ls_update_order == LS_ORDER_QUEUED || luck() != LUCK_GOOD || is_listed(rel)) && !is_held_as_whole(rel);
}

static bool
may_be_contended(Relation rel)
{
	return !is_queued(rel) && !is_held_as_whole(rel);
}

/* Must any row be requested, and not only if it is contended? */
static bool
any_queued(void)
{
	return ls_update_order == LS_ORDER_QUEUED || ls_queued_tables[0] != '\0' || luck() != LUCK_GOOD;
}

static bool
any_contended(void)
{
	return ls_update_order == LS_ORDER_AUTO && contended_any();
}

/* ---------- asking */

/* The first nrows keys are what it is for, rows or tables; then the rows' tables. */
static void
ask(QueryDesc *desc, const LsKey *keys, int nkeys, int nrows, int timeout_ms)
{
	bool		lock_timeout = LockTimeout > 0 && (timeout_ms == 0 || LockTimeout < timeout_ms);

	if (!lockrequest_rows(keys, nkeys, nrows, false, lock_timeout ? LockTimeout : timeout_ms))
	{
		char	   *name = pnstrdup((const char *) keys[0].name.data, keys[0].name.len);

		if (lock_timeout)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("canceling statement due to lock timeout"),
					 errdetail("Transactions of other nodes want to change a row, too: key %s.", name)));
		conflictreport_note(LS_LOST_QUEUE, name, psprintf("Timed out after %d ms.", timeout_ms));
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("waited too long for a row that transactions of other nodes want to change"),
				 errdetail("Key %s: timed out after %d ms.", name, timeout_ms),
				 errhint("The transaction might succeed if retried. See lockstep.queue_timeout.")));
	}
	causal_renew_snapshot(desc);
}

/*
 * Of contended rows.  Who has one may think for long, so after a while the statement goes on as in the
 * optimistic order: whoever commits first wins.
 */
static void
ask_contended(QueryDesc *desc, const LsKey *keys, int nkeys, int nrows)
{
	int			patience = ls_queue_timeout > 0 ? Min(ls_queue_timeout, CONTENDED_PATIENCE_MS) : CONTENDED_PATIENCE_MS;

	if (LockTimeout > 0)
		patience = Min(patience, LockTimeout);
	(void) lockrequest_rows(keys, nkeys, nrows, true, patience);
	causal_renew_snapshot(desc);
}

/* Will its snapshot, the transaction's, be taken now? */
static bool
begins_with_snapshot(void)
{
	return IsolationUsesXactSnapshot() && IsTransactionBlock() && causal_is_first_statement();
}

/* Those of the keys that are not held yet, up to MAX_ASKED in a transaction; their number. */
static int
not_held(const LsKey *keys, int n, LsKey *fresh)
{
	int			nfresh = 0;

	for (int i = 0; i < n && heldlocks_rows_total() < MAX_ASKED; i++)
	{
		if (!heldlocks_has_row(keys[i].hash))
			fresh[nfresh++] = keys[i];
	}
	return nfresh;
}

/* Rows or tables that have to be requested whether they are contended or not. */
static void
request_queued(QueryDesc *desc, Luck now, bool names_rows)
{
	LsKey		keys[MAX_KEYS];
	LsKey		fresh[MAX_KEYS];
	LsKey		rows_of[MAX_KEYS / 2];
	int			found = 0;
	int			ntables = 0;
	int			nfresh;

	if (names_rows)
		found = readplan_rows_to_change(desc, is_queued, keys, MAX_KEYS / 2, rows_of, &ntables);
	if (now == LUCK_WORSE || (now == LUCK_BAD && found == 0))
	{
		found = losses_tables(keys);
		ntables = 0;
	}
	nfresh = not_held(keys, found, fresh);
	if (nfresh == 0)
		return;
	(void) ls_check_statement(desc->plannedstmt);	/* or others would wait
													 * for who may not */
	memcpy(fresh + nfresh, rows_of, ntables * sizeof(LsKey));
	ask(desc, fresh, nfresh + ntables, nfresh, now == LUCK_GOOD ? ls_queue_timeout : 0);
}

/* Rows of one table? */
static bool
same_table(const LsKey *keys, int n)
{
	for (int i = 1; i < n; i++)
	{
		if (keys[i].name.data != keys[0].name.data)
			return false;
	}
	return n > 0;
}

static void
request_contended(QueryDesc *desc)
{
	LsKey		keys[MAX_KEYS / 2];
	LsKey		fresh[MAX_KEYS];
	LsKey		rows_of[MAX_KEYS / 2];
	int			ntables;
	LsKey		contended[MAX_KEYS / 2];
	int			named = readplan_rows_to_change(desc, may_be_contended, keys, MAX_KEYS / 2, rows_of, &ntables);
	int			found = 0;
	int			nfresh;

	for (int i = 0; i < named; i++)
	{
		if (contended_has(keys[i].hash))
			contended[found++] = keys[i];
	}
	if (same_table(keys, named) && contended_table(rows_of[0].hash, named, found))
		nfresh = not_held(keys, named, fresh);
	else
		nfresh = not_held(contended, found, fresh);
	if (nfresh == 0)
		return;
	(void) ls_check_statement(desc->plannedstmt);
	memcpy(fresh + nfresh, rows_of, ntables * sizeof(LsKey));
	ask_contended(desc, fresh, nfresh + ntables, nfresh);
}

void
lockorder_before_query(QueryDesc *desc)
{
	PlannedStmt *stmt = desc->plannedstmt;
	bool		names_rows = stmt->commandType == CMD_UPDATE || stmt->commandType == CMD_DELETE || stmt->rowMarks != NIL ||
	readplan_is_upsert(stmt);
	Luck		now = luck();

	if (unlikely(losses_in_a_row() > 0) && ls_queue_after > 0 && !XactReadOnly && ls_mode() == LS_MODE_ORIGIN)
	{
		(void) ls_check_statement(stmt);
		note_targets(stmt);
	}
	if (likely(now == LUCK_GOOD && (!names_rows || (!any_queued() && !any_contended()))))
		return;
	if ((!names_rows && stmt->commandType != CMD_INSERT && !begins_with_snapshot()) ||
		XactReadOnly || ls_mode() != LS_MODE_ORIGIN || utility_is_replayed())
		return;
	if (any_queued())
		request_queued(desc, now, names_rows);
	if (names_rows && any_contended())
		request_contended(desc);
}
