/*
 * pendingdetach.c
 *	  Partitions that are being detached: marked in pg_inherits, by the first step of a
 *	  DETACH PARTITION CONCURRENTLY.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "pendingdetach.h"

List *
pendingdetach_tables_below(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ?
		find_all_inheritors(relid, NoLock, NULL) : list_make1_oid(relid);
}

bool
pendingdetach_find(Oid parent, FoundPending found, void *arg)
{
	Relation	catalog = table_open(InheritsRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	bool		done = false;

	ScanKeyInit(&key, Anum_pg_inherits_inhparent, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(parent));
	scan = systable_beginscan(catalog, InheritsParentIndexId, OidIsValid(parent), NULL,
							  OidIsValid(parent) ? 1 : 0, &key);
	while (!done && HeapTupleIsValid(tuple = systable_getnext(scan)))
		done = ((Form_pg_inherits) GETSTRUCT(tuple))->inhdetachpending && found(tuple, arg);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return done;
}

static bool
collect(HeapTuple tuple, void *arg)
{
	List	  **found = arg;

	*found = list_concat(*found, pendingdetach_tables_below(((Form_pg_inherits) GETSTRUCT(tuple))->inhrelid));
	return false;
}

List *
pendingdetach_below(Oid relid)
{
	List	   *found = NIL;
	ListCell   *lc;

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return NIL;
	foreach(lc, pendingdetach_tables_below(relid))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_PARTITIONED_TABLE)
			(void) pendingdetach_find(lfirst_oid(lc), collect, &found);
	}
	return found;
}
