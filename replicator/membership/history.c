/*
 * history.c
 *	  Is the history that a node has applied a part of the journal's?
 *
 * A node stores its position: the seq that it has applied and the chain at that seq
 * (journal.h).  It can differ from the journal in three ways:
 *
 *	 it is before the journal's first record	what it lacks is gone: refused
 *	 its chain differs at its seq				another history: refused
 *	 it is behind the journal's end				the journal has lost acknowledged
 *												transactions: refused
 *
 * In the last case, continuing with nodes that have applied less would lose those
 * transactions for good and reuse their seqs.  So no node goes online until the
 * journal is restored or that node is dropped by command.  For the same reason the
 * first node goes online only after all others have been looked at or could not be
 * reached.  Once this replicator has decided something, both sides have acknowledged
 * transactions: then only that node is refused, and the operator has to choose.
 *
 * A node that can't be reached does not block the others, as after a normal restart
 * the journal has everything that any node has; nor does one that has not answered yet
 * when a second is over, if there is a group of replicators: who leads has what was
 * acknowledged, and its host may be lost together with that node.  But if the journal is not in the
 * directory in which it was written (journal_position.c), it may be an old copy, and
 * only the unreachable node may know: then every node must be heard, or dropped by
 * command, before the first goes online.  The same if a node follows a replicator that
 * the journal does not know (takeover.c): another copy of the journal was in use.  A
 * node is heard when it follows this replicator, so that the other one can't add to
 * its history any more, or when it has been refused.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "journal.h"
#include "log.h"
#include "membership_private.h"
#include "sequencer.h"

#define REMEDY "see \"The journal is lost, or old\" in docs/operating.md"

#define LOOK_MS 1000

static Node *beyond;			/* knows more than the journal; NULL: none */
static uint64_t beyond_seq;
static bool all_looked_at;
static Timer *look_timer;
static bool looked_enough;		/* it is over */
static bool is_copy;			/* the journal, and not all have been heard */

/* ---------- all nodes are looked at before the first goes online */

void
history_looked_at(Node *n)
{
	if (n->looked_at)
		return;
	n->looked_at = true;
	nodes_look_again();
}

void
nodes_doubt_journal(void)
{
	is_copy = true;
	log_full(LOG_WARNING, "journal", "this is not the directory in which the journal was written, as far as is known: it was copied, moved or restored, or an older version wrote it",
			 "If it is an old copy, a node may know of transactions that it lacks. So no node goes online before all have been heard.",
			 "Those that are gone for good: lockstepctl drop NODE.  See \"The journal is lost, or old\" in docs/operating.md.");
}

bool
history_is_settled(void)
{
	return all_looked_at;
}

bool
history_doubts_journal(void)
{
	return is_copy;
}

void
history_doubt_journal(const Node *n, uint64_t generation)
{
	char		message[320];

	if (is_copy || all_looked_at)
		return;
	is_copy = true;
	snprintf(message, sizeof(message), "node \"%s\" has followed generation %" PRIu64 " of a replicator of which the journal knows nothing: one that used another copy of it",
			 n->config->name, generation);
	log_full(LOG_WARNING, "journal", message,
			 "A node may know of transactions that it lacks. So no node goes online before all have been heard.",
			 "Those that are gone for good: lockstepctl drop NODE.  See \"Two replicators\" in docs/operating.md.");
}

static const Node *
not_looked_at(void)
{
	for (int i = 0; i < nodes_count() && !all_looked_at; i++)
	{
		const Node *n = node_get(i);

		if (!n->administrative && !(is_copy ? n->heard : n->looked_at || looked_enough))
			return n;
	}
	return NULL;
}

static void
on_looked_enough(void *arg)
{
	looked_enough = true;
	nodes_look_again();
}

bool
history_may_go_online(Node *n)
{
	const Node *missing = not_looked_at();

	if (missing != NULL && look_timer == NULL && node_config->nreplicators > 0)
		look_timer = loop_after(LOOK_MS, on_looked_enough, NULL);
	if (missing != NULL)
	{
		snprintf(n->reason, sizeof(n->reason), is_copy ?
				 "waits for node \"%s\" to be heard, or dropped by command: the journal's directory is a copy, perhaps an old one; " REMEDY :
				 "waits until node \"%s\" has been looked at", missing->config->name);
		return false;
	}
	n->reason[0] = '\0';
	all_looked_at = true;		/* from now on: those that are added are no
								 * news of the past */
	if (is_copy)
	{
		is_copy = false;
		if (journal_settle(node_journal_dir))
			log_message(LOG_NOTICE, "journal", "no node knows more than it: it is used from here on");
		else
			log_message(LOG_WARNING, "journal", "could not note that it is used from here on: %s", strerror(errno));
	}
	return true;
}

void
history_heard(Node *n)
{
	if (n->heard)
		return;
	n->heard = true;
	nodes_look_again();
}

/* ---------- a node that knows more */

/* An operator who has dropped it meanwhile has chosen. */
static bool
anybody_is_beyond(void)
{
	if (beyond != NULL && (beyond->administrative || beyond_seq <= sequencer_last_durable()))
		beyond = NULL;
	return beyond != NULL;
}

static void
refuse_because_of_other(Node *n)
{
	node_out(n, DROP_OTHER_BEYOND_JOURNAL,
			 FACTS(.node = beyond->config->name,.seq = beyond_seq,.journal = sequencer_last_durable()));
}

static void
is_beyond(Node *n, uint64_t seq)
{
	node_out(n, DROP_BEYOND_JOURNAL, FACTS(.seq = seq,.journal = sequencer_last_durable()));
	if (sequencer_has_decided())
		return;
	beyond = n;
	beyond_seq = seq;
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *other = node_get(i);

		if (other != n && (other->state == NODE_CATCHUP || other->state == NODE_ONLINE))
			refuse_because_of_other(other);
	}
}

/* ---------- one place */

/* Its chain is that of the journal, or is not known; false: it is out. */
static bool
same_past(Node *n, uint64_t seq, uint64_t chain)
{
	const char *error;
	uint64_t	ours;

	if (seq == 0 || chain == 0)
		return true;
	if (!journal_chain_at(node_journal_dir, seq, &ours, &error))
		node_out(n, DROP_JOURNAL_UNREADABLE, FACTS(.seq = seq,.error = error));
	else if (ours != chain)
	{
		history_heard(n);
		node_out(n, DROP_OTHER_PAST, FACTS(.seq = seq,.chain = chain,.journal_chain = ours));
	}
	else
		return true;
	return false;
}

bool
history_admits(Node *n, uint64_t seq, uint64_t chain)
{
	uint64_t	first = sequencer_stats().journal_first;

	if (beyond == n && seq <= sequencer_last_durable())
		beyond = NULL;			/* it has been cloned again, perhaps from an
								 * old copy */
	if (seq > sequencer_last_durable())
	{
		is_beyond(n, seq);
		return false;
	}
	if (seq + 1 < first)
	{
		history_heard(n);
		node_out(n, DROP_TOO_OLD, FACTS(.seq = seq + 1,.journal = first));
	}
	else if (same_past(n, seq, chain))
	{
		if (!anybody_is_beyond())
			return true;
		refuse_because_of_other(n);
	}
	return false;
}
