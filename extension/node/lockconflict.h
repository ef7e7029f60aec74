/*
 * lockconflict.h
 *	  Local transactions that block one of a higher rank are made to fail.
 */
#ifndef LOCKSTEP_LOCKCONFLICT_H
#define LOCKSTEP_LOCKCONFLICT_H

#include "nodes/plannodes.h"
#include "storage/lock.h"
#include "storage/proc.h"

#include "lockstep.h"

extern void lockconflict_shmem_request(void);
extern void lockconflict_shmem_startup(void);

/* ---------- the victim */

/* Must this transaction fail with 40001 or 40P01?  Without a lock. */
extern bool lockconflict_is_doomed(void);

/* ... even though it is decided as seq, as it blocks one that comes before it? */
extern bool lockconflict_is_before(uint64 seq);

LS_NORETURN extern void lockconflict_report_doomed(void);

/* ERROR if it is doomed; before a query, and before a command that does not end or mark transactions. */
extern void lockconflict_before_query(void);
extern void lockconflict_before_utility(PlannedStmt *pstmt);

/* After parse analysis: a cancel is discarded, so that a Parse message succeeds. */
extern void lockconflict_after_analysis(void);

/* Another error of a doomed transaction gets the code and the message that say why it failed. */
extern void lockconflict_explain(ErrorData *edata);

/* The same where log_min_messages keeps errors from emit_log_hook.  Cheap when repeated. */
extern void lockconflict_watch_errors(void);

extern void lockconflict_on_relcache_invalidation(Datum arg, Oid relid);
extern void lockconflict_at_abort(void);
extern void lockconflict_at_xact_end(void);

/* ---------- what others may know of this session */

extern void lockconflict_note_writes(void); /* its transaction asked or
											 * forwarded */
extern void lockconflict_note_no_writes(void);	/* it does not, after all */
extern void lockconflict_note_apply(void);	/* it is an apply session */
extern void lockconflict_note_row(int row); /* it changes that row of its call */
extern void lockconflict_note_step_waits(int pid);	/* an apply session's
													 * step, for that one; 0:
													 * for none */

/* ---------- what is known of other sessions */

/* A pid of an apply session in the database; 0: there is none. */
extern int	lockconflict_apply_session_in(Oid database);

/* A database that has one, always the same if several do; InvalidOid: there is none. */
extern Oid	lockconflict_applied_database(Oid but);

/* Has an apply session this role? */
extern bool lockconflict_applies_as(Oid role);

/* The row of its call that an apply session changes; 0: none. */
extern int	lockconflict_row_of(int pid);

/* For which pid does the step of the apply session in a slot of MaxBackends wait, *pid being its own?  0: for none. */
extern int	lockconflict_step_wait(int slot, int *pid);

/* How many transactions have noted that they write, apply sessions excepted?  Without a lock. */
extern int64 lockconflict_count_writers(void);

/* Is it an apply session?  NULL is none. */
extern bool lockconflict_is_apply(const PGPROC *proc);

/* Has the transaction of a process changed anything, or will it? */
extern bool lockconflict_pid_writes(int pid, bool *is_apply);

/*
 * Make the transaction "only" of process pid fail (invalid: whatever it runs), because
 * the transaction decided as seq waits for it (0: one not decided yet), or because it is in a circle
 * of waits.  detail goes to its client.  False: the process does not run it.
 */
extern bool lockconflict_yield(int pid, LocalTransactionId only, const char *detail, uint64 seq,
							   bool in_circle);

#endif							/* LOCKSTEP_LOCKCONFLICT_H */
