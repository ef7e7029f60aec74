/*
 * applyunproven.c
 *	  In an apply session: rows of a table with a unique index that is not valid.
 *
 * Such an index refuses duplicates as soon as it is ready.  A row of a transaction that is not
 * decided yet may fail because of that.  A row of a decided transaction must not: other
 * nodes perhaps did not have the index, and it may never become valid.  Such rows, and those
 * of a repair, are inserted into the index unchecked.
 *
 * The command that builds the index on this node can then no longer rely on it.  It holds
 * the lock that is requested here, and so it is made to fail (ddlconcurrent.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "apply.h"
#include "commit.h"
#include "ddl.h"
#include "session.h"

static bool known = false;		/* the next is right */
static bool any = false;		/* the database has a unique index that isn't
								 * valid */

void
applyunproven_on_index_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	known = false;
}

static bool
is_unproven(Form_pg_index form)
{
	return form->indislive && form->indisready && form->indisunique && !form->indisvalid;
}

static void
look_for_unproven(void)
{
	Relation	catalog;
	SysScanDesc scan;
	HeapTuple	tuple;

	known = true;
	any = false;
	catalog = table_open(IndexRelationId, AccessShareLock);
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		any |= is_unproven((Form_pg_index) GETSTRUCT(tuple));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* The unique indexes of the table that aren't valid. */
static List *
applyunproven_indexes(Relation rel)
{
	List	   *found = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(lfirst_oid(lc)));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (is_unproven((Form_pg_index) GETSTRUCT(tuple)))
			found = lappend_oid(found, lfirst_oid(lc));
		ReleaseSysCache(tuple);
	}
	return found;
}

/*
 * The builder of one of them holds this lock from before it was there until it is
 * valid, so having had it is enough.  REINDEX CONCURRENTLY of a valid index needs
 * no such care: that index, too, lets in no duplicate.
 */
static void
stop_builder(Relation rel, List *indexes)
{
	ListCell   *lc;

	foreach(lc, indexes)
	{
		char	   *name = get_rel_name(lfirst_oid(lc));

		if (name == NULL || ddl_is_name_of_reindex(name))
			continue;
		LockRelationOid(RelationGetRelid(rel), ShareUpdateExclusiveLock);
		UnlockRelationOid(RelationGetRelid(rel), ShareUpdateExclusiveLock);
		return;
	}
}

/* The relation cache's copy says it to the executor. */
static void
set_enforced(Oid indexid, bool enforced)
{
	Relation	index = index_open(indexid, RowExclusiveLock);

	index->rd_index->indisunique = enforced;
	index_close(index, NoLock);
}

void
applyunproven_before_rows(Relation rel)
{
	bool		enforced = !commit_is_claimed() && !session_repairs();
	List	   *indexes;
	ListCell   *lc;

	if (likely(known && !any))
		return;
	if (!known)
		look_for_unproven();
	if (!any || !rel->rd_rel->relhasindex)
		return;
	indexes = applyunproven_indexes(rel);
	if (indexes != NIL && !enforced)
	{
		stop_builder(rel, indexes);
		indexes = applyunproven_indexes(rel);
	}
	foreach(lc, indexes)
		set_enforced(lfirst_oid(lc), enforced);
}
