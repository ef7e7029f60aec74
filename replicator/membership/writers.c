/*
 * writers.c
 *	  Draining a node, and pausing the writes of all: what begins to write is refused, or waits,
 *	  and what has begun goes on.
 *
 * The nodes do that themselves (lockstep.hold_writers()); they are told again every TICK_MS, for
 * HOLD_MS each time, so that a node forgets it when this replicator ends.  Their answer is the number of
 * transactions that have begun to write and have not ended.
 *
 *	 node_drain() --refuse--> 0 open, and no session here has one --> dropped by command
 *
 * A drain may be announced first: balancers and new sessions are told, and all go on to write until the
 * drain itself.
 *
 * The last node that takes writes goes on to: when no other is online any more, its drain ends, or the
 * announcement of one.  An announcement that no drain follows ends after ANNOUNCED_MS, as whoever made it is
 * gone.
 *
 * A node that goes out while it is drained stays out, but if that is only announced.  A restart of the replicator ends drains and pauses.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "log.h"
#include "membership_private.h"
#include "metadata.h"
#include "sequencer.h"

#define TICK_MS 100
#define HOLD_MS 5000
#define ANNOUNCED_MS (70 * 60 * 1000)	/* more than lockstepctl waits */

/* Orders. */
static const char order_refuse[] = "refuse";
static const char order_announce[] = "announce";
static const char order_wait[] = "wait";
static const char order_none[] = "none";

static const char no_other_node[] = "no other node is online any more";

static Timer *ticking;
static uint64_t paused_until;	/* loop_now_us(); 0: not paused */

static void on_tick(void *arg);

/* ---------- telling the nodes */

/* A node with SQL objects of version 1.0, most likely: neither can be had with it. */
static void
give_up(Node *n, const PGresult *r)
{
	snprintf(n->drain_trouble, sizeof(n->drain_trouble), "%s", pgclient_message(PQresultErrorMessage(r)));
	log_message(LOG_WARNING, n->config->name, "could not hold writers: %s", n->drain_trouble);
	n->draining = n->drains_readers = n->writers_held = false;
	if (n->writers_told == order_wait)
		paused_until = 0;
	node_tell_change();
}

static bool
is_only_writable(const Node *n)
{
	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *other = node_get(i);

		if (other != n && other->state == NODE_ONLINE && !other->draining)
			return false;
	}
	return true;
}

/* The node takes writers again. */
static void
end_drain(Node *n, const char *why)
{
	snprintf(n->drain_trouble, sizeof(n->drain_trouble), "%s", why);
	log_message(LOG_WARNING, n->config->name, "%s was given up: %s", n->drain_announced ? "a drain that was announced" : "the drain", why);
	n->draining = n->drains_readers = false;
	node_tell_change();
}

/* Is an answer to that order about what is wanted now? */
static bool
counts(const Node *n)
{
	return n->draining ? !n->drain_announced && n->writers_told == order_refuse : n->writers_told != order_none;
}

static void
on_held(void *arg, const PGresult *r)
{
	Node	   *n = arg;

	n->writers_asked = false;
	if (r == NULL)
		return;					/* it is going out */
	if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
	{
		give_up(n, r);
		return;
	}
	if (n->writers_told == order_none)
		n->writers_held = false;
	if (n->draining && n->writers_told == order_announce)
		n->drain_told = true;
	if (!counts(n))
		return;
	n->writers_open = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
	if (n->draining && is_only_writable(n))
		end_drain(n, no_other_node);
	if (n->draining && n->writers_open == 0 && !to_sessions->busy(n->index))
	{
		n->draining = n->drains_readers = false;
		log_message(LOG_NOTICE, n->config->name, "node is drained: no transaction that writes is open");
		to_membership->drop(n);
	}
}

static void
tell(Node *n, const char *how, int64_t ms)
{
	char		text[24];
	const char *params[] = {how, text};

	if (n->control == NULL || n->writers_asked || !metadata_has_database(n->control_database))
		return;
	snprintf(text, sizeof(text), "%" PRId64, ms);
	n->writers_asked = true;
	n->writers_told = how;
	n->writers_held |= how != order_none;
	pgclient_query(n->control, "SELECT lockstep.hold_writers($1, $2)", 2, params, on_held, n);
}

/* Does it need to be looked at again? */
static bool
look(Node *n)
{
	int64_t		paused_ms = writers_paused_ms();

	if (n->state != NODE_ONLINE && n->draining)
	{
		n->draining = n->drains_readers = false;
		if (!n->administrative && !n->drain_announced)
			to_membership->drop(n);
	}
	if (n->draining && is_only_writable(n))
		end_drain(n, no_other_node);
	else if (n->draining && n->drain_announced && loop_now_us() - n->drain_announced_us > ANNOUNCED_MS * UINT64_C(1000))
		end_drain(n, "no drain has followed its announcement");
	if (!node_is_in(n))
	{
		n->writers_open = -1;
		return paused_ms >= 0;
	}
	if (n->draining)
		tell(n, n->drain_announced ? order_announce : order_refuse, HOLD_MS);
	else if (paused_ms > 0)
		tell(n, order_wait, paused_ms < HOLD_MS ? paused_ms : HOLD_MS);
	else if (n->writers_held)
		tell(n, order_none, 0);
	return n->draining || paused_ms >= 0 || n->writers_held;
}

static void
look_soon(void)
{
	if (ticking == NULL)
		ticking = loop_after(0, on_tick, NULL);
}

static void
on_tick(void *arg)
{
	bool		more = false;

	ticking = NULL;
	if (paused_until != 0 && paused_until <= loop_now_us())
	{
		paused_until = 0;
		log_event(LOG_NOTICE, "resume", NULL, "the pause of writes is over", NULL, NULL);
		event_note("resume", NULL, "the pause of writes is over", NULL);
	}
	for (int i = 0; i < nodes_count(); i++)
		more |= look(node_get(i));
	if (more && ticking == NULL)
		ticking = loop_after(TICK_MS, on_tick, NULL);
}

void
writers_node_is_in(Node *n)
{
	n->writers_asked = false;
	if (n->writers_held || paused_until != 0)
		look_soon();
}

/* ---------- commands */

/* What was announced does not come then. */
static bool
refuse_drain(Node *n, const char **why, const char *reason)
{
	*why = reason;
	if (n->draining && n->drain_announced)
	{
		end_drain(n, reason);
		look_soon();
	}
	return false;
}

bool
node_drain(int node, bool readers, bool announce, const char **why)
{
	Node	   *n = node_get(node);

	if (n->state != NODE_ONLINE)
		return refuse_drain(n, why, "it is not online");
	if (is_only_writable(n))
		return refuse_drain(n, why, "no other node is online");
	if (!metadata_has_database(n->control_database))
		return refuse_drain(n, why, "there is no replicated database");
	if (!n->draining)
	{
		n->writers_open = -1;
		n->drain_told = false;
	}
	n->drain_announced = announce && (!n->draining || n->drain_announced);
	n->drain_announced_us = loop_now_us();
	n->draining = true;
	n->drains_readers = readers;
	n->drain_trouble[0] = '\0';
	node_tell_change();
	look_soon();
	return true;
}

bool
node_resume(int node)
{
	Node	   *n = node_get(node);

	if (!n->draining)
		return false;
	n->draining = n->drains_readers = false;
	node_tell_change();
	look_soon();
	return true;
}

const char *
node_drain_trouble(int node)
{
	return node_get(node)->drain_trouble;
}

void
writers_pause(int ms)
{
	paused_until = loop_now_us() + (uint64_t) ms * 1000;
	for (int i = 0; i < nodes_count(); i++)
	{
		node_get(i)->writers_open = -1;
		node_get(i)->drain_trouble[0] = '\0';
	}
	look_soon();
}

void
writers_resume(void)
{
	paused_until = 0;
	look_soon();
}

int64_t
writers_paused_ms(void)
{
	uint64_t	now = loop_now_us();

	if (paused_until == 0)
		return -1;
	return paused_until > now ? (int64_t) ((paused_until - now) / 1000) : 0;
}
