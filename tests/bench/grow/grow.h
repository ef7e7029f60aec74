/*
 * grow.h
 *	  A cluster without PostgreSQL: what the replicator needs to see of one, and no more, so
 *	  that nothing but the replicator takes time.
 */
#ifndef GROW_H
#define GROW_H

#include <stdbool.h>
#include <stdint.h>

#include "auth.h"
#include "protocol.h"

#define MAX_NODES 16

/* In node.c: servers that speak PostgreSQL's protocol and apply everything at once. */

typedef void (*TurnPassed) (void *arg);

/* Listens in dir, as port FIRST_PORT + node does. */
#define FIRST_PORT 7001
extern void node_listen(int node, const char *dir);
extern uint64_t fake_boot(int node);
extern uint64_t fake_applied(int node);
extern const char *fake_cluster(void);	/* "": it has not been told yet */

/* What is to commit there as first to last; passed() is called when all before it has. */
extern void node_claim(int node, uint64_t first, uint64_t last, TurnPassed passed, void *arg);

/* passed() is called when it has applied seq. */
extern void node_await(int node, uint64_t seq, TurnPassed passed, void *arg);

/* In backend.c: sessions of the replicator. */

typedef enum Role
{
	BACKEND_IDLE,				/* is connected */
	BACKEND_WRITES,				/* commits one transaction after the other */
	BACKEND_HOLDS,				/* has the lock on the one row, for good */
	BACKEND_WAITS,				/* waits for that */
	BACKEND_TAKES_TURNS,		/* asks for that row, changes it, commits,
								 * again */
	BACKEND_KEEPS_HISTORY		/* a transaction that stays open, so that no
								 * key is forgotten */
} Role;

typedef struct Load
{
	const char *socket;
	Secret		secret;
	int			nodes;
	int			databases;
	int			rows;			/* that a transaction changes */
	uint64_t	keys;			/* of rows, shared out among the writers */
	int			writers;
	LsCommitWait wait;
	bool		certain;
	bool		filling;		/* large transactions, in the order of the
								 * keys */
}			Load;

typedef struct Counts
{
	uint64_t	committed;
	uint64_t	refused;
	uint64_t	granted;
	uint64_t	applied;		/* seqs, by any node but the origin */
}			Counts;

extern Load load;
extern Counts counts;

struct Backend;
extern struct Backend *backend_open(Role role, int number);
extern bool backend_is_ready(const struct Backend *b);
extern bool backend_is_filled(const struct Backend *b); /* it has written all of
														 * its keys */
extern void backend_begin(struct Backend *b);
extern void backend_stop(struct Backend *b);	/* when what it is at is over */

extern void grow_fail(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));

#endif
