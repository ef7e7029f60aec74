/*
 * dispatch.h
 *	  Which transaction starts where and when: pure over structs.  The loop's
 *	  thread; tested with fake nodes (tests/unit/test_dispatch.c).
 *
 * A Work is one transaction on one node; a Lane is one database on one node:
 * the works that have not started there, in rank order, and how many of its
 * connections are taken.
 *
 * Rank: decided transactions by seq, then reserved ones by ticket, then those that
 * are neither (early_apply.c).
 *
 * A lane of n connections gives
 *	 - the last one only to the decided work whose turn is next,
 *	 - the last but one only to that, or to the lowest decided or the lowest
 *	   reserved one that has not started,
 *	 - the others to any work that may start, in rank order.
 * So the next turn always has a connection to come, and the lowest ticket of
 * the cluster can start on every node, whatever others hold connections and
 * wait for each other: no circle of waits for connections.
 *
 * Of its n connections `reserved` are for those who have few: half of them for roles,
 * the rest also for tables, that have not as many already.  So neither what one role's
 * functions do there nor what happens to one table takes all of them.  Who has the
 * turn next, and the lowest ticket of the cluster, are exempt, or there would be such
 * circles; so is what has no role (NULL): of the replicator, or from the journal.
 */
#ifndef LOCKSTEP_DISPATCH_H
#define LOCKSTEP_DISPATCH_H

#include "transaction.h"

typedef enum WorkState
{
	WORK_QUEUED,				/* in its lane's queue: not started (any more) */
	WORK_RUNNING,				/* has a connection; its queries are under way */
	WORK_EXECUTED,				/* all of them succeeded; waits for the
								 * decision */
	WORK_COMMITTING,			/* COMMIT has been sent */
	WORK_UNDOING				/* being rolled back there: then QUEUED, or
								 * gone */
} WorkState;

struct ApplyConn;
struct Lane;

/* Whose a connection is. */
typedef struct Holder
{
	const char *role;
	uint64_t	table;			/* tx->table, 0: not known */
} Holder;

typedef struct Work
{
	Transaction *tx;			/* a reference */
	int			node;
	WorkState	state;
	bool		again;			/* UNDOING: to be queued again afterwards */
	bool		empty;			/* its database is gone: only pass the turn */
	bool		early;			/* RUNNING or UNDOING, and not reserved yet:
								 * see early_apply.c */
	bool		began_early;
	bool		ddl;			/* counted in the node's ddl_works */
	uint64_t	last_ddl;		/* sequencer_last_ddl() when it began early */
	struct Lane *lane;
	struct ApplyConn *connection;	/* NULL while QUEUED */
	Holder		holder;			/* as what it took its connection */
	uint64_t	wait_for;		/* seq that the node itself waits for first, 0
								 * = none */
	uint64_t	started_us;
	uint64_t	not_before_us;	/* QUEUED again: a pause */
	struct Timer *pause;		/* fires when it is over; one per work, as
								 * each has an end of its own */
	int			retries;
	int			times_lost;		/* connections that it lost */
	bool		looked_twice;	/* failed here once, although it is decided */
	struct Work *prev;			/* in the lane's queue */
	struct Work *next;
	struct Work *next_of_tx;	/* tx->works */
	struct Work *node_prev;		/* all works of a node */
	struct Work *node_next;
} Work;

typedef struct Lane
{
	Work	   *first;
	Work	   *last;
	int			capacity;		/* connections */
	int			taken;			/* of them by works */
	int			reserved;		/* of them, see above */
	Holder	   *holders;		/* of those that are taken, with a role, in no
								 * order */
	int			nholders;
	int			holders_cap;
} Lane;

/* a ranks before b */
extern bool rank_before(const Transaction *a, const Transaction *b);

extern void lane_enqueue(Lane *lane, Work *w);	/* by rank */
extern void lane_dequeue(Lane *lane, Work *w);

typedef struct LaneMoment
{
	uint64_t	applied;
	uint64_t	durable;
	uint64_t	now_us;
	uint64_t	lowest_ticket;	/* of all that are reserved, 0: none */
} LaneMoment;

/*
 * The next work to start on a node that has applied `applied`, when everything
 * up to `durable` is in the journal; NULL when none may.  It has left the queue
 * and takes a connection until lane_release(); w->wait_for is set.
 */
extern Work *lane_next(Lane *lane, const LaneMoment *at);

/* The first one that waits for nothing but a connection; NULL: none. */
extern const Work *lane_waiting(const Lane *lane, const LaneMoment *at, int *n);

/* A connection is taken by lane_next(), or by lane_take(). */
extern Holder lane_take(Lane *lane, const Transaction *tx);
extern void lane_release(Lane *lane, Holder holder);
extern int	lane_held(const Lane *lane, const char *role);	/* connections */
extern void lane_free(Lane *lane);	/* its memory */

#endif
