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
 * before it was reserved (early_apply.c) has never got one of the last two.
 *
 * A work that is left queued because its role and table have their share is still counted as
 * the lower one, so no higher ticket takes the last but one while T is queued; and T itself
 * has no share to keep.
 */
#include "dispatch.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

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

/* Apart from connections, may it start? */
static bool
may_start(const Work *w, const LaneMoment *at)
{
	const Transaction *tx = w->tx;

	if (tx->nafter_tickets > 0 || w->not_before_us > at->now_us)
		return false;
	return tx->depends_on <= at->applied || tx->depends_on <= at->durable;
}

/* ---------- connections */

int
lane_held(const Lane *lane, const char *role)
{
	int			held = 0;

	for (int i = 0; i < lane->nholders; i++)
		held += lane->holders[i].role == role;
	return held;
}

static int
held_for_table(const Lane *lane, uint64_t table)
{
	int			held = 0;

	for (int i = 0; i < lane->nholders; i++)
		held += lane->holders[i].table == table;
	return held;
}

Holder
lane_take(Lane *lane, const Transaction *tx)
{
	Holder		holder = {tx->role, tx->table};

	lane->taken++;
	if (tx->role == NULL)
		return holder;
	if (lane->nholders == lane->holders_cap)
	{
		lane->holders_cap = lane->holders_cap * 2 + 8;
		lane->holders = xrealloc(lane->holders, (size_t) lane->holders_cap * sizeof(Holder));
	}
	lane->holders[lane->nholders++] = holder;
	return holder;
}

void
lane_release(Lane *lane, Holder holder)
{
	int			i = 0;

	assert(lane->taken > 0);
	lane->taken--;
	if (holder.role == NULL)
		return;
	while (i < lane->nholders && (lane->holders[i].role != holder.role || lane->holders[i].table != holder.table))
		i++;
	assert(i < lane->nholders);
	lane->holders[i] = lane->holders[--lane->nholders];
}

void
lane_free(Lane *lane)
{
	free(lane->holders);
	lane->holders = NULL;
}

static bool
has_turn_next(const Work *w, uint64_t applied)
{
	return w->tx->seq != 0 && tx_first_seq(w->tx) <= applied + 1;
}

static bool
has_lowest_ticket(const Work *w, const LaneMoment *at)
{
	return w->tx->seq == 0 && w->tx->ticket == at->lowest_ticket;
}

/* How many of the connections that are reserved it must leave. */
static int
reserved_from(const Lane *lane, const Work *w)
{
	int			for_roles = lane->reserved / 2;
	int			for_tables = lane->reserved - for_roles;

	if (w->tx->role == NULL || lane_held(lane, w->tx->role) < for_roles)
		return 0;
	if (w->tx->table != 0 && held_for_table(lane, w->tx->table) < for_tables)
		return for_roles;
	return lane->reserved;
}

/* Would it leave enough of so many free connections for others? */
static bool
leaves_enough(const Lane *lane, const Work *w, bool lower, int left, const LaneMoment *at)
{
	int			reserved;

	if (has_turn_next(w, at->applied))
		return true;
	if (left <= (lower ? 2 : 1))
		return false;
	if (left > 2 + lane->reserved || has_lowest_ticket(w, at))
		return true;
	reserved = reserved_from(lane, w);
	return reserved == 0 || left > 2 + reserved;
}

Work *
lane_next(Lane *lane, const LaneMoment *at)
{
	int			left = lane->capacity - lane->taken;
	bool		decided = false;	/* a lower one is queued */
	bool		reserved = false;
	int			looked = 0;

	for (Work *w = lane->first; w != NULL && left > 0 && looked < LOOK_AHEAD; w = w->next, looked++)
	{
		bool	   *lower = w->tx->seq != 0 ? &decided : &reserved;
		bool		enough = leaves_enough(lane, w, *lower, left, at);

		*lower = true;
		if (!enough || !may_start(w, at))
			continue;
		lane_dequeue(lane, w);
		w->holder = lane_take(lane, w->tx);
		w->wait_for = w->tx->depends_on > at->applied ? w->tx->depends_on : 0;
		w->state = WORK_RUNNING;
		w->started_us = at->now_us;
		return w;
	}
	return NULL;
}

const Work *
lane_waiting(const Lane *lane, const LaneMoment *at, int *n)
{
	const Work *first = NULL;
	int			looked = 0;

	*n = 0;
	for (const Work *w = lane->first; w != NULL && looked < LOOK_AHEAD; w = w->next, looked++)
	{
		if (!may_start(w, at))
			continue;
		first = first != NULL ? first : w;
		++*n;
	}
	return first;
}
