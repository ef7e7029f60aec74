/*
 * yield.c
 *	  Who yields: an apply session that gets no further is asked about, and what
 *	  is in its way gives way, if it ranks lower.
 *
 * Ranks: decided transactions by seq; reserved ones by ticket; all others.  On a
 * node, W waiting for B:
 *
 *	 B is another apply session	   it ranks lower: rolled back, executed again later
 *	 B's backend has asked		   its ticket is higher, or it has none, or W is
 *								   decided: 40001 to B
 *	 B's backend has been decided  with a higher seq than W's: B's backend gives up,
 *								   and the node gets it by apply; else it goes by
 *								   itself
 *	 B has changed something	   it fails with 40001 at once
 *	 B has only read			   the same, after max_apply_delay
 *
 * All nodes rank alike, so two transactions that block each other on different
 * nodes agree on who goes on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "log.h"
#include "node_private.h"
#include "sequencer.h"

#define MAX_INTERVAL_MS 20

static void ask(Node *n);

static void
on_yield_timer(void *arg)
{
	Node	   *n = arg;

	n->yield_timer = NULL;
	ask(n);
}

static void
look_again_in(Node *n, int ms)
{
	n->yield_timer = loop_after(ms, on_yield_timer, n);
}

void
yield_watch(Node *n)
{
	if (n->yield_timer == NULL && !n->yield_asked)
		look_again_in(n, node_config->yield_delay);
}

void
yield_stop(Node *n)
{
	loop_cancel(n->yield_timer);
	n->yield_timer = NULL;
	n->yield_asked = false;
	n->yield_ms = 0;
}

/* ---------- acting */

/* For the loser: which query, on which key, of whom (malloc'ed). */
static char *
way_detail(const Work *waiting)
{
	const Transaction *tx = waiting->tx;
	size_t		at = apply_current_statement(waiting->connection);
	LsQuery		query;
	LsKey		key = {0};
	LsSlice		payload;
	Buffer		copy = {0};
	char	   *text;
	char	   *detail;

	bool		found = tx_find_statement(tx, at, &copy, &payload) && ls_get_query(payload, &query) == NULL;

	/* those that have nothing to execute come last, and were not counted */
	while (found && query.form == LS_FORM_KEYS && at > 0)
		found = tx_find_statement(tx, --at, &copy, &payload) && ls_get_query(payload, &query) == NULL;
	if (!found)
	{
		buffer_free(&copy);
		return xasprintf("It held a lock that a transaction of node \"%s\" (pid %" PRIu32 ") needs, which asked to commit first.",
						 tx->node, tx->pid);
	}
	/* the first row key tells more than the table's */
	while (ls_next_key(&query.keys, &key) && ls_mode_is_table(key.mode))
		;
	text = tx_shown_text(query.text);
	detail = xasprintf("It held a lock that query \"%s\" on key %.*s of node \"%s\" (pid %" PRIu32 ") needs, which asked to commit first.",
					   text, (int) key.name.len, key.name.data != NULL ? (const char *) key.name.data : "",
					   tx->node, tx->pid);
	free(text);
	buffer_free(&copy);
	return detail;
}

static void
let_fail(Node *n, int pid, const char *detail)
{
	char		pid_text[16];
	const char *params[] = {pid_text, detail};

	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	log_message(LOG_DEBUG, n->config->name, "backend %d is in the way and has to yield", pid);
	pgclient_query(n->control, "SELECT lockstep.yield($1::int, $2)", 2, params, NULL, NULL);
}

static void
apply_in_the_way(const Node *n, int pid, const Work *waiting)
{
	ApplyConn  *c = pools_find_connection(n, pid);
	Work	   *w = c != NULL ? apply_work(c) : NULL;

	if (w == NULL || w == waiting || w->state == WORK_UNDOING || !rank_before(waiting->tx, w->tx))
		return;
	log_message(LOG_DEBUG, n->config->name, "apply session %d is in the way of a higher rank, will be executed again", pid);
	work_undo(w, true);
}

static void
backend_in_the_way(Node *n, int pid, bool writes, const Work *waiting, uint64_t waited_us)
{
	const Transaction *tx = waiting->tx;
	Transaction *b = sequencer_find(n->index, (uint32_t) pid);
	char	   *detail = way_detail(waiting);
	bool		asked = b != NULL && (b->state == TX_WAITING || b->state == TX_RESERVED || b->awaits_lock);

	if (asked)
	{
		if (tx->seq != 0 || b->state != TX_RESERVED || b->ticket > tx->ticket)
			sequencer_in_the_way(b, detail, tx->seq);
	}
	else if (b != NULL && b->seq != 0)
	{
		if (tx->seq != 0 && tx->seq < b->seq)
			let_fail(n, pid, detail);
	}
	else if (writes || b != NULL || waited_us >= (uint64_t) node_config->max_apply_delay * 1000)
		let_fail(n, pid, detail);
	free(detail);
}

static bool
is_true(const PGresult *r, int row, int column)
{
	return PQgetvalue(r, row, column)[0] == 't';
}

static void
on_blockers(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	n->yield_asked = false;
	if (r == NULL)
		return;					/* the node goes out */
	if (PQresultStatus(r) != PGRES_TUPLES_OK)
		log_message(LOG_WARNING, n->config->name, "could not ask who is in the way: %s",
					pgclient_message(PQresultErrorMessage(r)));
	for (int i = 0; i < PQntuples(r); i++)
	{
		ApplyConn  *c = pools_find_connection(n, atoi(PQgetvalue(r, i, 0)));
		int			blocker = atoi(PQgetvalue(r, i, 1));
		Work	   *w = c != NULL ? apply_work(c) : NULL;

		/* things may have gone on since it was asked, or by the rows before */
		if (w == NULL || w->state != WORK_RUNNING || w->early)
			continue;
		if (is_true(r, i, 3))
			apply_in_the_way(n, blocker, w);
		else
			backend_in_the_way(n, blocker, is_true(r, i, 2), w, loop_now_us() - apply_progress_us(c));
	}
	look_again_in(n, n->yield_ms);
}

/* ---------- asking */

/* Apply sessions without a result for a while; sets *any if one runs at all. */
static char *
who_waits(const Node *n, bool *any)
{
	Buffer		pids = {0};
	uint64_t	since = loop_now_us() - (uint64_t) node_config->yield_delay * 1000;

	*any = false;
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		for (int i = 0; i < p->nconnections; i++)
		{
			const ApplyConn *c = p->connections[i];
			const Work *w = apply_work(c);

			if (w == NULL || w->state != WORK_RUNNING || w->early)
				continue;
			*any = true;
			if (apply_progress_us(c) > since)
				continue;
			pids_add(&pids, c);
		}
	}
	return pids_end(&pids);
}

static void
ask(Node *n)
{
	bool		any;
	char	   *pids = who_waits(n, &any);
	const char *params[] = {pids};

	if (pids == NULL)
	{
		n->yield_ms = 0;
		if (any)
			look_again_in(n, node_config->yield_delay);
		return;
	}
	n->yield_ms = n->yield_ms > 0 ? n->yield_ms * 2 : node_config->yield_delay;
	if (n->yield_ms > MAX_INTERVAL_MS)
		n->yield_ms = MAX_INTERVAL_MS;
	n->yield_asked = true;
	pgclient_query(n->control, "SELECT waiting, blocker, writes, is_apply FROM lockstep.blockers($1)",
				   1, params, on_blockers, n);
	free(pids);
}
