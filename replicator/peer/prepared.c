/*
 * prepared.c
 *	  Texts that one connection has prepared.  A hash table with open addressing
 *	  and stable places; names are never used twice, so one whose PREPARE failed
 *	  or was skipped is no trouble.
 */
#include "prepared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "buffer.h"

#define SLOTS 2048				/* a power of two, over twice STATEMENTS_MAX */

static void
new_name(Statements *s, Statement *st)
{
	snprintf(st->name, sizeof(st->name), "l%" PRIu32, ++s->names);
	st->state = STATEMENT_NEW;
}

static bool
is_same(const Statement *st, uint64_t hash, LsSlice text, LsSlice settings)
{
	return st->hash == hash && st->text_len == text.len && st->key_len == text.len + settings.len &&
		memcmp(st->key, text.data, text.len) == 0 &&
		(settings.len == 0 || memcmp(st->key + text.len, settings.data, settings.len) == 0);
}

Statement *
statements_find(Statements *s, LsSlice text, LsSlice settings)
{
	uint64_t	hash;
	size_t		i;
	Statement  *st;

	if (text.len + settings.len > STATEMENT_TEXT_MAX)
		return NULL;
	if (s->slots == NULL)
		s->slots = xcalloc(SLOTS, sizeof(Statement));
	hash = XXH3_64bits_withSeed(text.data, text.len,
								settings.len > 0 ? XXH3_64bits(settings.data, settings.len) : 0);
	for (i = hash & (SLOTS - 1); s->slots[i].key != NULL; i = (i + 1) & (SLOTS - 1))
	{
		if (is_same(&s->slots[i], hash, text, settings))
			return &s->slots[i];
	}
	if (statements_full(s))
		return NULL;
	st = &s->slots[i];
	st->hash = hash;
	st->text_len = text.len;
	st->key_len = text.len + settings.len;
	st->key = xmalloc(st->key_len + 1);
	memcpy(st->key, text.data, text.len);
	if (settings.len > 0)
		memcpy(st->key + text.len, settings.data, settings.len);
	s->n++;
	new_name(s, st);
	return st;
}

void
statements_failed(Statements *s, Statement *st)
{
	new_name(s, st);
}

bool
statements_full(const Statements *s)
{
	return s->n >= STATEMENTS_MAX;
}

void
statements_clear(Statements *s)
{
	for (int i = 0; s->slots != NULL && i < SLOTS; i++)
		free(s->slots[i].key);
	free(s->slots);
	s->slots = NULL;
	s->n = 0;
}
