/*
 * ddlcluster.c
 *	  CLUSTER ... USING, REPACK ... USING INDEX: how rows are stored belongs to the node, but the
 *	  mark that the table is clustered on an index is in the catalog.
 *
 * So the mark is made first, here and, as ALTER TABLE ... CLUSTER ON, on the other nodes.
 * CLUSTER then finds it.  Who may CLUSTER a table that is not his (MAINTAIN) may not run that command,
 * so there it is the owner's.  Of a partitioned table CLUSTER marks the partitions, each in a
 * transaction of its own; here all of them are marked in the first one.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "capture.h"
#include "compat.h"
#include LS_CLUSTER_HEADER
#include "ddl.h"
#include "guc.h"

static Oid
index_of(LsClusterStmt *stmt)
{
	Oid			table = RangeVarGetRelid(ls_clustered_table(stmt), NoLock, true);

	return OidIsValid(table) ? get_relname_relid(stmt->indexname, get_rel_namespace(table)) : InvalidOid;
}

/*
 * The indexes to be marked: of tables that have storage and are the user's.
 * Toast tables have other names on other nodes; their marks stay here.
 */
static List *
indexes_to_mark(Oid index)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (!OidIsValid(index))
		return NIL;
	foreach(lc, find_all_inheritors(index, NoLock, NULL))
	{
		Oid			table = IndexGetRelation(lfirst_oid(lc), true);

		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_INDEX && OidIsValid(table) &&
			get_rel_persistence(table) != RELPERSISTENCE_TEMP &&
			table >= FirstNormalObjectId && get_rel_relkind(table) != RELKIND_TOASTVALUE &&
			ls_may_cluster(table, GetUserId()))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

static void
forward_as(Oid role, const char *text, const DdlTargets *targets)
{
	Oid			user;
	int			context;

	capture_flush();			/* as who changed the rows */
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(role, context | SECURITY_LOCAL_USERID_CHANGE);
	ddl_forward(text, NULL, 0, targets, true);
	SetUserIdAndSecContext(user, context);
}

/* Behind ddlcluster_mark(), which has locked the table. */
void
ddlcluster_forward(Oid index, const DdlTargets *targets)
{
	Relation	rel = table_open(IndexGetRelation(index, false), NoLock);
	char	   *text = psprintf("ALTER TABLE %s CLUSTER ON %s",
								quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)), RelationGetRelationName(rel)),
								quote_identifier(get_rel_name(index)));

	forward_as(ls_owns_relation(RelationGetRelid(rel), GetUserId()) ? GetUserId() : rel->rd_rel->relowner, text, targets);
	table_close(rel, NoLock);
}

/*
 * It waits for all transactions that have changed anything, and so would for the one with the mark.
 * What it is refused for anyway PostgreSQL says better.
 */
static void
refuse_mark_beside_writers(Oid index)
{
	Oid			table = IndexGetRelation(index, false);
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)), get_rel_name(table));

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("REPACK (CONCURRENTLY) cannot mark the index that it uses on all nodes"),
			 errdetail("Table \"%s\" is not clustered on index \"%s\" yet.", get_rel_name(table), get_rel_name(index)),
			 errhint("Its owner can run ALTER TABLE %s CLUSTER ON %s first.", name, quote_identifier(get_rel_name(index)))));
}

List *
ddlcluster_unmarked(LsClusterStmt *stmt)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (ls_clustered_table(stmt) == NULL || stmt->indexname == NULL)
		return NIL;
	foreach(lc, indexes_to_mark(index_of(stmt)))
	{
		if (!get_index_isclustered(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	if (result == NIL || !ls_is_repack_concurrently(stmt))
		return result;
	if (get_rel_relkind(index_of(stmt)) == RELKIND_INDEX && !IsTransactionBlock() && ls_unreplicated != LS_UNREPLICATED_ALLOW)
		refuse_mark_beside_writers(linitial_oid(result));
	return NIL;
}

/*
 * Lock a table whose index is marked, as the command will lock it, so that nobody marks another one before it runs.
 * If somebody has by now, these are the indexes that aren't marked, and the table isn't locked, because the
 * cluster is asked for its lock first.
 */
List *
ddlcluster_lock_marked(LsClusterStmt *stmt)
{
	LOCKMODE	mode = ls_is_repack_concurrently(stmt) ? ShareUpdateExclusiveLock : AccessExclusiveLock;

	if (ls_clustered_table(stmt) == NULL || stmt->indexname == NULL)
		return NIL;
	for (;;)
	{
		Oid			index = index_of(stmt);
		List	   *indexes = indexes_to_mark(index);
		List	   *unmarked;
		Oid			table;

		if (indexes == NIL || linitial_oid(indexes) != index)
			return NIL;
		table = IndexGetRelation(index, false);
		LockRelationOid(table, mode);
		unmarked = ddlcluster_unmarked(stmt);
		if (unmarked == NIL && index_of(stmt) == index)
			return NIL;
		UnlockRelationOid(table, mode);
		if (unmarked != NIL)
			return unmarked;
	}
}

/* With the lock that CLUSTER will take; an error is the one that it would give. */
void
ddlcluster_mark(Oid index)
{
	Relation	rel = table_open(IndexGetRelation(index, false), AccessExclusiveLock);

	check_index_is_clusterable(rel, index, AccessExclusiveLock);
	mark_index_clustered(rel, index, false);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}
