/*
 * node.c
 *	  The nodes: what state each is in, and giving transactions to those that
 *	  are online.
 *
 *				   attach, checks			 all of the journal dispatched
 *	  JOINING ----------------> CATCHUP ----------------> ONLINE
 *		|  ^						|						 |
 *		|  +-- attach by command	|	   anything goes wrong	 |
 *		v						v						 v
 *	  DROPPED <-----------------+------------------------+
 *		|		tried again every reconnect_interval (not if dropped by command)
 *		+------> CATCHUP
 *
 * node_move() is the only writer of Node.state; node_out() the only way out of
 * the cluster: it can be called from anywhere, also from within callbacks of
 * the node's own connections, which look at `closed` afterwards.
 *
 * What a transaction means to a node: nodes_execute() makes a Work on each
 * online peer; nodes_commit() lets those commit (and makes Works for what was
 * decided first); nodes_rollback() takes them back.  `applying` lists what is
 * durable and not applied, by seq.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generation.h"
#include "log.h"
#include "metadata.h"
#include "points.h"
#include "sequencer.h"

/* A node that fails again and again while it catches up, or is dropped again and
 * again for its lag, is tried more and more rarely: reconnect_interval doubles so
 * often, at most. */
#define MAX_DOUBLINGS 6

typedef struct LegalMove
{
	NodeState	from;
	NodeState	to;
	const char *sentence;
} LegalMove;

static const LegalMove legal_moves[] = {
	{NODE_JOINING, NODE_CATCHUP, "is attached and catches up from the journal"},
	{NODE_JOINING, NODE_DROPPED, "could not be attached"},
	{NODE_DROPPED, NODE_CATCHUP, "is back and catches up from the journal"},
	{NODE_DROPPED, NODE_JOINING, "is to be attached, by command"},
	{NODE_CATCHUP, NODE_ONLINE, "is online"},
	{NODE_CATCHUP, NODE_DROPPED, "was dropped while it caught up"},
	{NODE_ONLINE, NODE_DROPPED, "was dropped"},
};

const Config *node_config;
const char *node_cluster;
const char *node_journal_dir;

static Node nodes[CONFIG_MAX_NODES];
static int	nnodes;

Node *
node_get(int index)
{
	return &nodes[index];
}

int
nodes_count(void)
{
	return nnodes;
}

const char *
node_name(int node)
{
	return nodes[node].config->name;
}

int
node_find(LsSlice name)
{
	for (int i = 0; i < nnodes; i++)
	{
		const char *known = nodes[i].config->name;

		if (strlen(known) == name.len && memcmp(known, name.data, name.len) == 0)
			return i;
	}
	return -1;
}

const char *
node_state_name(NodeState s)
{
	switch (s)
	{
		case NODE_JOINING:
			return "joining";
		case NODE_CATCHUP:
			return "catchup";
		case NODE_ONLINE:
			return "online";
		case NODE_DROPPED:
			return "dropped";
	}
	return "unknown";
}

static int
count_connections(const Node *n)
{
	int			count = n->control != NULL ? 1 : 0;

	for (const Pool *p = n->pools; p != NULL; p = p->next)
		count += p->lane.capacity;
	return count;
}

NodeStatus
node_status(int node)
{
	const Node *n = &nodes[node];
	NodeStatus	status = {
		.name = n->config->name,
		.state = n->state,
		.reason = n->state == NODE_JOINING ? attach_where(n) :
		n->state == NODE_ONLINE && n->shortage[0] != '\0' ? n->shortage : n->reason,
		.applied = n->applied,
		.flushed = n->flushed,
		.lag_bytes = n->lag_bytes,
		.administrative = n->administrative,
		.connections = count_connections(n),
		.boot = n->boot,
		.slow_drops = lag_drops(n),
		.silent_ms = n->control != NULL ? (int64_t) ((loop_now_us() - n->heard_us) / 1000) : -1,
		.waiting = works_awaited(n),
		.overlong_ended = n->overlong_ended,
		.retry_ms = -1,
		.seconds_left = -1,
		.trouble = n->trouble
	};
	uint64_t	seconds;
	uint64_t	now = loop_now_us();

	if (n->retry_timer != NULL)
		status.retry_ms = n->retry_at > now ? (int64_t) ((n->retry_at - now) / 1000) : 0;

	if (catchup_estimate(n, &status.rate, &seconds))
		status.seconds_left = (int64_t) seconds;

	return status;
}

uint64_t
node_applied(int node)
{
	return nodes[node].applied;
}

void
node_heard(Node *n)
{
	n->heard_us = loop_now_us();
}

int
node_stall_timeout(void)
{
	return node_config->stall_timeout > 0 ? node_config->stall_timeout : node_config->node_timeout * 6;
}

void
node_generation(int node, uint64_t *generation, uint64_t *run)
{
	*generation = nodes[node].generation;
	*run = *generation != 0 ? generation_run() : 0;
}

const char *const *
nodes_databases(int *n)
{
	return metadata_databases(n);
}

/* ---------- moving */

void
node_move(Node *n, NodeState to, const char *reason)
{
	for (size_t i = 0; i < sizeof(legal_moves) / sizeof(legal_moves[0]); i++)
	{
		const LegalMove *move = &legal_moves[i];

		if (move->from != n->state || move->to != to)
			continue;
		if (to == NODE_ONLINE)
		{
			n->failures = 0;
			n->slow = false;
			n->online_since = loop_now_us();
		}
		else if (n->state == NODE_CATCHUP)
			n->failures++;
		n->state = to;
		snprintf(n->reason, sizeof(n->reason), "%s", reason);
		log_message(trouble_is_told(n, to) ? LOG_DEBUG : LOG_NOTICE, n->config->name, "node %s%s%s", move->sentence,
					reason[0] != '\0' ? ": " : "", reason);
		LOCKSTEP_POINT(NODE_MOVED);
		return;
	}
	log_message(LOG_ERROR, n->config->name, "node can't go from %s to %s",
				node_state_name(n->state), node_state_name(to));
	abort();
}

static void
on_retry(void *arg)
{
	Node	   *n = arg;

	n->retry_timer = NULL;
	attach_begin(n);
}

int
node_pause_ms(const Node *n)
{
	int			doublings = n->failures > lag_doublings(n) ? n->failures : lag_doublings(n);

	return node_config->reconnect_interval << (doublings < MAX_DOUBLINGS ? doublings : MAX_DOUBLINGS);
}

static void
retry_later(Node *n)
{
	int			pause_ms = node_pause_ms(n);

	loop_cancel(n->retry_timer);
	n->retry_timer = NULL;
	if (n->administrative)
		return;
	n->retry_timer = loop_after(pause_ms, on_retry, n);
	n->retry_at = loop_now_us() + (uint64_t) pause_ms * 1000;
}

static void
cancel_timer(Timer **t)
{
	loop_cancel(*t);
	*t = NULL;
}

static void
forget_applying(Node *n)
{
	Transaction *tx;

	n->lag_bytes = 0;
	while ((tx = ring_pop(&n->applying, UINT64_MAX)) != NULL)
	{
		tx->applying &= ~(UINT64_C(1) << n->index);
		if (tx->applying == 0)
			sequencer_applied(tx);
		tx_unref(tx);
	}
	while ((tx = ring_pop(&n->doubtful, UINT64_MAX)) != NULL)
		tx_unref(tx);
}

/* Close everything; the state says already that it is out. */
static void
leave(Node *n)
{
	char		message[sizeof(n->reason) + 128];

	yield_stop(n);
	early_stop(n);
	attach_cancel(n);
	catchup_end(n);
	control_end(n);
	databases_node_gone(n);
	works_forget(n);
	pools_destroy(n);
	forget_applying(n);
	snprintf(message, sizeof(message), "node \"%s\" is not online (%s%s%s)", n->config->name,
			 node_state_name(n->state), n->reason[0] != '\0' ? ": " : "", n->reason);
	sessions_end_of_node(n->index, "57P03", message, "Reads go on. See lockstepctl status.");
}

void
node_out(Node *n, const char *fmt,...)
{
	char		reason[sizeof(n->reason)];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);

	if (n->state != NODE_DROPPED)
		node_move(n, NODE_DROPPED, reason);
	else if (strcmp(reason, n->reason) != 0)
	{
		snprintf(n->reason, sizeof(n->reason), "%s", reason);
		log_message(LOG_NOTICE, n->config->name, "node still can't be attached: %s", reason);
	}
	leave(n);
	history_looked_at(n);
	retry_later(n);
}

bool
node_drop(int node, const char *reason, void (*done) (void *), void *arg)
{
	Node	   *n = &nodes[node];

	if (n->administrative)
		return false;
	n->administrative = true;
	sequencer_journal_metadata(RECORD_NODE_DROPPED, n->config->name, done, arg);
	node_out(n, "%s", reason);
	nodes_look_again();			/* others may have waited for it */
	return true;
}

bool
node_attach(int node, const char **why)
{
	Node	   *n = &nodes[node];

	if (n->state != NODE_DROPPED)
		return true;			/* it is, or is being attached */
	if (n->administrative)
		sequencer_journal_metadata(RECORD_NODE_ATTACHED, n->config->name, NULL, NULL);
	n->administrative = false;
	n->failures = 0;
	trouble_tell_again(n);
	lag_forget(n);
	cancel_timer(&n->retry_timer);
	attach_cancel(n);
	pools_destroy(n);
	node_move(n, NODE_JOINING, "");
	attach_begin(n);
	return true;
}

/* ---------- what has been applied */

void
node_heard_applied(int node, uint64_t seq)
{
	Node	   *n = &nodes[node];
	Transaction *tx;

	/* what was never decided here is the next heartbeat's matter: history.c */
	if (seq <= n->applied || seq > sequencer_last_decided())
		return;
	n->applied = seq;
	if (n->trouble != NULL)
		trouble_passed(n, seq);
	while ((tx = ring_pop(&n->applying, seq)) != NULL)
	{
		lag_remove(n, tx);
		tx->applying &= ~(UINT64_C(1) << node);
		if (tx->applying == 0)
			sequencer_applied(tx);
		tx_unref(tx);
	}

	/* given to it, and committed by its own backend meanwhile */
	for (Pool *p = n->pools; p != NULL; p = p->next)
	{
		while (p->lane.first != NULL && p->lane.first->tx->seq != 0 && p->lane.first->tx->seq <= seq)
			work_undo(p->lane.first, false);
	}
	node_pump(n);
}

uint64_t
nodes_min_applied(void)
{
	uint64_t	lowest = sequencer_last_durable();

	for (int i = 0; i < nnodes; i++)
	{
		const Node *n = &nodes[i];

		if ((n->state == NODE_CATCHUP || n->state == NODE_ONLINE) && n->applied < lowest)
			lowest = n->applied;
	}
	return lowest;
}

uint64_t
nodes_min_flushed(void)
{
	uint64_t	lowest = sequencer_last_durable();

	for (int i = 0; i < nnodes; i++)
	{
		const Node *n = &nodes[i];

		if ((n->state == NODE_CATCHUP || n->state == NODE_ONLINE) && n->pools != NULL && n->flushed < lowest)
			lowest = n->flushed;
	}
	return lowest;
}

/* ---------- giving transactions to nodes */

static void
on_pump(void *arg)
{
	Node	   *n = arg;

	if (!lag_may_go_on(n))
		return;
	if (n->catchup != NULL)
		catchup_feed(n);
	if (n->state == NODE_CATCHUP || n->state == NODE_ONLINE)
		works_start(n);
}

void
node_pump(Node *n)
{
	loop_defer(&n->pump);
}

void
nodes_look_again(void)
{
	for (int i = 0; i < nnodes; i++)
		node_pump(&nodes[i]);
}

void
nodes_execute(Transaction *tx)
{
	assert(tx->state == TX_RESERVED);
	tx->executing = 0;
	for (int i = 0; i < nnodes; i++)
	{
		if (nodes[i].state != NODE_ONLINE || i == (int) tx->origin)
			continue;
		tx->executing |= UINT64_C(1) << i;
		if (work_find(tx, i) == NULL)
			work_add(&nodes[i], tx);
	}
	if (tx->executing == 0)
	{
		sequencer_executed(tx);
		return;
	}

	/*
	 * All bits are set: these may have nothing left to do, and the last of
	 * them tells the sequencer.
	 */
	for (int i = 0; i < nnodes; i++)
	{
		Work	   *w = (tx->executing >> i & 1) ? work_find(tx, i) : NULL;

		if (w != NULL && w->early)
			early_promote(w);
	}
}

void
nodes_commit(Transaction *tx)
{
	assert(tx->state == TX_DURABLE);
	tx->applying = 0;
	for (int i = 0; i < nnodes; i++)
	{
		Node	   *n = &nodes[i];
		Work	   *w;

		if (n->state == NODE_CATCHUP)
			node_pump(n);		/* it is in the journal now */
		if (n->state != NODE_ONLINE)
			continue;
		w = work_find(tx, i);
		if (w != NULL)
			work_commit(w);
		if (i == (int) tx->origin)
			continue;
		if (w == NULL)
			work_add(n, tx);	/* decided before it is executed */
		tx->applying |= UINT64_C(1) << i;
		ring_push(&n->applying, tx);
		lag_add(n, tx);
	}
	if (tx->applying == 0)
		sequencer_applied(tx);
}

void
nodes_rollback(Transaction *tx)
{
	Work	   *next;

	assert(tx->state == TX_ROLLED_BACK);
	tx->executing = 0;
	for (Work *w = tx->works; w != NULL; w = next)
	{
		next = w->next_of_tx;
		work_undo(w, false);
	}
}

void
node_apply_at_origin(Transaction *tx)
{
	Node	   *n;

	assert(tx->seq != 0);
	if (tx->origin == ORIGIN_NONE)
		return;
	n = &nodes[tx->origin];
	if (n->state != NODE_ONLINE || n->applied >= tx->seq || work_find(tx, n->index) != NULL)
		return;					/* it gets it from the journal, or has it, or
								 * will */
	ring_push(&n->doubtful, tx);
	control_ask_doubtful(n);
}

/* ---------- start and end */

bool
node_claimed(int node, uint64_t boot)
{
	Node	   *n = &nodes[node];

	if (n->impostor_boot == boot)
		return false;
	n->claimed_boot = boot;
	node_out(n, "its server has restarted");
	return true;
}

static void
node_init(int i)
{
	Node	   *n = &nodes[i];

	n->index = i;
	n->config = &node_config->nodes[i];
	n->state = NODE_JOINING;
	n->pump.callback = on_pump;
	n->pump.arg = n;
}

static void
node_start(Node *n)
{
	n->administrative = metadata_node_is_out(n->config->name);
	if (n->administrative)
		node_move(n, NODE_DROPPED, "dropped by command");
	else
		attach_begin(n);
}

void
nodes_init(const Config *config, const char *cluster, const char *journal_dir)
{
	node_config = config;
	node_cluster = cluster;
	node_journal_dir = journal_dir;
	nnodes = config->nnodes;
	for (int i = 0; i < nnodes; i++)
		node_init(i);
}

void
nodes_reload(void)
{
	static const char retired[] = "retired: it is not in replicator.conf any more";

	while (nnodes < node_config->nnodes)
	{
		node_init(nnodes);
		node_start(&nodes[nnodes++]);
		log_message(LOG_NOTICE, nodes[nnodes - 1].config->name, "node was added to the configuration");
	}
	for (int i = 0; i < nnodes; i++)
	{
		Node	   *n = &nodes[i];
		const char *why;
		bool		moved = n->config->moves != n->moves;

		n->moves = n->config->moves;
		if (moved && !n->config->retired && !n->administrative)
		{
			node_out(n, "its connection string has changed");
			(void) node_attach(i, &why);
		}
		if (n->config->retired && !n->administrative)
		{
			n->administrative = true;
			node_out(n, "%s", retired);
			nodes_look_again();
		}
		else if (!n->config->retired && n->administrative && strcmp(n->reason, retired) == 0)
			(void) node_attach(i, &why);
	}
}

static void
start_all(void)
{
	for (int i = 0; i < nnodes; i++)
		node_start(&nodes[i]);
}

void
nodes_start(void)
{
	generation_begin(start_all);
}
