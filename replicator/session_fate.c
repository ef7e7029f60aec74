/*
 * session_fate.c
 *	  What became of a transaction?  Asked by whoever lost the answer to a COMMIT.
 *
 * It is decided (the sequencer knows the last million), or a session has it, or
 * it never will be: a session that ends takes what is undecided with it.  But
 * its question may still be on the way, in a socket that is read after this one.
 * So a transaction that was called aborted is remembered (`fenced`), and if it
 * asks after all, it is refused.  Only a backend that lives can still ask, and
 * one that asked long ago has been heard: the last FENCED will do.
 *
 * Whoever asks for a backend that has given up (rolled back without knowing)
 * ends that backend's session, which is of no use any more: so the answer is
 * never "in progress" for longer than its record takes to become durable.
 */

#include "node.h"
#include "sequencer.h"
#include "session_private.h"

#define FENCED 4096

typedef struct Fence
{
	int			node;
	uint64_t	boot;
	uint32_t	pid;
	uint64_t	xcount;
} Fence;

static Fence fences[FENCED];	/* a ring */
static size_t nfences;			/* ever */

bool
session_is_fenced(const Session *s, uint64_t xcount)
{
	size_t		n = nfences < FENCED ? nfences : FENCED;

	for (size_t i = 0; i < n; i++)
	{
		const Fence *f = &fences[i];

		if (f->xcount == xcount && f->pid == s->pid && f->boot == s->boot && f->node == s->node)
			return true;
	}
	return false;
}

static void
fence(int node, const LsIdentity *id)
{
	fences[nfences++ % FENCED] = (Fence) {node, id->boot, id->pid, id->xcount};
}

static LsFate
fate_of(const LsFateQuestion *q, uint64_t *seq)
{
	const LsIdentity *id = &q->identity;
	int			node = node_find(id->node);
	Session    *s = node >= 0 ? table_find(node, id->pid) : NULL;

	if (s != NULL && s->boot == id->boot && s->tx != NULL && s->tx->xcount == id->xcount && s->tx->seq == 0)
	{
		if (!q->gave_up)
			return LS_FATE_IN_PROGRESS;
		session_end(s);
	}
	*seq = sequencer_find_decided(id);
	if (*seq != 0)
		return *seq <= sequencer_last_durable() ? LS_FATE_COMMITTED : LS_FATE_IN_PROGRESS;
	*seq = sequencer_last_decided();
	if (q->since + 1 < sequencer_decided_first())
		return LS_FATE_UNKNOWN;
	if (node >= 0)
		fence(node, id);
	return LS_FATE_ABORTED;
}

void
session_handle_fate(Session *s, LsSlice payload)
{
	LsFateQuestion q;
	LsFateAnswer answer;
	const char *wrong = ls_get_fate_question(payload, &q);
	uint8_t		bytes[64];

	if (wrong != NULL)
	{
		session_fail(s, "08P01", NULL, "malformed question for an outcome: %s", wrong);
		return;
	}
	answer.question = q.question;
	answer.seq = sequencer_last_decided();
	answer.fate = fate_of(&q, &answer.seq);
	session_send(s, bytes, ls_put_fate_answer(bytes, sizeof(bytes), &answer));
}
