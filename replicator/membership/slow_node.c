/*
 * slow_node.c
 *	  Dropping a node that lags too far behind (lag.c), with slow_node = drop; and how long
 *	  the pause is before a dropped node is tried again.
 *
 * A dropped node catches up from the journal, and is as slow as before when it is
 * online again.  So that it does not go online and out for ever, the pause before it
 * is tried again doubles each time it is dropped for its lag soon after it went
 * online.
 */
#include <inttypes.h>

#include "membership_private.h"

/* A node that fails again and again while it catches up, or is dropped again and
 * again for its lag, is tried more and more rarely: reconnect_interval doubles so
 * often, at most. */
#define MAX_DOUBLINGS 6

/* Online for so long, it was not too slow. */
#define FORGIVEN_US (UINT64_C(600) * 1000000)

int
slow_node_drops(const Node *n)
{
	return n->state == NODE_ONLINE && loop_now_us() - n->online_since > FORGIVEN_US ? 0 : n->slow_drops;
}

static int
doublings(const Node *n)
{
	int			for_lag = n->slow ? n->slow_drops : 0;
	int			wanted = n->failures > for_lag ? n->failures : for_lag;

	return wanted < MAX_DOUBLINGS ? wanted : MAX_DOUBLINGS;
}

int
node_pause_ms(const Node *n)
{
	return node_config->reconnect_interval << doublings(n);
}

bool
slow_node_may_stay(Node *n)
{
	if (node_config->slow_node != SLOW_NODE_DROP || !lag_is_too_far(n))
		return true;
	n->slow_drops = slow_node_drops(n) + 1;
	n->slow = true;
	node_out(n, n->slow_drops == 1 ? DROP_LAG : DROP_LAG_AGAIN,
			 FACTS(.transactions = n->applying.count,.megabytes = n->lag_bytes >> 20,.times = n->slow_drops,
				   .ms = node_pause_ms(n)));
	return false;
}

void
slow_node_forgive(Node *n)
{
	n->slow_drops = 0;
	n->slow = false;
}
