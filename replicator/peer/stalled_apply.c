/*
 * stalled_apply.c
 *	  Dropping a node whose apply sessions make no progress and wait for nothing.
 *
 * A server may answer and still not finish a transaction: because one of its
 * processes was stopped, or waits for a disk that does not answer.  All other nodes
 * would wait for it.  A long command must not be mistaken for that (ALTER TABLE may
 * take hours), so a session that has returned nothing for a while is looked at on
 * the control connection, repeatedly:
 *
 *	 stopped by a signal									 stalled
 *	 waits for a lock of a process that is stopped			 stalled
 *	 waits for another lock, for a process, for its turn	 not stalled: see
 *															 lock_conflict.c; but
 *															 nothing waits within
 *															 the server when its
 *															 turn has come: see
 *															 control_connection.c
 *	 has used CPU time since the last look					 not stalled
 *	 else (uses no CPU, waits for a disk)					 stalled
 *
 * A session that is found stalled at every look for stall_timeout drops its node.
 * The server reads the state of its processes from /proc; where there is no /proc,
 * no session is found stalled.
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define LOOKS 4					/* per stall_timeout */

/* Fields of /proc/PID/stat behind the command's name: state, utime, stime. */
#define STAT_OF(pid) \
	"(SELECT string_to_array(regexp_replace(pg_read_file('/proc/' || " pid " || '/stat', 0, 4096, true), '^.*\\) ', ''), ' '))"

static const char query[] =
"SELECT p.pid, f.s[1] IN ('T', 't'), f.s[12]::bigint + f.s[13]::bigint, "
"coalesce(a.wait_event_type NOT IN ('IO', 'Activity'), false), "
"CASE WHEN a.wait_event_type = 'Lock' THEN "
"(SELECT min(b.pid) FROM unnest(pg_blocking_pids(p.pid)) AS b(pid) WHERE (" STAT_OF("b.pid") ")[1] IN ('T', 't')) END, "
"coalesce(a.wait_event_type IN ('IPC', 'Extension'), false) "
"FROM unnest($1::int[]) AS p(pid) JOIN pg_stat_activity a USING (pid), "
"LATERAL " STAT_OF("p.pid") " AS f(s) "
"WHERE f.s IS NOT NULL";

bool
task_waits_within(const ApplyTask *task)
{
	return task->connection != NULL && apply_still(task->connection)->waits_within;
}

/* Has it been given something, and not said anything for a while? */
static bool
is_to_be_looked_at(const ApplyConn *c)
{
	const ApplyTask *task = apply_current_task(c);
	uint64_t	patience_us = (uint64_t) node_stall_timeout() * 1000 / 2;

	return task != NULL && task->state != TASK_EXECUTED && !(task->early && apply_is_idle(c)) && loop_now_us() - apply_progress_us(c) > patience_us;
}

static void
add_silent(const Node *n, Buffer *pids)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		for (int i = 0; i < p->nconnections; i++)
		{
			ApplyConn  *c = p->connections[i];

			if (!is_to_be_looked_at(c))
			{
				memset(apply_still(c), 0, sizeof(ApplyStill));
				continue;
			}
			pids_add(pids, apply_backend_pid(c));
		}
	}
}

/* blocker: a stopped process that it waits for, or 0.  False: the node is out. */
static bool
judge(Node *n, ApplyConn *c, bool stopped, int64_t ticks, bool waits, int blocker, int elapsed_ms)
{
	ApplyStill *still = apply_still(c);
	bool		stands = stopped || blocker != 0 || (!waits && still->known && ticks == still->ticks);

	still->ms = stands && still->known ? still->ms + elapsed_ms : 0;
	still->known = true;
	still->ticks = ticks;
	if (still->ms < node_stall_timeout())
		return true;
	node_out(n, stopped ? DROP_APPLY_STOPPED : blocker != 0 ? DROP_BLOCKER_STOPPED : DROP_APPLY_STALLED,
			 FACTS(.pid = apply_backend_pid(c),.blocker = blocker,.ms = still->ms));
	return false;
}

static void
on_looked(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	int			elapsed_ms = n->stalled_apply_ms;

	n->stalled_apply_ms = 0;
	if (!pids_answered(n, r, &n->stalled_apply_asked, "look at apply sessions that are silent"))
		return;
	for (int i = 0; i < PQntuples(r); i++)
	{
		ApplyConn  *c = pools_find_connection(n, atoi(PQgetvalue(r, i, 0)));

		/* it may have gone on since it was asked */
		if (c == NULL || !is_to_be_looked_at(c))
			continue;
		apply_still(c)->waits_within = PQgetvalue(r, i, 5)[0] == 't';
		if (!judge(n, c, PQgetvalue(r, i, 1)[0] == 't', atoll(PQgetvalue(r, i, 2)),
				   PQgetvalue(r, i, 3)[0] == 't', atoi(PQgetvalue(r, i, 4)), elapsed_ms))
			return;
	}
}

void
stalled_apply_look(Node *n, int elapsed_ms)
{
	Buffer		pids = {0};

	n->stalled_apply_ms += elapsed_ms;	/* not by the clock: we may have been
										 * stopped */
	if (n->stalled_apply_asked || n->stalled_apply_ms < node_stall_timeout() / LOOKS)
		return;
	add_silent(n, &pids);
	if (!pids_ask(n, &pids, query, &n->stalled_apply_asked, on_looked))
		n->stalled_apply_ms = 0;
}
