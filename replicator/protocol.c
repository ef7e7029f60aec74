/*
 * protocol.c
 *	  Encoding and decoding of the messages between a backend and the
 *	  replicator; protocol.h says what they mean.
 *
 * Each message is described once, by a table of its fields: tag, kind, where it
 * is in the C structure, what values are legal.  put_message() and
 * get_message() walk that table, so the two directions can't drift apart.  What
 * a table can't say (lists inside a field, fields that depend on another) is
 * checked after get_message() by the message's own decoder.
 *
 * Invariants: no allocation, no I/O, no static state, nothing read outside the
 * bytes given.  Compiled into the replicator and into the extension, hence
 * nothing but standard C headers.  Any thread may call anything here.
 */
#include "protocol_private.h"

#include <string.h>

#define FIELD_HEADER_SIZE 5

typedef enum FieldKind
{
	FIELD_ENUM,					/* one byte out of Field.allowed */
	FIELD_BOOL,					/* one byte, 0 or 1 */
	FIELD_U32,
	FIELD_U64,					/* i64 too: two's complement */
	FIELD_BYTES,				/* min_len..max_len bytes */
	FIELD_TEXT					/* the same, none of them NUL */
} FieldKind;

typedef enum FieldPresence
{
	FIELD_MANDATORY,
	FIELD_OPTIONAL				/* left out when empty or 0 */
} FieldPresence;

typedef struct Field
{
	uint8_t		tag;
	FieldKind	kind;
	FieldPresence presence;
	size_t		offset;			/* of the member in the structure */
	size_t		min_len;		/* bytes and text only */
	size_t		max_len;
	const char *allowed;		/* enum only */
} Field;

typedef struct MessageLayout
{
	const Field *fields;
	size_t		nfields;
	size_t		size;			/* of the structure */
} MessageLayout;

#define NUMBER32(tag, type, member) \
	{tag, FIELD_U32, FIELD_MANDATORY, offsetof(type, member), 0, 0, NULL}
#define NUMBER64(tag, type, member) \
	{tag, FIELD_U64, FIELD_MANDATORY, offsetof(type, member), 0, 0, NULL}
#define BOOLEAN(tag, type, member) \
	{tag, FIELD_BOOL, FIELD_MANDATORY, offsetof(type, member), 0, 0, NULL}
#define CHOICE(tag, type, member, values) \
	{tag, FIELD_ENUM, FIELD_MANDATORY, offsetof(type, member), 0, 0, values}
#define BYTES(tag, type, member, min, max) \
	{tag, FIELD_BYTES, FIELD_MANDATORY, offsetof(type, member), min, max, NULL}
#define TEXT(tag, type, member, min, max) \
	{tag, FIELD_TEXT, FIELD_MANDATORY, offsetof(type, member), min, max, NULL}
#define OPTIONAL_NUMBER64(tag, type, member) \
	{tag, FIELD_U64, FIELD_OPTIONAL, offsetof(type, member), 0, 0, NULL}
#define OPTIONAL_BYTES(tag, type, member) \
	{tag, FIELD_BYTES, FIELD_OPTIONAL, offsetof(type, member), 0, LS_MAX_PAYLOAD, NULL}
#define OPTIONAL_TEXT(tag, type, member) \
	{tag, FIELD_TEXT, FIELD_OPTIONAL, offsetof(type, member), 0, LS_MAX_PAYLOAD, NULL}

/* Of a message with a member `error` that may be empty. */
#define ERROR_FIELDS(type) \
	OPTIONAL_TEXT('q', type, error.sqlstate), \
	OPTIONAL_TEXT('m', type, error.message), \
	OPTIONAL_TEXT('d', type, error.detail), \
	OPTIONAL_TEXT('h', type, error.hint)

#define LAYOUT(name, type) \
	static const MessageLayout name = { \
		name##_fields, sizeof(name##_fields) / sizeof(Field), sizeof(type) \
	}

#define COMMIT_WAITS "oea"

static const Field hello_layout_fields[] = {
	NUMBER32('V', LsHello, version),
	TEXT('N', LsHello, node, 1, LS_MAX_NAME),
	TEXT('D', LsHello, database, 1, LS_MAX_NAME),
	TEXT('C', LsHello, cluster, 0, LS_MAX_NAME),
	NUMBER64('B', LsHello, boot),
	NUMBER32('P', LsHello, pid),
	BYTES('R', LsHello, nonce, LS_NONCE_SIZE, LS_NONCE_SIZE),
	OPTIONAL_TEXT('a', LsHello, application),
};

LAYOUT(hello_layout, LsHello);

static const Field challenge_layout_fields[] = {
	NUMBER32('V', LsChallenge, version),
	BYTES('R', LsChallenge, nonce, LS_NONCE_SIZE, LS_NONCE_SIZE),
};

LAYOUT(challenge_layout, LsChallenge);

static const Field proof_layout_fields[] = {
	BYTES('A', LsProof, proof, LS_PROOF_SIZE, LS_PROOF_SIZE),
};

LAYOUT(proof_layout, LsProof);

static const Field query_layout_fields[] = {
	NUMBER64('X', LsQuery, xcount),
	CHOICE('F', LsQuery, form, "srck"),
	CHOICE('W', LsQuery, reason, "rnuswfkq"),
	TEXT('T', LsQuery, text, 1, LS_MAX_PAYLOAD),
	OPTIONAL_BYTES('G', LsQuery, settings),
	NUMBER64('N', LsQuery, rows),
	OPTIONAL_BYTES('M', LsQuery, params),
	OPTIONAL_BYTES('K', LsQuery, keys),
	BOOLEAN('U', LsQuery, ddl),
};

LAYOUT(query_layout, LsQuery);

static const Field rollback_to_layout_fields[] = {
	NUMBER64('X', LsRollbackTo, xcount),
	NUMBER64('N', LsRollbackTo, keep),
};

LAYOUT(rollback_to_layout, LsRollbackTo);

static const Field lock_layout_fields[] = {
	NUMBER64('X', LsLock, xcount),
	OPTIONAL_BYTES('K', LsLock, keys),
	BOOLEAN('U', LsLock, ddl),
};

LAYOUT(lock_layout, LsLock);

static const Field granted_layout_fields[] = {
	NUMBER64('X', LsGranted, xcount),
	NUMBER64('S', LsGranted, seq),
};

LAYOUT(granted_layout, LsGranted);

static const Field ask_layout_fields[] = {
	NUMBER64('X', LsAsk, xcount),
	NUMBER64('N', LsAsk, nstatements),
	CHOICE('W', LsAsk, wait, COMMIT_WAITS),
	NUMBER64('S', LsAsk, applied),
	NUMBER64('F', LsAsk, confirmed),
};

LAYOUT(ask_layout, LsAsk);

static const Field error_layout_fields[] = {
	TEXT('q', LsErrorFields, sqlstate, LS_SQLSTATE_SIZE, LS_SQLSTATE_SIZE),
	TEXT('m', LsErrorFields, message, 1, LS_MAX_PAYLOAD),
	OPTIONAL_TEXT('d', LsErrorFields, detail),
	OPTIONAL_TEXT('h', LsErrorFields, hint),
};

LAYOUT(error_layout, LsErrorFields);

/* The outcome says which of the optional ones must be there: ls_get_verdict(). */
static const Field verdict_layout_fields[] = {
	NUMBER64('X', LsVerdict, xcount),
	CHOICE('O', LsVerdict, outcome, "crw"),
	OPTIONAL_NUMBER64('S', LsVerdict, seq),
	OPTIONAL_NUMBER64('c', LsVerdict, chain),
	OPTIONAL_NUMBER64('a', LsVerdict, after),
	ERROR_FIELDS(LsVerdict),
};

LAYOUT(verdict_layout, LsVerdict);

static const Field lease_layout_fields[] = {
	NUMBER64('X', LsLease, id),
	TEXT('N', LsLease, name, 1, LS_MAX_THING),
	NUMBER64('I', LsLease, increment),
	NUMBER64('L', LsLease, min),
	NUMBER64('H', LsLease, max),
	BOOLEAN('C', LsLease, cycle),
	NUMBER64('V', LsLease, value),
	BOOLEAN('Z', LsLease, called),
	NUMBER64('W', LsLease, wanted),
	NUMBER64('S', LsLease, applied),
	OPTIONAL_BYTES('K', LsLease, keys),
};

LAYOUT(lease_layout, LsLease);

static const Field leased_layout_fields[] = {
	NUMBER64('X', LsLeased, id),
	NUMBER64('F', LsLeased, first),
	NUMBER64('C', LsLeased, count),
	NUMBER64('S', LsLeased, seq),
};

LAYOUT(leased_layout, LsLeased);

static const Field alone_layout_fields[] = {
	NUMBER64('X', LsAlone, id),
	BYTES('Q', LsAlone, query, LS_HEADER_SIZE, LS_MAX_PAYLOAD),
};

LAYOUT(alone_layout, LsAlone);

static const Field ordered_layout_fields[] = {
	NUMBER64('X', LsOrdered, id),
	NUMBER64('S', LsOrdered, seq),
	ERROR_FIELDS(LsOrdered),
};

LAYOUT(ordered_layout, LsOrdered);

static const Field number_layout_fields[] = {
	NUMBER64('X', LsNumber, value),
};

LAYOUT(number_layout, LsNumber);

static const Field fate_question_layout_fields[] = {
	TEXT('N', LsFateQuestion, identity.node, 1, LS_MAX_NAME),
	NUMBER64('B', LsFateQuestion, identity.boot),
	NUMBER32('P', LsFateQuestion, identity.pid),
	NUMBER64('X', LsFateQuestion, identity.xcount),
	NUMBER64('S', LsFateQuestion, since),
	NUMBER64('Q', LsFateQuestion, question),
	BOOLEAN('G', LsFateQuestion, gave_up),
};

LAYOUT(fate_question_layout, LsFateQuestion);

static const Field fate_answer_layout_fields[] = {
	NUMBER64('Q', LsFateAnswer, question),
	CHOICE('O', LsFateAnswer, fate, "crpu"),
	NUMBER64('S', LsFateAnswer, seq),
};

LAYOUT(fate_answer_layout, LsFateAnswer);

static const Field facts_question_layout_fields[] = {
	NUMBER64('Q', LsFactsQuestion, question),
	CHOICE('W', LsFactsQuestion, kind, "rcw"),
	OPTIONAL_NUMBER64('s', LsFactsQuestion, seq),
};

LAYOUT(facts_question_layout, LsFactsQuestion);

static const Field facts_layout_fields[] = {
	NUMBER64('Q', LsFacts, question),
	NUMBER32('C', LsFacts, ncolumns),
	OPTIONAL_BYTES('M', LsFacts, cells),
};

LAYOUT(facts_layout, LsFacts);

static const Field lost_layout_fields[] = {
	NUMBER64('X', LsLost, xcount),
	CHOICE('R', LsLost, reason, "uqd"),
	OPTIONAL_NUMBER64('s', LsLost, seq),
	OPTIONAL_TEXT('k', LsLost, key),
	OPTIONAL_TEXT('d', LsLost, detail),
};

LAYOUT(lost_layout, LsLost);

/* Enum members are moved as int by put_message() and get_message(). */
_Static_assert(sizeof(LsForm) == sizeof(int), "enums must have the size of int");
_Static_assert(sizeof(LsFate) == sizeof(int), "enums must have the size of int");

/* ---------- messages */

/* Bytes of the field's value in message m, or 0 with *omit set. */
static size_t
field_len(const Field *f, const void *m, bool *omit)
{
	const char *member = (const char *) m + f->offset;
	size_t		len = 0;
	bool		empty = false;

	switch (f->kind)
	{
		case FIELD_ENUM:
		case FIELD_BOOL:
			len = 1;
			break;
		case FIELD_U32:
			len = 4;
			break;
		case FIELD_U64:
			{
				uint64_t	v;

				memcpy(&v, member, sizeof(v));
				empty = (v == 0);
				len = 8;
				break;
			}
		case FIELD_BYTES:
		case FIELD_TEXT:
			{
				LsSlice		s;

				memcpy(&s, member, sizeof(s));
				empty = (s.len == 0);
				len = s.len;
				break;
			}
	}
	*omit = (f->presence == FIELD_OPTIONAL && empty);
	return *omit ? 0 : len;
}

static void
put_field_value(uint8_t *p, const Field *f, const void *m)
{
	const char *member = (const char *) m + f->offset;

	switch (f->kind)
	{
		case FIELD_ENUM:
			{
				int			v;

				memcpy(&v, member, sizeof(v));
				p[0] = (uint8_t) v;
				break;
			}
		case FIELD_BOOL:
			p[0] = *(const bool *) member ? 1 : 0;
			break;
		case FIELD_U32:
			{
				uint32_t	v;

				memcpy(&v, member, sizeof(v));
				put_u32(p, v);
				break;
			}
		case FIELD_U64:
			{
				uint64_t	v;

				memcpy(&v, member, sizeof(v));
				put_u64(p, v);
				break;
			}
		case FIELD_BYTES:
		case FIELD_TEXT:
			{
				LsSlice		s;

				memcpy(&s, member, sizeof(s));
				copy_bytes(p, s.data, s.len);
				break;
			}
	}
}

static size_t
put_message(uint8_t *buf, size_t cap, LsMsgType type, const MessageLayout *layout,
			const void *m)
{
	size_t		payload = 0;
	uint8_t    *p = buf;
	bool		omit;

	for (size_t i = 0; i < layout->nfields; i++)
	{
		size_t		len = field_len(&layout->fields[i], m, &omit);

		if (omit)
			continue;
		if (len > LS_MAX_PAYLOAD)
			return SIZE_MAX;
		payload += FIELD_HEADER_SIZE + len;
	}
	if (payload > LS_MAX_PAYLOAD)
		return SIZE_MAX;
	if (LS_HEADER_SIZE + payload > cap)
		return LS_HEADER_SIZE + payload;

	*p++ = (uint8_t) type;
	put_u32(p, (uint32_t) payload);
	p += 4;
	for (size_t i = 0; i < layout->nfields; i++)
	{
		const Field *f = &layout->fields[i];
		size_t		len = field_len(f, m, &omit);

		if (omit)
			continue;
		*p++ = f->tag;
		put_u32(p, (uint32_t) len);
		p += 4;
		put_field_value(p, f, m);
		p += len;
	}
	return LS_HEADER_SIZE + payload;
}

/* Store one field's value; NULL, or what is wrong with it. */
static const char *
get_field_value(const Field *f, LsSlice value, void *m)
{
	char	   *member = (char *) m + f->offset;

	switch (f->kind)
	{
		case FIELD_ENUM:
			{
				int			v;

				if (value.len != 1)
					return "a field has the wrong width";
				v = value.data[0];
				if (v == 0 || strchr(f->allowed, v) == NULL)
					return "a field has a value that is not one of the legal ones";
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_BOOL:
			if (value.len != 1)
				return "a field has the wrong width";
			if (value.data[0] > 1)
				return "a field has a value that is not one of the legal ones";
			*(bool *) member = (value.data[0] == 1);
			break;
		case FIELD_U32:
			{
				uint32_t	v;

				if (value.len != 4)
					return "a field has the wrong width";
				v = get_u32(value.data);
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_U64:
			{
				uint64_t	v;

				if (value.len != 8)
					return "a field has the wrong width";
				v = get_u64(value.data);
				memcpy(member, &v, sizeof(v));
				break;
			}
		case FIELD_TEXT:
			if (value.len > 0 && memchr(value.data, 0, value.len) != NULL)
				return "a text contains a NUL byte";
			/* FALLTHROUGH */
		case FIELD_BYTES:
			if (value.len < f->min_len)
				return "a field is too short";
			if (value.len > f->max_len)
				return "a field is too long";
			memcpy(member, &value, sizeof(value));
			break;
	}
	return NULL;
}

/* Take the next field off the front of *rest. */
static const char *
next_field(LsSlice *rest, uint8_t *tag, LsSlice *value)
{
	uint32_t	len;

	if (rest->len < FIELD_HEADER_SIZE)
		return "the message ends inside a field";
	*tag = rest->data[0];
	len = get_u32(rest->data + 1);
	if (len > rest->len - FIELD_HEADER_SIZE)
		return "the message ends inside a field";
	value->data = rest->data + FIELD_HEADER_SIZE;
	value->len = len;
	rest->data += FIELD_HEADER_SIZE + len;
	rest->len -= FIELD_HEADER_SIZE + len;
	return NULL;
}

static const char *
get_message(LsSlice payload, const MessageLayout *layout, void *m)
{
	uint32_t	seen = 0;
	size_t		next = 0;
	const char *wrong;

	memset(m, 0, layout->size);
	while (payload.len > 0)
	{
		uint8_t		tag;
		LsSlice		value;
		size_t		i = 0;
		size_t		n;

		wrong = next_field(&payload, &tag, &value);
		if (wrong != NULL)
			return wrong;
		/* they nearly always come in the layout's order */
		for (n = 0; n < layout->nfields; n++)
		{
			i = next + n < layout->nfields ? next + n : next + n - layout->nfields;
			if (layout->fields[i].tag == tag)
				break;
		}
		if (n == layout->nfields)
		{
			/* a later version may add lower-case fields that we can ignore */
			if (tag >= 'a' && tag <= 'z')
				continue;
			return "the message has a field of an unknown kind";
		}
		next = i + 1;
		if (seen & (1u << i))
			return "a field is given twice";
		seen |= 1u << i;
		wrong = get_field_value(&layout->fields[i], value, m);
		if (wrong != NULL)
			return wrong;
	}
	for (size_t i = 0; i < layout->nfields; i++)
	{
		if (layout->fields[i].presence == FIELD_MANDATORY && !(seen & (1u << i)))
			return "a mandatory field is missing";
	}
	return NULL;
}

LsFrame
ls_frame(const uint8_t *buf, size_t len, uint32_t max_payload,
		 LsMsgType *type, LsSlice *payload)
{
	uint32_t	size;

	if (len == 0)
		return LS_FRAME_MORE;
	if (buf[0] == 0 || strchr("HCAWLlQRPDVYFZENnOoKSsUuIiJ", buf[0]) == NULL)
		return LS_FRAME_BAD;
	if (len < LS_HEADER_SIZE)
		return LS_FRAME_MORE;
	size = get_u32(buf + 1);
	if (size > max_payload)
		return LS_FRAME_BAD;
	if (len - LS_HEADER_SIZE < size)
		return LS_FRAME_MORE;
	*type = (LsMsgType) buf[0];
	payload->data = buf + LS_HEADER_SIZE;
	payload->len = size;
	return LS_FRAME_OK;
}

/* ---------- encoders */

size_t
ls_put_hello(uint8_t *buf, size_t cap, const LsHello *m)
{
	return put_message(buf, cap, LS_MSG_HELLO, &hello_layout, m);
}

size_t
ls_put_challenge(uint8_t *buf, size_t cap, const LsChallenge *m)
{
	return put_message(buf, cap, LS_MSG_CHALLENGE, &challenge_layout, m);
}

size_t
ls_put_proof(uint8_t *buf, size_t cap, const LsProof *m)
{
	return put_message(buf, cap, LS_MSG_PROOF, &proof_layout, m);
}

size_t
ls_put_welcome(uint8_t *buf, size_t cap, const LsProof *m)
{
	return put_message(buf, cap, LS_MSG_WELCOME, &proof_layout, m);
}

size_t
ls_put_query(uint8_t *buf, size_t cap, const LsQuery *m)
{
	return put_message(buf, cap, LS_MSG_QUERY, &query_layout, m);
}

size_t
ls_put_rollback_to(uint8_t *buf, size_t cap, const LsRollbackTo *m)
{
	return put_message(buf, cap, LS_MSG_ROLLBACK_TO, &rollback_to_layout, m);
}

size_t
ls_put_lock(uint8_t *buf, size_t cap, const LsLock *m)
{
	return put_message(buf, cap, LS_MSG_LOCK, &lock_layout, m);
}

size_t
ls_put_granted(uint8_t *buf, size_t cap, const LsGranted *m)
{
	return put_message(buf, cap, LS_MSG_GRANTED, &granted_layout, m);
}

size_t
ls_put_seq(uint8_t *buf, size_t cap, const LsGranted *m)
{
	return put_message(buf, cap, LS_MSG_SEQ, &granted_layout, m);
}

size_t
ls_put_ask(uint8_t *buf, size_t cap, const LsAsk *m)
{
	return put_message(buf, cap, LS_MSG_ASK, &ask_layout, m);
}

size_t
ls_put_verdict(uint8_t *buf, size_t cap, const LsVerdict *m)
{
	return put_message(buf, cap, LS_MSG_VERDICT, &verdict_layout, m);
}

size_t
ls_put_lease(uint8_t *buf, size_t cap, const LsLease *m)
{
	return put_message(buf, cap, LS_MSG_LEASE, &lease_layout, m);
}

size_t
ls_put_leased(uint8_t *buf, size_t cap, const LsLeased *m)
{
	return put_message(buf, cap, LS_MSG_LEASED, &leased_layout, m);
}

size_t
ls_put_alone(uint8_t *buf, size_t cap, const LsAlone *m)
{
	return put_message(buf, cap, LS_MSG_ALONE, &alone_layout, m);
}

size_t
ls_put_ordered(uint8_t *buf, size_t cap, const LsOrdered *m)
{
	return put_message(buf, cap, LS_MSG_ORDERED, &ordered_layout, m);
}

size_t
ls_put_error(uint8_t *buf, size_t cap, const LsErrorFields *m)
{
	return put_message(buf, cap, LS_MSG_ERROR, &error_layout, m);
}

size_t
ls_put_number(uint8_t *buf, size_t cap, LsMsgType type, uint64_t value)
{
	LsNumber	m;

	m.value = value;
	return put_message(buf, cap, type, &number_layout, &m);
}

size_t
ls_put_fate_question(uint8_t *buf, size_t cap, const LsFateQuestion *m)
{
	return put_message(buf, cap, LS_MSG_FATE, &fate_question_layout, m);
}

size_t
ls_put_fate_answer(uint8_t *buf, size_t cap, const LsFateAnswer *m)
{
	return put_message(buf, cap, LS_MSG_FATE_IS, &fate_answer_layout, m);
}

size_t
ls_put_facts_question(uint8_t *buf, size_t cap, const LsFactsQuestion *m)
{
	return put_message(buf, cap, LS_MSG_FACTS_ASK, &facts_question_layout, m);
}

size_t
ls_put_facts(uint8_t *buf, size_t cap, const LsFacts *m)
{
	return put_message(buf, cap, LS_MSG_FACTS, &facts_layout, m);
}

size_t
ls_put_lost(uint8_t *buf, size_t cap, const LsLost *m)
{
	return put_message(buf, cap, LS_MSG_LOST, &lost_layout, m);
}

/* ---------- packed lists, walked once */

/* Walk a keys field. */
static const char *
count_keys(LsSlice keys, bool for_lock, uint32_t *n)
{
	LsKey		key;

	*n = 0;
	while (ls_next_key(&keys, &key))
	{
		if (for_lock && ls_mode_is_read(key.mode))
			return "a lock is asked for, and only to read";
		(*n)++;
	}
	return keys.len == 0 ? NULL : "the list of keys is malformed";
}

/* Walk a params field.  *nulls: how many of them are NULL. */
static const char *
count_params(LsSlice params, uint32_t *n, uint32_t *nulls)
{
	LsSlice		param;

	*n = *nulls = 0;
	while (ls_next_param(&params, &param))
	{
		if (param.data == NULL)
			(*nulls)++;
		else if (param.len > 0 && memchr(param.data, 0, param.len) != NULL)
			return "a parameter contains a NUL byte";
		if (++(*n) > LS_MAX_PARAMS)
			return "there are too many parameters";
	}
	return params.len == 0 ? NULL : "the list of parameters is malformed";
}

static const char *
check_settings(LsSlice settings)
{
	LsSlice		name,
				value;

	while (ls_next_setting(&settings, &name, &value))
	{
		if (name.len == 0)
			return "a setting has no name";
	}
	return settings.len == 0 ? NULL : "the list of settings is malformed";
}

static const char *
check_sqlstate(LsSlice sqlstate)
{
	if (sqlstate.len != LS_SQLSTATE_SIZE)
		return "the SQLSTATE is malformed";
	for (size_t i = 0; i < sqlstate.len; i++)
	{
		uint8_t		c = sqlstate.data[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z')))
			return "the SQLSTATE is malformed";
	}
	return NULL;
}

/* ---------- decoders */

const char *
ls_get_hello(LsSlice payload, LsHello *m)
{
	const char *wrong = get_message(payload, &hello_layout, m);

	/* fields that we don't know are natural then: name the cause instead */
	if (wrong != NULL && m->version != 0 && m->version != LS_PROTOCOL_VERSION)
		return "the protocol version is not supported";
	if (wrong == NULL && m->pid == 0)
		return "the process id is 0";
	return wrong;
}

const char *
ls_get_challenge(LsSlice payload, LsChallenge *m)
{
	return get_message(payload, &challenge_layout, m);
}

const char *
ls_get_proof(LsSlice payload, LsProof *m)
{
	return get_message(payload, &proof_layout, m);
}

const char *
ls_get_query(LsSlice payload, LsQuery *m)
{
	const char *wrong = get_message(payload, &query_layout, m);
	uint32_t	nulls = 0;

	if (wrong == NULL && m->rows < -1)
		wrong = "the number of rows is negative";
	if (wrong == NULL)
		wrong = check_settings(m->settings);
	if (wrong == NULL)
		wrong = count_params(m->params, &m->nparams, &nulls);
	if (wrong == NULL)
		wrong = count_keys(m->keys, false, &m->nkeys);
	if (wrong == NULL && m->form == LS_FORM_COPY && (m->nparams != 1 || nulls > 0))
		wrong = "a COPY does not carry its data as its one parameter";
	return wrong;
}

const char *
ls_get_rollback_to(LsSlice payload, LsRollbackTo *m)
{
	return get_message(payload, &rollback_to_layout, m);
}

const char *
ls_get_lock(LsSlice payload, LsLock *m)
{
	const char *wrong = get_message(payload, &lock_layout, m);

	if (wrong == NULL)
		wrong = count_keys(m->keys, true, &m->nkeys);
	return wrong;
}

const char *
ls_get_granted(LsSlice payload, LsGranted *m)
{
	return get_message(payload, &granted_layout, m);
}

const char *
ls_get_ask(LsSlice payload, LsAsk *m)
{
	return get_message(payload, &ask_layout, m);
}

static bool
has_error_fields(const LsErrorFields *error)
{
	return error->sqlstate.len + error->message.len + error->detail.len + error->hint.len > 0;
}

const char *
ls_get_verdict(LsSlice payload, LsVerdict *m)
{
	const char *wrong = get_message(payload, &verdict_layout, m);
	bool		has_error;

	if (wrong != NULL)
		return wrong;
	has_error = has_error_fields(&m->error);
	if ((m->outcome == LS_OUTCOME_COMMITTED) != (m->seq != 0))
		return "a seq belongs to a committed transaction and to no other";
	if (m->outcome != LS_OUTCOME_COMMITTED && m->chain != 0)
		return "only what is committed has a place in the history";
	if (m->outcome != LS_OUTCOME_ROLLED_BACK && m->after != 0)
		return "only what is rolled back can be tried again";
	if ((m->outcome == LS_OUTCOME_ROLLED_BACK) != has_error)
		return "an error belongs to a transaction rolled back and to no other";
	if (has_error)
	{
		if (m->error.message.len == 0)
			return "a mandatory field is missing";
		return check_sqlstate(m->error.sqlstate);
	}
	return NULL;
}

const char *
ls_get_lease(LsSlice payload, LsLease *m)
{
	const char *wrong = get_message(payload, &lease_layout, m);
	uint32_t	nkeys;

	if (wrong == NULL && (m->increment == 0 || m->min > m->max))
		wrong = "the values asked for are none";
	if (wrong == NULL && (m->value < m->min || m->value > m->max))
		wrong = "the position is out of bounds";
	if (wrong == NULL)
		wrong = count_keys(m->keys, true, &nkeys);
	return wrong;
}

const char *
ls_get_leased(LsSlice payload, LsLeased *m)
{
	return get_message(payload, &leased_layout, m);
}

const char *
ls_get_alone(LsSlice payload, LsAlone *m, LsQuery *query)
{
	const char *wrong = get_message(payload, &alone_layout, m);
	LsMsgType	type;
	LsSlice		inner;

	if (wrong != NULL)
		return wrong;
	if (ls_frame(m->query.data, m->query.len, LS_MAX_PAYLOAD, &type, &inner) != LS_FRAME_OK ||
		type != LS_MSG_QUERY || m->query.len != LS_HEADER_SIZE + inner.len)
		return "what is to be ordered is no query";
	wrong = ls_get_query(inner, query);
	if (wrong == NULL && query->xcount != m->id)
		wrong = "the query belongs to another transaction";
	return wrong;
}

const char *
ls_get_ordered(LsSlice payload, LsOrdered *m)
{
	const char *wrong = get_message(payload, &ordered_layout, m);

	if (wrong != NULL)
		return wrong;
	if ((m->seq == 0) != has_error_fields(&m->error))
		return "an error belongs to a query that was not ordered and to no other";
	if (m->seq != 0)
		return NULL;
	if (m->error.message.len == 0)
		return "a mandatory field is missing";
	return check_sqlstate(m->error.sqlstate);
}

const char *
ls_get_error(LsSlice payload, LsErrorFields *m)
{
	const char *wrong = get_message(payload, &error_layout, m);

	return wrong != NULL ? wrong : check_sqlstate(m->sqlstate);
}

const char *
ls_get_number(LsSlice payload, LsNumber *m)
{
	return get_message(payload, &number_layout, m);
}

const char *
ls_get_fate_question(LsSlice payload, LsFateQuestion *m)
{
	return get_message(payload, &fate_question_layout, m);
}

const char *
ls_get_fate_answer(LsSlice payload, LsFateAnswer *m)
{
	return get_message(payload, &fate_answer_layout, m);
}

const char *
ls_get_facts_question(LsSlice payload, LsFactsQuestion *m)
{
	return get_message(payload, &facts_question_layout, m);
}

const char *
ls_get_facts(LsSlice payload, LsFacts *m)
{
	const char *wrong = get_message(payload, &facts_layout, m);
	uint32_t	nulls = 0;

	if (wrong == NULL)
		wrong = count_params(m->cells, &m->ncells, &nulls);
	if (wrong == NULL && (m->ncolumns == 0 || m->ncells % m->ncolumns != 0))
		wrong = "the rows of a table are incomplete";
	return wrong;
}

const char *
ls_get_lost(LsSlice payload, LsLost *m)
{
	return get_message(payload, &lost_layout, m);
}
