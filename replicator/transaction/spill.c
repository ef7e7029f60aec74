/*
 * spill.c
 *	  The part of a large transaction's queue that is on disk.
 *
 *	  chunk 0 | chunk 1 | ... | chunk n-1 || queries (in memory)
 *	  <------- body, spill->nstatements -->
 *
 * Writing is the page cache's matter and done by the loop, a chunk of
 * BODY_CHUNK bytes at a time (transaction_memory once, when a transaction is
 * stored first).  Syncing is not: the thread of journal_sync.c does it, every
 * SYNC_EVERY bytes while the transaction arrives, so that little is left to sync
 * when it is asked for, and dirty pages don't pile up until writing has to wait.
 *
 * A write or sync that fails is remembered: the transaction is refused when it
 * asks, before anything is decided.  A failed sync must not be repeated,
 * as the next one may succeed without the data.
 */
#include "spill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "journal_sync.h"
#include "role_names.h"

#define SYNC_EVERY (16 * 1024 * 1024)
#define KEPT_SEGMENTS 2			/* room for so many of the journal is left */
#define ROLE_TIMES 4

void
spill_free(Spill *s)
{
	if (s == NULL)
		return;
	body_unref(s->body);
	free(s->chunks);
	free(s->keys);
	free(s->failure);
	free(s);
}

Spill *
spill_from_journal(const char *dir, const BodyRef *ref, const char **error)
{
	Spill	   *s = xcalloc(1, sizeof(Spill));

	s->nstatements = ref->nstatements;
	s->durable = true;
	s->body = body_open(dir, ref, error);
	if (s->body != NULL)
		return s;
	spill_free(s);
	return NULL;
}

static void
failed(Spill *s, const char *what, int error)
{
	if (s->failure != NULL || s->body == NULL)
		return;
	s->disk_full = error == ENOSPC || error == EDQUOT;
	s->failure = xasprintf("could not %s file \"%s\" in the journal's directory: %s", what, s->body->name, strerror(error));
}

const char *
tx_failure(const Transaction *tx, const char **sqlstate)
{
	if (tx->spill == NULL || tx->spill->failure == NULL)
		return NULL;
	*sqlstate = tx->spill->disk_full ? "53100" : "58030";
	return tx->spill->failure;
}

void
tx_discard(Transaction *tx)
{
	tx->nstatements = 0;
	if (tx->spill != NULL)
	{
		tx->spill->nstatements = tx->spill->nchunks = 0;
		body_unref(tx->spill->body);
		tx->spill->body = NULL;
		tx_forget_keys(tx);
	}
	tx_forget_queries(tx);
}

/* ---------- storing */

static void
add_keys(Spill *s, const LsQuery *query)
{
	LsSlice		rest = query->keys;
	LsKey		key;

	if (s->nkeys + query->nkeys > s->keys_cap)
	{
		s->keys_cap = (s->nkeys + query->nkeys) * 2;
		s->keys = xrealloc(s->keys, s->keys_cap * sizeof(LsKey));
	}
	while (ls_next_key(&rest, &key))
	{
		key.name = (LsSlice) {NULL, 0};
		s->keys[s->nkeys++] = key;
	}
}

static void
add_chunk(Spill *s)
{
	if (s->nchunks == s->chunks_cap)
	{
		s->chunks_cap = s->chunks_cap > 0 ? s->chunks_cap * 2 : 64;
		s->chunks = xrealloc(s->chunks, s->chunks_cap * sizeof(SpillChunk));
	}
	s->chunks[s->nchunks++] = (SpillChunk) {s->body->size, s->nstatements, s->nkeys};
}

/* Whole messages off the front of rest, about a chunk of them. */
static bool
store_chunk(Spill *s, LsSlice *rest)
{
	size_t		len = 0;
	size_t		n = 0;

	add_chunk(s);
	while (len < rest->len && len < BODY_CHUNK)
	{
		LsMsgType	type;
		LsSlice		payload;
		LsQuery		query;

		/* what came in was checked when it came in */
		if (ls_frame(rest->data + len, rest->len - len, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK ||
			ls_get_query(payload, &query) != NULL)
			abort();
		add_keys(s, &query);
		len += LS_HEADER_SIZE + payload.len;
		n++;
	}
	if (!body_append(s->body, rest->data, len))
	{
		failed(s, "write", errno);
		return false;
	}
	s->nstatements += n;
	rest->data += len;
	rest->len -= len;
	return true;
}

static void
on_presynced(void *arg, int error)
{
	Transaction *tx = arg;

	tx->spill->syncing = false;
	if (error != 0)
		failed(tx->spill, "flush", error);
	tx_unref(tx);
}

static bool
begin(Transaction *tx, const Config *config)
{
	const char *error;
	Spill	   *s = xcalloc(1, sizeof(Spill));

	tx->spill = s;
	s->body = body_create(config->journal_directory, &error);
	if (s->body != NULL)
		return true;
	s->disk_full = errno == ENOSPC || errno == EDQUOT;
	s->failure = xstrdup(error);
	return false;
}

/*
 * The journal's next segments come first, and open transactions may not fill the
 * disk: what a role has there is at most ROLE_TIMES what it leaves to the others.
 */
static uint64_t
room_to_leave(const Transaction *tx, const Config *config)
{
	uint64_t	of_role = tx->use != NULL ? tx->use->size / ROLE_TIMES : 0;

	return KEPT_SEGMENTS * (uint64_t) config->journal_segment_size + of_role;
}

bool
tx_store(Transaction *tx, const Config *config)
{
	LsSlice		rest = {tx->queries.data, tx->queries.len};
	Spill	   *s;

	if (tx->spill == NULL && !begin(tx, config))
		return false;
	s = tx->spill;
	if (s->body != NULL)
		s->body->keep_free = room_to_leave(tx, config);
	while (s->failure == NULL && rest.len > 0)
	{
		if (!store_chunk(s, &rest))
			return false;
	}
	tx_forget_queries(tx);
	if (s->failure == NULL && !s->syncing && s->body->size - s->synced > SYNC_EVERY)
	{
		s->synced = s->body->size;
		s->syncing = true;
		body_sync(s->body, on_presynced, tx_ref(tx));
	}
	return s->failure == NULL;
}

/* ---------- sealing */

typedef struct Sealing
{
	Transaction *tx;
	SpillDurable durable;
} Sealing;

static void
on_copied(void *arg)
{
	Sealing    *sealing = arg;
	Transaction *tx = sealing->tx;

	tx->spill->durable = tx->spill->failure == NULL;
	sealing->durable(tx);
	tx_unref(tx);
	free(sealing);
}

/* The copies that are waited for get it before it is decided: nobody else waits for that. */
static void
on_sealed(void *arg, int error)
{
	Sealing    *sealing = arg;
	Spill	   *s = sealing->tx->spill;

	if (error != 0)
		failed(s, "flush", error);
	if (body_watcher != NULL && s->body != NULL && s->failure == NULL)
		body_watcher->await(s->body->id, on_copied, sealing);
	else
		on_copied(sealing);
}

void
tx_seal(Transaction *tx, const Config *config, SpillDurable durable)
{
	Sealing    *sealing;

	if (tx->queries.len > 0 && !tx_store(tx, config))
		return;
	if (tx->spill->failure == NULL && !body_seal(tx->spill->body))
		failed(tx->spill, "truncate", errno);
	if (tx->spill->failure != NULL)
		return;
	sealing = xcalloc(1, sizeof(Sealing));
	sealing->tx = tx_ref(tx);
	sealing->durable = durable;
	/* behind the one that may be under way, whose failure counts */
	body_sync(tx->spill->body, on_sealed, sealing);
}

BodyRef
tx_keep_body(Transaction *tx)
{
	Spill	   *s = tx->spill;

	s->body->kept = true;
	return (BodyRef) {s->body->id, s->body->size, s->nstatements, tx_has_ddl(tx) ? tx->first_ddl : UINT64_MAX};
}

void
tx_forget_keys(Transaction *tx)
{
	free(tx->spill->keys);
	tx->spill->keys = NULL;
	tx->spill->nkeys = tx->spill->keys_cap = 0;
}

/* ---------- finding */

/* The last chunk for which at(chunk) <= wanted. */
static size_t
find_chunk(const Spill *s, uint64_t wanted, bool by_key)
{
	size_t		low = 0;
	size_t		high = s->nchunks;

	while (high - low > 1)
	{
		size_t		middle = (low + high) / 2;
		uint64_t	at = by_key ? s->chunks[middle].nkeys : s->chunks[middle].first;

		*(at <= wanted ? &low : &high) = middle;
	}
	return low;
}

static bool
read_chunk(const Spill *s, size_t chunk, Buffer *bytes)
{
	uint64_t	offset = s->chunks[chunk].offset;

	return body_read(s->body, &offset, bytes) == JOURNAL_OK;
}

bool
spill_take_back(Spill *s, uint64_t keep, Buffer *queries)
{
	size_t		chunk = find_chunk(s, keep, false);

	if (s->failure == NULL && !read_chunk(s, chunk, queries))
		failed(s, "read", errno);
	if (s->failure != NULL)
		return false;
	body_cut(s->body, s->chunks[chunk].offset);
	if (s->synced > s->body->size)
		s->synced = s->body->size;
	s->nstatements = s->chunks[chunk].first;
	s->nkeys = s->chunks[chunk].nkeys;
	s->nchunks = chunk;
	return true;
}

/* The next message of a chunk. */
static bool
next_message(Buffer *chunk, LsSlice *payload)
{
	LsMsgType	type;

	if (ls_frame(chunk->data + chunk->pos, chunk->len - chunk->pos, LS_MAX_PAYLOAD, &type, payload) != LS_FRAME_OK)
		return false;
	chunk->pos += LS_HEADER_SIZE + payload->len;
	return true;
}

bool
spill_find_statement(const Spill *s, size_t i, Buffer *copy, LsSlice *payload)
{
	size_t		chunk;

	if (s->nchunks == 0)
		return false;
	chunk = find_chunk(s, i, false);
	if (!read_chunk(s, chunk, copy))
		return false;
	for (size_t at = s->chunks[chunk].first; next_message(copy, payload); at++)
	{
		if (at == i)
			return true;
	}
	return false;
}

bool
tx_find_key(const Transaction *tx, size_t i, Buffer *copy, LsQuery *query, LsKey *key)
{
	const Spill *s = tx->spill;
	size_t		chunk = find_chunk(s, i, true);
	size_t		at;
	LsSlice		payload;

	if (s->nchunks == 0 || !read_chunk(s, chunk, copy))
		return false;
	at = s->chunks[chunk].nkeys;
	while (next_message(copy, &payload) && ls_get_query(payload, query) == NULL)
	{
		LsSlice		rest = query->keys;

		for (; ls_next_key(&rest, key); at++)
		{
			if (at == i)
				return true;
		}
	}
	return false;
}
