/*
 * membership.c
 *	  Commands that change the state of a node, what is done when it leaves, and when it is
 *	  tried again.
 *
 * node_out() is the only way out of the cluster: it can be called from anywhere, also from
 * within callbacks of the node's own connections, which look at `closed` afterwards.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "metadata.h"
#include "sequencer.h"
#include "takeover.h"

static int
count_connections(const Node *n)
{
	int			count = n->control != NULL ? 1 : 0;

	for (const Pool *p = n->pools; p != NULL; p = p->next)
		count += p->queue.capacity;
	return count;
}

/* A hung server explains what else is wrong with it.  "" if it is heard. */
static const char *
silence(Node *n)
{
	int64_t		ms = n->control != NULL ? (int64_t) ((loop_now_us() - n->heard_us) / 1000) : 0;

	n->silence[0] = '\0';
	if (ms >= NODE_SILENT_MS && n->state == NODE_ONLINE)
		snprintf(n->silence, sizeof(n->silence), "has been silent for %.1f s, and %d transactions wait for it; a hung server is dropped after %d s (node_timeout)",
				 (double) ms / 1000, tasks_awaited(n), node_config->node_timeout / 1000);
	return n->silence;
}

bool
node_hint(const NodeStatus *s, char *hint)
{
	bool		silent = s->cause == DROP_NONE && s->state == NODE_ONLINE && s->silent_ms >= NODE_SILENT_MS;

	if (s->trouble != NULL && node_trouble_is_servers(s->trouble))
		snprintf(hint, DROP_TEXT_SIZE, "Mend what its server says (disk, memory, connections); nothing else is needed: it is tried again by itself, or now by: lockstepctl attach %s", s->name);
	else
		drop_hint(silent ? DROP_HUNG : s->cause, s->name, hint);
	return hint[0] != '\0';
}

NodeStatus
node_status(int node)
{
	Node	   *n = node_get(node);
	const char *silent = silence(n);
	NodeStatus	status = {
		.name = n->config->name,
		.state = n->state,
		.state_ms = (int64_t) ((loop_now_us() - n->state_since) / 1000),
		.reason = n->state == NODE_JOINING ? attach_where(n) :
		n->state != NODE_ONLINE ? n->reason : n->refusing[0] != '\0' ? n->refusing :
		silent[0] != '\0' ? silent :
		n->shortage[0] != '\0' ? n->shortage : n->reason,
		.cause = n->cause,
		.applied = n->applied,
		.flushed = n->flushed,
		.lag_bytes = n->lag_bytes,
		.administrative = n->administrative,
		.connections = count_connections(n),
		.boot = n->boot,
		.groups = n->groups,
		.grouped = n->grouped,
		.slow_drops = slow_node_drops(n),
		.silent_ms = n->control != NULL ? (int64_t) ((loop_now_us() - n->heard_us) / 1000) : -1,
		.waiting = tasks_awaited(n),
		.apply_patience_ended = n->apply_patience_ended,
		.retry_ms = -1,
		.seconds_left = -1,
		.trouble = n->trouble,
		.draining = n->draining,
		.drains_readers = n->drains_readers,
		.drain_announced = n->drain_announced,
		.drain_told = n->draining && n->drain_announced && n->drain_told,
		.writers_held = n->writers_held && !n->draining && writers_paused_ms() < 0,
		.writers_open = n->draining || writers_paused_ms() >= 0 ? n->writers_open : -1
	};
	uint64_t	seconds;
	uint64_t	now = loop_now_us();

	if (n->retry_timer != NULL)
		status.retry_ms = n->retry_at > now ? (int64_t) ((n->retry_at - now) / 1000) : 0;

	if (catchup_estimate(n, &status.rate, &seconds))
		status.seconds_left = (int64_t) seconds;

	return status;
}

LsSlice
node_server_key(int node)
{
	const Node *n = node_get(node);

	return (LsSlice) {n->server_key, n->server_key_boot == n->boot && n->boot != 0 ? sizeof(n->server_key) : 0};
}

/* ---------- leaving */

static void
on_retry(void *arg)
{
	Node	   *n = arg;

	n->retry_timer = NULL;
	attach_begin(n);
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

/* Close everything; the state says already that it is out. */
static void
leave(Node *n)
{
	char		message[sizeof(n->reason) + 128];

	lock_conflict_stop(n);
	early_apply_stop(n);
	attach_cancel(n);
	catchup_end(n);
	unlogged_tables_forget(n);
	control_end(n);
	databases_node_gone(n);
	database_command_node_gone(n);
	tasks_forget(n);
	pools_destroy(n);
	peers_forget(n);
	snprintf(message, sizeof(message), "node \"%s\" is not online (%s%s%s)", n->config->name,
			 node_state_name(n->state), n->reason[0] != '\0' ? ": " : "", n->reason);
	to_sessions->end_of_node(n->index, DROP_SQLSTATE, message, "Reads go on. See lockstepctl status.");
}

/* See node_out(). */
static void
out(Node *n, const DropReason *reason)
{
	if (n->state != NODE_DROPPED)
		node_move_out(n, reason);
	else if (n->cause != reason->cause || strcmp(reason->text, n->reason) != 0)
		node_still_out(n, reason);
	leave(n);
	history_looked_at(n);
	retry_later(n);
}

bool
node_drop(int node, void (*done) (void *), void *arg)
{
	Node	   *n = node_get(node);

	if (n->administrative)
		return false;
	n->administrative = true;
	sequencer_journal_metadata(RECORD_NODE_DROPPED, n->config->name, done, arg);
	node_out(n, DROP_COMMAND, FACTS());
	nodes_look_again();			/* others may have waited for it */
	return true;
}

bool
node_attach(int node, const char **why)
{
	Node	   *n = node_get(node);

	if (n->state != NODE_DROPPED)
		return true;			/* it is, or is being attached */
	if (n->administrative)
		sequencer_journal_metadata(RECORD_NODE_ATTACHED, n->config->name, NULL, NULL);
	n->administrative = false;
	n->failures = 0;
	apply_trouble_tell_again(n);
	slow_node_forgive(n);
	cancel_timer(&n->retry_timer);
	attach_cancel(n);
	pools_destroy(n);
	node_move(n, NODE_JOINING);
	attach_begin(n);
	return true;
}

/* ---------- start and end */

/* One who claims again and again, with another boot id each time, must not keep the node out. */
#define CLAIM_PAUSE_US UINT64_C(60000000)

bool
node_claimed(int node, uint64_t boot)
{
	Node	   *n = node_get(node);

	if (n->impostor_boot == boot || (n->impostor_boot != 0 && loop_now_us() - n->impostor_us < CLAIM_PAUSE_US))
		return false;
	n->claimed_boot = boot;
	node_out(n, DROP_RESTARTED, FACTS());
	return true;
}

/* What may start there, does; more is fed to it. */
static void
pump(Node *n)
{
	if (!slow_node_may_stay(n))
		return;
	tasks_drop_applied(n);		/* first: they count among what is in flight */
	if (n->catchup != NULL)
		catchup_feed(n);
	if (node_is_in(n) && tasks_start(n))
		lock_conflict_watch(n);
}

/* It has been drained. */
static void
drop(Node *n)
{
	(void) node_drop(n->index, NULL, NULL);
}

static const MembershipOps membership_ops = {
	.out = out,
	.drop = drop,
	.pump = pump,
	.pool_ready = attach_pool_ready,
	.task_added = catchup_task_added,
	.task_gone = catchup_task_gone,
	.ask_doubtful = control_ask_doubtful
};

void
membership_init(const Config *config, const char *cluster, const char *journal_dir)
{
	nodes_init(config, cluster, journal_dir, &membership_ops);
	tasks_init();
}

static void
node_start(Node *n)
{
	DropReason	reason = drop_reason(DROP_COMMAND, FACTS());

	n->administrative = metadata_node_is_out(n->config->name);
	if (n->administrative)
		node_move_out(n, &reason);
	else
		attach_begin(n);
}

void
membership_reload(void)
{
	while (nodes_add())
	{
		Node	   *n = node_get(nodes_count() - 1);

		node_start(n);
		log_message(LOG_NOTICE, n->config->name, "node was added to the configuration");
	}
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);
		const char *why;
		bool		moved = n->config->moves != n->moves;

		n->moves = n->config->moves;
		if (moved && !n->config->retired && !n->administrative)
		{
			node_out(n, DROP_MOVED, FACTS());
			(void) node_attach(i, &why);
		}
		if (n->config->retired && !n->administrative)
		{
			n->administrative = true;
			node_out(n, DROP_RETIRED, FACTS());
			nodes_look_again();
		}
		else if (!n->config->retired && n->administrative && n->cause == DROP_RETIRED)
			(void) node_attach(i, &why);
	}
}

static void
start_all(void)
{
	for (int i = 0; i < nodes_count(); i++)
		node_start(node_get(i));
}

void
membership_start(void)
{
	takeover_begin(start_all, attach_go_on);
}
