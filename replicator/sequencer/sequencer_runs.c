/*
 * sequencer_runs.c
 *	  Seqs in runs by origin.
 *
 * A node executes what others have decided in groups of adjacent seqs, which saves most of what
 * a small transaction costs it (apply_queue.h).  Where several nodes write, their seqs would
 * alternate, and there would be no groups.  So a question that would be decided at once, but whose
 * own node lags behind, is held until that node has applied what was decided when the first of its
 * questions was held; all that are held then get adjacent seqs.
 *
 *		node that asks			held					it has applied `until`, or HOLD_MS
 *		is late			 --->	TX_HELD, in a list --->	reserved and decided, one after the other
 *
 * Its COMMIT has to wait for those seqs at any rate, as a node commits in their order.  What it
 * costs is that the journal and the way of the verdict follow that wait, and that what others
 * decide meanwhile comes first.  So nothing is held of a node that asks less than once in HOLD_MS,
 * for there would be no run; the lag is beyond the usual round trip, for which a report is under
 * way; and whatever is not held itself, or asks for a lock, releases what has asked before it, as
 * the certifier does not know that.
 *
 * Measured in docs/benchmarks.md, "runs by origin".
 */
#include "node.h"
#include "sequencer_private.h"

#define HOLD_MS 3

typedef struct Run
{
	uint64_t	until;			/* seq that the node is to apply before */
	uint64_t	asked_us;		/* its last question */
	Timer	   *timer;
	Deferred	release;
} Run;

static Run	runs[CONFIG_MAX_NODES]; /* by origin */
static void (*reserve_held) (Transaction *tx);

static void
release(void *arg)
{
	Run		   *run = arg;
	const TxList *held = &undecided.held[run - runs];

	loop_cancel(run->timer);
	run->timer = NULL;
	while (held->first != NULL)
		reserve_held(held->first);	/* it leaves the list, whatever becomes of
									 * it */
}

static void
on_timer(void *arg)
{
	Run		   *run = arg;

	run->timer = NULL;
	release(run);
}

void
runs_start(void (*reserve) (Transaction *tx))
{
	reserve_held = reserve;
	for (int i = 0; i < CONFIG_MAX_NODES; i++)
		runs[i].release = (Deferred) {.callback = release,.arg = &runs[i]};
}

void
runs_release(uint32_t origin)
{
	if (origin < CONFIG_MAX_NODES && undecided.held[origin].first != NULL)
		release(&runs[origin]);
}

void
runs_release_all(void)
{
	for (uint32_t i = 0; undecided.nheld > 0; i++)
		runs_release(i);
}

bool
runs_should_hold(const Transaction *tx)
{
	Run		   *run;
	bool		alone;

	if (tx->origin >= (uint32_t) nodes_count() || tx->session == NULL)
		return false;
	run = &runs[tx->origin];
	alone = loop_now_us() - run->asked_us > HOLD_MS * 1000;
	run->asked_us = loop_now_us();

	/*
	 * who has locks, or rows that are fought over, should not keep them for
	 * longer
	 */
	if (tx->lock_ticket != 0 || undecided.lock_waiters.first != NULL)
	{
		pace_stop();
		return false;
	}
	pace_asked(tx);
	return undecided.held[tx->origin].first != NULL || (!alone && late_us(node_get((int) tx->origin)) > 0);
}

void
runs_hold(Transaction *tx)
{
	Run		   *run = &runs[tx->origin];
	TxList	   *held = &undecided.held[tx->origin];

	if (held->first == NULL)
	{
		run->until = tx_ring_last(&node_get((int) tx->origin)->applying)->seq;
		loop_cancel(run->timer);	/* what it was for was rolled back */
		run->timer = loop_after(HOLD_MS, on_timer, run);
	}
	tx_move(tx_ref(tx), TX_HELD);
	list_add(held, tx);
	undecided.nheld++;
}

void
sequencer_node_applied(int node, uint64_t seq)
{
	Run		   *run = &runs[node];

	if (undecided.held[node].first != NULL && seq >= run->until)
		loop_defer(&run->release);
	pace_applied();
}
