/*
 * sequencer_seqs.c
 *	  Which seqs have been given, which of them are durable, and to whom they were given.
 *
 * `undurable` has the transactions that are DECIDED, in seq order.
 */
#include "loop.h"
#include "sequencer_private.h"

static Decided *decided;
static uint64_t last_decided;
static uint64_t last_durable;
static uint64_t last_at_start;
static TxList undurable;

Decided *
seqs_start(uint64_t last)
{
	last_decided = last_durable = last_at_start = last;
	decided = decided_create(DECIDED_CHUNK, DECIDED_KEPT, DECIDED_MOST, DECIDED_KEPT_MS);
	return decided;
}

void
seqs_next(Transaction *tx)
{
	LsIdentity	id = {ls_slice_of(tx->node), tx->boot, tx->pid, tx->xcount};

	tx->seq = ++last_decided;
	tx_move(tx, TX_DECIDED);
	list_add(&undurable, tx);
	decided_add(decided, &id, tx->seq, loop_now_us() / 1000);
}

void
seqs_durable(Transaction *tx)
{
	list_remove(&undurable, tx);
	last_durable = tx->seq;
	tx_move(tx, TX_DURABLE);
}

/* ---------- asking */

Transaction *
sequencer_undurable(Transaction *previous)
{
	return previous == NULL ? undurable.first : previous->next;
}

uint64_t
sequencer_find_decided(const LsIdentity *id)
{
	return decided_find(decided, id);
}

uint64_t
sequencer_decided_first(void)
{
	uint64_t	first = decided_first(decided);

	return first != 0 ? first : last_decided + 1;
}

uint64_t
sequencer_last_decided(void)
{
	return last_decided;
}

uint64_t
sequencer_last_durable(void)
{
	return last_durable;
}

bool
sequencer_has_decided(void)
{
	return last_decided > last_at_start;
}
