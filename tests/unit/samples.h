/*
 * samples.h
 *	  One or more valid messages of every type, for test_protocol.c and for the
 *	  fuzzers' seed corpus.
 */
#ifndef LOCKSTEP_SAMPLES_H
#define LOCKSTEP_SAMPLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"

#define SAMPLE_MAX 2048

typedef struct Sample
{
	const char *name;
	uint8_t		bytes[SAMPLE_MAX];
	size_t		len;
}			Sample;

#define SLICE(literal) ((LsSlice) {(const uint8_t *) (literal), sizeof(literal) - 1})

static const LsKey sample_keys[] = {
	{.hash = 0,.seen = 0,.mode = LS_ROW_EXCLUSIVE,.name = {(const uint8_t *) "public.t t_pkey", 15}},
	{.hash = UINT64_MAX,.seen = 1234567890123,.mode = LS_TABLE_IX,.name = {NULL, 0}},
	{.hash = 42,.seen = UINT64_MAX,.mode = LS_ROW_SHARE,.name = {(const uint8_t *) "p", 1}},
};

static const LsKey sample_read_keys[] = {
	{.hash = 7,.seen = 3,.mode = LS_TABLE_READ,.name = {(const uint8_t *) "public.t", 8}},
	{.hash = 8,.seen = 3,.mode = LS_TABLE_READ_ROWS,.name = {(const uint8_t *) "db", 2}},
	{.hash = 9,.seen = 3,.mode = LS_ROW_READ,.name = {(const uint8_t *) "p", 1}},
	{.hash = 9,.seen = 4,.mode = LS_ROW_LOCK,.name = {(const uint8_t *) "p", 1}},
};

static const LsKey sample_table_keys[] = {
	{.hash = 7,.seen = 3,.mode = LS_TABLE_X,.name = {(const uint8_t *) "public.t", 8}},
	{.hash = 8,.seen = 3,.mode = LS_TABLE_IX,.name = {(const uint8_t *) "db", 2}},
};

static inline LsSlice
sample_pack_keys(uint8_t *buf, size_t cap, const LsKey *keys, size_t n)
{
	size_t		len = 0;

	for (size_t i = 0; i < n; i++)
		len += ls_put_key(buf + len, cap - len, &keys[i]);
	return (LsSlice) {buf, len};
}

static inline LsSlice
sample_pack_params(uint8_t *buf, size_t cap)
{
	size_t		len = ls_put_param(buf, cap, "17", 2);

	len += ls_put_param(buf + len, cap - len, NULL, 0);
	len += ls_put_param(buf + len, cap - len, "", 0);
	return (LsSlice) {buf, len};
}

static inline LsHello
sample_hello(void)
{
	return (LsHello)
	{
		.version = LS_PROTOCOL_VERSION,.node = SLICE("n1"),.database = SLICE("postgres"),
			.cluster = SLICE("0123456789abcdef0123456789abcdef"),.boot = 0x1122334455667788,
			.pid = 4711,.nonce = SLICE("nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"),.application = SLICE("psql")
	};
}

/* buf: for what the query points to; at least 512 bytes. */
static inline LsQuery
sample_query(uint8_t *buf)
{
	return (LsQuery)
	{
		.xcount = 3,.form = LS_FORM_ROW,.reason = LS_REASON_ROW_CHANGED,
			.text = SLICE("UPDATE public.t SET a = $1 WHERE b = $2"),
			.settings = SLICE("search_path\0public, pg_catalog\0TimeZone\0\0"),.rows = 1,
			.params = sample_pack_params(buf, 128),
			.keys = sample_pack_keys(buf + 128, 384, sample_keys, 3)
	};
}

static inline LsErrorFields
sample_error(void)
{
	return (LsErrorFields)
	{
		.sqlstate = SLICE("40001"),.message = SLICE("could not serialize access"),
			.detail = SLICE("Key of public.t."),.hint = SLICE("Try again.")
	};
}

#define SAMPLE(text, call) \
	do \
	{ \
		Sample	   *s_ = &samples[n++]; \
		uint8_t    *buf = s_->bytes; \
		size_t		cap = sizeof(s_->bytes); \
		s_->name = (text); \
		s_->len = (call); \
	} while (0)

/* All of them; *count says how many.  free() it. */
static inline Sample *
make_samples(size_t *count)
{
	Sample	   *samples = calloc(64, sizeof(Sample));
	size_t		n = 0;
	uint8_t		lists[512];
	uint8_t		locks[128];
	LsHello		hello = sample_hello();
	LsChallenge challenge = {LS_PROTOCOL_VERSION, SLICE("cccccccccccccccccccccccccccccccc")};
	LsProof		proof = {.proof = SLICE("pppppppppppppppppppppppppppppppp")};
	LsProof		proof_of_server = {proof.proof, SLICE("kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk")};
	LsWelcome	welcome = {proof.proof, 7, 0x5eed, 0, proof_of_server.server_proof};
	LsWelcome	welcome_old = {.proof = proof.proof};
	LsQuery		query = sample_query(lists);
	LsQuery		plain = {.xcount = 1,.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,
	.text = SLICE("CREATE TABLE t ()"),.rows = -1,.ddl = true};
	uint8_t		copy_data[16];
	LsQuery		copy = {.xcount = 1,.form = LS_FORM_COPY,.reason = LS_REASON_ROW_RUN,
		.text = SLICE("COPY t FROM STDIN"),.rows = 2,
	.params = {copy_data, ls_put_param(copy_data, sizeof(copy_data), "1\n2\n", 4)}};
	uint8_t		read_list[256];
	LsQuery		read_keys = {.xcount = 1,.form = LS_FORM_KEYS,.reason = LS_REASON_READ,
		.text = SLICE("keys"),.rows = -1,
	.keys = sample_pack_keys(read_list, sizeof(read_list), sample_read_keys, 4)};
	LsLock		lock = {.xcount = 5,.keys = sample_pack_keys(locks, sizeof(locks), sample_table_keys, 2),
	.ddl = true};
	LsLock		ddl_lock = {.xcount = 5,.ddl = true};
	LsAsk		ask = {9, 12, LS_WAIT_APPLIED, 100, 99, 0, 0, 0};
	LsAsk		long_ask = {9, 12, LS_WAIT_EXECUTED, 100, 99, 4000, 1, 1};
	LsVerdict	committed = {.xcount = 9,.outcome = LS_OUTCOME_COMMITTED,.seq = 77,.chain = 0xdeadbeef};
	LsVerdict	rolled_back = {.xcount = 9,.outcome = LS_OUTCOME_ROLLED_BACK,.error = sample_error()};
	LsVerdict	lost = {.xcount = 9,.outcome = LS_OUTCOME_ROLLED_BACK,.after = 76,.error = sample_error()};
	LsVerdict	withdrawn = {.xcount = 9,.outcome = LS_OUTCOME_WITHDRAWN};
	LsErrorFields error = sample_error();
	LsErrorFields short_error = {.sqlstate = SLICE("08P01"),.message = SLICE("bad message")};
	LsRollbackTo rollback_to = {3, 2};
	LsGranted	granted = {5, 1000, 2};
	LsOutcomeQuestion fate_question = {{SLICE("n1"), 0x1122334455667788, 4711, 9}, 70, 3, true};
	LsOutcomeAnswer fate_answer = {3, LS_PAST_COMMITTED, 77};
	LsFactsQuestion facts_question = {4, LS_FACTS_WINNER, 77};
	LsFactsQuestion conflicts_question = {4, LS_FACTS_CONFLICTS, 0};
	uint8_t		cells[64];
	LsFacts		facts = {.question = 4,.ncolumns = 2,.cells = {cells, 0}};
	LsConflictReport lost_update = {9, LS_LOST_UPDATE, 77, SLICE("public.t t_pkey (id)=(1)"), SLICE("was changed")};
	LsConflictReport lost_doubt = {.reason = LS_LOST_DOUBT};
	LsLease		lease = {.id = 7,.name = SLICE("public.\"S\""),.increment = -2,.min = INT64_MIN,
	.max = -1,.cycle = true,.value = -9,.called = true,.wanted = 3,.applied = 12};
	LsLeased	leased = {7, -11, 32, 0};
	uint8_t		inner[256];
	LsQuery		set = {.xcount = 8,.form = LS_FORM_STATEMENT,.reason = LS_REASON_SEQUENCE,
	.text = SLICE("SELECT 1"),.rows = -1};
	LsSingleQuery alone = {8, {inner, ls_put_query(inner, sizeof(inner), &set)}};
	LsDatabase	create = {.id = 3,.kind = LS_DATABASE_CREATE,.name = SLICE("x"),.command = SLICE("CREATE DATABASE x")};
	LsDatabase	drop = {.id = 4,.kind = LS_DATABASE_DROP,.name = SLICE("x"),.force = true,.role = SLICE("maker")};
	LsDatabaseDone done = {.id = 3};
	LsDatabaseDone not_done = {.id = 4,.error = sample_error()};
	LsOrdered	ordered = {.id = 8,.seq = 99};
	LsOrdered	not_ordered = {.id = 8,.error = sample_error()};

	SAMPLE("hello", ls_put_hello(buf, cap, &hello));
	hello.application = (LsSlice) {NULL, 0};
	hello.cluster = (LsSlice) {NULL, 0};
	SAMPLE("hello-short", ls_put_hello(buf, cap, &hello));
	hello.role = (LsSlice) SLICE("mallory");
	hello.over = 41;
	SAMPLE("hello-role", ls_put_hello(buf, cap, &hello));
	SAMPLE("challenge", ls_put_challenge(buf, cap, &challenge));
	SAMPLE("proof", ls_put_proof(buf, cap, &proof));
	SAMPLE("proof-server", ls_put_proof(buf, cap, &proof_of_server));
	SAMPLE("welcome", ls_put_welcome(buf, cap, &welcome));
	welcome.refused = 1;
	SAMPLE("welcome-refused", ls_put_welcome(buf, cap, &welcome));
	SAMPLE("welcome-old", ls_put_welcome(buf, cap, &welcome_old));
	SAMPLE("query-row", ls_put_query(buf, cap, &query));
	SAMPLE("query-plain", ls_put_query(buf, cap, &plain));
	SAMPLE("query-copy", ls_put_query(buf, cap, &copy));
	SAMPLE("query-keys", ls_put_query(buf, cap, &read_keys));
	SAMPLE("rollback-to", ls_put_rollback_to(buf, cap, &rollback_to));
	SAMPLE("unlock", ls_put_unlock(buf, cap, &rollback_to));
	SAMPLE("lock", ls_put_lock(buf, cap, &lock));
	SAMPLE("lock-ddl", ls_put_lock(buf, cap, &ddl_lock));
	SAMPLE("granted", ls_put_granted(buf, cap, &granted));
	SAMPLE("ask", ls_put_ask(buf, cap, &ask));
	SAMPLE("ask-long", ls_put_ask(buf, cap, &long_ask));
	SAMPLE("verdict-committed", ls_put_verdict(buf, cap, &committed));
	SAMPLE("verdict-rolled-back", ls_put_verdict(buf, cap, &rolled_back));
	SAMPLE("verdict-lost", ls_put_verdict(buf, cap, &lost));
	SAMPLE("verdict-withdrawn", ls_put_verdict(buf, cap, &withdrawn));
	SAMPLE("error", ls_put_error(buf, cap, &error));
	SAMPLE("error-short", ls_put_error(buf, cap, &short_error));
	SAMPLE("withdraw", ls_put_number(buf, cap, LS_MSG_WITHDRAW, 8));
	SAMPLE("abandon", ls_put_number(buf, cap, LS_MSG_ABANDON, 8));
	SAMPLE("applied", ls_put_number(buf, cap, LS_MSG_APPLIED, 8));
	SAMPLE("alive", ls_put_number(buf, cap, LS_MSG_ALIVE, 5));
	SAMPLE("now", ls_put_number(buf, cap, LS_MSG_NOW, 17));
	SAMPLE("seq", ls_put_seq(buf, cap, &granted));
	SAMPLE("fate-question", ls_put_outcome_question(buf, cap, &fate_question));
	SAMPLE("fate-answer", ls_put_outcome_answer(buf, cap, &fate_answer));
	SAMPLE("facts-question", ls_put_facts_question(buf, cap, &facts_question));
	SAMPLE("facts-question-short", ls_put_facts_question(buf, cap, &conflicts_question));
	SAMPLE("facts-none", ls_put_facts(buf, cap, &facts));
	facts.cells.len = ls_put_param(cells, sizeof(cells), "n1", 2);
	facts.cells.len += ls_put_param(cells + facts.cells.len, sizeof(cells) - facts.cells.len, NULL, 0);
	SAMPLE("facts", ls_put_facts(buf, cap, &facts));
	SAMPLE("lost-update", ls_put_conflict_report(buf, cap, &lost_update));
	SAMPLE("lost-doubt", ls_put_conflict_report(buf, cap, &lost_doubt));
	SAMPLE("lease", ls_put_lease(buf, cap, &lease));
	SAMPLE("leased", ls_put_leased(buf, cap, &leased));
	SAMPLE("alone", ls_put_single_query(buf, cap, &alone));
	SAMPLE("database-create", ls_put_database(buf, cap, &create));
	SAMPLE("database-drop", ls_put_database(buf, cap, &drop));
	SAMPLE("database-done", ls_put_database_done(buf, cap, &done));
	SAMPLE("database-not-done", ls_put_database_done(buf, cap, &not_done));
	SAMPLE("ordered", ls_put_ordered(buf, cap, &ordered));
	SAMPLE("ordered-not", ls_put_ordered(buf, cap, &not_ordered));
	SAMPLE("confirm", ls_put_number(buf, cap, LS_MSG_CONFIRM, UINT64_MAX));
	*count = n;
	return samples;
}

#undef SAMPLE

/* Any decoded message. */
typedef union AnyMessage
{
	LsHello		hello;
	LsChallenge challenge;
	LsProof		proof;
	LsWelcome	welcome;
	LsQuery		query;
	LsRollbackTo rollback_to;
	LsLock		lock;
	LsGranted	granted;
	LsAsk		ask;
	LsVerdict	verdict;
	LsErrorFields error;
	LsNumber	number;
	LsOutcomeQuestion fate_question;
	LsOutcomeAnswer fate_answer;
	LsLease		lease;
	LsLeased	leased;
	LsSingleQuery alone;
	LsOrdered	ordered;
	LsDatabase	database;
	LsDatabaseDone database_done;
	LsFactsQuestion facts_question;
	LsFacts		facts;
	LsConflictReport lost;
}			AnyMessage;

static inline const char *
decode_any(LsMsgType type, LsSlice payload, AnyMessage * m)
{
	LsQuery		query;

	switch (type)
	{
		case LS_MSG_HELLO:
			return ls_get_hello(payload, &m->hello);
		case LS_MSG_CHALLENGE:
			return ls_get_challenge(payload, &m->challenge);
		case LS_MSG_PROOF:
			return ls_get_proof(payload, &m->proof);
		case LS_MSG_WELCOME:
			return ls_get_welcome(payload, &m->welcome);
		case LS_MSG_LOCK:
			return ls_get_lock(payload, &m->lock);
		case LS_MSG_GRANTED:
		case LS_MSG_SEQ:
			return ls_get_granted(payload, &m->granted);
		case LS_MSG_FATE:
			return ls_get_outcome_question(payload, &m->fate_question);
		case LS_MSG_FATE_IS:
			return ls_get_outcome_answer(payload, &m->fate_answer);
		case LS_MSG_QUERY:
			return ls_get_query(payload, &m->query);
		case LS_MSG_ROLLBACK_TO:
		case LS_MSG_UNLOCK:
			return ls_get_rollback_to(payload, &m->rollback_to);
		case LS_MSG_ASK:
			return ls_get_ask(payload, &m->ask);
		case LS_MSG_VERDICT:
			return ls_get_verdict(payload, &m->verdict);
		case LS_MSG_ERROR:
			return ls_get_error(payload, &m->error);
		case LS_MSG_LEASE:
			return ls_get_lease(payload, &m->lease);
		case LS_MSG_LEASED:
			return ls_get_leased(payload, &m->leased);
		case LS_MSG_ALONE:
			return ls_get_single_query(payload, &m->alone, &query);
		case LS_MSG_ORDERED:
			return ls_get_ordered(payload, &m->ordered);
		case LS_MSG_DATABASE:
			return ls_get_database(payload, &m->database);
		case LS_MSG_DATABASE_DONE:
			return ls_get_database_done(payload, &m->database_done);
		case LS_MSG_FACTS_ASK:
			return ls_get_facts_question(payload, &m->facts_question);
		case LS_MSG_FACTS:
			return ls_get_facts(payload, &m->facts);
		case LS_MSG_LOST:
			return ls_get_conflict_report(payload, &m->lost);
		case LS_MSG_WITHDRAW:
		case LS_MSG_APPLIED:
		case LS_MSG_CONFIRM:
		case LS_MSG_NOW:
		case LS_MSG_ALIVE:
		case LS_MSG_ABANDON:
			return ls_get_number(payload, &m->number);
	}
	return "unknown type";
}

/* The message again; its size. */
static inline size_t
encode_any(LsMsgType type, const AnyMessage * m, uint8_t *buf, size_t cap)
{
	switch (type)
	{
		case LS_MSG_HELLO:
			return ls_put_hello(buf, cap, &m->hello);
		case LS_MSG_CHALLENGE:
			return ls_put_challenge(buf, cap, &m->challenge);
		case LS_MSG_PROOF:
			return ls_put_proof(buf, cap, &m->proof);
		case LS_MSG_WELCOME:
			return ls_put_welcome(buf, cap, &m->welcome);
		case LS_MSG_LOCK:
			return ls_put_lock(buf, cap, &m->lock);
		case LS_MSG_GRANTED:
			return ls_put_granted(buf, cap, &m->granted);
		case LS_MSG_SEQ:
			return ls_put_seq(buf, cap, &m->granted);
		case LS_MSG_FATE:
			return ls_put_outcome_question(buf, cap, &m->fate_question);
		case LS_MSG_FATE_IS:
			return ls_put_outcome_answer(buf, cap, &m->fate_answer);
		case LS_MSG_QUERY:
			return ls_put_query(buf, cap, &m->query);
		case LS_MSG_UNLOCK:
			return ls_put_unlock(buf, cap, &m->rollback_to);
		case LS_MSG_ROLLBACK_TO:
			return ls_put_rollback_to(buf, cap, &m->rollback_to);
		case LS_MSG_ASK:
			return ls_put_ask(buf, cap, &m->ask);
		case LS_MSG_VERDICT:
			return ls_put_verdict(buf, cap, &m->verdict);
		case LS_MSG_ERROR:
			return ls_put_error(buf, cap, &m->error);
		case LS_MSG_LEASE:
			return ls_put_lease(buf, cap, &m->lease);
		case LS_MSG_LEASED:
			return ls_put_leased(buf, cap, &m->leased);
		case LS_MSG_ALONE:
			return ls_put_single_query(buf, cap, &m->alone);
		case LS_MSG_ORDERED:
			return ls_put_ordered(buf, cap, &m->ordered);
		case LS_MSG_DATABASE:
			return ls_put_database(buf, cap, &m->database);
		case LS_MSG_DATABASE_DONE:
			return ls_put_database_done(buf, cap, &m->database_done);
		case LS_MSG_FACTS_ASK:
			return ls_put_facts_question(buf, cap, &m->facts_question);
		case LS_MSG_FACTS:
			return ls_put_facts(buf, cap, &m->facts);
		case LS_MSG_LOST:
			return ls_put_conflict_report(buf, cap, &m->lost);
		case LS_MSG_WITHDRAW:
		case LS_MSG_APPLIED:
		case LS_MSG_CONFIRM:
		case LS_MSG_NOW:
		case LS_MSG_ALIVE:
		case LS_MSG_ABANDON:
			return ls_put_number(buf, cap, type, m->number.value);
	}
	return 0;
}

#endif
