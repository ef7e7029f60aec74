/*
 * sequencer_keys.c
 *	  The keys of a transaction's queries, and words for a conflict: which key,
 *	  of which query, who was first.  Loop's thread; scratch is kept.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "node.h"
#include "sequencer_private.h"
#include "spill.h"

#define KEYS_KEPT 100000		/* scratch beyond is given back */
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

/* Add the keys of one query; the scratch may move. */
static void
add_keys(KeyList *list, LsQuery *query)
{
	if (list->n + query->nkeys > keys_cap)
	{
		keys_cap = (list->n + query->nkeys) * 2;
		keys = xrealloc(keys, keys_cap * sizeof(LsKey));
	}
	while (ls_next_key(&query->keys, &keys[list->n]))
		list->n++;
	list->ddl |= query->ddl;
}

static KeyList
finished(KeyList list)
{
	if (list.keys == NULL)
		list.keys = keys;
	for (size_t i = 0; i < list.n && !list.whole_table; i++)
		list.whole_table = list.keys[i].mode == LS_TABLE_X || list.keys[i].mode == LS_TABLE_S;
	return list;
}

static KeyList
keys_in(LsSlice queries)
{
	KeyList		list = {0};
	LsQuery		query;

	while (next_query(&queries, &query))
		add_keys(&list, &query);
	return finished(list);
}

/* Scratch that one large transaction made grow is given back. */
static void
shrink(void)
{
	if (keys_cap <= KEYS_KEPT)
		return;
	free(keys);
	keys = NULL;
	keys_cap = 0;
}

KeyList
keys_of(const Transaction *tx)
{
	LsSlice		queries = {tx->queries.data, tx->queries.len};
	KeyList		list = {0};

	shrink();
	if (tx->spill == NULL)
		return keys_in(queries);
	list.keys = tx->spill->keys;
	list.n = tx->spill->nkeys;
	return finished(list);
}

bool
keys_of_record(const JournalRecord *r, const char *dir, KeyList *list, const char **error)
{
	Transaction *tx;
	TxCursor	cursor = {0};
	LsSlice		payload;
	LsQuery		query;

	shrink();
	memset(list, 0, sizeof(*list));
	if (r->body.id == 0)
	{
		*list = keys_in(r->queries);
		return true;
	}
	tx = tx_from_record(r, 0, dir, error);
	if (tx == NULL)
		return false;
	tx_cursor_start(&cursor);
	while (tx_next(&cursor, tx, &payload, error) && ls_get_query(payload, &query) == NULL)
		add_keys(list, &query);
	if (*error == NULL && cursor.next != tx->nstatements)
		*error = "a query in it is malformed";
	tx_cursor_free(&cursor);
	tx_unref(tx);
	/* names point into what is gone */
	for (size_t i = 0; i < list->n; i++)
		keys[i].name = (LsSlice) {NULL, 0};
	*list = finished(*list);
	return *error == NULL;
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

/*
 * The text of the query that has key i of its transaction, as it is shown
 * (malloc'ed), that query's form, and the key with its name, which may be in
 * *copy.
 */
static char *
query_of_key(const Transaction *tx, const KeyList *list, size_t i, Buffer *copy, LsKey *key, LsForm *form)
{
	LsSlice		rest = {tx->queries.data, tx->queries.len};
	LsQuery		query = {0};

	*key = list->keys[i];
	if (tx->spill != NULL)
	{
		if (!tx_find_key(tx, i, copy, &query, key))
			query.text = (LsSlice) {NULL, 0};
		*form = query.form;
		return tx_shown_text(query.text);
	}
	while (next_query(&rest, &query))
	{
		if (key->name.data >= query.keys.data && key->name.data <= query.keys.data + query.keys.len)
			break;
	}
	*form = query.form;
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
conflict_detail(const Transaction *loser, const KeyList *list,
				const Certificate *c, const Transaction *winner)
{
	Buffer		copy = {0};
	LsKey		key;
	LsForm		form;
	char	   *query = query_of_key(loser, list, c->key_index, &copy, &key, &form);
	char	   *words = winner_words(c, winner);
	int			name_len = (int) key.name.len;
	const char *name = key.name.data != NULL ? (const char *) key.name.data : "";
	char	   *detail = form == LS_FORM_KEYS ?
	xasprintf("Key %.*s, which this transaction has %s, %s.", name_len, name,
			  ls_mode_is_read(key.mode) ? "read" : "locked", words) :
	xasprintf("Key %.*s of query \"%s\" %s.", name_len, name, query, words);

	buffer_free(&copy);
	free(query);
	free(words);
	return detail;
}
