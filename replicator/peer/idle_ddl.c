/*
 * idle_ddl.c
 *	  Rolling back idle transactions that hold the ddl lock while other DDL waits for
 *	  it.
 *
 * One ddl lock covers all objects of all databases; PostgreSQL has no such lock.  A
 * role that may create a temporary view and leaves its transaction open would block
 * the DDL of all others for ever.  So while DDL waits for the lock, its holders
 * are looked at on their nodes, every LOOK_MS.  Of DDL that waits for a session of its
 * own node (ddlqueue.c of the extension) only the node knows, and the holder may be
 * unknown here, if it began with another replicator: one at a time is looked for there,
 * every OWN_LOOK_MS.  A holder that has been idle, or in
 * pg_sleep(), for idle_ddl_timeout fails with 40001.  A holder that executes
 * something is left alone, however long it takes; so are transactions that hold
 * locks of tables only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "peer.h"
#include "sequencer.h"

#define LOOK_MS 500
#define OWN_LOOK_MS 1000
#define FORGET_US (4 * LOOK_MS * UINT64_C(1000))	/* nobody waits any more */

#define IS_IDLE "(state IN ('idle in transaction', 'idle in transaction (aborted)') OR wait_event = 'PgSleep')"

/* Milliseconds since its last statement has ended, or the one that sleeps has begun. */
#define IDLE_MS "least(extract(epoch FROM pg_catalog.clock_timestamp() - state_change) * 1000, 2e9)::int"

static const char query[] =
"SELECT pid, " IDLE_MS " FROM pg_catalog.pg_stat_activity WHERE pid = ANY ($1::int[]) AND " IS_IDLE;

/* Without waiters the locks are not looked at. */
static const char own_query[] =
"WITH a AS MATERIALIZED (SELECT pid, usename, state, state_change, wait_event_type, wait_event FROM pg_catalog.pg_stat_activity), "
"w AS MATERIALIZED (SELECT pid, pg_catalog.pg_blocking_pids(pid) AS blockers FROM a WHERE wait_event_type = 'Lock' AND wait_event = 'object' "
"AND EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid = a.pid AND NOT granted AND " DDL_QUEUE_LOCK ")) "
"SELECT a.pid, w.pid, a.usename, " IDLE_MS " FROM w JOIN a ON a.pid = ANY (w.blockers) WHERE " IS_IDLE " ORDER BY a.pid LIMIT 1";

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

/* Milliseconds that it has been idle on its node; 0: it is not. */
static int
idle_there(const Idle *idle, uint32_t pid)
{
	for (int i = 0; i < PQntuples(idle->result); i++)
	{
		if ((uint32_t) atoi(PQgetvalue(idle->result, i, 0)) == pid)
			return atoi(PQgetvalue(idle->result, i, 1));
	}
	return 0;
}

/*
 * It is looked at now and then: between two looks, at which it was idle, it may have executed
 * something, as a client does whose answers take long.
 */
static int
idle_longer(int idle_ms, int look_ms, int there_ms)
{
	return idle_ms + look_ms < there_ms ? idle_ms + look_ms : there_ms;
}

/* waiting: the node and who waits there; freed. */
static void
fail_backend(Node *n, uint32_t holder, const char *role, int idle_ms, char *waiting)
{
	char		pid[16];
	char	   *detail = xasprintf("It held the lock of all DDL and did nothing for %d s, while a command of node %s waited for it.",
								   idle_ms / 1000, waiting);
	char	   *acceptable = pgclient_acceptable(n->control, detail);
	const char *params[] = {pid, acceptable};

	snprintf(pid, sizeof(pid), "%" PRIu32, holder);
	log_message(LOG_WARNING, n->config->name, "transaction of pid %" PRIu32 " (role \"%s\") is rolled back: %s",
				holder, role != NULL ? role : "", detail);
	pgclient_query(n->control, n->old_objects ? "SELECT lockstep.yield($1::int, $2)" :
				   "SELECT lockstep.yield($1::int, $2, 0, 0)", 2, params, NULL, NULL);
	free(acceptable);
	free(detail);
	free(waiting);
}

static void
judge(void *arg, Transaction *holder, const Transaction *waiting)
{
	const Idle *idle = arg;

	if (loop_now_us() - holder->idle_looked_us > FORGET_US)
		holder->idle_ms = 0;
	else
		holder->idle_ms = idle_longer(holder->idle_ms, LOOK_MS, idle_there(idle, holder->pid));
	holder->idle_looked_us = loop_now_us();
	if (holder->idle_ms < node_config->idle_ddl_timeout)
		return;
	fail_backend(idle->node, holder->pid, holder->role, holder->idle_ms,
				 xasprintf("\"%s\" (pid %" PRIu32 ", for %s)", waiting->node, waiting->pid,
						   waiting->asked_for != NULL ? waiting->asked_for : "DDL"));
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

static void
on_own_looked(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	uint32_t	holder;

	if (!pids_answered(n, r, &n->own_ddl_asked, "look for DDL that waits on its node"))
		return;
	holder = PQntuples(r) > 0 ? (uint32_t) atoi(PQgetvalue(r, 0, 0)) : 0;
	n->own_ddl_idle_ms = holder != 0 && holder == n->own_ddl_holder ?
		idle_longer(n->own_ddl_idle_ms, OWN_LOOK_MS, atoi(PQgetvalue(r, 0, 3))) : 0;
	n->own_ddl_holder = holder;
	if (holder == 0 || n->own_ddl_idle_ms < node_config->idle_ddl_timeout)
		return;
	fail_backend(n, holder, PQgetvalue(r, 0, 2), n->own_ddl_idle_ms,
				 xasprintf("\"%s\" (pid %s, for DDL)", n->config->name, PQgetvalue(r, 0, 1)));
	n->own_ddl_holder = 0;		/* or again */
}

static void
look_for_own(Node *n, int elapsed_ms)
{
	n->own_ddl_ms += elapsed_ms;
	if (n->own_ddl_asked || n->own_ddl_ms < OWN_LOOK_MS)
		return;
	n->own_ddl_ms = 0;
	n->own_ddl_asked = true;	/* before: it may fail at once */
	pgclient_query(n->control, own_query, 0, NULL, on_own_looked, n);
}

void
idle_ddl_look(Node *n, int elapsed_ms)
{
	Buffer		pids = {0};

	if (node_config->idle_ddl_timeout == 0)
		return;
	look_for_own(n, elapsed_ms);
	n->idle_ddl_ms += elapsed_ms;
	if (n->idle_ddl_asked || n->idle_ddl_ms < LOOK_MS || n->control == NULL)
		return;
	n->idle_ddl_ms = 0;
	sequencer_ddl_holders(n->index, add_holder, &pids);
	(void) pids_ask(n, &pids, query, &n->idle_ddl_asked, on_looked);
}
