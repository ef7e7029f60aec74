/*
 * tx_ring.c
 *	  A queue of transactions, in seq order: a ring that doubles when it is full.
 */
#include "tx_ring.h"

#include <stdlib.h>

const Transaction *
tx_ring_first(const TxRing *ring)
{
	return ring->items[ring->head];
}

const Transaction *
tx_ring_last(const TxRing *ring)
{
	return ring->items[(ring->head + ring->count - 1) & (ring->cap - 1)];
}

void
tx_ring_push(TxRing *ring, Transaction *tx)
{
	if (ring->count == ring->cap)
	{
		size_t		cap = ring->cap > 0 ? ring->cap * 2 : 256;
		Transaction **bigger = xmalloc(cap * sizeof(Transaction *));

		for (size_t i = 0; i < ring->count; i++)
			bigger[i] = ring->items[(ring->head + i) & (ring->cap - 1)];
		free(ring->items);
		ring->items = bigger;
		ring->cap = cap;
		ring->head = 0;
	}
	ring->items[(ring->head + ring->count++) & (ring->cap - 1)] = tx_ref(tx);
}

Transaction *
tx_ring_pop(TxRing *ring, uint64_t up_to)
{
	Transaction *tx = ring->count > 0 ? ring->items[ring->head] : NULL;

	if (tx == NULL || tx->seq > up_to)
		return NULL;
	ring->head = (ring->head + 1) & (ring->cap - 1);
	ring->count--;
	return tx;
}
