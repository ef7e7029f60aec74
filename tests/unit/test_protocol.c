/*
 * test_protocol.c
 *	  Proves that every message survives the way there and back, and that no
 *	  malformed one is accepted or read outside its bytes: every truncation,
 *	  every field missing, twice, of another width, with an illegal value.
 *	  Inputs are copied to heap blocks of their exact size for ASan's sake.
 */
#include "unit.h"

#include "samples.h"

static size_t nsamples;
static Sample *samples;

static int
setup(void **state)
{
	samples = make_samples(&nsamples);
	return 0;
}

static int
teardown(void **state)
{
	free(samples);
	return 0;
}

static const Sample *
sample(const char *name)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		if (strcmp(samples[i].name, name) == 0)
			return &samples[i];
	}
	fail_msg("no sample %s", name);
	return NULL;
}

/* Pieces are bytes; what had its parameters in pieces has none. */
static void
test_pieces(void **state)
{
	uint8_t		params[32];
	size_t		len = ls_put_param(params, sizeof(params), "a\0b", 3);
	LsQuery		query = {.xcount = 1,.form = LS_FORM_PIECE,.reason = LS_REASON_ROW_CHANGED,.rows = -1,.text = SLICE("x"),
	.params = {params, len}};
	uint8_t		message[256];
	LsQuery		got;
	LsSlice		payload = {message + LS_HEADER_SIZE, ls_put_query(message, sizeof(message), &query) - LS_HEADER_SIZE};

	assert_null(ls_get_query(payload, &got));
	assert_int_equal(got.nparams, 1);
	query.form = LS_FORM_ROW;
	payload.len = ls_put_query(message, sizeof(message), &query) - LS_HEADER_SIZE;
	assert_non_null(ls_get_query(payload, &got));
	query.params.len = 0;
	query.pieces = UINT64_C(1) << 40;
	payload.len = ls_put_query(message, sizeof(message), &query) - LS_HEADER_SIZE;
	assert_null(ls_get_query(payload, &got));
	assert_true(got.pieces == query.pieces);
	assert_true(ls_take_query(payload, &got) && got.pieces == query.pieces);
	query.form = LS_FORM_COPY;
	payload.len = ls_put_query(message, sizeof(message), &query) - LS_HEADER_SIZE;
	assert_null(ls_get_query(payload, &got));
}

static void
assert_slice(LsSlice s, const char *text)
{
	assert_int_equal(s.len, strlen(text));
	assert_memory_equal(s.data, text, s.len);
}

/* Decode a payload that stands at the very end of its block. */
static const char *
decode_exact(LsMsgType type, const uint8_t *payload, size_t len)
{
	uint8_t    *copy = malloc(len > 0 ? len : 1);
	LsSlice		slice = {copy, len};
	AnyMessage	m;
	const char *wrong;

	if (len > 0)
		memcpy(copy, payload, len);
	wrong = decode_any(type, slice, &m);
	free(copy);
	return wrong;
}

/* Decoding and encoding again gives the same bytes, for every type. */
static void
test_round_trip(void **state)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		const Sample *s = &samples[i];
		uint8_t		again[SAMPLE_MAX];
		LsMsgType	type;
		LsSlice		payload;
		AnyMessage	m;

		assert_in_range(s->len, LS_HEADER_SIZE, SAMPLE_MAX);
		assert_int_equal(ls_frame(s->bytes, s->len, LS_MAX_PAYLOAD, &type, &payload), LS_FRAME_OK);
		assert_int_equal(payload.len + LS_HEADER_SIZE, s->len);
		assert_null(decode_any(type, payload, &m));
		assert_int_equal(encode_any(type, &m, again, sizeof(again)), s->len);
		assert_memory_equal(again, s->bytes, s->len);
	}
}

/* With too little room nothing beyond it is written, and no header, and the size is told. */
static void
test_too_little_room(void **state)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		const Sample *s = &samples[i];
		LsMsgType	type;
		LsSlice		payload;
		AnyMessage	m;

		ls_frame(s->bytes, s->len, LS_MAX_PAYLOAD, &type, &payload);
		decode_any(type, payload, &m);
		for (size_t cap = 0; cap < s->len; cap++)
		{
			uint8_t		buf[SAMPLE_MAX];

			memset(buf, 0xAA, sizeof(buf));
			assert_int_equal(encode_any(type, &m, buf, cap), s->len);
			for (size_t j = 0; j < sizeof(buf); j++)
			{
				if (j < LS_HEADER_SIZE || j >= cap)
					assert_int_equal(buf[j], 0xAA);
			}
		}
	}
}

/* Cut anywhere, a frame is incomplete, and its payload malformed. */
static void
test_truncation(void **state)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		const Sample *s = &samples[i];
		LsMsgType	type;
		LsSlice		payload;

		for (size_t len = 0; len < s->len; len++)
		{
			uint8_t    *copy = malloc(len > 0 ? len : 1);

			memcpy(copy, s->bytes, len);
			assert_int_equal(ls_frame(copy, len, LS_MAX_PAYLOAD, &type, &payload), LS_FRAME_MORE);
			free(copy);
		}
		ls_frame(s->bytes, s->len, LS_MAX_PAYLOAD, &type, &payload);
		for (size_t len = 0; len < payload.len; len++)
		{
			const char *wrong = decode_exact(type, payload.data, len);
			bool		at_field_end = false;
			size_t		at = 0;

			/* cut between fields, only optional ones may have gone */
			while (at < len)
				at += 5 + ((size_t) payload.data[at + 1] << 24 | (size_t) payload.data[at + 2] << 16 |
						   (size_t) payload.data[at + 3] << 8 | payload.data[at + 4]);
			at_field_end = at == len;
			if (!at_field_end)
				assert_non_null(wrong);
		}
	}
}

static void
test_frame(void **state)
{
	const Sample *s = sample("query-row");
	uint8_t		bytes[SAMPLE_MAX];
	LsMsgType	type;
	LsSlice		payload;

	/* larger than allowed: bad as soon as the length is there */
	assert_int_equal(ls_frame(s->bytes, 5, (uint32_t) s->len - 6, &type, &payload), LS_FRAME_BAD);
	assert_int_equal(ls_frame(s->bytes, s->len, (uint32_t) s->len - 5, &type, &payload), LS_FRAME_OK);
	assert_int_equal(type, LS_MSG_QUERY);

	/* unknown types: bad at the first byte */
	for (int c = 0; c < 256; c++)
	{
		bool		known = c != 0 && strchr("HCAWLlBQRPDVYFZENnOoKSsUuTtIiJ", c) != NULL;

		bytes[0] = (uint8_t) c;
		assert_int_equal(ls_frame(bytes, 1, LS_MAX_PAYLOAD, &type, &payload),
						 known ? LS_FRAME_MORE : LS_FRAME_BAD);
	}

	/* the table of messages: names of their own; only answers are late */
	for (int c = 0; c < 256; c++)
	{
		const char *name = ls_message_name((uint8_t) c);

		for (int other = 0; name != NULL && other < c; other++)
			assert_true(ls_message_name((uint8_t) other) == NULL || strcmp(ls_message_name((uint8_t) other), name) != 0);
		if (name != NULL && ls_message_is_late((LsMsgType) c))
			assert_int_equal(ls_message_sender((LsMsgType) c), LS_FROM_REPLICATOR);
	}

	/* two messages in one buffer: only the first is taken */
	memcpy(bytes, sample("ask")->bytes, sample("ask")->len);
	memcpy(bytes + sample("ask")->len, s->bytes, s->len);
	assert_int_equal(ls_frame(bytes, sample("ask")->len + s->len, LS_MAX_PAYLOAD, &type, &payload), LS_FRAME_OK);
	assert_int_equal(type, LS_MSG_ASK);
	assert_int_equal(payload.len, sample("ask")->len - LS_HEADER_SIZE);
}

/* ---------- every field of every message, mistreated */

typedef struct FieldAt
{
	size_t		start;			/* offset in the payload */
	size_t		len;			/* of the value */
	uint8_t		tag;
} FieldAt;

static size_t
split(LsSlice payload, FieldAt *fields)
{
	size_t		n = 0;

	for (size_t at = 0; at < payload.len;)
	{
		fields[n].start = at;
		fields[n].tag = payload.data[at];
		fields[n].len = (size_t) payload.data[at + 3] << 8 | payload.data[at + 4];
		at += 5 + fields[n++].len;
	}
	return n;
}

static bool
is_optional(LsMsgType type, uint8_t tag)
{
	return ((type == LS_MSG_HELLO || type == LS_MSG_VERDICT) && tag == 'a') ||
		(type == LS_MSG_HELLO && (tag == 'u' || tag == 'x')) || ((type == LS_MSG_VERDICT || type == LS_MSG_ASK) && tag == 'c') || (type == LS_MSG_ASK && tag == 'w') ||
		(type == LS_MSG_WELCOME && (tag == 'g' || tag == 'r')) || ((type == LS_MSG_WELCOME || type == LS_MSG_PROOF) && tag == 'k') ||
		(type == LS_MSG_QUERY && (tag == 'G' || tag == 'M' || tag == 'K')) ||
		(type == LS_MSG_WELCOME && tag == 'R') || (type == LS_MSG_DATABASE && tag == 'r') || (type == LS_MSG_LOCK && tag == 'K') || ((type == LS_MSG_GRANTED || type == LS_MSG_SEQ) && tag == 'N') || (type == LS_MSG_FACTS_ASK && tag == 's') ||
		(type == LS_MSG_FACTS && tag == 'M') || (type == LS_MSG_LOST && (tag == 's' || tag == 'k')) || tag == 'd' || tag == 'h';
}

static void
test_fields_missing_or_twice(void **state)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		FieldAt		fields[16];
		uint8_t		changed[SAMPLE_MAX * 2];
		LsMsgType	type;
		LsSlice		payload;
		size_t		n;

		ls_frame(samples[i].bytes, samples[i].len, LS_MAX_PAYLOAD, &type, &payload);
		n = split(payload, fields);
		for (size_t f = 0; f < n; f++)
		{
			size_t		size = 5 + fields[f].len;
			size_t		after = fields[f].start + size;
			const char *wrong;

			memcpy(changed, payload.data, fields[f].start);
			memcpy(changed + fields[f].start, payload.data + after, payload.len - after);
			wrong = decode_exact(type, changed, payload.len - size);
			if (is_optional(type, fields[f].tag) && strcmp(samples[i].name, "query-copy") != 0)
				assert_null(wrong);
			else
				assert_non_null(wrong);

			memcpy(changed, payload.data, payload.len);
			memcpy(changed + payload.len, payload.data + fields[f].start, size);
			wrong = decode_exact(type, changed, payload.len + size);
			assert_string_equal(wrong, "a field is given twice");
		}
	}
}

static void
test_wrong_width(void **state)
{
	for (size_t i = 0; i < nsamples; i++)
	{
		FieldAt		fields[16];
		uint8_t		changed[SAMPLE_MAX];
		LsMsgType	type;
		LsSlice		payload;
		size_t		n;

		ls_frame(samples[i].bytes, samples[i].len, LS_MAX_PAYLOAD, &type, &payload);
		n = split(payload, fields);
		for (size_t f = 0; f < n; f++)
		{
			size_t		at = fields[f].start;
			size_t		end = at + 5 + fields[f].len;
			bool		fixed = strchr("VBPXNSOUFWRAQ", fields[f].tag) != NULL &&
				!((type == LS_MSG_HELLO || type == LS_MSG_FATE || type == LS_MSG_LEASE || type == LS_MSG_DATABASE) && fields[f].tag == 'N') &&
				!(type == LS_MSG_DATABASE && fields[f].tag == 'Q');

			if (!fixed)
				continue;

			/* one byte more in it */
			memcpy(changed, payload.data, end);
			changed[at + 4]++;
			changed[end] = 'x';
			memcpy(changed + end + 1, payload.data + end, payload.len - end);
			assert_non_null(decode_exact(type, changed, payload.len + 1));

			/* one byte less */
			memcpy(changed, payload.data, end - 1);
			changed[at + 4]--;
			memcpy(changed + end - 1, payload.data + end, payload.len - end);
			assert_non_null(decode_exact(type, changed, payload.len - 1));
		}
	}
}

/* Unknown tags: lower case is the future, upper case a misunderstanding. */
static void
test_unknown_tags(void **state)
{
	static const uint8_t unknown[2][6] = {{'z', 0, 0, 0, 1, '!'}, {'J', 0, 0, 0, 1, '!'}};

	for (size_t i = 0; i < nsamples; i++)
	{
		uint8_t		changed[SAMPLE_MAX];
		LsMsgType	type;
		LsSlice		payload;

		ls_frame(samples[i].bytes, samples[i].len, LS_MAX_PAYLOAD, &type, &payload);
		memcpy(changed, payload.data, payload.len);
		memcpy(changed + payload.len, unknown[0], 6);
		assert_null(decode_exact(type, changed, payload.len + 6));
		memcpy(changed + payload.len, unknown[1], 6);
		assert_non_null(decode_exact(type, changed, payload.len + 6));
	}
}

/* Encode a changed structure and see that the decoder refuses it. */
#define REFUSED(put, get, type, m) \
	do \
	{ \
		uint8_t		buf_[SAMPLE_MAX]; \
		size_t		len_ = put(buf_, sizeof(buf_), &(m)); \
		type		got_; \
		LsSlice		payload_ = {buf_ + LS_HEADER_SIZE, len_ - LS_HEADER_SIZE}; \
		assert_in_range(len_, LS_HEADER_SIZE, SAMPLE_MAX); \
		assert_non_null(get(payload_, &got_)); \
	} while (0)

static void
test_bad_values(void **state)
{
	uint8_t		lists[512];
	LsHello		hello = sample_hello();
	LsQuery		query = sample_query(lists);
	LsAsk		ask = {9, 12, LS_WAIT_APPLIED, 100, 99, 0, 0, 0};
	static const uint8_t many_hashes[(LS_MAX_CONTENDED + 1) * sizeof(uint64_t)];
	LsVerdict	verdict = {.xcount = 9, .outcome = LS_OUTCOME_COMMITTED, .seq = 77};
	LsErrorFields error = sample_error();
	static const char long_name[LS_MAX_NAME + 2] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

	hello.pid = 0;
	REFUSED(ls_put_hello, ls_get_hello, LsHello, hello);
	hello = sample_hello();
	hello.node = SLICE("");
	REFUSED(ls_put_hello, ls_get_hello, LsHello, hello);
	hello.node = SLICE("a\0b");
	REFUSED(ls_put_hello, ls_get_hello, LsHello, hello);
	hello.node = (LsSlice) {(const uint8_t *) long_name, LS_MAX_NAME + 1};
	REFUSED(ls_put_hello, ls_get_hello, LsHello, hello);

	query.form = (LsForm) 'R';
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.reason = (LsReason) 0;
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.text = SLICE("");
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query.text = SLICE("SELECT 1\0; DROP TABLE t");
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.rows = -2;
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.settings = SLICE("name");
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query.settings = SLICE("name\0");
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query.settings = SLICE("\0value\0");
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.form = LS_FORM_COPY;	/* with three parameters */
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.form = LS_FORM_ROW;
	query.pieces = 5;			/* and parameters of its own */
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query.form = LS_FORM_PIECE;
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query = sample_query(lists);
	query.form = LS_FORM_PIECE; /* with keys, and three parameters */
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	query.keys.len = 0;
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);

	ask.wait = (LsCommitWait) 'E';
	REFUSED(ls_put_ask, ls_get_ask, LsAsk, ask);

	verdict.seq = 0;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.seq = 5;
	verdict.after = 4;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.after = 0;
	verdict.seq = 0;
	verdict.chain = 9;
	verdict.outcome = LS_OUTCOME_WITHDRAWN;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.chain = 0;
	verdict.contended = (LsSlice) {(const uint8_t *) "12345678", 8};
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.seq = 5;
	verdict.outcome = LS_OUTCOME_COMMITTED;
	verdict.contended.len = 7;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.contended = (LsSlice) {many_hashes, sizeof(many_hashes)};
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.contended.len = 0;
	verdict.error = error;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.outcome = LS_OUTCOME_ROLLED_BACK;
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);
	verdict.seq = 0;
	verdict.error.message = SLICE("");
	REFUSED(ls_put_verdict, ls_get_verdict, LsVerdict, verdict);

	error.sqlstate = SLICE("4000");
	REFUSED(ls_put_error, ls_get_error, LsErrorFields, error);
	error.sqlstate = SLICE("4000a");
	REFUSED(ls_put_error, ls_get_error, LsErrorFields, error);
}

/* Lists inside a field: cut anywhere, or with a bad element. */
static void
test_lists(void **state)
{
	uint8_t		lists[512];
	LsQuery		whole = sample_query(lists);
	LsQuery		query = whole;
	LsLock		lock = {.xcount = 1};
	LsKey		key;
	LsSlice		rest,
				param;

	for (size_t len = 1; len < whole.keys.len; len++)
	{
		query.keys.len = len;
		if (len != 33 && len != 51)		/* between two keys */
			REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	}
	query = whole;
	for (size_t len = 1; len < whole.params.len; len++)
	{
		query.params.len = len;
		if (len != 6 && len != 10)
			REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	}
	query = whole;
	lists[128 + 16] = 'z';		/* mode of the first key */
	REFUSED(ls_put_query, ls_get_query, LsQuery, query);
	lock.keys = sample_pack_keys(lists, sizeof(lists), sample_read_keys, 1);
	REFUSED(ls_put_lock, ls_get_lock, LsLock, lock);	/* a read */

	/* what comes out */
	query = sample_query(lists);
	rest = query.keys;
	for (int i = 0; i < 3; i++)
	{
		assert_true(ls_next_key(&rest, &key));
		assert_int_equal(key.hash, sample_keys[i].hash);
		assert_int_equal(key.seen, sample_keys[i].seen);
		assert_int_equal(key.mode, sample_keys[i].mode);
		assert_int_equal(key.name.len, sample_keys[i].name.len);
	}
	assert_false(ls_next_key(&rest, &key));
	rest = query.params;
	assert_true(ls_next_param(&rest, &param));
	assert_slice(param, "17");
	assert_true(ls_next_param(&rest, &param));
	assert_null(param.data);
	assert_true(ls_next_param(&rest, &param));
	assert_non_null(param.data);
	assert_int_equal(param.len, 0);
	assert_false(ls_next_param(&rest, &param));
}

/* A query that has been accepted is taken apart as it was then. */
static void
test_taken_again(void **state)
{
	size_t		count;
	Sample	   *samples = make_samples(&count);
	int			queries = 0;

	for (size_t i = 0; i < count; i++)
	{
		LsMsgType	type;
		LsSlice		payload;
		LsQuery		got;
		LsQuery		taken;

		assert_int_equal(ls_frame(samples[i].bytes, samples[i].len, LS_MAX_PAYLOAD, &type, &payload), LS_FRAME_OK);
		if (type != LS_MSG_QUERY)
			continue;
		assert_null(ls_get_query(payload, &got));
		assert_true(ls_take_query(payload, &taken));
		got.nkeys = got.nparams = 0;
		assert_memory_equal(&taken, &got, sizeof(got));
		queries++;
		for (size_t len = 1; len < payload.len; len++)
		{
			uint8_t    *copy = malloc(len);

			memcpy(copy, payload.data, len);
			(void) ls_take_query((LsSlice) {copy, len}, &taken);	/* reads nothing behind it */
			free(copy);
		}
	}
	assert_true(queries >= 3);
	free(samples);
}

static void
test_rows(void **state)
{
	static const uint8_t params[] = {0, 0, 0, 1, '7'};
	const LsRow rows[] = {
		{SLICE("UPDATE t SET v = $1"), 1, {params, sizeof(params)}},
		{{NULL, 0}, -1, {NULL, 0}},
		{SLICE("DELETE FROM t"), INT64_C(0x123456789a), {NULL, 0}},
	};
	uint8_t		bytes[256];
	size_t		len = 0;
	LsSlice		rest;
	LsRow		row;

	for (size_t i = 0; i < 3; i++)
	{
		size_t		size = ls_put_row(NULL, 0, &rows[i]);

		assert_int_equal(ls_put_row(bytes + len, sizeof(bytes) - len, &rows[i]), size);
		len += size;
	}
	rest = (LsSlice) {bytes, len};
	memset(&row, 0, sizeof(row));
	assert_true(ls_next_row(&rest, &row));
	assert_slice(row.text, "UPDATE t SET v = $1");
	assert_int_equal(row.rows, 1);
	assert_int_equal(row.params.len, sizeof(params));
	assert_memory_equal(row.params.data, params, sizeof(params));
	assert_true(ls_next_row(&rest, &row));
	assert_slice(row.text, "UPDATE t SET v = $1");
	assert_int_equal(row.rows, -1);
	assert_int_equal(row.params.len, 0);
	assert_true(ls_next_row(&rest, &row));
	assert_slice(row.text, "DELETE FROM t");
	assert_int_equal(row.rows, INT64_C(0x123456789a));
	assert_int_equal(rest.len, 0);
	assert_false(ls_next_row(&rest, &row));

	/* cut anywhere, it is no list of three; lengths may say anything */
	for (size_t cut = 0; cut < len; cut++)
	{
		uint8_t    *copy = malloc(cut > 0 ? cut : 1);
		int			n = 0;

		memcpy(copy, bytes, cut);
		rest = (LsSlice) {copy, cut};
		memset(&row, 0, sizeof(row));
		while (ls_next_row(&rest, &row))
			n++;
		assert_true(n < 3);
		free(copy);
	}
	for (size_t i = 0; i < 8; i++)
	{
		uint8_t		saved = bytes[i];

		bytes[i] = 0xff;
		rest = (LsSlice) {bytes, len};
		memset(&row, 0, sizeof(row));
		assert_false(ls_next_row(&rest, &row) && rest.len == len - ls_put_row(NULL, 0, &rows[0]));
		bytes[i] = saved;
	}

	/* a first one without a text */
	len = ls_put_row(bytes, sizeof(bytes), &rows[1]);
	rest = (LsSlice) {bytes, len};
	memset(&row, 0, sizeof(row));
	assert_false(ls_next_row(&rest, &row));

	row = (LsRow) {{bytes, (size_t) LS_MAX_PAYLOAD + 1}, 0, {NULL, 0}};
	assert_true(ls_put_row(NULL, 0, &row) == SIZE_MAX);
}

static void
test_work(void **state)
{
	const LsWork work = {INT64_C(0x0102030405060708), 3, UINT64_MAX, 4, {NULL, 0}};
	uint8_t		bytes[LS_WORK_FIXED_SIZE + 1];
	LsSlice		slice = {bytes, 0};
	LsWork		got;

	ls_put_work(bytes, &work);
	bytes[LS_WORK_FIXED_SIZE] = 'r';
	for (; slice.len < LS_WORK_FIXED_SIZE; slice.len++)
		assert_false(ls_get_work(slice, &got));
	assert_true(ls_get_work(slice, &got));
	assert_int_equal(got.rows.len, 0);
	slice.len++;
	assert_true(ls_get_work(slice, &got));
	assert_true(got.wait_for == work.wait_for && got.first == work.first && got.seq == work.seq && got.chain == work.chain);
	assert_slice(got.rows, "r");
}

static void
test_settings(void **state)
{
	LsSlice		rest = SLICE("search_path\0public\0TimeZone\0\0");
	LsSlice		name,
				value;

	assert_true(ls_next_setting(&rest, &name, &value));
	assert_slice(name, "search_path");
	assert_slice(value, "public");
	assert_true(ls_next_setting(&rest, &name, &value));
	assert_slice(name, "TimeZone");
	assert_slice(value, "");
	assert_false(ls_next_setting(&rest, &name, &value));
}

static void
test_too_many_params(void **state)
{
	size_t		n = LS_MAX_PARAMS + 1;
	uint8_t    *params = malloc(n * 4);
	uint8_t    *buf = malloc(n * 4 + 200);
	LsQuery		query = {.xcount = 1, .form = LS_FORM_STATEMENT, .reason = LS_REASON_SHIPPABLE,
		.text = SLICE("SELECT"), .params = {params, n * 4}};
	LsQuery		got;
	size_t		len;

	memset(params, 0xFF, n * 4);
	len = ls_put_query(buf, n * 4 + 200, &query);
	assert_string_equal(ls_get_query((LsSlice) {buf + 5, len - 5}, &got), "there are too many parameters");
	query.params.len -= 4;
	len = ls_put_query(buf, n * 4 + 200, &query);
	assert_null(ls_get_query((LsSlice) {buf + 5, len - 5}, &got));
	assert_int_equal(got.nparams, LS_MAX_PARAMS);
	free(params);
	free(buf);
}

/* A name longer than its length byte can say is cut; a huge message refused. */
static void
test_oversized(void **state)
{
	char		name[300];
	uint8_t		buf[400];
	LsKey		key = {.mode = LS_TABLE_X, .name = {(const uint8_t *) name, sizeof(name)}};
	LsQuery		query = {.text = {(const uint8_t *) name, (size_t) LS_MAX_PAYLOAD + 1}};
	LsSlice		rest;

	memset(name, 'n', sizeof(name));
	assert_int_equal(ls_put_key(buf, sizeof(buf), &key), 18 + 255);
	rest = (LsSlice) {buf, 18 + 255};
	assert_true(ls_next_key(&rest, &key));
	assert_int_equal(key.name.len, 255);
	assert_true(ls_put_query(NULL, 0, &query) == SIZE_MAX);
	query.text.len = LS_MAX_PAYLOAD;	/* with the other fields it is too much */
	assert_true(ls_put_query(NULL, 0, &query) == SIZE_MAX);
	assert_true(ls_put_param(NULL, 0, name, (size_t) LS_MAX_PAYLOAD + 1) == SIZE_MAX);
}

/* Another version is named as the cause, whatever else is strange. */
static void
test_other_version(void **state)
{
	uint8_t		buf[SAMPLE_MAX];
	LsHello		hello = sample_hello();
	LsHello		got;
	size_t		len;

	hello.version = 2;
	len = ls_put_hello(buf, sizeof(buf), &hello);
	assert_null(ls_get_hello((LsSlice) {buf + 5, len - 5}, &got));
	assert_int_equal(got.version, 2);
	memcpy(buf + len, "J\0\0\0\0", 5);
	assert_string_equal(ls_get_hello((LsSlice) {buf + 5, len}, &got), "the protocol version is not supported");
}

/* Random bytes, and valid messages with random damage: refused or decoded. */
static void
test_garbage(void **state)
{
	unit_seed(1);
	for (int i = 0; i < 200000; i++)
	{
		const Sample *s = &samples[unit_below(nsamples)];
		uint8_t		bytes[SAMPLE_MAX];
		size_t		len = s->len;

		memcpy(bytes, s->bytes, len);
		for (uint64_t n = unit_below(4) + 1; n > 0; n--)
			bytes[LS_HEADER_SIZE + unit_below(len - LS_HEADER_SIZE)] = (uint8_t) unit_random();
		decode_exact((LsMsgType) bytes[0], bytes + LS_HEADER_SIZE,
					 unit_below(3) ? len - LS_HEADER_SIZE : unit_below(len - LS_HEADER_SIZE));
	}
}

static void
test_modes(void **state)
{
	static const char modes[] = "suxhriISXqR";
	static const char conflicts[] =
		"00100000000"
		"01111000000"
		"11111000000"
		"01100000000"
		"01100000000"
		"00000000100"
		"00000001101"
		"00000010100"
		"00000111111"
		"00000000100"
		"00000010100";

	for (int a = 0; a < 11; a++)
	{
		for (int b = 0; b < 11; b++)
		{
			bool		conflict = ls_modes_conflict((LsKeyMode) modes[a], (LsKeyMode) modes[b]);

			assert_int_equal(conflict, conflicts[a * 11 + b] == '1');
		}
		assert_int_equal(ls_mode_is_table((LsKeyMode) modes[a]), a >= 5);
		assert_int_equal(ls_mode_is_read((LsKeyMode) modes[a]), strchr("rqR", modes[a]) != NULL);
	}
}

/* The two roles, and any two handshakes, sign different bytes. */
static void
test_signed_bytes(void **state)
{
	LsHello		hello = sample_hello();
	LsSlice		nonce = SLICE("cccccccccccccccccccccccccccccccc");
	uint8_t		a[LS_SIGNED_MAX],
				b[LS_SIGNED_MAX];
	size_t		na = ls_signed_bytes(a, sizeof(a), "backend", &hello, nonce);
	size_t		nb = ls_signed_bytes(b, sizeof(b), "replicator", &hello, nonce);

	assert_in_range(na, 1, LS_SIGNED_MAX);
	assert_false(na == nb && memcmp(a, b, na) == 0);
	hello.node = SLICE("n1p");
	hello.database = SLICE("ostgres");
	nb = ls_signed_bytes(b, sizeof(b), "backend", &hello, nonce);
	assert_int_equal(na, nb);
	assert_memory_not_equal(a, b, na);

	/* the largest handshake fits */
	hello.node = hello.database = hello.cluster =
		SLICE("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	assert_in_range(ls_signed_bytes(NULL, 0, "replicator", &hello, nonce), 1, LS_SIGNED_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_too_little_room),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_frame),
		cmocka_unit_test(test_fields_missing_or_twice),
		cmocka_unit_test(test_wrong_width),
		cmocka_unit_test(test_unknown_tags),
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_taken_again),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_too_many_params),
		cmocka_unit_test(test_oversized),
		cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_signed_bytes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
