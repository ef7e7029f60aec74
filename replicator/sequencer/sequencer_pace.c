/*
 * sequencer_pace.c
 *	  Rounds of the loop that are further apart while nodes are late.
 *
 * A node whose processors are busy is late with what others have decided, and its own COMMITs
 * wait for that (sequencer_runs.c), so there is no hurry to decide them.  While all nodes that ask
 * are late, the next round begins as much later as they are, at most PACE_MAX_US.  What comes
 * meanwhile is decided in one round: written to the journal together, delivered in larger
 * groups; and whoever sends it wakes nobody.
 *
 *		asked by a node that is late			the next round is that much later
 *		... that is not, or by who has rows
 *			that are fought over				not at all, for SWIFT_US
 *		a node has applied something			as after the last question, for KEPT_US
 *
 * Late is a node by the average of its lag at its last questions.  It is looked at when the round ends,
 * as what the node has reported may be handled after its question in the same round: otherwise the time
 * between rounds would itself look like a lag, and would never end.
 *
 * Measured in docs/benchmarks.md, "rounds at a pace".
 */
#include <assert.h>
#include <strings.h>

#include "node.h"
#include "sequencer_private.h"

#define PACE_MAX_US 4000
#define LATE_US 500
#define COUNTS_US 8000			/* one question counts for no more */
#define AVERAGED_OVER 32		/* questions */
#define KEPT_US 10000
#define SWIFT_US 100000

static void at_end_of_round(void *arg);

static struct
{
	uint32_t	asked;			/* in this round; a bit for each node */
	Deferred	look;
	uint64_t	late_us[CONFIG_MAX_NODES];	/* average */
	uint64_t	swift_us;		/* a node that is not late has asked */
	unsigned int us;
	uint64_t	until_us;
}			pace = {.look = {.callback = at_end_of_round}};

static_assert(CONFIG_MAX_NODES <= 32, "a bit for each node");

static uint64_t
average(int node)
{
	uint64_t	us = late_us(node_get(node));

	if (us > COUNTS_US)
		us = COUNTS_US;
	pace.late_us[node] = (pace.late_us[node] * (AVERAGED_OVER - 1) + us) / AVERAGED_OVER;
	return pace.late_us[node];
}

static void
at_end_of_round(void *arg)
{
	uint64_t	least = PACE_MAX_US;

	for (; pace.asked != 0; pace.asked &= pace.asked - 1)
	{
		uint64_t	us = average(ffs((int) pace.asked) - 1);

		if (us < least)
			least = us;
	}
	if (least < LATE_US)
		pace_stop();
	else if (loop_now_us() - pace.swift_us >= SWIFT_US)
	{
		pace.us = (unsigned int) least;
		pace.until_us = loop_now_us() + KEPT_US;
		loop_pace(pace.us);
	}
}

void
pace_asked(uint32_t origin)
{
	pace.asked |= (uint32_t) 1 << origin;
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
