/*
 * sequencer.c
 *	  The only place that orders: which transaction may go on - be reserved, be
 *	  executed, be decided - and which has to wait?
 *
 *	session			sequencer							nodes			journal
 *	  ask ------------> keys meet others'? -- yes: 40001
 *					  ticket, RESERVED ---------------> execute
 *					  <-------------------------------- executed
 *					  seq, DECIDED ---------------------------------> record
 *					  <--------------------------------------------- durable
 *	  <---- verdict -- DURABLE -----------------------> commit
 *	  <---- applied -- DONE <-------------------------- applied
 *
 * commit_wait = ordered leaves out the round of executing, for transactions of
 * which a failure on a peer is not to be expected (no DDL, no whole tables, not
 * large, no transaction of the same origin to wait for).
 *
 * Lists: a transaction is in at most one, by its state: `lock_waiters` (QUEUED
 * and awaits_lock), `waiting` (WAITING), `reserved` (RESERVED, in ticket order),
 * `undurable` of sequencer_order.c (DECIDED, in seq order).  The sequencer has a
 * reference from WAITING or RESERVED to the end.
 *
 * A lock given back, a reservation gone and a decision may let others on: they
 * are looked at once, at the end of the loop's round.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "journal_writer.h"
#include "loop.h"
#include "node.h"
#include "points.h"
#include "sequencer_private.h"
#include "spill.h"

#define WAITER_BUCKETS 256
#define LARGE_STATEMENTS 1000	/* not `ordered` beyond */
#define FIRST_KEYS 16
#define FORGET_MS 1000
#define KEPT_SEQS 20000			/* of history below what all have applied: S
								 * of keys that have not arrived yet */
#define MAX_REMEMBERED_KEYS 2000000 /* about 500 MB */

struct SingleQuery
{
	SingleQueryDone done;
	void	   *arg;
};

static const Config *config;
const PeerOps *to_peers;
const SessionOps *to_sessions;

static Certifier *certifier;
static uint64_t last_ticket;
static TxList lock_waiters;
static TxList waiting;
static TxList reserved;
static uint64_t reserved_with_tickets;	/* of reserved: that wait for another
										 * ticket */
static uint64_t reserved_steps; /* of reserved: index_step */
static Deferred look_again;
static bool decide_some;		/* reserved ones may be decided that might not
								 * when they had been executed */
static SequencerStats stats;

/* ---------- lists */

Transaction *
sequencer_reserved(Transaction *previous)
{
	return previous == NULL ? reserved.first : previous->next;
}

const TxList *
sequencer_lock_waiters(void)
{
	return &lock_waiters;
}

const TxList *
sequencer_waiting(void)
{
	return &waiting;
}

Certifier *
sequencer_certifier(void)
{
	return certifier;
}

Transaction *
sequencer_find(int node, uint32_t pid)
{
	return to_sessions->transaction(node, pid);
}

uint64_t
sequencer_last_ddl(void)
{
	return certifier_last_ddl(certifier);
}

/* ---------- at their reservation, by the lock that they wait for */

typedef struct TxWaiters
{
	Transaction *first;
	Transaction *last;
} TxWaiters;

static TxWaiters waiters_of[WAITER_BUCKETS];
static TxWaiters retries;		/* are to be reserved, if they may */

static void
stop_waiting_in(Transaction *tx)
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
	stop_waiting_in(tx);
	tx->waits_in = list;
	tx->prev_waits = list->last;
	*(list->last != NULL ? &list->last->next_waits : &list->first) = tx;
	list->last = tx;
}

static void
retry_later(Transaction *tx)
{
	wait_in(&retries, tx);
	loop_defer(&look_again);
}

/* The lock has gone, or a part of it; or it waits for more than before. */
static void
lock_has_changed(uint64_t ticket)
{
	TxWaiters  *list = &waiters_of[ticket % WAITER_BUCKETS];
	Transaction *next;

	for (Transaction *tx = list->first; tx != NULL; tx = next)
	{
		next = tx->next_waits;
		if (tx->waits_for == ticket)
			retry_later(tx);
	}
}

/* ---------- the end of a transaction that has no seq */

static void
give_back_locks(Transaction *tx)
{
	uint64_t	ticket = tx->lock_ticket;

	tx->lock_ticket = 0;
	if (ticket == 0)
		return;
	certifier_unlock(certifier, ticket);
	lock_has_changed(ticket);
}

/* A reservation is over: those of the same origin that wait for its ticket. */
static void
ticket_is_over(const Transaction *over)
{
	Transaction *next;

	if (reserved_with_tickets == 0)
		return;
	for (Transaction *tx = reserved.first; tx != NULL; tx = next)
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
			reserved_with_tickets--;
			decide_some |= tx->executing == 0;
		}
	}
	loop_defer(&look_again);
	nodes_look_again();
}

static void
no_longer_reserved(Transaction *tx)
{
	list_remove(&reserved, tx);
	stats.reserved_now--;
	reserved_steps -= tx->index_step;
}

void
roll_back(Transaction *tx, LsVerdict *verdict)
{
	TxState		from = tx->state;

	if (from == TX_QUEUED && tx->awaits_lock)
		list_remove(&lock_waiters, tx);
	else if (from == TX_WAITING)
	{
		list_remove(&waiting, tx);
		stop_waiting_in(tx);
	}
	else if (from == TX_RESERVED)
	{
		no_longer_reserved(tx);
		if (tx->nafter_tickets > 0)
			reserved_with_tickets--;
		tx->nafter_tickets = 0;
	}
	tx->awaits_lock = false;
	tx_move(tx, TX_ROLLED_BACK);
	give_back_locks(tx);
	if (from == TX_RESERVED)
	{
		certifier_release(certifier, tx->ticket);
		ticket_is_over(tx);
	}
	to_peers->roll_back(tx);	/* it may have begun early */
	if (from != TX_QUEUED)
		LOCKSTEP_POINT(ROLLED_BACK);
	if (verdict != NULL)
	{
		verdict->xcount = tx->xcount;
		tx_ref(tx);				/* its session's may have been the last */
		to_sessions->verdict(tx, verdict);
		notify_requester(tx, &verdict->error);
		tx_unref(tx);
	}
	if (from != TX_QUEUED)
		tx_unref(tx);
	loop_defer(&look_again);
}

/* ---------- deciding */

/* Nothing is missing but its number: it has been executed, by all who have to. */
static bool
may_be_decided(const Transaction *tx)
{
	return tx->state == TX_RESERVED && tx->nafter_tickets == 0 &&
		(tx->spill == NULL || tx->spill->durable);
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

/* From here on it exists, if the record reaches the journal. */
static void
decide(Transaction *tx)
{
	assert(may_be_decided(tx));
	no_longer_reserved(tx);
	order_next(tx);
	certifier_decide(certifier, tx->ticket, tx->seq);
	if (tx->origin != ORIGIN_NONE)
		winners_remember(tx->seq, tx->origin, tx->pid);
	give_back_locks(tx);
	ticket_is_over(tx);
	if (lock_waiters.first != NULL)
		loop_defer(&look_again);
	order_journal(tx);
}

void
sequencer_executed(Transaction *tx)
{
	assert(tx->state == TX_RESERVED);
	LOCKSTEP_POINT(EXECUTED);
	if (may_be_decided(tx))		/* else when what is missing has come */
		decide(tx);
}

/* ---------- reserving */

static Transaction *
find_reserved(uint64_t ticket)
{
	Transaction *tx = reserved.first;

	while (tx != NULL && tx->ticket != ticket)
		tx = tx->next;
	return tx;
}

static void
note_wait(Transaction *tx, uint64_t for_ticket)
{
	if (tx->waits_for == for_ticket)
		return;
	tx->waits_for = for_ticket;
	tx->waits_since_us = loop_now_us();
}

static void
wait_for_lock(Transaction *tx, uint64_t lock_ticket)
{
	if (tx->state == TX_QUEUED)
	{
		tx_move(tx_ref(tx), TX_WAITING);
		list_add(&waiting, tx);
	}
	note_wait(tx, lock_ticket);
	wait_in(&waiters_of[lock_ticket % WAITER_BUCKETS], tx);
	while (tx->lock_ticket != 0 &&
		   certifier_lock_blocked(certifier, tx->lock_ticket, lock_ticket) == LOCK_DEADLOCK)
		if (refuse_deadlock(tx, certifier))
			return;
}

/* May it be decided before the peers have executed it? */
static bool
may_be_ordered(const Transaction *tx, const KeyList *list)
{
	return tx->wait == LS_WAIT_ORDERED && !tx_has_ddl(tx) && !list->whole_table &&
		tx->spill == NULL && !nodes_lagging() && tx->nafter_tickets == 0 && tx->nstatements <= LARGE_STATEMENTS;
}

/* Of the first table among the first keys; all have the database's. */
static uint64_t
first_table(const KeyList *list)
{
	for (size_t i = 0; i < list->n && i < FIRST_KEYS; i++)
	{
		const LsKey *k = &list->keys[i];

		if (ls_mode_is_table(k->mode) && !(k->name.len > 9 && memcmp(k->name.data, "database ", 9) == 0))
			return k->hash;
	}
	return 0;
}

static void
reserved_now(Transaction *tx, const KeyList *list, const Certificate *c)
{
	if (tx->state == TX_WAITING)
	{
		list_remove(&waiting, tx);
		stop_waiting_in(tx);
	}
	else
		tx_ref(tx);
	if (tx->lock_ticket != 0)
		(void) certifier_lock_blocked(certifier, tx->lock_ticket, 0);
	tx->ticket = ++last_ticket;
	tx->table = first_table(list);
	tx->depends_on = c->depends_on;
	if (c->ntickets > 0)
	{
		tx->after_tickets = xmalloc(c->ntickets * sizeof(uint64_t));
		memcpy(tx->after_tickets, c->tickets, c->ntickets * sizeof(uint64_t));
		tx->nafter_tickets = c->ntickets;
		reserved_with_tickets++;
	}
	tx_move(tx, TX_RESERVED);
	list_add(&reserved, tx);
	stats.reserved_now++;
	tx->index_step = list->index_step;
	reserved_steps += tx->index_step;
	if (tx->spill != NULL)
		tx_forget_keys(tx);		/* the certifier has them */
	LOCKSTEP_POINT(RESERVED);
	if (may_be_ordered(tx, list))
		decide(tx);
	else
		to_peers->execute(tx);
}

static void
reserve(Transaction *tx)
{
	KeyList		list = keys_of(tx);
	Certificate c;

	switch (certifier_reserve(certifier, tx->origin, last_ticket + 1, tx_has_ddl(tx), list.keys, list.n, &c))
	{
		case CERTIFY_RESERVED:
			reserved_now(tx, &list, &c);
			break;
		case CERTIFY_CONFLICT:
			refuse_conflict(tx, &list, &c,
							c.kind == CONFLICT_RESERVED ? find_reserved(c.winner_ticket) : NULL);
			break;
		case CERTIFY_WAIT:
			wait_for_lock(tx, c.lock_ticket);
			break;
	}
}

/* ---------- asked */

/* All of it is on disk, or will never be. */
static void
on_stored(Transaction *tx)
{
	if (!sequencer_is_question(tx))
		return;					/* rolled back meanwhile */
	if (refused_for_failure(tx))
		return;
	decide_some = true;
	loop_defer(&look_again);
}

void
sequencer_ask(Transaction *tx)
{
	assert(tx->state == TX_QUEUED);
	LOCKSTEP_POINT(QUESTION);
	if (tx->awaits_lock)
	{
		/* its backend has given up waiting; what it has is kept to the end */
		list_remove(&lock_waiters, tx);
		tx->awaits_lock = false;
		certifier_lock_give_up(certifier, tx->lock_ticket);
		lock_has_changed(tx->lock_ticket);
		loop_defer(&look_again);
	}
	if (writer_failing() != NULL)
	{
		refuse(tx, "53100", "the replicator's journal can't be written", writer_failing(),
			   "Make room in journal_directory of the replicator; it tries again every second.");
		return;
	}
	if (tx->spill != NULL)
	{
		if (refused_for_failure(tx))
			return;
		tx_seal(tx, config, on_stored);
		if (refused_for_failure(tx))
			return;
	}
	reserve(tx);
}

void
sequencer_single_query(const LsIdentity *id, LsSlice database, uint32_t origin,
					   const uint8_t *queries, size_t len, SingleQueryDone done, void *arg)
{
	Transaction *tx = tx_create(id, database, origin);
	size_t		at = 0;

	tx->oldest_seen = UINT64_MAX;
	tx->alone = xmalloc(sizeof(struct SingleQuery));
	tx->alone->done = done;
	tx->alone->arg = arg;
	while (at < len)
	{
		LsMsgType	type;
		LsSlice		payload;

		/* the caller has looked at them */
		if (ls_frame(queries + at, len - at, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK)
			break;
		tx_keep_effect(tx, queries + at, LS_HEADER_SIZE + payload.len);
		tx_append(tx, queries + at, LS_HEADER_SIZE + payload.len, false);
		at += LS_HEADER_SIZE + payload.len;
	}
	sequencer_ask(tx);
	tx_unref(tx);
}

/* ---------- locks asked first */

/*
 * A step of CREATE or DROP INDEX CONCURRENTLY may be executed for hours, and is
 * there for nobody to wait for: but other DDL on the table does, and behind that
 * its writers and the other nodes' DDL on any table.  So the step yields, as the
 * command does between two of them.  It is undecided: it is rolled back everywhere,
 * and the index stays what it was after the step before, not valid.
 */
static void
steps_yield(const Transaction *waiting)
{
	Transaction *next;

	for (Transaction *tx = reserved_steps > 0 ? reserved.first : NULL; tx != NULL; tx = next)
	{
		next = tx->next;
		if (tx->index_step && certifier_lock_waits_for(certifier, waiting->lock_ticket, tx->ticket))
			refuse_step(tx, waiting);
	}
}

/* When a lock that had been waited for was granted last. */
static uint64_t granted_us;

uint64_t
sequencer_granted_us(void)
{
	return granted_us;
}

static void
begin_to_wait(Transaction *tx)
{
	if (!tx->awaits_lock)
		list_add(&lock_waiters, tx);
	tx->awaits_lock = true;
	tx->since_us = tx->waits_since_us = loop_now_us();
	tx->waits_for = certifier_lock_first_blocker(certifier, tx->lock_ticket);
	steps_yield(tx);
}

static void
granted(Transaction *tx, uint64_t seq)
{
	if (tx->awaits_lock)
	{
		list_remove(&lock_waiters, tx);
		granted_us = loop_now_us();
		tx->has_waited = true;
		tx->since_us = loop_now_us();
	}
	tx->awaits_lock = false;
	to_sessions->granted(tx, seq);
}

void
sequencer_lock(Transaction *tx, const LsLock *lock)
{
	LsKey	   *keys = xmalloc((lock->nkeys + 1) * sizeof(LsKey));
	LsSlice		rest = lock->keys;
	size_t		n = 0;
	uint64_t	seq = 0;
	LockResult	result;
	bool		refused = false;

	assert(tx->state == TX_QUEUED);
	while (ls_next_key(&rest, &keys[n]))
		n++;
	if (tx->lock_ticket == 0)
		tx->lock_ticket = ++last_ticket;
	if (n > 0)
	{
		free(tx->asked_for);
		tx->asked_for = text_printable(keys[0].name.data, keys[0].name.len);
	}
	tx->since_us = loop_now_us();
	lock_has_changed(tx->lock_ticket);
	do
		result = certifier_lock(certifier, tx->origin, tx->lock_ticket, keys, n, lock->ddl, &seq);
	while (result == LOCK_DEADLOCK && !(refused = refuse_deadlock(tx, certifier)));
	free(keys);
	if (refused)
		return;
	certifier_lock_set_owner(certifier, tx->lock_ticket, tx);
	if (result == LOCK_GRANTED)
		granted(tx, seq);
	else
		begin_to_wait(tx);
}

void
sequencer_unlock(Transaction *tx, uint64_t keep)
{
	assert(tx->state == TX_QUEUED);
	if (tx->lock_ticket == 0)
		return;
	if (tx->awaits_lock)
		list_remove(&lock_waiters, tx);
	tx->awaits_lock = false;
	certifier_unlock_after(certifier, tx->lock_ticket, keep);
	lock_has_changed(tx->lock_ticket);
	loop_defer(&look_again);
}

static void
grant_locks(void)
{
	uint64_t	ticket;
	uint64_t	seq;

	while (certifier_next_grant(certifier, &ticket, &seq))
	{
		Transaction *tx = certifier_lock_owner(certifier, ticket);

		if (tx->awaits_lock)
			granted(tx, seq);
	}
}

/*
 * Something has gone that others may have waited for: only those are looked at, as
 * their number may be large and they look again often.
 */
static void
on_look_again(void *arg)
{
	Transaction *next;

	grant_locks();
	while (retries.first != NULL)
	{
		Transaction *tx = retries.first;

		stop_waiting_in(tx);
		reserve(tx);
	}
	for (Transaction *tx = reserved_steps > 0 ? lock_waiters.first : NULL; tx != NULL; tx = tx->next)
		steps_yield(tx);

	/* those that were executed (by nobody, without peers) before they might */
	if (!decide_some)
		return;
	decide_some = false;
	for (Transaction *tx = reserved.first; tx != NULL; tx = next)
	{
		next = tx->next;
		if (tx->executing == 0 && may_be_decided(tx))
			decide(tx);
	}
}

/* ---------- stuck */

bool
sequencer_is_stalled(int patience_ms)
{
	uint64_t	now = loop_now_us();
	uint64_t	patience_us = (uint64_t) patience_ms * 1000;
	bool		stuck = reserved.first != NULL && now - reserved.first->since_us >= patience_us;
	static unsigned looks;

	for (Transaction *tx = lock_waiters.first; tx != NULL; tx = tx->next)
	{
		note_wait(tx, certifier_lock_first_blocker(certifier, tx->lock_ticket));
		stuck |= now - tx->waits_since_us >= patience_us;
	}

	/*
	 * What was in its way may have got behind it, without having changed. Not
	 * if it has been granted; and a large one takes long to look at.
	 */
	looks++;
	for (Transaction *tx = waiting.first; tx != NULL; tx = tx->next)
	{
		if (now - tx->waits_since_us < patience_us)
			continue;
		stuck = true;
		if ((tx->spill == NULL || looks % 16 == 0) && certifier_lock_first_blocker(certifier, tx->waits_for) != 0)
			retry_later(tx);
	}
	return stuck;
}

/* ---------- taking back */

void
sequencer_gone(Transaction *tx)
{
	if (tx->state == TX_QUEUED || tx->state == TX_WAITING || tx->state == TX_RESERVED)
		roll_back(tx, NULL);
}

/* ---------- forgetting */

static void
on_forget(void *arg)
{
	uint64_t	all = nodes_min_applied(sequencer_last_durable());
	uint64_t	oldest = to_sessions->oldest_seen();

	leases_forget_gone(all);
	if (oldest < all)
		all = oldest;
	if (all > KEPT_SEQS)
		certifier_forget(certifier, all - KEPT_SEQS);

	/*
	 * A transaction that stays open must not let it grow for ever: rather it
	 * conflicts.
	 */
	if (certifier_keys(certifier) > MAX_REMEMBERED_KEYS)
	{
		uint64_t	floor = certifier_floor(certifier);

		if (sequencer_last_durable() > floor + KEPT_SEQS)
			certifier_forget(certifier, floor + (sequencer_last_durable() - KEPT_SEQS - floor) / 2 + 1);
	}
	loop_after(FORGET_MS, on_forget, NULL);
}

/* ---------- start and end */

void
sequencer_init(const Config *c, Journal *j, const char *journal_dir, const PeerOps *peers, const SessionOps *sessions)
{
	to_peers = peers;
	to_sessions = sessions;
	config = c;
	look_again.callback = on_look_again;
	certifier = order_start(c, j, journal_dir);
	loop_after(FORGET_MS, on_forget, NULL);
}

SequencerStats
sequencer_stats(void)
{
	stats.certifier_keys = certifier_keys(certifier);
	order_stats(&stats);
	refusals_stats(&stats);
	return stats;
}
