/*
 * prepared.h
 *	  Texts that one connection has prepared: text and settings -> name.  Pure.
 *
 * The settings belong to the key, because constants in a text are read under
 * them when it is parsed (a timestamp under TimeZone, for example).
 */
#ifndef LOCKSTEP_PREPARED_H
#define LOCKSTEP_PREPARED_H

#include "protocol.h"

#define STATEMENTS_MAX 1000
#define STATEMENT_TEXT_MAX 8192 /* longer ones are not worth it */

typedef enum StatementState
{
	STATEMENT_NEW,				/* to be prepared */
	STATEMENT_SENT,				/* PREPARE is under way */
	STATEMENT_READY
} StatementState;

typedef struct Statement
{
	uint64_t	hash;
	char	   *key;			/* text, then settings; NULL: free slot */
	size_t		text_len;
	size_t		key_len;
	StatementState state;
	char		name[16];
} Statement;

typedef struct Statements
{
	Statement  *slots;
	int			n;
	uint32_t	names;			/* given so far */
} Statements;

/* NULL: not to be prepared, or full (statements_clear(), and tell the server). */
extern Statement *statements_find(Statements *s, LsSlice text, LsSlice settings);
extern void statements_failed(Statements *s, Statement *st);	/* PREPARE did not
																 * succeed */
extern bool statements_full(const Statements *s);
extern void statements_clear(Statements *s);

#endif
