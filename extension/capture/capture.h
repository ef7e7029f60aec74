/*
 * capture.h
 *	  What the session changes: the room's handlers and what upper rooms need of them.
 */
#ifndef LOCKSTEP_CAPTURE_H
#define LOCKSTEP_CAPTURE_H

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "storage/bufmgr.h"

#include "compat.h"
#include "protocol.h"

/* ---------- heap.c: interposition on the heap table access method */

extern void heap_note_conflict_lock(void);	/* rows are locked by a command */

/* A transaction has ended, or a subtransaction begins or is rolled back: keys from before stay. */
extern void heap_leave_locked(void);
extern void heap_interpose(void);	/* _PG_init, postmaster only */

/* Where rows are applied: those that are deleted next are gone; else those of a partition may have moved to another one. */
extern void heap_begin_deletes(bool for_good);

extern void (*heap_before_insert) (Relation rel);	/* of a row that is
													 * captured */

/* ---------- oldrow.c: the version of a row that a change has replaced */

/* The executor has fetched a version by its TID, perhaps to change it: its page is looked for there. */
extern void oldrow_note_fetched(TupleTableSlot *slot);

/*
 * While a statement runs: the slot of kind TTSOpsBufferHeapTuple in which its scan has the row that it is about to change.
 * NULL: there is none.  Returns the one from before, to be set again, also after an error, when the statement has run.
 */
extern TupleTableSlot *oldrow_set_scan(TupleTableSlot *slot);

typedef struct OldRow
{
	HeapTuple	tuple;			/* on its page, which stays pinned until
								 * oldrow_release() */
	HeapTupleData fetched;
	Buffer		buffer;			/* InvalidBuffer: the scan has pinned it */
} OldRow;

extern void oldrow_get(Relation rel, ItemPointer tid, OldRow *row);

static inline void
oldrow_release(const OldRow *row)
{
	if (BufferIsValid(row->buffer))
		ReleaseBuffer(row->buffer);
}

/* ---------- capture.c: which rows the transaction changed, in order */

/* From heap.c, after the change succeeded, only in LS_MODE_ORIGIN and only for
 * replicated relations (relation_is_replicated). */
extern void capture_insert(Relation rel, TupleTableSlot *slot);
extern void capture_update(Relation rel, ItemPointer otid, TupleTableSlot *slot);
extern void capture_delete(Relation rel, ItemPointer tid, bool moves);	/* to another partition */
extern void capture_row_locked(Relation rel);	/* explains WAL under an xid */

/* For the witness: of this transaction, rolled-back subtransactions included
 * (their WAL is there, too). */
extern uint64 capture_rows_seen(void);	/* rows captured so far */
extern bool capture_rows_were_locked(void); /* rows of replicated tables were */

/* Forward the pending run of inserts.  Called by xact.c at subtransaction
 * borders and before the question, and before something else is forwarded. */
extern void capture_flush(void);

/* Capture all rows of a table as inserts, as after a command that made them. */
extern void capture_table(Oid relid);

/* inserted: its rows have been captured as they were inserted. */
extern void capture_new_matview(Oid relid, bool inserted);

extern void capture_at_xact_end(void);

/* Forget the pending run: the (sub)transaction that made it is gone. */
extern void capture_discard(void);

/* Is a row being made into a query?  Then nothing else may be forwarded. */
extern bool capture_is_busy(void);

/* ---------- statement.c: a query in statement form */

extern void statement_forward(QueryDesc *desc, LsReason reason, int64 rows,
							  const LsKey *keys, int nkeys);

/* ---------- shippable.c: UPDATE and DELETE that travel as their text */

extern void shippable_forget(void); /* before each ExecutorStart that isn't
									 * nested */
extern void shippable_consider(QueryDesc *desc);	/* before ExecutorStart */
extern void shippable_start(QueryDesc *desc);	/* before ExecutorRun */
extern void shippable_stop(QueryDesc *desc);	/* after it, failed or not */
extern void shippable_forward(QueryDesc *desc); /* after it */

/* Rows of this table that change now need not be captured. */
extern bool shippable_is_running(Oid relid);

/* ---------- executor.c: SELECT that writes */

extern void executor_check_targets(QueryDesc *desc);	/* after ExecutorStart */

/* Is it what the client sent, and not what a function runs? */
extern bool executor_is_clients(const QueryDesc *desc);
extern void executor_run(ExecutorRun_hook_type next, QueryDesc *desc, ScanDirection direction,
						 uint64 count LS_ONCE_PARAM);
extern void executor_finish(ExecutorFinish_hook_type next, QueryDesc *desc);

/* ---------- lockorder.c: lockstep.update_order */

extern void lockorder_before_query(QueryDesc *desc);

extern void lockorder_before_query(QueryDesc *desc);

/* ---------- cfunctions.c: functions that do what no other hook sees */

extern bool cfunctions_needs_hook(Oid function);
extern void cfunctions_on_call(FmgrHookEventType event, FmgrInfo *flinfo);

/* ---------- walwitness.c: nothing escapes */

/* ERROR 0A000 if the transaction has an effect that no forwarded query
 * accounts for.  Called by commit.c in PRE_COMMIT, also for transactions that
 * forwarded nothing.  Must be cheap for read-only ones. */
extern void walwitness_check(void);
extern void walwitness_on_subxact(SubXactEvent event, int level);
extern void walwitness_at_xact_end(void);

/* A command that accounts for catalog changes and WAL: it was forwarded, or its
 * effects stay on this node.  Number of them in this session. */
extern void walwitness_note_command(void);
extern bool walwitness_has_commands(void);	/* in this transaction */
extern uint64 walwitness_commands(void);

/* A value of a sequence was taken, which may write WAL.  Number of them in this session. */
extern void walwitness_note_sequence_value(void);
extern uint64 walwitness_sequence_values(void);

/* An effect that nothing accounts for; explained: all, as the SELECT was forwarded. */
extern void walwitness_note_unexplained(void);
extern bool walwitness_is_unexplained(void);
extern void walwitness_explained(void);

/* ---------- notify.c: notifications */

extern void notify_replace_functions(void);
extern void notify_check(void); /* before the question: may fail */
extern bool notify_command(NotifyStmt *stmt);
extern bool notify_is_hidden_in(Form_pg_proc proc, HeapTuple tuple);
extern void notify_refuse_hidden(void);

/* ---------- refill.c: unlogged tables that other nodes have lost */

/* The caller has locked it everywhere. */
extern void refill_table(Oid relid);
extern void refill_all(bool truncate);

/* ---------- largeobject.c: large objects */

extern void largeobject_replace_functions(void);
extern void largeobject_on_object_access(ObjectAccessType access, Oid class, Oid object);

/* Is it a command on large objects?  Then *oids are those that it names. */
extern bool largeobject_named_by(Node *stmt, List **oids);

#endif							/* LOCKSTEP_CAPTURE_H */
