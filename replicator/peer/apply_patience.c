/*
 * apply_patience.c
 *	  Rolling back transactions that occupy an apply connection for too long while
 *	  others wait for one.
 *
 * Users' functions (in indexes, generated columns, domains) are executed on every
 * node.  A function that is fast at its origin and sleeps on another node occupies
 * a connection there without waiting for a lock; a dozen such transactions occupy
 * all of them.  apply_queue.h limits the connections of one role; this file is for
 * several roles, and for other transactions of the same role.
 *
 * While a task waits for nothing but a connection, the control connection looks at
 * the sessions that have one, every LOOK_MS.  A session counts as executing if its
 * process runs, sleeps, or waits for something outside of the server; not if it
 * waits for a lock, its turn, a disk, or the replicator.  When a session has been
 * seen executing for apply_patience and for four times what its transaction took at
 * its origin (building a large index takes long everywhere), the transaction is
 * rolled back: one per look, of the role with most connections the one that has
 * executed longest.
 *
 * A decided transaction can't be rolled back.  It has been executed on every node
 * before, except in catch-up, when the node has no undecided ones to execute; and
 * an `ordered` transaction calls no such function (may_fail_elsewhere in the
 * extension).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "log.h"
#include "querytext.h"
#include "sequencer.h"

#define LOOK_MS 200
#define SHORT_MS 500			/* no shortage, if it is over by then */
#define TIMES_ORIGIN 4
#define TELL_MS 2000			/* a shortage that lasts so long is logged,
								 * and whenever it has doubled */
#define OWN_CALL "SELECT lockstep." /* has patience of its own */

static const char query[] =
"SELECT pid FROM pg_catalog.pg_stat_activity WHERE pid = ANY ($1::int[]) AND state = 'active' "
"AND coalesce(wait_event_type, 'Timeout') IN ('Timeout', 'Extension', 'IPC')";

/* ---------- is there a shortage? */

/* Has the same one waited for a connection for a while?  *n: how many wait. */
static bool
is_short(Pool *p, int elapsed_ms, int *n)
{
	ApplyMoment at = tasks_moment(p->node);
	const ApplyTask *task = apply_queue_waiting(&p->queue, &at, n);
	uint64_t	ticket = task != NULL ? task->tx->ticket : 0;

	p->short_ms = ticket != 0 && ticket == p->short_of ? p->short_ms + elapsed_ms : 0;
	p->short_of = ticket;
	return p->short_ms >= SHORT_MS;
}

/* The role that has most of its connections; NULL: none has any. */
static const char *
busiest_role(const Pool *p)
{
	const char *busiest = NULL;

	for (int i = 0; i < p->queue.nholders; i++)
	{
		const char *role = p->queue.holders[i].role;

		if (apply_queue_held(&p->queue, role) > apply_queue_held(&p->queue, busiest))
			busiest = role;
	}
	return busiest;
}

/* For the log and for status. */
static void
tell_shortage(Pool *p)
{
	Node	   *n = p->node;
	const char *role = busiest_role(p);

	snprintf(n->shortage, sizeof(n->shortage),
			 "%d transactions wait for an apply connection to database \"%s\", the first one for %d.%d s; role \"%s\" holds %d of %d",
			 p->short_n, p->database, p->short_ms / 1000, p->short_ms % 1000 / 100,
			 role != NULL ? role : "", apply_queue_held(&p->queue, role), p->queue.capacity);
	if (p->short_ms < p->tell_ms)
		return;
	p->tell_ms = p->short_ms * 2;
	log_message(LOG_WARNING, n->config->name, "%s", n->shortage);
}

/* ---------- who keeps connections */

/* The statement that it executes, to be shown; NULL: it isn't the user's. */
static char *
current_statement(const ApplyConn *c)
{
	size_t		at = apply_current_statement(c, 0);
	const Transaction *tx = tx_member_at(apply_current_task(c)->tx, &at);
	Buffer		copy = {0};
	LsSlice		payload;
	LsQuery		q;
	LsKey		key = {0};
	char	   *text = NULL;

	if (tx_find_statement(tx, at, &copy, &payload) && ls_get_query(payload, &q) == NULL &&
		q.form != LS_FORM_KEYS &&
		!(q.text.len >= strlen(OWN_CALL) && memcmp(q.text.data, OWN_CALL, strlen(OWN_CALL)) == 0))
		text = query_shown(&q, &key, false);
	buffer_free(&copy);
	return text;
}

static bool
may_be_overlong(const Node *n, const ApplyConn *c)
{
	const ApplyTask *task = apply_current_task(c);

	return task != NULL && task->state == TASK_RUNNING && !task->early && task->tx->state == TX_RESERVED &&
		!apply_is_idle(c) && apply_waits_for(c) <= n->applied;
}

static bool
is_overlong(ApplyConn *c)
{
	uint64_t	allowed_ms = (uint64_t) node_config->apply_patience + TIMES_ORIGIN * apply_current_task(c)->tx->took_ms;

	return (uint64_t) *apply_executing_ms(c) >= allowed_ms;
}

/* Does a come before b? */
static bool
is_worse(const ApplyQueue *queue, ApplyConn *a, ApplyConn *b)
{
	int			held_a = apply_queue_held(queue, apply_holder(a).role);
	int			held_b = apply_queue_held(queue, apply_holder(b).role);

	return held_a != held_b ? held_a > held_b : *apply_executing_ms(a) > *apply_executing_ms(b);
}

static void
end_overlong(Pool *p, ApplyConn *c, char *statement)
{
	Node	   *n = p->node;
	Transaction *tx = apply_current_task(c)->tx;
	const char *role = tx->role != NULL ? tx->role : "";
	int			ms = *apply_executing_ms(c);
	char	   *message = xasprintf("canceling the transaction because node \"%s\" has executed it for too long while others wait",
									n->config->name);
	char	   *detail = xasprintf("Executing query \"%s\" of role \"%s\" there (process %d) has taken %d.%d s without waiting for anybody, "
								   "at its origin the transaction took %" PRIu64 ".%" PRIu64 " s; the role holds %d of %d connections, and %d transactions wait for one.",
								   statement, role, apply_backend_pid(c), ms / 1000, ms % 1000 / 100,
								   tx->took_ms / 1000, tx->took_ms % 1000 / 100,
								   apply_queue_held(&p->queue, tx->role), p->queue.capacity, p->short_n);
	LsErrorFields error = {ls_slice_of("57014"), ls_slice_of(message), ls_slice_of(detail),
	ls_slice_of("Functions in indexes, generated columns and domains are called on every node. See apply_patience of the replicator.")};

	log_message(LOG_WARNING, n->config->name, "transaction of node \"%s\" (pid %" PRIu32 ") is rolled back: %s",
				tx->node, tx->pid, detail);
	n->apply_patience_ended++;
	sequencer_execute_failed(tx, n->index, &error);
	free(detail);
	free(message);
}

/* One of them, if there is one. */
static void
end_worst(Pool *p)
{
	ApplyConn  *worst = NULL;
	char	   *statement;

	for (int i = 0; i < p->nconnections; i++)
	{
		ApplyConn  *c = p->connections[i];

		if (may_be_overlong(p->node, c) && is_overlong(c) && (worst == NULL || is_worse(&p->queue, c, worst)))
			worst = c;
	}
	statement = worst != NULL ? current_statement(worst) : NULL;
	if (statement != NULL)
		end_overlong(p, worst, statement);
	else if (worst != NULL)
		*apply_executing_ms(worst) = 0; /* others next time */
	free(statement);
}

/* ---------- looking */

static void
on_looked(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	if (!pids_answered(n, r, &n->apply_patience_asked, "look at apply sessions that others wait for"))
		return;
	for (int i = 0; i < PQntuples(r); i++)
	{
		ApplyConn  *c = pools_find_connection(n, atoi(PQgetvalue(r, i, 0)));

		/* it may have gone on since it was asked */
		if (c != NULL && may_be_overlong(n, c))
			*apply_executing_ms(c) += LOOK_MS;
	}
	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		if (p->short_ms >= SHORT_MS)
			end_worst(p);
	}
}

void
apply_patience_look(Node *n, int elapsed_ms)
{
	Buffer		pids = {0};

	n->apply_patience_ms += elapsed_ms;
	if (n->apply_patience_asked || n->apply_patience_ms < LOOK_MS)
		return;
	n->shortage[0] = '\0';
	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		bool		looked_at = is_short(p, n->apply_patience_ms, &p->short_n) && node_config->apply_patience > 0;

		if (p->short_ms >= SHORT_MS)
			tell_shortage(p);
		else
			p->tell_ms = TELL_MS;
		for (int i = 0; i < p->nconnections && looked_at; i++)
		{
			if (may_be_overlong(n, p->connections[i]))
				pids_add(&pids, apply_backend_pid(p->connections[i]));
		}
	}
	n->apply_patience_ms = 0;
	(void) pids_ask(n, &pids, query, &n->apply_patience_asked, on_looked);
}
