/*
 * sequencer_late.c
 *	  Is a node late with what has been decided?
 *
 * With what others have decided: the oldest that it has been given and has not reported as applied.
 *
 * With what it has decided itself: one of its seqs at a time is followed, from the verdict until a
 * question of that node shows that its turn has passed.  How late it was is known from the questions that
 * showed the contrary (own_lag()); so a node that asks rarely is not late.  A node that is has more to do
 * than its processors can: its backends are not even woken in time.
 */
#include "node.h"
#include "sequencer_private.h"

#define USUAL_US 1000
#define COUNTS_US 8000			/* one lag counts for no more in an average */
#define AVERAGED_OVER 32		/* lags */

typedef struct Late
{
	uint64_t	of_others_us;	/* average */
	uint64_t	of_own_us;		/* average */
	uint64_t	followed;		/* seq, 0 none */
	uint64_t	first_us;
	uint64_t	last_us;
} Late;

static Late lates[CONFIG_MAX_NODES];

/* Usual are one round trip until its report is here, and up to another one until it can begin. */
static uint64_t
beyond_usual(const Node *n, uint64_t us)
{
	return us >= USUAL_US + 2 * n->round_trip_us ? us : 0;
}

static void
average(uint64_t *us, uint64_t lag)
{
	if (lag > COUNTS_US)
		lag = COUNTS_US;
	*us = (*us * (AVERAGED_OVER - 1) + lag) / AVERAGED_OVER;
}

/*
 * The turn passed between the last question that showed that it had not, and now.  Those of the first
 * round, and of this one, may have been sent before what was told then: one round is no lag.
 */
static uint64_t
own_lag(const Late *late)
{
	uint64_t	shown = late->last_us - late->first_us;
	uint64_t	since = loop_now_us() - late->last_us;

	return shown + (since < shown ? since : shown);
}

uint64_t
late_us(const Node *n)
{
	if (n->state != NODE_ONLINE || n->applying.count == 0)
		return 0;
	return beyond_usual(n, loop_now_us() - tx_ring_first(&n->applying)->since_us);
}

uint64_t
late_on_average_us(int node, bool with_own)
{
	Late	   *late = &lates[node];
	uint64_t	own = with_own ? late->of_own_us : 0;

	average(&late->of_others_us, late_us(node_get(node)));
	return late->of_others_us > own ? late->of_others_us : own;
}

void
late_told(uint32_t origin, uint64_t seq)
{
	if (origin >= (uint32_t) nodes_count() || lates[origin].followed != 0)
		return;
	lates[origin].followed = seq;
	lates[origin].first_us = lates[origin].last_us = 0;
}

void
sequencer_turn_passed(uint32_t origin, uint64_t seq)
{
	Late	   *late;

	if (origin >= (uint32_t) nodes_count() || lates[origin].followed == 0)
		return;
	late = &lates[origin];
	if (seq >= late->followed)
	{
		average(&late->of_own_us, beyond_usual(node_get((int) origin), own_lag(late)));
		late->followed = 0;
		return;
	}
	late->last_us = loop_now_us();
	if (late->first_us == 0)
		late->first_us = late->last_us;
}
