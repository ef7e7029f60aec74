/*
 * ctl_journal_json.c
 *	  The journal as JSON: one object for each record, one per line.
 *
 * Nothing is cut.  Text that is not UTF-8 (of a database in another encoding)
 * has "?" for the bytes that are not ASCII.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buffer.h"
#include "ctl.h"
#include "database_event.h"
#include "journal_body.h"
#include "json_text.h"

/* ---------- names, also of the readable form */

const char *
journal_wait_text(int wait)
{
	switch ((LsCommitWait) wait)
	{
		case LS_WAIT_ORDERED:
			return "ordered";
		case LS_WAIT_EXECUTED:
			return "executed";
		case LS_WAIT_APPLIED:
			return "applied";
	}
	return "unknown";
}

const char *
journal_metadata_text(int record_type)
{
	switch ((RecordType) record_type)
	{
		case RECORD_DATABASE_ADDED:
			return "database added";
		case RECORD_DATABASE_DROPPED:
			return "database dropped";
		case RECORD_NODE_DROPPED:
			return "node dropped";
		case RECORD_NODE_ATTACHED:
			return "node attached";
		case RECORD_FINGERPRINT:
			return "fingerprint";
		case RECORD_LEASE:
			return "lease";
		case RECORD_CHAIN:
			return "chain";
		case RECORD_GENERATION:
			return "generation";
		case RECORD_DATABASE_EVENT:
			return "CREATE or DROP DATABASE";
		case RECORD_TRANSACTION:
			break;
	}
	return "record of an unknown type";
}

/* ---------- values */

static json_t *
text_value(LsSlice text)
{
	return json_from_bytes(text.data, text.len);
}

static json_t *
hex_value(uint64_t n)
{
	return json_sprintf("%016" PRIx64, n);
}

/* null: not known. */
static json_t *
time_value(uint64_t us)
{
	time_t		seconds = (time_t) (us / 1000000);
	struct tm	tm;
	char		text[64];

	if (us == 0)
		return json_null();
	gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%06uZ", text, (unsigned) (us % 1000000));
}

static json_t *
params_value(const LsQuery *q)
{
	json_t	   *array = json_array();
	LsSlice		rest = q->params;
	LsSlice		param;

	/* a piece is no text, but a part of the parameters of the next query */
	while (q->form != LS_FORM_PIECE && ls_next_param(&rest, &param))
		json_array_append_new(array, param.data == NULL ? json_null() : text_value(param));
	return array;
}

static json_t *
settings_value(const LsQuery *q)
{
	json_t	   *object = json_object();
	LsSlice		rest = q->settings;
	LsSlice		name;
	LsSlice		value;

	while (ls_next_setting(&rest, &name, &value))
	{
		char	   *key = xstrndup(name.data, name.len);

		json_object_set_new(object, key, text_value(value));
		free(key);
	}
	return object;
}

static json_t *
keys_value(const LsQuery *q)
{
	json_t	   *array = json_array();
	LsSlice		rest = q->keys;
	LsKey		key;

	while (ls_next_key(&rest, &key))
	{
		json_t	   *object = json_object();
		char		mode[2] = {(char) key.mode, '\0'};

		json_object_set_new(object, "name", text_value(key.name));
		json_object_set_new(object, "mode", json_string(mode));
		json_object_set_new(object, "seen", json_integer((json_int_t) key.seen));
		json_object_set_new(object, "hash", hex_value(key.hash));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
query_value(LsSlice payload, bool keys)
{
	json_t	   *object = json_object();
	LsQuery		q;
	const char *wrong = ls_get_query(payload, &q);

	if (wrong != NULL)
	{
		json_object_set_new(object, "error", json_string(wrong));
		return object;
	}
	json_object_set_new(object, "form", json_string(ls_form_text(q.form)));
	json_object_set_new(object, "ddl", json_boolean(q.ddl));
	json_object_set_new(object, "rows", q.rows >= 0 ? json_integer(q.rows) : json_null());
	json_object_set_new(object, "query", text_value(q.text));
	json_object_set_new(object, "params", params_value(&q));
	json_object_set_new(object, "settings", settings_value(&q));
	if (keys)
		json_object_set_new(object, "keys", keys_value(&q));
	return object;
}

static void
put_transaction(json_t *object, const JournalRecord *r, bool keys)
{
	json_t	   *queries = json_array();
	LsSlice		rest = r->queries;
	LsMsgType	type;
	LsSlice		payload;

	json_object_set_new(object, "node", text_value(r->identity.node));
	json_object_set_new(object, "pid", json_integer(r->identity.pid));
	json_object_set_new(object, "boot", hex_value(r->identity.boot));
	json_object_set_new(object, "chain", hex_value(r->chain));
	json_object_set_new(object, "transaction", json_integer((json_int_t) r->identity.xcount));
	json_object_set_new(object, "database", text_value(r->database));
	json_object_set_new(object, "depends_on", json_integer((json_int_t) r->depends_on));
	json_object_set_new(object, "wait", json_string(journal_wait_text(r->wait)));
	if (r->body.id != 0)
	{
		json_decref(queries);
		return;
	}
	while (ls_frame(rest.data, rest.len, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
	{
		json_array_append_new(queries, query_value(payload, keys));
		rest.data += LS_HEADER_SIZE + payload.len;
		rest.len -= LS_HEADER_SIZE + payload.len;
	}
	json_object_set_new(object, "queries", queries);
}

/*
 * The queries of a large transaction, one after the other, as the last member of
 * its object.  What can't be read is told in "error".
 */
static void
put_body(FILE *out, const char *directory, const JournalRecord *r, bool keys)
{
	const char *error = NULL;
	JournalBody *body = body_open(directory, &r->body, &error);
	JournalStatus status = JOURNAL_END;
	uint64_t	offset = BODY_START;
	Buffer		chunk = {0};
	const char *comma = "";
	LsMsgType	type;
	LsSlice		payload;

	fputs(",\"queries\":[", out);
	while (body != NULL && (status = body_read(body, &offset, &chunk)) == JOURNAL_OK)
	{
		while (ls_frame(chunk.data + chunk.pos, chunk.len - chunk.pos, LS_MAX_PAYLOAD, &type, &payload) == LS_FRAME_OK)
		{
			json_t	   *query = query_value(payload, keys);

			fputs(comma, out);
			comma = ",";
			json_dumpf(query, out, JSON_COMPACT);
			json_decref(query);
			chunk.pos += LS_HEADER_SIZE + payload.len;
		}
	}
	if (body != NULL && status != JOURNAL_END)
		error = body_error(body, status);
	putc(']', out);
	if (error != NULL)
	{
		json_t	   *text = json_string(error);

		fputs(",\"error\":", out);
		json_dumpf(text, out, JSON_COMPACT | JSON_ENCODE_ANY);
		json_decref(text);
	}
	buffer_free(&chunk);
	body_unref(body);
}

static void
put_database_event(json_t *object, const DatabaseEventText *e)
{
	json_object_set_new(object, "what", json_sprintf("database %s", database_event_word(e->kind)));
	json_object_set_new(object, "text", text_value(e->name));
	json_object_set_new(object, "number", json_integer((json_int_t) e->number));
	if (e->kind == DATABASE_RENAMED)
		json_object_set_new(object, "from", text_value(e->command));
	else if (e->command.len > 0)
		json_object_set_new(object, "command", text_value(e->command));
}

void
print_record_json(FILE *out, const char *directory, const JournalRecord *r, bool keys)
{
	DatabaseEventText event;
	json_t	   *object = json_object();

	json_object_set_new(object, r->type == RECORD_TRANSACTION ? "seq" : "after_seq",
						json_integer((json_int_t) r->seq));
	json_object_set_new(object, "time", time_value(r->time));
	if (r->type == RECORD_TRANSACTION)
		put_transaction(object, r, keys);
	else
	{
		json_object_set_new(object, "what", json_string(journal_metadata_text(r->type)));
		json_object_set_new(object, "text", text_value(r->text));
		if (r->type == RECORD_DATABASE_EVENT && database_event_parse(r->text, &event))
			put_database_event(object, &event);
	}
	if (r->body.id == 0)
		json_dumpf(object, out, JSON_COMPACT);
	else
	{
		char	   *text = json_dumps(object, JSON_COMPACT);

		/* all but the closing brace: it has members */
		fwrite(text, 1, strlen(text) - 1, out);
		put_body(out, directory, r, keys);
		putc('}', out);
		free(text);
	}
	putc('\n', out);
	json_decref(object);
}
