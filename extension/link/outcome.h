/*
 * outcome.h
 *	  Tokens: each names a transaction whose outcome can be asked for.
 */
#ifndef LOCKSTEP_OUTCOME_H
#define LOCKSTEP_OUTCOME_H

#include "protocol.h"

typedef struct Token
{
	char		node[LS_MAX_NAME + 1];
	uint64		boot;
	uint32		pid;
	uint64		xcount;
	uint64		since;			/* its node had applied up to here when it
								 * began */
} Token;

extern void outcome_take_secret(const uint8 *secret, size_t len);	/* when the link is made */

extern Token outcome_token(void);	/* of the current transaction, which
									 * writes */
extern char *outcome_token_text(const Token *t);

/* *seal: in text, to be checked by outcome_is_sealed(), which needs the link. */
extern bool outcome_parse_token(const char *text, Token *t, const char **seal);
extern bool outcome_is_sealed(const Token *t, const char *seal);

#endif							/* LOCKSTEP_OUTCOME_H */
