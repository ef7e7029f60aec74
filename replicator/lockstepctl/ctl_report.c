/*
 * ctl_report.c
 *	  The result of lockstepctl verify as text.
 *
 * For each object that differs: what each node has, nodes with equal values on one line.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"
#include "json_text.h"

#define LONGEST 300				/* bytes of a value */

/* A name, in one line; then at most so much of the text. */
static void
put_name(FILE *out, const json_t *object, const char *field, const char *after)
{
	const char *name = json_text_of(object, field);
	char	   *shown = text_printable(name, strlen(name));

	fprintf(out, "%s%s", shown, after);
	free(shown);
}

static void
put_value(FILE *out, const json_t *value, const char *nothing)
{
	const char *text = json_string_value(value);
	size_t		length = text != NULL ? strlen(text) : 0;

	while (length > 0 && text[length - 1] == '\n')
		length--;

	if (json_is_integer(value))
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (text == NULL)
		fputs(nothing, out);
	else if (length <= LONGEST)
		fwrite(text, 1, length, out);
	else
	{
		int			len = LONGEST;

		while (len > 0 && ((unsigned char) text[len] & 0xC0) == 0x80)
			len--;				/* not within a character */
		fprintf(out, "%.*s... (%zu bytes)", len, text, length);
	}
}

/* "n1, n3: value" for each value. */
static void
put_nodes(FILE *out, const json_t *nodes, const char *indent, const char *nothing)
{
	const char *name;
	json_t	   *value;

	json_object_foreach((json_t *) nodes, name, value)
	{
		const char *other;
		json_t	   *its;
		bool		before = true;
		bool		said = false;

		json_object_foreach((json_t *) nodes, other, its)
		{
			if (strcmp(other, name) == 0)
				before = false;
			else if (before && json_equal(its, value))
				said = true;
		}
		if (said)
			continue;
		fputs(indent, out);
		before = false;
		json_object_foreach((json_t *) nodes, other, its)
		{
			if (!json_equal(its, value))
				continue;
			fprintf(out, "%s%s", before ? ", " : "", other);
			before = true;
		}
		fputs(": ", out);
		put_value(out, value, nothing);
		fputs("\n", out);
	}
}

static void
put_rows(FILE *out, const json_t *difference)
{
	const char *columns = json_text_of(difference, "key_columns");
	const json_t *rows = json_object_get(difference, "rows");
	json_int_t	n = json_integer_value(json_object_get(difference, "rows_that_differ"));
	size_t		i;
	json_t	   *row;

	fprintf(out, "%s%" JSON_INTEGER_FORMAT " row%s\n", json_is_true(json_object_get(difference, "all_counted")) ? "" : "at least ",
			n, n == 1 ? "" : "s");
	json_array_foreach((json_t *) rows, i, row)
	{
		const json_t *key = json_object_get(row, columns[0] ? "key" : "row");

		if (columns[0])
			fprintf(out, "  (%s) = ", columns);
		else
			fputs("  row ", out);
		put_value(out, key, "");
		fputs("\n", out);
		put_nodes(out, json_object_get(row, "nodes"), "    ", "missing");
	}
	if ((json_int_t) json_array_size(rows) < n)
		fputs("  ... (--rows shows more)\n", out);
}

/* Definitions are long: lines at either end that are equal on all nodes are omitted. */
static json_t *
shortened(const json_t *nodes)
{
	json_t	   *copy = json_deep_copy(nodes);
	const char *name;
	json_t	   *value;

	for (;;)
	{
		const char *line = NULL;
		size_t		len = 0;
		bool		common = true;

		json_object_foreach(copy, name, value)
		{
			const char *text = json_string_value(value);

			if (text == NULL)
				return copy;
			if (line == NULL)
			{
				line = text;
				len = strcspn(text, "\n") + 1;
			}
			common &= strlen(text) > len && strlen(line) > len && strncmp(text, line, len) == 0;
		}
		if (!common)
			return copy;
		json_object_foreach(copy, name, value)
		{
			char	   *rest = xstrdup(json_string_value(value) + len);

			json_string_set(value, rest);
			free(rest);
		}
	}
}

static void
put_repaired(FILE *out, const json_t *repaired)
{
	size_t		i;
	json_t	   *one;

	json_array_foreach((json_t *) repaired, i, one)
	{
		const char *kind = json_text_of(one, "kind");

		fputs("repaired: database ", out);
		put_name(out, one, "database", ": ");
		fprintf(out, "%s ", strcmp(kind, "rows") == 0 ? "rows of" : kind);
		put_name(out, one, "object", "");
		if (strcmp(kind, "rows") == 0)
			fprintf(out, ": %" JSON_INTEGER_FORMAT " removed, %" JSON_INTEGER_FORMAT " added",
					json_integer_value(json_object_get(one, "removed")), json_integer_value(json_object_get(one, "added")));
		fputs("\n", out);
	}
}

/* A node that was not online. */
static void
put_stood(FILE *out, const json_t *stood)
{
	if (stood == NULL)
		return;
	fprintf(out, "repaired: node %s stood at seq %" JSON_INTEGER_FORMAT " and has now what the others had at seq %" JSON_INTEGER_FORMAT "\n",
			json_text_of(stood, "node"), json_integer_value(json_object_get(stood, "from")),
			json_integer_value(json_object_get(stood, "to")));
}

static void
put_difference(FILE *out, const json_t *difference)
{
	const char *kind = json_text_of(difference, "kind");

	if (json_text_of(difference, "database")[0])
	{
		fputs("database ", out);
		put_name(out, difference, "database", ": ");
	}
	if (strcmp(kind, "rows") == 0)
	{
		fputs("rows of ", out);
		put_name(out, difference, "object", ": ");
		put_rows(out, difference);
		return;
	}
	if (strcmp(kind, "index") == 0)
	{
		fputs("index ", out);
		put_name(out, difference, "object", " of ");
		put_name(out, difference, "table", " is damaged (REINDEX INDEX, on that node):\n");
	}
	else
	{
		fprintf(out, "%s ", kind);
		put_name(out, difference, "object", " differs:\n");
	}
	if (strcmp(kind, "schema") == 0)
	{
		json_t	   *nodes = shortened(json_object_get(difference, "nodes"));

		put_nodes(out, nodes, "    ", "not there");
		json_decref(nodes);
	}
	else
		put_nodes(out, json_object_get(difference, "nodes"), "    ", "not there");
}

static void
put_compared(FILE *out, const json_t *result)
{
	const char *database;
	json_t	   *facts;
	size_t		i;
	json_t	   *node;

	fputs("nodes compared:", out);
	json_array_foreach(json_object_get(result, "nodes"), i, node)
		fprintf(out, " %s", json_string_value(node));
	fprintf(out, " at seq %" JSON_INTEGER_FORMAT " (commits were held for %.1f ms)\n",
			json_integer_value(json_object_get(result, "seq")),
			json_real_value(json_object_get(result, "commits_held_ms")));
	json_array_foreach(json_object_get(result, "not_compared"), i, node)
		fprintf(out, "not compared: %s (%s)\n", json_text_of(node, "name"), json_text_of(node, "state"));
	json_object_foreach(json_object_get(result, "databases"), database, facts)
	{
		const char *what;
		json_t	   *n;
		const char *separator = "";

		if (strcmp(database, VERIFY_GLOBAL) == 0)
			fputs("all databases: ", out);
		else
			fprintf(out, "database %s: ", database);
		json_object_foreach(facts, what, n)
		{
			fprintf(out, "%s%" JSON_INTEGER_FORMAT " %s", separator, json_integer_value(n), what);
			separator = ", ";
		}
		fputs("\n", out);
	}
}

/* Indexes that should have been checked. */
static void
put_not_checked(FILE *out, const json_t *list)
{
	size_t		i;
	json_t	   *one;

	json_array_foreach((json_t *) list, i, one)
	{
		fprintf(out, "database %s: indexes not checked (%s):\n", json_text_of(one, "database"), json_text_of(one, "why"));
		put_nodes(out, json_object_get(one, "nodes"), "    ", "");
	}
}

void
verify_report(FILE *out, const json_t *result)
{
	const json_t *equal = json_object_get(result, "equal");
	size_t		i;
	json_t	   *difference;

	if (json_object_size(json_object_get(result, "databases")) > 0)
		put_compared(out, result);
	put_not_checked(out, json_object_get(result, "indexes_not_checked"));
	json_array_foreach(json_object_get(result, "differences"), i, difference)
		put_difference(out, difference);
	put_repaired(out, json_object_get(result, "repaired"));
	put_stood(out, json_object_get(result, "stood"));
	if (json_object_get(result, "error") == NULL && json_object_get(result, "stood") == NULL)
		fputs(json_is_true(equal) ? "equal\n" : "different\n", out);
}
