/*
 * sequencer_waits.c
 *	  Which transactions wait here, and for which others: the sequencer's part of the
 *	  wait-for graph (waits.h).
 *
 *	 QUEUED, awaits_lock	holders of that lock, and earlier requests for it; reserved
 *							transactions that have its key
 *	 HELD					nobody: for at most some ms, until its node has caught up
 *	 WAITING				holders of, and requests for, a conflicting lock
 *	 RESERVED				earlier reserved transactions of its origin
 *	 alone					its session waits for it
 *
 * Waits on a node are waits_local.c's part.  Reserved transactions are found by binary search in
 * a list that is made for that.
 */
#include <stdlib.h>

#include "sequencer_private.h"
#include "waitgraph.h"

typedef struct Ticket
{
	uint64_t	ticket;
	Transaction *tx;
} Ticket;

typedef struct Tickets
{
	Ticket	   *items;
	size_t		n;
	size_t		cap;
} Tickets;

/* The reserved transactions; and the transaction whose waits are being added. */
typedef struct Telling
{
	WaitGraph  *g;
	Tickets		reserved;
	uint32_t	waiter;
	WaitKind	kind;
	uint64_t	since_us;
	const char *what;
} Telling;

uint32_t
sequencer_party(WaitGraph *g, Transaction *tx)
{
	uint32_t	i = waitgraph_party(g, (int) tx->origin, tx->pid, tx->xcount);
	WaitParty  *p = &g->parties[i];

	if (p->owner != NULL)
		return i;
	p->node_name = tx->node;
	p->seq = tx->seq;
	p->owner = tx;
	p->at_front = tx->has_waited;
	p->done = tx->nstatements + tx_bytes(tx) / 1024 + (tx->lock_ticket != 0 ? 1 : 0);
	p->since_us = tx->since_us;
	if (tx->state == TX_HELD || tx->state == TX_WAITING || tx->awaits_lock)
		p->loses = LOSES_HERE;
	else if (tx->state == TX_QUEUED)
		p->loses = LOSES_THERE;
	return i;
}

/* ---------- tickets */

static void
add_ticket(Tickets *t, uint64_t ticket, Transaction *tx)
{
	if (t->n == t->cap)
	{
		t->cap = t->cap > 0 ? t->cap * 2 : 64;
		t->items = xrealloc(t->items, t->cap * sizeof(Ticket));
	}
	t->items[t->n++] = (Ticket) {ticket, tx};
}

static int
compare(const void *a, const void *b)
{
	uint64_t	x = ((const Ticket *) a)->ticket;
	uint64_t	y = ((const Ticket *) b)->ticket;

	return x < y ? -1 : x > y;
}

static Transaction *
of_ticket(const Tickets *t, uint64_t ticket)
{
	Ticket		key = {ticket, NULL};
	const Ticket *found = t->n > 0 ? bsearch(&key, t->items, t->n, sizeof(Ticket), compare) : NULL;

	return found != NULL ? found->tx : NULL;
}

static void
collect_tickets(Telling *t)
{
	for (Transaction *tx = sequencer_reserved(NULL); tx != NULL; tx = sequencer_reserved(tx))
		add_ticket(&t->reserved, tx->ticket, tx);	/* in order already */
}

/* ---------- waits */

static void
begin(Telling *t, Transaction *tx, WaitKind kind)
{
	t->waiter = sequencer_party(t->g, tx);
	t->kind = kind;
	t->since_us = tx->since_us;
	t->what = kind == WAIT_LOCK ? tx->asked_for : NULL;
}

static void
add_wait(Telling *t, WaitKind kind, Transaction *blocker)
{
	if (blocker != NULL)
		waitgraph_add(t->g, kind, t->waiter, sequencer_party(t->g, blocker), -1, t->since_us, t->what);
}

static void
found_blocker(void *arg, uint64_t lock, uint64_t reserved)
{
	Telling    *t = arg;

	if (lock != 0)
		add_wait(t, t->kind, certifier_lock_owner(undecided.certifier, lock));
	else
		add_wait(t, WAIT_LOCK_RESERVED, of_ticket(&t->reserved, reserved));
}

static void
add_waiting(Telling *t, Transaction *tx)
{
	KeyList		list;

	begin(t, tx, WAIT_RESERVATION);
	if (tx->spill != NULL)
	{
		/* it has too many keys to look at all of them each time */
		found_blocker(t, tx->waits_for, 0);
		return;
	}
	list = keys_of(tx);
	certifier_reserve_blockers(undecided.certifier, tx->origin, list.keys, list.n, found_blocker, t);
}

static void
add_reserved(Telling *t, Transaction *tx)
{
	begin(t, tx, WAIT_TICKET);
	for (size_t i = 0; i < tx->nafter_tickets; i++)
		add_wait(t, WAIT_TICKET, of_ticket(&t->reserved, tx->after_tickets[i]));
}

/* Its session, in any transaction, waits for it. */
static void
add_single_query(Telling *t, Transaction *tx)
{
	Transaction *of = tx->alone != NULL && tx->origin != ORIGIN_NONE ?
	to_sessions->transaction((int) tx->origin, tx->pid) : NULL;
	uint32_t	waiter;

	if (tx->alone == NULL || tx->origin == ORIGIN_NONE)
		return;
	waiter = of != NULL ? sequencer_party(t->g, of) : waitgraph_party(t->g, (int) tx->origin, tx->pid, 0);
	t->g->parties[waiter].node_name = tx->node;
	waitgraph_add(t->g, WAIT_ALONE, waiter, sequencer_party(t->g, tx), -1, tx->since_us, NULL);
}

void
sequencer_add_waits(WaitGraph *g)
{
	Telling		t = {.g = g};

	collect_tickets(&t);
	for (Transaction *tx = undecided.lock_waiters.first; tx != NULL; tx = tx->next)
	{
		begin(&t, tx, WAIT_LOCK);
		certifier_lock_blockers(undecided.certifier, tx->lock_ticket, found_blocker, &t);
	}
	for (Transaction *tx = undecided.waiting.first; tx != NULL; tx = tx->next)
	{
		add_waiting(&t, tx);
		add_single_query(&t, tx);
	}
	for (Transaction *tx = sequencer_reserved(NULL); tx != NULL; tx = sequencer_reserved(tx))
	{
		add_reserved(&t, tx);
		add_single_query(&t, tx);
	}
	for (Transaction *tx = sequencer_undurable(NULL); tx != NULL; tx = sequencer_undurable(tx))
		waitgraph_add(g, WAIT_JOURNAL, sequencer_party(g, tx), WAIT_NOBODY, -1, tx->since_us, NULL);
	free(t.reserved.items);
}

static bool
any_since(const Transaction *tx, uint64_t before_us)
{
	while (tx != NULL && tx->since_us > before_us)
		tx = tx->next;
	return tx != NULL;
}

bool
sequencer_any_waits_since(uint64_t before_us)
{
	return any_since(undecided.lock_waiters.first, before_us) ||
		any_since(undecided.waiting.first, before_us) ||
		any_since(sequencer_reserved(NULL), before_us) ||
		any_since(sequencer_undurable(NULL), before_us);
}

typedef struct DdlHolders
{
	int			node;
	DdlHolder	found;
	void	   *arg;
} DdlHolders;

static void
found_ddl_holder(void *arg, uint64_t holder, uint64_t waiting)
{
	const DdlHolders *h = arg;
	Transaction *tx = certifier_lock_owner(undecided.certifier, holder);
	const Transaction *for_it = certifier_lock_owner(undecided.certifier, waiting);

	if (tx != NULL && for_it != NULL && (int) tx->origin == h->node && tx->state == TX_QUEUED && !tx->awaits_lock)
		h->found(h->arg, tx, for_it);
}

void
sequencer_ddl_holders(int node, DdlHolder found, void *arg)
{
	DdlHolders	h = {node, found, arg};

	certifier_ddl_holders(undecided.certifier, found_ddl_holder, &h);
}
