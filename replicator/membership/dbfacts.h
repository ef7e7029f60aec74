/*
 * dbfacts.h
 *	  What must be equal of a database on all nodes for them to stay equal, and
 *	  what had better be.  For dbcheck.c.
 */
#ifndef LOCKSTEP_DBFACTS_H
#define LOCKSTEP_DBFACTS_H

#include <libpq-fe.h>

#include "membership_private.h"

/* One row: the facts, then the columns of DbFactsColumn. */
extern const char dbfacts_query[];

typedef enum DbFactsColumn
{
	DBFACTS_EXTENSION,			/* version of lockstep, "" */
	DBFACTS_RECOVERY,
	DBFACTS_NODE_NAME,
	DBFACTS_SUPERUSER
} DbFactsColumn;

extern const char *dbfacts_value(const PGresult *r, DbFactsColumn column);

/* NULL: they are those of the nodes that are in; else why not (malloc'ed). */
extern char *dbfacts_difference(const Node *n, const char *database, const PGresult *r);
extern void dbfacts_remember(const Node *n, const char *database, const PGresult *r);

/* One row, but a failure does no harm: what the operator is told of. */
extern const char dbfacts_advice_query[];
extern void dbfacts_advise(const Node *n, const char *database, const PGresult *r);

#endif
