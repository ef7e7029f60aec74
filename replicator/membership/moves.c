/*
 * moves.c
 *	  The states of a node, and which moves between them are legal.
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
 * Node.state has no other writer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "events.h"
#include "log.h"
#include "membership_private.h"
#include "points.h"
#include "sequencer.h"

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

/* Stable names of events. */
static const char *const arrived[] = {
	[NODE_JOINING] = "node_joining",
	[NODE_CATCHUP] = "node_catchup",
	[NODE_ONLINE] = "node_online",
	[NODE_DROPPED] = "node_dropped",
};

/* With a hint, where an operator has to act. */
static void
tell_drop(const Node *n, const char *what)
{
	LogLevel	level = drop_rule(n->cause)->level;
	char		hint[DROP_TEXT_SIZE];
	char	   *message;

	drop_hint(n->cause, n->config->name, hint);
	message = xasprintf("node %s: %s", what, n->reason);
	log_event(level, arrived[NODE_DROPPED], n->config->name, message, NULL, level >= LOG_WARNING ? hint : NULL);
	free(message);
}

static void
tell_move(const Node *n, LogLevel level, const char *sentence)
{
	char	   *message = xasprintf("node %s%s%s", sentence, n->reason[0] != '\0' ? ": " : "", n->reason);

	log_event(level, arrived[n->state], n->config->name, message, NULL, NULL);
	free(message);
}

static Deferred moved;			/* tells of it at the end of the round */

void
membership_tell_moves(void (*callback) (void *), void *arg)
{
	loop_undefer(&moved);		/* what is queued is for the one before */
	moved.callback = callback;
	moved.arg = arg;
}

void
node_tell_change(void)
{
	if (moved.callback != NULL)
		loop_defer(&moved);
}

/* reason: of a node that is out. */
static void
move(Node *n, NodeState to, const DropReason *reason)
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
			sequencer_node_came_online(n);
		}
		else if (n->state == NODE_CATCHUP)
			n->failures++;
		n->state = to;
		n->state_since = loop_now_us();
		n->cause = reason != NULL ? reason->cause : DROP_NONE;
		snprintf(n->reason, sizeof(n->reason), "%s", reason != NULL ? reason->text : "");
		if (reason != NULL && !apply_trouble_is_told(n, to))
			tell_drop(n, move->sentence);
		else
			tell_move(n, apply_trouble_is_told(n, to) ? LOG_DEBUG : LOG_NOTICE, move->sentence);
		if (!apply_trouble_is_told(n, to))
			event_note(arrived[to], n->config->name, move->sentence, n->reason);
		node_tell_change();
		LOCKSTEP_POINT(NODE_MOVED);
		return;
	}
	log_message(LOG_ERROR, n->config->name, "node cannot go from %s to %s",
				node_state_name(n->state), node_state_name(to));
	abort();
}

void
node_move(Node *n, NodeState to)
{
	move(n, to, NULL);
}

void
node_move_out(Node *n, const DropReason *reason)
{
	move(n, NODE_DROPPED, reason);
}

void
node_still_out(Node *n, const DropReason *reason)
{
	n->cause = reason->cause;
	snprintf(n->reason, sizeof(n->reason), "%s", reason->text);
	tell_drop(n, "still cannot be attached");
	event_note(arrived[NODE_DROPPED], n->config->name, "still cannot be attached", n->reason);
}
