/*
 * idle_ddl.c
 *	  Rolling back idle transactions that hold the ddl lock while other DDL waits for
 *	  it.
 *
 * One ddl lock covers all objects of all databases; PostgreSQL has no such lock.  A
 * role that may create a temporary view and leaves its transaction open would block
 * the DDL of all others for ever.  So while DDL waits for the lock, its holders
 * are looked at on their nodes, every LOOK_MS; who waits on the holder's own node
 * is known only there.  A holder that has been idle, or in pg_sleep(), for
 * idle_ddl_timeout fails with 40001.  A holder that executes something is left alone,
 * however long it takes; so are transactions that hold locks of tables only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "peer.h"
#include "sequencer.h"

#define LOOK_MS 500
#define FORGET_US (4 * LOOK_MS * UINT64_C(1000))	/* nobody waits any more */

/* With a session that waits for it on its own node. */
static const char query[] =
"SELECT pid, (SELECT w.pid FROM pg_catalog.pg_locks w WHERE NOT granted AND " DDL_QUEUE_LOCK " AND a.pid = ANY (pg_catalog.pg_blocking_pids(w.pid)) LIMIT 1) "
"FROM pg_catalog.pg_stat_activity a WHERE pid = ANY ($1::int[]) AND (state IN ('idle in transaction', 'idle in transaction (aborted)') OR wait_event = 'PgSleep')";

static void
add_holder(void *pids, Transaction *holder, const Transaction *waiting)
{
	pids_add(pids, (int) holder->pid);
}

/* Those that the node has found idle, as against all that are looked at. */
typedef struct Idle
{
	Node	   *node;
	const PGresult *result;
} Idle;

/* -1: not idle. */
static int
row_of(const Idle *idle, uint32_t pid)
{
	for (int i = 0; i < PQntuples(idle->result); i++)
	{
		if ((uint32_t) atoi(PQgetvalue(idle->result, i, 0)) == pid)
			return i;
	}
	return -1;
}

static void
fail_backend(Node *n, const Transaction *holder, const char *node, uint32_t waiter, const char *asked_for)
{
	char		pid[16];
	char	   *detail = xasprintf("It held the lock of all DDL and did nothing for %d s, while a command of node \"%s\" (pid %" PRIu32
								   ", for %s) waited for it.",
								   holder->idle_ms / 1000, node, waiter, asked_for != NULL ? asked_for : "DDL");
	char	   *acceptable = pgclient_acceptable(n->control, detail);
	const char *params[] = {pid, acceptable};

	snprintf(pid, sizeof(pid), "%" PRIu32, holder->pid);
	log_message(LOG_WARNING, n->config->name, "transaction of pid %" PRIu32 " (role \"%s\") is rolled back: %s",
				holder->pid, holder->role != NULL ? holder->role : "", detail);
	pgclient_query(n->control, n->old_objects ? "SELECT lockstep.yield($1::int, $2)" :
				   "SELECT lockstep.yield($1::int, $2, 0, 0)", 2, params, NULL, NULL);
	free(acceptable);
	free(detail);
}

static void
judge(void *arg, Transaction *holder, const Transaction *waiting)
{
	const Idle *idle = arg;
	int			row = row_of(idle, holder->pid);
	bool		waits_there = row >= 0 && !PQgetisnull(idle->result, row, 1);

	if (row < 0 || (waiting == NULL && !waits_there) || loop_now_us() - holder->idle_looked_us > FORGET_US)
		holder->idle_ms = 0;
	else
		holder->idle_ms += LOOK_MS;
	holder->idle_looked_us = loop_now_us();
	if (holder->idle_ms < node_config->idle_ddl_timeout)
		return;
	if (waiting != NULL)
		fail_backend(idle->node, holder, waiting->node, waiting->pid, waiting->asked_for);
	else
		fail_backend(idle->node, holder, idle->node->config->name, (uint32_t) atoi(PQgetvalue(idle->result, row, 1)), NULL);
	holder->idle_ms = 0;		/* or again */
}

static void
on_looked(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	Idle		idle = {n, r};

	if (pids_answered(n, r, &n->idle_ddl_asked, "look who holds the ddl lock"))
		sequencer_ddl_holders(n->index, judge, &idle);
}

void
idle_ddl_look(Node *n, int elapsed_ms)
{
	Buffer		pids = {0};

	n->idle_ddl_ms += elapsed_ms;
	if (n->idle_ddl_asked || n->idle_ddl_ms < LOOK_MS || node_config->idle_ddl_timeout == 0)
		return;
	n->idle_ddl_ms = 0;
	sequencer_ddl_holders(n->index, add_holder, &pids);
	(void) pids_ask(n, &pids, query, &n->idle_ddl_asked, on_looked);
}
