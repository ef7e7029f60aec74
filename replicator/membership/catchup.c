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
 * CREATE, DROP and ALTER DATABASE RENAME (database_event.h) stand between two transactions: what is before one
 * is applied, then the node does the same, then it gets what comes behind it.
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
#include "database_event.h"
#include "database_step.h"
#include "journal.h"
#include "log.h"
#include "metadata.h"
#include "membership_private.h"
#include "points.h"
#include "sequencer.h"

#define IN_FLIGHT (8 * TX_TOGETHER)
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
	Transaction *together[TX_TOGETHER]; /* not given yet, to be given as one */
	size_t		ntogether;
	size_t		together_bytes;
	uint64_t	began_us;
	uint64_t	began_applied;
	uint64_t	began_durable;
	uint64_t	events_from;	/* with a lower seq they are done */
	uint64_t	event_order;	/* of the last event that is done */
	uint64_t	doing;			/* the order of that under way */
	DatabaseStep *step;			/* of the event under way */
	bool		opening;		/* the apply connections of a new database */
	struct LeftOver *left_over; /* databases to be dropped first */
};

void
catchup_begin(Node *n, uint64_t events_from)
{
	struct Catchup *c = xcalloc(1, sizeof(struct Catchup));

	if (n->pools == NULL)
		n->applied = sequencer_last_durable();	/* no database, nothing to
												 * apply */
	n->catchup = c;
	n->flushed = n->flush_lsn = 0;	/* it may have lost its end */
	c->fed = n->applied;
	c->events_from = events_from;
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

static void
left_over_forget(struct Catchup *c)
{
	struct LeftOver *gone = c->left_over;

	c->left_over = gone->next;
	free(gone->name);
	free(gone);
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
	database_step_free(c->step);
	while (c->left_over != NULL)
		left_over_forget(c);
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

/* ---------- CREATE, DROP and ALTER DATABASE RENAME */

/* The next that the node has not done; NULL: none. */
static const DatabaseEvent *
next_event(const struct Catchup *c)
{
	const DatabaseEvent *e = database_event_next(c->event_order, c->events_from);

	while (e != NULL && e->kind == DATABASE_PLANNED)
		e = database_event_next(e->order, c->events_from);
	return e;
}

static void
event_done(Node *n)
{
	struct Catchup *c = n->catchup;

	database_step_free(c->step);
	c->step = NULL;
	c->opening = false;
	c->event_order = c->doing;
	LOCKSTEP_POINT(DATABASE_CAUGHT_UP);
	node_pump(n);
}

/* A command of lockstepctl may have withdrawn the event under way; true: it has, and the node is out. */
static bool
is_withdrawn(Node *n, const DatabaseEvent *e)
{
	const struct Catchup *c = n->catchup;

	if ((c->step == NULL && !c->opening) || (e != NULL && e->order == c->doing))
		return false;
	node_out(n, DROP_DATABASES_CHANGED, FACTS(.what = "added or dropped"));
	return true;
}

static void
on_step(void *arg, const char *error)
{
	Node	   *n = arg;
	struct Catchup *c = n->catchup;
	const DatabaseEvent *e = next_event(c);
	const char *name;

	if (is_withdrawn(n, e))
		return;
	if (error != NULL)
	{
		node_out(n, DROP_DATABASE_STEP, FACTS(.database = e->kind == DATABASE_RENAMED ? e->command : e->name,
											  .what = e->kind == DATABASE_CREATED ? "create" : e->kind == DATABASE_RENAMED ? "rename" : "drop",
											  .error = error));
		return;
	}
	name = e->kind == DATABASE_REMOVED ? NULL : database_step_name(c->step);
	if (name == NULL)
	{
		event_done(n);
		return;
	}
	c->opening = true;
	if (pool_find(n, name) == NULL)
		pool_open(n, name);
	node_pump(n);
}

void
catchup_left_over(Node *n, uint64_t number, const char *name)
{
	struct LeftOver *new = xcalloc(1, sizeof(struct LeftOver));

	new->next = n->catchup->left_over;
	new->number = number;
	new->name = xstrdup(name);
	n->catchup->left_over = new;
}

static void
on_left_over_dropped(void *arg, const char *error)
{
	Node	   *n = arg;
	struct Catchup *c = n->catchup;

	if (error != NULL)
	{
		node_out(n, DROP_DATABASE_STEP, FACTS(.database = c->left_over->name,.what = "drop",.error = error));
		return;
	}
	database_step_free(c->step);
	c->step = NULL;
	left_over_forget(c);
	node_pump(n);
}

/* Made and dropped without a transaction in between: a node that has it not, may have had it. */
static bool
is_over(const DatabaseEvent *e)
{
	const DatabaseEvent *end = e->kind == DATABASE_CREATED ? database_event_find(DATABASE_REMOVED, e->number) : NULL;

	return end != NULL && end->seq == e->seq;
}

/* Everything before it is applied. */
static void
do_event(Node *n, const DatabaseEvent *e)
{
	struct Catchup *c = n->catchup;

	if (c->opening)
	{
		if (pools_ready(n))
			event_done(n);
		return;
	}
	if (c->step != NULL || !database_event_is_durable(e))
		return;
	c->doing = e->order;
	if (is_over(e))
		event_done(n);
	else if (e->kind == DATABASE_RENAMED)
		c->step = database_rename(n, e, on_step, n);
	else if (e->kind == DATABASE_CREATED)
		c->step = database_make(n, e->number, e->name, e->command, e->fingerprint, on_step, n);
	else
		c->step = database_remove(n, e->number, e->name, e->seq, on_step, n);
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
							c->together_bytes + tx_memory(tx) <= TX_TOGETHER_BYTES);
}

/* Has the database, which is there now, no connections, though it was there at that place in the journal? */
static bool
lacks_database(Node *n, const Transaction *tx)
{
	uint64_t	number = metadata_database_number(tx->database);

	return task_pool(n, tx) == NULL && metadata_has_database(tx->database) &&
		tx->seq > (number != 0 ? database_event_named_at(number) : metadata_dropped_at(tx->database));
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
	if (c->ntogether == TX_TOGETHER)
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
	unlogged_tables_online(n);
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

	/* the turn of what it lacks must not pass */
	if (r.seq > n->applied && lacks_database(n, tx))
		node_out(n, DROP_DATABASES_CHANGED, FACTS(.what = "added"));
	else if (r.seq > n->applied)
		give(n, tx);
	tx_unref(tx);
	LOCKSTEP_POINT(CATCHUP_FED);
	return n->catchup != NULL;
}

/* false: no more for now, or it is out, or online. */
static bool
feed_more(Node *n)
{
	struct Catchup *c = n->catchup;
	const DatabaseEvent *e = next_event(c);

	if (c->left_over != NULL)
	{
		if (c->step == NULL)
			c->step = database_remove(n, c->left_over->number, c->left_over->name, 0, on_left_over_dropped, n);
		return false;
	}
	if (is_withdrawn(n, e))
		return false;
	if (e != NULL && c->fed >= e->seq)
	{
		give_together(n);
		if (n->applied >= e->seq)
			do_event(n, e);
		return false;
	}
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
		n->applied >= n->own_decided && next_event(n->catchup) == NULL && n->catchup->left_over == NULL;
}

void
catchup_feed(Node *n)
{
	while (n->catchup != NULL && feed_more(n))
		;
	if (n->catchup == NULL)
		return;
	give_together(n);
	if (is_complete(n) && history_may_go_online(n) && unlogged_tables_may_go_online(n))
		go_online(n);
}
