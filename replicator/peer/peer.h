/*
 * peer.h
 *	  Running transactions on the nodes.  Belongs to the loop's thread.
 *
 *	 peers.c             which nodes get a transaction
 *	 apply_queue.c       which transaction starts where and when: pure over structs,
 *						 tested with fake nodes
 *	 apply_task.c        one transaction on one node
 *	 task_list.c         ... looked for and counted
 *	 applied.c           what a node has applied
 *	 early_apply.c       large transactions begin there before they are reserved
 *	 pool.c              connections of one database on one node
 *	 apply.c             one apply connection: when which part of a transaction may go out
 *	 apply_send.c        ... as which commands of a libpq pipeline
 *	 apply_rows.c        ... several rows in one call
 *	 apply_settings.c    ... what comes before a query that has settings
 *	 apply_result.c      results -> executed, committed, undone, failed
 *	 apply_cancel.c      making it stop
 *	 apply_connection.c  opening and closing it, its events
 *	 apply_pids.c        apply sessions by the process that serves them
 *	 apply_trouble.c     what a node can't apply
 *	 lock_conflict.c     who is in the way of a transaction there
 *	 stalled_apply.c     apply sessions that stand still
 *	 apply_patience.c    apply sessions that take too long
 *	 idle_ddl.c          who holds the ddl lock and does nothing
 *	 dbwatch.c           is a database still the one that was attached?
 */
#ifndef LOCKSTEP_PEER_H
#define LOCKSTEP_PEER_H

#include "apply_queue.h"
#include "node.h"
#include "sequencer.h"

typedef struct ApplyConn ApplyConn;
typedef struct DbWatch DbWatch;
typedef struct Pool Pool;

/* The connections of one database on one node. */
struct Pool
{
	struct Pool *next;
	Node	   *node;
	char	   *database;
	ApplyQueue	queue;			/* capacity: connections that are ready */
	bool		closing;		/* the database is not replicated any more */
	bool		on_trial;		/* it is not replicated yet */
	char	   *trial_error;	/* why that can't be; NULL: nothing is wrong */
	int			nconnections;
	ApplyConn **connections;
	ApplyConn  *idle;			/* those without a task, last used first */
	DbWatch    *watch;			/* is the database still what it was? */
	int			nreplaced;		/* connections lost and replaced lately */
	uint64_t	replaced_us;	/* since then */
	uint64_t	short_of;		/* ticket of the task that waits for a
								 * connection, ... */
	int			short_ms;		/* ... for so long, see apply_patience.c */
	int			short_n;		/* so many wait */
	int			tell_ms;		/* short_ms when it is told again */
	Deferred	bury;
};

/* ---------- in peers.c */

extern const PeerOps peer_ops;	/* for the sequencer */

/* The origin gets its own decided transaction by apply, once it has said that it lacks it. */
extern void node_apply_at_origin(Transaction *tx);

/* It has just told how far it is: which of those that it was asked for does it lack? */
extern void tasks_add_doubtful(Node *n);

/* ---------- in applied.c */

/* The node has applied up to seq, as a session or an apply result reports. */
extern void node_heard_applied(int node, uint64_t seq);
extern void peers_forget(Node *n);	/* it is out: what it had to apply */

/* ---------- in early_apply.c */

/*
 * A large transaction that is QUEUED: what is on disk of it may be executed by the
 * online nodes already.  To be called again whenever there is more; when queries were
 * taken back; and when there will be nothing to read any more.
 */
extern void early_apply_begin(Transaction *tx);
extern void early_apply_cut(Transaction *tx);
extern void early_apply_end(Transaction *tx);

extern void early_apply_promote(ApplyTask *task);	/* it is reserved now,
													 * w->tx->executing is set */
extern void early_apply_stop(Node *n);	/* the node is out */

/* ---------- in task_list.c */

extern ApplyTask *task_find(const Transaction *tx, int node);
extern int	tasks_awaited(const Node *n);	/* transactions that wait for it */
extern bool tasks_decided_ddl(const Node *n);	/* one is here */
extern void task_count_ddl(Node *n, ApplyTask *task);	/* there may be DDL in
														 * it by now */

/* ---------- in apply_task.c: transactions on nodes */

extern Pool *task_pool(Node *n, const Transaction *tx); /* where it is executed;
														 * NULL: only its turn
														 * has to pass */
extern ApplyTask *task_add(Node *n, Transaction *tx);
extern void task_begin_early(Pool *p, Transaction *tx);
extern void task_undo(ApplyTask *task, bool again); /* take it back there */
extern void tasks_forget(Node *n);	/* the node is out: all of its tasks */
extern ApplyMoment tasks_moment(const Node *n);

/* Those that wait, and that their own backends have committed meanwhile, on this node. */
extern void tasks_drop_applied(Node *n);
extern bool tasks_start(Node *n);	/* those that may; false: none */
extern void tasks_init(void);
extern void task_commit(ApplyTask *task);	/* its tx is durable: COMMIT if it
											 * is executed */

/* ---------- in pool.c */

extern Pool *pool_find(Node *n, const char *database);
extern Pool *pool_open(Node *n, const char *database);	/* connects all */

/*
 * The same for a database that is not replicated yet: a connection that is refused is not the node's end, but
 * pool_trial_error(), which is NULL while nothing is wrong and without such a pool.
 */
extern Pool *pool_try(Node *n, const char *database);
extern const char *pool_trial_error(Node *n, const char *database);
extern void pool_passed(Node *n, const char *database); /* it is replicated from
														 * now on */
extern void pool_not_opened(Pool *p, DropCause cause, const char *error);	/* a connection of it */
extern void pool_close(Pool *p);	/* when its tasks are done */
extern void pools_destroy(Node *n); /* now */
extern bool pools_ready(const Node *n);
extern void pool_give_back(Pool *p, ApplyConn *c);	/* it is idle, and ready */
extern ApplyConn *pool_take(Pool *p);
extern bool pool_may_replace(Pool *p);	/* not lost again and again? */
extern void pool_replace(Pool *p, ApplyConn *c);	/* closes it, opens
													 * another */

/* ---------- in apply_pids.c */

extern ApplyConn *pools_find_connection(const Node *n, int pid);	/* NULL: none */

/*
 * Backends that the node is asked about: add each, then ask.  $1 of the query is
 * their array, *asked is set, done gets the node; pids is free again.  false:
 * there is none, nothing is asked.
 */
extern void pids_add(Buffer *pids, int pid);
extern bool pids_ask(Node *n, Buffer *pids, const char *query, bool *asked, PgDone done);

/* What done does first.  false: there are no rows; r is NULL when the node goes out. */
extern bool pids_answered(const Node *n, const PGresult *r, bool *asked, const char *what);

/* ---------- in dbwatch.c: is a database still the one that was attached? */

extern DbWatch *dbwatch_begin(Pool *p); /* else the node goes out */
extern void dbwatch_end(DbWatch *w);

/* ---------- errors there */

typedef struct ApplyError
{
	const char *sqlstate;
	const char *message;
	const char *detail;
	const char *hint;
	bool		retry;			/* a matter of this connection only */
	bool		of_function;	/* a user's function failed, with what may
								 * pass */
	size_t		statement;		/* of the transaction, in which it came */
} ApplyError;

#define APPLY_NO_STATEMENT SIZE_MAX /* at its commit, or not known */

/* ---------- in apply_trouble.c */

extern void apply_trouble_note(Node *n, const Transaction *tx, const ApplyError *e);	/* it has failed again */
extern bool apply_trouble_is_told(const Node *n, NodeState to); /* a move there is no
																 * news */
extern void apply_trouble_passed(Node *n, uint64_t seq);	/* it has applied that */
extern void apply_trouble_tell_again(Node *n);

/* In pg_locks: the lock for which the DDL of a node's sessions lines up (the extension's ddlqueue.c). */
#define DDL_QUEUE_LOCK "locktype = 'object' AND objsubid = 1 AND classid = 'pg_catalog.pg_namespace'::regclass"

/* ---------- in idle_ddl.c */

extern void idle_ddl_look(Node *n, int elapsed_ms); /* called again and again */

/* ---------- in apply_patience.c */

extern void apply_patience_look(Node *n, int elapsed_ms);	/* called again and
															 * again */

/* ---------- in stalled_apply.c */

/* Its session waits for something in its own server, as at the last look. */
extern bool task_waits_within(const ApplyTask *task);

extern void stalled_apply_look(Node *n, int elapsed_ms);	/* called again and
															 * again */

/* ---------- in lock_conflict.c */

extern void lock_conflict_watch(Node *n);	/* something runs */
extern void lock_conflict_stop(Node *n);

#endif
