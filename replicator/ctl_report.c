/*
 * ctl_report.c
 *	  The result of lockstepctl verify for people.
 *
 * Of each thing that differs: what each node has, those that have the same on
 * one line.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl_verify.h"

#define LONGEST 300				/* bytes of a value */

static const char *
text_of(const json_t *object, const char *field)
{
	const char *text = json_string_value(json_object_get(object, field));

	return text != NULL ? text : "";
}

static void
put_value(FILE *out, const json_t *value, const char *nothing)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value))
		fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (text == NULL)
		fputs(nothing, out);
	else if (strlen(text) <= LONGEST)
		fputs(text, out);
	else
	{
		int			len = LONGEST;

		while (len > 0 && ((unsigned char) text[len] & 0xC0) == 0x80)
			len--;				/* not within a character */
		fprintf(out, "%.*s... (%zu bytes)", len, text, strlen(text));
	}
}

/* "n1, n3: value" for every value there is. */
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
	const char *columns = text_of(difference, "key_columns");
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

static void
put_difference(FILE *out, const json_t *difference)
{
	const char *kind = text_of(difference, "kind");
	const char *database = text_of(difference, "database");

	if (database[0])
		fprintf(out, "database %s: ", database);
	fprintf(out, "%s %s%s: ", strcmp(kind, "rows") == 0 ? "rows of" : kind, text_of(difference, "object"),
			strcmp(kind, "rows") == 0 ? "" : " differs");
	if (strcmp(kind, "rows") == 0)
	{
		put_rows(out, difference);
		return;
	}
	fputs("\n", out);
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
		fprintf(out, "not compared: %s (%s)\n", text_of(node, "name"), text_of(node, "state"));
	json_object_foreach(json_object_get(result, "databases"), database, facts)
	{
		const char *what;
		json_t	   *n;
		const char *separator = "";

		fprintf(out, "database %s: ", database);
		json_object_foreach(facts, what, n)
		{
			fprintf(out, "%s%" JSON_INTEGER_FORMAT " %s", separator, json_integer_value(n), what);
			separator = ", ";
		}
		fputs("\n", out);
	}
}

void
verify_report(FILE *out, const json_t *result)
{
	const json_t *equal = json_object_get(result, "equal");
	size_t		i;
	json_t	   *difference;

	if (json_integer_value(json_object_get(result, "seq")) > 0)
		put_compared(out, result);
	json_array_foreach(json_object_get(result, "differences"), i, difference)
		put_difference(out, difference);
	if (json_object_get(result, "error") == NULL)
		fputs(json_is_true(equal) ? "equal\n" : "different\n", out);
}
