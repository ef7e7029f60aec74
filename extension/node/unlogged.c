/*
 * unlogged.c
 *	  Which unlogged tables of this database have lost their rows in a crash?
 *
 * After a crash, and in a copy of the data directory, PostgreSQL has emptied all unlogged
 * tables, and nobody is told.  So the extension has one of its own, lockstep.unlogged_marker,
 * with a row: if that is gone, so is all else.
 *
 *		server starts			replicator comes				refilled or truncated
 *		   | marker gone		   | all unlogged tables are	   | off the list
 *		   |					   | listed, marker set
 *
 * The list, lockstep.unlogged_missing, is an ordinary table, so that a table is missing until a
 * transaction with a place in the journal makes it what it is elsewhere: its rows were sent
 * anew, or it was truncated everywhere.  Until then it is empty here; changes of its rows are
 * left out when they are applied, and refused when they originate here.  What was created after the crash
 * is complete.
 *
 * A table is known by its OID, so a rewrite or another name changes nothing.  The list of a
 * second crash contains all of them again.
 *
 * Locking: who takes a table off the list has a lock on that table that excludes writers, and is
 * ordered by the table's key.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/storage.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "guc.h"
#include "lockstep.h"
#include "mode.h"
#include "newestscan.h"
#include "session.h"
#include "unlogged.h"

/* In this run of the server: do readers wait for the rows of unlogged tables? */
typedef enum Awaited
{
	AWAITED_UNKNOWN,			/* no replicator has come */
	AWAITED,
	AWAITED_NO_MORE				/* what is still missing does not come soon */
} Awaited;

typedef struct UnloggedShared
{
	pg_atomic_uint32 awaited;	/* an Awaited */
} UnloggedShared;

static UnloggedShared *shared = NULL;

/* What this session knows of tables. */
typedef struct Known
{
	Oid			relid;			/* the key */
	bool		missing;
} Known;

static HTAB *known = NULL;

/* In an apply session: the table that is being refilled, and is complete here. */
static struct
{
	Oid			relid;
	TransactionId xid;			/* in this transaction only */
}			complete = {InvalidOid};

void
unlogged_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(UnloggedShared));
}

/* Called with AddinShmemInitLock held. */
void
unlogged_shmem_startup(void)
{
	bool		found;

	shared = ShmemInitStruct("lockstep unlogged", sizeof(UnloggedShared), &found);
	if (!found)
		pg_atomic_init_u32(&shared->awaited, AWAITED_UNKNOWN);
}

bool
unlogged_is_awaited(void)
{
	return pg_atomic_read_u32(&shared->awaited) == AWAITED;
}

void
unlogged_settled(void)
{
	pg_atomic_write_u32(&shared->awaited, AWAITED_NO_MORE);
}

void
unlogged_on_relcache_invalidation(Datum arg, Oid relid)
{
	if (known == NULL)
		return;
	if (OidIsValid(relid))
		(void) hash_search(known, &relid, HASH_REMOVE, NULL);
	else
	{
		hash_destroy(known);
		known = NULL;
	}
}

/* ---------- the list and the marker */

/* NULL: SQL objects of an earlier version. */
static Relation
open_own(const char *name, LOCKMODE mode)
{
	Oid			schema = ls_schema_oid();
	Oid			relid = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;

	return OidIsValid(relid) ? table_open(relid, mode) : NULL;
}

/* True, too, without the extension. */
bool
unlogged_has_objects(void)
{
	Oid			schema = ls_schema_oid();

	return !OidIsValid(schema) || OidIsValid(get_relname_relid("unlogged_missing", schema));
}

void
unlogged_require_objects(void)
{
	if (likely(unlogged_has_objects()))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot make or change unlogged tables on node \"%s\" yet", ls_node_name),
			 errdetail("The SQL objects of the extension lockstep in database \"%s\" are of a version that does not replicate unlogged tables.",
					   get_database_name(MyDatabaseId)),
			 errhint("Run ALTER EXTENSION lockstep UPDATE on each node.")));
}

typedef void (*EachRow) (Relation rel, HeapTuple tuple, void *arg);

/* As of now, whatever the transaction's snapshot sees. */
static void
for_each_row(Relation rel, EachRow each, void *arg)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		each(rel, tuple, arg);
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
}

static Oid
listed_relid(Relation rel, HeapTuple tuple)
{
	bool		isnull;

	return DatumGetObjectId(heap_getattr(tuple, 1, RelationGetDescr(rel), &isnull));
}

/* False, too, if there is no such table any more. */
static bool
is_unlogged(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		is;

	if (!HeapTupleIsValid(tuple))
		return false;
	is = ((Form_pg_class) GETSTRUCT(tuple))->relpersistence == RELPERSISTENCE_UNLOGGED;
	ReleaseSysCache(tuple);
	return is;
}

static void
count_row(Relation rel, HeapTuple tuple, void *arg)
{
	++*(int *) arg;
}

static void
collect_listed(Relation rel, HeapTuple tuple, void *arg)
{
	List	  **relids = arg;
	Oid			relid = listed_relid(rel, tuple);

	if (is_unlogged(relid))
		*relids = lappend_oid(*relids, relid);
}

static void
collect_unlogged(Relation rel, HeapTuple tuple, void *arg)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
	List	  **relids = arg;

	if (form->relkind == RELKIND_RELATION && form->relpersistence == RELPERSISTENCE_UNLOGGED &&
		form->relnamespace != ls_schema_oid())
		*relids = lappend_oid(*relids, form->oid);
}

List *
unlogged_all(void)
{
	Relation	rel = table_open(RelationRelationId, AccessShareLock);
	List	   *relids = NIL;

	for_each_row(rel, collect_unlogged, &relids);
	table_close(rel, AccessShareLock);
	list_sort(relids, list_oid_cmp);
	return relids;
}

List *
unlogged_missing(void)
{
	Relation	rel = open_own("unlogged_missing", AccessShareLock);
	List	   *relids = NIL;

	if (rel == NULL)
		return NIL;
	for_each_row(rel, collect_listed, &relids);
	table_close(rel, AccessShareLock);
	list_sort(relids, list_oid_cmp);
	return relids;
}

static void
delete_row(Relation rel, HeapTuple tuple, void *arg)
{
	Oid			relid = listed_relid(rel, tuple);
	Oid		   *wanted = arg;	/* NULL: all */

	if (wanted != NULL && *wanted != relid)
		return;
	simple_heap_delete(rel, &tuple->t_self);
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		CacheInvalidateRelcacheByRelid(relid);
}

static void
take_off_list(Oid *relid)
{
	Relation	rel = open_own("unlogged_missing", RowExclusiveLock);

	if (rel == NULL)
		return;
	for_each_row(rel, delete_row, relid);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

void
unlogged_found(Oid relid)
{
	if (unlogged_is_missing(relid))
		take_off_list(&relid);
}

void
unlogged_found_all(void)
{
	take_off_list(NULL);
}

/* Its OID may be another table's some day. */
void
unlogged_on_object_access(ObjectAccessType access, Oid class, Oid object, int subobject)
{
	if (access == OAT_DROP && class == RelationRelationId && subobject == 0 && is_unlogged(object))
		unlogged_found(object);
}

/* Empty is what they are now everywhere. */
void
unlogged_truncated(struct TruncateStmt *stmt)
{
	List	   *relids = NIL;
	List	   *more;
	ListCell   *lc;

	if (unlogged_missing() == NIL)
		return;
	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = RangeVarGetRelid(rv, NoLock, true);

		if (!OidIsValid(relid))
			continue;
		relids = list_append_unique_oid(relids, relid);
		if (rv->inh)
			relids = list_concat_unique_oid(relids, find_all_inheritors(relid, NoLock, NULL));
	}
	while (stmt->behavior == DROP_CASCADE && (more = heap_truncate_find_FKs(relids)) != NIL)
		relids = list_concat_unique_oid(relids, more);
	foreach(lc, relids)
	{
		if (is_unlogged(lfirst_oid(lc)))
			unlogged_found(lfirst_oid(lc));
	}
}

/* ---------- after a crash */

static void
put_on_list(Relation list, Oid relid)
{
	Datum		values[1] = {ObjectIdGetDatum(relid)};
	bool		nulls[1] = {false};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(list), values, nulls);

	CatalogTupleInsert(list, tuple);
	heap_freetuple(tuple);
	CacheInvalidateRelcacheByRelid(relid);
}

static void
set_marker(Relation marker)
{
	Datum		values[1] = {BoolGetDatum(true)};
	bool		nulls[1] = {false};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(marker), values, nulls);

	simple_heap_insert(marker, tuple);
	heap_freetuple(tuple);
}

/*
 * Both are written by one transaction.  If its commit is lost in the next crash, so is the marker.
 */
void
unlogged_note_reset(void)
{
	Relation	marker = open_own("unlogged_marker", ShareRowExclusiveLock);
	int			rows = 0;
	Relation	list;
	ListCell   *lc;
	List	   *relids;

	/* version 1.0 has no enter_generation(), which calls this */
	if (marker == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table lockstep.unlogged_marker does not exist in database \"%s\"", get_database_name(MyDatabaseId)),
				 errdetail("The SQL objects of the extension lockstep are of a development build of version 1.1, which ALTER EXTENSION does not update."),
				 errhint("Make this node anew with lockstepctl join, or make the objects of extension/lockstep--1.0--1.1.sql that are missing.")));
	for_each_row(marker, count_row, &rows);
	if (rows == 0)
	{
		relids = unlogged_all();
		list = open_own("unlogged_missing", ShareRowExclusiveLock);
		take_off_list(NULL);
		foreach(lc, relids)
			put_on_list(list, lfirst_oid(lc));
		set_marker(marker);
		table_close(list, NoLock);
		CommandCounterIncrement();
		if (relids != NIL)
			ereport(LOG,
					(errmsg("%d unlogged tables of database \"%s\" have lost their rows",
							list_length(relids), get_database_name(MyDatabaseId)),
					 errdetail("The server has crashed, or its files were copied. They are fetched from another node, or emptied everywhere if no other one is online.")));
	}
	table_close(marker, NoLock);
	/* each session of the replicator's comes here, also later */
	if (pg_atomic_read_u32(&shared->awaited) == AWAITED_UNKNOWN && unlogged_missing() != NIL)
	{
		uint32		unknown = AWAITED_UNKNOWN;

		(void) pg_atomic_compare_exchange_u32(&shared->awaited, &unknown, AWAITED);
	}
}

/* ---------- asked for each row */

static void
look_up(Relation rel, HeapTuple tuple, void *arg)
{
	Known	   *k = arg;

	k->missing |= listed_relid(rel, tuple) == k->relid;
}

/* The table is locked, so that what is found stays true until an invalidation comes. */
bool
unlogged_is_missing(Oid relid)
{
	Known		found = {relid, false};
	Known	   *k = known != NULL ? hash_search(known, &relid, HASH_FIND, NULL) : NULL;
	Relation	list;

	if (likely(k != NULL))
		return k->missing;
	list = open_own("unlogged_missing", AccessShareLock);
	if (list == NULL)
		return false;
	for_each_row(list, look_up, &found);
	table_close(list, AccessShareLock);
	if (known == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(Known)};

		known = hash_create("lockstep unlogged tables", 16, &control, HASH_ELEM | HASH_BLOBS);
	}
	k = hash_search(known, &relid, HASH_ENTER, NULL);
	k->missing = found.missing;
	return found.missing;
}

bool
unlogged_is_refilled_elsewhere(Oid relid)
{
	return unlikely(complete.relid == relid) && OidIsValid(relid) && TransactionIdIsValid(complete.xid) &&
		complete.xid == GetTopTransactionIdIfAny();
}

bool
unlogged_is_skipped(Oid relid)
{
	if (session_repairs())
		return false;
	return unlogged_is_refilled_elsewhere(relid) || unlogged_is_missing(relid);
}

/* ---------- its rows come anew */

/* Nothing is in a table that is missing, unless it was put there past the replicator. */
static void
empty(Oid relid)
{
	Relation	rel = table_open(relid, RowExclusiveLock);
	NewestScan	scan = newestscan_begin(rel);
	TupleTableSlot *slot;

	while ((slot = newestscan_next(&scan)) != NULL)
		simple_heap_delete(rel, &slot->tts_tid);
	newestscan_end(&scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

void
unlogged_begin_refill(Oid relid)
{
	complete.relid = InvalidOid;
	if (unlogged_is_missing(relid))
	{
		empty(relid);
		unlogged_found(relid);
		return;
	}
	complete.xid = GetTopTransactionId();
	complete.relid = relid;
}

void
unlogged_end_refill(void)
{
	complete.relid = InvalidOid;
}

/* ---------- a transaction that made files aborts */

/*
 * PostgreSQL deletes the files that an aborted transaction has made without flushing the WAL.  Those of an
 * unlogged table can then keep the server from starting: of a file that is deleted a stub stays
 * until the next checkpoint, and if the crash comes before the record of the abort is on disk, recovery makes
 * the init fork again, of whose copy it finds the stub in the way ("could not create file: File
 * exists").  So the record is flushed first.  Called when it has been made.
 */
void
unlogged_at_abort(void)
{
	LsRelFile  *files;
	XLogRecPtr	end;

	if (!TransactionIdIsValid(GetCurrentTransactionIdIfAny()) || RecoveryInProgress() || IsParallelWorker() ||
		smgrGetPendingDeletes(false, &files) == 0)
		return;
	pfree(files);
	end = GetXLogInsertRecPtr();
	if (end % XLOG_BLCKSZ <= SizeOfXLogLongPHD) /* nothing on this page yet */
		end -= end % XLOG_BLCKSZ;
	XLogFlush(end);
}
