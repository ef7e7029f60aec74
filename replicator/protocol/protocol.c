/*
 * protocol.c
 *	  The fields of each message between a backend and the replicator, and their legal
 *	  values.  protocol.h says what they mean.
 *
 * Each message is described once, by a table of its fields: tag, kind, place in the C structure,
 * legal values.  protocol_fields.c walks that table in both directions.  What a table cannot
 * express (lists inside a field, fields that depend on another) is checked after get_message()
 * by the message's own decoder.
 *
 * Invariants: no allocation, no I/O, no static state, no access outside the given bytes.
 * Compiled into the replicator and into the extension, hence only standard C headers.  All
 * functions may be called by any thread.
 */
#include "protocol_private.h"

#include <string.h>

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
	OPTIONAL_TEXT('u', LsHello, role),
	OPTIONAL_NUMBER64('x', LsHello, over),
};

LAYOUT(hello_layout, LsHello);

static const Field challenge_layout_fields[] = {
	NUMBER32('V', LsChallenge, version),
	BYTES('R', LsChallenge, nonce, LS_NONCE_SIZE, LS_NONCE_SIZE),
};

LAYOUT(challenge_layout, LsChallenge);

static const Field proof_layout_fields[] = {
	BYTES('A', LsProof, proof, LS_PROOF_SIZE, LS_PROOF_SIZE),
	OPTIONAL_BYTES('k', LsProof, server_proof),
};

LAYOUT(proof_layout, LsProof);

static const Field welcome_layout_fields[] = {
	BYTES('A', LsWelcome, proof, LS_PROOF_SIZE, LS_PROOF_SIZE),
	OPTIONAL_NUMBER64('g', LsWelcome, generation),
	OPTIONAL_NUMBER64('r', LsWelcome, run),
	OPTIONAL_NUMBER64('R', LsWelcome, refused),
	OPTIONAL_BYTES('k', LsWelcome, server_proof),
};

LAYOUT(welcome_layout, LsWelcome);

static const Field query_layout_fields[] = {
	NUMBER64('X', LsQuery, xcount),
	CHOICE('F', LsQuery, form, "srckp"),
	CHOICE('W', LsQuery, reason, "rnuswfkq"),
	TEXT('T', LsQuery, text, 1, LS_MAX_PAYLOAD),
	OPTIONAL_BYTES('G', LsQuery, settings),
	NUMBER64('N', LsQuery, rows),
	OPTIONAL_BYTES('M', LsQuery, params),
	OPTIONAL_BYTES('K', LsQuery, keys),
	BOOLEAN('U', LsQuery, ddl),
	OPTIONAL_NUMBER64('P', LsQuery, pieces),
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
	OPTIONAL_NUMBER64('y', LsLock, yields),
	OPTIONAL_NUMBER64('d', LsLock, scope),
	OPTIONAL_NUMBER64('p', LsLock, parallel),
};

LAYOUT(lock_layout, LsLock);

static const Field granted_layout_fields[] = {
	NUMBER64('X', LsGranted, xcount),
	NUMBER64('S', LsGranted, seq),
	OPTIONAL_NUMBER64('N', LsGranted, asked),
};

LAYOUT(granted_layout, LsGranted);

static const Field ask_layout_fields[] = {
	NUMBER64('X', LsAsk, xcount),
	NUMBER64('N', LsAsk, nstatements),
	CHOICE('W', LsAsk, wait, COMMIT_WAITS),
	NUMBER64('S', LsAsk, applied),
	NUMBER64('F', LsAsk, confirmed),
	OPTIONAL_NUMBER64('d', LsAsk, took_ms),
	OPTIONAL_NUMBER64('c', LsAsk, certain),
	OPTIONAL_NUMBER64('w', LsAsk, waited_for),
};

LAYOUT(ask_layout, LsAsk);

static const Field error_layout_fields[] = {
	TEXT('q', LsErrorFields, sqlstate, LS_SQLSTATE_SIZE, LS_SQLSTATE_SIZE),
	TEXT('m', LsErrorFields, message, 1, LS_MAX_PAYLOAD),
	OPTIONAL_TEXT('d', LsErrorFields, detail),
	OPTIONAL_TEXT('h', LsErrorFields, hint),
};

LAYOUT(error_layout, LsErrorFields);

/* The outcome determines which of the optional ones must be present: ls_get_verdict(). */
static const Field verdict_layout_fields[] = {
	NUMBER64('X', LsVerdict, xcount),
	CHOICE('O', LsVerdict, outcome, "crw"),
	OPTIONAL_NUMBER64('S', LsVerdict, seq),
	OPTIONAL_NUMBER64('c', LsVerdict, chain),
	OPTIONAL_NUMBER64('a', LsVerdict, after),
	OPTIONAL_BYTES('k', LsVerdict, contended),
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
	NUMBER64('X', LsSingleQuery, id),
	BYTES('Q', LsSingleQuery, query, LS_HEADER_SIZE, LS_MAX_PAYLOAD),
};

LAYOUT(alone_layout, LsSingleQuery);

static const Field ordered_layout_fields[] = {
	NUMBER64('X', LsOrdered, id),
	NUMBER64('S', LsOrdered, seq),
	ERROR_FIELDS(LsOrdered),
};

LAYOUT(ordered_layout, LsOrdered);

static const Field database_layout_fields[] = {
	NUMBER64('X', LsDatabase, id),
	CHOICE('K', LsDatabase, kind, "cdr"),
	TEXT('N', LsDatabase, name, 1, LS_MAX_NAME),
	TEXT('Q', LsDatabase, command, 0, LS_MAX_DATABASE_COMMAND),
	BOOLEAN('F', LsDatabase, force),
	BOOLEAN('S', LsDatabase, superuser),
	OPTIONAL_TEXT('r', LsDatabase, role),
};

LAYOUT(database_layout, LsDatabase);

static const Field database_done_layout_fields[] = {
	NUMBER64('X', LsDatabaseDone, id),
	ERROR_FIELDS(LsDatabaseDone),
};

LAYOUT(database_done_layout, LsDatabaseDone);

static const Field number_layout_fields[] = {
	NUMBER64('X', LsNumber, value),
};

LAYOUT(number_layout, LsNumber);

static const Field fate_question_layout_fields[] = {
	TEXT('N', LsOutcomeQuestion, identity.node, 1, LS_MAX_NAME),
	NUMBER64('B', LsOutcomeQuestion, identity.boot),
	NUMBER32('P', LsOutcomeQuestion, identity.pid),
	NUMBER64('X', LsOutcomeQuestion, identity.xcount),
	NUMBER64('S', LsOutcomeQuestion, since),
	NUMBER64('Q', LsOutcomeQuestion, question),
	BOOLEAN('G', LsOutcomeQuestion, gave_up),
};

LAYOUT(fate_question_layout, LsOutcomeQuestion);

static const Field fate_answer_layout_fields[] = {
	NUMBER64('Q', LsOutcomeAnswer, question),
	CHOICE('O', LsOutcomeAnswer, fate, "crpu"),
	NUMBER64('S', LsOutcomeAnswer, seq),
};

LAYOUT(fate_answer_layout, LsOutcomeAnswer);

static const Field facts_question_layout_fields[] = {
	NUMBER64('Q', LsFactsQuestion, question),
	CHOICE('W', LsFactsQuestion, kind, "rcwgnel"),
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
	NUMBER64('X', LsConflictReport, xcount),
	CHOICE('R', LsConflictReport, reason, "uqd"),
	OPTIONAL_NUMBER64('s', LsConflictReport, seq),
	OPTIONAL_TEXT('k', LsConflictReport, key),
	OPTIONAL_TEXT('d', LsConflictReport, detail),
};

LAYOUT(lost_layout, LsConflictReport);

/*
 * To add a message: its type in protocol.h, with the structure and the story; its
 * fields above; a row here; its encoder and decoder below.  The compiler and
 * tests/unit/test_protocol.c then ask for the rest.
 */
typedef struct Message
{
	const char *name;
	LsSender	sender;
	bool		late;			/* an answer that may come when it is no
								 * longer awaited */
	const MessageLayout *layout;
} Message;

static const Message messages[] = {
	[LS_MSG_HELLO] = {"hello", LS_FROM_BACKEND, false, &hello_layout},
	[LS_MSG_CHALLENGE] = {"challenge", LS_FROM_REPLICATOR, false, &challenge_layout},
	[LS_MSG_PROOF] = {"proof", LS_FROM_BACKEND, false, &proof_layout},
	[LS_MSG_WELCOME] = {"welcome", LS_FROM_REPLICATOR, false, &welcome_layout},
	[LS_MSG_LOCK] = {"lock", LS_FROM_BACKEND, false, &lock_layout},
	[LS_MSG_GRANTED] = {"granted", LS_FROM_REPLICATOR, true, &granted_layout},
	[LS_MSG_UNLOCK] = {"unlock", LS_FROM_BACKEND, false, &rollback_to_layout},
	[LS_MSG_QUERY] = {"query", LS_FROM_BACKEND, false, &query_layout},
	[LS_MSG_ROLLBACK_TO] = {"rollback to", LS_FROM_BACKEND, false, &rollback_to_layout},
	[LS_MSG_ASK] = {"ask", LS_FROM_BACKEND, false, &ask_layout},
	[LS_MSG_WITHDRAW] = {"withdraw", LS_FROM_BACKEND, false, &number_layout},
	[LS_MSG_VERDICT] = {"verdict", LS_FROM_REPLICATOR, false, &verdict_layout},
	[LS_MSG_APPLIED] = {"applied", LS_FROM_REPLICATOR, true, &number_layout},
	[LS_MSG_CONFIRM] = {"confirm", LS_FROM_BACKEND, false, &number_layout},
	[LS_MSG_ABANDON] = {"abandon", LS_FROM_BACKEND, false, &number_layout},
	[LS_MSG_NOW] = {"now", LS_FROM_BACKEND, false, &number_layout},
	[LS_MSG_SEQ] = {"seq", LS_FROM_REPLICATOR, true, &granted_layout},
	[LS_MSG_ALIVE] = {"alive", LS_FROM_REPLICATOR, false, &number_layout},
	[LS_MSG_FATE] = {"fate", LS_FROM_BACKEND, false, &fate_question_layout},
	[LS_MSG_FATE_IS] = {"fate is", LS_FROM_REPLICATOR, true, &fate_answer_layout},
	[LS_MSG_LEASE] = {"lease", LS_FROM_BACKEND, false, &lease_layout},
	[LS_MSG_LEASED] = {"leased", LS_FROM_REPLICATOR, true, &leased_layout},
	[LS_MSG_ALONE] = {"alone", LS_FROM_BACKEND, false, &alone_layout},
	[LS_MSG_ORDERED] = {"ordered", LS_FROM_REPLICATOR, true, &ordered_layout},
	[LS_MSG_DATABASE] = {"database", LS_FROM_BACKEND, false, &database_layout},
	[LS_MSG_DATABASE_DONE] = {"database done", LS_FROM_REPLICATOR, true, &database_done_layout},
	[LS_MSG_FACTS_ASK] = {"facts ask", LS_FROM_BACKEND, false, &facts_question_layout},
	[LS_MSG_FACTS] = {"facts", LS_FROM_REPLICATOR, true, &facts_layout},
	[LS_MSG_LOST] = {"lost", LS_FROM_BACKEND, false, &lost_layout},
	[LS_MSG_ERROR] = {"error", LS_FROM_REPLICATOR, false, &error_layout},
};

#define NMESSAGES (sizeof(messages) / sizeof(messages[0]))

const char *
ls_message_name(uint8_t type)
{
	return type < NMESSAGES ? messages[type].name : NULL;
}

LsSender
ls_message_sender(LsMsgType type)
{
	return messages[type].sender;
}

bool
ls_message_is_late(LsMsgType type)
{
	return messages[type].late;
}

static inline size_t
put(uint8_t *buf, size_t cap, LsMsgType type, const void *m)
{
	return put_message(buf, cap, type, messages[type].layout, m);
}

static inline const char *
get(LsSlice payload, LsMsgType type, void *m)
{
	return get_message(payload, messages[type].layout, m);
}

LsFrame
ls_frame(const uint8_t *buf, size_t len, uint32_t max_payload,
		 LsMsgType *type, LsSlice *payload)
{
	uint32_t	size;

	if (len == 0)
		return LS_FRAME_MORE;
	if (ls_message_name(buf[0]) == NULL)
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
	return put(buf, cap, LS_MSG_HELLO, m);
}

size_t
ls_put_challenge(uint8_t *buf, size_t cap, const LsChallenge *m)
{
	return put(buf, cap, LS_MSG_CHALLENGE, m);
}

size_t
ls_put_proof(uint8_t *buf, size_t cap, const LsProof *m)
{
	return put(buf, cap, LS_MSG_PROOF, m);
}

size_t
ls_put_welcome(uint8_t *buf, size_t cap, const LsWelcome *m)
{
	return put(buf, cap, LS_MSG_WELCOME, m);
}

size_t
ls_put_query(uint8_t *buf, size_t cap, const LsQuery *m)
{
	return put(buf, cap, LS_MSG_QUERY, m);
}

size_t
ls_put_rollback_to(uint8_t *buf, size_t cap, const LsRollbackTo *m)
{
	return put(buf, cap, LS_MSG_ROLLBACK_TO, m);
}

size_t
ls_put_unlock(uint8_t *buf, size_t cap, const LsRollbackTo *m)
{
	return put(buf, cap, LS_MSG_UNLOCK, m);
}

size_t
ls_put_lock(uint8_t *buf, size_t cap, const LsLock *m)
{
	return put(buf, cap, LS_MSG_LOCK, m);
}

size_t
ls_put_granted(uint8_t *buf, size_t cap, const LsGranted *m)
{
	return put(buf, cap, LS_MSG_GRANTED, m);
}

size_t
ls_put_seq(uint8_t *buf, size_t cap, const LsGranted *m)
{
	return put(buf, cap, LS_MSG_SEQ, m);
}

size_t
ls_put_ask(uint8_t *buf, size_t cap, const LsAsk *m)
{
	return put(buf, cap, LS_MSG_ASK, m);
}

size_t
ls_put_verdict(uint8_t *buf, size_t cap, const LsVerdict *m)
{
	return put(buf, cap, LS_MSG_VERDICT, m);
}

size_t
ls_put_lease(uint8_t *buf, size_t cap, const LsLease *m)
{
	return put(buf, cap, LS_MSG_LEASE, m);
}

size_t
ls_put_leased(uint8_t *buf, size_t cap, const LsLeased *m)
{
	return put(buf, cap, LS_MSG_LEASED, m);
}

size_t
ls_put_single_query(uint8_t *buf, size_t cap, const LsSingleQuery *m)
{
	return put(buf, cap, LS_MSG_ALONE, m);
}

size_t
ls_put_ordered(uint8_t *buf, size_t cap, const LsOrdered *m)
{
	return put(buf, cap, LS_MSG_ORDERED, m);
}

size_t
ls_put_database(uint8_t *buf, size_t cap, const LsDatabase *m)
{
	return put(buf, cap, LS_MSG_DATABASE, m);
}

size_t
ls_put_database_done(uint8_t *buf, size_t cap, const LsDatabaseDone *m)
{
	return put(buf, cap, LS_MSG_DATABASE_DONE, m);
}

size_t
ls_put_error(uint8_t *buf, size_t cap, const LsErrorFields *m)
{
	return put(buf, cap, LS_MSG_ERROR, m);
}

size_t
ls_put_number(uint8_t *buf, size_t cap, LsMsgType type, uint64_t value)
{
	LsNumber	m;

	m.value = value;
	return put(buf, cap, type, &m);
}

size_t
ls_put_outcome_question(uint8_t *buf, size_t cap, const LsOutcomeQuestion *m)
{
	return put(buf, cap, LS_MSG_FATE, m);
}

size_t
ls_put_outcome_answer(uint8_t *buf, size_t cap, const LsOutcomeAnswer *m)
{
	return put(buf, cap, LS_MSG_FATE_IS, m);
}

size_t
ls_put_facts_question(uint8_t *buf, size_t cap, const LsFactsQuestion *m)
{
	return put(buf, cap, LS_MSG_FACTS_ASK, m);
}

size_t
ls_put_facts(uint8_t *buf, size_t cap, const LsFacts *m)
{
	return put(buf, cap, LS_MSG_FACTS, m);
}

size_t
ls_put_conflict_report(uint8_t *buf, size_t cap, const LsConflictReport *m)
{
	return put(buf, cap, LS_MSG_LOST, m);
}

/* ---------- decoders */

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

const char *
ls_get_hello(LsSlice payload, LsHello *m)
{
	const char *wrong = get(payload, LS_MSG_HELLO, m);

	/* unknown fields are to be expected then: report the version instead */
	if (wrong != NULL && m->version != 0 && m->version != LS_PROTOCOL_VERSION)
		return "the protocol version is not supported";
	if (wrong == NULL && m->pid == 0)
		return "the process id is 0";
	return wrong;
}

const char *
ls_get_challenge(LsSlice payload, LsChallenge *m)
{
	return get(payload, LS_MSG_CHALLENGE, m);
}

const char *
ls_get_proof(LsSlice payload, LsProof *m)
{
	return get(payload, LS_MSG_PROOF, m);
}

const char *
ls_get_welcome(LsSlice payload, LsWelcome *m)
{
	return get(payload, LS_MSG_WELCOME, m);
}

const char *
ls_get_query(LsSlice payload, LsQuery *m)
{
	const char *wrong = get(payload, LS_MSG_QUERY, m);
	uint32_t	nulls = 0;

	if (wrong == NULL && m->rows < -1)
		wrong = "the number of rows is negative";
	if (wrong == NULL)
		wrong = check_settings(m->settings);
	if (wrong == NULL)
		wrong = count_params(m->params, m->form == LS_FORM_PIECE, &m->nparams, &nulls);
	if (wrong == NULL)
		wrong = count_keys(m->keys, false, &m->nkeys);
	if (wrong == NULL && m->pieces > 0 && (m->nparams > 0 || (m->form != LS_FORM_ROW && m->form != LS_FORM_COPY)))
		wrong = "it cannot have had parameters in pieces";
	if (wrong == NULL && m->form == LS_FORM_COPY && m->pieces == 0 && (m->nparams != 1 || nulls > 0))
		wrong = "a COPY does not carry its data as its one parameter";
	if (wrong == NULL && m->form == LS_FORM_PIECE && (m->nparams != 1 || nulls > 0 || m->nkeys > 0 || m->ddl))
		wrong = "a piece is more than a piece";
	return wrong;
}

/* As query_layout has it. */
static inline bool
take_field(LsQuery *m, uint8_t tag, LsSlice value)
{
	switch (tag)
	{
		case 'T':
			m->text = value;
			return true;
		case 'G':
			m->settings = value;
			return true;
		case 'M':
			m->params = value;
			return true;
		case 'K':
			m->keys = value;
			return true;
		case 'X':
			m->xcount = value.len == 8 ? get_u64(value.data) : 0;
			return value.len == 8;
		case 'N':
			m->rows = value.len == 8 ? (int64_t) get_u64(value.data) : 0;
			return value.len == 8;
		case 'F':
			m->form = value.len == 1 ? (LsForm) value.data[0] : 0;
			return value.len == 1;
		case 'W':
			m->reason = value.len == 1 ? (LsReason) value.data[0] : 0;
			return value.len == 1;
		case 'P':
			m->pieces = value.len == 8 ? get_u64(value.data) : 0;
			return value.len == 8;
		case 'U':
			m->ddl = value.len == 1 && value.data[0] != 0;
			return value.len == 1;
		default:
			return true;		/* of a later version */
	}
}

bool
ls_take_query(LsSlice payload, LsQuery *m)
{
	memset(m, 0, sizeof(*m));
	while (payload.len > 0)
	{
		LsSlice		value;
		uint8_t		tag;

		if (next_field(&payload, &tag, &value) != NULL || !take_field(m, tag, value))
			return false;
	}
	return true;
}

const char *
ls_get_rollback_to(LsSlice payload, LsRollbackTo *m)
{
	return get(payload, LS_MSG_UNLOCK, m);
}

const char *
ls_get_lock(LsSlice payload, LsLock *m)
{
	const char *wrong = get(payload, LS_MSG_LOCK, m);

	if (wrong == NULL)
		wrong = count_keys(m->keys, true, &m->nkeys);
	return wrong;
}

const char *
ls_get_granted(LsSlice payload, LsGranted *m)
{
	return get(payload, LS_MSG_GRANTED, m);
}

const char *
ls_get_ask(LsSlice payload, LsAsk *m)
{
	return get(payload, LS_MSG_ASK, m);
}

static bool
has_error_fields(const LsErrorFields *error)
{
	return error->sqlstate.len + error->message.len + error->detail.len + error->hint.len > 0;
}

const char *
ls_get_verdict(LsSlice payload, LsVerdict *m)
{
	const char *wrong = get(payload, LS_MSG_VERDICT, m);
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
	if (m->contended.len % sizeof(uint64_t) != 0 || m->contended.len > LS_MAX_CONTENDED * sizeof(uint64_t) ||
		(m->contended.len > 0 && m->outcome == LS_OUTCOME_WITHDRAWN))
		return "the contended keys are not a list of hashes";
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
	const char *wrong = get(payload, LS_MSG_LEASE, m);
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
	return get(payload, LS_MSG_LEASED, m);
}

const char *
ls_get_single_query(LsSlice payload, LsSingleQuery *m, LsQuery *query)
{
	const char *wrong = get(payload, LS_MSG_ALONE, m);
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
	const char *wrong = get(payload, LS_MSG_ORDERED, m);

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
ls_get_database(LsSlice payload, LsDatabase *m)
{
	const char *wrong = get(payload, LS_MSG_DATABASE, m);

	if (wrong != NULL)
		return wrong;
	if (m->role.len > LS_MAX_NAME)
		return "the name of a role is too long";
	if (m->kind == LS_DATABASE_RENAME)
		return m->command.len > 0 && m->command.len <= LS_MAX_NAME ? NULL : "the new name of a database is empty or too long";
	return (m->kind == LS_DATABASE_CREATE) == (m->command.len > 0) ? NULL :
		"the command belongs to a database that is to be created and to no other";
}

const char *
ls_get_database_done(LsSlice payload, LsDatabaseDone *m)
{
	const char *wrong = get(payload, LS_MSG_DATABASE_DONE, m);

	if (wrong != NULL || !has_error_fields(&m->error))
		return wrong;
	if (m->error.message.len == 0)
		return "a mandatory field is missing";
	return check_sqlstate(m->error.sqlstate);
}

const char *
ls_get_error(LsSlice payload, LsErrorFields *m)
{
	const char *wrong = get(payload, LS_MSG_ERROR, m);

	return wrong != NULL ? wrong : check_sqlstate(m->sqlstate);
}

const char *
ls_get_number(LsSlice payload, LsNumber *m)
{
	return get(payload, LS_MSG_CONFIRM, m);
}

const char *
ls_get_outcome_question(LsSlice payload, LsOutcomeQuestion *m)
{
	return get(payload, LS_MSG_FATE, m);
}

const char *
ls_get_outcome_answer(LsSlice payload, LsOutcomeAnswer *m)
{
	return get(payload, LS_MSG_FATE_IS, m);
}

const char *
ls_get_facts_question(LsSlice payload, LsFactsQuestion *m)
{
	return get(payload, LS_MSG_FACTS_ASK, m);
}

const char *
ls_get_facts(LsSlice payload, LsFacts *m)
{
	const char *wrong = get(payload, LS_MSG_FACTS, m);
	uint32_t	nulls = 0;

	if (wrong == NULL)
		wrong = count_params(m->cells, false, &m->ncells, &nulls);
	if (wrong == NULL && (m->ncolumns == 0 || m->ncells % m->ncolumns != 0))
		wrong = "the rows of a table are incomplete";
	return wrong;
}

const char *
ls_get_conflict_report(LsSlice payload, LsConflictReport *m)
{
	return get(payload, LS_MSG_LOST, m);
}
