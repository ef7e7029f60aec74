/*
 * waits_watchdog.c
 *	  Warnings in the log when something makes no progress.
 *
 * A wait is reported when it has lasted for wait_warning and no wait of its kind has
 * ended there for as long: a queue that moves is not reported, however long it is.  A
 * wait that has lasted OLD times as long is reported anyway.  A node whose server does
 * not answer while transactions wait for it is reported first.
 *
 * The same kind of wait, at the same place, is reported again after pauses that
 * double, or when the number of waiters has doubled.  After two pauses without a
 * report it starts anew.
 *
 * Waits among PostgreSQL's own clients (WAIT_LOCAL) cause no report, but are part of
 * it: an apply session may wait for such clients.
 */
#include "waits_watchdog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "sequencer.h"
#include "waits_private.h"
#include "waits_rows.h"

#define TICK_MS 200
#define OLD 10
#define MAX_PAUSE_MS 300000
#define MOST_TOLD 10
#define SILENCE WAIT_KINDS		/* a kind of its own */

typedef struct Pace
{
	int			pause_ms;		/* 0: not told lately */
	uint64_t	told_us;
	int			told;			/* so many waited */
	int			due;			/* so many do now */
} Pace;

static Pace paces[WAIT_KINDS + 1][CONFIG_MAX_NODES + 1];

static int
limit_ms(void)
{
	return node_config->wait_warning;
}

static Pace *
pace_of(int kind, int at)
{
	return &paces[kind][at + 1];
}

/* When something of this kind went on last, there. */
static uint64_t
went_on_us(WaitKind kind, int at)
{
	switch (kind)
	{
		case WAIT_LOCK:
		case WAIT_LOCK_RESERVED:
			return sequencer_granted_us();
		case WAIT_RESERVATION:
			return tx_left_us(TX_WAITING);
		case WAIT_TICKET:
		case WAIT_ALONE:
			return tx_left_us(TX_RESERVED);
		case WAIT_JOURNAL:
			return tx_left_us(TX_DECIDED);
		default:
			return at >= 0 ? node_get(at)->went_on_us : 0;
	}
}

/* ---------- silent nodes */

static int64_t
silent_ms(const Node *n)
{
	return n->control != NULL ? (int64_t) ((loop_now_us() - n->heard_us) / 1000) : 0;
}

/* Not if it has only not been asked, as we were stopped: so what counts the time is
 * the timer, which begins when it is asked. */
static bool
is_asked_in_vain(const Node *n)
{
	return (n->probing && n->probe_unanswered_ms >= limit_ms() / 2) ||
		(n->pinging && n->unanswered_ms >= limit_ms() / 2);
}

static bool
is_silent(const Node *n)
{
	return n->state == NODE_ONLINE && silent_ms(n) >= limit_ms() && is_asked_in_vain(n) && tasks_awaited(n) > 0;
}

/* However short: it is why the node's silence matters. */
static bool
waits_for_silence(const WaitEdge *e)
{
	return e->kind != WAIT_LOCAL && e->at >= 0 && is_silent(node_get(e->at));
}

/* ---------- what is to be told */

static bool
is_due(const WaitEdge *e)
{
	int64_t		age_ms = wait_age_ms(e);
	uint64_t	since_us = loop_now_us() - went_on_us(e->kind, e->at);

	if (waits_for_silence(e))
		return true;
	if (e->kind == WAIT_LOCAL || age_ms < limit_ms())
		return false;
	return since_us >= (uint64_t) limit_ms() * 1000 || age_ms >= (int64_t) limit_ms() * OLD;
}

/* ---------- telling */

static bool
is_time(Pace *p)
{
	uint64_t	since_ms = (loop_now_us() - p->told_us) / 1000;

	if (p->due == 0)
	{
		if (since_ms > (uint64_t) p->pause_ms * 2)
			p->pause_ms = 0;
		return false;
	}
	return p->pause_ms == 0 || since_ms >= (uint64_t) p->pause_ms || p->due >= 2 * p->told;
}

static void
told(Pace *p)
{
	if (p->due == 0)
		return;
	p->pause_ms = p->pause_ms == 0 ? limit_ms() : p->pause_ms * 2;
	if (p->pause_ms > MAX_PAUSE_MS)
		p->pause_ms = MAX_PAUSE_MS;
	p->told_us = loop_now_us();
	p->told = p->due;
}

static void
append(Buffer *out, char *text)
{
	buffer_append(out, text, strlen(text));
	free(text);
}

static void
append_party(Buffer *out, const WaitParty *p)
{
	append(out, xasprintf("pid %" PRIu32 " of node \"%s\"", p->pid, p->node_name != NULL ? p->node_name : "?"));
	if (p->seq != 0)
		append(out, xasprintf(" (seq %" PRIu64 ")", p->seq));
}

static void
append_wait(Buffer *out, const WaitGraph *g, const WaitEdge *e)
{
	if (out->len > 0)
		append(out, xstrdup("; "));
	append_party(out, &g->parties[e->waiter]);
	append(out, xasprintf(" has waited %.1f s %s", (double) wait_age_ms(e) / 1000, wait_kind_words(e->kind)));
	if (e->blocker != WAIT_NOBODY)
	{
		append(out, xstrdup(" "));
		append_party(out, &g->parties[e->blocker]);
	}
	if (e->at >= 0)
		append(out, xasprintf(", on node \"%s\"", node_name(e->at)));
	if (e->what != NULL)
		append(out, xasprintf(" (%s)", e->what));
}

/* Is there reason to tell one of them?  Those of clients among themselves are told, too. */
static bool
belongs(const WaitEdge *e)
{
	return is_due(e) || (e->kind == WAIT_LOCAL && wait_age_ms(e) >= limit_ms());
}

/* The ones that wait for silent nodes first. */
static char *
detail(const WaitGraph *g)
{
	Buffer		out = {0};
	int			n = 0;

	for (int pass = 0; pass < 2; pass++)
	{
		for (uint32_t i = 0; i < g->nedges; i++)
		{
			const WaitEdge *e = &g->edges[i];

			if (waits_for_silence(e) == (pass == 0) && belongs(e) && n++ < MOST_TOLD)
				append_wait(&out, g, e);
		}
	}
	if (n > MOST_TOLD)
		append(&out, xasprintf("; and %d more", n - MOST_TOLD));
	buffer_append(&out, ".", 2);	/* and NUL */
	return (char *) out.data;
}

/* In one line, the node that is silent or the number of waits. */
static void
tell(const WaitGraph *g, int due)
{
	Buffer		nodes = {0};
	char	   *message;
	char	   *waits = detail(g);

	for (int i = 0; i < nodes_count(); i++)
	{
		const Node *n = node_get(i);

		if (is_silent(n))
			append(&nodes, xasprintf("%snode \"%s\" has been silent for %.1f s, and %d transaction%s for it",
									 nodes.len > 0 ? "; " : "", n->config->name, (double) silent_ms(n) / 1000,
									 tasks_awaited(n), tasks_awaited(n) == 1 ? " waits" : "s wait"));
	}
	buffer_append(&nodes, "", 1);
	message = nodes.len > 1 ? xstrdup((char *) nodes.data) :
		xasprintf("%d wait%s not gone on for %.1f s", due, due == 1 ? " has" : "s have", (double) limit_ms() / 1000);
	log_full(LOG_WARNING, "waits", message, waits, "lockstepctl waits shows all that wait now, and for whom.");
	free(message);
	free(waits);
	buffer_free(&nodes);
}

/* ---------- looking */

static bool
any_work_is_old(const Node *n, uint64_t before_us)
{
	const ApplyTask *task = n->tasks;

	while (task != NULL && task->tx->since_us > before_us)
		task = task->node_next;
	return task != NULL;
}

/* Before the graph is built: does anything wait for so long at all? */
static bool
any_is_old(void)
{
	uint64_t	before_us = loop_now_us() - (uint64_t) limit_ms() * 1000;
	bool		any = sequencer_any_waits_since(before_us);

	for (int i = 0; i < nodes_count() && !any; i++)
		any = node_get(i)->state == NODE_ONLINE && any_work_is_old(node_get(i), before_us);
	return any;
}

static void
count_due(const WaitGraph *g)
{
	for (int kind = 0; kind <= WAIT_KINDS; kind++)
	{
		for (int at = -1; at < CONFIG_MAX_NODES; at++)
			pace_of(kind, at)->due = 0;
	}
	for (uint32_t i = 0; i < g->nedges; i++)
		pace_of(g->edges[i].kind, g->edges[i].at)->due += is_due(&g->edges[i]);
	for (int i = 0; i < nodes_count(); i++)
		pace_of(SILENCE, i)->due = is_silent(node_get(i));
}

static void
look(void)
{
	WaitGraph	g = {0};
	bool		now = false;
	int			due = 0;

	if (any_is_old())
		waits_build(&g);
	count_due(&g);
	for (int kind = 0; kind <= WAIT_KINDS; kind++)
	{
		for (int at = -1; at < nodes_count(); at++)
		{
			now |= is_time(pace_of(kind, at));
			due += kind != SILENCE ? pace_of(kind, at)->due : 0;
		}
	}
	if (now)
	{
		tell(&g, due);
		for (int kind = 0; kind <= WAIT_KINDS; kind++)
		{
			for (int at = -1; at < nodes_count(); at++)
				told(pace_of(kind, at));
		}
	}
	waitgraph_free(&g);
}

static void
on_tick(void *unused)
{
	loop_after(TICK_MS, on_tick, NULL);
	if (limit_ms() > 0)
		look();
}

void
waits_watchdog_start(void)
{
	loop_after(TICK_MS, on_tick, NULL);
}
