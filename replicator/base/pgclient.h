/*
 * pgclient.h
 *	  A libpq connection on the event loop, one query at a time, with callbacks:
 *	  for everything that is not applying transactions.  Loop's thread.
 */
#ifndef LOCKSTEP_PGCLIENT_H
#define LOCKSTEP_PGCLIENT_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "config.h"

typedef struct PgClient PgClient;

/* error NULL: connected. */
typedef void (*PgConnected) (void *arg, const char *error);

/* The result (gone when this returns), or NULL when the connection was lost. */
typedef void (*PgDone) (void *arg, const PGresult *result);

/* Once, when it is lost; callers of queries under way are told before. */
typedef void (*PgLost) (void *arg, const char *error);

/*
 * Is it that node's server that has been reached?  NULL, or why not (malloc'ed).  Asked of each
 * connection before anything is sent by it.
 */
typedef char *(*PgCheckServer) (PGconn *conn, const char *node);
extern void pgclient_check_servers(PgCheckServer check);

/* options: libpq's; timeout: of connecting, finding the address included. */
extern PgClient *pgclient_open(const NodeConfig *node, const char *database, const char *application,
							   const char *options, int timeout_ms, PgConnected connected, void *arg);

/* When anything has come from any server, by these connections, last; 0: never. */
extern uint64_t pgclient_heard_us(void);
extern void pgclient_on_lost(PgClient *c, PgLost lost, void *arg);

/* One command, text parameters.  Queued behind those before it. */
extern void pgclient_query(PgClient *c, const char *sql, int nparams, const char *const *params,
						   PgDone done, void *arg);

/*
 * A copy, malloc'ed, of a text from any database that this server accepts as a parameter:
 * invalid characters are replaced by ?.
 */
extern char *pgclient_acceptable(const PgClient *c, const char *text);

/*
 * Each query sent from now on must be answered in this time, else the
 * connection counts as lost.  0: no limit (as at first).
 */
extern void pgclient_limit(PgClient *c, int ms);

/* Close; no callback comes any more.  NULL is ignored.  Safe in callbacks. */
extern void pgclient_close(PgClient *c);
extern void pgclient_close_at(PgClient **c);	/* ... which is NULL then */

/* Close when all queries have been answered. */
extern void pgclient_finish(PgClient *c);

/* Take the connection out (no query may be under way); the client is gone. */
extern PGconn *pgclient_release(PgClient *c);

/* Options of control connections, and of apply connections. */
extern const char pgclient_control_options[];
extern const char pgclient_apply_options[];

/* A libpq message without its line break and "ERROR:  ", for logs (static). */
extern const char *pgclient_message(const char *libpq_message);

#endif
