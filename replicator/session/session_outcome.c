/*
 * session_outcome.c
 *	  What became of a transaction?  Asked by whoever lost the answer to a COMMIT.
 *
 * It is decided (the sequencer knows the last million), or it is open, or it never
 * will be decided: a transaction comes by one connection only, which the replicator
 * was told of it by, and ends with that (xact_told_elsewhere() in the extension).  So
 * nothing has to be remembered of an answer, and asking changes nothing:
 *
 *	 its backend is connected, and says its number is over		aborted
 *	 ..., it is the one that is open							in progress
 *	 ..., it has a number that is not over yet					in progress: its messages
 *																may be on the way
 *	 its backend is not connected								aborted
 *
 * Which numbers are over: a backend counts, and says when it connects from where on.
 * One that rolled back without knowing has closed its connection, or does so now.
 *
 * Whoever asks for a backend that has given up (rolled back without knowing: only
 * other backends of its node do, see doubt.c of the extension) ends that backend's session,
 * which is of no use any more: so the answer is never "in progress" for longer than
 * its record takes to become durable.
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

static LsPastOutcome
fate_of(const LsOutcomeQuestion *q, uint64_t *seq)
{
	const LsIdentity *id = &q->identity;
	int			node = node_find(id->node);
	Session    *s = node >= 0 ? session_table_find(node, id->pid) : NULL;

	if (may_come(s, id))
	{
		if (!q->gave_up)
			return LS_PAST_IN_PROGRESS;
		session_end(s);
	}
	*seq = sequencer_find_decided(id);
	if (*seq != 0)
		return *seq <= sequencer_last_durable() ? LS_PAST_COMMITTED : LS_PAST_IN_PROGRESS;
	*seq = sequencer_last_decided();
	if (q->since + 1 < sequencer_decided_first())
		return LS_PAST_UNKNOWN;
	return LS_PAST_ABORTED;
}

void
session_handle_outcome_question(Session *s, LsSlice payload)
{
	LsOutcomeQuestion q;
	LsOutcomeAnswer answer;
	const char *wrong = ls_get_outcome_question(payload, &q);
	uint8_t		bytes[64];

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed question for an outcome: %s", wrong);
		return;
	}
	answer.question = q.question;
	answer.seq = sequencer_last_decided();
	answer.fate = fate_of(&q, &answer.seq);
	session_send(s, bytes, ls_put_outcome_answer(bytes, sizeof(bytes), &answer));
}
