/*
 * apply_queue.h
 *	  Which transaction starts where and when: pure over structs.  The loop's
 *	  thread; tested with fake nodes (tests/unit/test_apply_queue.c).
 *
 * An ApplyTask is one transaction on one node; an ApplyQueue is one database on one node:
 * the tasks that have not started there, in rank order, and how many of its
 * connections are taken.
 *
 * Rank: decided transactions by seq, then reserved ones by ticket, then those that
 * are neither (early_apply.c).
 *
 * A queue of n connections gives
 *	 - the last one only to the decided task whose turn is next,
 *	 - the last but one only to that, or to the lowest decided or the lowest
 *	   reserved one that has not started,
 *	 - the others to any task that may start, in rank order.
 * So the next turn always has a connection to come, and the lowest ticket of
 * the cluster can start on every node, whatever others hold connections and
 * wait for each other: no cycle of waits for connections.
 *
 * Of its n connections `reserved` are for those who have few: half of them for roles,
 * the rest also for tables, that have not as many already.  So neither what one role's
 * functions do there nor what happens to one table takes all of them.  Who has the
 * turn next, and the lowest ticket of the cluster, are exempt, or there would be such
 * cycles; so is what has no role (NULL): of the replicator, or from the journal.
 *
 * Several as one: decided tasks without a gap between their seqs may be executed as one
 * (transaction_together.c), which costs the node less.  So that they come together, one that
 * follows the last one begun, and those that follow it, stay queued while QUEUE_STREAMS connections execute decided ones;
 * until the first of them has its turn next or has waited for GATHER_US.  Nothing waits where there is a
 * gap: that is a transaction of the node itself, and to be executed when it has committed is worth more.
 */
#ifndef LOCKSTEP_APPLY_QUEUE_H
#define LOCKSTEP_APPLY_QUEUE_H

#include "transaction.h"

typedef enum ApplyTaskState
{
	TASK_QUEUED,				/* in its queue: not started (any more) */
	TASK_RUNNING,				/* has a connection; its queries are under way */
	TASK_EXECUTED,				/* all of them succeeded; waits for the
								 * decision */
	TASK_COMMITTING,			/* COMMIT has been sent */
	TASK_UNDOING				/* being rolled back there: then QUEUED, or
								 * gone */
} ApplyTaskState;

struct ApplyConn;
struct ApplyQueue;

/* Whose a connection is. */
typedef struct Holder
{
	const char *role;
	uint64_t	table;			/* tx->table, 0: not known */
	bool		decided;		/* when it was taken */
} Holder;

typedef struct ApplyTask
{
	Transaction *tx;			/* a reference */
	int			node;
	ApplyTaskState state;
	bool		again;			/* UNDOING: to be queued again afterwards */
	bool		empty;			/* its database is gone: only pass the turn */
	bool		early;			/* RUNNING or UNDOING, and not reserved yet:
								 * see early_apply.c */
	bool		began_early;
	bool		ddl;			/* counted in the node's ddl_tasks */
	uint64_t	last_ddl;		/* sequencer_last_ddl() when it began early */
	struct ApplyQueue *queue;
	struct ApplyConn *connection;	/* NULL while QUEUED */
	Holder		holder;			/* as what it took its connection */
	uint64_t	wait_for;		/* seq that the node itself waits for first, 0
								 * = none */
	bool		alone;			/* not to be executed with others (again) */
	uint64_t	queued_us;		/* it was created */
	uint64_t	started_us;
	uint64_t	not_before_us;	/* QUEUED again: a pause */
	struct Timer *pause;		/* fires when it is over; one per task, as
								 * each has an end of its own */
	int			retries;
	int			times_lost;		/* connections that it lost */
	bool		looked_twice;	/* failed here once, although it is decided */
	struct ApplyTask *prev;		/* in the queue */
	struct ApplyTask *next;
	struct ApplyTask *next_of_tx;	/* tx->tasks */
	struct ApplyTask *node_prev;	/* all tasks of a node */
	struct ApplyTask *node_next;
} ApplyTask;

typedef struct ApplyQueue
{
	ApplyTask  *first;
	ApplyTask  *last;
	ApplyTask  *decided;		/* the last of those; NULL: none */
	int			capacity;		/* connections */
	int			taken;			/* of them by tasks */
	int			streams;		/* ... by those that were decided when they
								 * began */
	uint64_t	begun;			/* seq of the last one that began decided */
	int			reserved;		/* of them, see above */
	Holder	   *holders;		/* of those that are taken, with a role, in no
								 * order */
	int			nholders;
	int			holders_cap;
} ApplyQueue;

/* a ranks before b */
extern bool rank_before(const Transaction *a, const Transaction *b);

extern void apply_queue_insert(ApplyQueue *queue, ApplyTask *task); /* by rank */
extern void apply_queue_remove(ApplyQueue *queue, ApplyTask *task);

typedef struct ApplyMoment
{
	uint64_t	applied;
	uint64_t	durable;
	uint64_t	now_us;
	uint64_t	lowest_ticket;	/* of all that are reserved, 0: none */
	bool		gather;			/* decided tasks are to be executed as one */
} ApplyMoment;

#define QUEUE_STREAMS 2
#define GATHER_US 1000

/*
 * The next task to start on a node that has applied `applied`, when everything
 * up to `durable` is in the journal; NULL when none may.  It has left the queue
 * and takes a connection until apply_queue_release(); w->wait_for is set.
 */
extern ApplyTask *apply_queue_next(ApplyQueue *queue, const ApplyMoment *at);

/*
 * The tasks that may be executed as one with a task that apply_queue_next() has returned:
 * queued, the next by seq without a gap, which together with it are at most
 * TX_TOGETHER.  They stay in the queue.  Returns their number.
 */
extern size_t apply_queue_followers(const ApplyQueue *queue, const ApplyTask *task, ApplyTask **followers);

/* The first one that waits for nothing but a connection; NULL: none. */
extern const ApplyTask *apply_queue_waiting(const ApplyQueue *queue, const ApplyMoment *at, int *n);

/* A connection is taken by apply_queue_next(), or by apply_queue_take(). */
extern Holder apply_queue_take(ApplyQueue *queue, const Transaction *tx);
extern void apply_queue_release(ApplyQueue *queue, Holder holder);
extern int	apply_queue_held(const ApplyQueue *queue, const char *role);	/* connections */
extern void apply_queue_free(ApplyQueue *queue);	/* its memory */

#endif
