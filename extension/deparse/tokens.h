/*
 * tokens.h
 *	  The tokens of a command's text, by PostgreSQL's own scanner.
 */
#ifndef LOCKSTEP_TOKENS_H
#define LOCKSTEP_TOKENS_H

#include "postgres.h"

#include "parser/scanner.h"

typedef enum TokenKind
{
	TOKEN_END,
	TOKEN_KEYWORD,				/* value.keyword, in lower case */
	TOKEN_STRING,				/* a string literal: value.str, until the next */
	TOKEN_UNICODE_STRING,		/* U&'...' without UESCAPE, not unescaped */
	TOKEN_PARAM,				/* $n: value.ival */
	TOKEN_DOT,
	TOKEN_OTHER
} TokenKind;

typedef struct Tokens
{
	TokenKind	kind;			/* of the current token, */
	int			at;				/* where it begins in the text, */
	core_YYSTYPE value;			/* and what it says */
	core_yy_extra_type extra;
	core_yyscan_t scanner;
} Tokens;

/* Before the first token.  What tokens_begin allocates goes with its context, too. */
extern void tokens_begin(Tokens *tokens, const char *text);

/* To the next token; false at the end. */
extern bool tokens_next(Tokens *tokens);

/* Is the current token this keyword? */
extern bool tokens_is(const Tokens *tokens, const char *keyword);

extern void tokens_end(Tokens *tokens);

#endif							/* LOCKSTEP_TOKENS_H */
