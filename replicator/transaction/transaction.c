/*
 * transaction.c
 *	  A transaction in the replicator: its queue of queries and its state.
 *
 *	  QUEUED ---> HELD ---> WAITING ---> RESERVED ---> DECIDED ---> DURABLE ---> DONE
 *
 * HELD and WAITING may be left out, and each of the first four may end in ROLLED_BACK.
 *
 * The line between RESERVED and DECIDED is the one that matters: left of it a
 * transaction may vanish without a trace, right of it it exists and can only go
 * forward.  tx_move() is the only writer of Transaction.state, and legal_moves
 * the only list of what it may do; an illegal move is a bug that would put the
 * copies at risk, so the daemon aborts: the journal has everything decided.
 *
 * Everything here belongs to the loop's thread.  Memory: a transaction owns its
 * strings, queries and lists; they go with the last reference.  The queries of a
 * large one are on disk, but for the last few (spill.c).
 */
#include "transaction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "log.h"
#include "loop.h"
#include "role_names.h"
#include "spill.h"

typedef struct LegalMove
{
	TxState		from;
	TxState		to;
	const char *sentence;
} LegalMove;

static const LegalMove legal_moves[] = {
	{TX_QUEUED, TX_WAITING, "asks to commit and waits for a lock of another node"},
	{TX_QUEUED, TX_RESERVED, "asks to commit and is reserved"},
	{TX_QUEUED, TX_HELD, "asks to commit while its node lags behind"},
	{TX_QUEUED, TX_ROLLED_BACK, "is rolled back before it was reserved"},
	{TX_HELD, TX_WAITING, "was held and waits for a lock of another node"},
	{TX_HELD, TX_RESERVED, "was held and is reserved"},
	{TX_HELD, TX_ROLLED_BACK, "is rolled back while it was held"},
	{TX_WAITING, TX_RESERVED, "has waited for a lock and is reserved"},
	{TX_WAITING, TX_ROLLED_BACK, "is rolled back while it waited for a lock"},
	{TX_RESERVED, TX_DECIDED, "is decided"},
	{TX_RESERVED, TX_ROLLED_BACK, "is rolled back after it was reserved"},
	{TX_DECIDED, TX_DURABLE, "is in the journal for good"},
	{TX_DURABLE, TX_DONE, "is applied by every online node"},
};

/* Bytes of all queries in memory. */
static size_t memory_of_all;

/* What a key of a stored query takes here, and when it is reserved. */
#define KEY_MEMORY 256

static void
charge(Transaction *tx, uint64_t memory, uint64_t size)
{
	tx->use->memory += memory - tx->charged.memory;
	tx->use->size += size - tx->charged.size;
	tx->charged.memory = memory;
	tx->charged.size = size;
}

static void
account(Transaction *tx)
{
	memory_of_all += tx->queries.len - tx->accounted;
	tx->accounted = tx->queries.len;
	if (tx->use != NULL)
		charge(tx, tx->queries.len + (tx->spill != NULL ? tx->spill->nkeys * KEY_MEMORY : 0), tx_bytes(tx));
}

void
tx_charge(Transaction *tx, const char *role)
{
	tx->use = role_use(role);
	account(tx);
}

/* Its bytes count for no role from now on. */
static void
discharge(Transaction *tx)
{
	if (tx->use == NULL)
		return;
	charge(tx, 0, 0);
	tx->use = NULL;
}

size_t
tx_memory_of_all(void)
{
	return memory_of_all;
}

size_t
tx_memory(const Transaction *tx)
{
	size_t		sum = tx->queries.len;

	for (size_t i = 0; i < tx->nmembers; i++)
		sum += tx->members[i]->queries.len;
	return sum;
}

uint64_t
tx_bytes(const Transaction *tx)
{
	return tx->queries.len + (tx->spill != NULL && tx->spill->body != NULL ? tx->spill->body->size : 0);
}

bool
tx_has_ddl(const Transaction *tx)
{
	return tx->first_ddl < tx->nstatements;
}

/* Statements that are on disk. */
static size_t
stored(const Transaction *tx)
{
	return tx->spill != NULL ? tx->spill->nstatements : 0;
}

Transaction *
tx_create(const LsIdentity *id, LsSlice database, uint32_t origin)
{
	Transaction *tx = xcalloc(1, sizeof(Transaction));

	tx->state = TX_QUEUED;
	tx->since_us = loop_now_us();
	tx->refs = 1;
	tx->origin = origin;
	tx->node = xstrndup(id->node.data, id->node.len);
	tx->database = xstrndup(database.data, database.len);
	tx->boot = id->boot;
	tx->pid = id->pid;
	tx->xcount = id->xcount;
	tx->wait = LS_WAIT_EXECUTED;
	tx->first_ddl = SIZE_MAX;
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
	discharge(tx);
	buffer_free(&tx->queries);
	account(tx);
	spill_free(tx->spill);
	free(tx->offsets);
	free(tx->after_tickets);
	free(tx->awaited);
	free((void *) tx->contended.data);
	free(tx->asked_for);
	for (size_t i = 0; i < tx->nmembers; i++)
		tx_unref(tx->members[i]);
	free(tx->members);
	buffer_free(&tx->effects);
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
		case TX_HELD:
			return "held";
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

/* When a transaction went on from there last. */
static uint64_t left_us[TX_ROLLED_BACK + 1];

uint64_t
tx_left_us(TxState state)
{
	return left_us[state];
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
			left_us[tx->state] = loop_now_us();
			tx->state = to;
			tx->since_us = loop_now_us();
			if (to == TX_DECIDED || to == TX_ROLLED_BACK)
				discharge(tx);
			return;
		}
	}
	log_message(LOG_ERROR, NULL, "transaction %s/%" PRIu32 "/%" PRIu64 " cannot go from %s to %s",
				tx->node, tx->pid, tx->xcount, tx_state_name(tx->state), tx_state_name(to));
	abort();
}

/* Note where a message begins that is being put at the end of queries. */
static void
add_offset(Transaction *tx)
{
	size_t		n = tx->nstatements - stored(tx);

	if (n == tx->offsets_cap)
	{
		tx->offsets_cap = tx->offsets_cap > 0 ? tx->offsets_cap * 2 : 8;
		tx->offsets = xrealloc(tx->offsets, tx->offsets_cap * sizeof(*tx->offsets));
	}
	tx->offsets[n] = tx->queries.len;
	tx->nstatements++;
}

void
tx_keep_effect(Transaction *tx, const uint8_t *message, size_t len)
{
	if (tx->effects.len == 0)
		tx->first_effect = tx->nstatements;
	buffer_append(&tx->effects, message, len);
}

void
tx_append(Transaction *tx, const uint8_t *message, size_t len, bool ddl)
{
	if (tx->first_ddl >= tx->nstatements)
		tx->first_ddl = ddl ? tx->nstatements : SIZE_MAX;
	add_offset(tx);
	buffer_append(&tx->queries, message, len);
	account(tx);
}

void
tx_forget_queries(Transaction *tx)
{
	buffer_free(&tx->queries);
	free(tx->offsets);
	tx->offsets = NULL;
	tx->offsets_cap = 0;
	account(tx);
}

/* The chunk that holds statement keep becomes the part in memory again. */
static bool
take_back_chunk(Transaction *tx, uint64_t keep)
{
	LsMsgType	type;
	LsSlice		payload;

	tx_forget_queries(tx);
	if (!spill_take_back(tx->spill, keep, &tx->queries))
		return false;
	tx->nstatements = stored(tx);
	for (size_t at = 0; at < tx->queries.len; at += LS_HEADER_SIZE + payload.len)
	{
		size_t		len = tx->queries.len;

		if (ls_frame(tx->queries.data + at, len - at, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK)
			abort();			/* its checksum was right */
		tx->queries.len = at;
		add_offset(tx);
		tx->queries.len = len;
	}
	account(tx);
	return true;
}

bool
tx_rollback_to(Transaction *tx, uint64_t keep)
{
	if (keep > tx->nstatements)
		return false;
	if (keep == tx->nstatements)
		return true;

	/* they come last, at the end of the transaction */
	if (keep <= tx->first_effect)
		tx->effects.len = 0;
	if (keep < stored(tx) && !take_back_chunk(tx, keep))
		return false;
	if (keep < tx->nstatements)
		tx->queries.len = tx->offsets[keep - stored(tx)];
	tx->nstatements = keep;
	account(tx);
	return true;
}

/* Payload of the i-th 'Q', which is in memory, of one that is not several as one. */
static LsSlice
in_memory(const Transaction *tx, size_t i)
{
	size_t		start = tx->offsets[i - stored(tx)];
	size_t		end = i + 1 < tx->nstatements ? tx->offsets[i + 1 - stored(tx)] : tx->queries.len;

	return (LsSlice) {tx->queries.data + start + LS_HEADER_SIZE, end - start - LS_HEADER_SIZE};
}

void
tx_cursor_start(TxCursor *c)
{
	c->next = c->member = c->before = 0;
	c->offset = BODY_START;
	c->chunk.len = c->chunk.pos = 0;
}

void
tx_cursor_free(TxCursor *c)
{
	buffer_free(&c->chunk);
}

const Transaction *
tx_member_at(const Transaction *tx, size_t *i)
{
	for (size_t m = 0; m < tx->nmembers; m++)
	{
		if (*i < tx->members[m]->nstatements)
			return tx->members[m];
		*i -= tx->members[m]->nstatements;
	}
	return tx;
}

/* The next one of several transactions as one. */
static LsSlice
next_of_members(TxCursor *c, const Transaction *tx)
{
	while (c->next - c->before >= tx->members[c->member]->nstatements)
		c->before += tx->members[c->member++]->nstatements;
	return in_memory(tx->members[c->member], c->next++ - c->before);
}

bool
tx_next(TxCursor *c, const Transaction *tx, LsSlice *payload, const char **error)
{
	LsMsgType	type;

	*error = NULL;
	if (c->next >= tx->nstatements)
		return false;
	if (tx->nmembers > 0)
	{
		*payload = next_of_members(c, tx);
		return true;
	}
	if (c->next >= stored(tx))
	{
		*payload = in_memory(tx, c->next++);
		return true;
	}
	if (c->chunk.pos >= c->chunk.len)
	{
		JournalStatus status = body_read(tx->spill->body, &c->offset, &c->chunk);

		if (status != JOURNAL_OK)
		{
			*error = body_error(tx->spill->body, status);
			return false;
		}
	}
	if (ls_frame(c->chunk.data + c->chunk.pos, c->chunk.len - c->chunk.pos, LS_MAX_PAYLOAD, &type, payload) != LS_FRAME_OK ||
		type != LS_MSG_QUERY)
	{
		*error = body_error(tx->spill->body, JOURNAL_TORN);
		return false;
	}
	c->chunk.pos += LS_HEADER_SIZE + payload->len;
	c->next++;
	return true;
}

bool
tx_find_statement(const Transaction *tx, size_t i, Buffer *copy, LsSlice *payload)
{
	if (i >= tx->nstatements)
		return false;
	tx = tx_member_at(tx, &i);
	if (i < stored(tx))
		return spill_find_statement(tx->spill, i, copy, payload);
	*payload = in_memory(tx, i);
	return true;
}

/* NULL when the record's queries are not a row of 'Q' messages. */
static const char *
take_queries(Transaction *tx, LsSlice rest)
{
	buffer_reserve(&tx->queries, rest.len);
	while (rest.len > 0)
	{
		LsMsgType	type;
		LsSlice		payload;
		LsQuery		query;
		size_t		size;

		if (ls_frame(rest.data, rest.len, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK ||
			type != LS_MSG_QUERY || ls_get_query(payload, &query) != NULL)
			return "its queries are malformed";
		size = LS_HEADER_SIZE + payload.len;
		tx_append(tx, rest.data, size, query.ddl);
		rest.data += size;
		rest.len -= size;
	}
	return NULL;
}

Transaction *
tx_from_record(const JournalRecord *r, uint32_t origin, const char *dir, const char **error)
{
	Transaction *tx = tx_create(&r->identity, r->database, origin);

	tx->state = TX_DURABLE;
	tx->seq = r->seq;
	tx->chain = r->chain;
	tx->depends_on = r->depends_on;
	tx->wait = r->wait;
	*error = NULL;
	if (r->body.id == 0)
		*error = take_queries(tx, r->queries);
	else
	{
		tx->spill = spill_from_journal(dir, &r->body, error);
		tx->nstatements = stored(tx);
		if (r->body.first_ddl < tx->nstatements)
			tx->first_ddl = r->body.first_ddl;
	}
	if (*error == NULL)
		return tx;
	tx_unref(tx);
	return NULL;
}
