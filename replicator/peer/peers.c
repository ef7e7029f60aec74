/*
 * peers.c
 *	  Giving transactions to the nodes that are online.
 *
 * execute() creates an ApplyTask on each online node but the origin; commit() lets
 * these commit, and creates tasks for transactions that are decided before they are
 * executed; roll_back() undoes them.  The bit of a node in tx->executing is set
 * until it has executed the transaction, that in tx->applying until it has applied
 * it; the node's ring `applying` has the same by seq.  A node in CATCHUP gets
 * everything from the journal instead (catchup.c).
 */
#include <assert.h>
#include <inttypes.h>

#include "log.h"
#include "peer.h"

static void
execute(Transaction *tx)
{
	assert(tx->state == TX_RESERVED);
	tx->executing = 0;
	for (int i = 0; i < nodes_count(); i++)
	{
		if (node_get(i)->state != NODE_ONLINE || i == (int) tx->origin)
			continue;
		tx->executing |= UINT64_C(1) << i;
		if (task_find(tx, i) == NULL)
			task_add(node_get(i), tx);
	}
	if (tx->executing == 0)
	{
		sequencer_executed(tx);
		return;
	}

	/*
	 * All bits are set: these may have nothing left to do, and the last of
	 * them tells the sequencer.
	 */
	for (int i = 0; i < nodes_count(); i++)
	{
		ApplyTask  *task = (tx->executing >> i & 1) ? task_find(tx, i) : NULL;

		if (task != NULL && task->early)
			early_apply_promote(task);
	}
}

static void
commit(Transaction *tx)
{
	assert(tx->state == TX_DURABLE);
	tx->applying = 0;
	for (int i = 0; i < nodes_count(); i++)
	{
		Node	   *n = node_get(i);
		ApplyTask  *task;

		if (n->state == NODE_CATCHUP)
			node_pump(n);		/* it is in the journal now */
		if (n->state != NODE_ONLINE)
			continue;
		task = task_find(tx, i);
		if (task != NULL)
			task_commit(task);
		if (i == (int) tx->origin)
			continue;
		if (task == NULL)
			task_add(n, tx);	/* decided before it is executed */
		tx->applying |= UINT64_C(1) << i;
		tx_ring_push(&n->applying, tx);
		lag_add(n, tx);
	}
	if (tx->applying == 0)
		sequencer_applied(tx);
}

static void
roll_back(Transaction *tx)
{
	ApplyTask  *next;

	assert(tx->state == TX_ROLLED_BACK);
	tx->executing = 0;
	for (ApplyTask *task = tx->tasks; task != NULL; task = next)
	{
		next = task->next_of_tx;
		task_undo(task, false);
	}
}

void
node_apply_at_origin(Transaction *tx)
{
	Node	   *n;

	assert(tx->seq != 0);
	if (tx->origin == ORIGIN_NONE)
		return;
	n = node_get((int) tx->origin);
	if (n->state != NODE_ONLINE || n->applied >= tx->seq || task_find(tx, n->index) != NULL)
		return;					/* it gets it from the journal, or has it, or
								 * will */
	tx_ring_push(&n->doubtful, tx);
	to_membership->ask_doubtful(n);
}

/*
 * The node has just told how far it is.  A doubtful transaction whose question
 * came after that answer was asked for is given to it for nothing, and finds
 * out by LS001.
 */
void
tasks_add_doubtful(Node *n)
{
	Transaction *tx;

	while ((tx = tx_ring_pop(&n->doubtful, UINT64_MAX)) != NULL)
	{
		if (n->state == NODE_ONLINE && n->applied < tx->seq && task_find(tx, n->index) == NULL)
		{
			log_message(LOG_DEBUG, n->config->name, "seq %" PRIu64 " of pid %" PRIu32 " was not committed by its backend",
						tx->seq, tx->pid);
			task_add(n, tx);
		}
		tx_unref(tx);
	}
}

const PeerOps peer_ops = {
	.execute = execute,
	.commit = commit,
	.roll_back = roll_back,
	.apply_at_origin = node_apply_at_origin
};
