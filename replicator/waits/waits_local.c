/*
 * waits_local.c
 *	  Waits on one node, for the wait-for graph (waits.h).
 *
 * PostgreSQL knows which backends wait for locks there: on rows, tables, advisory
 * locks, a value that another transaction inserts into a unique index, a safe
 * snapshot.  It is asked on demand only, about all backends.  The answer is a little
 * old when it is used; a backend that waits for the replicator by then does not count
 * as waiting on its node.
 *
 * A backend stands for its open transaction, an apply session for the one that it
 * executes.  A transaction that is being undone waits for nothing and ends soon; the
 * same holds for a streaming one (early_apply.c), which never blocks others for long.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "metadata.h"
#include "sequencer.h"
#include "waits_private.h"

typedef struct LocalWait
{
	uint32_t	waiter;			/* pids; 0: who commits next */
	uint32_t	blocker;		/* 0: the turn, up to */
	uint64_t	seq;
	uint32_t	lxid;
	uint64_t	waiter_began;	/* their transactions, by the node's clock */
	uint64_t	blocker_began;
	uint64_t	since_us;
	char		what[LS_MAX_NAME + 32];
} LocalWait;

typedef struct LocalWaits
{
	LocalWait  *items;
	int			n;
} LocalWaits;

/* A parallel worker waits in its leader's name. */
#define LOCAL_WAITS \
"WITH a AS MATERIALIZED (SELECT pid, coalesce(leader_pid, pid) AS leader, wait_event_type AS type, wait_event AS event, " \
"coalesce(extract(epoch FROM xact_start) * 1000000, 0)::bigint AS began FROM pg_catalog.pg_stat_activity), " \
"w AS MATERIALIZED (SELECT leader, event, min(began) AS began, array_agg(pid) AS pids FROM a WHERE type = 'Lock' OR event = 'SafeSnapshot' GROUP BY leader, event), " \
"l AS MATERIALIZED (SELECT pid, min(waitstart) AS waitstart, min(split_part(virtualtransaction, '/', 2)::bigint) AS lxid, min(relation) AS relation, min(database) AS database, " \
"bool_or(" DDL_QUEUE_LOCK ") AS ddl " \
"FROM pg_catalog.pg_locks WHERE NOT granted AND EXISTS (SELECT FROM w) GROUP BY pid) " \
"SELECT w.leader, b.pid, w.began, coalesce((SELECT began FROM a WHERE a.pid = b.pid), 0), " \
"coalesce((SELECT extract(epoch FROM pg_catalog.clock_timestamp() - min(waitstart)) * 1000 FROM l WHERE l.pid = ANY (w.pids)), 0)::bigint, " \
"CASE WHEN EXISTS (SELECT FROM l WHERE l.pid = ANY (w.pids) AND l.ddl) THEN 'ddl lock' ELSE w.event END || coalesce((SELECT ' ' || relation::regclass FROM l WHERE l.pid = ANY (w.pids) AND database = " \
"(SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) LIMIT 1), ''), " \
"0::bigint, coalesce((SELECT max(lxid) FROM l WHERE l.pid = ANY (w.pids)), 0) " \
"FROM w, LATERAL (SELECT DISTINCT pg_catalog.unnest(CASE event WHEN 'SafeSnapshot' THEN pg_catalog.pg_safe_snapshot_blocking_pids(leader) " \
"ELSE pg_catalog.pg_blocking_pids(leader) END) AS pid) AS b WHERE b.pid <> 0 AND b.pid <> w.leader"

/* And for the turn, and for those who have a table open, which version 1.0 does not tell. */
#define OTHER_WAITS \
" UNION ALL SELECT s.pid, s.blocker, coalesce((SELECT began FROM a WHERE a.pid = s.pid), 0), coalesce((SELECT began FROM a WHERE a.pid = s.blocker), 0), " \
"coalesce((SELECT extract(epoch FROM pg_catalog.clock_timestamp()) * 1000 - began / 1000 FROM a WHERE a.pid = s.pid), 0)::bigint, 'virtualxid', 0, 0 FROM lockstep.step_waits() s" \
" UNION ALL SELECT CASE WHEN t.holds THEN 0 ELSE t.pid END, CASE WHEN t.holds THEN t.pid ELSE 0 END, " \
"coalesce((SELECT began FROM a WHERE a.pid = t.pid), 0), 0, 0, NULL, t.seq, 0 FROM lockstep.turn_waits() t"

void
local_waits_forget(Node *n)
{
	if (n->local_waits != NULL)
		free(n->local_waits->items);
	free(n->local_waits);
	n->local_waits = NULL;
	n->local_waits_asked = false;
}

static void
take(LocalWait *w, const PGresult *r, int row)
{
	uint64_t	ms = strtoull(PQgetvalue(r, row, 4), NULL, 10);
	uint64_t	now = loop_now_us();

	w->waiter = (uint32_t) atoi(PQgetvalue(r, row, 0));
	w->blocker = (uint32_t) atoi(PQgetvalue(r, row, 1));
	w->waiter_began = strtoull(PQgetvalue(r, row, 2), NULL, 10);
	w->blocker_began = strtoull(PQgetvalue(r, row, 3), NULL, 10);
	w->since_us = ms * 1000 < now ? now - ms * 1000 : 0;
	snprintf(w->what, sizeof(w->what), "%s", PQgetvalue(r, row, 5));
	w->seq = strtoull(PQgetvalue(r, row, 6), NULL, 10);
	w->lxid = (uint32_t) strtoul(PQgetvalue(r, row, 7), NULL, 10);
}

static void (*when_answered) (void);

static void
on_answer(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	bool		asked = n->local_waits_asked;

	local_waits_forget(n);
	if (pids_answered(n, r, &n->local_waits_asked, "ask who waits for whom") && PQntuples(r) > 0)
	{
		n->local_waits = xmalloc(sizeof(LocalWaits));
		n->local_waits->n = PQntuples(r);
		n->local_waits->items = xcalloc((size_t) PQntuples(r), sizeof(LocalWait));
		for (int i = 0; i < PQntuples(r); i++)
			take(&n->local_waits->items[i], r, i);
	}
	if (asked)
		when_answered();
}

void
local_waits_ask(Node *n, void (*answered) (void))
{
	if (n->control == NULL || n->local_waits_asked)
		return;
	when_answered = answered;
	n->local_waits_asked = true;
	pgclient_query(n->control, n->old_objects || !metadata_has_database(n->control_database) ? LOCAL_WAITS :
				   LOCAL_WAITS OTHER_WAITS, 0, NULL, on_answer, n);
}

/* ---------- into the graph */

static uint32_t
backend_party(WaitGraph *g, const Node *n, uint32_t pid, uint64_t began)
{
	/*
	 * of a backend that only the node knows, its transaction's time stands
	 * for a number
	 */
	uint32_t	i = waitgraph_party(g, n->index, pid, 0);

	g->parties[i].node_name = n->config->name;
	g->parties[i].began = began;
	return i;
}

/* WAIT_NOBODY: it waits for nothing there that counts. */
static uint32_t
waiter_party(WaitGraph *g, const Node *n, const LocalWait *wait)
{
	ApplyConn  *c = pools_find_connection(n, (int) wait->waiter);
	ApplyTask  *task = c != NULL ? apply_current_task(c) : NULL;
	Transaction *tx;

	if (c != NULL)
		return task != NULL && task->state != TASK_UNDOING && !task->early ? sequencer_party(g, task->tx) : WAIT_NOBODY;
	tx = sequencer_find(n->index, wait->waiter);
	if (tx == NULL)
	{
		uint32_t	party = backend_party(g, n, wait->waiter, wait->waiter_began);

		g->parties[party].loses = LOSES_THERE;
		return party;
	}
	return tx->state == TX_QUEUED && !tx->awaits_lock ? sequencer_party(g, tx) : WAIT_NOBODY;
}

static uint32_t
blocker_party(WaitGraph *g, const Node *n, const LocalWait *wait)
{
	ApplyConn  *c = pools_find_connection(n, (int) wait->blocker);
	ApplyTask  *task = c != NULL ? apply_current_task(c) : NULL;
	Transaction *tx = c == NULL ? sequencer_find(n->index, wait->blocker) :
	task != NULL && task->state != TASK_UNDOING ? task->tx : NULL;

	return tx != NULL ? sequencer_party(g, tx) : backend_party(g, n, wait->blocker, wait->blocker_began);
}

/* For what the node has to apply first, or for who holds commits there. */
static void
add_turn_wait(WaitGraph *g, const Node *n, const LocalWait *wait, Transaction *next)
{
	uint32_t	waiter;

	if (next == NULL)
		return;
	if (wait->waiter == 0 && next->seq > wait->seq)
		waitgraph_add(g, WAIT_HELD, sequencer_party(g, next), backend_party(g, n, wait->blocker, wait->waiter_began),
					  n->index, 0, NULL);
	if (wait->waiter == 0 || next->seq > wait->seq)
		return;
	waiter = waiter_party(g, n, wait);
	if (waiter != WAIT_NOBODY)
		waitgraph_add(g, WAIT_ORDER, waiter, sequencer_party(g, next), n->index, 0, NULL);
}

static void
add_local(WaitGraph *g, const Node *n, Transaction *next)
{
	for (int i = 0; n->local_waits != NULL && i < n->local_waits->n; i++)
	{
		const LocalWait *wait = &n->local_waits->items[i];
		uint32_t	waiter;

		if (wait->seq != 0)
		{
			add_turn_wait(g, n, wait, next);
			continue;
		}
		waiter = waiter_party(g, n, wait);
		if (waiter == WAIT_NOBODY)
			continue;
		g->parties[waiter].lxid = wait->lxid;
		waitgraph_add(g, WAIT_LOCAL, waiter, blocker_party(g, n, wait), n->index, wait->since_us, wait->what);
	}
}

void
local_waits_fail_backend(Node *n, uint32_t pid, uint32_t lxid, const char *detail)
{
	char		pid_text[16];
	char		lxid_text[16];
	char	   *acceptable;
	const char *params[3] = {pid_text, lxid_text};

	if (n->control == NULL)
		return;
	snprintf(pid_text, sizeof(pid_text), "%" PRIu32, pid);
	snprintf(lxid_text, sizeof(lxid_text), "%" PRIu32, lxid);
	params[2] = acceptable = pgclient_acceptable(n->control, detail);
	if (n->old_objects)
	{
		params[1] = acceptable;
		pgclient_query(n->control, "SELECT lockstep.yield($1::int, $2)", 2, params, NULL, NULL);
	}
	else
		pgclient_query(n->control, "SELECT lockstep.yield_in_circle($1::int, $2::bigint, $3)", 3, params, NULL, NULL);
	free(acceptable);
}

/* ---------- tasks */

/* As one of several, if that is how the node executes it. */
static Transaction *
as_executed(const Node *n, Transaction *tx)
{
	for (const ApplyTask *task = n->tasks; task != NULL; task = task->node_next)
	{
		if (task->tx->nmembers > 0 && tx_first_seq(task->tx) <= tx->seq && tx->seq <= task->tx->seq)
			return task->tx;
	}
	return tx;
}

/* The decided transaction that the node commits next, as far as it is known here. */
static Transaction *
next_of(const Node *n)
{
	Transaction *tx = n->applying.count > 0 ? n->applying.items[n->applying.head] : NULL;

	if (tx != NULL && tx->seq == n->applied + 1)
		return as_executed(n, tx);
	tx = sequencer_undurable(NULL);
	return tx != NULL && tx->seq == n->applied + 1 ? tx : NULL;
}

static WaitKind
queued_for(const ApplyTask *task)
{
	if (task->not_before_us > loop_now_us())
		return WAIT_PAUSE;
	return task->tx->depends_on > sequencer_last_durable() ? WAIT_JOURNAL : WAIT_CONNECTION;
}

/* Others can't wait for one that is queued and decided, but for its turn. */
static void
add_task(WaitGraph *g, const Node *n, const ApplyTask *task, Transaction *next)
{
	bool		decided = task->tx->seq != 0;
	uint32_t	party;

	if (task->early || (decided && task->state == TASK_QUEUED && task->tx != next))
		return;
	if (!decided && task->state == TASK_EXECUTED)
		return;
	party = sequencer_party(g, task->tx);
	if (task->state == TASK_UNDOING)
		waitgraph_add(g, WAIT_UNDO, party, WAIT_NOBODY, n->index, task->started_us, NULL);
	else if (task->state == TASK_QUEUED && task->tx->nafter_tickets == 0)
		waitgraph_add(g, queued_for(task), party, WAIT_NOBODY, n->index, task->tx->since_us, NULL);
	else if (decided && task->tx->seq > n->applied + 1 && next != NULL && next != task->tx)
		waitgraph_add(g, WAIT_ORDER, party, sequencer_party(g, next), n->index, task->started_us, NULL);
	else if (task->state == TASK_RUNNING && task->wait_for > n->applied && next != NULL && next != task->tx)
		waitgraph_add(g, WAIT_ORDER, party, sequencer_party(g, next), n->index, task->started_us, NULL);
	else if (task->state == TASK_RUNNING)
		waitgraph_add(g, WAIT_EXECUTION, party, WAIT_NOBODY, n->index, task->started_us, NULL);
	else if (decided)
		waitgraph_add(g, WAIT_COMMIT, party, WAIT_NOBODY, n->index, task->tx->since_us, NULL);
}

void
local_waits_add(WaitGraph *g, Node *n, bool fresh)
{
	Transaction *next = next_of(n);

	if (!fresh || !n->local_waits_asked)
		add_local(g, n, next);
	for (const ApplyTask *task = n->tasks; task != NULL; task = task->node_next)
		add_task(g, n, task, next);

	/* its own backend commits it, and has no task there */
	if (next != NULL && task_find(next, n->index) == NULL)
		waitgraph_add(g, WAIT_COMMIT, sequencer_party(g, next), WAIT_NOBODY, n->index, next->since_us, NULL);
}
