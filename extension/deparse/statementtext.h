/*
 * statementtext.h
 *	  The text of one statement: cut out of its string, parsed, searched for literals.
 */
#ifndef LOCKSTEP_STATEMENTTEXT_H
#define LOCKSTEP_STATEMENTTEXT_H

#include "nodes/nodes.h"

/* The statement at location of source, palloc'ed; len as in PlannedStmt.stmt_len. */
extern char *statementtext_cut(const char *source, int location, int len);

/* The raw parse tree; NULL if text is no statement, or several.  ERROR if it does not parse. */
extern Node *statementtext_parse(const char *text);

/*
 * Calls found() for every string literal of text until it returns true; start and
 * end are offsets in text, end that of the next token.
 */
typedef bool (*FoundLiteral) (const char *value, int start, int end, void *arg);
extern bool statementtext_each_literal(const char *text, FoundLiteral found, void *arg);

/* Has it a literal such as 'now', whose value depends on the time of parsing? */
extern bool statementtext_has_time_literal(const char *text);

#endif							/* LOCKSTEP_STATEMENTTEXT_H */
