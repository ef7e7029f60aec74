/*
 * outcome.c
 *	  What became of a transaction: tokens, and asking the replicator.
 *
 * A token identifies a transaction for ever: node, boot of the server, process, number in
 * the session; and the seq that the node had applied when it was made, from where the journal is
 * searched.  As text:
 *
 *		n1:00c0ffee00c0ffee:4711:12:3001:9ae1b0...
 *
 * The last field is a seal: 128 bits of HMAC-SHA-256 over the others, with a key derived
 * from the cluster's secret.  So a token cannot be guessed, not even from another one of the
 * same session; every node can check it at any time; and a transaction whose token nobody asks for
 * pays nothing for it.
 *
 * A transaction that gives out its token has announced itself to the replicator, so that it
 * is "in progress" there, not unknown; and it ends with that connection
 * (xact_told_elsewhere()).  So one that the replicator calls aborted can no longer ask to commit,
 * and asking for the outcome changes nothing: see session_fate.c.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"

#include "guc.h"
#include "lockstep.h"
#include "ls_link.h"
#include "mode.h"
#include "outcome.h"
#include "turn.h"
#include "xact_state.h"

LS_FUNCTION(lockstep_transaction_token);
LS_FUNCTION(lockstep_outcome);

#define SEAL_SIZE 16

static uint64 last_question = 0;
static uint8 seal_key[PG_SHA256_DIGEST_LENGTH];

/* ---------- seals */

/* HMAC-SHA-256; false: it could not be computed. */
static bool
hmac(const uint8 *key, size_t key_len, const char *text, uint8 *result)
{
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);
	bool		ok;

	ok = ctx != NULL &&
		pg_hmac_init(ctx, key, key_len) >= 0 &&
		pg_hmac_update(ctx, (const uint8 *) text, strlen(text)) >= 0 &&
		pg_hmac_final(ctx, result, PG_SHA256_DIGEST_LENGTH) >= 0;
	pg_hmac_free(ctx);
	return ok;
}

static void
report_no_seal(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("could not compute the seal of a transaction's token")));
}

/* What seals is not the secret itself: it stays in this process. */
void
outcome_take_secret(const uint8 *secret, size_t len)
{
	if (!hmac(secret, len, "lockstep: seals of tokens", seal_key))
		report_no_seal();
}

/* Of the other fields; hexadecimal, palloc'ed. */
static char *
seal_of(const Token *t)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	char	   *text = psprintf("%s:%016llx:%u:%llu:%llu", t->node, (unsigned long long) t->boot, t->pid,
								(unsigned long long) t->xcount, (unsigned long long) t->since);
	char	   *seal = palloc(2 * SEAL_SIZE + 1);

	if (!hmac(seal_key, sizeof(seal_key), text, digest))
		report_no_seal();
	for (int i = 0; i < SEAL_SIZE; i++)
		sprintf(seal + 2 * i, "%02x", digest[i]);
	pfree(text);
	return seal;
}

/* Takes the same time whatever is given. */
static bool
is_sealed(const Token *t, const char *given)
{
	const char *seal = seal_of(t);
	int			differ = 0;

	if (strlen(given) != 2 * SEAL_SIZE)
		return false;
	for (int i = 0; i < 2 * SEAL_SIZE; i++)
		differ |= seal[i] ^ given[i];
	return differ == 0;
}

/* ---------- tokens */

Token
outcome_token(void)
{
	Token		t;

	memset(&t, 0, sizeof(t));
	strlcpy(t.node, ls_node_name, sizeof(t.node));
	t.boot = turn_boot_id();
	t.pid = MyProcPid;
	t.xcount = ls_xact.xcount;
	t.since = ls_xact.since;
	return t;
}

/* palloc'ed */
char *
outcome_token_text(const Token *t)
{
	return psprintf("%s:%016llx:%u:%llu:%llu:%s", t->node, (unsigned long long) t->boot, t->pid,
					(unsigned long long) t->xcount, (unsigned long long) t->since, seal_of(t));
}

/* A number in this base, up to the end or a colon, which is skipped. */
static bool
parse_number(const char **at, int base, uint64 max, uint64 *value)
{
	char	   *end;

	if (!isxdigit((unsigned char) **at))
		return false;
	errno = 0;
	*value = strtoull(*at, &end, base);
	if (errno != 0 || *value > max || (*end != ':' && *end != '\0'))
		return false;
	*at = *end == ':' ? end + 1 : end;
	return true;
}

/* *seal: in text. */
static bool
parse_token(const char *text, Token *t, const char **seal)
{
	const char *at = strchr(text, ':');
	uint64		pid;

	memset(t, 0, sizeof(*t));
	if (at == NULL || at == text || at - text >= (ptrdiff_t) sizeof(t->node))
		return false;
	memcpy(t->node, text, at - text);
	at++;
	if (!parse_number(&at, 16, PG_UINT64_MAX, &t->boot) ||
		!parse_number(&at, 10, PG_UINT32_MAX, &pid) ||
		!parse_number(&at, 10, PG_UINT64_MAX, &t->xcount) ||
		!parse_number(&at, 10, PG_INT64_MAX, &t->since))
		return false;
	t->pid = (uint32) pid;
	*seal = at;
	return at[-1] == ':' && t->pid > 0;
}

/* ---------- asking */

/* A message while we wait.  True: it is our answer. */
static bool
is_our_answer(LsMsgType type, LsSlice payload, uint64 question, LsOutcomeAnswer *answer)
{
	const char *wrong;
	uint64		granted = 0;

	if (type != LS_MSG_FATE_IS)
	{
		xact_message(type, payload, &granted);
		return false;
	}
	wrong = ls_get_outcome_answer(payload, answer);
	if (wrong != NULL)
		link_report_violation(wrong);
	return answer->question == question;
}

static void
send_question(const Token *token, bool gave_up)
{
	LsOutcomeQuestion q;
	uint8_t		message[LS_HEADER_SIZE + 256];
	size_t		size;

	memset(&q, 0, sizeof(q));
	q.identity.node.data = (const uint8_t *) token->node;
	q.identity.node.len = strlen(token->node);
	q.identity.boot = token->boot;
	q.identity.pid = token->pid;
	q.identity.xcount = token->xcount;
	q.since = token->since;
	q.question = ++last_question;
	q.gave_up = gave_up;
	size = ls_put_outcome_question(message, sizeof(message), &q);
	link_send(message, size);
}

/* Asks on the link, which is open.  *seq: as in LsOutcomeAnswer. */
LsPastOutcome
outcome_ask(const Token *token, bool gave_up, uint64 *seq)
{
	LsOutcomeAnswer answer;
	LsMsgType	type;
	LsSlice		payload;

	send_question(token, gave_up);
	for (;;)
	{
		if (link_has_message(link_await(&type, &payload, -1, PG_WAIT_EXTENSION)) &&
			is_our_answer(type, payload, last_question, &answer))
		{
			*seq = answer.seq;
			return answer.fate;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---------- SQL */

static void
check_is_origin(void)
{
	if (ls_mode() != LS_MODE_ORIGIN)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this session's transactions are not replicated"),
				 errhint("Ask in a replicated database of a node, with lockstep.replicate on.")));
}

Datum
lockstep_transaction_token(PG_FUNCTION_ARGS)
{
	Token		token;

	check_is_origin();
	xact_tell();
	token = outcome_token();
	PG_RETURN_TEXT_P(cstring_to_text(outcome_token_text(&token)));
}

static const char *
outcome_text(LsPastOutcome fate)
{
	switch (fate)
	{
		case LS_PAST_COMMITTED:
			return "committed";
		case LS_PAST_ABORTED:
			return "aborted";
		case LS_PAST_IN_PROGRESS:
			return "in progress";
		case LS_PAST_UNKNOWN:
			return "unknown";
	}
	return "unknown";
}

static void
report_no_token(const char *given)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" is not the token of a transaction", given),
			 errhint("lockstep.transaction_token() gives one inside of the transaction; an error 08007 names it.")));
}

Datum
lockstep_outcome(PG_FUNCTION_ARGS)
{
	char	   *given = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *seal;
	Token		token;
	uint64		seq;

	if (!parse_token(given, &token, &seal))
		report_no_token(given);
	check_is_origin();
	xact_connect();				/* no seal is known before */
	if (!is_sealed(&token, seal))
		report_no_token(given);

	/* one's own is in progress, and need not ask */
	if (token.boot == turn_boot_id() && token.pid == (uint32) MyProcPid &&
		ls_xact.writes && token.xcount == ls_xact.xcount)
		PG_RETURN_TEXT_P(cstring_to_text(outcome_text(LS_PAST_IN_PROGRESS)));
	PG_RETURN_TEXT_P(cstring_to_text(outcome_text(outcome_ask(&token, false, &seq))));
}
