/*
 * lockconflict.c
 *	  A local transaction that blocks one of a higher rank is made to fail.
 *
 * Extension code does not run in a backend that waits for a lock or for its client.  So
 * the replicator finds out which backends block its apply session (lockstep.blockers)
 * and calls lockstep.yield(pid, ...).  That call
 *
 *  1. marks the victim's transaction as doomed, in shared memory;
 *  2. sends SIGINT: a running statement is cancelled; a backend that waits for its verdict
 *		withdraws (verdict.c);
 *  3. sends a relcache invalidation, and the signal to process it: a backend that is
 *		idle in a transaction block calls our relcache callback, which aborts the
 *		transaction, so that its locks are released, and starts an empty one in its place,
 *		which is doomed, too, and has the same savepoints (savepoints.c).
 *
 *		 running ----SIGINT----> 57014, reported as 40001 ----> aborted
 *		 asking -----SIGINT----> withdraw ------> 40001, or decided: commits, unless
 *												  one before it waits: 08007
 *		 idle ---invalidation--> empty doomed block --next statement--> 40001
 *
 * Both signals are always sent, because the victim may change between running and idle.
 * SAVEPOINT, RELEASE, ROLLBACK TO and ROLLBACK run as if nothing were wrong.  A
 * savepoint may survive the cancel, and keep the outer locks; the replicator then looks
 * and calls again.
 *
 * Parse messages of a doomed transaction succeed where possible: clients expect a prepared
 * statement to exist afterwards, whatever becomes of the transaction.  Its execution fails.
 *
 * In the middle of a statement a backend that waits for its client (for COPY data, for room
 * to send rows, for the Sync of a pipeline) does not react to a cancel.  After
 * CLIENT_PATIENCE_MS its connection is terminated; if it is in the way of a decided
 * transaction, for which all commits of the node wait, after DECIDED_PATIENCE_MS.  A backend that catches the errors and
 * goes on is terminated after OBEY_PATIENCE_MS.
 *
 * The mark contains the local transaction ID (PGPROC.lxid), so it never applies to a later
 * transaction.  Locking: marks are written under the LWLock of tranche
 * "LockstepConflict"; a backend reads its own mark without the lock.  The SIGINT must not reach a
 * later transaction either: lockconflict_yield holds the lock from the mark to the kill and
 * checks lxid in between; the victim, when its transaction has ended and it finds a mark, takes
 * the lock and then discards the cancel request.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/analyze.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/procsignal.h"
#include "storage/shmem.h"
#include "storage/sinval.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "lockconflict.h"
#include "masking.h"
#include "monotonic.h"
#include "savepoints.h"

#define DETAIL_SIZE 512

/* How long a victim may wait for its client before it is disconnected. */
#define CLIENT_PATIENCE_MS 1000
#define DECIDED_PATIENCE_MS 100
#define OBEY_PATIENCE_MS 5000

/* A relation that never exists: its invalidation means "look at your mark". */
#define DUMMY_RELID ((Oid) 1)

typedef struct Mark
{
	LocalTransactionId doomed;	/* lxid of the transaction to fail, or invalid */
	LocalTransactionId writes;	/* lxid of a transaction that asked or
								 * forwarded */
	int			apply_pid;		/* pid of an apply session in this slot, or 0 */
	int			apply_row;		/* it changes this one of its call's rows;
								 * read without the lock, to tell people */
	int			step_waits;		/* pid of the local session for which its step
								 * waits without a lock, or 0 */
	MonoTime	since;			/* when it was doomed first */
	bool		terminated;		/* its connection, and the log has it */
	bool		in_circle;		/* it waits in a circle: 40P01 */
	uint64		before;			/* it is in the way of the transaction decided
								 * as this seq; 0: of one not decided */
	char		detail[DETAIL_SIZE];	/* why it is doomed */
} Mark;

static Mark *marks = NULL;		/* by pgprocno, MaxBackends of them */
static LWLock *conflict_lock = NULL;

/* The transaction block that was put in the place of an aborted one. */
static bool in_doomed_block = false;
static bool doomed_in_circle;
static char doomed_detail[DETAIL_SIZE];

/* It has been rolled back, and its error may not be reported yet: a COMMIT in a procedure. */
static bool ended_doomed = false;

void
lockconflict_shmem_request(void)
{
	RequestAddinShmemSpace(mul_size(MaxBackends, sizeof(Mark)));
	RequestNamedLWLockTranche("LockstepConflict", 1);
}

/* Called with AddinShmemInitLock held. */
void
lockconflict_shmem_startup(void)
{
	bool		found;
	Size		size = mul_size(MaxBackends, sizeof(Mark));

	marks = ShmemInitStruct("lockstep conflict marks", size, &found);
	conflict_lock = &(GetNamedLWLockTranche("LockstepConflict"))->lock;
	if (!found)
		memset(marks, 0, size);
}

static Mark *
my_mark(void)
{
	return &marks[ls_procno(MyProc)];
}

/* ---------- the victim */

bool
lockconflict_is_doomed(void)
{
	volatile Mark *mark;

	if (in_doomed_block)
		return true;
	if (MyProc == NULL || ls_procno(MyProc) >= MaxBackends)
		return false;
	mark = my_mark();
	return LocalTransactionIdIsValid(mark->doomed) && mark->doomed == ls_lxid(MyProc);
}

/*
 * A transaction that is decided as seq goes by itself, after all; it gives way
 * only to what comes before it, or both would wait for ever.
 */
bool
lockconflict_is_before(uint64 seq)
{
	uint64		before;

	if (likely(!lockconflict_is_doomed()))
		return false;
	pg_read_barrier();
	before = *(volatile uint64 *) &my_mark()->before;
	return before != 0 && before < seq;
}

static const char *
doomed_why(void)
{
	return in_doomed_block || ended_doomed ? doomed_detail : my_mark()->detail;
}

static bool
is_in_circle(void)
{
	return in_doomed_block || ended_doomed ? doomed_in_circle : my_mark()->in_circle;
}

static int
doomed_code(void)
{
	return is_in_circle() ? ERRCODE_T_R_DEADLOCK_DETECTED : ERRCODE_T_R_SERIALIZATION_FAILURE;
}

static const char *
doomed_message(void)
{
	return is_in_circle() ? "deadlock detected between transactions of several nodes" :
		"could not go on with the transaction because it was in the way of another one";
}

void
lockconflict_report_doomed(void)
{
	const char *detail = doomed_why();

	ereport(ERROR,
			(errcode(doomed_code()),
			 errmsg("%s", doomed_message()),
			 detail[0] ? errdetail_internal("%s", masking_for_reader(detail)) : 0,
			 detail[0] ? errdetail_log("%s", masking_for_log(detail)) : 0,
			 errhint("The transaction might succeed if retried.")));
}

/*
 * Whatever error a doomed transaction meets (usually 57014, but also a
 * savepoint that went with the transaction), the reason is this.
 */
void
lockconflict_explain(ErrorData *edata)
{
	if ((!lockconflict_is_doomed() && !(ended_doomed && edata->sqlerrcode == ERRCODE_QUERY_CANCELED)) ||
		edata->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
		edata->sqlerrcode == ERRCODE_T_R_DEADLOCK_DETECTED ||
		edata->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
		return;
	edata->sqlerrcode = doomed_code();
	edata->message = pstrdup(doomed_message());
	edata->detail = doomed_why()[0] ? masking_in_error(doomed_why()) : NULL;
	edata->detail_log = doomed_why()[0] ? masking_for_log(doomed_why()) : NULL;
	edata->hint = pstrdup("The transaction might succeed if retried.");
}

/*
 * With log_min_messages above ERROR that hook is not called; but every error
 * passes the callbacks of its context.  What kind of error it is can't be told
 * there, but for its code.
 */
static void
tell_the_reason_in_context(void *arg)
{
	int			code = geterrcode();

	if ((code != ERRCODE_QUERY_CANCELED && code != ERRCODE_S_E_INVALID_SPECIFICATION) ||
		!lockconflict_is_doomed())
		return;
	errcode(doomed_code());
	errmsg("%s", doomed_message());
	if (doomed_why()[0])
	{
		errdetail_internal("%s", masking_in_error(doomed_why()));
		errdetail_log("%s", masking_for_log(doomed_why()));
	}
	errhint("The transaction might succeed if retried.");
}

static ErrorContextCallback last_context = {NULL, tell_the_reason_in_context, NULL};

/*
 * At the end of the list, where only PG_TRY takes it off, which restores
 * what there was, and PostgreSQL itself, which empties the list after an error.
 * So this is called wherever a statement begins to run, and when a transaction
 * or savepoint has ended, which is outside of any PG_TRY.
 */
void
lockconflict_watch_errors(void)
{
	ErrorContextCallback **link = &error_context_stack;

	ended_doomed = false;
	if (ls_log_min_messages() <= ERROR && ls_log_min_messages() != LOG)
		return;
	while (*link != NULL)
	{
		if (*link == &last_context)
			return;
		link = &(*link)->previous;
	}
	*link = &last_context;
}

/*
 * Idle inside a transaction block, waiting for the next command?  The state
 * shown in pg_stat_activity says so, if it is maintained; the other conditions
 * hold between commands and never inside one (fastpath function calls have a
 * snapshot, all others a query string).
 */
static bool
idle_in_transaction_block(void)
{
	if (!IsUnderPostmaster || MyBackendType == B_BG_WORKER || MyBEEntry == NULL)
		return false;
	if (debug_query_string != NULL || ActiveSnapshotSet() || !IsTransactionBlock())
		return false;
	return !pgstat_track_activities ||
		MyBEEntry->st_state == STATE_IDLEINTRANSACTION ||
		MyBEEntry->st_state == STATE_IDLEINTRANSACTION_ABORTED;
}

/* End the transaction, keep the client's idea that it is inside a block, with its savepoints. */
static void
abort_while_idle(void)
{
	MemoryContext context = CurrentMemoryContext;
	MemoryContext own = AllocSetContextCreate(TopMemoryContext, "lockstep savepoints", ALLOCSET_SMALL_SIZES);
	List	   *savepoints;
	int			isolation = XactIsoLevel;
	bool		read_only = XactReadOnly;
	bool		deferrable = XactDeferrable;

	MemoryContextSwitchTo(own);
	savepoints = savepoints_names();
	strlcpy(doomed_detail, my_mark()->detail, sizeof(doomed_detail));
	doomed_in_circle = my_mark()->in_circle;
	AbortOutOfAnyTransaction();
	StartTransactionCommand();
	BeginTransactionBlock();
	CommitTransactionCommand();

	/*
	 * for ROLLBACK AND CHAIN; as RestoreTransactionCharacteristics() of
	 * xact.c
	 */
	XactIsoLevel = isolation;
	XactReadOnly = read_only;
	XactDeferrable = deferrable;
	in_doomed_block = true;
	savepoints_set(savepoints);
	MemoryContextSwitchTo(context);
	MemoryContextDelete(own);
}

void
lockconflict_on_relcache_invalidation(Datum arg, Oid relid)
{
	if (likely(relid != DUMMY_RELID) || in_doomed_block)
		return;
	if (lockconflict_is_doomed() && idle_in_transaction_block())
		abort_while_idle();
}

/* The SIGINT that belonged to a mark must not hit the next transaction. */
static void
discard_cancel(void)
{
	LWLockAcquire(conflict_lock, LW_EXCLUSIVE);
	my_mark()->doomed = InvalidLocalTransactionId;
	LWLockRelease(conflict_lock);

	/* the kill is done: returning from any system call delivers it */
	(void) getppid();
	QueryCancelPending = false;
}

/* The transaction is rolled back; lxid has been cleared already. */
void
lockconflict_at_abort(void)
{
	bool		doomed = in_doomed_block || LocalTransactionIdIsValid(((volatile Mark *) my_mark())->doomed);

	lockconflict_watch_errors();
	if (!doomed)
		return;
	if (!in_doomed_block)
	{
		strlcpy(doomed_detail, my_mark()->detail, sizeof(doomed_detail));
		doomed_in_circle = my_mark()->in_circle;
	}
	ended_doomed = true;
}

/* Called when lxid has been cleared already: see the file header. */
void
lockconflict_at_xact_end(void)
{
	volatile Mark *mark = my_mark();

	in_doomed_block = false;
	mark->writes = InvalidLocalTransactionId;
	pg_memory_barrier();
	if (LocalTransactionIdIsValid(mark->doomed))
		discard_cancel();
}

void
lockconflict_note_writes(void)
{
	my_mark()->writes = ls_lxid(MyProc);
}

void
lockconflict_note_no_writes(void)
{
	my_mark()->writes = InvalidLocalTransactionId;
}

int64
lockconflict_count_writers(void)
{
	int64		count = 0;

	for (int i = 0; i < MaxBackends; i++)
	{
		PGPROC	   *proc = GetPGProcByNumber(i);
		volatile Mark *mark = &marks[i];

		if (LocalTransactionIdIsValid(mark->writes) && mark->writes == ls_lxid(proc) && mark->apply_pid != proc->pid)
			count++;
	}
	return count;
}

void
lockconflict_note_apply(void)
{
	my_mark()->apply_pid = MyProcPid;
	lockconflict_note_row(0);	/* who had this slot may have died in one */
	lockconflict_note_step_waits(0);
}

void
lockconflict_note_step_waits(int pid)
{
	*(volatile int *) &my_mark()->step_waits = pid;
}

void
lockconflict_note_row(int row)
{
	*(volatile int *) &my_mark()->apply_row = row;
}

/*
 * The process of the apply session in a slot; *pid is 0 and the result NULL if there
 * is none.  A slot is written by who has it; one that is read too early or too
 * late is no harm.
 */
static const PGPROC *
apply_session_at(int slot, int *pid)
{
	const PGPROC *proc;

	*pid = *(volatile int *) &marks[slot].apply_pid;
	proc = *pid != 0 ? BackendPidGetProc(*pid) : NULL;
	if (proc == NULL || ls_procno(proc) != slot)
		*pid = 0;
	return *pid != 0 ? proc : NULL;
}

bool
lockconflict_is_apply(const PGPROC *proc)
{
	bool		apply = false;

	if (proc != NULL)
		(void) lockconflict_pid_writes(proc->pid, &apply);
	return apply;
}

int
lockconflict_step_wait(int slot, int *pid)
{
	int			blocker = *(volatile int *) &marks[slot].step_waits;

	return blocker != 0 && apply_session_at(slot, pid) != NULL ? blocker : 0;
}

int
lockconflict_apply_session_in(Oid database)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		int			pid;
		const PGPROC *proc = apply_session_at(i, &pid);

		if (proc != NULL && proc->databaseId == database)
			return pid;
	}
	return 0;
}

Oid
lockconflict_applied_database(Oid but)
{
	Oid			database = InvalidOid;

	for (int i = 0; i < MaxBackends; i++)
	{
		int			pid;
		const PGPROC *proc = apply_session_at(i, &pid);

		if (proc != NULL && OidIsValid(proc->databaseId) && proc->databaseId != but &&
			(!OidIsValid(database) || proc->databaseId < database))
			database = proc->databaseId;
	}
	return database;
}

bool
lockconflict_applies_as(Oid role)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		int			pid;
		const PGPROC *proc = apply_session_at(i, &pid);

		if (proc != NULL && proc->roleId == role)
			return true;
	}
	return false;
}

/* ---------- those who act on others */

/* The owner of the slot may do something else the next moment. */
static bool
waits_for_client(const PGPROC *proc)
{
	uint32		event = *(volatile const uint32 *) &proc->wait_event_info;

	return event == WAIT_EVENT_CLIENT_READ || event == WAIT_EVENT_CLIENT_WRITE;
}

/* Has it had time enough to obey, and does not?  Caller holds the lock. */
static bool
is_deaf(const Mark *mark, bool waits_for_client)
{
	int			patience_ms = OBEY_PATIENCE_MS;

	if (waits_for_client)
		patience_ms = mark->before != 0 ? DECIDED_PATIENCE_MS : CLIENT_PATIENCE_MS;
	return mono_ms_since(mark->since) >= patience_ms;
}

/*
 * Let the transaction only of process pid fail (invalid: the one that it is in), as
 * one that is decided as seq (0: not yet) waits for it, or, in_circle, as it waits
 * for itself in the end.  False: it is not in it.
 */
bool
lockconflict_yield(int pid, LocalTransactionId only, const char *detail, uint64 seq, bool in_circle)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	volatile LocalTransactionId *lxid;
	LocalTransactionId victim;
	Mark	   *mark;
	bool		deaf = false;
	bool		tell = false;
	bool		silent_client = false;
	bool		hit;

	if (proc == NULL || pid == MyProcPid || ls_procno(proc) >= MaxBackends)
		return false;
	mark = &marks[ls_procno(proc)];
	lxid = &ls_lxid(proc);

	LWLockAcquire(conflict_lock, LW_EXCLUSIVE);
	victim = *lxid;
	hit = LocalTransactionIdIsValid(victim) && proc->pid == pid &&
		(!LocalTransactionIdIsValid(only) || victim == only);
	if (hit)
	{
		size_t		len = pg_mbcliplen(detail, strlen(detail), DETAIL_SIZE - 1);

		memcpy(mark->detail, detail, len);
		mark->detail[len] = '\0';
		if (mark->doomed != victim)
		{
			mark->since = mono_now();
			mark->terminated = false;
			mark->before = 0;
			mark->in_circle = in_circle;
		}
		if (seq != 0 && (mark->before == 0 || seq < mark->before))
			mark->before = seq;
		pg_memory_barrier();
		mark->doomed = victim;
		pg_memory_barrier();
		hit = *lxid == victim;
		silent_client = waits_for_client(proc);
		deaf = hit && is_deaf(mark, silent_client);
		tell = deaf && !mark->terminated;
		mark->terminated |= deaf;
		if (hit)
			(void) kill(pid, deaf ? SIGTERM : SIGINT);
		else
			mark->doomed = InvalidLocalTransactionId;
	}
	LWLockRelease(conflict_lock);

	if (tell)
		ereport(LOG,
				(silent_client ?
				 errmsg("terminated the connection of process %d, which is in the way of another node's transaction and waits for its client", pid) :
				 errmsg("terminated the connection of process %d, which is in the way of another node's transaction and does not end", pid),
				 errdetail_internal("%s", masking_for_log(detail))));
	if (hit)
	{
		SharedInvalidationMessage message;

		memset(&message, 0, sizeof(message));
		message.rc.id = SHAREDINVALRELCACHE_ID;
		message.rc.dbId = proc->databaseId;
		message.rc.relId = DUMMY_RELID;
		SendSharedInvalidMessages(&message, 1);
		(void) SendProcSignal(pid, PROCSIG_CATCHUP_INTERRUPT, ls_signal_id(proc));
	}
	return hit;
}

/* Has the transaction of process pid changed anything, or will it? */
bool
lockconflict_pid_writes(int pid, bool *is_apply)
{
	PGPROC	   *proc = BackendPidGetProc(pid);
	Mark	   *mark;

	*is_apply = false;
	if (proc == NULL || ls_procno(proc) >= MaxBackends)
		return false;
	mark = &marks[ls_procno(proc)];
	*is_apply = mark->apply_pid == pid;
	return TransactionIdIsValid(proc->xid) ||
		(LocalTransactionIdIsValid(mark->writes) && mark->writes == ls_lxid(proc));
}

/* Which row of its call does that apply session change? */
int
lockconflict_row_of(int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);

	if (proc == NULL || ls_procno(proc) >= MaxBackends)
		return 0;
	return *(volatile int *) &marks[ls_procno(proc)].apply_row;
}

/* ---------- a doomed transaction does nothing more */

/*
 * The cancel that came while a statement was analyzed says no more than the mark
 * does, at which the next thing that it is used for looks.  If there is none for
 * long - the client is idle then, or waits - the replicator shoots again.
 */
void
lockconflict_after_analysis(void)
{
	if (unlikely(lockconflict_is_doomed()))
		QueryCancelPending = false;
}

void
lockconflict_before_query(void)
{
	lockconflict_watch_errors();
	if (unlikely(lockconflict_is_doomed()))
		lockconflict_report_doomed();
}

/*
 * ROLLBACK is what the client should do, and COMMIT is refused in PRE_COMMIT.  A driver
 * that nests transactions cannot cope with an error of a savepoint's command (its own
 * count of levels is wrong then, or it forgets the error), and none of them does anything yet.
 */
static bool
passes_while_doomed(PlannedStmt *pstmt)
{
	TransactionStmt *stmt = (TransactionStmt *) pstmt->utilityStmt;

	if (!IsA(stmt, TransactionStmt))
		return false;
	switch (stmt->kind)
	{
		case TRANS_STMT_ROLLBACK:
		case TRANS_STMT_COMMIT:
		case TRANS_STMT_SAVEPOINT:
		case TRANS_STMT_RELEASE:
		case TRANS_STMT_ROLLBACK_TO:
			return true;
		default:
			return false;
	}
}

/*
 * The cancel of a doomed transaction is for what runs or waits.  What a savepoint's command does
 * takes no time, and the next statement looks at the mark: without this, a cancel that
 * arrives just then would be its error.  The same holds between two commands of a block, when
 * one may have been read that has not set its text yet; a call by the fastpath protocol has no text,
 * but a snapshot, and an implicit COMMIT by Sync has no text, but no block.
 */
static void
on_cancel(SIGNAL_ARGS)
{
	bool		passes = debug_query_string != NULL ? savepoints_is_command(debug_query_string) :
	IsTransactionBlock() && !ActiveSnapshotSet();

	if (!passes || !lockconflict_is_doomed())
		StatementCancelHandler(LS_SIGNAL_ARGS);
}

static void
handle_cancels(void)
{
	static bool done = false;

	if (likely(done) || MyBackendType != B_BACKEND)
		return;
	pqsignal(SIGINT, on_cancel);
	done = true;
}

void
lockconflict_before_utility(PlannedStmt *pstmt)
{
	lockconflict_watch_errors();
	if (IsA(pstmt->utilityStmt, TransactionStmt))
		handle_cancels();
	if (unlikely(lockconflict_is_doomed()) && !passes_while_doomed(pstmt))
		lockconflict_report_doomed();
}
