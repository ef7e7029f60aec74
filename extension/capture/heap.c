/*
 * heap.c
 *	  Interposition on the heap table access method: which rows changed.
 *
 * Every change to a user table goes through the heap's TableAmRoutine; the server's own
 * changes to catalogs, toast tables, VACUUM FULL and CLUSTER do not.  heap_interpose()
 * replaces the functions in that one table, in the postmaster, once.  The address of the
 * table stays the same, so relcache and catalogs are not affected.
 *
 * Each wrapper calls the heap's function first, and captures when it has succeeded.  A
 * speculative insert is captured when it is completed.  In a session that does not originate
 * changes, or for a relation that is not replicated, a wrapper costs one check.
 *
 * A wrapper sees a catalog only if a superuser names it in a DML command.  The meaning of that on
 * another node is unknown, so it is refused, except for the planner's statistics in
 * pg_class, which belong to the node, like those of ANALYZE.  Changes of an unlogged table
 * whose rows are missing here (unlogged.c) are refused, too.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "capture.h"
#include "compat.h"
#include "conflictreport.h"
#include "guc.h"
#include "mode.h"
#include "patch.h"
#include "readkeys.h"
#include "relation.h"
#include "unlogged.h"

void		(*heap_before_insert) (Relation rel) = NULL;

static TableAmRoutine heap_original;

static void
refuse_catalog(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change system catalog \"%s\" directly on a node",
					RelationGetRelationName(rel)),
			 errdetail("The other nodes would not get the change."),
			 errhint("Use the DDL command for it, or set lockstep.replicate to off and change every node.")));
}

/* Does the new version of a row of pg_class differ in the planner's numbers only? */
static bool
changes_statistics_only(Relation rel, ItemPointer tid, TupleTableSlot *slot)
{
	HeapTupleData old;
	Buffer		buffer;
	bool		others = false;

	old.t_self = *tid;
	if (!heap_fetch(rel, SnapshotAny, &old, &buffer, false))
		return false;
	slot_getallattrs(slot);
	for (AttrNumber i = 1; i <= RelationGetNumberOfAttributes(rel) && !others; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i - 1);
		bool		isnull;
		Datum		value = heap_getattr(&old, i, RelationGetDescr(rel), &isnull);

		if (ls_is_statistic(i))
			continue;
		others = isnull != slot->tts_isnull[i - 1] ||
			(!isnull && !datum_image_eq(value, slot->tts_values[i - 1], att->attbyval, att->attlen));
	}
	ReleaseBuffer(buffer);
	return !others;
}

/* One that this transaction has made is complete; and catalogs can't be read anew below a parallel plan. */
static pg_noinline void
check_unlogged(Relation rel)
{
	unlogged_require_objects();
	if (rel->rd_createSubid != InvalidSubTransactionId || !unlogged_is_missing(RelationGetRelid(rel)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change unlogged table \"%s\" yet", RelationGetRelationName(rel)),
			 errdetail("The server of this node has lost its rows, and they have neither been fetched from another node nor been deleted everywhere."),
			 errhint("Retry; or TRUNCATE the table, which empties it on all nodes.")));
}

/*
 * Autovacuum runs functions of users (in expressions of indexes and
 * statistics), and forwards nothing.  ANALYZE as a command is an ordinary
 * session's, and what it changes in this way is replicated.
 */
static void
refuse_in_autovacuum(Relation rel)
{
	if (!ls_is_node() || !ls_replicate || !OidIsValid(ls_progress_relid()) ||
		!relation_is_replicated(rel))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot change table \"%s\" in an autovacuum worker on a node",
					RelationGetRelationName(rel)),
			 errdetail("A function in an expression of an index or of statistics writes; the other nodes would not get that change."),
			 errhint("Write from a trigger instead.")));
}

/* Before a change: is it to be captured? */
static inline bool
to_be_captured(Relation rel)
{
	if (ls_mode() != LS_MODE_ORIGIN)
	{
		if (unlikely(MyBackendType == B_AUTOVAC_WORKER))
			refuse_in_autovacuum(rel);
		if (unlikely(!ls_replicate) && ls_mode() == LS_MODE_OFF && relation_is_replicated(rel))
			mode_note_local_change();
		return false;
	}
	if (relation_is_replicated(rel))
	{
		if (unlikely(unlogged_is(rel)))
			check_unlogged(rel);
		return likely(!shippable_is_running(RelationGetRelid(rel)));
	}
	if (unlikely(RelationGetRelid(rel) < FirstNormalObjectId))
		refuse_catalog(rel);
	return false;
}

/* From REPEATABLE READ up an error will follow: for its detail. */
static inline void
note_lost(Relation rel, ItemPointer tid, TM_Result result, const TM_FailureData *tmfd)
{
	if (unlikely(result == TM_Updated || result == TM_Deleted))
		conflictreport_note_update(rel, tid, tmfd->xmax);
}

/* ---------- a row that is locked on the way to a change */

/* The one that was locked last, and where its keys are. */
static struct
{
	Oid			relid;			/* InvalidOid: none */
	ItemPointerData tid;
	LsReadMark	before;			/* those of its table stay: what is forwarded
								 * next counts on them */
	LsReadMark	after;
}			on_the_way;

/*
 * UPDATE after waiting for another one, ON CONFLICT DO UPDATE and BEFORE triggers lock a
 * row that they may leave as it is then: a condition that no longer holds, a trigger that
 * returns NULL.  The lock stays until the end of the transaction, so it has a key; but not
 * in a table without an identity: that of the whole table would make each UPDATE under a
 * trigger conflict with all others.
 */
static void
lock_on_the_way(Relation rel, TupleTableSlot *slot, ItemPointer tid, LockTupleMode mode)
{
	const LsRelation *r = relation_get(rel);

	if (r->identity_index == NULL || !r->hashable)
		return;
	on_the_way.before = readkeys_row_locked(rel, slot, mode);
	on_the_way.after = readkeys_mark();
	on_the_way.relid = RelationGetRelid(rel);
	on_the_way.tid = *tid;
}

void
heap_leave_locked(void)
{
	on_the_way.relid = InvalidOid;
}

/* It has been changed, and has keys for that. */
static inline void
arrived(Relation rel, ItemPointer tid)
{
	LsReadMark	now;

	if (likely(on_the_way.relid != RelationGetRelid(rel)) || !ItemPointerEquals(&on_the_way.tid, tid))
		return;
	on_the_way.relid = InvalidOid;
	now = readkeys_mark();
	if (now.len == on_the_way.after.len && now.nkeys == on_the_way.after.nkeys)
		readkeys_cut(on_the_way.before);
}

/* ---------- what stands in for the heap's functions */

static void
wrap_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
				  LsInsertOptions options, BulkInsertState bistate)
{
	bool		captured = to_be_captured(rel);

	if (captured)
		heap_before_insert(rel);
	heap_original.tuple_insert(rel, slot, cid, options, bistate);
	if (captured)
		capture_insert(rel, slot);
}

static void
wrap_tuple_complete_speculative(Relation rel, TupleTableSlot *slot,
								uint32 token, bool succeeded)
{
	bool		captured = to_be_captured(rel);

	heap_original.tuple_complete_speculative(rel, slot, token, succeeded);
	if (captured && succeeded)
		capture_insert(rel, slot);
}

static void
wrap_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
				  CommandId cid, LsInsertOptions options, BulkInsertState bistate)
{
	bool		captured = to_be_captured(rel);
	int			i;

	if (captured)
		heap_before_insert(rel);
	heap_original.multi_insert(rel, slots, nslots, cid, options, bistate);
	if (!captured)
		return;
	for (i = 0; i < nslots; i++)
		capture_insert(rel, slots[i]);
}

/* ExecModifyTable() and triggers get the version that they change by it. */
static bool
wrap_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	bool		found = heap_original.tuple_fetch_row_version(rel, tid, snapshot, slot);

	if (found)
		oldrow_note_fetched(slot);
	return found;
}

/* In an apply session: of the rows that are deleted next. */
static bool deletes_for_good = false;

void
heap_begin_deletes(bool for_good)
{
	deletes_for_good = for_good;
}

static TM_Result
wrap_tuple_delete(Relation rel, ItemPointer tid, CommandId cid,
				  LS_OPTIONS_PARAM Snapshot snapshot, Snapshot crosscheck, bool wait,
				  TM_FailureData *tmfd LS_MOVES_PARAM)
{
	bool		captured = to_be_captured(rel);
	ItemPointerData old = *tid;
	bool		moves = LS_MOVES;
	TM_Result	result;

	/*
	 * Where it is applied, a row that moves to another partition is a row
	 * less here and one more there: who waits for it is told that it moved,
	 * as on the node where it did, or it would find none (ExecUpdate()).
	 */
	if (rel->rd_rel->relispartition && ls_mode() == LS_MODE_APPLY && !deletes_for_good)
		LS_SET_MOVES;
	result = heap_original.tuple_delete(rel, tid, cid, LS_OPTIONS_ARG snapshot, crosscheck,
										wait, tmfd LS_MOVES_ARG);
	if (captured && result == TM_Ok)
	{
		capture_delete(rel, &old, moves);
		arrived(rel, &old);
	}
	note_lost(rel, &old, result, tmfd);
	return result;
}

static TM_Result
wrap_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
				  CommandId cid, LS_OPTIONS_PARAM Snapshot snapshot, Snapshot crosscheck,
				  bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
				  LsUpdateIndexes *update_indexes)
{
	bool		statistics = RelationGetRelid(rel) == RelationRelationId &&
	ls_mode() == LS_MODE_ORIGIN && changes_statistics_only(rel, otid, slot);
	bool		captured = !statistics && to_be_captured(rel);
	ItemPointerData old = *otid;	/* may be the slot's, which changes */
	TM_Result	result;

	if (statistics)
		walwitness_note_command();
	result = heap_original.tuple_update(rel, otid, slot, cid, LS_OPTIONS_ARG snapshot, crosscheck,
										wait, tmfd, lockmode, update_indexes);
	if (captured && result == TM_Ok)
	{
		capture_update(rel, &old, slot);
		arrived(rel, &old);
	}
	note_lost(rel, &old, result, tmfd);
	return result;
}

/* The transaction that has run ON CONFLICT DO SELECT FOR UPDATE, and the like. */
static LocalTransactionId locks_by_command = InvalidLocalTransactionId;

void
heap_note_conflict_lock(void)
{
	locks_by_command = ls_lxid(MyProc);
}

static TM_Result
wrap_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
				TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
				LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd)
{
	ItemPointerData old = *tid;
	TM_Result	result;

	result = heap_original.tuple_lock(rel, tid, snapshot, slot, cid, mode,
									  wait_policy, flags, tmfd);
	if (result == TM_Ok && ls_mode() == LS_MODE_ORIGIN && relation_is_replicated(rel))
	{
		capture_row_locked(rel);

		on_the_way.relid = InvalidOid;
		if ((flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) || unlikely(locks_by_command == ls_lxid(MyProc)))
			readkeys_row_locked(rel, slot, mode);	/* by a command */
		else
			lock_on_the_way(rel, slot, tid, mode);
	}
	note_lost(rel, &old, result, tmfd);
	return result;
}

static void
check_routine(const TableAmRoutine *routine)
{
	if (routine == NULL || !IsA(routine, TableAmRoutine) ||
		routine->tuple_insert == NULL ||
		routine->tuple_insert_speculative == NULL ||
		routine->tuple_complete_speculative == NULL ||
		routine->multi_insert == NULL ||
		routine->tuple_fetch_row_version == NULL ||
		routine->tuple_delete == NULL ||
		routine->tuple_update == NULL ||
		routine->tuple_lock == NULL)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the server's heap table access method does not look as lockstep expects"),
				 errdetail("lockstep was built for PostgreSQL %s.", PG_VERSION)));
}

void
heap_interpose(void)
{
	TableAmRoutine *routine = unconstify(TableAmRoutine *, GetHeapamTableAmRoutine());

	check_routine(routine);
	heap_original = *routine;

	ls_patch_pointer(&routine->tuple_insert, wrap_tuple_insert,
					 "the heap's tuple_insert");
	ls_patch_pointer(&routine->tuple_complete_speculative, wrap_tuple_complete_speculative,
					 "the heap's tuple_complete_speculative");
	ls_patch_pointer(&routine->multi_insert, wrap_multi_insert,
					 "the heap's multi_insert");
	ls_patch_pointer(&routine->tuple_fetch_row_version, wrap_tuple_fetch_row_version,
					 "the heap's tuple_fetch_row_version");
	ls_patch_pointer(&routine->tuple_delete, wrap_tuple_delete,
					 "the heap's tuple_delete");
	ls_patch_pointer(&routine->tuple_update, wrap_tuple_update,
					 "the heap's tuple_update");
	ls_patch_pointer(&routine->tuple_lock, wrap_tuple_lock,
					 "the heap's tuple_lock");
}
