/*
 * conflict_log.c
 *	  The last conflicts, in a ring, and their number by database, table and reason.
 *
 * Memory is bounded: RECENT conflicts, COUNTED tables (further ones are counted without
 * a table), DETAIL_MAX bytes of a detail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conflict_log.h"
#include "masked_text.h"
#include "log.h"
#include "loop.h"

#define RECENT 1000
#define COUNTED 2000
#define COUNTED_WITHOUT 200		/* of these, kept for databases and reasons
								 * without a table */
#define DETAIL_MAX 1000

/* A conflict, with copies of what it was given. */
typedef struct Kept
{
	Conflict	c;
	char	   *table;
	char	   *index;			/* or "whole table" */
} Kept;

typedef struct Count
{
	char	   *database;
	char	   *table;			/* NULL: not known */
	const char *reason;			/* static, as given */
	uint64_t	conflicts;
	uint64_t	last;
} Count;

const FactsColumn conflict_columns[CONFLICT_COLUMNS] = {
	{"time", true},				/* microseconds since 1970 */
	{"database", false},
	{"node", false},
	{"pid", true},
	{"transaction", true},
	{"winner_node", false},
	{"winner_pid", true},
	{"winner_seq", true},
	{"table", false},
	{"key", false},
	{"reason", false},
	{"sqlstate", false},
	{"update_order", false},
	{"detail", false},
};

const FactsColumn conflict_count_columns[CONFLICT_COUNT_COLUMNS] = {
	{"database", false},
	{"table", false},
	{"reason", false},
	{"conflicts", true},
	{"last", true},				/* microseconds since 1970 */
};

static const Config *config;
static Kept ring[RECENT];
static size_t nkept;			/* ever */
static Count counts[COUNTED];
static size_t ncounts;

/* Numbers of a row as text, see number(). */
static char numbers[FACTS_MAX_COLUMNS][24];
static int	nnumbers;

void
conflict_log_init(const Config *c)
{
	config = c;
}

void
conflict_detail_free(ConflictDetail *w)
{
	buffer_free(&w->copy);
	free(w->detail);
}

/* ---------- what a key is of */

static void
name_parts(Kept *k, const Conflict *c)
{
	size_t		len = masked_table_len(&c->key);

	if (c->key.len == 0)
		return;
	k->table = text_printable(c->key.data, len);
	if (c->whole_table)
		k->index = xstrdup("whole table");
	else if (len < c->key.len)
		k->index = text_printable(c->key.data + len + 1, c->key.len - len - 1);
}

/* ---------- adding */

static char *
copy_text(const char *text)
{
	return text != NULL ? xstrdup(text) : NULL;
}

static char *
copy_detail(const char *text)
{
	char	   *whole = text != NULL ? masked_shown(text) : NULL;
	char	   *shown = whole != NULL ? text_printable(whole, text_cut(whole, strlen(whole), DETAIL_MAX)) : NULL;

	free(whole);
	return shown;
}

static void
forget(Kept *k)
{
	free((char *) k->c.database);
	free((char *) k->c.node);
	free((char *) k->c.winner_node);
	free((char *) k->c.detail);
	free(k->table);
	free(k->index);
	memset(k, 0, sizeof(*k));
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static Count *
find_count(const char *database, const char *table, const char *reason)
{
	for (size_t i = 0; i < ncounts; i++)
	{
		Count	   *n = &counts[i];

		if (same_text(n->table, table) && same_text(n->database, database) && strcmp(n->reason, reason) == 0)
			return n;
	}
	return NULL;
}

static void
count(const char *database, const char *table, const char *reason, uint64_t time)
{
	Count	   *found = find_count(database, table, reason);

	if (found == NULL && ncounts >= COUNTED - COUNTED_WITHOUT)
	{
		table = NULL;
		found = find_count(database, table, reason);
	}
	if (found == NULL && ncounts < COUNTED)
	{
		found = &counts[ncounts++];
		found->database = copy_text(database);
		found->table = copy_text(table);
		found->reason = reason;
	}
	if (found == NULL)
		return;
	found->conflicts++;
	found->last = time;
}

static void
log_conflict(const Conflict *c)
{
	char	   *context = xasprintf("%s/%" PRIu32, c->node, c->pid);
	char	   *message = xasprintf("conflict in database \"%s\": %s", c->database, c->reason);

	char	   *detail = c->detail != NULL ? masked_shown(c->detail) : NULL;

	log_full(config->log_conflicts, context, message, detail, NULL);
	free(detail);
	free(context);
	free(message);
}

void
conflict_log_add(const Conflict *c)
{
	Kept	   *k = &ring[nkept++ % RECENT];

	forget(k);
	k->c = *c;
	k->c.time = loop_wall_us();
	k->c.database = copy_text(c->database);
	k->c.node = copy_text(c->node);
	k->c.winner_node = copy_text(c->winner_node);
	k->c.detail = copy_detail(c->detail);
	name_parts(k, c);
	k->c.key = (LsSlice) {NULL, 0};
	count(c->database, k->table, c->reason, k->c.time);
	log_conflict(c);
}

/* ---------- showing */

/* 0 is not known. */
static const char *
number(uint64_t n)
{
	char	   *text = numbers[nnumbers++ % FACTS_MAX_COLUMNS];

	if (n == 0)
		return NULL;
	snprintf(text, sizeof(numbers[0]), "%" PRIu64, n);
	return text;
}

bool
conflict_log_row(size_t i, const char **cells)
{
	const Kept *k;

	if (i >= RECENT || i >= nkept)
		return false;
	k = &ring[(nkept - 1 - i) % RECENT];
	cells[0] = number(k->c.time);
	cells[1] = k->c.database;
	cells[2] = k->c.node;
	cells[3] = number(k->c.pid);
	cells[4] = number(k->c.xcount);
	cells[5] = k->c.winner_node;
	cells[6] = number(k->c.winner_pid);
	cells[7] = number(k->c.winner_seq);
	cells[8] = k->table;
	cells[9] = k->index;
	cells[10] = k->c.reason;
	cells[11] = k->c.sqlstate;
	cells[12] = k->c.queued ? "queued" : "optimistic";
	cells[13] = k->c.detail;
	return true;
}

bool
conflict_count_row(size_t i, const char **cells)
{
	const Count *n = &counts[i];

	if (i >= ncounts)
		return false;
	cells[0] = n->database;
	cells[1] = n->table;
	cells[2] = n->reason;
	cells[3] = number(n->conflicts);
	cells[4] = number(n->last);
	return true;
}
