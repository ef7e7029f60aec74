/*
 * causal.c
 *	  lockstep.causal_reads: a statement sees everything that was committed on any node
 *	  before it began.
 *
 * The replicator is asked how far the cluster has come (one round trip), and the node waits
 * until it has applied that.  Then the statement needs a newer snapshot, because PostgreSQL
 * has taken one for parsing, before any hook is called.
 *
 *		snapshot   ask N ---> n: seq 9   applied = 9   new snapshot   run
 *
 * From REPEATABLE READ up a transaction has one snapshot, so this is done for its first
 * statement only: that snapshot is discarded, and PostgreSQL is made to take another.  Only
 * parsing and planning have used it, and they read catalogs with snapshots of their own.
 *
 * This applies to statements of the client, not to those that functions run, which use the
 * snapshot of their caller or a newer one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/execdesc.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "tcop/pquery.h"
#include "utils/inval.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "causal.h"
#include "compat.h"
#include "crashhold.h"
#include "guc.h"
#include "lockstep.h"
#include "ls_link.h"
#include "mode.h"
#include "monotonic.h"
#include "session.h"
#include "turn.h"
#include "xact.h"

/* The transaction (REPEATABLE READ and up) that has taken its snapshot already. */
static LocalTransactionId settled = InvalidLocalTransactionId;
static bool just_settled = false;	/* by the statement that begins now */

static uint64 questions = 0;

/* ---------- asking */

static const char hint[] = "Set lockstep.causal_reads to off to read what this node has.";

static void
report_away(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CANNOT_CONNECT_NOW),
			 errmsg("could not request the current position for a causal read from the replicator"),
			 errdetail_internal("%s", link_lost_message()),
			 errhint("%s", hint)));
}

/* Open the link.  Its error is kept; only the hint is another one for a reader. */
static void
open_link(void)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		link_open();
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_CANNOT_CONNECT_NOW)
			PG_RE_THROW();
		FlushErrorState();
		edata->hint = pstrdup(hint);
		ThrowErrorData(edata);
	}
	PG_END_TRY();
}

static void
send_question(void)
{
	uint8_t		message[64];
	size_t		size = ls_put_number(message, sizeof(message), LS_MSG_NOW, ++questions);

	if (!link_send_later(message, size) || !link_drain())
		report_away();
}

/*
 * True: it is the answer.  The answer to a question that was cancelled comes late, and is
 * ignored.
 */
static bool
is_answer(LsMsgType type, LsSlice payload, uint64 *seq)
{
	LsGranted	answer;
	const char *wrong;
	uint64		granted = 0;

	if (type != LS_MSG_SEQ)
	{
		xact_message(type, payload, &granted);
		return false;
	}
	wrong = ls_get_granted(payload, &answer);
	if (wrong != NULL)
	{
		link_protocol_violation(wrong);
		report_away();
	}
	if (answer.xcount != questions)
		return false;
	*seq = answer.seq;
	return true;
}

/* What came, or did not; true: it was the answer. */
static bool
take_result(LinkResult result, LsMsgType type, LsSlice payload, uint64 *seq)
{
	bool		answered = false;

	switch (result)
	{
		case LINK_MESSAGE:
			answered = is_answer(type, payload, seq);
			break;
		case LINK_LOST:
			report_away();
			break;
		case LINK_NOTHING:
			break;
	}
	CHECK_FOR_INTERRUPTS();
	return answered;
}

/* Sleep until the latch is set or a message has arrived, or for so long (-1: no limit). */
static bool
sleep_for_answer(uint64 *seq, int ms)
{
	LsMsgType	type;
	LsSlice		payload;
	LinkResult	result = link_await(&type, &payload, ms, PG_WAIT_EXTENSION);

	return take_result(result, type, payload, seq);
}

/*
 * The same, when it has answered.  A node that is dropped meanwhile, and would apply nothing more,
 * loses the link.
 */
static void
sleep_until_applied(uint64 seq, int ms)
{
	LsMsgType	type;
	LsSlice		payload;
	LinkResult	result = link_receive_applying(&type, &payload, ms, PG_WAIT_EXTENSION);

	(void) take_result(result, type, payload, &seq);
}

static void
catch_up(void)
{
	uint64		seq;

	/* link_is_alive() would discard messages for a transaction in progress */
	if (!xact_is_known() && !link_is_alive(false))
		open_link();
	send_question();
	while (!sleep_for_answer(&seq, -1))
		;
	while (turn_must_wait(seq))
		sleep_until_applied(seq, -1);
}

static void
catch_up_until(MonoTime deadline)
{
	uint64		seq = 0;
	bool		answered = false;

	if (!xact_is_known() && !link_is_alive(false))
		open_link();
	send_question();
	while (!answered || turn_must_wait(seq))
	{
		long		ms = mono_ms_left(deadline);

		if (ms <= 0)
			return;
		if (answered)
			sleep_until_applied(seq, (int) ms);
		else
			answered = sleep_for_answer(&seq, (int) ms);
	}
}

/* If the replicator cannot be reached the statement runs with what this node has. */
void
causal_catch_up_for(int ms)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		catch_up_until(mono_after(ms));
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_CANNOT_CONNECT_NOW)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	AcceptInvalidationMessages();
}

/* ---------- snapshots */

/*
 * Make PostgreSQL take the transaction's snapshot again.  The old one is discarded only when the
 * new one exists: if taking it fails, the end of the transaction still uses the old one.
 */
static void
renew_transaction_snapshot(void)
{
#ifdef USE_ASSERT_CHECKING

	/*
	 * A server with assertions does not allow that.  This node has applied
	 * what the transaction must see by now, so a retry sees it.
	 */
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("the snapshot of the transaction is older than lockstep.causal_reads allows"),
			 errdetail("Meanwhile this node has applied what was missing in it."),
			 errhint("The transaction might succeed if retried.")));
#else
	Snapshot	old = GetTransactionSnapshot();

	if (IsolationIsSerializable())
		ReleasePredicateLocks(false, false);
	FirstSnapshotSet = false;
	(void) GetTransactionSnapshot();

	/*
	 * its registration belongs to no resource owner: assign it to the current
	 * one, and release it
	 */
	RegisterSnapshot(old);
	old->regd_count--;
	UnregisterSnapshot(old);
#endif
}

/* Push it, in place of the statement's own. */
static void
replace_active_snapshot(Snapshot fresh)
{
	bool		portals = ActivePortal != NULL && ActivePortal->portalSnapshot == GetActiveSnapshot();

	PopActiveSnapshot();
	PushActiveSnapshotWithLevel(fresh, portals ? ActivePortal->createLevel : GetCurrentTransactionNestLevel());
	if (portals)
		ActivePortal->portalSnapshot = GetActiveSnapshot();
}

static Snapshot
fresh_snapshot(void)
{
	Snapshot	fresh;

	if (IsolationUsesXactSnapshot() && FirstSnapshotSet)
		renew_transaction_snapshot();
	fresh = GetTransactionSnapshot();
	if (ActiveSnapshotSet())
	{
		replace_active_snapshot(fresh);
		fresh = GetActiveSnapshot();
	}
	return fresh;
}

static void
renew(QueryDesc *desc)
{
	UnregisterSnapshot(desc->snapshot);
	desc->snapshot = NULL;		/* if what follows fails */
	desc->snapshot = RegisterSnapshot(fresh_snapshot());
}

/* ---------- before a statement */

/* Only once for a statement that a rule has rewritten into several: they share a snapshot. */
static bool
is_first_of_statement(const PlannedStmt *stmt)
{
	ListCell   *lc;

	if (ActivePortal == NULL)
		return true;
	foreach(lc, ActivePortal->stmts)
	{
		const PlannedStmt *other = lfirst_node(PlannedStmt, lc);

		if (other->commandType != CMD_UTILITY)
			return other == stmt;
	}
	return true;
}

/* From REPEATABLE READ up the first statement decides, whatever the setting is later. */
static bool
is_wanted(void)
{
	just_settled = IsolationUsesXactSnapshot() && settled != ls_lxid(MyProc);
	if (IsolationUsesXactSnapshot() && !just_settled)
		return false;
	return ls_causal_reads && ls_mode() == LS_MODE_ORIGIN;
}

/*
 * The transaction has its snapshot.  Not before: if the wait fails within a savepoint, the next statement is
 * the first one.
 */
static void
settle(void)
{
	if (just_settled)
		settled = ls_lxid(MyProc);
}

/* The client has set the snapshot itself. */
static bool
imports_snapshot(const PlannedStmt *pstmt)
{
	const VariableSetStmt *stmt = (const VariableSetStmt *) pstmt->utilityStmt;

	return IsA(stmt, VariableSetStmt) && stmt->kind == VAR_SET_MULTI &&
		strcmp(stmt->name, "TRANSACTION SNAPSHOT") == 0;
}

/*
 * Waits for the end of the hold after a crash, and for what the setting requires.  True: it has
 * waited.
 */
static bool
wait_before_statement(void)
{
	bool		waited = crashhold_wait();

	if (likely(!is_wanted()))
		return waited;
	catch_up();
	return true;
}

void
causal_before_query(QueryDesc *desc)
{
	if (!is_first_of_statement(desc->plannedstmt))
	{
		just_settled = false;
		return;
	}
	if (wait_before_statement())
		renew(desc);
	settle();
}

/*
 * What was applied while the statement waited after causal_before_query() should be visible,
 * too.  Within functions, and later in a transaction with one snapshot, it is not: there
 * PostgreSQL looks at the newest version of a row when the row is changed.
 */
void
causal_renew_snapshot(QueryDesc *desc)
{
	if (!executor_is_running() && !utility_is_running() &&
		(!IsolationUsesXactSnapshot() || just_settled))
		renew(desc);
}

bool
causal_is_first_statement(void)
{
	return just_settled;
}

void
causal_before_utility(PlannedStmt *pstmt)
{
	if (!PlannedStmtRequiresSnapshot(pstmt))
	{
		if (imports_snapshot(pstmt))
			settled = ls_lxid(MyProc);
		return;
	}
	if (wait_before_statement() && ActiveSnapshotSet())
		(void) fresh_snapshot();
	settle();
}
