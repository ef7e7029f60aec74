/*
 * masked_text.h
 *	  Parts of a text that not every role may read: rows and commands in the DETAIL
 *	  of an error.  Pure.
 *
 * What they are taken from is named with them, and the backend that reports the
 * error shows them only to a role that may read all of that (extension/node/masking.c);
 * without them the text still says who and which table.  The log and
 * lockstep.conflicts are the operator's, and have all of it.
 */
#ifndef LOCKSTEP_MASKED_TEXT_H
#define LOCKSTEP_MASKED_TEXT_H

#include "protocol.h"

/* malloc'ed.  query: whose tables must be readable; NULL: shown to nobody but those
 * who may see everything. */
extern char *masked_part(const char *text, const LsQuery *query);

/* The same of one table; NULL as above. */
extern char *masked_of_table(const char *text, const char *schema, const char *table);

/* The text with all its parts, malloc'ed. */
extern char *masked_shown(const char *text);

/* Length of the table's name in that of a key, quoted as in SQL. */
extern size_t masked_table_len(const LsSlice *key);

#endif
