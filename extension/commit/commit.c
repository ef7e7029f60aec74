/*
 * commit.c
 *	  How does a transaction end?  The order of its steps, and the turn; the
 *	  question and the verdict are in verdict.c, what comes when the locks have
 *	  been released in aftercommit.c.
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
 *		 |  outdated	  -> ERROR 08007: another replicator has taken the
 *		 |					 place of the one that gave the verdict
 *	  the local commit (asynchronous), then in XACT_EVENT_COMMIT pass the turn,
 *	  then, locks released, flush WAL and, commit_wait = applied, wait for Y.
 *
 * From claiming the turn to the commit, interrupts are held, for others wait
 * behind us.
 *
 * An apply session takes the second half of the same way: claim, progress,
 * turn.  There an interrupt is an ordinary error.
 */
#include "postgres.h"

#include <signal.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "capture.h"
#include "commit.h"
#include "compat.h"
#include "ddl.h"
#include "generation.h"
#include "guc.h"
#include "inval.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "losses.h"
#include "ls_link.h"
#include "mode.h"
#include "monotonic.h"
#include "points.h"
#include "progress.h"
#include "readkeys.h"
#include "request.h"
#include "sequence.h"
#include "session.h"
#include "turn.h"
#include "walwriter.h"
#include "xact_state.h"

/* How long a cancelled backend goes on waiting for its turn: it is usually
 * there at once, and 08007 is worse than a late success. */
#define TURN_PATIENCE_MS 2000

/* How long a repair waits for those who were about to commit. */
#define CLAIM_AHEAD_MS 10000

/* From the claim to the end of the commit. */
static struct
{
	uint64		first_claimed;	/* seqs up to claimed; one, but for an apply
								 * session that catches up */
	JournalPosition claimed;	/* seq 0 = none */
	bool		holding;		/* we hold interrupts */
}			ending;

/* ---------- the turn */

/* Everything up to the commit; the process that has the turn holds interrupts. */
static void
write_progress(JournalPosition position)
{
	aftercommit_begin();
	progress_write(position);
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
	verdict_begin_doubt();
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the transaction is committed by the cluster, but not by this session"),
			 errdetail("It is number %llu in the journal. %s",
					   (unsigned long long) seq, why),
			 errhint("Do not retry the transaction. The replicator applies it on this node.")));
}

static const char *
why_canceled(void)
{
	return interrupts_timed_out() ?
		"It was canceled by statement_timeout while it waited for its turn." :
		"It was canceled while it waited for its turn.";
}

/*
 * Wait for the turn although a cancel or a timeout wants us to stop.  A cancel or a timeout
 * cannot undo what the cluster has committed; but it is not known how long the
 * transactions before it take here, so after TURN_PATIENCE_MS the client is
 * told so, and this node gets it by apply.  False: another replicator leads now.
 */
static bool
wait_for_turn_held(uint64 seq)
{
	MonoTime	patience = 0;

	/*
	 * Look before sleeping: what came while we waited for the verdict has set
	 * the latch, but that is reset by now.
	 */
	while (!turn_has_come(seq))
	{
		interrupts_absorb();
		if (generation_link_is_outdated())
			return false;
		if (lockconflict_is_before(seq))
			report_not_here(seq, "It was in the way of a transaction that comes before it.");
		if (lockconflict_is_doomed())
			QueryCancelPending = false; /* came too late */
		if (ProcDiePending)
			report_not_here(seq, "The connection was terminated by an administrator's command.");
		if (patience == 0 && interrupts_wants_out())
			patience = mono_after(TURN_PATIENCE_MS);
		else if (patience != 0 && mono_ms_left(patience) == 0)
			report_not_here(seq, why_canceled());
		if (turn_is_next(seq, patience ? mono_ms_left(patience) : -1))
			break;
	}
	return true;
}

/*
 * Another process has committed at our seq: the replicator, on this node; or it is another
 * transaction, and our verdict that of a replicator with another past.
 */
static void
report_applied_here(JournalPosition position)
{
	uint64		here = turn_chain_at(position.seq);

	if (here == 0 || position.chain == 0 || here == position.chain)
		report_not_here(position.seq, "The replicator has applied it on this node.");
	ereport(LOG,
			(errmsg("this node has committed another transaction %llu than the verdict says",
					(unsigned long long) position.seq),
			 errdetail("Its history is known by %016llx there, the verdict's by %016llx.",
					   (unsigned long long) here, (unsigned long long) position.chain)));
	/* without generations it is not known which of the two is outdated */
	if (generation_of_link() != 0)
		turn_note_divergence();
	link_close();
	verdict_report_outdated();
}

/* False: another replicator leads now. */
static bool
claim_decided(JournalPosition position)
{
	switch (turn_claim(position.seq, position.seq, generation_of_link()))
	{
		case TURN_CLAIMED:
		case TURN_NOT_TOGETHER: /* of a range only */
			break;
		case TURN_ALREADY_APPLIED:
			report_applied_here(position);
			break;
		case TURN_OUTDATED:
			return false;
	}
	ending.first_claimed = position.seq;
	ending.claimed = position;
	return true;
}

/* The replicator that leads now is to say that it has the transaction, too. */
static void
outlast_generation(JournalPosition position)
{
	if (ending.claimed.seq != 0)
		turn_release(ending.first_claimed, ending.claimed.seq);
	ending.claimed.seq = 0;
	if (!verdict_outlast_generation(position))
		verdict_report_outdated();
}

static void
take_turn_decided(JournalPosition position)
{
	bool		written = false;

	for (;;)
	{
		if (claim_decided(position))
		{
			if (!written)
			{
				hold_until_committed();
				LS_POINT(CLAIMED);
				write_progress(position);
				LS_POINT(PROGRESS);
				written = true;
			}
			if (wait_for_turn_held(position.seq))
				break;
		}
		outlast_generation(position);
	}
	sequence_in_turn();
	(void) interrupts_disarm_timeout();
	ls_forget_transaction_timeout();	/* it came too late */
	walwriter_spare();
	LS_POINT(TURN);
}

/* Errors on the way to the turn don't mean what their code says: the
 * transaction is committed elsewhere. */
static void
take_turn_of_origin(JournalPosition position)
{
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		take_turn_decided(position);
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		if (edata->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
			PG_RE_THROW();
		FlushErrorState();
		report_not_here(position.seq, psprintf("This session failed to commit it: %s.%s%s", edata->message,
											   edata->detail != NULL ? " " : "", edata->detail != NULL ? edata->detail : ""));
	}
	PG_END_TRY();
	if (ls_commit_wait == LS_WAIT_APPLIED)
		aftercommit_wait_applied(ls_xact.xcount);
}

static void
report_not_together(uint64 first, uint64 last, const char *why)
{
	ereport(ERROR,
			(errcode(LS_ERRCODE_NOT_TOGETHER),
			 errmsg("transactions %llu to %llu cannot be applied as one on this node",
					(unsigned long long) first, (unsigned long long) last),
			 errdetail_internal("%s", why)));
}

/*
 * A second claimant is told so, and may forget the transaction; but not if the one
 * that was applied is another, which a journal of another past gave that seq.
 */
static void
report_applied(JournalPosition position)
{
	uint64		here = turn_chain_at(position.seq);

	if (here != 0 && position.chain != 0 && here != position.chain)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("this node has committed another transaction %llu than the replicator's journal has",
						(unsigned long long) position.seq),
				 errdetail("Its history is known by %016llx there, the journal's by %016llx.",
						   (unsigned long long) here, (unsigned long long) position.chain),
				 errhint("The journal is an old copy, or that of another cluster: see \"The journal is lost, or old\" in docs/operating.md.")));
	ereport(ERROR,
			(errcode(LS_ERRCODE_ALREADY_APPLIED),
			 errmsg("transaction %llu is already applied on this node",
					(unsigned long long) position.seq)));
}

void
commit_check_not_applied(JournalPosition position)
{
	if (position.seq <= turn_applied())
		report_applied(position);
}

/*
 * An apply session claims the seq that its transaction will commit at, if that
 * is known before it runs: so that it does not run what is applied already, or
 * is just being committed by its origin's backend.
 */
void
commit_claim_for_apply(uint64 first, JournalPosition position)
{
	if (ending.claimed.seq == position.seq)
		return;
	switch (turn_claim(first, position.seq, generation_of_session()))
	{
		case TURN_CLAIMED:
			ending.first_claimed = first;
			ending.claimed = position;
			LS_POINT(APPLY_CLAIMED);
			break;
		case TURN_ALREADY_APPLIED:
			report_applied(position);
			break;
		case TURN_NOT_TOGETHER:
			report_not_together(first, position.seq, "Some of them are applied already, or being committed by others.");
			break;
		case TURN_OUTDATED:
			generation_require();
			elog(ERROR, "this node does not know its generation");
			break;
	}
}

/*
 * A repair makes this node what the others are at a place ahead of it.  A backend of
 * the node may have a verdict for a seq up to there, and wait for its turn: it is
 * cancelled, which tells its client that the cluster has its transaction.
 */
void
commit_claim_ahead(JournalPosition position)
{
	uint64		applied = turn_applied();
	MonoTime	until = mono_after(CLAIM_AHEAD_MS);
	int			other;

	session_require_hold();
	if (position.seq <= applied)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this node has applied %llu already", (unsigned long long) applied)));
	while ((other = turn_claim_ahead(position.seq)) != 0)
	{
		if (mono_ms_left(until) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("process %d of this node is about to commit a transaction that comes before", other)));
		if (other > 0)
			(void) kill(other, SIGINT);
		turn_wait_applied_for(applied + 1, 100);
		CHECK_FOR_INTERRUPTS();
	}
	ending.first_claimed = applied + 1;
	ending.claimed = position;
}

bool
commit_is_claimed(void)
{
	return ending.claimed.seq != 0 && !session_repairs();
}

static void
take_turn_of_apply(JournalPosition position)
{
	commit_claim_for_apply(position.seq, position);
	write_progress(position);
	if (!turn_wait(ending.first_claimed, position.seq))
		report_not_together(ending.first_claimed, position.seq, "Commits on this node are being held at one of them.");
	sequence_in_turn();
	hold_until_committed();
	walwriter_spare();
	LS_POINT(APPLY_TURN);
}

/*
 * Between the verdict and the commit record PostgreSQL itself may still fail
 * (a disk that is full, say).  That error, on its way to the client, does not
 * mean what its code says either.
 */
void
commit_explain_error(ErrorData *edata)
{
	if (ending.claimed.seq == 0 || session_applies() ||
		edata->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
		return;
	edata->sqlerrcode = ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN;
	edata->detail = psprintf("It is number %llu in the journal. This session failed to commit it: %s.",
							 (unsigned long long) ending.claimed.seq, edata->message);
	edata->message = pstrdup("the transaction is committed by the cluster, but not by this session");
	edata->hint = pstrdup("Do not retry the transaction. The replicator applies it on this node.");
}

/* ---------- called at the end of a transaction, by xact.c */

static void
commit_before_apply(void)
{
	if (ls_xact.apply_position.seq != 0)
		take_turn_of_apply(ls_xact.apply_position);
	else if (session_repairs())
	{
		session_require_hold();
		if (ending.claimed.seq == 0)
			return;
		write_progress(ending.claimed);
		hold_until_committed();
	}
	else if (TransactionIdIsValid(GetTopTransactionIdIfAny()) || ending.claimed.seq != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("an apply session cannot commit a change that has no position in the journal")));
}

static void
forward_read_keys(void)
{
	LsQuery		queries[READKEYS_MAX_QUERIES];
	int			n = readkeys_queries(queries);

	for (int i = 0; i < n; i++)
		xact_forward(&queries[i]);
}

static void
commit_before_origin(void)
{
	capture_flush();
	ddlconcurrent_before_commit();
	sequence_before_commit();
	walwitness_check();
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
	forward_read_keys();
	progress_lock();
	take_turn_of_origin(verdict_ask());
}

void
commit_before(void)
{
	if (IsParallelWorker())
		return;
	if (lockconflict_is_doomed())
		lockconflict_report_doomed();
	if (unlikely(mode_has_local_change()))
		request_note_local_change();
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

void
commit_done(void)
{
	bool		applied = session_applies();

	aftercommit_restore();
	if (ending.claimed.seq == 0)
	{
		/* locks were asked for, or what was streamed was rolled back */
		verdict_abandon();
		return;
	}
	if (applied)
		LS_POINT(APPLY_COMMITTED);
	else
		LS_POINT(COMMITTED);
	inval_send();
	turn_pass(ending.first_claimed, ending.claimed);
	if (applied)
		LS_POINT(APPLY_PASSED);
	else
		LS_POINT(PASSED);
	verdict_committed(applied ? 0 : ending.claimed.seq);
	losses_note_commit();
	ending.claimed = (JournalPosition) {0, 0};
	if (ending.holding)
		RESUME_INTERRUPTS();
	ending.holding = false;
}

/* An ERROR has let go of held interrupts already. */
void
commit_failed(void)
{
	inval_forget();
	verdict_begin_doubt();		/* whatever the error, if it did not say so */
	if (ls_xact.told)
		LS_POINT(ROLLING_BACK);
	if (ending.claimed.seq != 0)
		turn_release(ending.first_claimed, ending.claimed.seq);
	memset(&ending, 0, sizeof(ending));
	aftercommit_forget();
	interrupts_forget_timeout();
	verdict_abandon();
}
