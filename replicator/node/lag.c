/*
 * lag.c
 *	  How far nodes that are online lag behind: what is decided and not applied by a
 *	  node is in memory, and counted here.
 *
 * Beyond max_apply_lag either nothing is decided any more that the node has not executed
 * (nodes_lagging()), or it is dropped (slow_node.c).
 */
#include "node.h"

#define MIN_LAG 1024			/* bytes that a transaction counts at least */
#define LARGE_LAG (256 * 1024)

/*
 * What a transaction that a node has not applied counts: the memory that it
 * takes.  One that is on disk takes descriptors.
 */
static uint64_t
lag_of(const Transaction *tx)
{
	uint64_t	bytes = tx->spill != NULL ? LARGE_LAG : tx_memory(tx);

	return bytes > MIN_LAG ? bytes : MIN_LAG;
}

bool
lag_is_too_far(const Node *n)
{
	return n->state == NODE_ONLINE && n->lag_bytes > (uint64_t) node_config->max_apply_lag;
}

void
lag_add(Node *n, const Transaction *tx)
{
	n->lag_bytes += lag_of(tx);
	if (lag_is_too_far(n))
		node_pump(n);			/* not here: others are being given it */
}

void
lag_remove(Node *n, const Transaction *tx)
{
	n->lag_bytes -= lag_of(tx);
}

bool
nodes_lagging(void)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		if (lag_is_too_far(node_get(i)))
			return true;
	}
	return false;
}
