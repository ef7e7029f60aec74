/*
 * apply_connection.c
 *	  Opening and closing an apply connection, and its events.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "apply_private.h"
#include "generation.h"
#include "log.h"
#include "points.h"
#include "sequencer.h"

/* What of later versions of the extension is there. */
#define FUNCTIONS \
	"pg_catalog.to_regprocedure('lockstep.apply_commit(bigint,bigint)') IS NOT NULL, " \
	"pg_catalog.to_regprocedure('lockstep.apply_transaction(bytea)') IS NOT NULL AND " \
	"pg_catalog.to_regprocedure('lockstep.deliver_verdict(integer,bigint,bigint,bigint,bigint)') IS NOT NULL, " \
	"pg_catalog.to_regprocedure('lockstep.apply_piece(bytea)') IS NOT NULL"

/* ---------- events */

static void
on_flush(void *arg)
{
	ApplyConn  *c = arg;
	int			rc;

	if (c->read_error != NULL)
	{
		char	   *error = c->read_error;

		c->read_error = NULL;
		to_tasks->unreadable(c->task, error);
		free(error);
	}
	if (c->closed)
		return;
	rc = c->broken ? -1 : PQflush(c->conn);
	LOCKSTEP_POINT(SENT_THERE);

	if (rc < 0)
		apply_tell_lost(c);
	else
		loop_change(c->watch, rc == 1 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void
on_socket(void *arg, uint32_t events)
{
	ApplyConn  *c = arg;

	if (events & EPOLLOUT)
		on_flush(c);
	if (!c->closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		apply_read_results(c);
}

/* ---------- opening and closing */

static void
on_bury(void *arg)
{
	free(arg);
}

void
apply_close(ApplyConn *c)
{
	if (c->closed)
		return;
	c->closed = true;
	apply_stop_insisting(c);
	pgclient_close(c->client);
	loop_undefer(&c->flush);
	loop_unwatch(c->watch);
	if (c->conn != NULL)
		PQfinish(c->conn);
	c->conn = NULL;
	c->task = NULL;
	apply_forget_error(c);
	statements_clear(&c->statements);
	buffer_free(&c->settings);
	buffer_free(&c->pieces);
	tx_cursor_free(&c->cursor);
	free(c->read_error);
	c->read_error = NULL;
	free(c->expected);
	c->expected = NULL;
	c->expected_count = c->expected_cap = 0;
	loop_defer(&c->bury);
}

static void
refused(ApplyConn *c, DropCause cause, const char *error)
{
	PgClient   *client = c->client;

	c->client = NULL;
	to_tasks->refused(c, cause, error);
	pgclient_close(client);
}

static void
ignore_notice(void *arg, const char *message)
{
	log_message(LOG_DEBUG, "apply", "%s", pgclient_message(message));
}

static void
on_started(void *arg, const PGresult *result)
{
	ApplyConn  *c = arg;
	Node	   *n = c->pool->node;

	if (n->generation != 0)
		generation_check_result(n, result);
	if (result == NULL || PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		refused(c, DROP_APPLY_BEGIN, result != NULL ? pgclient_message(PQresultErrorMessage(result)) : "connection lost");
		return;
	}
	c->has_chain = PQgetvalue(result, 0, 0)[0] == 't';
	c->has_work = PQgetvalue(result, 0, 1)[0] == 't';
	c->has_pieces = PQgetvalue(result, 0, 2)[0] == 't';
	c->conn = pgclient_release(c->client);
	c->client = NULL;
	if (PQenterPipelineMode(c->conn) == 0)
	{
		apply_tell_lost(c);
		return;
	}
	PQsetNoticeProcessor(c->conn, ignore_notice, NULL);
	c->watch = loop_watch(PQsocket(c->conn), EPOLLIN, on_socket, c);
	c->pool->queue.capacity++;
	c->pool->queue.taken++;
	to_tasks->ready(c);
	to_membership->pool_ready(n);
}

static void
on_connected(void *arg, const char *error)
{
	ApplyConn  *c = arg;
	GenerationParams text;
	const char *params[3];

	if (error != NULL)
	{
		refused(c, DROP_APPLY_CONNECT, error);
		return;
	}
	text = generation_params(c->pool->node);
	params[0] = node_cluster;
	params[1] = text.number;
	params[2] = text.run;
	if (c->pool->node->generation != 0)
		pgclient_query(c->client, "SELECT " FUNCTIONS ", lockstep.enter_generation($2, $3), lockstep.apply_start($1)",
					   3, params, on_started, c);
	else
		pgclient_query(c->client, "SELECT " FUNCTIONS ", lockstep.apply_start($1)", 1, params, on_started, c);
}

ApplyConn *
apply_open(Pool *pool)
{
	ApplyConn  *c = xcalloc(1, sizeof(ApplyConn));

	c->pool = pool;
	c->flush.callback = on_flush;
	c->flush.arg = c;
	c->bury.callback = on_bury;
	c->bury.arg = c;
	c->client = pgclient_open(pool->node->config, pool->database, "lockstep apply",
							  pgclient_apply_options, node_stall_timeout(), on_connected, c);
	return c;
}
