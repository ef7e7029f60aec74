/*
 * querytext.c
 *	  A forwarded query as it is shown to users.
 *
 *	 UPDATE ONLY public.t SET v = $1 WHERE id OPERATOR(pg_catalog.=) $2::pg_catalog.int4
 *
 * is easier to read as
 *
 *	 UPDATE ONLY public.t SET v = '7' WHERE id = '1'
 *
 * and the same for the row of a run of rows (extension/capture/batch.c) to which a key belongs.
 *
 * The text is for an error's detail only: a quoted name that looks like what is replaced here is
 * shown slightly wrong.  Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "querytext.h"

#define HEAD_MAX 160			/* bytes of what comes before WHERE */
#define TAIL_MAX 240			/* of what comes from there on */
#define VALUE_MAX 40

static const char where[] = " WHERE ";
static const char image[] = " WHERE ctid OPERATOR(pg_catalog.=) COALESCE(";

static void
add(Buffer *out, const char *text)
{
	buffer_append(out, text, strlen(text));
}

/* At most max bytes, cut between characters, in one line. */
static void
add_cut(Buffer *out, const uint8_t *text, size_t len, size_t max)
{
	size_t		n = text_cut(text, len, max);

	for (size_t i = 0; i < n; i++)
	{
		bool		space = text[i] == '\n' || text[i] == '\t' || text[i] == '\r';

		buffer_append_printable(out, space ? (const uint8_t *) " " : &text[i], 1);
	}
	if (n < len)
		add(out, "...");
}

static void
add_value(Buffer *out, const LsSlice *value)
{
	if (value->data == NULL)
	{
		add(out, "NULL");
		return;
	}
	add(out, "'");
	add_cut(out, value->data, value->len, VALUE_MAX);
	add(out, "'");
}

/* Parameter n, from 1. */
static bool
find_param(const LsQuery *query, unsigned long n, LsSlice *value)
{
	LsSlice		rest = query->params;

	while (n > 0 && ls_next_param(&rest, value))
		n--;
	return n == 0;
}

/* text is NUL-terminated: see query_shown. */
static bool
begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* ---------- a run of changed rows: its parameters are arrays */

/* Element n, from 1, of an array as the extension writes it: {NULL,"a","b \"c\""}. */
static void
add_element(Buffer *out, const LsSlice *array, int64_t n)
{
	Buffer		element = {0};
	LsSlice		value;
	bool		inside = false;
	bool		null = true;

	for (size_t i = 1; i + 1 < array->len && n > 0; i++)
	{
		const uint8_t *c = &array->data[i];

		if (*c == '"')
		{
			inside = !inside;
			null &= n > 1;
		}
		else if (!inside)
			n -= *c == ',' || *c == ';';	/* ; of boxes */
		else
		{
			c += *c == '\\';
			i = (size_t) (c - array->data);
			if (n == 1)
				buffer_append(&element, c, 1);
		}
	}
	value.data = null ? NULL : element.len > 0 ? element.data : (const uint8_t *) "";
	value.len = element.len;
	add_value(out, &value);
	buffer_free(&element);
}

/* The text as if each row travelled alone: $1 for u.c1.  NULL: it is no run. */
static char *
without_arrays(const char *text)
{
	const char *clause = strstr(text, " ROWS FROM (");
	const char *tail = clause != NULL ? strstr(clause, where) : NULL;
	Buffer		out = {0};

	if (tail == NULL || clause == text)
		return NULL;
	do
		clause--;				/* FROM or USING */
	while (clause > text && *clause != ' ');
	for (const char *at = text; *at != '\0';)
	{
		if (at == clause)
			at = tail;
		if (begins(at, "u.c"))
		{
			add(&out, "$");
			at += strlen("u.c");
		}
		else if (begins(at, " AS x "))
			at += strlen(" AS x");
		else if (begins(at, " x."))
		{
			add(&out, " ");
			at += strlen(" x.");
		}
		else
			buffer_append(&out, at++, 1);
	}
	buffer_append(&out, "", 1);
	return (char *) out.data;
}

/* Past a name with its schema: ::pg_catalog."char"[] */
static const char *
skip_type(const char *at)
{
	bool		quoted = false;

	for (; *at != '\0'; at++)
	{
		if (*at == '"')
			quoted = !quoted;
		else if (!quoted && strchr(" ,()", *at) != NULL)
			break;
	}
	return at;
}

/*
 * The text, with the values of its parameters if they may be shown; of a run those of this row,
 * from 1 (0: it is no run).
 */
static void
add_simplified(Buffer *out, const LsQuery *query, const char *at, const char *end, bool values, int64_t row)
{
	while (at < end)
	{
		LsSlice		value;
		char	   *after;
		unsigned long n;

		if (begins(at, "OPERATOR(pg_catalog."))
		{
			at += strlen("OPERATOR(pg_catalog.");
			while (at < end && *at != ')')
				buffer_append(out, at++, 1);
			at += at < end;
		}
		else if (*at == '$' && at[1] >= '1' && at[1] <= '9')
		{
			n = strtoul(at + 1, &after, 10);
			if (!values || !find_param(query, n, &value))
				buffer_append(out, at, (size_t) (after - at));
			else if (row > 0)
				add_element(out, &value, row);
			else
				add_value(out, &value);
			at = after;
			if (begins(at, "::"))
				at = skip_type(at);
		}
		else
			buffer_append(out, at++, 1);
	}
}

/* WHERE the whole row is what it was. */
static void
add_image(Buffer *out, const LsQuery *query, const char *text)
{
	const char *row = strstr(text, "ROW($");
	unsigned long n = row != NULL ? strtoul(row + strlen("ROW($"), NULL, 10) : 0;
	const char *separator = "";
	LsSlice		value;

	add(out, " WHERE the row is (");
	for (; n > 0 && find_param(query, n, &value); n++)
	{
		add(out, separator);
		add_value(out, &value);
		separator = ", ";
	}
	add(out, ")");
}

/* ---------- which row of a run */

static bool
same_name(const LsSlice *a, const LsSlice *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/*
 * Keys are in the order of the rows.  If there are as many of this index as there are rows, each
 * row has one, and the key's position gives its row.  0: the row is not known.
 */
static int64_t
row_of_key(const LsQuery *query, const LsKey *key)
{
	LsSlice		rest = query->keys;
	LsKey		k;
	int64_t		n = 0;
	int64_t		found = 0;

	while (ls_next_key(&rest, &k))
	{
		if (k.mode != key->mode || !same_name(&k.name, &key->name))
			continue;
		n++;
		if (k.hash == key->hash && found == 0)
			found = n;
	}
	return n == query->rows ? found : 0;
}

static void
add_line(Buffer *out, const LsQuery *query, int64_t row)
{
	LsSlice		data = {NULL, 0};
	const uint8_t *end;

	if (!find_param(query, 1, &data) || data.data == NULL)
		return;
	for (; row > 1; row--)
	{
		end = memchr(data.data, '\n', data.len);
		if (end == NULL)
			return;
		data.len -= (size_t) (end + 1 - data.data);
		data.data = end + 1;
	}
	end = memchr(data.data, '\n', data.len);
	add(out, ": ");
	add_cut(out, data.data, end != NULL ? (size_t) (end - data.data) : data.len, TAIL_MAX);
}

/* ---------- all of it */

static void
add_parts(Buffer *out, const LsQuery *query, const char *text, bool head, bool values, int64_t row)
{
	const char *tail = NULL;
	Buffer		part = {0};

	for (const char *at = text; (at = strstr(at, where)) != NULL; at++)
	{
		tail = at;
		if (begins(at, image))
			break;
	}
	if (tail == NULL)
		tail = text + strlen(text);
	add_simplified(&part, query, text, tail, head, row);
	add_cut(out, (const uint8_t *) part.data, part.len, HEAD_MAX);
	part.len = 0;
	if (begins(tail, image))
		add_image(&part, query, tail);
	else
		add_simplified(&part, query, tail, tail + strlen(tail), values, row);
	if (part.len > 0)
		add_cut(out, (const uint8_t *) part.data, part.len, TAIL_MAX);
	buffer_free(&part);
}

char *
query_shown(const LsQuery *query, const LsKey *key, bool own)
{
	Buffer		out = {0};
	char	   *text = xstrndup(query->text.data, query->text.len);
	char	   *alone = query->form == LS_FORM_ROW ? without_arrays(text) : NULL;
	int64_t		row = own && key != NULL ? row_of_key(query, key) : 0;

	if (alone != NULL)
		add_parts(&out, query, alone, row > 0, row > 0, row);
	else if (query->form == LS_FORM_ROW)
		add_parts(&out, query, text, own, true, 0);
	else
		add_cut(&out, query->text.data, query->text.len, HEAD_MAX);
	if (query->form == LS_FORM_COPY && row > 0)
		add_line(&out, query, row);
	free(alone);
	buffer_append(&out, "", 1);
	free(text);
	return (char *) out.data;
}
