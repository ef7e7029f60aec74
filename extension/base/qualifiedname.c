/*
 * qualifiedname.c
 *	  The name of an object that is the same in all sessions.
 *
 * quote_qualified_identifier() depends on quote_all_identifiers, which any session may set.  What other nodes compare
 * (the name of a sequence) or people read (the name of a key) does not.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "qualifiedname.h"

char *
qualified_name(const char *schema, const char *name)
{
	bool		quote_all = quote_all_identifiers;
	char	   *text;

	quote_all_identifiers = false;
	text = quote_qualified_identifier(schema, name);
	quote_all_identifiers = quote_all;
	return text;
}
