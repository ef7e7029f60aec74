/*
 * apply_task.c
 *	  Transactions on nodes: given, started, executed, committed or taken back.
 *
 *				 lane_next			 all results			COMMIT sent
 *	   QUEUED ------------> RUNNING ------------> EXECUTED ------------> COMMITTING
 *		 ^	 				   |					 |						|
 *		 |					   +------ undo ---------+					committed: gone
 *		 |					   v
 *		 +---- again ------ UNDOING -----> gone
 *
 * An error on a node is one of three things: to be tried again there (a
 * deadlock, a cancel: somebody of a higher rank was in the way), the node's own
 * fault (it is dropped, the others go on), or the transaction's (it is rolled
 * back everywhere).  A decided transaction can't be rolled back any more: what
 * would be its own fault drops the node, too.
 *
 * Several that were executed as one and failed are done one by one (work_split).
 *
 * The bit of a node in tx->executing is set as long as a RESERVED transaction
 * has a work there that is not EXECUTED.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "log.h"
#include "metadata.h"
#include "peer.h"
#include "points.h"
#include "sequencer.h"

#define MAX_PAUSE_MS 100
#define MAX_RACES 30			/* two seconds of pauses */
#define TELL_RETRIES 32			/* a few seconds; then whenever they have
								 * doubled */
#define RETRIES_TOGETHER 3		/* then one by one */

static uint64_t
bit_of(const Node *n)
{
	return UINT64_C(1) << n->index;
}

Work *
work_find(const Transaction *tx, int node)
{
	Work	   *w = tx->works;

	while (w != NULL && w->node != node)
		w = w->next_of_tx;
	return w;
}

/*
 * Those that are undecided until it has executed them, and those whose clients
 * wait until it has committed them.
 */
int
works_awaited(const Node *n)
{
	int			count = 0;

	for (const Work *w = n->state == NODE_ONLINE ? n->works : NULL; w != NULL; w = w->node_next)
	{
		if (w->tx->state == TX_RESERVED)
			count += w->state != WORK_EXECUTED && w->tx->nafter_tickets == 0;
		else if (w->tx->seq != 0)
			count += w->tx->wait == LS_WAIT_APPLIED;
	}
	return count;
}

bool
work_decided_ddl(const Node *n)
{
	const Work *w = n->ddl_works > 0 ? n->works : NULL;

	while (w != NULL && !(tx_has_ddl(w->tx) && w->tx->seq != 0))
		w = w->node_next;
	return w != NULL;
}

void
work_count_ddl(Node *n, Work *w)
{
	if (w->ddl || !tx_has_ddl(w->tx))
		return;
	w->ddl = true;
	n->ddl_works++;
}

static Work *
work_create(Node *n, Transaction *tx)
{
	Work	   *w = xcalloc(1, sizeof(Work));

	assert(work_find(tx, n->index) == NULL);
	w->tx = tx_ref(tx);
	w->node = n->index;
	w->next_of_tx = tx->works;
	tx->works = w;
	w->node_next = n->works;
	if (n->works != NULL)
		n->works->node_prev = w;
	n->works = w;
	work_count_ddl(n, w);
	return w;
}

/* NULL: the database has been dropped since, also if another got the name later. */
Pool *
work_pool(Node *n, const Transaction *tx)
{
	if (tx->seq != 0 && tx->seq <= metadata_dropped_at(tx->database))
		return NULL;
	return pool_find(n, tx->database);
}

Work *
work_add(Node *n, Transaction *tx)
{
	Pool	   *p = work_pool(n, tx);
	Work	   *w = work_create(n, tx);

	if (p == NULL)
	{
		/*
		 * Only its turn has to pass, and not in the one that has the name
		 * now, if there is another.
		 */
		assert(tx->seq != 0 && n->pools != NULL);
		w->empty = true;
		for (p = n->pools; p->next != NULL && strcmp(p->database, tx->database) == 0; p = p->next)
			;
	}
	lane_enqueue(&p->lane, w);
	node_pump(n);
	return w;
}

void
work_begin_early(Pool *p, Transaction *tx)
{
	Work	   *w = work_create(p->node, tx);

	w->early = true;
	w->last_ddl = sequencer_last_ddl();
	w->state = WORK_RUNNING;
	w->lane = &p->lane;
	w->started_us = loop_now_us();
	w->holder = lane_take(&p->lane, tx);
	apply_run(pool_take(p), w);
	LOCKSTEP_POINT(BEGUN_EARLY);
}

/* Gone, wherever it was; the connection is somebody else's matter. */
static void
work_remove(Work *w)
{
	Node	   *n = node_get(w->node);
	Work	  **link = &w->tx->works;

	if (w->state == WORK_QUEUED)
		lane_dequeue(w->lane, w);
	while (*link != w)
		link = &(*link)->next_of_tx;
	*link = w->next_of_tx;
	*(w->node_prev != NULL ? &w->node_prev->node_next : &n->works) = w->node_next;
	if (w->node_next != NULL)
		w->node_next->node_prev = w->node_prev;
	if (w->ddl)
	{
		n->ddl_works--;
		n->ddl_works_gone++;
	}
	to_membership->work_gone(n, w);
	loop_cancel(w->pause);
	tx_unref(w->tx);
	free(w);
}

static void
on_pause_over(void *arg)
{
	Work	   *w = arg;

	w->pause = NULL;
	node_pump(node_get(w->node));
}

/* Run it once more, in its rank's order, after a pause that grows. */
static void
queue_again(Work *w)
{
	Node	   *n = node_get(w->node);
	int			pause_ms = w->retries < 7 ? 1 << w->retries : MAX_PAUSE_MS;

	w->retries++;
	w->again = w->began_early = false;
	work_count_ddl(n, w);
	w->not_before_us = loop_now_us() + (uint64_t) pause_ms * 1000;
	if (w->tx->state == TX_RESERVED)
		w->tx->executing |= bit_of(n);
	lane_enqueue(w->lane, w);
	loop_cancel(w->pause);
	w->pause = loop_after(pause_ms, on_pause_over, w);
}

LaneMoment
works_moment(const Node *n)
{
	const Transaction *lowest = sequencer_reserved(NULL);

	return (LaneMoment) {n->applied, sequencer_last_durable(), loop_now_us(), lowest != NULL ? lowest->ticket : 0};
}

void
works_start(Node *n)
{
	LaneMoment	at = works_moment(n);
	bool		any = false;

	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		Work	   *w;

		while ((w = lane_next(&p->lane, &at)) != NULL)
		{
			apply_run(pool_take(p), w);
			any = true;
		}
	}
	if (any)
		yield_watch(n);
}

void
work_commit(Work *w)
{
	if (w->state != WORK_EXECUTED)
		return;
	w->state = WORK_COMMITTING;
	apply_commit(w->connection);
}

void
work_undo(Work *w, bool again)
{
	if (w->early)
	{
		/* again when it is reserved */
		again = false;
		w->tx->not_early |= bit_of(node_get(w->node));
	}
	switch (w->state)
	{
		case WORK_QUEUED:
			if (!again)
				work_remove(w);
			break;
		case WORK_RUNNING:
		case WORK_EXECUTED:
			if (again && w->tx->state == TX_RESERVED)
				w->tx->executing |= bit_of(node_get(w->node));
			w->state = WORK_UNDOING;
			w->again = again;
			apply_undo(w->connection);
			break;
		case WORK_UNDOING:
			if (!again)
				w->again = false;
			break;
		case WORK_COMMITTING:
			assert(again);		/* a decided one is never taken back for good */
			apply_cancel(w->connection);
			break;
	}
}

/* ---------- results */

void
work_executed(Work *w)
{
	Transaction *tx = w->tx;

	LOCKSTEP_POINT(EXECUTED_THERE);
	w->state = WORK_EXECUTED;
	if (tx->state == TX_RESERVED)
	{
		tx->executing &= ~bit_of(node_get(w->node));
		if (tx->executing == 0)
			sequencer_executed(tx);
	}
	else if (tx->state == TX_DURABLE || tx->state == TX_DONE)
		work_commit(w);
}

void
work_committed(Work *w)
{
	uint64_t	seq = w->tx->seq;
	Node	   *n = node_get(w->node);

	LOCKSTEP_POINT(COMMITTED_THERE);
	work_remove(w);
	node_heard_applied(n->index, seq);
	node_pump(n);
}

void
work_undone(Work *w)
{
	LOCKSTEP_POINT(UNDONE_THERE);
	if (w->again)
		queue_again(w);
	else
		work_remove(w);
}

/*
 * Its connection is gone, and what it did there rolled back, or committed: it
 * is done again, and finds out.
 */
void
work_lost(Work *w)
{
	w->connection = NULL;
	if (w->early)
		w->tx->not_early |= bit_of(node_get(w->node));
	if (w->early || (w->state == WORK_UNDOING && !w->again))
		work_remove(w);
	else
		queue_again(w);
}

/*
 * Commands on one object that don't lock it - GRANT, ALTER ROLE ... - wait for the
 * other's row and then fail, where those at the origin came one after the other.
 */
static bool
is_catalog_race(const Work *w, const ApplyError *e)
{
	return w->retries < MAX_RACES && strcmp(e->sqlstate, "XX000") == 0 &&
		(strcmp(e->message, "tuple concurrently updated") == 0 || strcmp(e->message, "tuple concurrently deleted") == 0);
}

static bool
is_retryable(const ApplyError *e)
{
	static const char *const states[] = {"40001", "40P01", "55P03", "57014"};

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
	{
		if (strcmp(e->sqlstate, states[i]) == 0)
			return true;
	}
	return e->retry;
}

/* It is tried without end, as the others wait for it; people should know. */
static bool
is_time_to_tell(int retries)
{
	return retries >= TELL_RETRIES && (retries & (retries - 1)) == 0;
}

/* About that node, not about the data? */
static bool
is_nodes_fault(const ApplyError *e)
{
	static const char *const classes[] = {"08", "53", "57", "58", "F0", "XX"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
	{
		if (strncmp(e->sqlstate, classes[i], 2) == 0)
			return true;
	}
	return false;
}

/*
 * One by one, what failed as one: so it is found out what is wrong with which,
 * or nothing is.
 */
static void
work_split(Work *w)
{
	Node	   *n = node_get(w->node);
	Transaction *tx = tx_ref(w->tx);

	w->state = WORK_UNDOING;	/* it is in no queue */
	work_remove(w);
	for (size_t i = 0; i < tx->nmembers; i++)
	{
		if (tx->members[i]->seq <= n->applied)
			continue;
		to_membership->work_added(n, tx->members[i]);
		work_add(n, tx->members[i]);
	}
	tx_unref(tx);
}

void
work_failed(Work *w, const ApplyError *e)
{
	Transaction *tx = w->tx;
	Node	   *n = node_get(w->node);

	log_message(LOG_DEBUG, n->config->name, "transaction %s/%" PRIu32 "/%" PRIu64 " failed here: %s: %s",
				tx->node, tx->pid, tx->xcount, e->sqlstate, e->message);
	if (w->early)
	{
		/* it may be nobody's fault, or the fault of what is not decided yet */
		tx->not_early |= bit_of(n);
		w->state = WORK_UNDOING;	/* it is in no queue */
		work_remove(w);
	}
	else if (w->began_early)
		queue_again(w);
	else if (tx->nmembers > 0 && (!is_retryable(e) || w->retries >= RETRIES_TOGETHER))
		work_split(w);
	else if (is_retryable(e) || is_catalog_race(w, e))
	{
		if (is_time_to_tell(w->retries))
			log_message(LOG_WARNING, n->config->name, "transaction %s/%" PRIu32 "/%" PRIu64
						" has failed here %d times and is tried again: %s (%s)",
						tx->node, tx->pid, tx->xcount, w->retries, e->message, e->sqlstate);
		if (is_time_to_tell(w->retries) && tx->seq != 0)
			trouble_note(n, tx, e);
		queue_again(w);
	}
	else if (tx->state != TX_RESERVED && !w->looked_twice)
	{
		/* its own backend may have committed it meanwhile: that is told first */
		w->looked_twice = true;
		queue_again(w);
	}
	else if (tx->state != TX_RESERVED)
	{
		trouble_note(n, tx, e);
		node_out(n, DROP_APPLY_FAILED, FACTS(.seq = tx->seq,.error = e->message,.sqlstate = e->sqlstate));
	}
	else if (is_nodes_fault(e))
		node_out(n, DROP_EXECUTE_FAILED, FACTS(.error = e->message,.sqlstate = e->sqlstate));
	else
	{
		LsErrorFields fields = {ls_slice_of(e->sqlstate), ls_slice_of(e->message), ls_slice_of(e->detail), ls_slice_of(e->hint)};

		tx_ref(tx);
		w->state = WORK_UNDOING;	/* it is in no queue */
		work_remove(w);
		sequencer_execute_failed(tx, n->index, &fields);
		tx_unref(tx);
	}
}

/* The node's state has been changed already, so nothing new is given to it. */
void
works_forget(Node *n)
{
	while (n->works != NULL)
	{
		Work	   *w = n->works;
		Transaction *tx = tx_ref(w->tx);
		bool		was_awaited = (tx->executing & bit_of(n)) != 0;

		work_remove(w);
		tx->executing &= ~bit_of(n);
		if (was_awaited && tx->state == TX_RESERVED && tx->executing == 0)
			sequencer_executed(tx);
		tx_unref(tx);
	}
}
