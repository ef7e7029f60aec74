/*
 * lockorder.c
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
 * The rows' tables go with them: after a transaction that has asked for a table as a
 * whole nobody gets rows of it that is not done with them before it can be.
 *
 * Sessions of one node don't wait for each other there, but for the row's lock,
 * as ever.  A row that no condition names is not asked for, and may be lost as
 * in the optimistic order.
 *
 * Who waits for whom among nodes is known to the replicator, which lets one of a
 * circle fail with 40P01.
 * Who waits for whom through row locks of one node, the replicator asks that
 * node (replicator/waits/waits.c).
 *
 * A session that has lost lockstep.queue_after times in a row, if that is not 0,
 * queues by itself, until it has got through: a client that tries again in a new
 * transaction keeps its rank.  It does so before its transaction has done
 * anything, and holds nothing then that others could wait for, so it is in no
 * circle.  First for the rows that the first statement names; if it names none,
 * or if that does not help (twice as many losses), for the tables as a whole:
 * those of the statement, and all that the transactions that were lost had
 * changed or (SERIALIZABLE) read.  While it has them, transactions of other
 * nodes that write there wait at their COMMIT, or give way.  From REPEATABLE
 * READ up its first statement asks, even one that only reads: its snapshot must
 * come after the wait.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "executor/execdesc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "compat.h"
#include "keyset.h"
#include "lockstep.h"
#include "wholetables.h"

#define MAX_KEYS 64
#define MAX_ASKED 10000			/* each is a lock in the replicator; further
								 * rows are as in the optimistic order */
#define MAX_TABLES 16			/* asked for at once; more are not remembered */

/* Rows that this transaction has asked for. */
static uint64 held[MAX_KEYS];
static int	nheld = 0;
static int	nasked = 0;			/* in this transaction */

static int	conflicts = 0;		/* lost in a row */

/* Tables that the transactions which were lost, and this one, wrote or read. */
static struct
{
	uint64		hash;
	LsKeyMode	mode;			/* X, or S if it was only read */
	char		name[2 * NAMEDATALEN];
}			used[MAX_TABLES];

static int	nused = 0;

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
	nasked = 0;
	if (conflicts == 0)
		nused = 0;
}

int
queue_rows_held(void)
{
	return nheld;
}

/* Those above the first n have been given back. */
void
queue_forget_rows(int n)
{
	nheld = Min(nheld, n);
}

/* Once for a table in a transaction, or a little oftener. */
void
queue_note_table(uint64 hash, const char *name, LsKeyMode mode)
{
	if (ls_queue_after == 0 || hash == keyset_database()->hash)
		return;
	for (int i = 0; i < nused; i++)
	{
		if (used[i].hash == hash)
		{
			if (mode == LS_TABLE_X)
				used[i].mode = mode;
			return;
		}
	}
	if (nused == MAX_TABLES)
		return;
	used[nused].hash = hash;
	used[nused].mode = mode;
	strlcpy(used[nused].name, name, sizeof(used[nused].name));
	nused++;
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

/* A partition is known by its topmost ancestor: whoever writes to any of them has that, too. */
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
	if (get_rel_persistence(relid) != RELPERSISTENCE_PERMANENT ||
		(kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE))
		return;
	key = keyset_table_key(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), LS_TABLE_X);
	queue_note_table(key.hash, (const char *) key.name.data, key.mode);
}

/*
 * What the statement changes or locks, after a loss: a transaction that fails
 * before it has changed anything has told nothing else.
 */
static void
note_targets(const PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->resultRelations)
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
	if (likely(conflicts == 0) || ls_queue_after == 0 || conflicts < ls_queue_after || xact_is_known())
		return LUCK_GOOD;
	return conflicts / 2 < ls_queue_after ? LUCK_BAD : LUCK_WORSE;
}

/* Its rows need not be asked for: others that do so now wait for us, who would wait for them. */
static bool
is_held_as_whole(Relation rel)
{
	LsRelation *r;

	if (!wholetables_any())
		return false;
	r = relation_get(rel);
	for (int i = 0; i < r->ntables; i++)
		if (wholetables_has(r->tables[i].hash))
			return true;
	return false;
}

static bool
is_queued(Relation rel)
{
	return (ls_update_order == LS_ORDER_QUEUED || luck() != LUCK_GOOD || is_listed(rel)) && !is_held_as_whole(rel);
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

/* The first nrows keys are what it is for, rows or tables; then the rows' tables. */
static void
ask(QueryDesc *desc, const LsKey *keys, int nkeys, int nrows, int timeout_ms)
{
	for (int i = 0; i < nrows && nheld < MAX_KEYS; i++)
		held[nheld++] = keys[i].hash;
	if (!xact_lock_rows(keys, nkeys, timeout_ms))
	{
		char	   *name = pnstrdup((const char *) keys[0].name.data, keys[0].name.len);

		lost_note(LS_LOST_QUEUE, name, psprintf("Nothing came of waiting for %d ms.", timeout_ms));
		ereport(ERROR,
				(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
				 errmsg("waited too long for a row that transactions of other nodes want to change"),
				 errdetail("Key %s: nothing came of waiting for %d ms.", name, timeout_ms),
				 errhint("The transaction might succeed if retried. See lockstep.queue_timeout.")));
	}
	causal_renew_snapshot(desc);
}

static int
tables_to_ask(LsKey *keys)
{
	for (int i = 0; i < nused; i++)
		keys[i] = (LsKey) {used[i].hash, turn_applied(), used[i].mode, ls_slice_of(used[i].name)};
	return nused;
}

/* Will its snapshot, the transaction's, be taken now? */
static bool
begins_with_snapshot(void)
{
	return IsolationUsesXactSnapshot() && IsTransactionBlock() && causal_is_first_statement();
}

void
queue_before_query(QueryDesc *desc)
{
	PlannedStmt *stmt = desc->plannedstmt;
	bool		names_rows = stmt->commandType == CMD_UPDATE || stmt->commandType == CMD_DELETE || stmt->rowMarks != NIL;
	Luck		now = luck();
	LsKey		keys[MAX_KEYS];
	LsKey		fresh[MAX_KEYS];
	LsKey		rows_of[MAX_KEYS / 2];
	int			found = 0;
	int			nfresh = 0;
	int			ntables = 0;

	if (unlikely(conflicts > 0) && ls_queue_after > 0 && !XactReadOnly && ls_mode() == LS_MODE_ORIGIN)
	{
		(void) ls_check_statement(stmt);
		note_targets(stmt);
	}
	if (likely(now == LUCK_GOOD && (!names_rows || (ls_update_order != LS_ORDER_QUEUED && ls_queued_tables[0] == '\0'))))
		return;
	if ((!names_rows && stmt->commandType != CMD_INSERT && !begins_with_snapshot()) ||
		XactReadOnly || ls_mode() != LS_MODE_ORIGIN || utility_is_replayed())
		return;
	if (names_rows)
		found = readplan_rows_to_change(desc, is_queued, keys, MAX_KEYS / 2, rows_of, &ntables);
	if (now == LUCK_WORSE || (now == LUCK_BAD && found == 0))
	{
		found = tables_to_ask(keys);
		ntables = 0;
	}
	for (int i = 0; i < found; i++)
	{
		if (!is_held(keys[i].hash))
			fresh[nfresh++] = keys[i];
	}
	if (nfresh == 0 || nasked >= MAX_ASKED)
		return;
	nasked += nfresh;
	(void) ls_check_statement(stmt);	/* or others would wait for who may
										 * not */
	memcpy(fresh + nfresh, rows_of, ntables * sizeof(LsKey));
	ask(desc, fresh, nfresh + ntables, nfresh, now == LUCK_GOOD ? ls_queue_timeout : 0);
}
