/*
 * statementtext.c
 *	  The text of one statement: cut out of its string, parsed, searched for literals.
 */
#include "postgres.h"

#include "parser/parser.h"
#include "parser/scansup.h"

#include "compat.h"
#include "statementtext.h"
#include "tokens.h"

char *
statementtext_cut(const char *source, int location, int len)
{
	const char *text = CleanQuerytext(source, &location, &len);

	return pnstrdup(text, len);
}

Node *
statementtext_parse(const char *text)
{
	List	   *parsed = raw_parser(text, RAW_PARSE_DEFAULT);

	return list_length(parsed) == 1 ? linitial_node(RawStmt, parsed)->stmt : NULL;
}

/* The value of U&'...' and its UESCAPE, if it has one, which the grammar joins. */
static char *
unicode_literal(const char *literal, int len)
{
	SelectStmt *select = castNode(SelectStmt, statementtext_parse(psprintf("SELECT %.*s", len, literal)));
	A_Const    *value = castNode(A_Const, linitial_node(ResTarget, select->targetList)->val);

	return pstrdup(strVal(&value->val));
}

/* To the end of what the grammar makes one literal: it begins at the current token. */
static int
end_of_literal(Tokens *tokens, const char *text, bool unicode)
{
	(void) tokens_next(tokens);
	if (unicode && tokens_is(tokens, "uescape"))
	{
		(void) tokens_next(tokens);
		(void) tokens_next(tokens);
	}
	return tokens->kind == TOKEN_END ? (int) strlen(text) : tokens->at;
}

bool
statementtext_each_literal(const char *text, FoundLiteral found, void *arg)
{
	Tokens		tokens;
	bool		done = false;

	tokens_begin(&tokens, text);
	(void) tokens_next(&tokens);
	while (tokens.kind != TOKEN_END && !done)
	{
		char	   *literal = tokens.kind == TOKEN_STRING ? pstrdup(tokens.value.str) : NULL;
		bool		unicode = tokens.kind == TOKEN_UNICODE_STRING;
		int			start = tokens.at;
		int			end = end_of_literal(&tokens, text, unicode);

		if (unicode)
			literal = unicode_literal(text + start, end - start);
		if (literal != NULL)
			done = found(literal, start, end, arg);
	}
	tokens_end(&tokens);
	return done;
}

static bool
is_time_literal(const char *value, int start, int end, void *arg)
{
	static const char *const words[] = {"now", "today", "tomorrow", "yesterday"};
	int			i;

	while (scanner_isspace(*value))
		value++;
	for (i = 0; i < lengthof(words); i++)
	{
		size_t		len = strlen(words[i]);

		if (pg_strncasecmp(value, words[i], len) == 0 &&
			(value[len] == '\0' || scanner_isspace(value[len])))
			return true;
	}
	return false;
}

bool
statementtext_has_time_literal(const char *text)
{
	return statementtext_each_literal(text, is_time_literal, NULL);
}
