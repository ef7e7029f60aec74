/*
 * sequencer_late.c
 *	  Is a node late with what others have decided?
 */
#include "node.h"
#include "sequencer_private.h"

#define USUAL_US 1000

/* Usual are one round trip until its report is here, and up to another one until it can begin. */
uint64_t
late_us(const Node *n)
{
	uint64_t	us;

	if (n->state != NODE_ONLINE || n->applying.count == 0)
		return 0;
	us = loop_now_us() - tx_ring_first(&n->applying)->since_us;
	return us >= USUAL_US + 2 * n->round_trip_us ? us : 0;
}
