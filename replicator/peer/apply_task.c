/*
 * apply_task.c
 *	  One transaction on one node: queued, executed, committed or undone.
 *
 *			  apply_queue_next		 all results			COMMIT sent
 *	   QUEUED ------------> RUNNING ------------> EXECUTED ------------> COMMITTING
 *		 ^	 				   |					 |						|
 *		 |					   +------ undo ---------+					committed: freed
 *		 |					   v
 *		 +---- again ------ UNDOING -----> freed
 *
 * An error on a node has one of three causes.  A transient one (deadlock, cancel by
 * a transaction of higher rank): the task is executed again.  The node: it is
 * dropped, the others go on.  The transaction: it is rolled back everywhere; if it
 * is decided already, it can't be, and the node is dropped instead.
 *
 * Transactions that were executed together and failed are executed one by one
 * (task_split()).
 *
 * The bit of a node in tx->executing is set as long as a RESERVED transaction has a
 * task there that is not EXECUTED.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "database_event.h"
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
#define MAX_TIMES_LOST 3		/* a task that loses so many connections ends
								 * them */

static uint64_t
bit_of(const Node *n)
{
	return UINT64_C(1) << n->index;
}

static ApplyTask *
task_create(Node *n, Transaction *tx)
{
	ApplyTask  *task = xcalloc(1, sizeof(ApplyTask));

	assert(task_find(tx, n->index) == NULL);
	task->tx = tx_ref(tx);
	task->node = n->index;
	task->queued_us = loop_now_us();
	task->next_of_tx = tx->tasks;
	tx->tasks = task;
	task->node_next = n->tasks;
	if (n->tasks != NULL)
		n->tasks->node_prev = task;
	n->tasks = task;
	task_count_ddl(n, task);
	return task;
}

/*
 * NULL: the database has been dropped since, also if another got the name later.  It was not if it only
 * had the name before the one that was dropped, and has been renamed.
 */
Pool *
task_pool(Node *n, const Transaction *tx)
{
	if (tx->seq != 0 && tx->seq <= metadata_dropped_at(tx->database) && !database_event_was_name(tx->database, tx->seq))
		return NULL;
	return pool_find(n, tx->database);
}

ApplyTask *
task_add(Node *n, Transaction *tx)
{
	Pool	   *p = task_pool(n, tx);
	ApplyTask  *task = task_create(n, tx);

	if (p == NULL)
	{
		/*
		 * Only its turn has to pass, and not in the one that has the name
		 * now, if there is another.
		 */
		assert(tx->seq != 0 && n->pools != NULL);
		task->empty = true;
		for (p = n->pools; p->next != NULL && strcmp(p->database, tx->database) == 0; p = p->next)
			;
	}
	apply_queue_insert(&p->queue, task);
	node_pump(n);
	return task;
}

void
task_begin_early(Pool *p, Transaction *tx)
{
	ApplyTask  *task = task_create(p->node, tx);

	task->early = true;
	task->last_ddl = sequencer_last_ddl();
	task->state = TASK_RUNNING;
	task->queue = &p->queue;
	task->started_us = loop_now_us();
	task->holder = apply_queue_take(&p->queue, tx);
	apply_run(pool_take(p), task);
	LOCKSTEP_POINT(BEGUN_EARLY);
}

static void
unlink_from_tx(ApplyTask *task)
{
	ApplyTask **link = &task->tx->tasks;

	while (*link != task)
		link = &(*link)->next_of_tx;
	*link = task->next_of_tx;
}

/* Frees it, whatever its state; the caller takes care of the connection. */
static void
task_remove(ApplyTask *task)
{
	Node	   *n = node_get(task->node);

	if (task->state == TASK_QUEUED)
		apply_queue_remove(task->queue, task);
	unlink_from_tx(task);
	*(task->node_prev != NULL ? &task->node_prev->node_next : &n->tasks) = task->node_next;
	if (task->node_next != NULL)
		task->node_next->node_prev = task->node_prev;
	if (task->ddl)
	{
		n->ddl_tasks--;
		n->ddl_tasks_gone++;
	}
	to_membership->task_gone(n, task);
	loop_cancel(task->pause);
	tx_unref(task->tx);
	free(task);
}

static void
on_pause_over(void *arg)
{
	ApplyTask  *task = arg;

	task->pause = NULL;
	node_pump(node_get(task->node));
}

/* Run it once more, in its rank's order, after a pause that grows. */
static void
queue_again(ApplyTask *task)
{
	Node	   *n = node_get(task->node);
	int			pause_ms = task->retries < 7 ? 1 << task->retries : MAX_PAUSE_MS;

	task->retries++;
	task->again = task->began_early = false;
	task_count_ddl(n, task);
	task->not_before_us = loop_now_us() + (uint64_t) pause_ms * 1000;
	if (task->tx->state == TX_RESERVED)
		task->tx->executing |= bit_of(n);
	apply_queue_insert(task->queue, task);
	loop_cancel(task->pause);
	task->pause = loop_after(pause_ms, on_pause_over, task);
}

ApplyMoment
tasks_moment(const Node *n)
{
	const Transaction *lowest = sequencer_reserved(NULL);

	return (ApplyMoment)
	{
		n->applied, sequencer_last_durable(), loop_now_us(), lowest != NULL ? lowest->ticket : 0,
			n->state == NODE_ONLINE
	};
}

void
tasks_drop_applied(Node *n)
{
	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		while (p->queue.first != NULL && p->queue.first->tx->seq != 0 && p->queue.first->tx->seq <= n->applied)
			task_remove(p->queue.first);
	}
}

/* It has a connection, and takes those that can be executed with it along. */
static void
take_along(Node *n, ApplyTask *task)
{
	ApplyTask  *followers[TX_TOGETHER];
	Transaction *members[TX_TOGETHER];
	size_t		count = apply_queue_followers(task->queue, task, followers);
	Transaction *tx;

	if (count == 0)
		return;
	members[0] = task->tx;
	for (size_t i = 0; i < count; i++)
		members[i + 1] = followers[i]->tx;
	tx = tx_together(members, count + 1);
	for (size_t i = 0; i < count; i++)
		task_remove(followers[i]);
	unlink_from_tx(task);
	tx_unref(task->tx);			/* tx refers to it */
	task->tx = tx;
	task->next_of_tx = NULL;
	tx->tasks = task;
	task->queue->begun = tx->seq;
	task->wait_for = tx->depends_on > n->applied ? tx->depends_on : 0;
	n->groups++;
	n->grouped += count + 1;
}

bool
tasks_start(Node *n)
{
	ApplyMoment at = tasks_moment(n);
	bool		any = false;

	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		ApplyTask  *task;

		while ((task = apply_queue_next(&p->queue, &at)) != NULL)
		{
			if (at.gather)
				take_along(n, task);
			apply_run(pool_take(p), task);
			any = true;
		}
	}
	return any;
}

void
task_commit(ApplyTask *task)
{
	if (task->state != TASK_EXECUTED)
		return;
	task->state = TASK_COMMITTING;
	apply_commit(task->connection);
}

void
task_undo(ApplyTask *task, bool again)
{
	if (task->early)
	{
		/* again when it is reserved */
		again = false;
		task->tx->not_early |= bit_of(node_get(task->node));
	}
	switch (task->state)
	{
		case TASK_QUEUED:
			if (!again)
				task_remove(task);
			break;
		case TASK_RUNNING:
		case TASK_EXECUTED:
			if (apply_is_committing(task->connection))
			{
				assert(again);
				apply_insist(task->connection);
				break;
			}
			if (again && task->tx->state == TX_RESERVED)
				task->tx->executing |= bit_of(node_get(task->node));
			task->state = TASK_UNDOING;
			task->again = again;
			apply_undo(task->connection);
			break;
		case TASK_UNDOING:
			if (!again)
				task->again = false;
			break;
		case TASK_COMMITTING:
			assert(again);		/* a decided one is never taken back for good */
			apply_cancel(task->connection);
			break;
	}
}

/* ---------- results */

static void
task_executed(ApplyTask *task)
{
	Transaction *tx = task->tx;

	LOCKSTEP_POINT(EXECUTED_THERE);
	task->state = TASK_EXECUTED;
	if (tx->state == TX_RESERVED)
	{
		tx->executing &= ~bit_of(node_get(task->node));
		if (tx->executing == 0)
			sequencer_executed(tx);
	}
	else if (tx->state == TX_DURABLE || tx->state == TX_DONE)
		task_commit(task);
}

static void
task_committed(ApplyTask *task)
{
	uint64_t	seq = task->tx->seq;
	Node	   *n = node_get(task->node);

	LOCKSTEP_POINT(COMMITTED_THERE);
	task_remove(task);
	node_heard_applied(n->index, seq);
	node_pump(n);
}

static void
task_undone(ApplyTask *task)
{
	LOCKSTEP_POINT(UNDONE_THERE);
	if (task->again)
		queue_again(task);
	else
		task_remove(task);
}

/* What it did there was rolled back, or committed: it is done again, and finds out. */
static void
task_lost(ApplyTask *task)
{
	task->connection = NULL;
	if (task->early)
		task->tx->not_early |= bit_of(node_get(task->node));
	if (task->early || (task->state == TASK_UNDOING && !task->again))
		task_remove(task);
	else
		queue_again(task);
}

/*
 * A connection that is lost while the control connection still answers (its session was
 * terminated, for example) is replaced, and its task is executed again; if the task's COMMIT had
 * arrived, apply_begin reports that.  The node is dropped if no replacement can be opened, or if
 * connections are lost again and again.
 */
static void
connection_lost(ApplyConn *c, const char *error)
{
	Pool	   *p = apply_pool(c);
	Node	   *n = p->node;
	ApplyTask  *task = apply_current_task(c);

	if ((n->state != NODE_CATCHUP && n->state != NODE_ONLINE) || !pool_may_replace(p) ||
		(task != NULL && ++task->times_lost >= MAX_TIMES_LOST))
	{
		node_out(n, DROP_APPLY_LOST, FACTS(.database = p->database,.error = error));
		return;
	}
	log_message(LOG_WARNING, n->config->name, "lost a connection to database \"%s\": %s; opening another one",
				p->database, error);
	pool_replace(p, c);
	if (task != NULL)
		task_lost(task);
	node_pump(n);
}

static void
connection_refused(ApplyConn *c, DropCause cause, const char *error)
{
	pool_not_opened(apply_pool(c), cause, error);
}

static void
connection_ready(ApplyConn *c)
{
	pool_give_back(apply_pool(c), c);
}

/*
 * Its queries can't be read from the replicator's disk.  One that is not decided
 * is rolled back; for the others this node has to wait until they can.
 */
static void
task_unreadable(ApplyTask *task, const char *error)
{
	Transaction *tx = task->tx;

	if (task->early)
		task_undo(task, false); /* it will be found out again, or not */
	else if (tx->state == TX_RESERVED)
		sequencer_refuse(tx, "58030", error, NULL);
	else
		node_out(node_get(task->node), DROP_JOURNAL_UNREADABLE, FACTS(.seq = tx->seq,.error = error));
}

/*
 * Commands on one object that don't lock it - GRANT, ALTER ROLE ... - wait for the
 * other's row and then fail, where those at the origin came one after the other.
 */
static bool
is_catalog_race(const ApplyTask *task, const ApplyError *e)
{
	return task->retries < MAX_RACES && strcmp(e->sqlstate, "XX000") == 0 &&
		(strcmp(e->message, "tuple concurrently updated") == 0 || strcmp(e->message, "tuple concurrently deleted") == 0);
}

/*
 * Any user can fill the server's lock table for a moment, with one query of many partitions.
 * A node that lacks memory for longer is dropped.  What a user's function raises may pass, too.
 */
static bool
may_pass(const ApplyTask *task, const ApplyError *e)
{
	return task->retries < MAX_RACES && (strcmp(e->sqlstate, "53200") == 0 || e->of_function);
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

/*
 * About that node, not about the data?  Errors of users' functions come with other SQLSTATEs
 * (extension/apply/functionerror.c).
 */
static bool
is_nodes_fault(const ApplyError *e)
{
	static const char *const classes[] = {"08", "53", "57", "58", "F0", "XX"};

	if (e->of_function)
		return false;
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
task_split(ApplyTask *task)
{
	Node	   *n = node_get(task->node);
	Transaction *tx = tx_ref(task->tx);

	task->state = TASK_UNDOING; /* it is in no queue */
	task_remove(task);
	for (size_t i = 0; i < tx->nmembers; i++)
	{
		if (tx->members[i]->seq <= n->applied)
			continue;
		to_membership->task_added(n, tx->members[i]);
		task_add(n, tx->members[i])->alone = true;
	}
	tx_unref(tx);
}

static void
task_failed(ApplyTask *task, const ApplyError *e)
{
	Transaction *tx = task->tx;
	Node	   *n = node_get(task->node);

	log_message(LOG_DEBUG, n->config->name, "transaction %s/%" PRIu32 "/%" PRIu64 " failed here: %s: %s",
				tx->node, tx->pid, tx->xcount, e->sqlstate, e->message);
	if (task->early)
	{
		/* its cause may be gone when the transaction is reserved */
		tx->not_early |= bit_of(n);
		task->state = TASK_UNDOING; /* it is in no queue */
		task_remove(task);
	}
	else if (task->began_early)
		queue_again(task);
	else if (tx->nmembers > 0 && (!is_retryable(e) || task->retries >= RETRIES_TOGETHER))
		task_split(task);
	else if (is_retryable(e) || is_catalog_race(task, e) || may_pass(task, e))
	{
		if (is_time_to_tell(task->retries))
			log_message(LOG_WARNING, n->config->name, "transaction %s/%" PRIu32 "/%" PRIu64
						" has failed here %d times and is tried again: %s (%s)",
						tx->node, tx->pid, tx->xcount, task->retries, e->message, e->sqlstate);
		if (is_time_to_tell(task->retries) && tx->seq != 0)
			apply_trouble_note(n, tx, e);
		queue_again(task);
	}
	else if (tx->state != TX_RESERVED && !task->looked_twice)
	{
		/* its own backend may have committed it meanwhile: that is told first */
		task->looked_twice = true;
		queue_again(task);
	}
	else if (tx->state != TX_RESERVED)
	{
		apply_trouble_note(n, tx, e);
		sequencer_refused_decided(tx, n->index);
		node_out(n, DROP_APPLY_FAILED, FACTS(.seq = tx->seq,.error = e->message,.sqlstate = e->sqlstate));
	}
	else if (is_nodes_fault(e))
		node_out(n, DROP_EXECUTE_FAILED, FACTS(.error = e->message,.sqlstate = e->sqlstate));
	else
	{
		LsErrorFields fields = {ls_slice_of(e->sqlstate), ls_slice_of(e->message), ls_slice_of(e->detail), ls_slice_of(e->hint)};

		tx_ref(tx);
		task->state = TASK_UNDOING; /* it is in no queue */
		task_remove(task);
		sequencer_execute_failed(tx, n->index, &fields);
		tx_unref(tx);
	}
}

static const ApplyOps task_ops = {
	.refused = connection_refused,
	.ready = connection_ready,
	.lost = connection_lost,
	.executed = task_executed,
	.committed = task_committed,
	.undone = task_undone,
	.failed = task_failed,
	.unreadable = task_unreadable
};

void
tasks_init(void)
{
	apply_init(&task_ops);
}

/* The node's state has been changed already, so nothing new is given to it. */
void
tasks_forget(Node *n)
{
	while (n->tasks != NULL)
	{
		ApplyTask  *task = n->tasks;
		Transaction *tx = tx_ref(task->tx);
		bool		was_awaited = (tx->executing & bit_of(n)) != 0;

		task_remove(task);
		tx->executing &= ~bit_of(n);
		if (was_awaited && tx->state == TX_RESERVED && tx->executing == 0)
			sequencer_executed(tx);
		tx_unref(tx);
	}
}
