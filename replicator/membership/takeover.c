/*
 * takeover.c
 *	  Which of two replicators may order?
 *
 * A replicator that was stopped for a while (SIGSTOP, a frozen machine) and was
 * replaced by another, on a copy of the journal, would go on where it stopped: it has
 * sessions on the nodes, and backends wait for its verdicts.  The nodes prevent that:
 * the other replicator has entered a higher generation on them (extension/node/
 * generation.c), and they refuse lower ones.
 *
 *		start:	 own generation = the highest that the journal knows + 1, and a random
 *				 run id, in a durable record of the journal
 *		attach:	 the node's history is checked (history.c), then its generation; own is
 *				 entered in each of its databases, its turn is opened, and its history
 *				 is checked again
 *
 *		the node follows				 then
 *		none, or an earlier start of	 own is entered.  The journal's lock proves that
 *		  this journal					 the earlier process has ended
 *		one that was heard lately, and	 the node stays with that one: a second replicator
 *		  ours may be a copy			 started by mistake disturbs nothing
 *		another run, that the journal	 another copy of the journal was in use: own is
 *		  does not know					 raised above it, and all nodes must be heard
 *										 before the first goes online
 *		one that was heard lately, and	 the process with the lower generation, or run,
 *		  other nodes follow us, none	 exits: otherwise both would wait for the other's
 *		  of them online yet			 nodes for ever
 *		another one, and it followed	 this process is outdated and exits, unless other
 *		  us since its server was		 nodes are in, which would report the same
 *		  started
 *
 * Only the last case, and the refusal of a node that is in (LS005), prove that the
 * other replicator was started later.  This process has decided nothing that counts
 * since then, as nodes compare generations at each commit.
 */
#include "takeover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"
#include "log.h"
#include "metadata.h"
#include "points.h"
#include "random_bytes.h"
#include "restart.h"
#include "sequencer.h"

#define EXIT_OUTDATED 2

/* A replicator's heartbeats come every second. */
#define SILENT_MS 3000

static uint64_t wanted;			/* it is being raised to that */
static void (*when_ready) (void);
static void (*when_raised) (Node *n);

/* ---------- taking one */

static void raise_to(uint64_t number);

static void
on_raised(void *arg)
{
	void		(*ready) (void) = when_ready;

	generation_set_number((uint64_t) (uintptr_t) arg);
	log_message(LOG_NOTICE, NULL, "generation %" PRIu64 ", run %016" PRIx64, generation_number(), generation_run());
	LOCKSTEP_POINT(GENERATION_TAKEN);
	when_ready = NULL;
	if (ready != NULL)
		ready();
	for (int i = 0; i < nodes_count(); i++)
		when_raised(node_get(i));
}

static void
raise_to(uint64_t number)
{
	char		text[GENERATION_TEXT_SIZE];

	wanted = number;
	metadata_generation_text(text, number, generation_run());
	sequencer_journal_metadata(RECORD_GENERATION, text, on_raised, (void *) (uintptr_t) number);
}

void
takeover_begin(void (*ready) (void), void (*raised) (Node *n))
{
	uint64_t	run;

	if (!random_bytes((uint8_t *) &run, sizeof(run)))
	{
		log_message(LOG_ERROR, NULL, "there are no random numbers");
		_exit(EXIT_OUTDATED);
	}
	generation_set_run(run);
	when_ready = ready;
	when_raised = raised;
	raise_to(metadata_generation() + 1);
}

/* ---------- comparing with a node's */

/* Is another node in?  If it has been taken, too, it says so at its next heartbeat. */
static bool
others_follow(const Node *n)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *other = node_get(i);

		if (other != n && other->generation != 0 && node_is_in(other))
			return true;
	}
	return false;
}

/*
 * That node follows another one that is running.  If we have nodes, too, but are not
 * online with any, each may wait for the other's: the lower of the two ends.  The
 * higher stays, as it may be the one that is to take over.
 */
static void
leave_to(const Node *n, const KnownGeneration *known)
{
	const uint64_t own = generation_number();
	const uint64_t run = generation_run();
	char		detail[200];
	bool		lower = known->number > own || (known->number == own && known->run > run);

	if (!lower || history_is_settled() || !others_follow(n))
		return;
	snprintf(detail, sizeof(detail), "This one is generation %" PRIu64 ", run %016" PRIx64 "; the node follows generation %" PRIu64 ", run %016" PRIx64 ".",
			 own, run, known->number, known->run);
	log_full(LOG_ERROR, n->config->name, "another replicator has this node, while this one has others and is not online: this one ends", detail,
			 "Only one may run: see \"Two replicators\" in docs/operating.md.");
	restart_or_exit(EXIT_OUTDATED);
}

TakeoverAnswer
takeover_admits(Node *n, const KnownGeneration *known, uint64_t boot)
{
	const uint64_t own = generation_number();
	const uint64_t run = generation_run();
	char		detail[160];

	if (own == 0)
		return TAKEOVER_WAIT;	/* a command of the first moment */
	if (known->number == 0 || known->run == run)
		return TAKEOVER_GO_ON;
	if (n->entered_boot != 0 && n->entered_boot == boot && !others_follow(n))
	{
		snprintf(detail, sizeof(detail), "The node follows generation %" PRIu64 ", run %016" PRIx64 "; this one is %" PRIu64 ", run %016" PRIx64 ".",
				 known->number, known->run, n->generation, run);
		generation_outdated(n, detail);
	}
	if (known->silent_ms >= 0 && known->silent_ms < SILENT_MS &&
		(history_doubts_journal() || !metadata_knows_generation(known->number, known->run)))
	{
		leave_to(n, known);
		node_out(n, DROP_OTHER_REPLICATOR, FACTS(.generation = known->number,.run = known->run));
		return TAKEOVER_OUT;
	}
	if (metadata_knows_generation(known->number, known->run))
		return TAKEOVER_GO_ON;
	if (known->has_past)
		history_doubt_journal(n, known->number);
	if (known->number < own)
		return TAKEOVER_GO_ON;
	if (known->number >= wanted)
		raise_to(known->number + 1);
	return TAKEOVER_WAIT;
}
