/*
 * apply.c
 *	  When may which part of a transaction go out on its apply connection: its
 *	  queries in a libpq pipeline, its COMMIT or its end?
 *
 *	  CONNECTING --> idle --run--> running --all results--> executed
 *					   ^			  |						 |
 *					   |			  error, undo			 commit, undo
 *					   |			  v						 v
 *					   +--- Sync ---- ending <---------------+
 *
 * On the wire, one implicit transaction up to the Sync:
 *
 *	  apply_transaction Flush		-> results	-> executed
 *	  commit_transaction Sync		-> commits	-> committed
 *	  or: apply_rollback Sync		-> raises	-> undone
 *
 *	  apply_transaction Sync		-> commits	-> committed
 *
 * The latter is for a transaction of rows that is decided already.  It claims its
 * seq, or says (LS001) that the node has applied it, which is as good.  Several
 * that are executed as one (tx_together) claim all of theirs.  The task is RUNNING
 * until it is committed.
 *
 * What is not only rows, or goes to a database of version 1.0, is sent query by query:
 *
 *	  [apply_wait] [apply_begin] q1 ... qn Flush	-> results	-> executed
 *
 * What this node itself has asked for, and its backend was not told, begins with
 * deliver_verdict: LS001 if that backend was still there, and has committed it.
 *
 * Then the COMMIT doesn't go out before all results are in, even if the
 * transaction is decided: a query that changes another number of rows than at its
 * origin must not be committed here.
 *
 * `expected` is the list of results to come, in order; libpq's own queue
 * mirrors it.  Large transactions go in windows, so that neither side has to
 * buffer all of one.
 *
 * How a transaction is taken back is in apply_cancel.c.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "apply_private.h"
#include "points.h"
#include "sequencer.h"
#include "spill.h"

#define WINDOW_QUERIES 512
#define WINDOW_BYTES (1024 * 1024)	/* libpq's buffer is not much larger */

const ApplyOps *to_tasks;

void
apply_init(const ApplyOps *ops)
{
	to_tasks = ops;
}

void
apply_tell_lost(ApplyConn *c)
{
	to_tasks->lost(c, pgclient_message(c->conn != NULL ? PQerrorMessage(c->conn) : "out of memory"));
}

Pool *
apply_pool(const ApplyConn *c)
{
	return c->pool;
}

int
apply_backend_pid(const ApplyConn *c)
{
	return c->conn != NULL ? PQbackendPID(c->conn) : 0;
}

ApplyTask *
apply_current_task(const ApplyConn *c)
{
	return c->task;
}

Holder
apply_holder(const ApplyConn *c)
{
	return c->holder;
}

uint64_t
apply_waits_for(const ApplyConn *c)
{
	return c->waited_for;
}

int *
apply_executing_ms(ApplyConn *c)
{
	return &c->executing_ms;
}

uint64_t
apply_progress_us(const ApplyConn *c)
{
	return c->progress_us;
}

ApplyStill *
apply_still(ApplyConn *c)
{
	return &c->still;
}

ApplyBlocked *
apply_blocked(ApplyConn *c)
{
	return &c->blocked;
}

size_t
apply_current_statement(const ApplyConn *c, size_t at_row)
{
	size_t		at = c->cursor.next - (c->held.data != NULL ? 1 : 0);
	size_t		within = 0;		/* how many come together that are next */

	for (size_t i = 0; i < c->expected_count; i++)
	{
		size_t		queries = c->expected[(c->expected_head + i) & (c->expected_cap - 1)].queries;

		within = within > 0 ? within : queries;
		at -= queries;
	}
	return at_row < within ? at + at_row : at;
}

size_t
apply_position(const ApplyConn *c)
{
	return c->cursor.next;
}

bool
apply_is_committing(const ApplyConn *c)
{
	return c->commit_sent;
}

bool
apply_is_idle(const ApplyConn *c)
{
	return c->expected_count == 0;
}

ApplyConn *
apply_next_idle(const ApplyConn *c)
{
	return c->next_idle;
}

void
apply_set_next_idle(ApplyConn *c, ApplyConn *next)
{
	c->next_idle = next;
}

/* How many statements of its transaction may be sent by now. */
static size_t
sendable(const ApplyConn *c)
{
	const ApplyTask *task = c->task;

	if (task->empty)
		return 0;
	if (!task->early)
		return task->tx->nstatements;
	if (c->held.data != NULL || sequencer_last_ddl() != task->last_ddl)
		return 0;
	return task->tx->spill->nstatements;
}

/*
 * An early one: is it a row's change, or a utility command, which nothing can
 * make mean anything else?
 */
static bool
may_be_early(const LsQuery *query)
{
	if (query->reason == LS_REASON_UTILITY)
		return true;
	return (query->form == LS_FORM_ROW || query->form == LS_FORM_COPY || query->form == LS_FORM_PIECE) &&
		query->settings.len == 0;
}

static bool
next_payload(ApplyConn *c, LsSlice *payload, const char **error)
{
	*payload = c->held;
	c->held = (LsSlice) {NULL, 0};
	return payload->data != NULL || tx_next(&c->cursor, c->task->tx, payload, error);
}

/* It has no result of its own: for apply_current_statement(). */
static void
count_skipped(ApplyConn *c)
{
	if (c->task->looked_twice && c->expected_count > 0)
		c->expected[(c->expected_head + c->expected_count - 1) & (c->expected_cap - 1)].queries++;
}

static bool
all_is_sent(const ApplyConn *c)
{
	return c->held.data == NULL && !c->task->early && c->read_error == NULL &&
		(c->task->empty || c->cursor.next == c->task->tx->nstatements);
}

/*
 * It is decided, the journal has it, and the server itself compares the numbers of
 * rows: nothing that is to come could keep it from being committed.
 */
static bool
may_commit_at_once(const ApplyConn *c)
{
	const Transaction *tx = c->task->tx;

	return c->seq_sent && !c->counts && !c->failed && !c->sync_sent && all_is_sent(c) &&
		(tx->state == TX_DURABLE || tx->state == TX_DONE);
}

static void
send_end_at_once(ApplyConn *c)
{
	c->commit_sent = true;
	send_sync(c);
	LOCKSTEP_POINT(COMMIT_THERE);
}

/* All that there is room for. */
static void
send_more(ApplyConn *c)
{
	size_t		n = sendable(c);
	bool		any = false;

	if (c->task->early && c->cursor.next < n && sequencer_last_decided() > c->pool->node->applied)
		wait_there(c, sequencer_last_decided());	/* see early_apply.c */
	while ((c->cursor.next < n || c->held.data != NULL) && n > 0 &&
		   !c->failed && !c->sync_sent && c->read_error == NULL &&
		   c->expected_count < WINDOW_QUERIES && c->window_bytes < WINDOW_BYTES)
	{
		LsSlice		payload;
		LsQuery		query;
		const char *error;

		if (!next_payload(c, &payload, &error))
		{
			/* told at the end of the round, as a caller may walk the tasks */
			c->read_error = xstrdup(error);
			loop_defer(&c->flush);
			break;
		}
		/* what came in was checked when it came in */
		if (!ls_take_query(payload, &query))
			abort();
		if (query.form == LS_FORM_KEYS)
		{
			count_skipped(c);
			continue;
		}
		if (c->task->early && !may_be_early(&query))
		{
			c->held = payload;	/* in the cursor's chunk, which stays */
			break;
		}
		c->unprepared |= query.ddl; /* it may have begun without */
		any = true;
		if (rows_take(c, &query))
		{
			rows_add(c, &query);
			continue;
		}
		rows_send(c);
		send_claim(c);
		send_wait(c);
		if (query.form == LS_FORM_PIECE)
			send_piece(c, &query);
		else
			send_statement(c, &query);
	}
	any |= rows_send(c);
	any |= send_claim(c);
	any |= send_wait(c);
	if (may_commit_at_once(c))
		send_end_at_once(c);
	else if (any)
		send_flush_request(c);
	send_end();
}

static bool
all_is_executed(const ApplyConn *c)
{
	return c->expected_count == 0 && all_is_sent(c);
}

void
apply_go_on(ApplyConn *c)
{
	if (c->sync_sent || c->failed)
		return;					/* its failure will be told */
	wait_there(c, c->task->wait_for);
	send_more(c);
	if (c->task->state == TASK_RUNNING && !c->failed && all_is_executed(c))
		to_tasks->executed(c->task);
}

/*
 * The types of a prepared statement's parameters are those of the columns when
 * it was prepared, and a name in it may mean another object since.  So what was
 * prepared before DDL is forgotten; and while it can't be told which side of a
 * DDL a transaction is on (one is decided and not applied here, as far as is
 * known), or it has DDL in it, it neither uses nor makes any.
 */
static void
mind_ddl(ApplyConn *c, const ApplyTask *task)
{
	const Node *n = c->pool->node;
	uint64_t	last = sequencer_last_ddl();

	c->unprepared = tx_has_ddl(task->tx) || tasks_decided_ddl(n) || (n->state == NODE_ONLINE && last > n->applied);
	if (c->unprepared || (last == c->ddl_seen && n->ddl_tasks_gone == c->ddl_tasks_seen))
		return;
	c->prepare_anew |= c->statements.n > 0;
	c->ddl_seen = last;
	c->ddl_tasks_seen = n->ddl_tasks_gone;
}

/* Its origin's backend has lost its link, it may be, and waits for the verdict. */
static bool
may_be_awaited(const ApplyConn *c, const Transaction *tx)
{
	const Node *n = c->pool->node;

	return c->has_work && tx->nmembers == 0 && tx->origin == (uint32_t) n->index && tx->boot == n->boot &&
		(tx->state == TX_DURABLE || tx->state == TX_DONE);
}

void
apply_run(ApplyConn *c, ApplyTask *task)
{
	assert(c->task == NULL && c->expected_count == 0 && !c->closed);
	c->task = task;
	task->connection = c;
	c->holder = task->holder;
	c->executing_ms = 0;
	tx_cursor_start(&c->cursor);
	c->settings_on = c->seq_sent = c->counts = c->commit_sent = c->sync_sent = c->failed = c->retry = false;
	c->held = (LsSlice) {NULL, 0};
	buffer_free(&c->pieces);
	c->waited_for = c->wait_first = 0;
	c->progress_us = loop_now_us();
	mind_ddl(c, task);
	if (c->prepare_anew || statements_full(&c->statements))
	{
		c->prepare_anew = false;
		statements_clear(&c->statements);
		send_plain(c, "DEALLOCATE ALL");
	}
	if (may_be_awaited(c, task->tx))
		send_verdict(c);
	wait_there(c, task->wait_for);
	c->claim_due = task->tx->seq != 0;
	send_more(c);
	LOCKSTEP_POINT(STARTED_THERE);
	if (all_is_executed(c))
		to_tasks->executed(task);
}

void
apply_commit(ApplyConn *c)
{
	assert(c->task->tx->seq != 0 && !c->commit_sent && !c->sync_sent);
	c->commit_sent = true;
	c->progress_us = loop_now_us();
	if (!c->seq_sent)
		send_commit(c);
	send_sync(c);
	LOCKSTEP_POINT(COMMIT_THERE);
}
