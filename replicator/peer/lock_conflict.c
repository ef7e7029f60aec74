/*
 * lock_conflict.c
 *	  Lock conflicts on a node: the lower rank yields.
 *
 * When an apply session makes no progress, also with its COMMIT, its node is asked which processes block
 * it.  Ranks: decided transactions by seq, then reserved ones by ticket, then all
 * others.  If W waits for a lock of B:
 *
 *	 B is another apply session		if it ranks lower: it is rolled back and executed
 *									again
 *	 B's backend has asked			if it has no ticket or a higher one, or if W is
 *									decided: B fails with 40001
 *	 B is decided					if its seq is higher than W's: its backend is
 *									canceled, and the node gets B by apply; else B
 *									commits by itself
 *	 B has lost its link in doubt	if it was not decided, B fails with 40001; if its seq is
 *									lower, it commits when an apply session has told it; else
 *									it is canceled (08007)
 *	 B has changed something		B fails with 40001 at once
 *	 B has only read				B fails with 40001 after max_apply_delay
 *
 * All nodes use the same ranks, so of two transactions that block each other on
 * different nodes the same one yields on both.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "conflict_log.h"
#include "masked_text.h"
#include "log.h"
#include "peer.h"
#include "querytext.h"
#include "sequencer.h"

#define MAX_INTERVAL_MS 20

/* A commit mostly waits for its turn, and nobody is in its way: it is looked at later. */
#define COMMIT_DELAY_MS 20

/* A row of lockstep.blockers(), of a process that is no apply session. */
typedef struct Blocker
{
	int			pid;
	const char *lxid;			/* of its transaction in the way, beyond which
								 * it may be; "0": any */
	bool		writes;
	size_t		at_row;			/* who waits changes this one of the rows that
								 * it got in one call */
	uint64_t	asked;			/* number of the transaction that it awaits a
								 * verdict for; 0: none */
	uint64_t	since;			/* what had been applied when that began */
} Blocker;

static void ask(Node *n);

static void
on_timer(void *arg)
{
	Node	   *n = arg;

	n->lock_conflict_timer = NULL;
	ask(n);
}

static void
look_again_in(Node *n, int ms)
{
	/* a timer set meanwhile fires sooner */
	if (n->lock_conflict_timer == NULL)
		n->lock_conflict_timer = loop_after(ms, on_timer, n);
}

void
lock_conflict_watch(Node *n)
{
	if (n->lock_conflict_timer == NULL && !n->lock_conflict_asked)
		look_again_in(n, node_config->yield_delay);
}

void
lock_conflict_stop(Node *n)
{
	loop_cancel(n->lock_conflict_timer);
	n->lock_conflict_timer = NULL;
	n->lock_conflict_asked = false;
	n->lock_conflict_ms = 0;
}

/* ---------- acting */

/* Query at of the transaction, or the one before it that has something to execute. */
static bool
waiting_query(const Transaction *tx, size_t at, Buffer *copy, LsQuery *query)
{
	LsSlice		payload;
	bool		found = tx_find_statement(tx, at, copy, &payload) && ls_get_query(payload, query) == NULL;

	/* those that have nothing to execute come last, and were not counted */
	while (found && query->form == LS_FORM_KEYS && at > 0)
		found = tx_find_statement(tx, --at, copy, &payload) && ls_get_query(payload, query) == NULL;
	return found;
}

/* The key that tells most: of a row, else of a table, else of the database. */
static LsKey
telling_key(const LsQuery *query)
{
	LsSlice		rest = query->keys;
	LsKey		key;
	LsKey		best = {0};

	while (ls_next_key(&rest, &key))
	{
		if (!ls_mode_is_table(key.mode))
			return key;
		if (best.name.len == 0 || (best.name.len > 9 && memcmp(best.name.data, "database ", 9) == 0))
			best = key;
	}
	return best;
}

/* What the loser is told. */
static void
describe_lock_conflict(const ApplyTask *waiting, size_t at_row, ConflictDetail *w)
{
	bool		commits = waiting->state == TASK_COMMITTING;
	size_t		at = apply_current_statement(waiting->connection, at_row);
	const Transaction *tx;
	LsQuery		query;
	char		who[LS_MAX_NAME + 64];

	if (commits && at > 0)
		at--;
	tx = tx_member_at(waiting->tx, &at);	/* of several that are executed as
											 * one, and its query */
	memset(w, 0, sizeof(*w));
	w->conflict.winner_node = tx->node;
	w->conflict.winner_pid = tx->pid;
	w->conflict.winner_seq = tx->seq;
	w->conflict.reason = "in the way";
	snprintf(who, sizeof(who), tx->seq != 0 ? "node \"%s\" (pid %" PRIu32 ", seq %" PRIu64 ")" :
			 "node \"%s\" (pid %" PRIu32 ")", tx->node, tx->pid, tx->seq);
	if (!commits && waiting_query(tx, at, &w->copy, &query))
	{
		LsKey		key = telling_key(&query);
		char	   *text = query_shown(&query, &key, false);

		w->conflict.key = key.name;
		w->conflict.whole_table = key.name.len > 0 && ls_mode_is_table(key.mode);
		w->conflict.row = w->conflict.whole_table ? 0 : key.hash;
		char	   *part = xasprintf("query \"%s\" on ", text);
		char	   *hidden = masked_part(part, &query);
		char	   *name = text_printable(key.name.data, key.name.len);

		w->detail = key.name.len > 0 ?
			xasprintf("It held a lock that %skey %s of %s needs, which asked to commit first.", hidden, name, who) :
			xasprintf("It held a lock that a transaction of %s needs, which asked to commit first.", who);
		free(text);
		free(part);
		free(hidden);
		free(name);
	}
	else
		w->detail = xasprintf("It held a lock that a transaction of %s needs, which asked to commit first.", who);
	w->conflict.detail = w->detail;
}

/*
 * A victim is signalled repeatedly until it aborts, and counted once: the last
 * ones are remembered.
 */
typedef struct Victim
{
	int			node;
	int			pid;
	uint64_t	ticket;			/* of the winner, or, if it has none, its seq */
} Victim;

#define MAX_VICTIMS 64

static Victim victims[MAX_VICTIMS];
static size_t nvictims;

static bool
is_new_victim(const Node *n, int pid, const Transaction *winner)
{
	Victim		victim = {n->index, pid, winner->ticket != 0 ? winner->ticket : winner->seq};

	for (size_t i = 0; i < MAX_VICTIMS; i++)
	{
		if (victims[i].node == victim.node && victims[i].pid == victim.pid && victims[i].ticket == victim.ticket)
			return false;
	}
	victims[nvictims++ % MAX_VICTIMS] = victim;
	return true;
}

/* True: it is a new victim. */
static bool
fail_backend(Node *n, const Blocker *blocker, const Transaction *b, const Transaction *winner, ConflictDetail *w)
{
	char		pid_text[16];
	char		seq_text[24];
	char	   *text = n->old_objects ? masked_shown(w->detail) : xstrdup(w->detail);	/* 1.0 shows all of it */
	char	   *detail = pgclient_acceptable(n->control, text);
	const char *params[] = {pid_text, detail, seq_text, blocker->lxid};

	snprintf(pid_text, sizeof(pid_text), "%d", blocker->pid);
	snprintf(seq_text, sizeof(seq_text), "%" PRIu64, winner->seq);
	if (n->old_objects)
		pgclient_query(n->control, "SELECT lockstep.yield($1::int, $2)", 2, params, NULL, NULL);
	else
		pgclient_query(n->control, "SELECT lockstep.yield($1::int, $2, $3::bigint, $4::bigint)", 4, params, NULL, NULL);
	free(detail);
	free(text);
	if (!is_new_victim(n, blocker->pid, winner))
		return false;
	w->conflict.database = winner->database;
	w->conflict.node = n->config->name;
	w->conflict.pid = (uint32_t) blocker->pid;
	w->conflict.xcount = b != NULL ? b->xcount : 0;
	w->conflict.sqlstate = b != NULL && b->seq != 0 ? "08007" : "40001";
	sequencer_row_fought(w->conflict.row);
	conflict_log_add(&w->conflict);
	return true;
}

/*
 * An apply session whose connection is gone, from before the node was dropped: while
 * it waits for a lock or for its turn, it does not notice that.  Its transaction is
 * executed again by another session, so it can be terminated.  If it waits for a
 * claimed seq whose owner it blocks, neither can proceed.
 */
static void
end_orphan(Node *n, int pid, const Transaction *waiting)
{
	char		pid_text[16];
	const char *params[] = {pid_text};

	snprintf(pid_text, sizeof(pid_text), "%d", pid);
	if (is_new_victim(n, pid, waiting))
		log_message(LOG_INFO, n->config->name, "terminating orphaned apply session %d, which blocks another", pid);
	pgclient_query(n->control, "SELECT pg_catalog.pg_terminate_backend($1::int)", 1, params, NULL, NULL);
}

/* True: it is rolled back. */
static bool
yield_apply_session(Node *n, int pid, const ApplyTask *waiting)
{
	ApplyConn  *c = pools_find_connection(n, pid);
	ApplyTask  *task = c != NULL ? apply_current_task(c) : NULL;

	if (c == NULL)
		end_orphan(n, pid, waiting->tx);
	if (task == NULL || task == waiting)
		return false;
	if (task->state == TASK_UNDOING)
		apply_cancel(c);		/* whatever its rank; see apply_cancel.c */
	if (task->state == TASK_UNDOING || !rank_before(waiting->tx, task->tx))
		return false;
	log_message(LOG_DEBUG, n->config->name, "apply session %d blocks a transaction of higher rank and is executed again", pid);
	task_undo(task, true);
	return true;
}

static void
deny_verdict(Node *n, const Blocker *blocker)
{
	char		pid_text[16];
	char		asked_text[24];
	const char *params[] = {pid_text, asked_text};

	snprintf(pid_text, sizeof(pid_text), "%d", blocker->pid);
	snprintf(asked_text, sizeof(asked_text), "%" PRIu64, blocker->asked);
	pgclient_query(n->control, "SELECT lockstep.deny_verdict($1::int, $2::bigint)", 2, params, NULL, NULL);
}

/*
 * A backend that has asked another replicator, or by another link, or has not read its verdict yet.
 * If it was not decided, it is told, unless it is connected: then the verdict is under way.  If it
 * comes before the one that waits, it commits by itself as soon as an apply session has told it.
 * False: it has to be failed.
 */
static bool
spare_doubtful(Node *n, const Blocker *blocker, const Transaction *waiting)
{
	LsIdentity	id = {
		.node = ls_slice_of(n->config->name),
		.boot = n->boot,
		.pid = (uint32_t) blocker->pid,
		.xcount = blocker->asked
	};
	uint64_t	seq = 0;

	switch (to_sessions->past(&id, blocker->since, &seq))
	{
		case LS_PAST_ABORTED:
			if (!to_sessions->connected(&id))
				deny_verdict(n, blocker);
			return true;
		case LS_PAST_COMMITTED:
			return waiting->seq == 0 || seq < waiting->seq;
		case LS_PAST_IN_PROGRESS:
		case LS_PAST_UNKNOWN:
			break;
	}
	return false;
}

/* True: it has lost, and had not before. */
static bool
yield_backend(Node *n, const Blocker *blocker, const ApplyTask *waiting, uint64_t waited_us)
{
	const Transaction *tx = waiting->tx;
	Transaction *b = sequencer_find(n->index, (uint32_t) blocker->pid);
	ConflictDetail w;
	bool		loses;
	bool		asked = b != NULL && sequencer_is_question(b);
	bool		is_new = true;

	if (b == NULL && blocker->asked != 0 && spare_doubtful(n, blocker, tx))
		return false;
	if (asked)
		loses = tx->seq != 0 || b->state != TX_RESERVED || b->ticket > tx->ticket;
	else if (b != NULL && b->seq != 0)
		loses = tx->seq != 0 && tx->seq < b->seq;
	else
		loses = blocker->writes || b != NULL || waited_us >= (uint64_t) node_config->max_apply_delay * 1000;
	if (!loses)
		return false;
	describe_lock_conflict(waiting, blocker->at_row, &w);	/* not before: its query
															 * may be on disk */
	if (asked)
		sequencer_refuse_blocker(b, &w.conflict);
	else
		is_new = fail_backend(n, blocker, b, tx, &w);
	conflict_detail_free(&w);
	return is_new;
}

static bool
is_true(const PGresult *r, int row, int column)
{
	return PQgetvalue(r, row, column)[0] == 't';
}

/* Version 1.0 says neither which row waits nor which transaction is in the way. */
static Blocker
blocker_of(const PGresult *r, int row)
{
	bool		is_old = PQnfields(r) == 4;
	Blocker		blocker = {
		.pid = atoi(PQgetvalue(r, row, 1)),
		.writes = is_true(r, row, 2),
		.at_row = is_old ? 0 : strtoul(PQgetvalue(r, row, 4), NULL, 10),
		.lxid = is_old ? "0" : PQgetvalue(r, row, 5),
		.asked = is_old ? 0 : strtoull(PQgetvalue(r, row, 6), NULL, 10),
		.since = is_old ? 0 : strtoull(PQgetvalue(r, row, 7), NULL, 10)
	};

	return blocker;
}

/*
 * For how long other processes have blocked it.  Its last result may be older: in one
 * call it waits for its turn to begin, and then for locks.
 */
static uint64_t
waited_us(const Node *n, ApplyConn *c)
{
	ApplyBlocked *b = apply_blocked(c);

	if (b->answer + 1 < n->lock_conflict_answers || b->since_us < apply_progress_us(c))
		b->since_us = loop_now_us();
	b->answer = n->lock_conflict_answers;
	return loop_now_us() - b->since_us;
}

/* Its commit can wait for others, too: for lockstep.progress, or a catalog that is being rewritten. */
static bool
may_be_blocked(const ApplyTask *task)
{
	return !task->early && (task->state == TASK_RUNNING || task->state == TASK_COMMITTING);
}

static void
on_blockers(void *arg, const PGresult *r)
{
	Node	   *n = arg;
	int			rows = pids_answered(n, r, &n->lock_conflict_asked, "ask for blocking processes") ? PQntuples(r) : 0;
	bool		news = false;

	n->lock_conflict_answers++;
	for (int i = 0; i < rows; i++)
	{
		ApplyConn  *c = pools_find_connection(n, atoi(PQgetvalue(r, i, 0)));
		Blocker		blocker = blocker_of(r, i);
		ApplyTask  *task = c != NULL ? apply_current_task(c) : NULL;

		/* things may have gone on since it was asked, or by the rows before */
		if (task == NULL || !may_be_blocked(task))
			continue;
		if (is_true(r, i, 3))
			news |= yield_apply_session(n, blocker.pid, task);
		else
			news |= yield_backend(n, &blocker, task, waited_us(n, c));
	}
	/* who was let go on may meet the next one soon */
	if (news)
		n->lock_conflict_ms = 0;
	if (r != NULL)
		look_again_in(n, news ? node_config->yield_delay : n->lock_conflict_ms);
}

/* ---------- asking */

/* Apply sessions without a result for a while.  In how many ms there may be others; 0: nothing is executed. */
static int
add_waiting(const Node *n, Buffer *pids)
{
	uint64_t	now = loop_now_us();
	int			next_ms = 0;

	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		for (int i = 0; i < p->nconnections; i++)
		{
			const ApplyConn *c = p->connections[i];
			const ApplyTask *task = apply_current_task(c);
			bool		runs;
			int			delay_ms;

			if (task == NULL || task->state == TASK_UNDOING || task->early)
				continue;
			runs = task->state == TASK_RUNNING;
			delay_ms = runs ? node_config->yield_delay : COMMIT_DELAY_MS;
			if (runs || next_ms == 0)
				next_ms = delay_ms;
			if (may_be_blocked(task) && apply_progress_us(c) + (uint64_t) delay_ms * 1000 <= now)
				pids_add(pids, apply_backend_pid(c));
		}
	}
	return next_ms;
}

static void
ask(Node *n)
{
	Buffer		pids = {0};
	int			next_ms = add_waiting(n, &pids);

	if (pids.len == 0)
	{
		n->lock_conflict_ms = 0;
		if (next_ms > 0)
			look_again_in(n, next_ms);
		return;
	}
	n->lock_conflict_ms = n->lock_conflict_ms > 0 ? n->lock_conflict_ms * 2 : node_config->yield_delay;
	if (n->lock_conflict_ms > MAX_INTERVAL_MS)
		n->lock_conflict_ms = MAX_INTERVAL_MS;
	(void) pids_ask(n, &pids, "SELECT * FROM lockstep.blockers($1)",
					&n->lock_conflict_asked, on_blockers);
}
