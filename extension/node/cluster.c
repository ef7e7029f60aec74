/*
 * cluster.c
 *	  Which cluster this database belongs to: table lockstep.cluster, with one row that
 *	  has the identity of the replicator's journal, or empty.
 *
 * The replicator writes the row when the node joins; it is deleted when the database leaves the
 * cluster (membership.c).  It is ordinary data: a physical copy of a node belongs to the
 * same cluster.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "cluster.h"
#include "compat.h"
#include "mode.h"
#include "newestscan.h"

static char *
read_identity(Relation rel)
{
	NewestScan	scan = newestscan_begin(rel);
	TupleTableSlot *slot = newestscan_next(&scan);
	char	   *result = NULL;
	bool		isnull;

	if (slot != NULL)
		result = TextDatumGetCString(slot_getattr(slot, 1, &isnull));
	newestscan_end(&scan);
	return result;
}

static Oid
cluster_relid(void)
{
	Oid			schema = ls_schema_oid();

	return OidIsValid(schema) ? get_relname_relid("cluster", schema) : InvalidOid;
}

char *
cluster_identity(void)
{
	Oid			relid = cluster_relid();
	Relation	rel;
	char	   *result;

	if (!OidIsValid(relid))
		return pstrdup("");
	rel = table_open(relid, AccessShareLock);
	result = read_identity(rel);
	table_close(rel, AccessShareLock);
	return result != NULL ? result : pstrdup("");
}

/* It belongs to none. */
void
cluster_forget_identity(void)
{
	Oid			relid = cluster_relid();
	Relation	rel;
	NewestScan	scan;
	TupleTableSlot *slot;

	if (!OidIsValid(relid))
		return;
	rel = table_open(relid, ShareRowExclusiveLock);
	scan = newestscan_begin(rel);
	while ((slot = newestscan_next(&scan)) != NULL)
		simple_heap_delete(rel, &slot->tts_tid);
	newestscan_end(&scan);
	table_close(rel, NoLock);
}

void
cluster_set_identity(const char *identity)
{
	Relation	rel = table_open(cluster_relid(), ShareRowExclusiveLock);
	char	   *ours = read_identity(rel);
	Datum		values[1];
	bool		nulls[1] = {false};

	if (ours != NULL && strcmp(ours, identity) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database belongs to another cluster"),
				 errdetail("It belongs to \"%s\", not to \"%s\".", ours, identity)));
	if (ours == NULL)
	{
		values[0] = CStringGetTextDatum(identity);
		simple_heap_insert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	}
	table_close(rel, NoLock);
}
