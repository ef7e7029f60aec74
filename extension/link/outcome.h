/*
 * outcome.h
 *	  What became of a transaction: tokens, and asking the replicator.
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

/*
 * Ask the replicator; interruptible.  gave_up: the transaction's backend has
 * rolled it back.  *seq: its seq, or the last that was decided.
 */
extern LsPastOutcome outcome_ask(const Token *token, bool gave_up, uint64 *seq);

#endif							/* LOCKSTEP_OUTCOME_H */
