/*
 * catchup.c
 *	  Feeding a node from the journal, and taking it online.
 *
 *	  applied+1 ... fed	  ... last durable | decided	 | reserved
 *	  given from the journal, in chunks	   |	given when it goes online
 *
 * Consecutive transactions are executed as one where that is allowed
 * (transaction_together.c).  The number in flight is such that a connection always
 * has the next one while another commits.
 *
 * A node that has been given everything may still be unable to apply it, and must not
 * go online and out again and again.  So everything that was durable when it was first
 * complete (`goal`) must be applied before it goes online.
 *
 * So must everything that was decided for itself (`own_decided`), durable by then or not:
 * transactions of one origin are not certified against each other, as the origin's row locks
 * order them; but a server that has crashed has forgotten those locks, and its next
 * transaction would overwrite what it does not see.
 *
 * Going online takes one round of the loop: in the call that gives the node the last
 * durable transaction, its state becomes ONLINE, and it gets the decided ones that are
 * not durable yet and the reserved ones, which are not decided from then on before
 * this node has executed them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "catchup_estimate.h"
#include "journal.h"
#include "log.h"
#include "metadata.h"
#include "membership_private.h"
#include "points.h"
#include "sequencer.h"

#define TOGETHER 64				/* transactions, at most */
#define TOGETHER_BYTES (256 * 1024)
#define IN_FLIGHT (8 * TOGETHER)
#define IN_FLIGHT_BYTES (8 * 1024 * 1024)	/* of queries; libpq may hold them
											 * once more */

struct Catchup
{
	JournalReader *reader;
	uint64_t	limit;			/* of the reader: durable when it was set */
	uint64_t	fed;			/* seq given last */
	uint64_t	goal;			/* to be applied before the barrier, 0 = not
								 * known */
	int			in_flight;		/* with those in together */
	size_t		bytes;			/* of their queries */
	Transaction *together[TOGETHER];	/* not given yet, to be given as one */
	size_t		ntogether;
	size_t		together_bytes;
	uint64_t	began_us;
	uint64_t	began_applied;
	uint64_t	began_durable;
};

void
catchup_begin(Node *n)
{
	struct Catchup *c = xcalloc(1, sizeof(struct Catchup));

	if (n->pools == NULL)
		n->applied = sequencer_last_durable();	/* no database, nothing to
												 * apply */
	n->catchup = c;
	n->flushed = n->flush_lsn = 0;	/* it may have lost its end */
	c->fed = n->applied;
	c->began_us = loop_now_us();
	c->began_applied = n->applied;
	c->began_durable = sequencer_last_durable();
	node_pump(n);
}

bool
catchup_estimate(const Node *n, uint64_t *rate, uint64_t *seconds)
{
	const struct Catchup *c = n->catchup;
	uint64_t	last = sequencer_last_durable();
	CatchupSoFar sofar;

	if (c == NULL)
		return false;
	sofar.us = loop_now_us() - c->began_us;
	sofar.applied = n->applied - c->began_applied;
	sofar.came = last - c->began_durable;
	sofar.lag = last > n->applied ? last - n->applied : 0;
	return catchup_time_left(&sofar, rate, seconds);
}

/* false: it can't be read, the node is out. */
static bool
open_reader(Node *n)
{
	struct Catchup *c = n->catchup;
	const char *error = NULL;

	if (c->reader == NULL)
		c->reader = journal_reader_open(node_journal_dir, c->fed + 1, &error);
	if (c->reader == NULL)
		node_out(n, DROP_JOURNAL_UNREADABLE, FACTS(.seq = c->fed + 1,.error = error));
	return n->catchup != NULL;
}

void
catchup_end(Node *n)
{
	struct Catchup *c = n->catchup;

	if (c == NULL)
		return;
	if (c->reader != NULL)
		journal_reader_close(c->reader);
	for (size_t i = 0; i < c->ntogether; i++)
		tx_unref(c->together[i]);
	free(c);
	n->catchup = NULL;
}

void
catchup_task_added(Node *n, const Transaction *tx)
{
	if (n->catchup == NULL)
		return;
	n->catchup->in_flight++;
	n->catchup->bytes += tx_memory(tx);
}

void
catchup_task_gone(Node *n, const ApplyTask *task)
{
	if (n->catchup == NULL)
		return;
	n->catchup->in_flight -= task->tx->nmembers > 0 ? (int) task->tx->nmembers : 1;
	n->catchup->bytes -= tx_memory(task->tx);
}

/* ---------- several as one */

/* Give it those that are to be given as one. */
static void
give_together(Node *n)
{
	struct Catchup *c = n->catchup;
	Transaction *tx;

	if (c->ntogether == 0)
		return;
	tx = c->ntogether > 1 ? tx_together(c->together, c->ntogether) : tx_ref(c->together[0]);
	task_add(n, tx);
	tx_unref(tx);
	for (size_t i = 0; i < c->ntogether; i++)
		tx_unref(c->together[i]);
	c->ntogether = c->together_bytes = 0;
	LOCKSTEP_POINT(TOGETHER_GIVEN);
}

static bool
fits(const struct Catchup *c, const Transaction *tx)
{
	const Transaction *last = c->ntogether > 0 ? c->together[c->ntogether - 1] : NULL;

	return last == NULL || (last->seq + 1 == tx->seq && strcmp(last->database, tx->database) == 0 &&
							c->together_bytes + tx_memory(tx) <= TOGETHER_BYTES);
}

static void
give(Node *n, Transaction *tx)
{
	struct Catchup *c = n->catchup;
	bool		awaited = tx->origin == (uint32_t) n->index && tx->boot == n->boot;
	bool		alone = awaited || task_pool(n, tx) == NULL || !tx_may_be_together(tx);

	catchup_task_added(n, tx);
	if (alone || !fits(c, tx))
		give_together(n);
	if (alone)
	{
		task_add(n, tx);
		return;
	}
	c->together[c->ntogether++] = tx_ref(tx);
	c->together_bytes += tx_memory(tx);
	if (c->ntogether == TOGETHER)
		give_together(n);
}

/* A database added while the node was being attached has no connections there. */
static bool
has_all_pools(Node *n)
{
	int			count;
	const char *const *names = metadata_databases(&count);

	for (int i = 0; i < count; i++)
	{
		if (pool_find(n, names[i]) == NULL)
			return false;
	}
	return true;
}

static void
go_online(Node *n)
{
	catchup_end(n);
	if (!has_all_pools(n))
	{
		node_out(n, DROP_DATABASES_CHANGED, FACTS(.what = "added"));
		return;
	}
	LOCKSTEP_POINT(BARRIER);
	node_move(n, NODE_ONLINE);
	n->ping_sent_us = 0;		/* so that the node soon knows it, and holds
								 * readers no longer */
	sequence_positions_ask(n);
	for (Transaction *tx = sequencer_undurable(NULL); tx != NULL; tx = sequencer_undurable(tx))
		task_add(n, tx);
	for (Transaction *tx = sequencer_reserved(NULL); tx != NULL; tx = sequencer_reserved(tx))
	{
		tx->executing |= UINT64_C(1) << n->index;
		task_add(n, tx);
	}
	LOCKSTEP_POINT(ONLINE);
}

/* false: it is out, or there is no more for now. */
static bool
feed_one(Node *n)
{
	struct Catchup *c = n->catchup;
	JournalRecord r;
	JournalStatus status = journal_read(c->reader, &r);
	const char *error;
	int			origin;
	Transaction *tx;

	if (status != JOURNAL_OK)
	{
		node_out(n, DROP_JOURNAL_UNREADABLE,
				 FACTS(.seq = c->fed + 1,.error = status == JOURNAL_ERROR ? journal_reader_error(c->reader) :
					   status == JOURNAL_END ? "it ends early" : "a record is torn"));
		return false;
	}
	if (r.type != RECORD_TRANSACTION)
		return true;
	origin = node_find(r.identity.node);
	tx = tx_from_record(&r, origin >= 0 ? (uint32_t) origin : ORIGIN_NONE, node_journal_dir, &error);
	if (tx == NULL)
	{
		node_out(n, DROP_JOURNAL_UNREADABLE, FACTS(.seq = r.seq,.error = error));
		return false;
	}
	c->fed = r.seq;
	if (r.seq > n->applied)
		give(n, tx);
	tx_unref(tx);
	LOCKSTEP_POINT(CATCHUP_FED);
	return true;
}

/* false: no more for now, or it is out, or online. */
static bool
feed_more(Node *n)
{
	struct Catchup *c = n->catchup;

	if (c->fed >= sequencer_last_durable())
	{
		if (c->goal == 0)
			c->goal = c->fed;
		return false;
	}
	if (n->pools == NULL)
	{
		/* what is left in the journal has no place to pass its turn */
		node_out(n, DROP_DATABASES_CHANGED, FACTS(.what = "dropped"));
		return false;
	}
	if (!open_reader(n))
		return false;
	if (c->fed >= c->limit)
	{
		/* what is not durable may still be taken back and written anew */
		c->limit = sequencer_last_durable();
		journal_reader_limit(c->reader, c->limit);
	}
	/* those that are to be given as one are completed */
	if (c->ntogether == 0 && (c->in_flight >= IN_FLIGHT || c->bytes >= IN_FLIGHT_BYTES))
		return false;
	return feed_one(n);
}

static bool
is_complete(const Node *n)
{
	return n->catchup->fed >= sequencer_last_durable() && n->applied >= n->catchup->goal &&
		n->applied >= n->own_decided;
}

void
catchup_feed(Node *n)
{
	while (n->catchup != NULL && feed_more(n))
		;
	if (n->catchup == NULL)
		return;
	give_together(n);
	if (is_complete(n) && history_may_go_online(n))
		go_online(n);
}
