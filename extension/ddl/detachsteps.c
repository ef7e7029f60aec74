/*
 * detachsteps.c
 *	  What each step of a DETACH PARTITION CONCURRENTLY does to the catalogs, on the node
 *	  that runs the command and on those that apply it.
 *
 * ddldetach.c explains the steps, and why they are transactions of their own:
 *
 *  pending	the partition is marked in pg_inherits, and gets its bounds as a check
 *  wait		for all transactions that may see it as a partition
 *  detach		the rest
 *  finalize	both
 *
 * The rest is FINALIZE, without its wait for every older snapshot in the database: that wait
 * would make those transactions fail (lockconflict.c), whatever they read.  The ones that
 * matter have the partitioned table open, and have been waited for (applywait.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "ddl.h"

/* ---------- pending */

static void
report_pending(Oid partition, Relation parent)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("partition \"%s\" already pending detach in partitioned table \"%s.%s\"",
					get_rel_name(partition), get_namespace_name(RelationGetNamespace(parent)),
					RelationGetRelationName(parent)),
			 errhint("Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete the pending detach operation.")));
}

/* From its commit on, this partition is not found among the table's partitions. */
void
detachsteps_mark(Relation parent, Relation partition)
{
	Relation	catalog = table_open(InheritsRelationId, RowExclusiveLock);
	HeapTuple	marked = NULL;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(parent)));
	scan = systable_beginscan(catalog, InheritsParentIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);

		if (form->inhdetachpending)
			report_pending(form->inhrelid, parent);
		if (form->inhrelid == RelationGetRelid(partition))
			marked = heap_copytuple(tuple);
	}
	systable_endscan(scan);
	if (marked == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s\" is not a partition of relation \"%s\"",
						RelationGetRelationName(partition), RelationGetRelationName(parent))));
	((Form_pg_inherits) GETSTRUCT(marked))->inhdetachpending = true;
	CatalogTupleUpdate(catalog, &marked->t_self, marked);
	heap_freetuple(marked);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcache(parent);
}

/* Its columns may have other numbers; what PostgreSQL's own command does not consider. */
static Constraint *
check_of_child(Relation child, Relation rel, Constraint *check)
{
	Constraint *result = copyObject(check);
	List	   *expression = stringToNode(check->cooked_expr);

	result->cooked_expr = nodeToString(map_partition_varattnos(expression, 1, child, rel));
	return result;
}

/* All rows fulfil it.  Partitions of the partition inherit it, as ever. */
static void
add_check(Relation rel, Constraint *check, bool top)
{
	List	   *added = AddRelationNewConstraints(rel, NIL, list_make1(copyObject(check)),
												  true, top, true, NULL);
	ListCell   *lc;

	if (added == NIL)
		return;					/* there is such a one, and further down, too */
	if (check->conname == NULL)
		check->conname = ((CookedConstraint *) linitial(added))->name;
	CommandCounterIncrement();
	foreach(lc, find_inheritance_children(RelationGetRelid(rel), ShareUpdateExclusiveLock))
	{
		Relation	child = table_open(lfirst_oid(lc), NoLock);

		CheckTableNotInUse(child, "ALTER TABLE");
		add_check(child, check_of_child(child, rel, check), false);
		table_close(child, NoLock);
	}
}

/* Where rows are applied, the session's copy has been told that there are none (applyrow.c). */
static List *
bounds_of(Relation partition)
{
	if (partition->rd_partcheckvalid && partition->rd_partcheck == NIL)
	{
		if (partition->rd_partcheckcxt != NULL)
			MemoryContextDelete(partition->rd_partcheckcxt);
		partition->rd_partcheckcxt = NULL;
		partition->rd_partcheckvalid = false;
	}
	return (List *) eval_const_expressions(NULL, (Node *) RelationGetPartitionQual(partition));
}

/* The bounds of a partition by hash name the partitioned table by its OID. */
const char *
detachsteps_keep_bounds(Relation parent, Relation partition, const char *name)
{
	Constraint *check;
	List	   *bounds;

	if (get_partition_strategy(RelationGetPartitionKey(parent)) == PARTITION_STRATEGY_HASH)
		return NULL;
	bounds = bounds_of(partition);
	if (name == NULL && PartConstraintImpliedByRelConstraint(partition, bounds))
		return NULL;
	check = makeNode(Constraint);
	check->contype = CONSTR_CHECK;
	check->conname = name != NULL ? pstrdup(name) : NULL;
	check->location = -1;
	check->cooked_expr = nodeToString(make_ands_explicit(bounds));
	check->initially_valid = true;
	check->skip_validation = true;
	ls_enforce(check);
	add_check(partition, check, true);
	return check->conname;
}

/* ---------- the rest */

/*
 * A snapshot that is older than anybody's, by what it says of itself: so FINALIZE
 * finds no transaction to wait for.  What it sees is what the latest sees.
 */
static void
push_snapshot_of_old(void)
{
	TransactionId oldest = GetOldestTransactionIdConsideredRunning();

	PushCopiedSnapshot(GetLatestSnapshot());
	TransactionIdRetreat(oldest);
	if (TransactionIdPrecedes(oldest, GetActiveSnapshot()->xmin))
		GetActiveSnapshot()->xmin = oldest;
}

/* Both are locked, and there. */
void
detachsteps_finish(Oid parent, Oid partition)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	PartitionCmd *what = makeNode(PartitionCmd);

	what->name = makeRangeVar(get_namespace_name(get_rel_namespace(partition)),
							  get_rel_name(partition), -1);
	cmd->subtype = AT_DetachPartitionFinalize;
	cmd->def = (Node *) what;
	cmd->behavior = DROP_RESTRICT;
	push_snapshot_of_old();
	AlterTableInternal(parent, list_make1(cmd), false);
	PopActiveSnapshot();
}
