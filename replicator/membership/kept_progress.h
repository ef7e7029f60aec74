/*
 * kept_progress.h
 *	  The progress of a database that a node loses: it is kept in another one, or the node would
 *	  seem to lack what it has applied there last.
 */
#ifndef LOCKSTEP_KEPT_PROGRESS_H
#define LOCKSTEP_KEPT_PROGRESS_H

#include "membership_private.h"

/* A database of the node that stays, belongs to its pool; NULL: none is attached. */
extern const char *progress_keeper(const Node *n, const char *database);

/* done: a row with seq and chain, or none, or progress_has_no_extension(). */
extern void progress_ask(PgClient *client, PgDone done, void *arg);
extern bool progress_has_no_extension(const PGresult *r);

/* On a connection to the keeper; chain may be NULL.  done: a command. */
extern void progress_keep(PgClient *client, const char *seq, const char *chain, PgDone done, void *arg);

#endif
