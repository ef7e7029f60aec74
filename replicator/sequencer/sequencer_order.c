/*
 * sequencer_order.c
 *	  Decided transactions: their record in the journal, and what happens when that is
 *	  durable; metadata records; trimming.
 */
#include <string.h>

#include "copies.h"
#include "database_event.h"
#include "journal.h"
#include "journal_sync.h"
#include "journal_writer.h"
#include "loop.h"
#include "metadata.h"
#include "node.h"
#include "points.h"
#include "sequencer_private.h"
#include "spill.h"

#define TRIM_MS 10000

static const Config *config;
static Journal *journal;
static uint64_t last_chain;		/* of the last that was decided */
static uint64_t committed;		/* how many, since the start */

/* ---------- from the decision to the journal and back */

static JournalItem *
record_of(Transaction *tx)
{
	JournalRecord r;
	JournalItem *item;

	memset(&r, 0, sizeof(r));
	r.type = RECORD_TRANSACTION;
	r.seq = tx->seq;
	r.identity.node = ls_slice_of(tx->node);
	r.identity.boot = tx->boot;
	r.identity.pid = tx->pid;
	r.identity.xcount = tx->xcount;
	r.database = ls_slice_of(tx->database);
	r.depends_on = tx->depends_on;
	r.time = loop_wall_us();
	r.wait = tx->wait;
	r.parent = last_chain;
	if (tx->spill != NULL)
		r.body = tx_keep_body(tx);
	else
		r.queries = (LsSlice) {tx->queries.data, tx->queries.len};
	item = writer_item(&r);
	item->body = r.body;
	last_chain = tx->chain = journal_chain_of(item->record);
	return item;
}

void
order_journal(Transaction *tx)
{
	JournalItem *item = record_of(tx);

	item->positions = leases_decided(tx);
	item->seq = tx->seq;
	item->tx = tx_ref(tx);
	writer_push(item);
	LOCKSTEP_POINT(DECIDED);
}

static void
tell_committed(Transaction *tx)
{
	LsVerdict	verdict;

	memset(&verdict, 0, sizeof(verdict));
	verdict.xcount = tx->xcount;
	verdict.outcome = LS_OUTCOME_COMMITTED;
	verdict.seq = tx->seq;
	verdict.chain = tx->chain;
	verdict.contended = tx->contended;
	to_sessions->verdict(tx, &verdict);
	late_told(tx->origin, tx->seq);
}

/* The writer has made a record durable: now others may be told. */
static void
on_durable(JournalItem *item)
{
	Transaction *tx = item->tx;

	if (tx == NULL)
	{
		if (item->done != NULL)
			item->done(item->arg);
		writer_item_free(item);
		return;
	}
	LOCKSTEP_POINT(DURABLE);
	seqs_durable(tx);
	committed++;
	if (tx->session != NULL)
	{
		tell_committed(tx);
		LOCKSTEP_POINT(VERDICT_GIVEN);
		to_peers->commit(tx);
		LOCKSTEP_POINT(COMMITS_GIVEN);
	}
	else
	{
		to_peers->commit(tx);
		to_peers->apply_at_origin(tx);
		notify_requester(tx, NULL);
	}
	tx_unref(tx);
	writer_item_free(item);
}

void
sequencer_applied(Transaction *tx)
{
	tx_move(tx, TX_DONE);
	LOCKSTEP_POINT(APPLIED);
	to_sessions->applied(tx);
	tx_unref(tx);
}

/* ---------- metadata */

/* New segments begin with all metadata that counts, so that trimming loses none of it. */
void
sequencer_journal_metadata(int record_type, const char *text, void (*done) (void *), void *arg)
{
	JournalRecord r;
	JournalItem *item;

	memset(&r, 0, sizeof(r));
	r.type = (RecordType) record_type;
	r.seq = sequencer_last_decided();
	r.time = loop_wall_us();
	r.text = ls_slice_of(text);
	metadata_apply(r.type, r.seq, r.text);
	if (r.type == RECORD_DATABASE_DROPPED)
		leases_forget_database(r.text);
	else if (r.type == RECORD_DATABASE_EVENT)
	{
		leases_database_event(r.text);
		proven_forget(true);	/* a name may be that of another database now */
	}
	item = writer_item(&r);
	item->done = done;
	item->arg = arg;
	metadata_encode(sequencer_last_decided(), &item->head);
	writer_push(item);
}

/* ---------- trimming */

void
sequencer_confirm(void (*done) (void *), void *arg)
{
	JournalItem *item;

	if (!copies_active)
	{
		done(arg);
		return;
	}
	item = writer_barrier();
	item->done = done;
	item->arg = arg;
	writer_push(item);
}

static void
on_trim(void *arg)
{
	uint64_t	below = nodes_min_flushed(sequencer_last_durable());

	if (below > 0)
		writer_trim(below, config->journal_keep);
	database_events_forget(journal_first(journal) - 1);
	loop_after(TRIM_MS, on_trim, NULL);
}

/* ---------- start and end */

Certifier *
order_start(const Config *c, Journal *j, const char *journal_dir)
{
	Certifier  *certifier;
	Buffer		head = {0};

	config = c;
	journal = j;
	certifier = certifier_from_journal(c, j, journal_dir, seqs_start(journal_last(j)), &last_chain);
	body_sync_start();
	metadata_encode(sequencer_last_decided(), &head);
	writer_start(j, journal_dir, on_durable, leases_copy(), &head, last_chain);
	buffer_free(&head);
	loop_after(TRIM_MS, on_trim, NULL);
	return certifier;
}

void
sequencer_stop(void)
{
	writer_stop();
	body_sync_stop();
}

void
order_stats(SequencerStats *stats)
{
	stats->committed = committed;
	stats->journal_first = journal_first(journal);
	stats->journal_syncs = writer_syncs();
	stats->journal_failing = writer_failing();
}
