/*
 * verdict.c
 *	  May this transaction commit?  The question, the verdict, and the case that the
 *	  outcome cannot be known.
 *
 * After the question only the replicator ends the transaction: nothing here may fail between
 * ASK and V.  40001 and 57014 are reported only if the answer is that it will never
 * commit.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "commit.h"
#include "contended.h"
#include "delivery.h"
#include "generation.h"
#include "guc.h"
#include "indoubt.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"
#include "outcome.h"
#include "points.h"
#include "request.h"
#include "turn.h"
#include "xact_state.h"

/* How long the answer to a withdrawal is waited for: a replicator that hangs
 * must not keep a server from shutting down. */
#define WITHDRAW_PATIENCE_MS 10000

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

/* ---------- the question */

/* It may be committed elsewhere; before the locks go. */
void
verdict_begin_doubt(void)
{
	if (question.asked)
	{
		Token		token = outcome_token();

		question.asked = false;
		indoubt_begin(&token, question.seq);
	}
	delivery_end();
}

static void
report_outcome_unknown(const char *why)
{
	Token		token = outcome_token();

	verdict_begin_doubt();
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the outcome of the transaction is unknown"),
			 errdetail("Transaction: %s. The connection to the replicator was lost while it waited for its verdict: %s",
					   outcome_token_text(&token), why),
			 errhint("It is committed on all nodes or on none. As soon as the replicator is back, ask on any node: SELECT lockstep.outcome('%s').",
					 outcome_token_text(&token))));
}

/*
 * The verdict came from a replicator whose place another has taken meanwhile: what
 * it decided counts if the other one has it, too, and not otherwise.
 */
void
verdict_report_outdated(void)
{
	Token		token = outcome_token();

	question.seq = 0;			/* the number may be another transaction's */
	last_decided = confirmed;
	verdict_begin_doubt();
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the outcome of the transaction is unknown"),
			 errdetail("Transaction: %s. The replicator that gave the verdict is outdated: another one has taken its place.",
					   outcome_token_text(&token)),
			 errhint("It is committed on all nodes or on none. As soon as a replicator is there, ask on any node: SELECT lockstep.outcome('%s').",
					 outcome_token_text(&token))));
}

/*
 * The replicator may have gone while the client was thinking.  Nothing has been
 * asked yet, so that is no unknown outcome; and if the replicator has heard nothing of the
 * transaction, another connection will do.  A transaction of one statement has
 * looked just now, in xact_writes.
 */
static void
check_link_before_asking(void)
{
	if (GetCurrentTransactionStartTimestamp() == GetCurrentStatementStartTimestamp() &&
		!ls_xact.told)
		return;
	if (ls_xact.told)
	{
		if (!link_is_alive(true) || xact_told_elsewhere())
			xact_report_lost();
		return;
	}
	xact_connect();
}

/*
 * 0 if it is not long.  The server knows by no other clock when a transaction began; if
 * that is set meanwhile, other nodes have more or less patience with this one.
 */
static uint64
took_ms(void)
{
	TimestampTz now = GetCurrentTimestamp();	/* wall clock */
	long		ms = TimestampDifferenceMilliseconds(GetCurrentTransactionStartTimestamp(), now);

	return ms > LS_QUICK_MS ? ms : 0;
}

/*
 * By another backend of this node, for a row.  Who waited for a subtransaction waits for the transaction
 * since that one was released (CommitSubTransaction()).
 */
static bool
is_waited_for(void)
{
	TransactionId xid = GetTopTransactionIdIfAny();
	LOCKTAG		tag;

	if (!TransactionIdIsValid(xid))
		return false;
	SET_LOCKTAG_TRANSACTION(tag, xid);
	return LockHasWaiters(&tag, ExclusiveLock, false);
}

/*
 * False: the question did not get through.
 *
 * It is awaited only when it has, although a verdict by an apply session may then come a moment too
 * soon, and be lost: a replicator that finds us waiting, and does not know the question, says that it
 * never will be decided.  That must not be said of one that is sent again, by another link.
 */
static bool
send_queue(void)
{
	ls_xact.told = true;
	ls_xact.told_by = link_number();
	question.seq = 0;
	LS_POINT(ASKING);
	question.asked = link_send_later(ls_xact.queue.data, ls_xact.queue.len);
	if (question.asked)
		delivery_await(ls_xact.xcount, ls_xact.since);
	return question.asked;
}

static void
send_question(void)
{
	LsAsk		ask;
	size_t		size;
	StringInfo	queue = &ls_xact.queue;
	bool		told = ls_xact.told;

	memset(&ask, 0, sizeof(ask));
	ask.xcount = ls_xact.xcount;
	ask.nstatements = ls_xact.nstatements;
	ask.certain = ls_commit_wait == LS_COMMIT_CERTIFIED && xact_is_certain();
	ask.wait = ls_commit_wait == LS_COMMIT_CERTIFIED ? LS_WAIT_EXECUTED : (LsCommitWait) ls_commit_wait;

	/* what can't be applied once it is decided drops every other node */
	if (ask.wait == LS_WAIT_ORDERED && ls_xact.may_fail_elsewhere)
		ask.wait = LS_WAIT_EXECUTED;
	ask.applied = turn_applied();
	ask.confirmed = confirmed;
	ask.took_ms = took_ms();
	ask.waited_for = is_waited_for();
	confirmed_told = confirmed;

	size = ls_put_ask(NULL, 0, &ask);
	enlargeStringInfo(queue, size);
	ls_put_ask((uint8_t *) queue->data + queue->len, size, &ask);
	queue->len += size;

	if (!send_queue())
	{
		if (told)
			xact_report_lost();
		ls_xact.told = false;
		xact_connect();
		if (!send_queue())
			xact_report_lost();
	}
	resetStringInfo(queue);
}

/* ---------- the verdict */

/* A message while we wait.  True: it is our verdict. */
static bool
is_our_verdict(LsMsgType type, LsSlice payload, LsVerdict *verdict)
{
	const char *wrong;

	if (ls_message_is_late(type))
		return false;			/* of no interest any more */
	if (type != LS_MSG_VERDICT)
		wrong = "it sent something else than a verdict";
	else
		wrong = ls_get_verdict(payload, verdict);
	if (wrong != NULL)
	{
		link_protocol_violation(wrong);
		report_outcome_unknown(link_lost_message());
	}
	return verdict->xcount == ls_xact.xcount;
}

static void
send_withdrawal(void)
{
	uint8_t		message[64];
	size_t		size = ls_put_number(message, sizeof(message), LS_MSG_WITHDRAW, ls_xact.xcount);

	(void) link_send_later(message, size);
	LS_POINT(WITHDRAWN);
}

/* ---------- the link was lost meanwhile */

/* It was not decided, and cannot be: its link was another. */
static void
never_decided(LsVerdict *verdict)
{
	memset(verdict, 0, sizeof(*verdict));
	verdict->xcount = ls_xact.xcount;
	verdict->outcome = LS_OUTCOME_ROLLED_BACK;
	verdict->error.sqlstate = ls_slice_of("40001");
	verdict->error.message = ls_slice_of("could not commit, because the replicator was lost before it had decided");
	verdict->error.detail = ls_slice_of("The transaction is rolled back on all nodes.");
	verdict->error.hint = ls_slice_of("The transaction might succeed if retried.");
}

/* It has come by an apply session (delivery.c), which knows it from another link. */
static bool
is_delivered(LsVerdict *verdict)
{
	JournalPosition position;
	uint64		generation;

	if (!delivery_take(&position, &generation))
		return false;
	if (position.seq == 0)
	{
		link_close();
		never_decided(verdict);
		return true;
	}
	memset(verdict, 0, sizeof(*verdict));
	verdict->xcount = ls_xact.xcount;
	verdict->outcome = LS_OUTCOME_COMMITTED;
	verdict->seq = position.seq;
	verdict->chain = position.chain;
	link_close();				/* nothing more is to come for it there */
	generation_outlast_link(generation);
	return true;
}

/* Ask the replicator, if it is back, what has become of it.  False: no answer. */
static bool
ask_outcome(MonoTime deadline, LsPastOutcome *outcome, uint64 *seq)
{
	MemoryContext context = CurrentMemoryContext;
	uint32		holdoff = InterruptHoldoffCount;
	Token		token = outcome_token();
	volatile bool answered = false;

	HOLD_INTERRUPTS();			/* an ERROR of theirs would say "aborted" */
	PG_TRY();
	{
		if (!link_is_open())
			link_open_again(deadline);
		answered = request_past(&token, deadline, outcome, seq);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	InterruptHoldoffCount = holdoff;
	return answered;
}

/*
 * Does somebody want us to stop?  A transaction that is known to be decided gives way only to what
 * comes before it: what comes after it waits for it anyway.
 */
static bool
must_give_up(void)
{
	if (question.seq != 0)
	{
		if (lockconflict_is_before(question.seq))
			return true;
		if (lockconflict_is_doomed())
			QueryCancelPending = false;
	}
	return interrupts_wants_out();
}

/*
 * The replicator may have decided, or not.  For lockstep.failover_wait there are two ways to know:
 * if so, the seq comes by an apply session of this node; if not, the replicator says so as soon as
 * this node is online again.  False: it remains unknown.
 */
static bool
outlast_link(LsVerdict *verdict)
{
	MonoTime	deadline = mono_after(ls_failover_wait);
	LsPastOutcome outcome;
	uint64		seq;

	for (long ms = 0; !is_delivered(verdict); ms = link_pause(ms, deadline))
	{
		interrupts_absorb();
		if (must_give_up() || mono_ms_left(deadline) == 0)
			return false;
		if (!ask_outcome(deadline, &outcome, &seq))
		{
			if (!link_loss_is_passing())
				return false;
		}
		else if (outcome == LS_PAST_ABORTED)
		{
			never_decided(verdict);
			return true;
		}
		else if (outcome == LS_PAST_UNKNOWN)
			return false;
		else if (outcome == LS_PAST_COMMITTED)
			question.seq = seq; /* for the doubt, if it is not delivered in
								 * time */
	}
	return true;
}

/*
 * We have a verdict, and another replicator has taken the place of the one that gave it.  If it
 * has the transaction at the same place, it tells so by an apply session of this node, as it does
 * with those that have none.  The caller has released its claim.
 */
bool
verdict_outlast_generation(JournalPosition position)
{
	LsVerdict	verdict;

	link_close();
	return outlast_link(&verdict) && verdict.outcome == LS_OUTCOME_COMMITTED &&
		verdict.seq == position.seq && verdict.chain == position.chain;
}

static void
wait_for_verdict(LsVerdict *verdict)
{
	MonoTime	patience = 0;	/* set once we have withdrawn */
	LsMsgType	type;
	LsSlice		payload;
	const char *why;

	for (;;)
	{
		switch (link_await(&type, &payload, patience ? mono_ms_left(patience) : -1,
						   PG_WAIT_EXTENSION))
		{
			case LINK_MESSAGE:
				if (is_our_verdict(type, payload, verdict))
					return;
				break;
			case LINK_LOST:
				why = pstrdup(link_lost_message()); /* and not why it can't be
													 * had again */
				if (patience != 0 || !outlast_link(verdict))
					report_outcome_unknown(why);
				return;
			case LINK_NOTHING:
				if (is_delivered(verdict))
					return;
				break;
		}
		interrupts_absorb();
		if (patience == 0 && interrupts_wants_out())
		{
			send_withdrawal();
			patience = mono_after(WITHDRAW_PATIENCE_MS);
		}
		else if (patience != 0 && mono_ms_left(patience) == 0)
		{
			link_close();
			report_outcome_unknown("It did not answer a withdrawal.");
		}
	}
}

/* We got what we asked for: the error that made us ask for it. */
static void
report_withdrawn(void)
{
	if (lockconflict_is_doomed())
	{
		QueryCancelPending = false;
		lockconflict_report_doomed();
	}
	CHECK_FOR_INTERRUPTS();
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("canceling statement due to user request")));
}

/* Returns its place, or does not return. */
JournalPosition
verdict_ask(void)
{
	LsVerdict	verdict;

	interrupts_arm_timeout();
	check_link_before_asking();
	indoubt_check();
	send_question();
	LS_POINT(ASKED);
	wait_for_verdict(&verdict);

	switch (verdict.outcome)
	{
		case LS_OUTCOME_COMMITTED:
			question.seq = verdict.seq;
			contended_note(verdict.contended);
			break;
		case LS_OUTCOME_WITHDRAWN:
			question.asked = false;
			delivery_end();
			ls_xact.told = false;
			report_withdrawn();
			break;
		case LS_OUTCOME_ROLLED_BACK:
			question.asked = false;
			delivery_end();
			ls_xact.told = false;
			retry_note(&verdict);
			contended_note(verdict.contended);
			xact_report_error(&verdict.error);
			break;
	}
	last_decided = verdict.seq;
	LS_POINT(VERDICT);
	return (JournalPosition) {verdict.seq, verdict.chain};
}

uint64
verdict_last_seq(void)
{
	return last_decided;
}

/* ---------- the end */

/* seq 0: an apply session's, of which the replicator need not be told. */
void
verdict_committed(uint64 seq)
{
	question.asked = false;
	if (seq == 0)
		return;
	delivery_end();
	confirmed = seq;
}

/*
 * Tell the last commit now, not with the next question.  At the session's end, or the replicator
 * would apply it here once more, to be told that it is applied.
 */
void
verdict_confirm(void)
{
	uint8_t		message[64];
	size_t		size;

	if (confirmed == confirmed_told)
		return;
	confirmed_told = confirmed;
	LS_POINT(CONFIRMING);
	size = ls_put_number(message, sizeof(message), LS_MSG_CONFIRM, confirmed);
	link_send_or_close(message, size);
}

/* Let the replicator forget a transaction that it has heard of. */
void
verdict_abandon(void)
{
	uint8_t		message[64];
	size_t		size;

	if (!ls_xact.told)
		return;
	ls_xact.told = false;
	size = ls_put_number(message, sizeof(message), LS_MSG_ABANDON, ls_xact.xcount);
	link_send_or_close(message, size);
}
