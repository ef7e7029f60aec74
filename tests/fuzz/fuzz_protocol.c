/*
 * fuzz_protocol.c
 *	  libFuzzer target: a receive buffer with whatever a backend may have sent.
 *	  Every decoder must refuse it or make a message of it that, encoded and
 *	  decoded again, is the same; and read nothing outside it.
 */
#include "../unit/samples.h"
#include "fuzz.h"

/* What the decoder walked can be walked. */
static void
walk_query(const LsQuery *q)
{
	LsSlice		rest = q->keys;
	LsSlice		a,
				b;
	LsKey		key;
	uint32_t	n = 0;
	size_t		sum = 0;

	while (ls_next_key(&rest, &key))
	{
		n++;
		sum += key.name.len > 0 ? key.name.data[key.name.len - 1] : 0;
	}
	CHECK(n == q->nkeys && rest.len == 0);
	n = 0;
	rest = q->params;
	while (ls_next_param(&rest, &a))
	{
		n++;
		sum += a.len > 0 ? a.data[a.len - 1] : 0;
	}
	CHECK(n == q->nparams && rest.len == 0);
	rest = q->settings;
	while (ls_next_setting(&rest, &a, &b))
	{
		CHECK(a.len > 0 && a.data[a.len] == 0 && b.data[b.len] == 0);
	}
	CHECK(rest.len == 0 && sum < SIZE_MAX);
}

/* Whatever it is, what is taken out of it lies within. */
static void
take_query(LsSlice payload)
{
	LsQuery		q;
	LsSlice		a,
				b;
	LsKey		key;
	size_t		sum = 0;

	if (!ls_take_query(payload, &q))
		return;
	while (ls_next_key(&q.keys, &key))
		sum += key.name.len > 0 ? key.name.data[key.name.len - 1] : 0;
	while (ls_next_param(&q.params, &a))
		sum += a.len > 0 ? a.data[a.len - 1] : 0;
	while (ls_next_setting(&q.settings, &a, &b))
		sum += a.data[a.len] + b.data[b.len];
	sum += q.text.len > 0 ? q.text.data[q.text.len - 1] : 0;
	CHECK(sum < SIZE_MAX);
}

static void
try_message(LsMsgType type, LsSlice payload)
{
	AnyMessage	m;
	AnyMessage	again;
	uint8_t    *bytes;
	uint8_t    *twice;
	LsSlice		rest;
	LsMsgType	same;
	size_t		len;

	take_query(payload);
	if (decode_any(type, payload, &m) != NULL)
		return;
	if (type == LS_MSG_QUERY)
		walk_query(&m.query);

	/* it can only have become shorter, by fields that we don't know */
	len = encode_any(type, &m, NULL, 0);
	CHECK(len <= LS_HEADER_SIZE + payload.len);
	bytes = malloc(len);
	twice = malloc(len);
	CHECK(encode_any(type, &m, bytes, len) == len);
	CHECK(ls_frame(bytes, len, LS_MAX_PAYLOAD, &same, &rest) == LS_FRAME_OK);
	CHECK(same == type && rest.len == len - LS_HEADER_SIZE);
	CHECK(decode_any(type, rest, &again) == NULL);
	CHECK(encode_any(type, &again, twice, len) == len);
	CHECK(memcmp(bytes, twice, len) == 0);
	free(bytes);
	free(twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	LsMsgType	type;
	LsSlice		payload;

	/* one payload for the type that its first byte says, length not believed */
	if (size > LS_HEADER_SIZE)
		try_message((LsMsgType) data[0], (LsSlice) {data + LS_HEADER_SIZE, size - LS_HEADER_SIZE});

	/* a stream of messages */
	while (ls_frame(data, size, 4096, &type, &payload) == LS_FRAME_OK)
	{
		CHECK(payload.data + payload.len <= data + size);
		try_message(type, payload);
		data += LS_HEADER_SIZE + payload.len;
		size -= LS_HEADER_SIZE + payload.len;
	}
	return 0;
}
