/*
 * sequencer_runs.c
 *	  Seqs in runs by origin.
 *
 * A node executes what others have decided in groups of adjacent seqs, which saves most of what
 * a small transaction costs it (apply_queue.h).  Where several nodes write, their seqs would
 * alternate, and there would be no groups.  So a question whose own node lags behind is held
 * until that node has applied what was decided when the first of its questions was held; all
 * that are held then get adjacent seqs.
 *
 *		node that asks			held					it has applied `until`, or HOLD_MS
 *		lags by LAG_US   --->	TX_HELD, in a list --->	reserved and decided, one after the other
 *
 * What that costs: its COMMIT would have to wait for the same seqs, but now its journal write and
 * verdict follow that wait instead of overlapping with it, and what others decide meanwhile comes
 * before it.  The lag counts until the node's report has arrived, so a node that is far away is
 * taken to lag whenever others write.  A held question has no keys in the certifier: a lock that
 * another node requests meanwhile is granted before it, and one that is bound to lose learns so
 * only when it is released.  What peers execute first may be held, too, as that is known only when
 * it is reserved.
 *
 * Measured in docs/benchmarks.md, "runs by origin".
 */
#include "node.h"
#include "sequencer_private.h"

#define LAG_US 1000
#define HOLD_MS 3

typedef struct Run
{
	uint64_t	until;			/* seq that the node is to apply before */
	Timer	   *timer;
	Deferred	release;
} Run;

static Run	runs[CONFIG_MAX_NODES]; /* by origin */
static void (*reserve_held) (Transaction *tx);

static void on_timer(void *arg);

static void
release(void *arg)
{
	Run		   *run = arg;
	const TxList *held = &undecided.held[run - runs];
	const Transaction *last = held->last;
	Transaction *tx;

	loop_cancel(run->timer);
	run->timer = NULL;

	/* each leaves the list by what becomes of it */
	while ((tx = held->first) != NULL)
	{
		bool		is_last = tx == last;

		reserve_held(tx);
		if (is_last)
			break;
	}
	if (held->first != NULL)	/* asked by what an answer made its session do */
		run->timer = loop_after(HOLD_MS, on_timer, run);
}

static void
on_timer(void *arg)
{
	Run		   *run = arg;

	run->timer = NULL;
	loop_undefer(&run->release);
	release(run);
}

void
runs_start(void (*reserve) (Transaction *tx))
{
	reserve_held = reserve;
	for (int i = 0; i < CONFIG_MAX_NODES; i++)
		runs[i].release = (Deferred) {.callback = release,.arg = &runs[i]};
}

/* May it be decided as soon as it is reserved, and does it have no locks that others may wait for? */
static bool
may_be_held(const Transaction *tx)
{
	return tx->origin < (uint32_t) nodes_count() && tx->session != NULL &&
		(tx->certain || tx->wait == LS_WAIT_ORDERED) && tx->spill == NULL && tx->lock_ticket == 0 && !tx_has_ddl(tx);
}

bool
runs_hold(Transaction *tx)
{
	Run		   *run;
	const TxRing *ring;

	if (!may_be_held(tx))
		return false;
	run = &runs[tx->origin];
	ring = &node_get((int) tx->origin)->applying;
	if (undecided.lock_waiters.first != NULL)
		return false;			/* rows are fought over: what has them should
								 * not keep them for longer */
	if (undecided.held[tx->origin].first == NULL)
	{
		if (node_get((int) tx->origin)->state != NODE_ONLINE || ring->count == 0 ||
			loop_now_us() - tx_ring_first(ring)->since_us < LAG_US)
			return false;
		run->until = tx_ring_last(ring)->seq;
		loop_cancel(run->timer);	/* what it was for was rolled back */
		run->timer = loop_after(HOLD_MS, on_timer, run);
	}
	tx_move(tx_ref(tx), TX_HELD);
	undecided_add_held(tx);
	return true;
}

void
sequencer_node_applied(int node, uint64_t seq)
{
	Run		   *run = &runs[node];

	if (undecided.held[node].first != NULL && seq >= run->until)
		loop_defer(&run->release);
}
