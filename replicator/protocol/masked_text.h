/*
 * masked_text.h
 *	  Parts of a text that not every role may read: rows and commands in the DETAIL
 *	  of an error.  Pure.
 *
 * Each part names the tables that it comes from, and the backend that reports the error shows it
 * only to roles that may read all of them (extension/node/masking.c); without the parts the text
 * still names the node and the table.  The log and lockstep.conflicts are for the operator, and
 * show all of it.
 */
#ifndef LOCKSTEP_MASKED_TEXT_H
#define LOCKSTEP_MASKED_TEXT_H

#include "protocol.h"

/*
 * malloc'ed.  query: its tables must be readable; NULL: only shown to roles that may see
 * everything.
 */
extern char *masked_part(const char *text, const LsQuery *query);

/* The same of one table; NULL as above. */
extern char *masked_of_table(const char *text, const char *schema, const char *table);

/* The text with all its parts, malloc'ed. */
extern char *masked_shown(const char *text);

/* Length of the table's name in that of a key, quoted as in SQL. */
extern size_t masked_table_len(const LsSlice *key);

#endif
