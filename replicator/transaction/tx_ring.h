/*
 * tx_ring.h
 *	  A queue of transactions, in seq order.
 */
#ifndef LOCKSTEP_TX_RING_H
#define LOCKSTEP_TX_RING_H

#include "transaction.h"

typedef struct TxRing
{
	Transaction **items;		/* references */
	size_t		cap;			/* a power of two */
	size_t		head;
	size_t		count;
} TxRing;

/* Of one that is not empty. */
extern const Transaction *tx_ring_first(const TxRing *ring);
extern const Transaction *tx_ring_last(const TxRing *ring);

extern void tx_ring_push(TxRing *ring, Transaction *tx);	/* takes a reference */

/* The first, if its seq is not above up_to; else NULL.  The reference is the caller's. */
extern Transaction *tx_ring_pop(TxRing *ring, uint64_t up_to);

#endif
