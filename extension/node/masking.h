/*
 * masking.h
 *	  What of other roles' rows and commands the current role may see in messages.
 */
#ifndef LOCKSTEP_MASKING_H
#define LOCKSTEP_MASKING_H

#include "protocol.h"

extern char *masking_for_reader(const char *text);	/* palloc'ed */
extern char *masking_for_log(const char *text);
extern char *masking_in_error(const char *text);	/* without the catalogs */
extern bool masking_shows_query(const LsQuery *query);

#endif							/* LOCKSTEP_MASKING_H */
