/*
 * ctl_format.c
 *	  The replicator's answers as text: tables whose columns are as wide as their longest
 *	  value, numbers aligned right, text left.
 *
 * Pure: from JSON to a stream.  A field that an older replicator does not send is shown as
 * empty.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "ctl.h"
#include "journal_usage.h"
#include "node_fields.h"

typedef struct Column
{
	const char *title;
	const char *field;			/* of the objects in the rows' array */
	bool		number;
	bool		ms;				/* shown as seconds */
} Column;

/* Also those that are not shown: without a title. */
static const Column node_columns[] = {
#define AS_COLUMN(name, title, shown, value) {title, name, (shown) != SHOWN_TEXT, (shown) == SHOWN_MS},
	NODE_FIELDS(AS_COLUMN)
#undef AS_COLUMN
};

static const Column session_columns[] = {
	{"node", "node", false, false},
	{"pid", "pid", true, false},
	{"database", "database", false, false},
	{"state", "state", false, false},
	{"statements", "statements", true, false},
	{"bytes", "bytes", true, false},
	{"application", "application", false, false},
};

static const Column conflict_columns[] = {
	{"database", "database", false, false},
	{"loser", "node", false, false},
	{"pid", "pid", true, false},
	{"winner", "winner_node", false, false},
	{"pid", "winner_pid", true, false},
	{"seq", "winner_seq", true, false},
	{"reason", "reason", false, false},
	{"table", "table", false, false},
	{"key", "key", false, false},
};

static const Column replicator_columns[] = {
	{"replicator", "name", false, false},
	{"state", "state", false, false},
	{"in sync", "in_sync", false, false},
	{"address", "address", false, false},
	{"segment", "segment", true, false},
	{"offset", "offset", true, false},
	{"lag bytes", "lag_bytes", true, false},
};

static const Column count_columns[] = {
	{"database", "database", false, false},
	{"conflicts", "conflicts", true, false},
	{"reason", "reason", false, false},
	{"table", "table", false, false},
};

static const Column wait_columns[] = {
	{"node", "node", false, false},
	{"pid", "pid", true, false},
	{"seq", "seq", true, false},
	{"for", "for_ms", true, true},
	{"waits", "waits", false, false},
	{"node", "blocker_node", false, false},
	{"pid", "blocker_pid", true, false},
	{"seq", "blocker_seq", true, false},
	{"on", "at_node", false, false},
	{"object", "object", false, false},
};

static const Column config_columns[] = {
	{"name", "name", false, false},
	{"value", "value", false, false},
	{"description", "help", false, false},
};

#define MAX_COLUMNS 32
#define NCOLUMNS(columns) (sizeof(columns) / sizeof((columns)[0]))

static const char *
text_of(const json_t *value)
{
	return json_is_string(value) ? json_string_value(value) : "";
}

static char *
duration_text(json_int_t ms)
{
	json_int_t	s = ms / 1000;

	return s < 120 ? xasprintf("%.1f s", (double) ms / 1000) :
		s < 120 * 60 ? xasprintf("%" JSON_INTEGER_FORMAT " min", s / 60) :
		s < 48 * 3600 ? xasprintf("%" JSON_INTEGER_FORMAT " h", s / 3600) : xasprintf("%" JSON_INTEGER_FORMAT " d", s / 86400);
}

static char *
cell_text(const json_t *row, const Column *column)
{
	const json_t *value = json_object_get(row, column->field);

	if (json_is_integer(value) && column->ms)
		return duration_text(json_integer_value(value));
	if (json_is_integer(value))
		return xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	if (json_is_boolean(value))
		return xasprintf("%s", json_is_true(value) ? "yes" : "no");
	return text_printable(text_of(value), strlen(text_of(value)));
}

static int
column_width(const json_t *rows, const Column *column)
{
	size_t		width = strlen(column->title);
	size_t		i;
	json_t	   *row;

	json_array_foreach((json_t *) rows, i, row)
	{
		char	   *text = cell_text(row, column);

		if (strlen(text) > width)
			width = strlen(text);
		free(text);
	}
	return (int) width;
}

static void
put_cell(FILE *out, const char *text, int width, const Column *column, bool last)
{
	if (last)
		fprintf(out, "%s\n", text);
	else
		fprintf(out, "%*s  ", column->number ? width : -width, text);
}

static void
format_table(FILE *out, const json_t *rows, const Column *columns, size_t ncolumns)
{
	int			width[MAX_COLUMNS];
	size_t		i;
	json_t	   *row;

	for (size_t c = 0; c < ncolumns; c++)
	{
		width[c] = column_width(rows, &columns[c]);
		put_cell(out, columns[c].title, width[c], &columns[c], c == ncolumns - 1);
	}
	json_array_foreach((json_t *) rows, i, row)
	{
		for (size_t c = 0; c < ncolumns; c++)
		{
			char	   *text = cell_text(row, &columns[c]);

			put_cell(out, text, width[c], &columns[c], c == ncolumns - 1);
			free(text);
		}
	}
}

void
format_nodes(FILE *out, const json_t *answer)
{
	Column		shown[NCOLUMNS(node_columns)];
	size_t		n = 0;

	for (size_t c = 0; c < NCOLUMNS(node_columns); c++)
	{
		if (node_columns[c].title != NULL)
			shown[n++] = node_columns[c];
	}
	format_table(out, json_object_get(answer, "nodes"), shown, n);
}

void
format_sessions(FILE *out, const json_t *answer)
{
	format_table(out, json_object_get(answer, "sessions"), session_columns, NCOLUMNS(session_columns));
}

void
format_config(FILE *out, const json_t *answer)
{
	format_table(out, json_object_get(answer, "settings"), config_columns, NCOLUMNS(config_columns));
}

/* In one line, whatever its content. */
static void
put_line(FILE *out, const char *title, const char *text)
{
	fprintf(out, "  %-10s ", title);
	for (; *text; text++)
		fputc((unsigned char) *text < ' ' ? ' ' : *text, out);
	fputc('\n', out);
}

/* Nodes that cannot apply a transaction. */
static void
format_troubles(FILE *out, const json_t *nodes)
{
	size_t		i;
	size_t		j;
	json_t	   *node;
	json_t	   *way;

	json_array_foreach((json_t *) nodes, i, node)
	{
		const json_t *t = json_object_get(node, "trouble");
		const json_t *retry = json_object_get(node, "retry_seconds");
		const json_t *statement = json_object_get(t, "statement");
		char	   *error;

		if (!json_is_object(t))
			continue;
		fprintf(out, "\nnode %s cannot apply seq %" JSON_INTEGER_FORMAT " of database %s (tried %" JSON_INTEGER_FORMAT " times",
				text_of(json_object_get(node, "name")), json_integer_value(json_object_get(t, "seq")),
				text_of(json_object_get(t, "database")), json_integer_value(json_object_get(t, "times")));
		if (json_is_integer(retry))
			fprintf(out, ", again in %" JSON_INTEGER_FORMAT " s", json_integer_value(retry));
		fputs("):\n", out);
		put_line(out, "statement:", json_is_string(statement) ? text_of(statement) : "(none: at its commit)");
		error = xasprintf("%s: %s", text_of(json_object_get(t, "sqlstate")), text_of(json_object_get(t, "error")));
		put_line(out, "error:", error);
		free(error);
		if (json_is_string(json_object_get(t, "detail")))
			put_line(out, "detail:", text_of(json_object_get(t, "detail")));
		json_array_foreach(json_object_get(t, "ways_out"), j, way)
			put_line(out, j == 0 ? "ways out:" : "", text_of(way));
	}
}

/* Remedies for nodes that are out; those of nodes with a trouble were printed above. */
static void
format_hints(FILE *out, const json_t *nodes)
{
	size_t		i;
	json_t	   *node;

	json_array_foreach((json_t *) nodes, i, node)
	{
		const json_t *cause = json_object_get(node, "cause");
		const char *hint = text_of(json_object_get(node, "hint"));

		if (hint[0] == '\0' || json_is_object(json_object_get(node, "trouble")))
			continue;
		if (json_is_string(cause))
			fprintf(out, "\nnode %s is dropped (%s):\n", text_of(json_object_get(node, "name")), text_of(cause));
		else
			fprintf(out, "\nnode %s does not answer:\n", text_of(json_object_get(node, "name")));
		put_line(out, "hint:", hint);
	}
}

static void
format_journal_trouble(FILE *out, const json_t *journal)
{
	const char *failing = text_of(json_object_get(journal, "failing"));
	const json_t *free_bytes = json_object_get(journal, "disk_free_bytes");

	if (failing[0] != '\0')
	{
		fprintf(out, "\nno transaction is taken: the journal cannot be written: %s\n", failing);
		put_line(out, "hint:", "Make room on its disk, or mend it; it is tried again every second, and nothing is lost.");
	}
	else if (json_is_integer(free_bytes) && json_integer_value(free_bytes) < JOURNAL_LITTLE_ROOM)
	{
		fprintf(out, "\nonly %" PRId64 " MB are free on the journal's disk; when it is full, nothing commits\n", (int64_t) json_integer_value(free_bytes) >> 20);
		put_line(out, "hint:", "Make room there, or lower journal_keep.");
	}
}

static bool
starts_with(const char *text, const char *beginning)
{
	return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* NULL: there is one replicator. */
static void
format_group_trouble(FILE *out, const json_t *group)
{
	const char *trouble = text_of(json_object_get(group, "trouble"));
	size_t		i;
	json_t	   *member;

	if (trouble[0] != '\0')
	{
		/* others say themselves what to do */
		fprintf(out, "\n%s:\n", trouble);
		if (starts_with(trouble, "could not read etcd"))
			put_line(out, "hint:", "Start etcd, or mend the way to it. The leader goes on, but no other replicator can take over meanwhile.");
		else if (starts_with(trouble, "writers wait"))
			put_line(out, "hint:", "Start the replicators that are not connected. See \"Writers wait\" in docs/replicators.md.");
	}
	json_array_foreach(json_object_get(group, "members"), i, member)
	{
		if (strcmp(text_of(json_object_get(member, "state")), "not connected") != 0)
			continue;
		fprintf(out, "\nreplicator %s is not connected:\n", text_of(json_object_get(member, "name")));
		put_line(out, "hint:", "Is it running on its machine, and what does its log say? Does it reach the leader?");
	}
}

static int64_t
number(const json_t *answer, const char *group, const char *field)
{
	return json_integer_value(json_object_get(json_object_get(answer, group), field));
}

static void
format_databases(FILE *out, const json_t *answer)
{
	const json_t *databases = json_object_get(answer, "databases");
	size_t		i;
	json_t	   *name;

	fprintf(out, "databases:    ");
	json_array_foreach((json_t *) databases, i, name)
	{
		char	   *shown = text_printable(text_of(name), strlen(text_of(name)));

		fprintf(out, "%s%s", i > 0 ? ", " : "", shown);
		free(shown);
	}
	fprintf(out, "%s\n", json_array_size(databases) == 0 ? "none (lockstepctl database add NAME)" : "");
}

/* Who leads, and what the others do. */
static void
format_group(FILE *out, const json_t *group)
{
	size_t		i;
	json_t	   *member;

	if (!json_is_object(group))
		return;
	fprintf(out, "replicators:  %s leads (epoch %" JSON_INTEGER_FORMAT ")", text_of(json_object_get(group, "leader")),
			json_integer_value(json_object_get(group, "epoch")));
	json_array_foreach(json_object_get(group, "members"), i, member)
	{
		const char *state = text_of(json_object_get(member, "state"));
		bool		in_sync = json_is_true(json_object_get(member, "in_sync"));

		if (strcmp(state, "leader") != 0)
			fprintf(out, ", %s: %s%s", text_of(json_object_get(member, "name")), state, in_sync ? ", in sync" : "");
	}
	fprintf(out, "\n");
}

void
format_status(FILE *out, const json_t *answer)
{
	format_nodes(out, answer);
	format_troubles(out, json_object_get(answer, "nodes"));
	format_hints(out, json_object_get(answer, "nodes"));
	format_journal_trouble(out, json_object_get(answer, "journal"));
	format_group_trouble(out, json_object_get(answer, "group"));
	fprintf(out, "\n");
	format_databases(out, answer);
	fprintf(out, "transactions: %" PRId64 " committed, %" PRId64 " conflicts, %" PRId64
			" peer errors, %" PRId64 " withdrawn, %" PRId64 " in flight\n",
			number(answer, "counters", "committed"), number(answer, "counters", "conflicts"),
			number(answer, "counters", "peer_errors"), number(answer, "counters", "withdrawn"),
			number(answer, "counters", "reserved_now"));
	fprintf(out, "journal:      seq %" PRId64 " to %" PRId64 ", %" PRId64 " syncs, in %s\n",
			number(answer, "journal", "first"), number(answer, "journal", "last"),
			number(answer, "journal", "syncs"),
			text_of(json_object_get(json_object_get(answer, "journal"), "directory")));
	if (json_is_integer(json_object_get(json_object_get(answer, "journal"), "bytes")))
		fprintf(out, "              %" PRId64 " MB, %" PRId64 " MB free on its disk\n",
				number(answer, "journal", "bytes") >> 20, number(answer, "journal", "disk_free_bytes") >> 20);
	format_group(out, json_object_get(answer, "group"));
	if (json_is_integer(json_object_get(answer, "paused_ms")))
		fprintf(out, "paused:       transactions that begin to write wait, for %" PRId64 " s more (lockstepctl resume)\n",
				(int64_t) (json_integer_value(json_object_get(answer, "paused_ms")) + 999) / 1000);
	if (json_is_object(json_object_get(answer, "tls")))
		fprintf(out, "TLS:          the replicator's certificate expires in %" PRId64 " days (%s)\n",
				number(answer, "tls", "certificate_days"),
				text_of(json_object_get(json_object_get(answer, "tls"), "certificate_expires")));
	else if (json_is_null(json_object_get(answer, "tls")))
		fprintf(out, "TLS:          none: nodes and replicator are on one machine\n");
	fprintf(out, "cluster:      %s, replicator process %" PRId64 "\n",
			text_of(json_object_get(answer, "cluster")),
			(int64_t) json_integer_value(json_object_get(answer, "pid")));
}

/* A responsive node sends something every second. */
#define SILENT_MS 1500

void
format_waits(FILE *out, const json_t *answer)
{
	size_t		i;
	json_t	   *node;

	json_array_foreach(json_object_get(answer, "nodes"), i, node)
	{
		json_int_t	ms = json_integer_value(json_object_get(node, "silent_ms"));

		if (ms >= SILENT_MS)
			fprintf(out, "node %s has been silent for %.1f s, and %" JSON_INTEGER_FORMAT " transactions wait for it\n",
					text_of(json_object_get(node, "name")), (double) ms / 1000,
					json_integer_value(json_object_get(node, "waiting")));
	}
	if (json_array_size(json_object_get(answer, "waits")) == 0)
		fprintf(out, "nothing waits\n");
	else
		format_table(out, json_object_get(answer, "waits"), wait_columns, NCOLUMNS(wait_columns));
}

void
format_conflicts(FILE *out, const json_t *answer)
{
	format_table(out, json_object_get(answer, "conflicts"), conflict_columns, NCOLUMNS(conflict_columns));
	fprintf(out, "\n");
	format_table(out, json_object_get(answer, "counts"), count_columns, NCOLUMNS(count_columns));
}

void
format_replicators(FILE *out, const json_t *answer)
{
	const char *trouble = text_of(json_object_get(answer, "trouble"));

	format_table(out, json_object_get(answer, "members"), replicator_columns, NCOLUMNS(replicator_columns));
	fprintf(out, "\nleader:  %s, epoch %" JSON_INTEGER_FORMAT "\n", text_of(json_object_get(answer, "leader")),
			json_integer_value(json_object_get(answer, "epoch")));
	fprintf(out, "copies:  %zu of %" JSON_INTEGER_FORMAT ", at least %" JSON_INTEGER_FORMAT "\n",
			json_array_size(json_object_get(answer, "in_sync")), json_integer_value(json_object_get(answer, "copies")),
			json_integer_value(json_object_get(answer, "min_copies")));
	if (trouble[0] != '\0')
		fprintf(out, "trouble: %s\n", trouble);
}
