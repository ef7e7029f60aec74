/*
 * transaction.c
 *	  A transaction in the replicator: its queue of queries and its state.
 *
 *	  QUEUED ---> WAITING ---> RESERVED ---> DECIDED ---> DURABLE ---> DONE
 *	     |  \________|___________^ |
 *	     v           v             v
 *	     +------> ROLLED_BACK <----+
 *
 * The line between RESERVED and DECIDED is the one that matters: left of it a
 * transaction may vanish without a trace, right of it it exists and can only go
 * forward.  tx_move() is the only writer of Transaction.state, and legal_moves
 * the only list of what it may do; an illegal move is a bug that would put the
 * copies at risk, so the daemon aborts: the journal has everything decided.
 *
 * Everything here belongs to the loop's thread.  Memory: a transaction owns its
 * strings, queries and lists; they go with the last reference.
 */
#include "transaction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "log.h"

#define SHOWN_TEXT 100			/* bytes of a query in messages */

typedef struct LegalMove
{
	TxState		from;
	TxState		to;
	const char *sentence;
} LegalMove;

static const LegalMove legal_moves[] = {
	{TX_QUEUED, TX_WAITING, "asks to commit and waits for a lock of another node"},
	{TX_QUEUED, TX_RESERVED, "asks to commit and is reserved"},
	{TX_QUEUED, TX_ROLLED_BACK, "is rolled back before it was reserved"},
	{TX_WAITING, TX_RESERVED, "has waited for a lock and is reserved"},
	{TX_WAITING, TX_ROLLED_BACK, "is rolled back while it waited for a lock"},
	{TX_RESERVED, TX_DECIDED, "is decided"},
	{TX_RESERVED, TX_ROLLED_BACK, "is rolled back after it was reserved"},
	{TX_DECIDED, TX_DURABLE, "is in the journal for good"},
	{TX_DURABLE, TX_DONE, "is applied by every online node"},
};

Transaction *
tx_create(const LsIdentity *id, LsSlice database, uint32_t origin)
{
	Transaction *tx = xcalloc(1, sizeof(Transaction));

	tx->state = TX_QUEUED;
	tx->refs = 1;
	tx->origin = origin;
	tx->node = xstrndup(id->node.data, id->node.len);
	tx->database = xstrndup(database.data, database.len);
	tx->boot = id->boot;
	tx->pid = id->pid;
	tx->xcount = id->xcount;
	tx->wait = LS_WAIT_EXECUTED;
	return tx;
}

Transaction *
tx_ref(Transaction *tx)
{
	tx->refs++;
	return tx;
}

void
tx_unref(Transaction *tx)
{
	if (--tx->refs > 0)
		return;
	buffer_free(&tx->queries);
	free(tx->offsets);
	free(tx->after_tickets);
	free(tx->node);
	free(tx->database);
	free(tx);
}

const char *
tx_state_name(TxState s)
{
	switch (s)
	{
		case TX_QUEUED:
			return "queued";
		case TX_WAITING:
			return "waiting";
		case TX_RESERVED:
			return "reserved";
		case TX_DECIDED:
			return "decided";
		case TX_DURABLE:
			return "durable";
		case TX_DONE:
			return "done";
		case TX_ROLLED_BACK:
			return "rolled back";
	}
	return "unknown";
}

void
tx_move(Transaction *tx, TxState to)
{
	for (size_t i = 0; i < sizeof(legal_moves) / sizeof(legal_moves[0]); i++)
	{
		const LegalMove *move = &legal_moves[i];

		if (move->from == tx->state && move->to == to)
		{
			log_message(LOG_DEBUG, NULL,
						"transaction %s/%" PRIu32 "/%" PRIu64 " (ticket %" PRIu64 ", seq %" PRIu64 ") %s",
						tx->node, tx->pid, tx->xcount, tx->ticket, tx->seq, move->sentence);
			tx->state = to;
			return;
		}
	}
	log_message(LOG_ERROR, NULL, "transaction %s/%" PRIu32 "/%" PRIu64 " can't go from %s to %s",
				tx->node, tx->pid, tx->xcount, tx_state_name(tx->state), tx_state_name(to));
	abort();
}

void
tx_append(Transaction *tx, const uint8_t *message, size_t len)
{
	LsSlice		payload = {message + LS_HEADER_SIZE, len - LS_HEADER_SIZE};
	LsQuery		query;

	if (tx->nstatements == tx->offsets_cap)
	{
		tx->offsets_cap = tx->offsets_cap > 0 ? tx->offsets_cap * 2 : 8;
		tx->offsets = xrealloc(tx->offsets, tx->offsets_cap * sizeof(*tx->offsets));
	}
	tx->offsets[tx->nstatements++] = tx->queries.len;
	buffer_append(&tx->queries, message, len);

	/* what came in was checked when it came in */
	if (ls_get_query(payload, &query) == NULL && query.ddl)
		tx->ddl = true;
}

bool
tx_rollback_to(Transaction *tx, uint64_t keep)
{
	if (keep > tx->nstatements)
		return false;
	if (keep == tx->nstatements)
		return true;
	tx->queries.len = tx->offsets[keep];
	tx->nstatements = keep;
	if (tx->ddl)
	{
		tx->ddl = false;
		for (size_t i = 0; i < tx->nstatements && !tx->ddl; i++)
		{
			LsQuery		query;

			tx->ddl = ls_get_query(tx_statement(tx, i), &query) == NULL && query.ddl;
		}
	}
	return true;
}

LsSlice
tx_statement(const Transaction *tx, size_t i)
{
	size_t		start = tx->offsets[i];
	size_t		end = i + 1 < tx->nstatements ? tx->offsets[i + 1] : tx->queries.len;

	return (LsSlice) {tx->queries.data + start + LS_HEADER_SIZE, end - start - LS_HEADER_SIZE};
}

/* NULL when the record's queries are not a row of 'Q' messages. */
Transaction *
tx_from_record(const JournalRecord *r, uint32_t origin)
{
	Transaction *tx = tx_create(&r->identity, r->database, origin);
	LsSlice		rest = r->queries;

	tx->state = TX_DURABLE;
	tx->seq = r->seq;
	tx->depends_on = r->depends_on;
	tx->wait = r->wait;
	buffer_reserve(&tx->queries, rest.len);
	while (rest.len > 0)
	{
		LsMsgType	type;
		LsSlice		payload;
		LsQuery		query;
		size_t		size;

		if (ls_frame(rest.data, rest.len, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK ||
			type != LS_MSG_QUERY || ls_get_query(payload, &query) != NULL)
		{
			tx_unref(tx);
			return NULL;
		}
		size = LS_HEADER_SIZE + payload.len;
		tx_append(tx, rest.data, size);
		rest.data += size;
		rest.len -= size;
	}
	return tx;
}

char *
tx_shown_text(LsSlice query)
{
	size_t		len = query.len;
	char	   *text;

	if (len > SHOWN_TEXT)
	{
		for (len = SHOWN_TEXT; len > 0 && (query.data[len] & 0xC0) == 0x80; len--)
			;
	}
	text = xmalloc(len + 4);
	memcpy(text, query.data, len);
	strcpy(text + len, len < query.len ? "..." : "");
	for (size_t i = 0; i < len; i++)
	{
		if (text[i] == '\n' || text[i] == '\t' || text[i] == '\r')
			text[i] = ' ';
	}
	return text;
}
