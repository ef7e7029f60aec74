/*
 * dispatch.c
 *	  Which transaction starts where and when: see dispatch.h.
 *
 * Why no circle of waits can close over connections: let T be the transaction
 * with the lowest ticket of all that are reserved.  On each of its nodes it is
 * the lowest reserved one of its lane, so only the holder of the last but one
 * connection can be in its way, which took it as the lowest then, so it is no
 * longer undecided (tickets only grow, and one that is queued again has just
 * given a connection back).  A decided one needs no other node, only its turn;
 * and the one whose turn is next always finds the last connection free, or taken
 * by one whose turn came before it.  Not the lowest decided one: a transaction of
 * the node itself may come late, when its backend can't commit it, and those
 * decided after it would hold all connections and wait for it.  A work that began
 * before it was reserved (early.c) has never got one of the last two.
 */
#include "dispatch.h"

#include <assert.h>
#include <stddef.h>

/* How far behind the first that can't start we look for one that can. */
#define LOOK_AHEAD 256

bool
rank_before(const Transaction *a, const Transaction *b)
{
	if ((a->seq != 0) != (b->seq != 0))
		return a->seq != 0;
	if (a->seq != 0)
		return a->seq < b->seq;
	return a->ticket != 0 && (b->ticket == 0 || a->ticket < b->ticket);
}

void
lane_enqueue(Lane *lane, Work *w)
{
	Work	   *after = lane->last;

	/* new ones come in rank order, nearly always */
	while (after != NULL && rank_before(w->tx, after->tx))
		after = after->prev;
	w->state = WORK_QUEUED;
	w->lane = lane;
	w->prev = after;
	w->next = after != NULL ? after->next : lane->first;
	*(w->prev != NULL ? &w->prev->next : &lane->first) = w;
	*(w->next != NULL ? &w->next->prev : &lane->last) = w;
}

void
lane_dequeue(Lane *lane, Work *w)
{
	assert(w->state == WORK_QUEUED && w->lane == lane);
	*(w->prev != NULL ? &w->prev->next : &lane->first) = w->next;
	*(w->next != NULL ? &w->next->prev : &lane->last) = w->prev;
	w->prev = w->next = NULL;
}

/* Apart from connections, may it start?  Sets wait_for. */
static bool
may_start(Work *w, uint64_t applied, uint64_t durable, uint64_t now_us)
{
	const Transaction *tx = w->tx;

	if (tx->nafter_tickets > 0 || w->not_before_us > now_us)
		return false;
	w->wait_for = tx->depends_on > applied ? tx->depends_on : 0;
	return w->wait_for <= durable;
}

/* How many connections must stay free for others. */
static int
kept_from(const Work *w, bool lower, uint64_t applied)
{
	if (w->tx->seq != 0 && tx_first_seq(w->tx) <= applied + 1)
		return 0;
	return lower ? 2 : 1;
}

Work *
lane_next(Lane *lane, uint64_t applied, uint64_t durable, uint64_t now_us)
{
	int			left = lane->capacity - lane->taken;
	bool		decided = false;	/* a lower one is queued */
	bool		reserved = false;
	int			looked = 0;

	for (Work *w = lane->first; w != NULL && left > 0 && looked < LOOK_AHEAD; w = w->next, looked++)
	{
		bool	   *lower = w->tx->seq != 0 ? &decided : &reserved;
		int			kept = kept_from(w, *lower, applied);

		*lower = true;
		if (left <= kept || !may_start(w, applied, durable, now_us))
			continue;
		lane_dequeue(lane, w);
		lane->taken++;
		w->state = WORK_RUNNING;
		w->started_us = now_us;
		return w;
	}
	return NULL;
}

void
lane_release(Lane *lane)
{
	assert(lane->taken > 0);
	lane->taken--;
}
