/*
 * control_connection.c
 *	  The control connection of a node that is in: a heartbeat, which also reports how
 *	  far the node has applied, questions about blockers, and cancel requests.
 *
 * The node is dropped when this connection is lost or does not answer a heartbeat
 * within stall_timeout.  It is connected to a replicated database, where the
 * extension's functions are, or to maintenance_database while there is none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "membership_private.h"
#include "metadata.h"
#include "sequencer.h"
#include "waits.h"

#define PING_MS 100				/* while the node lags behind */
#define WAITING_PINGS 3			/* while something is being executed there:
								 * every so many of these */
#define IDLE_PINGS 10			/* else */

/* The function in FROM comes first: see heard_flushed(). */
#define AND_WAL \
	", pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn" \
	", pg_catalog.pg_current_wal_flush_lsn() - '0/0'::pg_catalog.pg_lsn "
#define WAL_PAGE 8192
#define WAL_PAGE_HEADER 40		/* the longer one */

typedef struct Confirmation
{
	Node	   *node;
	uint64_t	answers;		/* when it was asked for */
} Confirmation;

static void confirm_leading(Node *n);

static void
on_lost(void *arg, const char *error)
{
	node_out(arg, DROP_CONTROL_LOST, FACTS(.error = error));
}

/*
 * Apply sessions commit asynchronously, so what a node has applied it may lose in
 * a crash.  `applied` was read before `insert`, behind which there is no record
 * of it; once `flush` has got there, it is on the node's disk.
 */
static void
heard_flushed(Node *n, uint64_t applied, uint64_t insert, uint64_t flush)
{
	/* on an empty page the former stands behind the page's header */
	if (insert % WAL_PAGE <= WAL_PAGE_HEADER)
		insert -= insert % WAL_PAGE;
	if (n->flush_lsn != 0 && flush >= n->flush_lsn)
	{
		n->flushed = n->flush_seq;
		n->flush_lsn = 0;
	}
	if (flush >= insert)
	{
		n->flushed = applied;
		n->flush_lsn = 0;
	}
	else if (n->flush_lsn == 0)
	{
		n->flush_lsn = insert;
		n->flush_seq = applied;
	}
}

/* It has committed something that no other node has (turn_note_divergence()): drop it. */
static bool
has_diverged(Node *n, const PGresult *r)
{
	const char *sqlstate = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

	if (sqlstate == NULL || strcmp(sqlstate, "XX001") != 0)
		return false;
	node_out(n, DROP_DIVERGED, FACTS(.error = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY)));
	return true;
}

/*
 * A heartbeat says that the node has all that was decided before its last answer: only the
 * replicator that has led since then can say so.  Without a group that is always the one.
 */
static void
on_confirmed(void *arg)
{
	Node	   *n = ((Confirmation *) arg)->node;

	n->confirmed = ((Confirmation *) arg)->answers;
	n->confirming = false;
	free(arg);
	if (n->confirmed != n->answers)
		confirm_leading(n);
}

static void
confirm_leading(Node *n)
{
	Confirmation *c;

	if (n->confirming)
		return;
	c = xmalloc(sizeof(Confirmation));
	c->node = n;
	c->answers = n->answers;
	n->confirming = true;
	sequencer_confirm(on_confirmed, c);
}

static void
note_answer(Node *n)
{
	n->answers++;
	confirm_leading(n);
}

/* A shorter one counts at once: what makes it longer is that node or replicator are busy, often. */
static void
note_round_trip(Node *n, uint64_t us)
{
	if (n->round_trip_us == 0 || us < n->round_trip_us)
		n->round_trip_us = us;
	else
		n->round_trip_us += (us - n->round_trip_us) / 8;
}

static void
on_pong(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	uint64_t	applied;

	if (n->pinging && r != NULL)
		note_round_trip(n, loop_now_us() - n->ping_sent_us);
	n->pinging = false;
	n->unanswered_ms = 0;
	note_answer(n);
	if (r != NULL)
		node_heard(n);
	generation_check_result(n, r);
	if (has_diverged(n, r))
		return;
	if (r != NULL && PQresultStatus(r) == PGRES_FATAL_ERROR)
		n->old_objects = true;	/* before ALTER EXTENSION ... UPDATE */
	if (r == NULL || PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
		return;
	applied = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
	if (PQnfields(r) == 4 && PQgetvalue(r, 0, 3)[0] == 't')
		n->old_objects = false; /* it has been done */
	if (PQnfields(r) >= 3)
		heard_flushed(n, applied, strtoull(PQgetvalue(r, 0, 1), NULL, 10), strtoull(PQgetvalue(r, 0, 2), NULL, 10));
	if (applied > sequencer_last_decided())
		(void) history_admits(n, applied, 0);
	else
		node_heard_applied(n->index, applied);
}

static void
ping(Node *n)
{
	char		seq[24];
	const char *params[] = {seq};

	if (n->confirmed == n->answers && !n->asking_doubtful)
		snprintf(seq, sizeof(seq), "%" PRIu64, sequencer_last_durable());	/* nobody was told of
																			 * more */
	else
		strcpy(seq, "-1");		/* it says nothing of what others may have
								 * decided */
	n->pinging = true;
	n->ping_sent_us = loop_now_us();
	if (!metadata_has_database(n->control_database))
		pgclient_query(n->control, "SELECT 0", 0, NULL, on_pong, n);
	else if (n->old_objects)
		pgclient_query(n->control, "SELECT applied" AND_WAL ", to_regprocedure('lockstep.heartbeat(bigint)') IS NOT NULL "
					   "FROM lockstep.node_info()", 0, NULL, on_pong, n);
	else
		pgclient_query(n->control, "SELECT applied" AND_WAL "FROM lockstep.heartbeat($1) AS h(applied)", 1, params, on_pong, n);
}

/* Has it come to its commit?  Of one that is executed and committed in one call that is not told. */
static bool
is_in_commit(const ApplyTask *task)
{
	return task->state == TASK_COMMITTING ||
		(task->state == TASK_RUNNING && task->tx->seq != 0 && task_waits_within(task));
}

/*
 * Does its turn stand still although nothing is being executed for it: held by
 * a backend that neither commits nor exits?  All nodes would wait for that.
 */
static bool
is_stalled(Node *n)
{
	const ApplyTask *next = n->tasks;

	while (next != NULL && (next->tx->seq == 0 || tx_first_seq(next->tx) != n->applied + 1))
		next = next->node_next;
	if (n->state != NODE_ONLINE || n->applied >= sequencer_last_durable() || n->applied != n->stalled_at ||
		(next != NULL && !is_in_commit(next)))
	{
		n->stalled_at = n->applied;
		n->stalled_ms = 0;
		return false;
	}
	n->stalled_ms += PING_MS;	/* not by the clock: we may have been stopped */
	return n->stalled_ms > node_stall_timeout();
}

static void
on_ping_timer(void *arg)
{
	Node	   *n = arg;
	uint64_t	since_us = loop_now_us() - n->ping_sent_us;
	int			pause_ms = PING_MS * (n->tasks != NULL ? WAITING_PINGS : IDLE_PINGS);
	int			patience_ms = probe_is_there(n) ? node_stall_timeout() : node_config->node_timeout;

	n->ping_timer = loop_after(PING_MS, on_ping_timer, n);
	if (n->pinging)
		n->unanswered_ms += PING_MS;	/* not by the clock: we may have been
										 * stopped */
	if (!probe_look(n, PING_MS, pause_ms))
		node_out(n, DROP_HUNG, FACTS(.ms = node_config->node_timeout));
	else if (n->pinging && n->unanswered_ms > patience_ms)
		node_out(n, DROP_HEARTBEAT, FACTS(.ms = patience_ms));
	else if (is_stalled(n))
		node_out(n, DROP_COMMIT_STALLED, FACTS(.seq = n->applied + 1,.ms = node_stall_timeout()));
	else if (!n->pinging &&
			 (n->applied < sequencer_last_durable() || since_us > (uint64_t) pause_ms * 1000))
		ping(n);
	if (n->control != NULL)
	{
		stalled_apply_look(n, PING_MS);
		apply_patience_look(n, PING_MS);
		idle_ddl_look(n, PING_MS);
	}
}

static void
on_doubtful(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	n->asking_doubtful = false;
	on_pong(n, r);
	if (r != NULL)
		tasks_add_doubtful(n);
}

void
control_ask_doubtful(Node *n)
{
	if (n->asking_doubtful)
		return;
	n->asking_doubtful = true;
	pgclient_query(n->control, "SELECT applied FROM lockstep.node_info()", 0, NULL, on_doubtful, n);
}

void
control_adopt(Node *n, PgClient *client, const char *database)
{
	n->control = client;
	snprintf(n->control_database, sizeof(n->control_database), "%s", database);
	pgclient_on_lost(client, on_lost, n);
	n->pinging = n->stalled_apply_asked = n->apply_patience_asked = n->idle_ddl_asked = n->own_ddl_asked = n->old_objects = n->local_waits_asked = false;
	n->ping_sent_us = 0;		/* the first one soon: readers may be held for
								 * it */
	n->unanswered_ms = 0;
	node_heard(n);
	note_answer(n);
	loop_cancel(n->ping_timer);
	n->ping_timer = loop_after(PING_MS, on_ping_timer, n);
	sequence_positions_watch(n);
	probe_begin(n);
	writers_node_is_in(n);
}

void
control_end(Node *n)
{
	loop_cancel(n->ping_timer);
	n->ping_timer = NULL;
	sequence_positions_stop(n);
	probe_end(n);
	pgclient_close_at(&n->next_control);
	pgclient_close_at(&n->control);
	local_waits_forget(n);
	n->shortage[0] = '\0';
	n->pinging = n->asking_doubtful = n->stalled_apply_asked = n->apply_patience_asked = n->idle_ddl_asked = n->own_ddl_asked = false;
}

/* ---------- to another database */

void
control_move(Node *n, PgClient *client, const char *database)
{
	pgclient_finish(n->control);
	n->control = NULL;
	control_adopt(n, client, database);
}

/* One that the node has: it may lack some until it has caught up. */
const char *
control_another_database(const Node *n, const char *database)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		if (!p->closing && metadata_has_database(p->database) && strcmp(p->database, database) != 0)
			return p->database;
	}
	return node_config->maintenance_database;
}

static void
on_entered(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	generation_check_result(n, r);
	if (r != NULL && PQresultStatus(r) != PGRES_TUPLES_OK)
		node_out(n, DROP_ATTACH_QUESTION, FACTS(.what = "entering the replicator's generation",
												.database = n->control_database,.error = pgclient_message(PQresultErrorMessage(r))));
}

static void
on_connected(void *arg, const char *error)
{
	Node	   *n = arg;
	PgClient   *next = n->next_control;

	n->next_control = NULL;
	if (error != NULL)
	{
		node_out(n, DROP_CONTROL_CONNECT, FACTS(.error = error));
		return;
	}
	if (n->generation != 0 && metadata_has_database(n->next_control_database))
	{
		GenerationParams text = generation_params(n);
		const char *params[] = {text.number, text.run};

		pgclient_query(next, "SELECT lockstep.enter_generation($1, $2)", 2, params, on_entered, n);
	}
	control_move(n, next, n->next_control_database);
}

void
control_leave_database(Node *n, const char *database)
{
	if (n->control == NULL || n->next_control != NULL || strcmp(n->control_database, database) != 0)
		return;
	snprintf(n->next_control_database, sizeof(n->next_control_database), "%s", control_another_database(n, database));
	n->next_control = pgclient_open(n->config, n->next_control_database, "lockstep control",
									pgclient_control_options, node_stall_timeout(), on_connected, n);
}
