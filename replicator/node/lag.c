/*
 * lag.c
 *	  How far nodes that are online lag behind, and what becomes of one that lags
 *	  too far.
 *
 * What is decided and not applied by a node is in memory.  Beyond max_apply_lag
 * either nothing is decided any more that it has not executed (nodes_lagging()),
 * or it is dropped and gets it from the journal.  It is as slow afterwards as
 * before, so it would be online for a moment, and dropped again, for ever: each
 * time it is dropped for its lag soon after it was online it is tried again
 * later, twice as long each time.
 */
#include <inttypes.h>

#include "node_private.h"

#define MIN_LAG 1024			/* bytes that a transaction counts at least */
#define LARGE_LAG (256 * 1024)

/* Online for so long, it was not too slow. */
#define FORGIVEN_US (UINT64_C(600) * 1000000)

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

static bool
too_far(const Node *n)
{
	return n->state == NODE_ONLINE && n->lag_bytes > (uint64_t) node_config->max_apply_lag;
}

void
lag_add(Node *n, const Transaction *tx)
{
	n->lag_bytes += lag_of(tx);
	if (too_far(n))
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
		if (too_far(node_get(i)))
			return true;
	}
	return false;
}

int
lag_drops(const Node *n)
{
	return n->state == NODE_ONLINE && loop_now_us() - n->online_since > FORGIVEN_US ? 0 : n->slow_drops;
}

bool
lag_may_go_on(Node *n)
{
	size_t		count = n->applying.count;
	uint64_t	megabytes = n->lag_bytes >> 20;
	double		pause;

	if (node_config->slow_node != SLOW_NODE_DROP || !too_far(n))
		return true;
	n->slow_drops = lag_drops(n) + 1;
	n->slow = true;
	pause = (double) node_pause_ms(n) / 1000;
	if (n->slow_drops == 1)
		node_out(n, "lags %zu transactions (%" PRIu64 " MB) behind, more than max_apply_lag; it is tried again after %.1f s",
				 count, megabytes, pause);
	else
		node_out(n, "lags %zu transactions (%" PRIu64 " MB) behind, more than max_apply_lag, %d times without ten minutes "
				 "of being online between; it is tried again after %.1f s", count, megabytes, n->slow_drops, pause);
	return false;
}

int
lag_doublings(const Node *n)
{
	return n->slow ? n->slow_drops : 0;
}

void
lag_forget(Node *n)
{
	n->slow_drops = 0;
	n->slow = false;
}
