/*
 * task_list.c
 *	  The tasks of a node, and those of a transaction: looked for and counted.
 */
#include "peer.h"

ApplyTask *
task_find(const Transaction *tx, int node)
{
	ApplyTask  *task = tx->tasks;

	while (task != NULL && task->node != node)
		task = task->next_of_tx;
	return task;
}

/*
 * Those that are undecided until it has executed them, and those whose clients
 * wait until it has committed them.
 */
int
tasks_awaited(const Node *n)
{
	int			count = 0;

	for (const ApplyTask *task = n->state == NODE_ONLINE ? n->tasks : NULL; task != NULL; task = task->node_next)
	{
		if (task->tx->state == TX_RESERVED)
			count += task->state != TASK_EXECUTED && task->tx->nafter_tickets == 0;
		else if (task->tx->seq != 0)
			count += task->tx->wait == LS_WAIT_APPLIED;
	}
	return count;
}

bool
tasks_decided_ddl(const Node *n)
{
	const ApplyTask *task = n->ddl_tasks > 0 ? n->tasks : NULL;

	while (task != NULL && !(tx_has_ddl(task->tx) && task->tx->seq != 0))
		task = task->node_next;
	return task != NULL;
}

void
task_count_ddl(Node *n, ApplyTask *task)
{
	if (task->ddl || !tx_has_ddl(task->tx))
		return;
	task->ddl = true;
	n->ddl_tasks++;
}
