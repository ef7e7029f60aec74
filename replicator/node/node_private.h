/*
 * node_private.h
 *	  A node, its pools of apply connections, and what node.c, attach.c,
 *	  history.c, catchup.c, lag.c, pool.c, apply.c, stalled_apply.c, lock_conflict.c and databases.c offer each
 *	  other.
 */
#ifndef LOCKSTEP_NODE_PRIVATE_H
#define LOCKSTEP_NODE_PRIVATE_H

#include "dispatch.h"
#include "loop.h"
#include "node.h"
#include "pgclient.h"

typedef struct ApplyConn ApplyConn;
typedef struct DbWatch DbWatch;
typedef struct Node Node;

/* The connections of one database on one node. */
typedef struct Pool
{
	struct Pool *next;
	Node	   *node;
	char	   *database;
	Lane		lane;			/* capacity: connections that are ready */
	bool		closing;		/* the database is not replicated any more */
	int			nconnections;
	ApplyConn **connections;
	ApplyConn  *idle;			/* those without a work, last used first */
	DbWatch    *watch;			/* is the database still what it was? */
	int			nreplaced;		/* connections lost and replaced lately */
	uint64_t	replaced_us;	/* since then */
	uint64_t	short_of;		/* ticket of the work that waits for a
								 * connection, ... */
	int			short_ms;		/* ... for so long, see apply_patience.c */
	int			short_n;		/* so many wait */
	int			tell_ms;		/* short_ms when it is told again */
	Deferred	bury;
} Pool;

/* Transactions that are durable and that the node has not applied, by seq. */
typedef struct TxRing
{
	Transaction **items;		/* references */
	size_t		cap;			/* a power of two */
	size_t		head;
	size_t		count;
} TxRing;

struct Node
{
	int			index;
	const NodeConfig *config;
	int			moves;			/* of config, when it was looked at */
	NodeState	state;
	bool		administrative;
	char		reason[512];
	bool		looked_at;		/* its past is known, or it was not reached:
								 * see history.c */
	bool		heard;			/* its past is known, for good */
	int			failures;		/* in a row, after having been attached */
	int			slow_drops;		/* for its lag, never online for long between */
	bool		slow;			/* dropped for its lag, and not online since */
	uint64_t	online_since;	/* loop_now_us() */
	uint64_t	boot;
	uint64_t	entered_boot;	/* start of its server that has followed us,
								 * 0: none: see generation.c */
	uint64_t	generation;		/* that it follows; 0: it knows of none */
	bool		no_generations; /* SQL objects of version 1.0 */
	uint64_t	claimed_boot;	/* that of a backend who said it is of this
								 * node */
	uint64_t	impostor_boot;	/* the same, and the node was found to be
								 * another server */
	uint64_t	applied;
	uint64_t	flushed;		/* of these, on its disk: what it can't lose */
	uint64_t	flush_lsn;		/* when its WAL is flushed up to here, ... 0 =
								 * none */
	uint64_t	flush_seq;		/* ... this has been */

	/* from a successful attach on */
	PgClient   *control;
	char		control_database[LS_MAX_NAME + 1];
	PgClient   *next_control;	/* being connected to take its place */
	char		next_control_database[LS_MAX_NAME + 1];
	Timer	   *positions_timer;
	int			positions_ordering; /* transactions under way */
	bool		positions_failed;	/* one of them was refused */
	Pool	   *pools;
	Work	   *works;			/* all of them on this node */
	uint64_t	ddl_works;		/* of them, those with DDL */
	uint64_t	ddl_works_gone; /* that there have been */
	TxRing		applying;
	uint64_t	lag_bytes;		/* of applying, see lag_of() in lag.c */
	TxRing		doubtful;		/* own ones, decided, whose backend has gone */
	bool		pinging;
	int			unanswered_ms;	/* the ping is, counted by the timer */
	PgClient   *probe;			/* see probe.c; or being opened */
	bool		probe_ready;
	bool		probing;		/* its answer is under way */
	int			probe_unanswered_ms;	/* since it was asked last */
	int			probe_pause_ms; /* since it was lost */
	int			probe_reopen_ms;	/* when it is opened again */
	uint64_t	heard_us;		/* when its server said something last */
	uint64_t	went_on_us;		/* when an apply session had a result last */
	bool		old_objects;	/* SQL objects of version 1.0: no heartbeat() */
	bool		asking_doubtful;
	uint64_t	ping_sent_us;
	uint64_t	stalled_at;		/* applied, when it was looked at last */
	int			stalled_ms;		/* it has not moved since, and should have */
	Timer	   *ping_timer;
	Timer	   *yield_timer;
	Timer	   *early_timer;	/* early works are looked at */
	bool		early_asked;	/* the answer about them is under way */
	int			stuck_ms;		/* since silent apply sessions were looked at */
	int			idle_ddl_ms;	/* since it was looked who has the ddl lock */
	bool		idle_ddl_asked; /* the answer is under way */
	int			overlong_ms;	/* since it was looked at sessions that others
								 * wait for */
	bool		overlong_asked; /* the answer is under way */
	char		shortage[256];	/* in words, "": none */
	uint64_t	overlong_ended; /* transactions rolled back for that */
	bool		stuck_asked;	/* the answer about them is under way */
	struct LocalWaits *local_waits; /* as it said last; NULL: none */
	bool		local_waits_asked;	/* the answer is under way */
	bool		yield_asked;	/* the answer about blockers is under way */
	int			yield_ms;		/* growing interval */
	uint64_t	yield_answers;	/* about blockers, so far */

	/* attach */
	struct Attach *attach;
	Timer	   *retry_timer;
	uint64_t	retry_at;		/* when it is due */
	NodeTrouble *trouble;		/* what it can't apply; NULL: nothing */

	/* catchup */
	struct Catchup *catchup;

	Deferred	pump;			/* start what may start */
};

extern const Config *node_config;
extern const char *node_cluster;
extern const char *node_journal_dir;
extern Node *node_get(int index);

/* ---------- in node.c */

extern void node_move(Node *n, NodeState to, const char *reason);

/* Out of the cluster, with a reason that is told; it is tried again later. */
extern void node_out(Node *n, const char *fmt,...) __attribute__((format(printf, 2, 3)));
extern void node_pump(Node *n); /* at the end of the round */
extern int	node_pause_ms(const Node *n);	/* until it is tried again */

/*
 * Two patiences: a server that leaves the probe (probe.c) unanswered for
 * node_timeout hangs.  What a node has been asked for may take longer, with a slow
 * disk or a full one, also connecting to it: that has node_stall_timeout().
 */
extern int	node_stall_timeout(void);
extern void node_heard(Node *n);	/* its server has said something */

/* ---------- in apply_task.c: transactions on nodes */

extern Pool *work_pool(Node *n, const Transaction *tx); /* where it is executed;
														 * NULL: only its turn
														 * has to pass */
extern Work *work_add(Node *n, Transaction *tx);
extern void work_begin_early(Pool *p, Transaction *tx);
extern Work *work_find(const Transaction *tx, int node);
extern int	works_awaited(const Node *n);	/* transactions that wait for it */
extern bool work_decided_ddl(const Node *n);	/* one is here */
extern void work_count_ddl(Node *n, Work *w);	/* there may be DDL in it by
												 * now */
extern void work_undo(Work *w, bool again); /* take it back there */
extern void works_forget(Node *n);	/* the node is out: all of its works */
extern LaneMoment works_moment(const Node *n);
extern void works_start(Node *n);	/* those that may */
extern void work_commit(Work *w);	/* its tx is durable: COMMIT if it is
									 * executed */
extern void works_add_doubtful(Node *n);
extern void ring_push(TxRing *ring, Transaction *tx);
extern Transaction *ring_pop(TxRing *ring, uint64_t up_to); /* NULL: none that low */

/* Results, from apply.c.  The connection has no work any more, but for
 * work_executed(). */
typedef struct ApplyError
{
	const char *sqlstate;
	const char *message;
	const char *detail;
	const char *hint;
	bool		retry;			/* a matter of this connection only */
	size_t		statement;		/* of the transaction, in which it came */
} ApplyError;

#define APPLY_NO_STATEMENT SIZE_MAX /* at its commit, or not known */

extern void work_executed(Work *w);
extern void work_committed(Work *w);
extern void work_failed(Work *w, const ApplyError *error);
extern void work_undone(Work *w);
extern void work_lost(Work *w); /* its connection is gone */

/* ---------- in pool.c */

extern Pool *pool_find(Node *n, const char *database);
extern Pool *pool_open(Node *n, const char *database);	/* connects all */
extern void pool_close(Pool *p);	/* when its works are done */
extern void pools_destroy(Node *n); /* now */
extern bool pools_ready(const Node *n);
extern void pool_give_back(Pool *p, ApplyConn *c);	/* it is idle, and ready */
extern ApplyConn *pool_take(Pool *p);
extern bool pool_may_replace(Pool *p);	/* not lost again and again? */
extern void pool_replace(Pool *p, ApplyConn *c);	/* closes it, opens
													 * another */
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

/* ---------- in sequence_positions.c: what it has handed out of sequences */

extern void positions_watch(Node *n);
extern void positions_ask(Node *n); /* it is online: now, not only at the next
									 * poll */
extern void positions_stop(Node *n);

/* ---------- in control_connection.c: the connection that looks after a node */

extern void control_adopt(Node *n, PgClient *client, const char *database);
extern void control_move(Node *n, PgClient *client, const char *database);	/* of one that is in */
extern void control_end(Node *n);

/* Ask how far the node has come, then give it the doubtful ones that it lacks. */
extern void control_ask_doubtful(Node *n);

/* If it is connected to that database, connect to another one. */
extern void control_leave_database(Node *n, const char *database);

/* ---------- in probe.c: does its server live? */

/* Called again and again; false: it is silent for node_timeout. */
extern bool probe_look(Node *n, int elapsed_ms, int interval_ms);
extern void probe_begin(Node *n);
extern bool probe_is_there(const Node *n);
extern void probe_end(Node *n);

/* ---------- in attach.c */

extern void attach_begin(Node *n);
extern void attach_cancel(Node *n);
extern const char *attach_where(const Node *n); /* in words */
extern void attach_pool_ready(Node *n); /* a connection of a pool is */
extern void attach_go_on(Node *n);	/* a higher generation has been taken */

/* ---------- in history.c: is a node's past the journal's? */

/* That it has applied up to seq, where its history is known by chain (0: it
 * doesn't know).  false: it is out. */
extern bool history_admits(Node *n, uint64_t seq, uint64_t chain);
extern void history_looked_at(Node *n);
extern void history_heard(Node *n); /* its past is known, and an older
									 * replicator can't add to it any more */
extern bool history_doubts_journal(void);
extern void history_doubt_journal(const Node *n, uint64_t generation);	/* it follows one that
																		 * the journal does not
																		 * know */
extern bool history_may_go_online(Node *n); /* nobody is left whose past could
											 * matter; else why n has to wait
											 * is its reason */

/* ---------- in catchup.c */

extern void catchup_begin(Node *n);
extern void catchup_end(Node *n);	/* harmless without one */
extern void catchup_feed(Node *n);	/* more from the journal, as far as there
									 * is room */
extern bool catchup_estimate(const Node *n, uint64_t *rate, uint64_t *seconds); /* false: can't say */
extern void catchup_work_added(Node *n, const Transaction *tx); /* a single one */
extern void catchup_work_gone(Node *n, const Work *w);

/* ---------- in lag.c */

extern void lag_add(Node *n, const Transaction *tx);	/* it has to apply it */
extern void lag_remove(Node *n, const Transaction *tx); /* it has */
extern bool lag_may_go_on(Node *n); /* false: it lags too far, and has been
									 * dropped for it */
extern int	lag_drops(const Node *n);	/* so often in a row, for that */
extern int	lag_doublings(const Node *n);	/* of reconnect_interval */
extern void lag_forget(Node *n);	/* people say that it is well again */

/* ---------- in databases.c */

extern void databases_node_gone(const Node *n); /* its control connection is
												 * closed */

/* ---------- in node_trouble.c */

extern void trouble_note(Node *n, const Transaction *tx, const ApplyError *e);	/* it has failed again */
extern bool trouble_is_told(const Node *n, NodeState to);	/* a move there is no
															 * news */
extern void trouble_passed(Node *n, uint64_t seq);	/* it has applied that */
extern void trouble_tell_again(Node *n);

/* ---------- in early_apply.c: transactions that are not reserved yet */

extern void early_promote(Work *w); /* it is reserved now, w->tx->executing is
									 * set */
extern void early_stop(Node *n);	/* the node is out */

/* ---------- in waits_local.c */

extern void localwaits_forget(Node *n); /* it is out */

/* ---------- in idle_ddl.c */

extern void idle_ddl_look(Node *n, int elapsed_ms); /* called again and again */

/* ---------- in apply_patience.c */

extern void overlong_look(Node *n, int elapsed_ms); /* called again and again */

/* ---------- in stalled_apply.c */

extern void stuck_look(Node *n, int elapsed_ms);	/* called again and again */

/* ---------- in lock_conflict.c */

extern void yield_watch(Node *n);	/* something runs */
extern void yield_stop(Node *n);

#endif
