/*
 * applyunproven.c
 *	  In an apply session: rows of a table with a unique index that isn't valid.
 *
 * Such an index checks what is inserted, as soon as it is ready.  Those are the
 * rows of a transaction that may still fail; of one that is decided they must
 * not, because of an index that other nodes perhaps did not have, and that may
 * never become valid.  So they are put into the index unchecked; and so are those
 * of a repair.
 *
 * Whoever builds that index from this node must not trust it any more.  He holds
 * the lock that we take then, and yields (ddlconcurrent.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#include "lockstep.h"

static bool known = false;		/* the next is right */
static bool any = false;		/* the database has a unique index that isn't
								 * valid */

static void
on_index_invalidation(Datum arg, int cacheid, uint32 hashvalue)
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

/* The relation cache's copy says it to the executor. */
static bool
set_enforced(Oid indexid, bool enforced)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	bool		unproven = HeapTupleIsValid(tuple) && is_unproven((Form_pg_index) GETSTRUCT(tuple));

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (unproven)
	{
		Relation	index = index_open(indexid, RowExclusiveLock);

		index->rd_index->indisunique = enforced;
		index_close(index, NoLock);
	}
	return unproven;
}

void
unproven_before_rows(Relation rel)
{
	bool		enforced = !commit_is_claimed() && !apply_repairs();
	bool		found = false;
	ListCell   *lc;

	if (likely(known && !any))
		return;
	if (!known)
		look_for_unproven();
	if (!any || !rel->rd_rel->relhasindex)
		return;
	foreach(lc, RelationGetIndexList(rel))
		found |= set_enforced(lfirst_oid(lc), enforced);
	if (found && !enforced)
		LockRelationOid(RelationGetRelid(rel), ShareUpdateExclusiveLock);
}

void
unproven_init(void)
{
	CacheRegisterSyscacheCallback(INDEXRELID, on_index_invalidation, (Datum) 0);
}
