/*
 * early_apply.c
 *	  Streaming apply: peers execute a large transaction before it asks to commit.
 *
 * While the backend still runs, the online peers execute the queries of its
 * transaction that are on disk (spill.c), so that little is left to do when it asks
 * to commit.  That is speculative:
 *
 *	 - Only changes of rows are executed, which depend on nothing but those rows and
 *	   on unique values, and utility commands, whose tables are locked at the origin
 *	   and in the cluster before they run.  The first query of another kind waits
 *	   until the transaction is reserved.
 *	 - An earlier writer of such a row had committed at the origin when the row was
 *	   changed there, so its seq was decided when the query arrived.  Before it sends
 *	   queries, the session waits until its node has applied everything decided by
 *	   then.  If a later writer is of another node, certification refuses the
 *	   transaction; a later writer of the same node is impossible, as the row is
 *	   locked there.
 *	 - If DDL is decided meanwhile, or if other transactions of the origin have to be
 *	   decided first, the task is undone and starts again when the transaction is
 *	   reserved.  So all of it is executed with one state of the catalogs.
 *	 - The task has no rank and nothing yields to it.  When another apply session or
 *	   a client waits for one of its locks, or when a savepoint is rolled back, the
 *	   task is undone; that node executes the transaction after it has been reserved.
 *	   The same after an error, which is not reported.
 *	 - The task never gets one of the last two connections of its queue
 *	   (apply_queue.h).
 */
#include "apply.h"

#include <stdlib.h>

#include "log.h"
#include "sequencer.h"
#include "spill.h"

#define WATCH_MS 50
#define LEFT_FREE 3				/* and what is reserved: a queue with fewer
								 * free ones gives none */
#define IDLE_US (60 * UINT64_C(1000000))	/* what hears no more of it must
											 * not hold locks and back VACUUM */

static const char query[] =
"SELECT DISTINCT b.pid FROM pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) AS b(pid) "
"WHERE a.wait_event_type = 'Lock' AND b.pid = ANY ($1::int[])";

static void watch(Node *n);

static bool
is_running_early(const ApplyTask *task)
{
	return task->early && task->state == TASK_RUNNING;
}

static void
end(ApplyTask *task, const char *why)
{
	log_message(LOG_DEBUG, node_get(task->node)->config->name,
				"streaming transaction %s/%u is rolled back here: %s",
				task->tx->node, task->tx->pid, why);
	task_undo(task, false);
}

/* ---------- watching */

static void
on_answer(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	int			rows = pids_answered(n, r, &n->early_apply_asked, "ask who waits for streaming transactions") ? PQntuples(r) : 0;

	for (int i = 0; i < rows; i++)
	{
		ApplyConn  *c = pools_find_connection(n, atoi(PQgetvalue(r, i, 0)));
		ApplyTask  *task = c != NULL ? apply_current_task(c) : NULL;

		if (task != NULL && is_running_early(task))
			end(task, "another session waits for it");
	}
	if (r != NULL)
		watch(n);
}

static void
on_timer(void *arg)
{
	Node	   *n = arg;
	Buffer		pids = {0};
	ApplyTask  *next;

	n->early_apply_timer = NULL;
	for (ApplyTask *task = n->tasks; task != NULL; task = next)
	{
		next = task->node_next;
		if (!is_running_early(task))
			continue;
		if (loop_now_us() - apply_progress_us(task->connection) > IDLE_US)
			end(task, "no more queries have arrived");
		else
			pids_add(&pids, apply_backend_pid(task->connection));
	}
	(void) pids_ask(n, &pids, query, &n->early_apply_asked, on_answer);
}

static void
watch(Node *n)
{
	if (n->early_apply_timer == NULL && !n->early_apply_asked)
		n->early_apply_timer = loop_after(WATCH_MS, on_timer, n);
}

void
early_apply_stop(Node *n)
{
	loop_cancel(n->early_apply_timer);
	n->early_apply_timer = NULL;
	n->early_apply_asked = false;
}

/* ---------- beginning and going on */

static bool
has_room(const Node *n, const Pool *p)
{
	int			early = 0;

	if (p->queue.capacity - p->queue.taken < LEFT_FREE + p->queue.reserved)
		return false;
	for (const ApplyTask *task = n->tasks; task != NULL; task = task->node_next)
		early += task->early && task->queue == &p->queue;
	return early < node_config->early_connections;
}

static void
begin(Node *n, Transaction *tx)
{
	Pool	   *p = pool_find(n, tx->database);

	if ((tx->not_early >> n->index & 1) || p == NULL || !has_room(n, p))
		return;
	task_begin_early(p, tx);
	watch(n);
}

void
early_apply_begin(Transaction *tx)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);
		ApplyTask  *task = task_find(tx, i);

		if (task == NULL && n->state == NODE_ONLINE && i != (int) tx->origin)
			begin(n, tx);
		else if (task != NULL && is_running_early(task) && task->last_ddl != sequencer_last_ddl())
			end(task, "DDL has been decided");
		else if (task != NULL && is_running_early(task))
			apply_go_on(task->connection);
	}
}

void
early_apply_promote(ApplyTask *task)
{
	Transaction *tx = task->tx;
	Node	   *n = node_get(task->node);

	task->early = false;
	if (task->state == TASK_UNDOING)
	{
		task->again = true;
		return;
	}
	task->began_early = true;
	task_count_ddl(n, task);
	if (tx->nafter_tickets > 0 || task->last_ddl != sequencer_last_ddl())
	{
		task_undo(task, true);
		return;
	}
	task->wait_for = tx->depends_on > n->applied ? tx->depends_on : 0;
	lock_conflict_watch(n);
	apply_go_on(task->connection);
}

/* ---------- ending */

void
early_apply_cut(Transaction *tx)
{
	size_t		left = tx->spill != NULL ? tx->spill->nstatements : 0;

	for (ApplyTask *task = tx->tasks, *next; task != NULL; task = next)
	{
		next = task->next_of_tx;
		if (is_running_early(task) && apply_position(task->connection) > left)
			end(task, "its savepoint was rolled back");
	}
}

void
early_apply_end(Transaction *tx)
{
	for (ApplyTask *task = tx->tasks, *next; task != NULL; task = next)
	{
		next = task->next_of_tx;
		if (is_running_early(task))
			end(task, "its queries are discarded");
	}
}
