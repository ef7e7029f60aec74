/*
 * test_apply_queue.c
 *	  Proves which transaction starts where and when (replicator/peer/apply_queue.c), with
 *	  fake nodes: rank order, dependencies, connections kept for those that
 *	  others wait for, and that random clusters never get stuck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apply_queue.h"

static Transaction *
new_tx(uint64_t ticket, uint64_t seq, uint64_t depends_on)
{
	Transaction *tx = calloc(1, sizeof(Transaction));

	tx->refs = 1;
	tx->ticket = ticket;
	tx->seq = seq;
	tx->depends_on = depends_on;
	tx->state = seq != 0 ? TX_DURABLE : TX_RESERVED;
	return tx;
}

static ApplyTask *
enqueue(ApplyQueue *queue, Transaction *tx)
{
	ApplyTask  *task = calloc(1, sizeof(ApplyTask));

	task->tx = tx;
	apply_queue_insert(queue, task);
	return task;
}

static const Holder nobody;

/* As on a node that is online: those that follow each other gather. */
static ApplyTask *
next_gathering(ApplyQueue *queue, uint64_t applied, uint64_t now_us)
{
	ApplyMoment at = {applied, UINT64_MAX, now_us, 0, true};

	return apply_queue_next(queue, &at);
}

/* Without a lowest ticket of the cluster. */
static ApplyTask *
next(ApplyQueue *queue, uint64_t applied, uint64_t durable, uint64_t now_us)
{
	ApplyMoment at = {applied, durable, now_us, 0, false};

	return apply_queue_next(queue, &at);
}

static void
drop(ApplyTask *task)
{
	free(task->tx);
	free(task);
}

static void
test_rank(void **state)
{
	Transaction *decided5 = new_tx(9, 5, 0);
	Transaction *decided6 = new_tx(1, 6, 0);
	Transaction *ticket7 = new_tx(7, 0, 0);
	Transaction *ticket8 = new_tx(8, 0, 0);

	assert_true(rank_before(decided5, decided6));
	assert_false(rank_before(decided6, decided5));
	assert_true(rank_before(decided6, ticket7));
	assert_false(rank_before(ticket7, decided6));
	assert_true(rank_before(ticket7, ticket8));
	free(decided5);
	free(decided6);
	free(ticket7);
	free(ticket8);
}

/* Whatever the order of coming, the queue has rank order. */
static void
test_queue_order(void **state)
{
	ApplyQueue	queue = {.capacity = 10};
	uint64_t	seqs[] = {4, 0, 2, 0, 3};
	uint64_t	tickets[] = {1, 9, 2, 8, 3};
	uint64_t	expect_ticket[] = {2, 3, 1, 8, 9};

	for (int i = 0; i < 5; i++)
		enqueue(&queue, new_tx(tickets[i], seqs[i], 0));
	for (int i = 0; i < 5; i++)
	{
		ApplyTask  *task = next(&queue, 0, 0, 0);

		assert_non_null(task);
		assert_int_equal(task->tx->ticket, expect_ticket[i]);
		assert_int_equal(task->state, TASK_RUNNING);
		drop(task);
	}
	assert_null(queue.first);
	assert_null(queue.last);
	assert_int_equal(queue.taken, 5);
}

/* The same with many, that come and go at random. */
static void
test_queue_order_at_random(void **state)
{
	ApplyQueue	queue = {0};
	ApplyTask  *tasks[64] = {NULL};

	srand(7);
	for (int step = 0; step < 20000; step++)
	{
		int			i = rand() % 64;
		uint64_t	number = (uint64_t) step + 1 + (uint64_t) (rand() % 8);

		if (tasks[i] == NULL)
			tasks[i] = enqueue(&queue, rand() % 2 ? new_tx(number, number, 0) : new_tx(number, 0, 0));
		else
		{
			apply_queue_remove(&queue, tasks[i]);
			drop(tasks[i]);
			tasks[i] = NULL;
		}
		for (ApplyTask *t = queue.first; t != NULL; t = t->next)
		{
			assert_true(t->next == NULL ? t == queue.last : t->next->prev == t && !rank_before(t->next->tx, t->tx));
			assert_true(t->tx->seq == 0 || (t->next != NULL && t->next->tx->seq != 0) || t == queue.decided);
		}
	}
	for (int i = 0; i < 64; i++)
	{
		if (tasks[i] != NULL)
			drop(tasks[i]);
	}
}

/* What is not applied is waited for on the node, if it is in the journal. */
static void
test_dependencies(void **state)
{
	ApplyQueue	queue = {.capacity = 10};
	ApplyTask  *applied = enqueue(&queue, new_tx(1, 0, 10));
	ApplyTask  *durable = enqueue(&queue, new_tx(2, 0, 12));
	ApplyTask  *decided = enqueue(&queue, new_tx(3, 0, 13));
	ApplyTask  *behind_ticket = enqueue(&queue, new_tx(4, 0, 0));

	behind_ticket->tx->nafter_tickets = 1;
	assert_ptr_equal(next(&queue, 10, 12, 0), applied);
	assert_int_equal(applied->wait_for, 0);
	assert_ptr_equal(next(&queue, 10, 12, 0), durable);
	assert_int_equal(durable->wait_for, 12);
	assert_null(next(&queue, 10, 12, 0));
	assert_ptr_equal(next(&queue, 10, 13, 0), decided);
	assert_null(next(&queue, 10, 13, 0));
	behind_ticket->tx->nafter_tickets = 0;
	assert_ptr_equal(next(&queue, 10, 13, 0), behind_ticket);
	drop(applied);
	drop(durable);
	drop(decided);
	drop(behind_ticket);
}

static void
test_pause(void **state)
{
	ApplyQueue	queue = {.capacity = 10};
	ApplyTask  *task = enqueue(&queue, new_tx(1, 0, 0));

	task->not_before_us = 500;
	assert_null(next(&queue, 0, 0, 499));
	assert_ptr_equal(next(&queue, 0, 0, 500), task);
	drop(task);
}

/* Two decided ones are under way: those that follow wait, until one is over, their turn has
 * come, or they have waited for long enough; what does not follow waits for nothing. */
static void
test_gather(void **state)
{
	ApplyQueue	queue = {.capacity = 10};
	ApplyTask  *w[8];
	ApplyTask  *apart;
	ApplyTask  *followers[TX_TOGETHER];
	ApplyTask  *started;

	for (int i = 0; i < 6; i++)
	{
		w[i] = enqueue(&queue, new_tx(0, (uint64_t) 11 + (uint64_t) i, 0));
		w[i]->tx->together = i < 5 ? TOGETHER_YES : TOGETHER_NO;
		w[i]->tx->origin = 1;
		w[i]->queued_us = 100;
	}
	apart = enqueue(&queue, new_tx(0, 20, 0));
	apart->tx->together = TOGETHER_YES;
	apart->tx->origin = 1;
	assert_ptr_equal(next_gathering(&queue, 5, 100), w[0]);
	assert_ptr_equal(next_gathering(&queue, 5, 100), w[1]);
	assert_int_equal(queue.streams, 2);
	started = next_gathering(&queue, 5, 100);
	assert_ptr_equal(started, w[5]);	/* it may not be one of several */
	started = next_gathering(&queue, 5, 100);
	assert_ptr_equal(started, apart);
	assert_null(next_gathering(&queue, 5, 100 + GATHER_US - 1));
	apply_queue_release(&queue, w[0]->holder);
	apply_queue_release(&queue, w[5]->holder);
	apply_queue_release(&queue, apart->holder);
	assert_int_equal(queue.begun, 12);
	started = next_gathering(&queue, 5, 100);
	assert_ptr_equal(started, w[2]);
	assert_int_equal(apply_queue_followers(&queue, started, followers), 2);
	assert_ptr_equal(followers[0], w[3]);
	assert_ptr_equal(followers[1], w[4]);
	queue.begun = 13;
	w[3]->retries = 1;
	assert_int_equal(apply_queue_followers(&queue, started, followers), 0);
	w[3]->retries = 0;
	assert_null(next_gathering(&queue, 12, 100));
	assert_ptr_equal(next_gathering(&queue, 13, 100), w[3]);	/* its turn */
	assert_ptr_equal(next_gathering(&queue, 13, 100 + GATHER_US), w[4]);
	for (int i = 0; i < 6; i++)
		drop(w[i]);
	drop(apart);
}

/* The last connection is for the decided one whose turn is next, the last but one
 * for that, or the lowest decided or reserved one. */
static void
test_kept_connections(void **state)
{
	ApplyQueue	queue = {.capacity = 4};
	ApplyTask  *w[8];

	for (int i = 0; i < 5; i++)
		w[i] = enqueue(&queue, new_tx((uint64_t) i + 1, 0, 0));
	assert_ptr_equal(next(&queue, 0, 0, 0), w[0]);
	assert_ptr_equal(next(&queue, 0, 0, 0), w[1]);
	assert_ptr_equal(next(&queue, 0, 0, 0), w[2]);	/* the lowest that waits */
	assert_null(next(&queue, 0, 0, 0));

	w[5] = enqueue(&queue, new_tx(20, 8, 0));
	w[6] = enqueue(&queue, new_tx(21, 7, 0));
	assert_null(next(&queue, 5, 8, 0)); /* 6 may come late */
	assert_ptr_equal(next(&queue, 6, 8, 0), w[6]);
	assert_null(next(&queue, 6, 8, 0));
	apply_queue_release(&queue, nobody);
	assert_ptr_equal(next(&queue, 7, 8, 0), w[5]);
	apply_queue_release(&queue, nobody);
	apply_queue_release(&queue, nobody);
	assert_ptr_equal(next(&queue, 0, 0, 0), w[3]);
	for (int i = 0; i < 7; i++)
	{
		if (w[i]->state == TASK_QUEUED)
			apply_queue_remove(&queue, w[i]);
		drop(w[i]);
	}
}

/* One that may not start yet does not make way for a higher ticket. */
static void
test_lowest_keeps_its_claim(void **state)
{
	ApplyQueue	queue = {.capacity = 2};
	ApplyTask  *low = enqueue(&queue, new_tx(1, 0, 5));
	ApplyTask  *high = enqueue(&queue, new_tx(2, 0, 0));

	assert_null(next(&queue, 0, 0, 0));
	assert_ptr_equal(next(&queue, 5, 5, 0), low);
	assert_null(next(&queue, 5, 5, 0));
	apply_queue_remove(&queue, high);
	drop(low);
	drop(high);
}

/* What is reserved is for roles and tables that have few; for the others only what
 * the cluster's lowest ticket, and the next turn, need. */
static void
test_shares(void **state)
{
	static const char mallory[] = "mallory";
	static const char alice[] = "alice";
	ApplyQueue	queue = {.capacity = 12,.reserved = 4};
	ApplyMoment at = {0, 0, 0, 0, false};
	Holder		hers = {mallory, 1, false};
	ApplyTask  *w[14];
	int			n;

	for (int i = 0; i < 14; i++)
	{
		w[i] = enqueue(&queue, new_tx((uint64_t) i + 1, 0, 0));
		w[i]->tx->role = i < 12 ? mallory : alice;
		w[i]->tx->table = i == 10 ? 2 : 1;
	}
	for (int i = 0; i < 6; i++)
		assert_ptr_equal(apply_queue_next(&queue, &at), w[i]);
	assert_int_equal(apply_queue_held(&queue, mallory), 6);
	assert_ptr_equal(apply_queue_next(&queue, &at), w[10]); /* of another table */
	assert_ptr_equal(apply_queue_next(&queue, &at), w[12]); /* of another role */
	assert_ptr_equal(apply_queue_next(&queue, &at), w[13]);
	assert_null(apply_queue_next(&queue, &at));
	assert_ptr_equal(apply_queue_waiting(&queue, &at, &n), w[6]);
	assert_int_equal(n, 5);
	at.lowest_ticket = 7;
	assert_ptr_equal(apply_queue_next(&queue, &at), w[6]);
	assert_null(apply_queue_next(&queue, &at));
	w[7]->tx->seq = 1;
	assert_ptr_equal(apply_queue_next(&queue, &at), w[7]);
	apply_queue_release(&queue, hers);
	apply_queue_release(&queue, hers);
	assert_int_equal(apply_queue_held(&queue, mallory), 7);
	assert_null(apply_queue_next(&queue, &at)); /* it is for others now */
	for (int i = 0; i < 14; i++)
	{
		if (w[i]->state == TASK_QUEUED)
			apply_queue_remove(&queue, w[i]);
		drop(w[i]);
	}
	apply_queue_free(&queue);
}

/* ---------- a cluster of fake nodes */

#define NODES 3
#define LIVE 64

typedef struct FakeTx
{
	Transaction *tx;
	int			origin;
	ApplyTask  *work[NODES];	/* NULL: none there, or done */
	bool		executed[NODES];
	bool		ordered;
	bool		late;			/* its backend can't commit it: its own node
								 * gets it, too, some time after it was
								 * decided */
}			FakeTx;

typedef struct FakeNode
{
	ApplyQueue	queue;
	uint64_t	applied;
}			FakeNode;

typedef struct FakeCluster
{
	FakeNode	node[NODES];
	FakeTx		live[LIVE];
	uint64_t	ticket;
	uint64_t	seq;
	int			done;
	int			roles;
}			FakeCluster;

static const char role_names[3][8] = {"alice", "bob", "mallory"};

static uint64_t
lowest_ticket(const FakeCluster * c)
{
	uint64_t	lowest = 0;

	for (int i = 0; i < LIVE; i++)
	{
		const Transaction *tx = c->live[i].tx;

		if (tx != NULL && tx->seq == 0 && (lowest == 0 || tx->ticket < lowest))
			lowest = tx->ticket;
	}
	return lowest;
}

static void
give(FakeCluster * c, FakeTx * f, int node)
{
	f->work[node] = enqueue(&c->node[node].queue, f->tx);
}

static void
decide(FakeCluster * c, FakeTx * f)
{
	f->tx->seq = ++c->seq;
	f->tx->state = TX_DURABLE;
}

static void
begin(FakeCluster * c, FakeTx * f)
{
	memset(f, 0, sizeof(*f));
	f->origin = rand() % NODES;
	f->ordered = rand() % 4 == 0;
	f->late = rand() % 10 == 0;
	f->tx = new_tx(++c->ticket, 0, c->seq > 0 ? c->seq - (uint64_t) rand() % (c->seq < 20 ? c->seq : 20) : 0);
	f->tx->role = c->roles > 0 && rand() % 8 != 0 ? role_names[rand() % c->roles] : NULL;
	f->tx->table = (uint64_t) rand() % 3;
	if (f->ordered)
		decide(c, f);
	for (int n = 0; n < NODES; n++)
	{
		if (n != f->origin)
			give(c, f, n);
	}
}

static bool
executed_everywhere(const FakeTx * f)
{
	for (int n = 0; n < NODES; n++)
	{
		if (n != f->origin && !f->executed[n])
			return false;
	}
	return true;
}

/* Now and then an executed work is rolled back there and queued again. */
static void
yield(FakeCluster * c, FakeTx * f, int n)
{
	apply_queue_release(&c->node[n].queue, f->work[n]->holder);
	f->executed[n] = false;
	apply_queue_insert(&c->node[n].queue, f->work[n]);
}

/* One step of everybody; returns whether anything happened. */
static bool
step(FakeCluster * c)
{
	bool		any = false;

	for (int n = 0; n < NODES; n++)
	{
		FakeNode   *node = &c->node[n];
		ApplyTask  *task;

		ApplyMoment at = {node->applied, c->seq, 0, lowest_ticket(c), true};

		while ((task = apply_queue_next(&node->queue, &at)) != NULL)
			any = true;
		assert_true(node->queue.taken <= node->queue.capacity);
	}
	for (int i = 0; i < LIVE; i++)
	{
		FakeTx	   *f = &c->live[i];
		bool		here = false;

		if (f->tx == NULL)
			continue;
		for (int n = 0; n < NODES; n++)
		{
			ApplyTask  *task = f->work[n];

			if (task != NULL && task->state == TASK_RUNNING && !f->executed[n] &&
				c->node[n].applied >= task->wait_for && rand() % 2 == 0)
				f->executed[n] = any = true;
			else if (task != NULL && f->executed[n] && f->tx->seq == 0 && rand() % 50 == 0)
			{
				yield(c, f, n);
				any = true;
			}
		}
		if (f->tx->seq == 0 && executed_everywhere(f))
		{
			decide(c, f);
			any = true;
		}
		else if (f->tx->seq != 0 && f->late && f->work[f->origin] == NULL &&
				 c->node[f->origin].applied < f->tx->seq && rand() % 20 == 0)
		{
			give(c, f, f->origin);
			any = true;
		}
		for (int n = 0; n < NODES; n++)
		{
			FakeNode   *node = &c->node[n];

			if (f->tx->seq != 0 && node->applied == f->tx->seq - 1 &&
				((n == f->origin && !f->late) || f->executed[n]))
			{
				node->applied++;
				any = true;
				if (f->work[n] != NULL)
				{
					apply_queue_release(&node->queue, f->work[n]->holder);
					free(f->work[n]);
					f->work[n] = NULL;
				}
			}
			here = here || f->work[n] != NULL || f->tx->seq == 0 || node->applied < f->tx->seq;
		}
		if (!here)
		{
			free(f->tx);
			f->tx = NULL;
			c->done++;
		}
	}
	return any;
}

/* Whatever comes in whatever order, every transaction gets everywhere. */
static void
run_cluster(int connections, int reserved, int roles, int count)
{
	FakeCluster *c = calloc(1, sizeof(FakeCluster));
	int			begun = 0;
	int			idle = 0;
	int			steps = 0;

	c->roles = roles;
	for (int n = 0; n < NODES; n++)
		c->node[n].queue = (ApplyQueue) {.capacity = connections + reserved,.reserved = reserved};
	while (c->done < count)
	{
		for (int i = 0; i < LIVE && begun < count; i++)
		{
			if (c->live[i].tx == NULL && rand() % 3 == 0)
			{
				begin(c, &c->live[i]);
				begun++;
			}
		}
		idle = step(c) ? 0 : idle + 1;
		assert_true(idle < 1000 && ++steps < 100 * count);	/* somebody gets further */
	}
	for (int n = 0; n < NODES; n++)
	{
		assert_int_equal(c->node[n].queue.taken, 0);
		assert_int_equal(c->node[n].applied, c->seq);
		assert_int_equal(c->node[n].queue.nholders, 0);
		apply_queue_free(&c->node[n].queue);
	}
	free(c);
}

static void
test_random_clusters(void **state)
{
	srand(4711);
	for (int round = 0; round < 60; round++)
		run_cluster(2 + round % 7, round % 6, round / 4 % 4, 1000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rank),
		cmocka_unit_test(test_queue_order),
		cmocka_unit_test(test_queue_order_at_random),
		cmocka_unit_test(test_dependencies),
		cmocka_unit_test(test_pause),
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_kept_connections),
		cmocka_unit_test(test_lowest_keeps_its_claim),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_random_clusters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
