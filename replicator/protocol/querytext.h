/*
 * querytext.h
 *	  A forwarded query as it is shown to people: in one line, with values, not
 *	  too long.
 */
#ifndef LOCKSTEP_QUERYTEXT_H
#define LOCKSTEP_QUERYTEXT_H

#include "protocol.h"

/*
 * malloc'ed.  key: of the query, or NULL; of a run of inserted rows that one is
 * shown.  own: for who has written it; others see only by what it finds its row,
 * not what it writes: they may not be allowed to read that.
 */
extern char *query_shown(const LsQuery *query, const LsKey *key, bool own);

#endif
