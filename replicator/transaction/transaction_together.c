/*
 * transaction_together.c
 *	  Executing several decided transactions as one on a node that is not their origin:
 *	  which ones may be combined, and how.
 *
 * The node does not need them to be separate: all are decided, and readers see all or none,
 * which is a state that the cluster has passed through.  That saves a claim of the turn, a row of progress, a commit and a
 * round trip for each.  catchup.c combines what the journal has, apply_task.c what has
 * gathered in the queue of a node that is online.
 *
 * Only changes of rows may be combined.  DDL, notifications (PostgreSQL merges equal ones
 * of a transaction), commands outside of transactions and unknown kinds of queries are
 * executed alone.  So are transactions with settings, which include the time at their
 * origin.
 *
 * The combined transaction has no queries of its own; its statements are those of its members.
 */
#include "transaction.h"

static bool
changes_rows(const LsQuery *q)
{
	switch (q->reason)
	{
		case LS_REASON_ROW_CHANGED:
		case LS_REASON_ROW_RUN:
		case LS_REASON_SHIPPABLE:
		case LS_REASON_READ:
		case LS_REASON_SEQUENCE:
			return !q->ddl && q->settings.len == 0;
		default:
			return false;
	}
}

static bool
is_rows_only(const Transaction *tx)
{
	TxCursor	cursor = {0};
	LsSlice		payload;
	LsQuery		query;
	const char *error;

	if (tx->spill != NULL || tx_has_ddl(tx))
		return false;
	tx_cursor_start(&cursor);
	while (tx_next(&cursor, tx, &payload, &error))
	{
		if (ls_get_query(payload, &query) != NULL || !changes_rows(&query))
			return false;
	}
	return true;
}

/* The answer is kept, as each of its nodes may be about to ask. */
bool
tx_may_be_together(Transaction *tx)
{
	if (tx->together == TOGETHER_UNKNOWN)
		tx->together = is_rows_only(tx) ? TOGETHER_YES : TOGETHER_NO;
	return tx->together == TOGETHER_YES;
}

Transaction *
tx_together(Transaction *const *members, size_t n)
{
	const Transaction *first = members[0];
	LsIdentity	id = {.node = ls_slice_of(first->node),.boot = first->boot,.pid = first->pid,.xcount = first->xcount};
	Transaction *tx = tx_create(&id, ls_slice_of(first->database), first->origin);

	tx->state = TX_DURABLE;
	tx->seq = members[n - 1]->seq;
	tx->chain = members[n - 1]->chain;
	tx->members = xmalloc(n * sizeof(*tx->members));
	for (size_t i = 0; i < n; i++)
	{
		Transaction *m = members[i];

		tx->members[tx->nmembers++] = tx_ref(m);
		if (m->depends_on < first->seq && m->depends_on > tx->depends_on)
			tx->depends_on = m->depends_on;
		tx->nstatements += m->nstatements;
	}
	return tx;
}

uint64_t
tx_first_seq(const Transaction *tx)
{
	return tx->nmembers > 0 ? tx->members[0]->seq : tx->seq;
}
