/*
 * tokens.c
 *	  The tokens of a command's text, by PostgreSQL's scanner.
 *
 * The numbers of keywords belong to the server's grammar, whose header is not installed
 * from 16 on.  So the scanner gets a table here that gives every keyword the same number, and
 * keywords are distinguished by their text.
 */
#include "postgres.h"

#include "common/keywords.h"
#include "utils/memutils.h"

#include "compat.h"
#include "tokens.h"

/*
 * Of other tokens: scanner.h has every grammar on this scanner (the server's, PL/pgSQL's) declare IDENT,
 * UIDENT, FCONST, SCONST, USCONST, BCONST, XCONST, Op, ICONST and PARAM first, from 258 on.
 */
#define NUMBER_SCONST 261
#define NUMBER_USCONST 262
#define NUMBER_PARAM 267

#define NUMBER_KEYWORD 1000		/* no other token's */

/* One for each keyword, made once. */
static const uint16 *
keyword_numbers(void)
{
	static uint16 *numbers = NULL;

	if (numbers == NULL)
	{
		uint16	   *made = MemoryContextAlloc(TopMemoryContext, ScanKeywords.num_keywords * sizeof(uint16));

		for (int i = 0; i < ScanKeywords.num_keywords; i++)
			made[i] = NUMBER_KEYWORD;
		numbers = made;
	}
	return numbers;
}

void
tokens_begin(Tokens *tokens, const char *text)
{
	tokens->kind = TOKEN_OTHER;
	tokens->at = 0;
	tokens->scanner = scanner_init(text, &tokens->extra, &ScanKeywords, keyword_numbers());

	/* the client has been warned, or will be */
	ls_no_escape_warning(&tokens->extra);
}

bool
tokens_next(Tokens *tokens)
{
	switch (core_yylex(&tokens->value, &tokens->at, tokens->scanner))
	{
		case 0:
			tokens->kind = TOKEN_END;
			break;
		case NUMBER_KEYWORD:
			tokens->kind = TOKEN_KEYWORD;
			break;
		case NUMBER_SCONST:
			tokens->kind = TOKEN_STRING;
			break;
		case NUMBER_USCONST:
			tokens->kind = TOKEN_UNICODE_STRING;
			break;
		case NUMBER_PARAM:
			tokens->kind = TOKEN_PARAM;
			break;
		case '.':
			tokens->kind = TOKEN_DOT;
			break;
		default:
			tokens->kind = TOKEN_OTHER;
			break;
	}
	return tokens->kind != TOKEN_END;
}

bool
tokens_is(const Tokens *tokens, const char *keyword)
{
	return tokens->kind == TOKEN_KEYWORD && strcmp(tokens->value.keyword, keyword) == 0;
}

void
tokens_end(Tokens *tokens)
{
	scanner_finish(tokens->scanner);
}
