/*
 * apply_cancel.c
 *	  Canceling what an apply session executes.
 *
 * The control connection sends a cancel request.  A server discards a request
 * that arrives between two commands of a pipeline, so it is repeated, with
 * growing pauses, until the session has answered the Sync.  A session that does
 * not end its statement within TERMINATE_MS is terminated and its connection
 * replaced.  If the server does not end the session within stall_timeout, the
 * node is dropped.  Time is the sum of the pauses, not the clock's, as the
 * replicator itself may have been stopped.
 *
 * A connection gets its next task only after all of its cancel requests have
 * been delivered.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "apply_private.h"
#include "log.h"

#define FIRST_PAUSE_MS 10
#define MAX_PAUSE_MS 200
#define TERMINATE_MS 5000

static void insist_later(ApplyConn *c);

/* The connection is looked up: it may have been replaced meanwhile. */
static void
on_cancelled(void *arg, const PGresult *result)
{
	Node	   *n = arg;
	ApplyConn  *c;

	if (result == NULL)
		return;					/* the node goes out */
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		node_out(n, DROP_CANCEL_FAILED, FACTS(.error = pgclient_message(PQresultErrorMessage(result))));
		return;
	}
	c = pools_find_connection(n, atoi(PQgetvalue(result, 0, 0)));
	if (c == NULL || c->cancels == 0)
		return;
	c->cancels--;
	if (c->task == NULL && c->cancels == 0)
		to_tasks->ready(c);
}

void
apply_cancel(ApplyConn *c)
{
	char		pid[16];
	const char *params[] = {pid};

	if (c->cancels > 0)
		return;
	snprintf(pid, sizeof(pid), "%d", apply_backend_pid(c));
	c->cancels++;
	pgclient_query(c->pool->node->control, "SELECT $1::int, pg_cancel_backend($1::int)", 1, params,
				   on_cancelled, c->pool->node);
}

static void
terminate(ApplyConn *c)
{
	char		pid[16];
	const char *params[] = {pid};
	const Transaction *tx = c->task->tx;

	log_message(LOG_WARNING, c->pool->node->config->name,
				"apply session %d is terminated: it was to roll back a transaction of node \"%s\" (pid %" PRIu32
				"), and has not obeyed cancel requests for %d s",
				apply_backend_pid(c), tx->node, tx->pid, c->insisted_ms / 1000);
	snprintf(pid, sizeof(pid), "%d", apply_backend_pid(c));
	pgclient_query(c->pool->node->control, "SELECT pg_catalog.pg_terminate_backend($1::int)", 1, params, NULL, NULL);
}

static void
on_insist(void *arg)
{
	ApplyConn  *c = arg;
	int			before_ms = c->insisted_ms;

	c->insist = NULL;
	c->insisted_ms += c->insist_pause_ms;
	if (c->insisted_ms > TERMINATE_MS + node_stall_timeout())
	{
		node_out(c->pool->node, DROP_SESSION_STAYS, FACTS(.pid = apply_backend_pid(c),.ms = node_stall_timeout()));
		return;
	}
	if (before_ms < TERMINATE_MS && c->insisted_ms >= TERMINATE_MS)
		terminate(c);
	else if (c->insisted_ms < TERMINATE_MS)
		apply_cancel(c);
	insist_later(c);
}

static void
insist_later(ApplyConn *c)
{
	c->insist_pause_ms = c->insist_pause_ms == 0 ? FIRST_PAUSE_MS : c->insist_pause_ms * 2;
	if (c->insist_pause_ms > MAX_PAUSE_MS)
		c->insist_pause_ms = MAX_PAUSE_MS;
	c->insist = loop_after(c->insist_pause_ms, on_insist, c);
}

void
apply_stop_insisting(ApplyConn *c)
{
	loop_cancel(c->insist);
	c->insist = NULL;
	c->insisted_ms = c->insist_pause_ms = 0;
}

void
apply_insist(ApplyConn *c)
{
	if (c->insist != NULL)
		return;
	apply_cancel(c);
	insist_later(c);
}

void
apply_undo(ApplyConn *c)
{
	bool		running = c->expected_count > 0;

	assert(!c->commit_sent && c->insist == NULL);
	send_rollback(c);
	if (running)
		apply_insist(c);
}
