/*
 * apply_result.c
 *	  What do the results that come on an apply connection say?  Errors, numbers
 *	  of rows that differ from the origin's, and the end of the transaction.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply_private.h"
#include "generation.h"
#include "masked_text.h"

/* A node's SQLSTATE: 53200, raised within a user's function (extension/apply/functionerror.c). */
#define FUNCTION_FOR_NOW "LS006"

static Expected
expected_pop(ApplyConn *c)
{
	Expected	e = c->expected[c->expected_head];

	c->expected_head = (c->expected_head + 1) & (c->expected_cap - 1);
	c->expected_count--;
	c->window_bytes -= e.bytes;
	return e;
}

static char *
copy_field(const char *text)
{
	return text != NULL ? xstrdup(text) : NULL;
}

/* The statement that the result that is read now is about. */
static size_t
at_statement(const ApplyConn *c)
{
	bool		is_query = c->expected_count > 0 && c->expected[c->expected_head].queries > 0;

	return c->commit_sent && !is_query ? APPLY_NO_STATEMENT : apply_current_statement(c, 0);
}

/* The first error of a transaction is the one that counts. */
static void
note_error(ApplyConn *c, const char *sqlstate, const char *message, const char *detail, const char *hint)
{
	if (c->failed)
		return;
	c->failed = true;
	c->failed_at = at_statement(c);
	snprintf(c->sqlstate, sizeof(c->sqlstate), "%s", sqlstate != NULL ? sqlstate : "08006");
	c->message = xstrdup(message != NULL ? message : "unknown error");
	c->detail = copy_field(detail);
	c->hint = copy_field(hint);
}

void
apply_forget_error(ApplyConn *c)
{
	free(c->message);
	free(c->detail);
	free(c->hint);
	c->message = c->detail = c->hint = NULL;
	c->failed = false;
}

/* The Sync has been answered: the transaction is over on this connection. */
static void
conclude(ApplyConn *c)
{
	ApplyTask  *task = c->task;
	bool		undone = task->state == TASK_UNDOING;
	bool		failed = c->failed;
	char		sqlstate[6];
	char	   *message = c->message;
	char	   *detail = c->detail;
	char	   *hint = c->hint;
	ApplyError	error = {
		.sqlstate = sqlstate,.message = message,.detail = detail,.hint = hint,.retry = c->retry,
		.of_function = strcmp(c->sqlstate, FUNCTION_FOR_NOW) == 0,.statement = c->failed_at
	};

	snprintf(sqlstate, sizeof(sqlstate), "%s", error.of_function ? "38000" : c->sqlstate);
	if (undone && !failed)
	{
		node_out(c->pool->node, DROP_ROLLBACK_COMMITTED, FACTS());
		return;
	}

	/* what is called below may close the connection */
	apply_stop_insisting(c);
	c->message = c->detail = c->hint = NULL;
	c->failed = c->sync_sent = false;
	free(c->read_error);
	c->read_error = NULL;
	tx_cursor_free(&c->cursor);
	c->task = NULL;
	task->connection = NULL;
	if (undone)
		to_tasks->undone(task);
	else if (failed ? strcmp(sqlstate, "LS001") == 0 : c->commit_sent)
		to_tasks->committed(task);
	else
		to_tasks->failed(task, &error);

	/* not before: a pool that is closing goes with its last task */
	if (!c->closed && c->cancels == 0)
		to_tasks->ready(c);
	free(message);
	free(detail);
	free(hint);
}

static void
handle_error(ApplyConn *c, const PGresult *r)
{
	const Expected *head = &c->expected[c->expected_head];
	const char *sqlstate = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *told = PQresultErrorField(r, PG_DIAG_MESSAGE_DETAIL);
	char	   *detail = told == NULL ? NULL :
	masked_of_table(told, PQresultErrorField(r, PG_DIAG_SCHEMA_NAME), PQresultErrorField(r, PG_DIAG_TABLE_NAME));
	bool		is_plan = sqlstate != NULL && (strcmp(sqlstate, "0A000") == 0 || strcmp(sqlstate, "26000") == 0);

	if (!c->failed && is_plan && head->queries > 0 && head->was_prepared)
	{
		/* its plan returns other columns now: prepare anew, all of them */
		c->retry = c->prepare_anew = true;
	}
	generation_check_result(c->pool->node, r);
	note_error(c, sqlstate, PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY),
			   detail, PQresultErrorField(r, PG_DIAG_MESSAGE_HINT));
	free(detail);
}

static void
check_rows(ApplyConn *c, const Expected *e, const PGresult *r)
{
	const char *count = e->copy ? PQgetvalue(r, 0, 0) : PQcmdTuples((PGresult *) r);
	int64_t		rows = count[0] != '\0' ? strtoll(count, NULL, 10) : 0;
	char	   *message;

	if (e->rows < 0 || rows == e->rows || rows == LS_ROWS_LEFT_OUT || c->failed)
		return;
	message = xasprintf("a query changed %" PRId64 " rows on node \"%s\", %" PRId64 " at its origin",
						rows, c->pool->node->config->name, e->rows);
	note_error(c, "LS003", message, "The nodes differ, or the query depends on something that is not replicated.", NULL);
	c->failed_at -= e->queries; /* it is counted as done already */
	free(message);
	send_rollback(c);
}

static void
handle_result(ApplyConn *c, const PGresult *r)
{
	ExecStatusType status = PQresultStatus(r);
	Expected	e;

	if (status == PGRES_PIPELINE_SYNC)
	{
		do
			e = expected_pop(c);
		while (e.kind != EXPECT_SYNC);
		conclude(c);
		return;
	}
	if (status == PGRES_FATAL_ERROR)
		handle_error(c, r);
	if (c->expected[c->expected_head].kind == EXPECT_SYNC)
		return;					/* an error at COMMIT itself: the Sync's
								 * answer follows */
	e = expected_pop(c);
	if (status == PGRES_FATAL_ERROR || status == PGRES_PIPELINE_ABORTED)
	{
		if (e.kind == EXPECT_PREPARE)
			statements_failed(&c->statements, e.statement);
		send_sync(c);
		return;
	}
	if (e.kind == EXPECT_PREPARE)
		e.statement->state = STATEMENT_READY;
	else if (e.kind == EXPECT_QUERY)
		check_rows(c, &e, r);
}

void
apply_read_results(ApplyConn *c)
{
	bool		ok = PQconsumeInput(c->conn) != 0;
	int			nulls = 0;		/* in a row; several: nothing comes any more */

	c->progress_us = loop_now_us();
	c->pool->node->went_on_us = c->progress_us;
	node_heard(c->pool->node);
	while (!c->closed && c->expected_count > 0 && nulls < 3 && !PQisBusy(c->conn))
	{
		PGresult   *r = PQgetResult(c->conn);

		nulls = r == NULL ? nulls + 1 : 0;
		if (r == NULL)
			continue;			/* the end of one command's results */
		if (PQstatus(c->conn) == CONNECTION_BAD)
			ok = false;
		else
			handle_result(c, r);
		PQclear(r);
		if (!ok)
			break;
	}
	if (c->closed)
		return;
	if (!ok || PQstatus(c->conn) == CONNECTION_BAD)
	{
		apply_tell_lost(c);
		return;
	}
	if (c->task != NULL)
		apply_go_on(c);
}
