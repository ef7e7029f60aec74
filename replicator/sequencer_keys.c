/*
 * sequencer_keys.c
 *	  The keys of a transaction's queries, and words for a conflict: which key,
 *	  of which query, who was first.  Loop's thread; scratch is kept.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "sequencer_private.h"

#define WINNERS 65536			/* a power of two */

typedef struct Winner
{
	uint64_t	seq;
	uint32_t	pid;
	uint32_t	origin;
} Winner;

static Winner winners[WINNERS];

static LsKey *keys;
static size_t keys_cap;

/* Take the next query off the front of a row of 'Q' messages. */
static bool
next_query(LsSlice *rest, LsQuery *query)
{
	LsMsgType	type;
	LsSlice		payload;

	if (rest->len == 0 ||
		ls_frame(rest->data, rest->len, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK ||
		ls_get_query(payload, query) != NULL)
		return false;
	rest->data += LS_HEADER_SIZE + payload.len;
	rest->len -= LS_HEADER_SIZE + payload.len;
	return true;
}

KeyList
keys_of(LsSlice queries)
{
	KeyList		list = {0};
	LsQuery		query;

	while (next_query(&queries, &query))
	{
		if (list.n + query.nkeys > keys_cap)
		{
			keys_cap = (list.n + query.nkeys) * 2;
			keys = xrealloc(keys, keys_cap * sizeof(LsKey));
		}
		while (ls_next_key(&query.keys, &keys[list.n]))
		{
			LsKeyMode	mode = keys[list.n++].mode;

			if (mode == LS_TABLE_X || mode == LS_TABLE_S)
				list.whole_table = true;
		}
		list.ddl |= query.ddl;
	}
	list.keys = keys;
	return list;
}

/* ---------- who was first */

void
winners_remember(uint64_t seq, uint32_t origin, uint32_t pid)
{
	Winner	   *w = &winners[seq & (WINNERS - 1)];

	w->seq = seq;
	w->origin = origin;
	w->pid = pid;
}

/* The text of the query that has this key, as it is shown. */
static char *
query_of_key(const Transaction *tx, const LsKey *key)
{
	LsSlice		rest = {tx->queries.data, tx->queries.len};
	LsQuery		query = {0};

	while (next_query(&rest, &query))
	{
		/* the key's name points into the message that it came in */
		if (key->name.data >= query.keys.data && key->name.data <= query.keys.data + query.keys.len)
			break;
	}
	return tx_shown_text(query.text);
}

static char *
winner_words(const Certificate *c, const Transaction *winner)
{
	const Winner *w = &winners[c->winner_seq & (WINNERS - 1)];

	switch (c->kind)
	{
		case CONFLICT_DECIDED:
			if (w->seq == c->winner_seq)
				return xasprintf("was changed by a transaction of node \"%s\" (pid %" PRIu32 ", seq %" PRIu64 ")",
								 node_name((int) w->origin), w->pid, w->seq);
			return xasprintf("was changed by a transaction of another node (seq %" PRIu64 ")", c->winner_seq);
		case CONFLICT_RESERVED:
			if (winner != NULL)
				return xasprintf("is being changed by a transaction of node \"%s\" (pid %" PRIu32 ") that asked to commit first",
								 winner->node, winner->pid);
			return xstrdup("is being changed by a transaction that asked to commit first");
		case CONFLICT_TOO_OLD:
			break;
	}
	return xstrdup("was read longer ago than the replicator remembers");
}

char *
conflict_detail(const Transaction *loser, const LsKey *key,
				const Certificate *c, const Transaction *winner)
{
	char	   *query = query_of_key(loser, key);
	char	   *words = winner_words(c, winner);
	char	   *detail = xasprintf("Key %.*s of query \"%s\" %s.",
								   (int) key->name.len, (const char *) key->name.data, query, words);

	free(query);
	free(words);
	return detail;
}
