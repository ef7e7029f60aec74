/*
 * ddlcluster.c
 *	  CLUSTER ... USING: how rows are stored belongs to the node, but the mark that the
 *	  table is clustered on an index is in the catalog.
 *
 * So the mark is made first, here and, as ALTER TABLE ... CLUSTER ON, on the other nodes.
 * CLUSTER then finds it.  Of a partitioned table CLUSTER marks the partitions, each in a
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
#include "commands/cluster.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "ddl.h"

static Oid
index_of(ClusterStmt *stmt)
{
	Oid			table = RangeVarGetRelid(stmt->relation, NoLock, true);

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

char *
ddlcluster_mark_text(Oid index)
{
	Oid			table = IndexGetRelation(index, false);

	return psprintf("ALTER TABLE %s CLUSTER ON %s",
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(table)), get_rel_name(table)),
					quote_identifier(get_rel_name(index)));
}

List *
ddlcluster_unmarked(ClusterStmt *stmt)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (stmt->relation == NULL || stmt->indexname == NULL)
		return NIL;
	foreach(lc, indexes_to_mark(index_of(stmt)))
	{
		if (!get_index_isclustered(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
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
