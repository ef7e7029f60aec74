/*
 * sequencer_pace.c
 *	  Rounds of the loop that are further apart while nodes are late.
 *
 * A node whose processors are busy is late with what has been decided, and its COMMITs wait for that
 * (sequencer_late.c), so there is no hurry to decide them.  While all nodes that ask
 * are late, the next round begins as much later as they are, at most PACE_MAX_US.  What comes
 * meanwhile is decided in one round: written to the journal together, delivered in larger
 * groups; and whoever sends it wakes nobody.
 *
 *		asked by a node that is late			the next round is that much later
 *		... that is not, for whatever, or by
 *			who has locks that somebody waits for	not at all, for SWIFT_US
 *		a node has applied something			as after the last question, for KEPT_US
 *		fewer than MANY sessions have asked in
 *			the last WINDOW_US				not at all, for nothing would come together
 *
 * A transaction whose locks others of its node wait for is late only with what others have decided: for
 * that COMMIT has to wait, and for what its own node has decided those others need not.
 *
 * A node's lag is looked at when the round ends, as what it has reported may be handled after its
 * question in the same round: otherwise the time between rounds would itself look like a lag, and
 * would never end.
 *
 * Measured in docs/benchmarks.md, "rounds at a pace".
 */
#include <assert.h>
#include <strings.h>

#include "node.h"
#include "sequencer_private.h"

#define PACE_MAX_US 4000
#define LATE_US 500
#define KEPT_US 10000
#define SWIFT_US 100000
#define WINDOW_US 100000
#define MANY 4

static void at_end_of_round(void *arg);

static struct
{
	uint32_t	asked;			/* in this round; a bit for each node */
	uint32_t	waited_for;		/* ... for one that others of it wait for */
	Deferred	look;
	uint64_t	askers;			/* in this window; a bit for each session, or
								 * for several */
	uint64_t	window_us;		/* it began */
	bool		many;			/* in the last window */
	uint64_t	swift_us;		/* a node that is not late has asked */
	unsigned int us;
	uint64_t	until_us;
}			pace = {.look = {.callback = at_end_of_round}};

static_assert(CONFIG_MAX_NODES <= 32, "a bit for each node");

static void
note_asker(const Transaction *tx)
{
	uint64_t	now = loop_now_us();

	if (now - pace.window_us >= WINDOW_US)
	{
		pace.many = now - pace.window_us < 2 * WINDOW_US && __builtin_popcountll(pace.askers) >= MANY;
		pace.askers = 0;
		pace.window_us = now;
	}
	pace.askers |= UINT64_C(1) << (tx->pid + tx->origin) % 64;
}

static void
at_end_of_round(void *arg)
{
	uint64_t	least = PACE_MAX_US;

	for (; pace.asked != 0; pace.asked &= pace.asked - 1)
	{
		int			node = ffs((int) pace.asked) - 1;
		uint64_t	us = late_on_average_us(node, (pace.waited_for >> node & 1) == 0);

		if (us < least)
			least = us;
	}
	pace.waited_for = 0;
	if (least < LATE_US)
		pace_stop();
	else if (pace.many && loop_now_us() - pace.swift_us >= SWIFT_US)
	{
		pace.us = (unsigned int) least;
		pace.until_us = loop_now_us() + KEPT_US;
		loop_pace(pace.us);
	}
}

void
pace_asked(const Transaction *tx)
{
	note_asker(tx);
	if (tx->waited_for)
		pace.waited_for |= (uint32_t) 1 << tx->origin;
	sequencer_node_waits(tx->origin);
}

void
sequencer_node_waits(uint32_t node)
{
	if (node >= (uint32_t) nodes_count())
		return;
	pace.asked |= (uint32_t) 1 << node;
	loop_defer(&pace.look);
}

void
pace_applied(void)
{
	if (loop_now_us() < pace.until_us)
		loop_pace(pace.us);
}

void
pace_stop(void)
{
	pace.until_us = 0;
	pace.swift_us = loop_now_us();
}
