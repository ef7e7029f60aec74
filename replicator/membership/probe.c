/*
 * probe.c
 *	  Is a node's server alive?  A connection to maintenance_database that sends empty
 *	  queries.
 *
 * A running server answers an empty query at once, whatever its disks or its other
 * sessions do, as it needs no data and no lock.  The control connection can't tell, as
 * it answers one query after the other and some of them read tables.  So a server that
 * leaves the probe unanswered for node_timeout hangs or can't be reached; queries on
 * other connections have stall_timeout.
 *
 * Existing connections say nothing about the postmaster, which accepts new ones: every
 * ARRIVAL_MS a new one is tried, and closed.  If that fails the node stays online, as its
 * sessions go on; status and the log report it.
 *
 * While there is no such connection (it could not be opened, or was terminated), the
 * heartbeat on the control connection replaces it.
 */
#include <stdio.h>

#include "log.h"
#include "membership_private.h"

#define REOPEN_MS 1000			/* after it was lost */
#define MAX_REOPEN_MS 60000		/* while it can't be opened: twice the pause
								 * each time */

#define ARRIVAL_MS 5000

/* ---------- new connections */

static void
refuses(Node *n, const char *why)
{
	bool		first = n->refusing[0] == '\0';

	snprintf(n->refusing, sizeof(n->refusing), "its server has accepted no new connection for %d s%s%s", n->refused_ms / 1000,
			 why[0] != '\0' ? ": " : "", why);
	if (first)
		log_full(LOG_WARNING, n->config->name, n->refusing, "Sessions that are connected go on.",
				 "Look at the postmaster process, and at max_connections.");
}

static void
on_arrived(void *arg, const char *error)
{
	Node	   *n = arg;

	if (error != NULL)
	{
		n->arrival = NULL;		/* closes itself */
		n->arrival_ms = 0;
		refuses(n, error);
		return;
	}
	if (n->refusing[0] != '\0')
		log_message(LOG_NOTICE, n->config->name, "its server accepts new connections again");
	n->refusing[0] = '\0';
	n->refused_ms = n->arrival_ms = 0;
	pgclient_close_at(&n->arrival);
}

static void
look_at_arrivals(Node *n, int elapsed_ms)
{
	n->arrival_ms += elapsed_ms;
	if (n->arrival != NULL || n->refusing[0] != '\0')
		n->refused_ms += elapsed_ms;
	if (n->arrival != NULL && n->refused_ms >= node_config->node_timeout)
		refuses(n, "");
	if (n->arrival != NULL || n->arrival_ms < ARRIVAL_MS)
		return;
	n->arrival_ms = 0;
	n->arrival = pgclient_open(n->config, node_config->maintenance_database, "lockstep probe",
							   pgclient_control_options, node_stall_timeout(), on_arrived, n);
}

/* ---------- the connection that is there */

static void
on_answer(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	n->probing = false;
	if (r != NULL)
		node_heard(n);
}

static void
ask(Node *n)
{
	n->probing = true;
	n->probe_unanswered_ms = 0;
	pgclient_query(n->probe, "", 0, NULL, on_answer, n);
}

static void
on_lost(void *arg, const char *error)
{
	Node	   *n = arg;

	n->probe = NULL;			/* closes itself */
	n->probe_ready = n->probing = false;
	n->probe_pause_ms = 0;
	n->probe_reopen_ms = REOPEN_MS;
}

/* Nothing depends on it, so it is told once. */
static void
not_opened(Node *n, const char *error)
{
	bool		first = n->probe_reopen_ms <= REOPEN_MS;
	int			pause_ms = first ? 2 * REOPEN_MS : 2 * n->probe_reopen_ms;

	on_lost(n, error);
	n->probe_reopen_ms = pause_ms < MAX_REOPEN_MS ? pause_ms : MAX_REOPEN_MS;
	if (first)
		log_message(LOG_NOTICE, n->config->name,
					"could not open the connection that asks whether the server lives, to database \"%s\": %s; heartbeats stand for it",
					node_config->maintenance_database, error);
}

static void
on_connected(void *arg, const char *error)
{
	Node	   *n = arg;

	if (error != NULL)
	{
		not_opened(n, error);
		return;
	}
	n->probe_reopen_ms = REOPEN_MS;
	pgclient_on_lost(n->probe, on_lost, n);
	n->probe_ready = true;
	node_heard(n);
	ask(n);
}

void
probe_end(Node *n)
{
	pgclient_close(n->arrival);
	n->arrival = NULL;
	n->refusing[0] = '\0';
	n->refused_ms = n->arrival_ms = 0;
	pgclient_close_at(&n->probe);
	n->probe_ready = n->probing = false;
}

void
probe_begin(Node *n)
{
	if (n->probe != NULL)
		return;					/* the control connection has moved */
	n->probe_pause_ms = 0;
	n->probe = pgclient_open(n->config, node_config->maintenance_database, "lockstep probe",
							 pgclient_control_options, node_stall_timeout(), on_connected, n);
}

/* Time is counted by these calls: we may have been stopped. */
bool
probe_look(Node *n, int elapsed_ms, int interval_ms)
{
	look_at_arrivals(n, elapsed_ms);
	n->probe_pause_ms += elapsed_ms;
	n->probe_unanswered_ms += elapsed_ms;
	if (n->probe == NULL)
	{
		if (n->probe_pause_ms >= n->probe_reopen_ms)
			probe_begin(n);
		return true;
	}
	if (!n->probe_ready)
		return true;
	if (n->probing)
		return n->probe_unanswered_ms <= node_config->node_timeout;
	if (n->probe_unanswered_ms >= interval_ms)
		ask(n);
	return true;
}

bool
probe_is_there(const Node *n)
{
	return n->probe_ready;
}
