/*
 * journal_record.c
 *	  Journal records as bytes: journal_private.h has the layout.
 *
 * Pure: no I/O, no allocation; decoding hands out slices of its input and reads
 * nothing outside it, whatever the bytes are (fuzzed).
 */
#include "journal_private.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BODY_HEADER_SIZE 2		/* version, type */
#define FIELD_HEADER_SIZE 5

/*
 * Fields, with the width of fixed ones.  Transaction: all but text.  The other
 * types: seq, time, text.
 */
#define FIELD_SEQ 'S'			/* u64 */
#define FIELD_TIME 'T'			/* u64 */
#define FIELD_NODE 'N'
#define FIELD_BOOT 'B'			/* u64 */
#define FIELD_PID 'P'			/* u32 */
#define FIELD_XCOUNT 'X'		/* u64 */
#define FIELD_DATABASE 'D'
#define FIELD_DEPENDS_ON 'A'	/* u64 */
#define FIELD_WAIT 'W'			/* u8 */
#define FIELD_QUERIES 'Q'
#define FIELD_TEXT 'M'
#define FIELD_BODY 'R'			/* u64 id, size, statements, first DDL */
#define FIELD_PARENT 'c'		/* u64, optional: lower-case, so that an
								 * earlier version skips it */

/* Type of the record of a transaction that has a body instead of its queries. */
#define RECORD_WITH_BODY 'T'

static const char transaction_fields[] = "STNBPXDAWQ";
static const char body_fields[] = "STNBPXDAWR";
static const char metadata_fields[] = "STM";

void
put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t) v;
}

void
put_be64(uint8_t *p, uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t) v;
}

uint32_t
get_be32(const uint8_t *p)
{
	uint32_t	v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | p[i];
	return v;
}

uint64_t
get_be64(const uint8_t *p)
{
	uint64_t	v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

/* ---------- the frame: length and checksum */

static void
put_frame(uint8_t *buf, size_t body_len)
{
	put_be32(buf, (uint32_t) body_len);
	put_be64(buf + 4, XXH3_64bits_withSeed(buf + RECORD_HEADER_SIZE, body_len, body_len));
}

static bool
all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (p[i] != 0)
			return false;
	}
	return true;
}

JournalStatus
record_frame(const uint8_t *buf, size_t len, LsSlice *body, size_t *need)
{
	size_t		body_len;

	*need = 0;
	if (len < RECORD_HEADER_SIZE)
	{
		*need = RECORD_HEADER_SIZE;
		return all_zero(buf, len) ? JOURNAL_END : JOURNAL_TORN;
	}
	body_len = get_be32(buf);
	if (body_len < BODY_HEADER_SIZE)
		return all_zero(buf, RECORD_HEADER_SIZE) ? JOURNAL_END : JOURNAL_TORN;
	if (body_len > len - RECORD_HEADER_SIZE)
	{
		*need = RECORD_HEADER_SIZE + body_len;
		return JOURNAL_TORN;
	}
	if (get_be64(buf + 4) != XXH3_64bits_withSeed(buf + RECORD_HEADER_SIZE, body_len, body_len))
		return JOURNAL_TORN;
	body->data = buf + RECORD_HEADER_SIZE;
	body->len = body_len;
	return JOURNAL_OK;
}

/* ---------- encoding */

/* Writes at buf + *at if buf is not NULL; always advances *at. */
static void
put_bytes(uint8_t *buf, size_t *at, uint8_t tag, const void *data, size_t len)
{
	if (buf != NULL)
	{
		buf[*at] = tag;
		put_be32(buf + *at + 1, (uint32_t) len);
		if (len > 0)
			memcpy(buf + *at + FIELD_HEADER_SIZE, data, len);
	}
	*at += FIELD_HEADER_SIZE + len;
}

static void
put_number(uint8_t *buf, size_t *at, uint8_t tag, uint64_t v, size_t width)
{
	uint8_t		bytes[8];

	put_be64(bytes, v);
	put_bytes(buf, at, tag, bytes + 8 - width, width);
}

static void
put_body_ref(uint8_t *buf, size_t *at, const BodyRef *body)
{
	uint8_t		bytes[32];

	put_be64(bytes, body->id);
	put_be64(bytes + 8, body->size);
	put_be64(bytes + 16, body->nstatements);
	put_be64(bytes + 24, body->first_ddl);
	put_bytes(buf, at, FIELD_BODY, bytes, sizeof(bytes));
}

/* The whole record but its frame, at buf; its size. */
static size_t
put_body(uint8_t *buf, const JournalRecord *r)
{
	size_t		at = BODY_HEADER_SIZE;

	if (buf != NULL)
	{
		buf[0] = RECORD_VERSION;
		buf[1] = r->body.id != 0 ? RECORD_WITH_BODY : (uint8_t) r->type;
	}
	put_number(buf, &at, FIELD_SEQ, r->seq, 8);
	put_number(buf, &at, FIELD_TIME, r->time, 8);
	if (r->type != RECORD_TRANSACTION)
	{
		put_bytes(buf, &at, FIELD_TEXT, r->text.data, r->text.len);
		return at;
	}
	put_bytes(buf, &at, FIELD_NODE, r->identity.node.data, r->identity.node.len);
	put_number(buf, &at, FIELD_BOOT, r->identity.boot, 8);
	put_number(buf, &at, FIELD_PID, r->identity.pid, 4);
	put_number(buf, &at, FIELD_XCOUNT, r->identity.xcount, 8);
	put_bytes(buf, &at, FIELD_DATABASE, r->database.data, r->database.len);
	put_number(buf, &at, FIELD_DEPENDS_ON, r->depends_on, 8);
	put_number(buf, &at, FIELD_WAIT, r->wait, 1);
	if (r->parent != 0)
		put_number(buf, &at, FIELD_PARENT, r->parent, 8);
	if (r->body.id != 0)
		put_body_ref(buf, &at, &r->body);
	else
		put_bytes(buf, &at, FIELD_QUERIES, r->queries.data, r->queries.len);
	return at;
}

size_t
journal_encode(uint8_t *buf, size_t cap, const JournalRecord *r)
{
	size_t		body_len = put_body(NULL, r);

	if (body_len > UINT32_MAX)
		return SIZE_MAX;
	if (RECORD_HEADER_SIZE + body_len <= cap)
	{
		put_body(buf + RECORD_HEADER_SIZE, r);
		put_frame(buf, body_len);
	}
	return RECORD_HEADER_SIZE + body_len;
}

/* ---------- the chain */

uint64_t
journal_chain_of(const uint8_t *record)
{
	return get_be64(record + 4);
}

void
journal_chain_text(char text[CHAIN_TEXT_SIZE], uint64_t chain)
{
	for (int i = CHAIN_TEXT_SIZE - 2; i >= 0; i--, chain >>= 4)
		text[i] = "0123456789abcdef"[chain & 0xf];
	text[CHAIN_TEXT_SIZE - 1] = '\0';
}

bool
journal_chain_parse(LsSlice text, uint64_t *chain)
{
	char		digits[CHAIN_TEXT_SIZE] = "";

	if (text.len != CHAIN_TEXT_SIZE - 1)
		return false;
	memcpy(digits, text.data, text.len);
	if (strspn(digits, "0123456789abcdef") != text.len)
		return false;
	*chain = strtoull(digits, NULL, 16);
	return true;
}

/* ---------- decoding */

static bool
get_number(LsSlice value, size_t width, uint64_t *v)
{
	if (value.len != width)
		return false;
	*v = 0;
	for (size_t i = 0; i < width; i++)
		*v = *v << 8 | value.data[i];
	return true;
}

/* Store one field of a known tag; false: its value is malformed. */
static bool
get_field(uint8_t tag, LsSlice value, JournalRecord *r)
{
	uint64_t	v = 0;

	switch (tag)
	{
		case FIELD_SEQ:
			return get_number(value, 8, &r->seq);
		case FIELD_TIME:
			return get_number(value, 8, &r->time);
		case FIELD_BOOT:
			return get_number(value, 8, &r->identity.boot);
		case FIELD_XCOUNT:
			return get_number(value, 8, &r->identity.xcount);
		case FIELD_DEPENDS_ON:
			return get_number(value, 8, &r->depends_on);
		case FIELD_PID:
			if (!get_number(value, 4, &v))
				return false;
			r->identity.pid = (uint32_t) v;
			return true;
		case FIELD_WAIT:
			if (!get_number(value, 1, &v) ||
				(v != LS_WAIT_ORDERED && v != LS_WAIT_EXECUTED && v != LS_WAIT_APPLIED))
				return false;
			r->wait = (LsCommitWait) v;
			return true;
		case FIELD_NODE:
			r->identity.node = value;
			return true;
		case FIELD_DATABASE:
			r->database = value;
			return true;
		case FIELD_QUERIES:
			r->queries = value;
			return true;
		case FIELD_TEXT:
			r->text = value;
			return true;
		case FIELD_BODY:
			if (value.len != 32)
				return false;
			r->body.id = get_be64(value.data);
			r->body.size = get_be64(value.data + 8);
			r->body.nstatements = get_be64(value.data + 16);
			r->body.first_ddl = get_be64(value.data + 24);
			return r->body.id != 0;
	}
	return false;
}

/* Every field of fields once, none but those and unknown lower-case ones. */
static bool
get_fields(LsSlice rest, const char *fields, JournalRecord *r)
{
	uint32_t	seen = 0;

	while (rest.len > 0)
	{
		const char *known;
		LsSlice		value;
		uint8_t		tag;

		if (rest.len < FIELD_HEADER_SIZE)
			return false;
		tag = rest.data[0];
		value.data = rest.data + FIELD_HEADER_SIZE;
		value.len = get_be32(rest.data + 1);
		if (value.len > rest.len - FIELD_HEADER_SIZE)
			return false;
		rest.data += FIELD_HEADER_SIZE + value.len;
		rest.len -= FIELD_HEADER_SIZE + value.len;

		if (tag == FIELD_PARENT && r->type == RECORD_TRANSACTION)
		{
			if (r->parent != 0 || !get_number(value, 8, &r->parent) || r->parent == 0)
				return false;
			continue;
		}
		if (tag >= 'a' && tag <= 'z')
			continue;
		known = tag != 0 ? strchr(fields, tag) : NULL;
		if (known == NULL || (seen & (1u << (known - fields))) || !get_field(tag, value, r))
			return false;
		seen |= 1u << (known - fields);
	}
	return seen == (1u << strlen(fields)) - 1;
}

bool
record_decode(LsSlice body, JournalRecord *r)
{
	LsSlice		fields = {body.data + BODY_HEADER_SIZE, body.len - BODY_HEADER_SIZE};

	memset(r, 0, sizeof(*r));
	r->chain = journal_chain_of(body.data - RECORD_HEADER_SIZE);
	if (body.data[0] != RECORD_VERSION)
		return false;
	switch (body.data[1])
	{
		case RECORD_TRANSACTION:
			r->type = RECORD_TRANSACTION;
			return get_fields(fields, transaction_fields, r) && r->seq > 0;
		case RECORD_WITH_BODY:
			r->type = RECORD_TRANSACTION;
			return get_fields(fields, body_fields, r) && r->seq > 0;
		case RECORD_DATABASE_ADDED:
		case RECORD_DATABASE_DROPPED:
		case RECORD_NODE_DROPPED:
		case RECORD_NODE_ATTACHED:
		case RECORD_FINGERPRINT:
		case RECORD_LEASE:
		case RECORD_CHAIN:
		case RECORD_GENERATION:
		case RECORD_DATABASE_EVENT:
			r->type = (RecordType) body.data[1];
			r->wait = LS_WAIT_EXECUTED; /* no meaning, but a legal value */
			return get_fields(fields, metadata_fields, r);
	}
	return false;
}

JournalStatus
journal_decode(const uint8_t *buf, size_t len, JournalRecord *r, size_t *used)
{
	LsSlice		body;
	size_t		need;
	JournalStatus status = record_frame(buf, len, &body, &need);

	*used = 0;
	if (status != JOURNAL_OK)
		return status;
	if (!record_decode(body, r))
		return JOURNAL_TORN;
	*used = RECORD_HEADER_SIZE + body.len;
	return JOURNAL_OK;
}

/* ---------- group marks: version, type, u64 offset, u64 durable */

void
group_encode(uint8_t buf[GROUP_MARK_SIZE], const GroupMark *mark)
{
	uint8_t    *body = buf + RECORD_HEADER_SIZE;

	body[0] = RECORD_VERSION;
	body[1] = RECORD_GROUP;
	put_be64(body + 2, mark->offset);
	put_be64(body + 10, mark->durable);
	put_frame(buf, GROUP_MARK_SIZE - RECORD_HEADER_SIZE);
}

bool
group_decode(LsSlice body, GroupMark *mark)
{
	if (body.len != GROUP_MARK_SIZE - RECORD_HEADER_SIZE ||
		body.data[0] != RECORD_VERSION || body.data[1] != RECORD_GROUP)
		return false;
	mark->offset = get_be64(body.data + 2);
	mark->durable = get_be64(body.data + 10);
	return true;
}
