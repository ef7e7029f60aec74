/*
 * applied.c
 *	  What a node has applied, and which transactions wait for that.
 */
#include "peer.h"

void
node_heard_applied(int node, uint64_t seq)
{
	Node	   *n = node_get(node);
	Transaction *tx;

	/* what was never decided here is the next heartbeat's matter: history.c */
	if (seq <= n->applied || seq > sequencer_last_decided())
		return;
	n->applied = seq;
	sequencer_node_applied(node, seq);
	if (n->trouble != NULL)
		apply_trouble_passed(n, seq);
	while ((tx = tx_ring_pop(&n->applying, seq)) != NULL)
	{
		lag_remove(n, tx);
		tx->applying &= ~(UINT64_C(1) << node);
		if (tx->applying == 0)
			sequencer_applied(tx);
		tx_unref(tx);
	}
	node_pump(n);
}

void
peers_forget(Node *n)
{
	Transaction *tx;

	n->lag_bytes = 0;
	while ((tx = tx_ring_pop(&n->applying, UINT64_MAX)) != NULL)
	{
		tx->applying &= ~(UINT64_C(1) << n->index);
		if (tx->applying == 0)
			sequencer_applied(tx);
		tx_unref(tx);
	}
	while ((tx = tx_ring_pop(&n->doubtful, UINT64_MAX)) != NULL)
		tx_unref(tx);
}
