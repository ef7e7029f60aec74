/*
 * ctl_journal.c
 *	  The journal as text: one block of lines for each decided transaction.
 *
 *	  seq 17  2026-11-21 08:15:02.345678 UTC  n1/4711  database app
 *	    boot 00c0ffee00c0ffee, transaction 3 of its session, depends on 15, wait executed,
 *		  chain 5eed0000000000ff (all one line)
 *	    1  row, 1 row: INSERT INTO public.t (a, b) VALUES ($1, $2)
 *	         $1 = '5', $2 = NULL
 *	         key public.t t_pkey  mode x  seen 14  hash 0123456789abcdef
 *
 * Reads the directory itself, so it works while the replicator runs (the last transactions may
 * not be durable yet then) and when it does not; changes nothing there.  The content of the
 * journal comes from clients: control characters are not passed on to the terminal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "database_event.h"
#include "journal_body.h"
#include "journal_private.h"

#define TEXT_SHOWN 400			/* bytes of a query, of a parameter */
#define PARAM_SHOWN 60
#define PARAMS_SHOWN 20			/* parameters of a query */
#define FOLLOW_US 200000

/* At most max bytes, whole characters only, control characters as blanks. */
static void
put_text(FILE *out, LsSlice text, size_t max)
{
	size_t		n = text.len < max ? text.len : max;

	while (n < text.len && n > 0 && (text.data[n] & 0xC0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		putc(text.data[i] < ' ' || text.data[i] == 0x7f ? ' ' : text.data[i], out);
	if (n < text.len)
		fprintf(out, "... (%zu bytes)", text.len);
}

static void
put_params(FILE *out, const LsQuery *q)
{
	LsSlice		rest = q->params;
	LsSlice		param;

	if (q->form == LS_FORM_PIECE)
	{
		fprintf(out, "       %zu bytes of the next query's parameters\n", q->params.len);
		return;
	}
	for (uint32_t i = 1; ls_next_param(&rest, &param); i++)
	{
		fprintf(out, "%s$%u = ", i == 1 ? "       " : ", ", i);
		if (param.data == NULL)
			fprintf(out, "NULL");
		else
		{
			putc('\'', out);
			put_text(out, param, PARAM_SHOWN);
			putc('\'', out);
		}
		if (i == PARAMS_SHOWN && q->nparams > PARAMS_SHOWN)
		{
			fprintf(out, ", ... (%u parameters)", q->nparams);
			break;
		}
	}
	if (q->nparams > 0)
		putc('\n', out);
}

static void
put_settings(FILE *out, const LsQuery *q)
{
	LsSlice		rest = q->settings;
	LsSlice		name;
	LsSlice		value;

	while (ls_next_setting(&rest, &name, &value))
	{
		fprintf(out, "       set ");
		put_text(out, name, PARAM_SHOWN);
		fprintf(out, " = '");
		put_text(out, value, PARAM_SHOWN);
		fprintf(out, "'\n");
	}
}

static void
put_keys(FILE *out, const LsQuery *q)
{
	LsSlice		rest = q->keys;
	LsKey		key;

	while (ls_next_key(&rest, &key))
	{
		fprintf(out, "       key ");
		put_text(out, key.name, LS_MAX_NAME * 4);
		fprintf(out, "  mode %c  seen %" PRIu64 "  hash %016" PRIx64 "\n", key.mode, key.seen, key.hash);
	}
}

static void
put_query(FILE *out, unsigned number, LsSlice payload, bool keys)
{
	LsQuery		q;
	const char *wrong = ls_get_query(payload, &q);

	if (wrong != NULL)
	{
		fprintf(out, "  %u  cannot be read: %s\n", number, wrong);
		return;
	}
	fprintf(out, "  %u  %s", number, ls_form_text(q.form));
	if (q.rows >= 0)
		fprintf(out, ", %" PRId64 " row%s", q.rows, q.rows == 1 ? "" : "s");
	fprintf(out, "%s: ", q.ddl ? ", ddl" : "");
	put_text(out, q.text, TEXT_SHOWN);
	putc('\n', out);
	put_settings(out, &q);
	put_params(out, &q);
	if (keys)
		put_keys(out, &q);
}

static void
put_time(FILE *out, uint64_t us)
{
	time_t		seconds = (time_t) (us / 1000000);
	struct tm	tm;
	char		text[64];

	/* facts that are repeated at the head of a segment have none */
	if (us == 0)
	{
		fprintf(out, "repeated");
		return;
	}

	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	fprintf(out, "%s.%06u UTC", text, (unsigned) (us % 1000000));
}

static unsigned
put_queries(FILE *out, LsSlice rest, unsigned number, bool keys)
{
	LsMsgType	type;
	LsSlice		payload;

	while (ls_frame(rest.data, rest.len, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		put_query(out, ++number, payload, keys);
		rest.data += LS_HEADER_SIZE + payload.len;
		rest.len -= LS_HEADER_SIZE + payload.len;
	}
	if (rest.len > 0)
		fprintf(out, "  %zu bytes more cannot be read\n", rest.len);
	return number;
}

/* The queries of a large transaction, which are in a file of their own. */
static void
put_body(FILE *out, const char *directory, const BodyRef *ref, bool keys)
{
	const char *error;
	JournalBody *body = body_open(directory, ref, &error);
	JournalStatus status = JOURNAL_OK;
	uint64_t	offset = BODY_START;
	Buffer		chunk = {0};
	unsigned	number = 0;

	fprintf(out, "  %" PRIu64 " queries in file %016" PRIx64 ".body, %" PRIu64 " bytes\n",
			ref->nstatements, ref->id, ref->size);
	if (body == NULL)
	{
		fprintf(out, "  they cannot be read: %s\n", error);
		return;
	}
	while ((status = body_read(body, &offset, &chunk)) == JOURNAL_OK)
	{
		LsSlice		queries = {chunk.data, chunk.len};

		number = put_queries(out, queries, number, keys);
	}
	if (status != JOURNAL_END)
		fprintf(out, "  those that follow cannot be read: %s\n", body_error(body, status));
	buffer_free(&chunk);
	body_unref(body);
}

static void
put_transaction(FILE *out, const char *directory, const JournalRecord *r, bool keys)
{
	fprintf(out, "seq %" PRIu64 "  ", r->seq);
	put_time(out, r->time);
	fprintf(out, "  ");
	put_text(out, r->identity.node, LS_MAX_NAME);
	fprintf(out, "/%u  database ", r->identity.pid);
	put_text(out, r->database, LS_MAX_NAME);
	fprintf(out, "\n  boot %016" PRIx64 ", transaction %" PRIu64 " of its session, depends on %" PRIu64
			", wait %s, chain %016" PRIx64 "\n", r->identity.boot, r->identity.xcount, r->depends_on,
			journal_wait_text(r->wait), r->chain);
	if (r->body.id != 0)
		put_body(out, directory, &r->body, keys);
	else
		(void) put_queries(out, r->queries, 0, keys);
}

void
print_record(FILE *out, const char *directory, const JournalRecord *r, bool keys)
{
	DatabaseEventText event;

	if (r->type == RECORD_TRANSACTION)
	{
		put_transaction(out, directory, r, keys);
		return;
	}
	fprintf(out, "after seq %" PRIu64 "  ", r->seq);
	put_time(out, r->time);
	if (r->type == RECORD_DATABASE_EVENT && database_event_parse(r->text, &event))
	{
		fprintf(out, "  database %" PRIu64 " %s: ", event.number, database_event_word(event.kind));
		put_text(out, event.name, LS_MAX_NAME);
		if (event.kind == DATABASE_RENAMED)
		{
			fputs(", from ", out);
			put_text(out, event.command, LS_MAX_NAME);
		}
		putc('\n', out);
		return;
	}
	fprintf(out, "  %s: ", journal_metadata_text(r->type));
	put_text(out, r->text, TEXT_SHOWN);
	putc('\n', out);
}

static int
print_from(FILE *out, JournalReader *reader, const JournalOptions *options)
{
	uint64_t	printed = 0;

	for (;;)
	{
		JournalRecord r;
		JournalStatus status = journal_read(reader, &r);

		if (status == JOURNAL_ERROR || status == JOURNAL_TORN)
		{
			fflush(out);
			fprintf(stderr, "lockstepctl: %s\n", journal_reader_error(reader));
			return CTL_FAILED;
		}
		if (status == JOURNAL_END)
		{
			if (!options->follow)
				return CTL_OK;
			if (fflush(out) != 0)
			{
				fprintf(stderr, "lockstepctl: could not write: %s\n", strerror(errno));
				return CTL_FAILED;
			}
			usleep(FOLLOW_US);
			continue;
		}
		if (r.type != RECORD_TRANSACTION && r.seq < options->from)
			continue;			/* at the head of the segment */
		(options->json ? print_record_json : print_record) (out, options->directory, &r, options->keys);
		if (r.type == RECORD_TRANSACTION && ++printed == options->limit)
			return CTL_OK;
	}
}

/* The beginning of the journal: what was before has been trimmed. */
static uint64_t
first_seq(const char *directory)
{
	SegmentList list;
	uint64_t	first;

	if (!segment_list(directory, &list))
		return 0;
	first = list.n > 0 ? list.first[0] : 0;
	free(list.first);
	return first;
}

int
print_journal(FILE *out, const JournalOptions *options)
{
	const char *error = NULL;
	uint64_t	from = options->from > 0 ? options->from : first_seq(options->directory);
	JournalReader *reader = journal_reader_open(options->directory, from, &error);
	int			code;

	if (reader == NULL)
	{
		fprintf(stderr, "lockstepctl: %s\n", error);
		return CTL_FAILED;
	}
	code = print_from(out, reader, options);
	journal_reader_close(reader);
	return code;
}
