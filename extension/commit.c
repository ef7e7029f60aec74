/*
 * commit.c
 *	  The end of a transaction: the question, the verdict, the turn.
 *
 * In PRE_COMMIT, when deferred triggers have run and an ERROR still aborts
 * cleanly:
 *
 *	  witness, serialization check
 *		 | nothing forwarded: plain local commit
 *	  ASK  (P and the rest of the queue, in one send)
 *		 |
 *	  wait for V ----- cancel, timeout, doomed: D (withdraw), wait on
 *		 |  'r' rolled back  -> ERROR as it says
 *		 |  'w' withdrawn    -> the ERROR that was asked for
 *		 |  link lost		 -> ERROR 08007, the outcome is unknown
 *		 | 'c' committed at seq
 *	  claim the turn, write progress, wait for the turn
 *		 |  can't		  -> ERROR 08007: the cluster has it, this node will
 *		 |					 get it by apply
 *	  the local commit (asynchronous), then in XACT_EVENT_COMMIT pass the turn,
 *	  then, locks released, flush WAL and, commit_wait = applied, wait for Y.
 *
 * After the question only the replicator ends the transaction: nothing here
 * may fail between ASK and V.  40001 and 57014 are only said when the answer
 * is that it never will commit.  From claiming the turn to the commit,
 * interrupts are held, for others wait behind us.
 *
 * The flush is outside the turn because thousands of commits a second could
 * not each wait for the disk in turn; outside, they share flushes as ever.
 *
 * An apply session takes the second half of the same way: claim, progress,
 * turn.  There an interrupt is an ordinary error.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/syncrep.h"
#include "storage/lwlock.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "xact_private.h"

/* How long the answer to a withdrawal is waited for: a replicator that hangs
 * must not keep a server from shutting down. */
#define WITHDRAW_PATIENCE_MS 10000

/* How long a cancelled backend goes on waiting for its turn: it is usually
 * there at once, and 08007 is worse than a late success. */
#define TURN_PATIENCE_MS 2000

/* What remains to be done between the claim and the end of the commit. */
static struct
{
	uint64		first_claimed;	/* seqs up to claimed; one, but for an apply
								 * session that catches up */
	Place		claimed;		/* seq 0 = none */
	bool		holding;		/* we hold interrupts */
	bool		flush;			/* after the locks are released, flush */
	int			sync_wish;		/* the session's synchronous_commit */
	uint64		applied_xcount; /* then wait for Y of this transaction, 0 = no */
}			ending;

/* Asked, and neither answered "no" nor committed: not to be rolled back as if
 * nothing had been. */
static struct
{
	bool		asked;
	uint64		seq;			/* decided, at that */
}			question;

static uint64 confirmed = 0;	/* seq of this session's last local commit */
static uint64 confirmed_told = 0;	/* of that, what the replicator was told */
static uint64 last_decided = 0; /* seq of this session's last transaction that
								 * the cluster has committed, here or not */

/* ---------- interrupts while none may be taken */

static bool
wants_out(void)
{
	return ProcDiePending || QueryCancelPending || ClientConnectionLost;
}

/* Interrupts that others wait for, and that can't fail. */
void
commit_absorb_interrupts(void)
{
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	if (LogMemoryContextPending)
		ProcessLogMemoryContextInterrupt();
}

/*
 * PostgreSQL stops statement_timeout before it commits.  Here COMMIT may wait
 * for other nodes, so it gets the timeout once more: for the verdict and the
 * turn together, and again for `applied`.  After an error PostgreSQL itself
 * stops it.
 */
static bool timeout_armed = false;

static void
arm_statement_timeout(void)
{
	if (StatementTimeout <= 0 || get_timeout_active(STATEMENT_TIMEOUT))
		return;
	timeout_armed = true;
	enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
}

/*
 * The transaction commits.  Were a timeout that came too late kept, it would be
 * reported while the session is idle already, as an answer to nothing.  Returns
 * whether it came.
 */
static bool
disarm_statement_timeout(void)
{
	if (!timeout_armed)
		return false;
	timeout_armed = false;
	disable_timeout(STATEMENT_TIMEOUT, true);
	if (!get_timeout_indicator(STATEMENT_TIMEOUT, true))
		return false;
	QueryCancelPending = false;
	return true;
}

static long
ms_left(TimestampTz deadline)
{
	return Max(TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline), 0);
}

/* ---------- the question and the verdict */

/* It may be committed elsewhere; before the locks go. */
static void
begin_doubt(void)
{
	Token		token;

	if (!question.asked)
		return;
	question.asked = false;
	token = fate_token();
	doubt_begin(&token, question.seq);
}

static void
report_outcome_unknown(void)
{
	Token		token = fate_token();

	begin_doubt();
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the outcome of the transaction is unknown"),
			 errdetail("Transaction: %s. The connection to the replicator was lost while it waited for its verdict: %s",
					   fate_token_text(&token), link_lost_message()),
			 errhint("It is committed on all nodes or on none. As soon as the replicator is back, ask on any node: SELECT lockstep.outcome('%s').",
					 fate_token_text(&token))));
}

static LsCommitWait
commit_wait_wish(void)
{
	return (LsCommitWait) ls_commit_wait;
}

/*
 * The replicator may have gone while the client was thinking.  Nothing has been
 * asked yet, so that is no unknown outcome.  A transaction of one statement has
 * looked just now, in xact_writes.
 */
static void
check_link_before_asking(void)
{
	if (GetCurrentTransactionStartTimestamp() == GetCurrentStatementStartTimestamp() &&
		!ls_xact.told)
		return;
	if (!link_is_alive())
		link_report_lost();
}

static void
send_question(void)
{
	LsAsk		ask;
	size_t		size;
	StringInfo	queue = &ls_xact.queue;

	memset(&ask, 0, sizeof(ask));
	ask.xcount = ls_xact.xcount;
	ask.nstatements = ls_xact.nstatements;
	ask.wait = commit_wait_wish();

	/* what can't be applied once it is decided drops every other node */
	if (ask.wait == LS_WAIT_ORDERED && ls_xact.may_fail_elsewhere)
		ask.wait = LS_WAIT_EXECUTED;
	ask.applied = turn_applied();
	ask.confirmed = confirmed;
	confirmed_told = confirmed;

	size = ls_put_ask(NULL, 0, &ask);
	enlargeStringInfo(queue, size);
	ls_put_ask((uint8_t *) queue->data + queue->len, size, &ask);
	queue->len += size;

	ls_xact.told = true;
	question.asked = true;
	question.seq = 0;
	if (!link_send_later(queue->data, queue->len))
	{
		question.asked = false;
		link_report_lost();		/* the question did not get through */
	}
	resetStringInfo(queue);
}

/* A message while we wait.  True: it is our verdict. */
static bool
is_our_verdict(LsMsgType type, LsSlice payload, LsVerdict *verdict)
{
	const char *wrong;

	if (type == LS_MSG_APPLIED || type == LS_MSG_GRANTED || type == LS_MSG_SEQ ||
		type == LS_MSG_FATE_IS || type == LS_MSG_LEASED || type == LS_MSG_ORDERED ||
		type == LS_MSG_FACTS)
		return false;			/* late, of no interest any more */
	if (type != LS_MSG_VERDICT)
		wrong = "it sent something else than a verdict";
	else
		wrong = ls_get_verdict(payload, verdict);
	if (wrong != NULL)
	{
		link_protocol_violation(wrong);
		report_outcome_unknown();
	}
	return verdict->xcount == ls_xact.xcount;
}

static void
send_withdrawal(void)
{
	uint8_t		message[64];
	size_t		size = ls_put_number(message, sizeof(message), LS_MSG_WITHDRAW, ls_xact.xcount);

	(void) link_send_later(message, size);
}

static void
wait_for_verdict(LsVerdict *verdict)
{
	TimestampTz patience = 0;	/* set once we have withdrawn */
	LsMsgType	type;
	LsSlice		payload;

	for (;;)
	{
		switch (link_await(&type, &payload, patience ? ms_left(patience) : -1,
						   PG_WAIT_EXTENSION))
		{
			case LINK_MESSAGE:
				if (is_our_verdict(type, payload, verdict))
					return;
				break;
			case LINK_LOST:
				report_outcome_unknown();
				break;
			case LINK_NOTHING:
				break;
		}
		commit_absorb_interrupts();
		if (patience == 0 && wants_out())
		{
			send_withdrawal();
			patience = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), WITHDRAW_PATIENCE_MS);
		}
		else if (patience != 0 && ms_left(patience) == 0)
		{
			link_close();
			report_outcome_unknown();
		}
	}
}

/* We got what we asked for: the error that made us ask for it. */
static void
report_withdrawn(void)
{
	if (conflict_is_doomed())
	{
		QueryCancelPending = false;
		conflict_report_doomed();
	}
	CHECK_FOR_INTERRUPTS();
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement due to user request")));
}

/* Returns its place, or does not return. */
static Place
ask(void)
{
	LsVerdict	verdict;

	check_link_before_asking();
	doubt_check();
	send_question();
	arm_statement_timeout();
	wait_for_verdict(&verdict);

	switch (verdict.outcome)
	{
		case LS_OUTCOME_COMMITTED:
			question.seq = verdict.seq;
			break;
		case LS_OUTCOME_WITHDRAWN:
			question.asked = false;
			ls_xact.told = false;
			report_withdrawn();
			break;
		case LS_OUTCOME_ROLLED_BACK:
			question.asked = false;
			ls_xact.told = false;
			retry_note(&verdict);
			xact_report_error(&verdict.error);
			break;
	}
	last_decided = verdict.seq;
	return (Place) {verdict.seq, verdict.chain};
}

uint64
commit_last_seq(void)
{
	return last_decided;
}

/* ---------- the turn */

/* Everything up to the commit; whoever has the turn holds interrupts. */
static void
write_progress(Place place)
{
	ending.sync_wish = synchronous_commit;
	ending.flush = true;
	if (synchronous_commit != SYNCHRONOUS_COMMIT_OFF)
		(void) set_config_option("synchronous_commit", "off",
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
	progress_write(place);
	inval_collect();
}

static void
hold_until_committed(void)
{
	HOLD_INTERRUPTS();
	ending.holding = true;
}

/* The cluster has committed this transaction, this node could not. */
static void
report_not_here(uint64 seq, const char *why)
{
	begin_doubt();
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the transaction is committed by the cluster, but not by this session"),
			 errdetail("It is number %llu in the journal. %s",
					   (unsigned long long) seq, why),
			 errhint("Do not repeat it. The replicator applies it on this node.")));
}

static const char *
why_canceled(void)
{
	return timeout_armed && get_timeout_indicator(STATEMENT_TIMEOUT, false) ?
		"It was canceled by statement_timeout while it waited for its turn." :
		"It was canceled while it waited for its turn.";
}

/*
 * Wait for the turn although somebody wants us to stop.  A cancel or a timeout
 * can't undo what the cluster has committed; but nobody knows how long the
 * transactions before it take here, so after TURN_PATIENCE_MS the client is
 * told so, and this node gets it by apply.
 */
static void
wait_for_turn_held(uint64 seq)
{
	TimestampTz patience = 0;

	/*
	 * Look before sleeping: what came while we waited for the verdict has set
	 * the latch, but that is reset by now.
	 */
	while (!turn_has_come(seq))
	{
		commit_absorb_interrupts();
		if (conflict_is_before(seq))
			report_not_here(seq, "It was in the way of a transaction that comes before it.");
		if (conflict_is_doomed())
			QueryCancelPending = false; /* came too late */
		if (ProcDiePending)
			report_not_here(seq, "The connection was terminated by an administrator's command.");
		if (patience == 0 && wants_out())
			patience = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TURN_PATIENCE_MS);
		else if (patience != 0 && ms_left(patience) == 0)
			report_not_here(seq, why_canceled());
		if (turn_is_next(seq, patience ? ms_left(patience) : -1))
			break;
	}
}

static void
take_turn_decided(Place place)
{
	if (turn_claim(place.seq, place.seq) == TURN_ALREADY_APPLIED)
		report_not_here(place.seq, "The replicator has applied it on this node.");
	ending.first_claimed = place.seq;
	ending.claimed = place;
	hold_until_committed();
	write_progress(place);
	wait_for_turn_held(place.seq);
	sequence_in_turn();
	(void) disarm_statement_timeout();
}

/* Errors on the way to the turn don't mean what their code says: the
 * transaction is committed elsewhere. */
static void
take_turn_of_origin(Place place)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		take_turn_decided(place);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
			PG_RE_THROW();
		FlushErrorState();
		report_not_here(place.seq, psprintf("This session failed to commit it: %s.", edata->message));
	}
	PG_END_TRY();
	if (commit_wait_wish() == LS_WAIT_APPLIED)
		ending.applied_xcount = ls_xact.xcount;
}

static void
report_not_together(uint64 first, uint64 last, const char *why)
{
	ereport(ERROR,
			(errcode(LS_ERRCODE_NOT_TOGETHER),
			 errmsg("transactions %llu to %llu can't be applied as one on this node",
					(unsigned long long) first, (unsigned long long) last),
			 errdetail_internal("%s", why)));
}

/*
 * A second claimant is told so, and may forget the transaction; but not if the one
 * that was applied is another, which a journal of another past gave that seq.
 */
static void
report_applied(Place place)
{
	uint64		here = turn_chain_at(place.seq);

	if (here != 0 && place.chain != 0 && here != place.chain)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("this node has committed another transaction %llu than the replicator's journal has",
						(unsigned long long) place.seq),
				 errdetail("Its history is known by %016llx there, the journal's by %016llx.",
						   (unsigned long long) here, (unsigned long long) place.chain),
				 errhint("The journal is an old copy, or that of another cluster: see \"The journal is lost, or old\" in docs/operating.md.")));
	ereport(ERROR,
			(errcode(LS_ERRCODE_ALREADY_APPLIED),
			 errmsg("transaction %llu is already applied on this node",
					(unsigned long long) place.seq)));
}

void
commit_check_not_applied(Place place)
{
	if (place.seq <= turn_applied())
		report_applied(place);
}

/*
 * An apply session claims the seq that its transaction will commit at, if that
 * is known before it runs: so that it does not run what is applied already, or
 * is just being committed by its origin's backend.
 */
void
commit_claim_for_apply(uint64 first, Place place)
{
	if (ending.claimed.seq == place.seq)
		return;
	switch (turn_claim(first, place.seq))
	{
		case TURN_CLAIMED:
			ending.first_claimed = first;
			ending.claimed = place;
			break;
		case TURN_ALREADY_APPLIED:
			report_applied(place);
			break;
		case TURN_NOT_TOGETHER:
			report_not_together(first, place.seq, "Some of them are applied already, or being committed by others.");
			break;
	}
}

static void
take_turn_of_apply(Place place)
{
	commit_claim_for_apply(place.seq, place);
	write_progress(place);
	if (!turn_wait(ending.first_claimed, place.seq))
		report_not_together(ending.first_claimed, place.seq, "Commits on this node are being held at one of them.");
	sequence_in_turn();
	hold_until_committed();
}

/*
 * Between the verdict and the commit record PostgreSQL itself may still fail
 * (a disk that is full, say).  That error, on its way to the client, does not
 * mean what its code says either.
 */
void
commit_explain_error(ErrorData *edata)
{
	if (ending.claimed.seq == 0 || apply_session() ||
		edata->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
		return;
	edata->sqlerrcode = ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN;
	edata->detail = psprintf("It is number %llu in the journal. This session failed to commit it: %s.",
							 (unsigned long long) ending.claimed.seq, edata->message);
	edata->message = pstrdup("the transaction is committed by the cluster, but not by this session");
	edata->hint = pstrdup("Do not repeat it. The replicator applies it on this node.");
}

/* ---------- called at the end of a transaction, by xact.c */

static void
commit_before_apply(void)
{
	if (ls_xact.apply_place.seq != 0)
		take_turn_of_apply(ls_xact.apply_place);
	else if (apply_repairs())
		apply_require_hold();
	else if (TransactionIdIsValid(GetTopTransactionIdIfAny()) || ending.claimed.seq != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("an apply session can't commit a change that has no place in the journal")));
}

static void
commit_before_origin(void)
{
	capture_flush();
	sequence_before_commit();
	witness_check();
	if (ls_xact.nstatements == 0)
		return;
	xact_check_not_ended();
	if (!OidIsValid(ls_progress_relid()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot drop the extension lockstep in a transaction that changes something else")));

	notify_check();

	/*
	 * What the commit itself would do, and fail in, only after the verdict.
	 * Doing it twice is harmless: a temporary table is emptied once more, and
	 * one that is dropped is not looked for again.
	 */
	PreCommit_on_commit_actions();
	PreCommit_CheckForSerializationFailure();
	readkeys_forward();
	progress_lock();
	take_turn_of_origin(ask());
}

void
commit_before(void)
{
	if (IsParallelWorker())
		return;
	if (conflict_is_doomed())
		conflict_report_doomed();
	switch (ls_mode())
	{
		case LS_MODE_APPLY:
			commit_before_apply();
			break;
		case LS_MODE_ORIGIN:
			commit_before_origin();
			break;
		case LS_MODE_OFF:
			/* lockstep.replicate may have been on in this transaction */
			capture_flush();
			if (ls_xact.nstatements > 0)
				commit_before_origin();
			break;
	}
}

/*
 * The session ends: tell the last commit, or the replicator would apply it here
 * once more, to be told that it is applied.
 */
void
commit_confirm_at_exit(void)
{
	uint8_t		message[64];
	size_t		size;

	if (confirmed == confirmed_told)
		return;
	confirmed_told = confirmed;
	size = ls_put_number(message, sizeof(message), LS_MSG_CONFIRM, confirmed);
	link_send_or_close(message, size);
}

/* Let the replicator forget a transaction that it has heard of. */
static void
abandon(void)
{
	uint8_t		message[64];
	size_t		size;

	if (!ls_xact.told)
		return;
	ls_xact.told = false;
	size = ls_put_number(message, sizeof(message), LS_MSG_ABANDON, ls_xact.xcount);
	link_send_or_close(message, size);
}

void
commit_done(void)
{
	if (ending.claimed.seq == 0)
	{
		/* locks were asked for, or what was streamed was rolled back */
		abandon();
		return;
	}
	inval_send();
	turn_pass(ending.first_claimed, ending.claimed);
	question.asked = false;
	if (ls_xact.apply_place.seq == 0)
		confirmed = ending.claimed.seq;
	queue_note_commit();
	ending.claimed = (Place) {0, 0};
	if (ending.holding)
		RESUME_INTERRUPTS();
	ending.holding = false;
}

/* An ERROR has let go of held interrupts already. */
void
commit_failed(void)
{
	inval_forget();
	begin_doubt();				/* whatever the error, if it did not say so */
	if (ending.claimed.seq != 0)
		turn_release(ending.first_claimed, ending.claimed.seq);
	memset(&ending, 0, sizeof(ending));
	timeout_armed = false;
	abandon();
}

/* ---------- after the locks have been released */

/* As the commit itself would have done, had we left it synchronous. */
static void
flush_as_wished(void)
{
	if (ending.sync_wish == SYNCHRONOUS_COMMIT_OFF)
		return;
	XLogFlush(XactLastCommitEnd);
	if (ending.sync_wish > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
	{
		/* the setting itself comes back a little later, in AtEOXact_GUC */
		synchronous_commit = ending.sync_wish;
		assign_synchronous_commit(ending.sync_wish, NULL);
		SyncRepWaitForLSN(XactLastCommitEnd, true);
	}
}

/* Is waiting for "applied" to be given up?  As in SyncRepWaitForLSN. */
static bool
stop_waiting_for_applied(void)
{
	if (ProcDiePending)
	{
		ereport(WARNING,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("canceling the wait for other nodes and terminating connection due to administrator command"),
				 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
		whereToSendOutput = DestNone;
		return true;
	}
	if (QueryCancelPending)
	{
		bool		timeout = disarm_statement_timeout();

		QueryCancelPending = false;
		ereport(WARNING,
				(timeout ? errmsg("canceling the wait for other nodes due to statement timeout") :
				 errmsg("canceling the wait for other nodes due to user request"),
				 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
		return true;
	}
	return false;
}

static void
wait_for_applied(uint64 xcount)
{
	LsMsgType	type;
	LsSlice		payload;
	LsNumber	number;

	while (!stop_waiting_for_applied())
	{
		switch (link_await(&type, &payload, -1, PG_WAIT_EXTENSION))
		{
			case LINK_MESSAGE:
				if (type == LS_MSG_APPLIED && ls_get_number(payload, &number) == NULL &&
					number.value == xcount)
					return;
				break;
			case LINK_LOST:
				ereport(WARNING,
						(errcode(ERRCODE_CONNECTION_FAILURE),
						 errmsg("the connection to the replicator was lost while waiting for other nodes"),
						 errdetail("The transaction is committed, but other nodes might not have applied it yet.")));
				return;
			case LINK_NOTHING:
				break;
		}
		commit_absorb_interrupts();
	}
}

static void
flush_and_wait(uint64 xcount)
{
	flush_as_wished();
	if (xcount == 0)
		return;
	arm_statement_timeout();
	wait_for_applied(xcount);
	(void) disarm_statement_timeout();
}

/* To the server's log only, and without a second error, whatever happens. */
static void
log_failed_wait(MemoryContext context)
{
	PG_TRY();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		ereport(LOG,
				(errmsg("an error at the end of a committed transaction was ignored: %s", edata->message)));
		FreeErrorData(edata);
	}
	PG_CATCH();
	{
		FlushErrorState();
	}
	PG_END_TRY();
}

/*
 * The transaction is committed, so an ERROR in here would be a PANIC.  None of
 * what is done here is needed for it to stay: the journal has it, should this
 * node lose what it has not flushed.  So an error (out of memory, a client's
 * encoding that can't show a warning) is logged, and that is all.  Throwing it
 * has let go of held interrupts, and left locks of its own taken.
 */
static void
on_resource_release(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	uint64		xcount = ending.applied_xcount;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;
	MemoryContext context = CurrentMemoryContext;

	if (!isTopLevel || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	if (!isCommit)
		retry_wait();
	if (!ending.flush || !isCommit)
		return;
	ending.flush = false;
	ending.applied_xcount = 0;
	PG_TRY();
	{
		flush_and_wait(xcount);
	}
	PG_CATCH();
	{
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		LWLockReleaseAll();
		pgstat_report_wait_end();
		(void) disarm_statement_timeout();
		log_failed_wait(context);
		InterruptHoldoffCount = holdoff;
		QueryCancelHoldoffCount = cancel_holdoff;
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
}

void
commit_init(void)
{
	RegisterResourceReleaseCallback(on_resource_release, NULL);
}
