/*
 * apply_queue.c
 *	  Which transaction starts where and when: see apply_queue.h.
 *
 * Why no cycle of waits can close over connections: let T be the transaction
 * with the lowest ticket of all that are reserved.  On each of its nodes it is
 * the lowest reserved one of its queue, so only the holder of the last but one
 * connection can be in its way, which took it as the lowest then, so it is no
 * longer undecided (tickets only grow, and one that is queued again has just
 * given a connection back).  A decided one needs no other node, only its turn;
 * and the one whose turn is next always finds the last connection free, or taken
 * by one whose turn came before it.  Not the lowest decided one: a transaction of
 * the node itself may come late, when its backend can't commit it, and those
 * decided after it would hold all connections and wait for it.  A task that began
 * before it was reserved (early_apply.c) has never got one of the last two.
 *
 * A task that is left queued because its role and table have their share is still counted as
 * the lower one, so no higher ticket takes the last but one while T is queued; and T itself
 * has no share to keep.
 */
#include "apply_queue.h"

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
apply_queue_insert(ApplyQueue *queue, ApplyTask *task)
{
	ApplyTask  *after = task->tx->seq != 0 ? queue->decided : queue->last;

	/*
	 * New ones come in rank order, nearly always, and reserved ones are
	 * behind all that are decided: there may be many of either.
	 */
	while (after != NULL && rank_before(task->tx, after->tx))
		after = after->prev;
	for (ApplyTask *next = after != NULL ? after->next : queue->first; next != NULL && !rank_before(task->tx, next->tx); next = next->next)
		after = next;
	task->state = TASK_QUEUED;
	task->queue = queue;
	task->prev = after;
	task->next = after != NULL ? after->next : queue->first;
	*(task->prev != NULL ? &task->prev->next : &queue->first) = task;
	*(task->next != NULL ? &task->next->prev : &queue->last) = task;
	if (task->tx->seq != 0 && (task->next == NULL || task->next->tx->seq == 0))
		queue->decided = task;
}

void
apply_queue_remove(ApplyQueue *queue, ApplyTask *task)
{
	assert(task->state == TASK_QUEUED && task->queue == queue);
	*(task->prev != NULL ? &task->prev->next : &queue->first) = task->next;
	*(task->next != NULL ? &task->next->prev : &queue->last) = task->prev;
	if (queue->decided == task)
		queue->decided = task->prev;
	task->prev = task->next = NULL;
}

/* Apart from connections, may it start? */
static bool
may_start(const ApplyTask *task, const ApplyMoment *at)
{
	const Transaction *tx = task->tx;

	if (tx->nafter_tickets > 0 || task->not_before_us > at->now_us)
		return false;
	return tx->depends_on <= at->applied || tx->depends_on <= at->durable;
}

/* ---------- connections */

int
apply_queue_held(const ApplyQueue *queue, const char *role)
{
	int			held = 0;

	for (int i = 0; i < queue->nholders; i++)
		held += queue->holders[i].role == role;
	return held;
}

static int
held_for_table(const ApplyQueue *queue, uint64_t table)
{
	int			held = 0;

	for (int i = 0; i < queue->nholders; i++)
		held += queue->holders[i].table == table;
	return held;
}

Holder
apply_queue_take(ApplyQueue *queue, const Transaction *tx)
{
	Holder		holder = {tx->role, tx->table, tx->seq != 0};

	queue->taken++;
	queue->streams += holder.decided;
	if (tx->role == NULL)
		return holder;
	if (queue->nholders == queue->holders_cap)
	{
		queue->holders_cap = queue->holders_cap * 2 + 8;
		queue->holders = xrealloc(queue->holders, (size_t) queue->holders_cap * sizeof(Holder));
	}
	queue->holders[queue->nholders++] = holder;
	return holder;
}

void
apply_queue_release(ApplyQueue *queue, Holder holder)
{
	int			i = 0;

	assert(queue->taken > 0);
	queue->taken--;
	queue->streams -= holder.decided;
	if (holder.role == NULL)
		return;
	while (i < queue->nholders && (queue->holders[i].role != holder.role || queue->holders[i].table != holder.table))
		i++;
	assert(i < queue->nholders);
	queue->holders[i] = queue->holders[--queue->nholders];
}

void
apply_queue_free(ApplyQueue *queue)
{
	free(queue->holders);
	queue->holders = NULL;
}

static bool
has_turn_next(const ApplyTask *task, uint64_t applied)
{
	return task->tx->seq != 0 && tx_first_seq(task->tx) <= applied + 1;
}

static bool
has_lowest_ticket(const ApplyTask *task, const ApplyMoment *at)
{
	return task->tx->seq == 0 && task->tx->ticket == at->lowest_ticket;
}

/* How many of the connections that are reserved it must leave. */
static int
reserved_from(const ApplyQueue *queue, const ApplyTask *task)
{
	int			for_roles = queue->reserved / 2;
	int			for_tables = queue->reserved - for_roles;

	if (apply_queue_held(queue, task->tx->role) < for_roles)
		return 0;
	if (task->tx->table != 0 && held_for_table(queue, task->tx->table) < for_tables)
		return for_roles;
	return queue->reserved;
}

/* Whose the task was that was found to leave too few: those that follow are of the same, often. */
typedef struct Refused
{
	const char *role;			/* NULL: none was */
	uint64_t	table;
} Refused;

/* Would it leave enough of so many free connections for others? */
static bool
leaves_enough(const ApplyQueue *queue, const ApplyTask *task, bool lower, int left, const ApplyMoment *at, Refused *refused)
{
	const Transaction *tx = task->tx;
	int			reserved;

	if (has_turn_next(task, at->applied))
		return true;
	if (left <= (lower ? 2 : 1))
		return false;
	if (left > 2 + queue->reserved || has_lowest_ticket(task, at))
		return true;
	if (tx->role == NULL)
		return true;
	if (tx->role == refused->role && tx->table == refused->table)
		return false;
	reserved = reserved_from(queue, task);
	if (reserved == 0 || left > 2 + reserved)
		return true;
	*refused = (Refused) {tx->role, tx->table};
	return false;
}

/* Of so few connections that are left, can nobody from this one on take any? */
static bool
none_may(const ApplyQueue *queue, const ApplyTask *from, bool decided, int left, const ApplyMoment *at)
{
	if (left > 2 || has_turn_next(from, at->applied))
		return false;
	return left < 2 || (decided && queue->last->tx->seq != 0);
}

/* ---------- several as one */

static bool
may_be_together(const ApplyTask *task)
{
	const Transaction *tx = task->tx;

	return (tx->state == TX_DURABLE || tx->state == TX_DONE) && tx->nmembers == 0 && !task->alone && !task->empty &&
		task->retries == 0 && !task->looked_twice && tx->origin != (uint32_t) task->node && tx_may_be_together(task->tx);
}

size_t
apply_queue_followers(const ApplyQueue *queue, const ApplyTask *task, ApplyTask **followers)
{
	uint64_t	seq = task->tx->seq;
	size_t		bytes = tx_memory(task->tx);
	size_t		n = 0;

	for (ApplyTask *next = queue->first; next != NULL && n + 1 < TX_TOGETHER; next = next->next)
	{
		if (next->tx->seq != 0 && next->tx->seq <= seq)
			continue;

		/*
		 * its own queries are looked at only if there is somebody to be
		 * together with
		 */
		if (next->tx->seq != seq + 1 || (n == 0 && !may_be_together(task)) || !may_be_together(next))
			break;
		bytes += tx_memory(next->tx);
		if (bytes > TX_TOGETHER_BYTES)
			break;
		followers[n++] = next;
		seq++;
	}
	return n;
}

/* Is it one of those that are to gather?  gathering: seq of the one before it that is, 0: none. */
static bool
gathers(const ApplyQueue *queue, const ApplyTask *task, uint64_t gathering, const ApplyMoment *at)
{
	if (gathering != 0)
		return task->tx->seq == gathering + 1 && may_be_together(task);
	return at->gather && queue->streams >= QUEUE_STREAMS && task->tx->seq == queue->begun + 1 &&
		!has_turn_next(task, at->applied) && at->now_us < task->queued_us + GATHER_US && may_be_together(task);
}

ApplyTask *
apply_queue_next(ApplyQueue *queue, const ApplyMoment *at)
{
	int			left = queue->capacity - queue->taken;
	bool		decided = false;	/* a lower one is queued */
	bool		reserved = false;
	int			looked = 0;
	uint64_t	gathering = 0;	/* seq of the last one that gathers */
	Refused		refused = {NULL, 0};

	for (ApplyTask *task = queue->first; task != NULL && left > 0 && looked < LOOK_AHEAD; task = task->next, looked++)
	{
		bool	   *lower = task->tx->seq != 0 ? &decided : &reserved;
		bool		enough;

		if (none_may(queue, task, decided, left, at))
			break;
		enough = leaves_enough(queue, task, *lower, left, at, &refused);
		*lower = true;
		if (!enough || !may_start(task, at))
			continue;
		if (gathers(queue, task, gathering, at))
		{
			gathering = task->tx->seq;
			continue;
		}
		if (task->tx->seq != 0 && gathering == 0)
			queue->begun = task->tx->seq;
		apply_queue_remove(queue, task);
		task->holder = apply_queue_take(queue, task->tx);
		task->wait_for = task->tx->depends_on > at->applied ? task->tx->depends_on : 0;
		task->state = TASK_RUNNING;
		task->started_us = at->now_us;
		return task;
	}
	return NULL;
}

const ApplyTask *
apply_queue_waiting(const ApplyQueue *queue, const ApplyMoment *at, int *n)
{
	const ApplyTask *first = NULL;
	int			looked = 0;

	*n = 0;
	for (const ApplyTask *task = queue->first; task != NULL && looked < LOOK_AHEAD; task = task->next, looked++)
	{
		if (!may_start(task, at))
			continue;
		first = first != NULL ? first : task;
		++*n;
	}
	return first;
}
