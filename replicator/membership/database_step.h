/*
 * database_step.h
 *	  What CREATE, DROP and ALTER DATABASE RENAME do on one node.  Each can be repeated, whatever a crash has
 *	  left of it.
 */
#ifndef LOCKSTEP_DATABASE_STEP_H
#define LOCKSTEP_DATABASE_STEP_H

#include "membership_private.h"

typedef struct DatabaseStep DatabaseStep;

/* error NULL: it is done. */
typedef void (*DatabaseStepDone) (void *arg, const char *error);

/*
 * Make database `number` by that command, with the extension, our generation and the cluster's
 * identity.  It has no apply connections yet.  content: what it has to hold; NULL: not known.
 */
extern DatabaseStep *database_make(Node *n, uint64_t number, const char *name, const char *command, const char *content,
								   DatabaseStepDone done, void *arg);

/*
 * Drop what a step of database_make() that has ended has made, or begun to; may be called again.
 * It needs no new connection if that of the step is still there, as the server may have none left.
 */
extern void database_take_back(DatabaseStep *s);

/*
 * Drop database `number`, when the node has applied seq: its apply connections are closed, and
 * whoever is connected to it is disconnected.  Done, too, if it is not there.
 */
extern DatabaseStep *database_remove(Node *n, uint64_t number, const char *name, uint64_t seq,
									 DatabaseStepDone done, void *arg);

/*
 * Give database `number` the new name, as that event says, when the node has applied its seq:
 * its apply connections are closed, and whoever is connected to it is disconnected.  It has no
 * apply connections then.
 */
extern DatabaseStep *database_rename(Node *n, const struct DatabaseEvent *e, DatabaseStepDone done, void *arg);

/* The name that it has on the node, when the step is done; NULL: it is not there. */
extern const char *database_step_name(const DatabaseStep *s);

/* What a new one holds; NULL: it was not new. */
extern const char *database_step_fingerprint(const DatabaseStep *s);
extern const char *database_step_sqlstate(const DatabaseStep *s);	/* of the error; "": it
																	 * has none */

/*
 * Later, apply connections that are refused would be the node's end.  DATABASE_ROOM: SQL for how many a server has left;
 * NULL, or why a new database can't have its connections (malloc'ed).
 */
#define DATABASE_ROOM "current_setting('max_connections')::int - " \
	"(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')"
extern char *database_no_room(const char *left);

/* No callback comes any more; NULL is ignored. */
extern void database_step_free(DatabaseStep *s);

/* Databases are being added or dropped, by databases.c or by database_command.c. */
extern bool database_job_runs;

/* "name", as SQL wants it. */
extern void append_quoted_name(Buffer *b, const char *name);

#endif
