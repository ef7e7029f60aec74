/*
 * sequencer_keys.c
 *	  The keys of a transaction's queries.  Loop's thread; scratch is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "sequencer_private.h"
#include "spill.h"

#define KEYS_KEPT 100000		/* scratch beyond this size is freed */

static LsKey *keys;
static size_t keys_cap;

bool
next_query(LsSlice *rest, LsQuery *query)
{
	LsMsgType	type;
	LsSlice		payload;

	if (rest->len == 0 ||
		ls_frame(rest->data, rest->len, LS_MAX_PAYLOAD, &type, &payload) != LS_FRAME_OK ||
		!ls_take_query(payload, query))
		return false;
	rest->data += LS_HEADER_SIZE + payload.len;
	rest->len -= LS_HEADER_SIZE + payload.len;
	return true;
}

/* Add the keys of one query; the scratch may move. */
static void
add_keys(KeyList *list, LsQuery *query)
{
	size_t		most = query->keys.len / LS_MIN_KEY_SIZE;

	if (list->n + most > keys_cap)
	{
		keys_cap = (list->n + most) * 2;
		keys = xrealloc(keys, keys_cap * sizeof(LsKey));
	}
	while (ls_next_key(&query->keys, &keys[list->n]))
		list->n++;
	list->ddl |= query->ddl;
	list->index_step |= query->ddl && query->text.len > strlen(LS_INDEX_STEP) &&
		memcmp(query->text.data, LS_INDEX_STEP, strlen(LS_INDEX_STEP)) == 0;
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

/* Free scratch that a large transaction has enlarged. */
static void
shrink(void)
{
	if (keys_cap <= KEYS_KEPT)
		return;
	free(keys);
	keys = NULL;
	keys_cap = 0;
}

bool
is_database_key(const LsKey *k)
{
	return k->name.len > 9 && memcmp(k->name.data, "database ", 9) == 0;
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
keys_of_record(const JournalRecord *r, const char *dir, BodyQuery each, KeyList *list, const char **error)
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
	{
		add_keys(list, &query);
		each(r->database, r->seq, &query);
	}
	if (*error == NULL && cursor.next != tx->nstatements)
		*error = "a query in it is malformed";
	tx_cursor_free(&cursor);
	tx_unref(tx);
	/* the names point into memory that has been freed */
	for (size_t i = 0; i < list->n; i++)
		keys[i].name = (LsSlice) {NULL, 0};
	*list = finished(*list);
	return *error == NULL;
}
