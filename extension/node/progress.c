/*
 * progress.c
 *	  How far this database has come, stored with the data.
 *
 * lockstep.progress has a row per backend slot: the seq of the last transaction that a
 * backend in that slot committed in this database.  Commits happen in seq order (turn.c)
 * in one WAL stream, so the highest seq over all databases is how far the node has
 * come.  A single row would serialize all transactions.  The chain, which identifies the
 * journal's history up to the seq, is stored beside it, so that another journal, or an old
 * copy that has diverged, is detected.
 *
 * The transaction that has the seq writes the row itself, in PRE_COMMIT, past every hook:
 * neither capture nor triggers see it.  The row is found by its last TID, else by its index;
 * a heap-only update takes about two microseconds.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"
#include "tcop/utility.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "lockstep.h"
#include "mode.h"
#include "progress.h"

#define PROGRESS_SLOT 1
#define PROGRESS_SEQ 2
#define PROGRESS_CHAIN 3		/* not before version 1.1 of the extension */
#define PROGRESS_NATTS 3

/* Where our row was; checked before use. */
static struct
{
	Oid			relid;
	ItemPointerData tid;
}			cached = {InvalidOid};

static int32
my_slot(void)
{
	return ls_procno(MyProc);
}

/*
 * Is our row still at the cached place?  SnapshotSelf will do: no other session
 * writes the row of this slot.  Prunes the page as a scan would, so that
 * updates stay heap-only.
 */
static bool
row_is_cached(Relation rel)
{
	HeapTupleData tuple;
	Buffer		buffer;
	bool		isnull;
	bool		ours;

	if (cached.relid != RelationGetRelid(rel))
		return false;
	tuple.t_self = cached.tid;
	if (ItemPointerGetBlockNumber(&tuple.t_self) >= RelationGetNumberOfBlocks(rel) ||
		!heap_fetch(rel, SnapshotSelf, &tuple, &buffer, false))
		return false;
	ours = DatumGetInt32(heap_getattr(&tuple, PROGRESS_SLOT,
									  RelationGetDescr(rel), &isnull)) == my_slot();
	if (ours)
		ls_prune_page(rel, buffer);
	ReleaseBuffer(buffer);
	return ours;
}

/*
 * Find our row by the primary key.  With an MVCC snapshot a SERIALIZABLE transaction would be noted
 * as a reader of the index, in conflict with a transaction that adds a row: that one is decided, and must
 * not fail.
 */
static bool
row_find(Relation rel, ItemPointer tid)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	(void) RelationGetIndexList(rel);	/* sets rd_pkindex */
	ScanKeyInit(&key, PROGRESS_SLOT, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(my_slot()));
	scan = systable_beginscan(rel, rel->rd_pkindex, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		*tid = tuple->t_self;
	systable_endscan(scan);
	return HeapTupleIsValid(tuple);
}

/* The page was full: the new version of our row needs an index entry. */
static void
row_index(Relation rel, HeapTuple tuple, Datum *values, bool *nulls)
{
	Relation	index = index_open(rel->rd_pkindex, RowExclusiveLock);

	index_insert(index, values, nulls, &tuple->t_self, rel,
				 UNIQUE_CHECK_YES, false, BuildIndexInfo(index));
	index_close(index, RowExclusiveLock);
}

/*
 * A transaction that waits for a lock that ALTER EXTENSION has, or wants, must not have a
 * place in the order of commits yet: others wait for that, and hold the lock.
 */
void
progress_lock(void)
{
	LockRelationOid(ls_progress_relid(), RowExclusiveLock);
}

void
progress_write(JournalPosition position)
{
	Relation	rel = table_open(ls_progress_relid(), RowExclusiveLock);
	Datum		values[PROGRESS_NATTS];
	bool		nulls[PROGRESS_NATTS] = {false, false, position.chain == 0};
	ItemPointerData tid = cached.tid;
	HeapTuple	tuple;

	values[PROGRESS_SLOT - 1] = Int32GetDatum(my_slot());
	values[PROGRESS_SEQ - 1] = Int64GetDatum((int64) position.seq);
	values[PROGRESS_CHAIN - 1] = Int64GetDatum((int64) position.chain);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);

	if (row_is_cached(rel) || row_find(rel, &tid))
	{
		ls_heap_update(rel, &tid, tuple);
		if (!HeapTupleIsHeapOnly(tuple))
		{
			(void) RelationGetIndexList(rel);	/* sets rd_pkindex */
			row_index(rel, tuple, values, nulls);
		}
	}
	else
		CatalogTupleInsert(rel, tuple);

	cached.relid = RelationGetRelid(rel);
	cached.tid = tuple->t_self;
	heap_freetuple(tuple);
	table_close(rel, RowExclusiveLock);
}

/* ---------- version 1.1 of the extension: a column more */

LS_FUNCTION(lockstep_add_progress_chain);

/*
 * ALTER TABLE ... ADD COLUMN chain bigint, under a lock that writers of the table don't
 * meet.  One that has its old description goes on to write rows without the column,
 * which is what rows look like that were written before.
 */
Datum
lockstep_add_progress_chain(PG_FUNCTION_ARGS)
{
	Oid			relid = get_relname_relid("progress", ls_schema_oid());
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	AlterTableStmt *stmt = makeNode(AlterTableStmt);
	AlterTableUtilityContext context = {.queryString = "ALTER TABLE lockstep.progress ADD COLUMN chain bigint",.relid = relid};

	if (!creating_extension)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this is a part of ALTER EXTENSION lockstep UPDATE")));
	cmd->subtype = AT_AddColumn;
	cmd->def = (Node *) makeColumnDef("chain", INT8OID, -1, InvalidOid);
	stmt->relation = makeRangeVar(get_namespace_name(ls_schema_oid()), pstrdup("progress"), -1);
	stmt->cmds = list_make1(cmd);
	stmt->objtype = OBJECT_TABLE;
	LockRelationOid(relid, ShareUpdateExclusiveLock);
	EventTriggerAlterTableStart((Node *) stmt);
	EventTriggerAlterTableRelid(relid);
	AlterTable(stmt, ShareUpdateExclusiveLock, &context);
	EventTriggerAlterTableEnd();
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

/* ---------- who may read it */

/*
 * Our row is written when the transaction is decided already.  A SERIALIZABLE
 * transaction that has read it would be in a conflict with that, which could make
 * the writer fail then.  So none may.  One that is READ ONLY DEFERRABLE has a safe
 * snapshot, and leaves no trace.
 */
void
progress_check_reader(Oid relid)
{
	if (!IsolationIsSerializable() || (XactReadOnly && XactDeferrable) || relid != ls_progress_relid())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot read lockstep.progress in a SERIALIZABLE transaction"),
			 errdetail("Transactions that the cluster has decided could fail to commit on this node."),
			 errhint("Read it in a transaction of another isolation level, or one that is READ ONLY DEFERRABLE; lockstep.applied_seq() may be asked in any.")));
}

/* Before a query runs. */
void
progress_check_query(const PlannedStmt *stmt)
{
	ListCell   *lc;

	if (likely(!IsolationIsSerializable()))
		return;
	foreach(lc, stmt->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);

		if (rte->rtekind == RTE_RELATION)
			progress_check_reader(rte->relid);
	}
}

uint64
progress_read(void)
{
	Relation	rel;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;
	uint64		highest = 0;
	bool		isnull;

	progress_check_reader(ls_progress_relid());
	rel = table_open(ls_progress_relid(), AccessShareLock);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		uint64		seq = (uint64) DatumGetInt64(heap_getattr(tuple, PROGRESS_SEQ,
															  RelationGetDescr(rel), &isnull));

		highest = Max(highest, seq);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
	return highest;
}
