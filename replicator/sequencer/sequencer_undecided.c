/*
 * sequencer_undecided.c
 *	  Transactions that are not decided: the lists that they are in, and what their end
 *	  releases for others.
 *
 * A transaction is in one list at most, by its state: `lock_waiters` (QUEUED and
 * awaits_lock), `waiting` (WAITING), `reserved` (RESERVED, in ticket order).  Decided ones
 * are in `undurable` of sequencer_seqs.c.
 *
 * A released lock, a reservation that ended and a decision may let others go on: those are
 * looked at once, at the end of the loop's round (on_look_again() in sequencer.c).
 */
#include <stdlib.h>

#include "node.h"
#include "points.h"
#include "sequencer_private.h"

#define WAITER_BUCKETS 256

const PeerOps *to_peers;
const SessionOps *to_sessions;
Undecided	undecided;

static TxWaiters waiters_of[WAITER_BUCKETS];

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

/*
 * A reservation has ended: reserved transactions of the same origin may have waited for its
 * ticket.
 */
void
undecided_ticket_over(const Transaction *over)
{
	Transaction *next;

	if (undecided.reserved_with_tickets == 0)
		return;
	for (Transaction *tx = undecided.reserved.first; tx != NULL; tx = next)
	{
		size_t		n = 0;

		next = tx->next;
		for (size_t i = 0; i < tx->nafter_tickets; i++)
		{
			if (tx->after_tickets[i] != over->ticket)
				tx->after_tickets[n++] = tx->after_tickets[i];
		}
		if (n == tx->nafter_tickets)
			continue;
		tx->nafter_tickets = n;
		if (over->seq > tx->depends_on)
			tx->depends_on = over->seq;
		if (n == 0)
		{
			undecided.reserved_with_tickets--;
			undecided.decide_some |= tx->executing == 0;
		}
	}
	loop_defer(&undecided.look_again);
	nodes_look_again();
}

void
undecided_unreserve(Transaction *tx)
{
	list_remove(&undecided.reserved, tx);
	undecided.nreserved--;
	undecided.reserved_steps -= tx->index_step;
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

	if (from == TX_QUEUED && tx->awaits_lock)
		list_remove(&undecided.lock_waiters, tx);
	else if (from == TX_WAITING)
	{
		list_remove(&undecided.waiting, tx);
		undecided_stop_waiting(tx);
	}
	else if (from == TX_RESERVED)
	{
		undecided_unreserve(tx);
		if (tx->nafter_tickets > 0)
			undecided.reserved_with_tickets--;
		tx->nafter_tickets = 0;
	}
	tx->awaits_lock = false;
	tx_move(tx, TX_ROLLED_BACK);
	undecided_give_back_locks(tx);
	if (from == TX_RESERVED)
	{
		certifier_release(undecided.certifier, tx->ticket);
		undecided_ticket_over(tx);
	}
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
