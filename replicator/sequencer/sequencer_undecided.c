/*
 * sequencer_undecided.c
 *	  Transactions that are not decided: the lists that they are in, and what their end
 *	  releases for others.
 *
 * A transaction is in one list at most, by its state: `lock_waiters` (QUEUED and
 * awaits_lock), `held` of its origin (HELD), `waiting` (WAITING), `reserved` (RESERVED, in ticket order).  Decided ones
 * are in `undurable` of sequencer_seqs.c.
 *
 * A released lock, a reservation that ended and a decision may let others go on: those are
 * looked at once, at the end of the loop's round (on_look_again() in sequencer.c).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "points.h"
#include "sequencer_private.h"

#define WAITER_BUCKETS 256
#define TICKET_BUCKETS 1024

/* That a reserved transaction has to wait for a ticket. */
typedef struct Awaited
{
	uint64_t	ticket;			/* 0: it is over */
	Transaction *tx;
	struct Awaited *prev;		/* same bucket */
	struct Awaited *next;
} Awaited;

const PeerOps *to_peers;
const SessionOps *to_sessions;
Undecided	undecided;

static TxWaiters waiters_of[WAITER_BUCKETS];

static struct
{
	Awaited    *first;
	Awaited    *last;
}			awaited_of[TICKET_BUCKETS];

static Transaction *reserved_by_ticket[TICKET_BUCKETS];

Transaction *
sequencer_reserved(Transaction *previous)
{
	return previous == NULL ? undecided.reserved.first : previous->next;
}

/* ---------- those that wait at their reservation, by the lock that they wait for */

void
undecided_stop_waiting(Transaction *tx)
{
	TxWaiters  *list = tx->waits_in;

	if (list == NULL)
		return;
	*(tx->prev_waits != NULL ? &tx->prev_waits->next_waits : &list->first) = tx->next_waits;
	*(tx->next_waits != NULL ? &tx->next_waits->prev_waits : &list->last) = tx->prev_waits;
	tx->prev_waits = tx->next_waits = NULL;
	tx->waits_in = NULL;
}

static void
wait_in(TxWaiters *list, Transaction *tx)
{
	undecided_stop_waiting(tx);
	tx->waits_in = list;
	tx->prev_waits = list->last;
	*(list->last != NULL ? &list->last->next_waits : &list->first) = tx;
	list->last = tx;
}

bool
undecided_leave(Transaction *tx)
{
	if (tx->state == TX_HELD)
	{
		list_remove(&undecided.held[tx->origin], tx);
		undecided.nheld--;
	}
	else if (tx->state == TX_WAITING)
	{
		list_remove(&undecided.waiting, tx);
		undecided_stop_waiting(tx);
	}
	else
		return false;
	return true;
}

void
undecided_note_wait(Transaction *tx, uint64_t for_ticket)
{
	if (tx->waits_for == for_ticket)
		return;
	tx->waits_for = for_ticket;
	tx->waits_since_us = loop_now_us();
}

void
undecided_wait_for(Transaction *tx, uint64_t lock_ticket)
{
	wait_in(&waiters_of[lock_ticket % WAITER_BUCKETS], tx);
}

void
undecided_retry_later(Transaction *tx)
{
	wait_in(&undecided.retries, tx);
	loop_defer(&undecided.look_again);
}

void
undecided_decide_later(Transaction *tx)
{
	wait_in(&undecided.decisions, tx);
	loop_defer(&undecided.look_again);
}

/* The lock was released, wholly or in part; or it waits for more than before. */
void
undecided_lock_changed(uint64_t ticket)
{
	TxWaiters  *list = &waiters_of[ticket % WAITER_BUCKETS];
	Transaction *next;

	for (Transaction *tx = list->first; tx != NULL; tx = next)
	{
		next = tx->next_waits;
		if (tx->waits_for == ticket)
			undecided_retry_later(tx);
	}
}

/* ---------- the end of a transaction that has no seq */

void
undecided_give_back_locks(Transaction *tx)
{
	uint64_t	ticket = tx->lock_ticket;

	tx->lock_ticket = 0;
	if (ticket == 0)
		return;
	certifier_unlock(undecided.certifier, ticket);
	undecided_lock_changed(ticket);
}

/* ---------- tickets that others wait for */

void
undecided_await_tickets(Transaction *tx, const uint64_t *tickets, size_t n)
{
	tx->after_tickets = xmalloc(n * sizeof(uint64_t));
	memcpy(tx->after_tickets, tickets, n * sizeof(uint64_t));
	tx->nafter_tickets = n;
	tx->awaited = xmalloc(n * sizeof(Awaited));
	for (size_t i = 0; i < n; i++)
	{
		Awaited    *a = &tx->awaited[i];
		Awaited   **last = &awaited_of[tickets[i] % TICKET_BUCKETS].last;

		*a = (Awaited) {tickets[i], tx, *last, NULL};
		*(*last != NULL ? &(*last)->next : &awaited_of[tickets[i] % TICKET_BUCKETS].first) = a;
		*last = a;
	}
	tx->nawaited = n;
}

static void
awaited_is_over(Awaited *a)
{
	size_t		bucket = a->ticket % TICKET_BUCKETS;

	*(a->prev != NULL ? &a->prev->next : &awaited_of[bucket].first) = a->next;
	*(a->next != NULL ? &a->next->prev : &awaited_of[bucket].last) = a->prev;
	a->ticket = 0;
}

/* One of those that a reserved transaction waits for has ended. */
static void
ticket_over_for(Transaction *tx, const Transaction *over)
{
	size_t		low = 0;
	size_t		high = tx->nafter_tickets;

	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;

		if (tx->after_tickets[middle] < over->ticket)
			low = middle + 1;
		else
			high = middle;
	}
	assert(low < tx->nafter_tickets && tx->after_tickets[low] == over->ticket);
	tx->nafter_tickets--;
	memmove(&tx->after_tickets[low], &tx->after_tickets[low + 1], (tx->nafter_tickets - low) * sizeof(uint64_t));
	if (over->seq > tx->depends_on)
		tx->depends_on = over->seq;
	if (tx->nafter_tickets == 0 && tx->executing == 0)
		undecided_decide_later(tx);
}

/*
 * A reservation has ended: reserved transactions of the same origin may have waited for its
 * ticket.
 */
void
undecided_ticket_over(const Transaction *over)
{
	bool		any = false;
	Awaited    *next;

	for (Awaited *a = awaited_of[over->ticket % TICKET_BUCKETS].first; a != NULL; a = next)
	{
		next = a->next;
		if (a->ticket != over->ticket)
			continue;
		awaited_is_over(a);
		ticket_over_for(a->tx, over);
		any = true;
	}
	if (any)
		nodes_look_again();
}

void
undecided_add_reserved(Transaction *tx)
{
	Transaction **bucket = &reserved_by_ticket[tx->ticket % TICKET_BUCKETS];

	list_add(&undecided.reserved, tx);
	undecided.nreserved++;
	tx->next_reserved = *bucket;
	*bucket = tx;
}

Transaction *
undecided_find_reserved(uint64_t ticket)
{
	Transaction *tx = reserved_by_ticket[ticket % TICKET_BUCKETS];

	while (tx != NULL && tx->ticket != ticket)
		tx = tx->next_reserved;
	return tx;
}

void
undecided_unreserve(Transaction *tx)
{
	Transaction **link = &reserved_by_ticket[tx->ticket % TICKET_BUCKETS];

	while (*link != tx)
		link = &(*link)->next_reserved;
	*link = tx->next_reserved;
	list_remove(&undecided.reserved, tx);
	undecided_stop_waiting(tx);
	undecided.nreserved--;
	undecided.reserved_steps -= tx->index_step;
	for (size_t i = 0; i < tx->nawaited; i++)
	{
		if (tx->awaited[i].ticket != 0)
			awaited_is_over(&tx->awaited[i]);
	}
	tx->nafter_tickets = tx->nawaited = 0;
}

void
notify_requester(Transaction *tx, const LsErrorFields *error)
{
	struct SingleQuery *alone = tx->alone;

	if (alone == NULL)
		return;
	tx->alone = NULL;
	alone->done(alone->arg, error == NULL ? tx->seq : 0, error);
	free(alone);
}

void
roll_back(Transaction *tx, LsVerdict *verdict)
{
	TxState		from = tx->state;
	const bool	lowest = tx == undecided.reserved.first;

	if (from == TX_QUEUED && tx->awaits_lock)
		list_remove(&undecided.lock_waiters, tx);
	else if (from == TX_RESERVED)
		undecided_unreserve(tx);
	else
		(void) undecided_leave(tx);
	tx->awaits_lock = false;
	tx_move(tx, TX_ROLLED_BACK);
	undecided_give_back_locks(tx);
	if (from == TX_RESERVED)
	{
		certifier_release(undecided.certifier, tx->ticket);
		undecided_ticket_over(tx);
	}
	if (lowest)
		nodes_look_again();		/* the next one may take a connection that was
								 * kept for this */
	to_peers->roll_back(tx);	/* it may have begun on nodes before it was
								 * reserved */
	if (from != TX_QUEUED)
		LOCKSTEP_POINT(ROLLED_BACK);
	if (verdict != NULL)
	{
		verdict->xcount = tx->xcount;
		tx_ref(tx);				/* its session may have had the last reference */
		to_sessions->verdict(tx, verdict);
		notify_requester(tx, &verdict->error);
		tx_unref(tx);
	}
	if (from != TX_QUEUED)
		tx_unref(tx);
	loop_defer(&undecided.look_again);
}
