/*
 * qualifiedname.h
 *	  The name of an object that is the same in all sessions.
 */
#ifndef LOCKSTEP_QUALIFIEDNAME_H
#define LOCKSTEP_QUALIFIEDNAME_H

/* As quote_qualified_identifier(), whatever quote_all_identifiers is: palloc'ed.  schema NULL: none. */
extern char *qualified_name(const char *schema, const char *name);

#endif
