/*
 * querytext.h
 *	  A forwarded query as it is shown to users: in one line, with values, shortened.
 */
#ifndef LOCKSTEP_QUERYTEXT_H
#define LOCKSTEP_QUERYTEXT_H

#include "protocol.h"

/*
 * malloc'ed.  key: of the query, or NULL; of a run of inserted rows its row is shown.  own: for
 * the user who wrote it; others see only the values by which it finds its row, not those that it
 * writes, which they may not be allowed to read.
 */
extern char *query_shown(const LsQuery *query, const LsKey *key, bool own);

#endif
