/*
 * session_outcome.c
 *	  Answering which outcome an earlier transaction had, for backends that lost the
 *	  answer to their COMMIT.
 *
 * A transaction is decided (the sequencer remembers those of minutes, decided.h), open, or will never be
 * decided: it uses one connection only, by which it was announced, and ends with that connection
 * (xact_told_elsewhere() in the extension).  So answers need not be remembered, and asking
 * changes nothing:
 *
 *	 its backend is connected, and has finished that number		aborted
 *	 ..., and it is the open transaction						in progress
 *	 ..., and has not finished that number						in progress: its messages
 *																may be under way
 *	 its backend is not connected								aborted
 *
 * A backend numbers its transactions, and when it connects it states up to which number they
 * have ended.  A backend that rolled back without knowing the outcome has closed its connection,
 * or is about to.
 *
 * Another backend of the same node may ask about a transaction whose backend has given up
 * (indoubt.c of the extension).  That ends the session of that backend, so that the answer is
 * "in progress" only until the record is durable.
 */

#include "node.h"
#include "sequencer.h"
#include "session_private.h"

/* May it still be asked for by that session? */
static bool
may_come(const Session *s, const LsIdentity *id)
{
	if (s == NULL || s->boot != id->boot)
		return false;
	if (s->tx != NULL && s->tx->xcount == id->xcount)
		return s->tx->seq == 0;
	return id->xcount > s->last_xcount;
}

static Session *
session_of(const LsIdentity *id)
{
	int			node = node_find(id->node);

	return node >= 0 ? session_table_find(node, id->pid) : NULL;
}

/* Of one that cannot come any more. */
static LsPastOutcome
outcome_of(const LsIdentity *id, uint64_t since, uint64_t *seq)
{
	*seq = sequencer_find_decided(id);
	if (*seq != 0)
		return *seq <= sequencer_last_durable() ? LS_PAST_COMMITTED : LS_PAST_IN_PROGRESS;
	*seq = sequencer_last_decided();
	if (since + 1 < sequencer_decided_first())
		return LS_PAST_UNKNOWN;
	return LS_PAST_ABORTED;
}

LsPastOutcome
session_past(const LsIdentity *id, uint64_t since, uint64_t *seq)
{
	if (may_come(session_of(id), id))
		return LS_PAST_IN_PROGRESS;
	return outcome_of(id, since, seq);
}

bool
session_connected(const LsIdentity *id)
{
	const Session *s = session_of(id);

	return s != NULL && s->boot == id->boot;
}

static LsPastOutcome
fate_of(const LsOutcomeQuestion *q, uint64_t *seq)
{
	const LsIdentity *id = &q->identity;
	Session    *s = session_of(id);

	if (may_come(s, id))
	{
		if (!q->gave_up)
			return LS_PAST_IN_PROGRESS;
		session_end(s);
	}
	return outcome_of(id, q->since, seq);
}

void
session_handle_outcome_question(Session *s, LsSlice payload)
{
	LsOutcomeQuestion q;
	LsOutcomeAnswer answer;
	const char *wrong = ls_get_outcome_question(payload, &q);
	int			node = wrong == NULL ? node_find(q.identity.node) : -1;

	if (wrong == NULL && q.gave_up && node >= 0 && node != s->node)
		wrong = "it gives up a transaction of another node";
	if (!session_decoded(s, "question for an outcome", wrong))
		return;
	answer.question = q.question;
	answer.seq = sequencer_last_decided();
	answer.fate = fate_of(&q, &answer.seq);
	session_tell_outcome(s, &answer);
}
