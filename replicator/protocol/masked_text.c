/*
 * masked_text.c
 *	  Parts of a text that not every role may read, see masked_text.h.
 *
 * A part is  LS_MASK_BEGIN table RS table ... LS_MASK_TEXT text LS_MASK_END.
 * Nothing between has one of these characters: names and values with control
 * characters are escaped when they become part of a text.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "masked_text.h"

#define TABLES_MAX 8			/* with more, rights are not checked, and the
								 * part is hidden */

static void
add_char(Buffer *out, char c)
{
	buffer_append(out, &c, 1);
}

size_t
masked_table_len(const LsSlice *key)
{
	bool		quoted = false;

	if (key->len > 9 && memcmp(key->data, "database ", 9) == 0)
		return key->len;
	if (key->len > 13 && memcmp(key->data, "large object ", 13) == 0)
		return 12;
	for (size_t i = 0; i < key->len; i++)
	{
		if (key->data[i] == '"')
			quoted = !quoted;
		else if (key->data[i] == ' ' && !quoted)
			return i;
	}
	return key->len;
}

static bool
is_database(const LsSlice *key)
{
	return key->len > 9 && memcmp(key->data, "database ", 9) == 0;
}

static bool
is_among(const LsSlice *tables, size_t n, const LsSlice *table)
{
	for (size_t i = 0; i < n; i++)
	{
		if (tables[i].len == table->len && memcmp(tables[i].data, table->data, table->len) == 0)
			return true;
	}
	return false;
}

/* Nothing if there are too many. */
static void
add_tables(Buffer *out, const LsQuery *query)
{
	LsSlice		rest = query->keys;
	LsSlice		tables[TABLES_MAX];
	size_t		n = 0;
	LsKey		key;

	while (ls_next_key(&rest, &key))
	{
		LsSlice		table = {key.name.data, masked_table_len(&key.name)};

		if (table.len == 0 || is_database(&key.name) || is_among(tables, n, &table))
			continue;
		if (n == TABLES_MAX)
			return;
		tables[n++] = table;
	}
	for (size_t i = 0; i < n; i++)
	{
		if (i > 0)
			add_char(out, LS_MASK_AND);
		buffer_append_printable(out, tables[i].data, tables[i].len);
	}
}

static char *
finish(Buffer *out, const char *text)
{
	add_char(out, LS_MASK_TEXT);
	buffer_append_printable(out, text, strlen(text));
	add_char(out, LS_MASK_END);
	add_char(out, '\0');
	return (char *) out->data;
}

char *
masked_part(const char *text, const LsQuery *query)
{
	Buffer		out = {0};

	add_char(&out, LS_MASK_BEGIN);
	if (query != NULL)
		add_tables(&out, query);
	return finish(&out, text);
}

static void
add_quoted(Buffer *out, const char *name)
{
	add_char(out, '"');
	for (; *name != '\0'; name++)
	{
		if (*name == '"')
			add_char(out, '"');
		buffer_append_printable(out, name, 1);
	}
	add_char(out, '"');
}

char *
masked_of_table(const char *text, const char *schema, const char *table)
{
	Buffer		out = {0};

	add_char(&out, LS_MASK_BEGIN);
	if (schema != NULL && table != NULL)
	{
		add_quoted(&out, schema);
		add_char(&out, '.');
		add_quoted(&out, table);
	}
	return finish(&out, text);
}

char *
masked_shown(const char *text)
{
	Buffer		out = {0};
	bool		naming = false;

	for (; *text != '\0'; text++)
	{
		if (*text == LS_MASK_BEGIN || *text == LS_MASK_TEXT)
			naming = *text == LS_MASK_BEGIN;
		else if (!naming && *text != LS_MASK_END)
			add_char(&out, *text);
	}
	add_char(&out, '\0');
	return (char *) out.data;
}
