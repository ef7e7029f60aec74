/*
 * session.h
 *	  Backends: one session per connection, keyed by (node, pid).  Belongs to the loop's
 *	  thread.
 *
 *	 session.c                  the socket: what is read; a session begins
 *	 session_send.c             what is sent; a session ends
 *	 session_unauthenticated.c  connections that have not authenticated
 *	 session_handshake.c        messages until authentication
 *	 session_transaction.c      messages after that, of its transaction
 *	 session_outcome.c          outcomes of earlier transactions
 *	 session_views.c            rows of the extension's views; conflicts found by a node
 *	 session_tls.c              encryption
 *	 session_table.c            all sessions
 *
 * Lower rooms call by session_ops.
 */
#ifndef LOCKSTEP_SESSION_H
#define LOCKSTEP_SESSION_H

#include "auth.h"
#include "config.h"
#include "log_limit.h"
#include "sequencer.h"

typedef struct Session Session;

extern const SessionOps session_ops;	/* for the sequencer */

extern void sessions_init(const Config *config, const char *cluster, const Secret *secret);
extern void sessions_stop(void);	/* what is to be sent is sent, then all
									 * are ended */

/* A new connection; takes the descriptor over.  address: the same for all that come
 * from there. */
extern void session_accept(int fd, const char *from, uint64_t address, bool may_be_clear);

/* tls_directory, at the start and at a reload.  NULL, or why it cannot be used (malloc'ed). */
extern char *session_tls_check(const Config *config);
extern char *session_tls_init(const Config *config);
extern char *session_tls_reload(void);

/* When the replicator's certificate does, and in how many days; NULL: there is none. */
extern const char *session_tls_expires(int *days);

/* May a connection from there (local: from this machine) do without TLS? */
extern bool session_tls_may_be_clear(const Config *config, bool local);

/*
 * Called before accepting a connection; false: too many are not authenticated yet, so it must
 * wait.
 */
extern bool sessions_have_room(void);
extern LogLimit strangers_lines;	/* of the log, about them */

/* Authenticated sessions. */
extern int	sessions_count(void);
extern int	sessions_of_node(int node);

typedef struct SessionStatus
{
	const char *node;
	const char *database;
	const char *application;
	uint32_t	pid;
	uint64_t	boot;
	const char *state;			/* of its transaction, "idle" without one */
	uint64_t	statements;		/* queued in it */
	uint64_t	bytes;
	bool		tls;
} SessionStatus;

extern Session *sessions_next(Session *previous);	/* NULL: the first; NULL
													 * at the end */
extern SessionStatus session_status(const Session *s);

/*
 * For lockstep.waits: refresh asks the nodes, then calls done; row fills in the cells of row i,
 * false: there is no such row.
 */
extern void sessions_tell_waits(void (*refresh) (void (*done) (void *arg), void *arg), uint32_t ncolumns,
								bool (*row) (size_t i, const char **cells));

#endif
