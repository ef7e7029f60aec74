/*
 * outcome.c
 *	  Tokens: each names a transaction whose outcome can be asked for.
 *
 * A token identifies a transaction permanently: node, boot of the server, process, number in the
 * session; and the seq that the node had applied when the token was made, from which the journal
 * is searched.  As text:
 *
 *		n1:00c0ffee00c0ffee:4711:12:3001:9ae1b0...
 *
 * The last field is a seal: 128 bits of HMAC-SHA-256 over the others, with a key derived from
 * the cluster's secret.  So a token cannot be guessed, not even from another one of the same
 * session; every node can check it at any time; and transactions without a token pay nothing.
 *
 * A transaction that returns its token has announced itself to the replicator, so that its
 * outcome is "in progress" there, not unknown; and it ends with that connection
 * (xact_told_elsewhere()).  A transaction that the replicator reports as aborted can no longer
 * ask to commit, and asking for the outcome changes nothing: see session_outcome.c.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "miscadmin.h"

#include "guc.h"
#include "lockstep.h"
#include "outcome.h"
#include "turn.h"
#include "xact_state.h"

#define SEAL_SIZE 16

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

/* Seals are made with a key derived from the secret, which is not kept in this process. */
void
outcome_take_secret(const uint8 *secret, size_t len)
{
	if (!hmac(secret, len, "lockstep: seals of tokens", seal_key))
		report_no_seal();
}

/* The seal of the other fields; hexadecimal, palloc'ed. */
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

/* Takes the same time whatever is given.  Needs the link: no key is known before. */
bool
outcome_is_sealed(const Token *t, const char *given)
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

/* *seal: in text.  False: text is no token. */
bool
outcome_parse_token(const char *text, Token *t, const char **seal)
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
