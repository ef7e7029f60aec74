/*
 * pool.c
 *	  The apply connections of one database on one node: a fixed number, opened when
 *	  the node is attached and kept while it is in.
 *
 * A connection is idle (in the pool's list), executes a task, or is being cleaned up
 * after one.  queue.taken counts the latter two, so each task that
 * apply_queue_next() starts finds an idle connection.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "log.h"
#include "peer.h"

Pool *
pool_find(Node *n, const char *database)
{
	Pool	   *p = n->pools;

	while (p != NULL && (p->closing || strcmp(p->database, database) != 0))
		p = p->next;
	return p;
}

static void
on_bury(void *arg)
{
	Pool	   *p = arg;

	apply_queue_free(&p->queue);
	free(p->connections);
	free(p->database);
	free(p->trial_error);
	free(p);
}

Pool *
pool_open(Node *n, const char *database)
{
	Pool	   *p = xcalloc(1, sizeof(Pool));
	Pool	  **end = &n->pools;

	p->node = n;
	p->database = xstrdup(database);
	p->bury.callback = on_bury;
	p->bury.arg = p;
	p->queue.reserved = node_config->reserved_connections;
	p->nconnections = node_config->apply_connections + p->queue.reserved;
	p->connections = xcalloc((size_t) p->nconnections, sizeof(ApplyConn *));
	while (*end != NULL)
		end = &(*end)->next;
	*end = p;
	for (int i = 0; i < p->nconnections; i++)
		p->connections[i] = apply_open(p);
	p->watch = dbwatch_begin(p);
	return p;
}

Pool *
pool_try(Node *n, const char *database)
{
	Pool	   *p = pool_open(n, database);

	p->on_trial = true;
	return p;
}

const char *
pool_trial_error(Node *n, const char *database)
{
	const Pool *p = pool_find(n, database);

	return p != NULL ? p->trial_error : NULL;
}

void
pool_passed(Node *n, const char *database)
{
	Pool	   *p = pool_find(n, database);

	if (p != NULL)
		p->on_trial = false;
}

void
pool_not_opened(Pool *p, DropCause cause, const char *error)
{
	if (!p->on_trial)
		node_out(p->node, cause, FACTS(.database = p->database,.error = error));
	else if (p->trial_error == NULL)
		p->trial_error = xstrdup(error);
}

static void
destroy(Pool *p)
{
	Pool	  **link = &p->node->pools;

	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	for (int i = 0; i < p->nconnections; i++)
		apply_close(p->connections[i]);
	dbwatch_end(p->watch);
	loop_defer(&p->bury);
}

void
pools_destroy(Node *n)
{
	while (n->pools != NULL)
		destroy(n->pools);
}

void
pool_close(Pool *p)
{
	p->closing = true;
	if (p->queue.taken == 0 && p->queue.first == NULL)
		destroy(p);
}

bool
pools_ready(const Node *n)
{
	for (const Pool *p = n->pools; p != NULL; p = p->next)
	{
		if (p->queue.capacity < p->nconnections)
			return false;
	}
	return true;
}

void
pool_give_back(Pool *p, ApplyConn *c)
{
	apply_set_next_idle(c, p->idle);
	p->idle = c;
	apply_queue_release(&p->queue, apply_holder(c));
	if (p->closing)
		pool_close(p);
	node_pump(p->node);
}

/* ---------- connections that are lost */

#define REPLACED_PER_CONNECTION 4	/* in so long: */
#define REPLACED_US (60 * UINT64_C(1000000))

bool
pool_may_replace(Pool *p)
{
	if (loop_now_us() - p->replaced_us > REPLACED_US)
	{
		p->replaced_us = loop_now_us();
		p->nreplaced = 0;
	}
	return p->nreplaced++ < p->nconnections * REPLACED_PER_CONNECTION;
}

/* Take it off the list of idle ones; false: it isn't there. */
static bool
take_off(Pool *p, const ApplyConn *c)
{
	ApplyConn  *previous = NULL;

	for (ApplyConn *i = p->idle; i != NULL; previous = i, i = apply_next_idle(i))
	{
		if (i != c)
			continue;
		if (previous != NULL)
			apply_set_next_idle(previous, apply_next_idle(i));
		else
			p->idle = apply_next_idle(i);
		return true;
	}
	return false;
}

void
pool_replace(Pool *p, ApplyConn *c)
{
	if (!take_off(p, c))
		apply_queue_release(&p->queue, apply_holder(c));
	p->queue.capacity--;
	for (int i = 0; i < p->nconnections; i++)
	{
		if (p->connections[i] == c)
			p->connections[i] = apply_open(p);
	}
	apply_close(c);
}

ApplyConn *
pool_take(Pool *p)
{
	ApplyConn  *c = p->idle;

	assert(c != NULL);
	p->idle = apply_next_idle(c);
	apply_set_next_idle(c, NULL);
	return c;
}
