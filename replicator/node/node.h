/*
 * node.h
 *	  The nodes: their states, connections, what they have applied; and running
 *	  transactions on them.  Belongs to the loop's thread.
 *
 *	 node.c      states and moves; giving transactions to nodes
 *	 attach.c    checks when a node comes, its connections
 *	 history.c   is what it has applied the journal's past
 *	 generation.c  has another replicator taken our place
 *	 catchup.c   feeding a node from the journal, the barrier
 *	 lag.c       how far a node lags, and what becomes of it then
 *	 probe.c     does its server live?
 *	 stalled_apply.c     apply sessions that stand still
 *	 node_trouble.c  what a node can't apply
 *	 early_apply.c     large transactions begin there before they are reserved
 *	 waits_local.c  the same, for the wait-for graph (waits.h)
 *	 lock_conflict.c     who is in the way of a transaction there
 *	 databases.c adding and dropping replicated databases
 *	 dispatch.c  which transaction starts where and when: pure over structs,
 *	             tested with fake nodes
 *	 apply.c     one apply connection: when which part of a transaction may go out
 *	 apply_send.c  ... as which commands of a libpq pipeline
 *	 apply_settings.c  what it sends before a query that has settings
 *	 apply_result.c  results -> executed, committed, undone, failed
 *	 apply_cancel.c  making it stop
 *	 apply_connection.c  opening, closing, losing it
 */
#ifndef LOCKSTEP_NODE_H
#define LOCKSTEP_NODE_H

#include "config.h"
#include "transaction.h"

typedef enum NodeState
{
	NODE_JOINING,				/* configured, never reached, or being checked */
	NODE_CATCHUP,				/* checked; is fed from the journal; refuses
								 * writes */
	NODE_ONLINE,				/* executes every reserved transaction; takes
								 * writes */
	NODE_DROPPED				/* out: refuses writes; tried again unless by
								 * command */
} NodeState;

/* What a node can't apply, although it is decided. */
typedef struct NodeTrouble
{
	uint64_t	seq;
	char	   *database;
	char	   *statement;		/* as people are shown it; NULL: at its commit */
	char		sqlstate[6];
	char	   *message;
	char	   *detail;			/* NULL: none */
	int			times;			/* that it was tried, since it was told */
	bool		told;
} NodeTrouble;

typedef struct NodeStatus
{
	const char *name;
	NodeState	state;
	const char *reason;			/* why it is in this state, "" */
	uint64_t	applied;
	uint64_t	flushed;		/* as far as is known */
	uint64_t	lag_bytes;		/* decided and not applied, while it is online */
	bool		administrative; /* dropped by command: stays so until attach */
	int			connections;
	uint64_t	boot;
	int			slow_drops;		/* in a row, for its lag: see lag.c */
	uint64_t	overlong_ended; /* transactions: see apply_patience.c */
	int64_t		retry_ms;		/* until it is tried again; -1: it isn't */
	int64_t		silent_ms;		/* since its server said something; -1: it is
								 * not in */
	int			waiting;		/* transactions that wait for it */
	uint64_t	rate;			/* CATCHUP: transactions a second, 0: not
								 * known */
	int64_t		seconds_left;	/* CATCHUP: -1: not known */
	const NodeTrouble *trouble; /* NULL: none */
} NodeStatus;

struct Journal;

extern void nodes_init(const Config *config, const char *cluster, const char *journal_dir);

/* The journal may be an old copy: nobody goes online before all were heard. */
extern void nodes_doubt_journal(void);
extern void nodes_start(void);	/* take a generation, then begin connecting */
extern void nodes_reload(void); /* nodes were added to the configuration, or
								 * taken out */

/*
 * A backend says it is of that node, which is online with another boot id: then
 * the server has restarted, and the node is dropped.  false: it was looked
 * into before, and it is another server with the node's name.
 */
extern bool node_claimed(int node, uint64_t boot);

/* The replicator's generation that the node follows, and its run; 0: none. */
extern void node_generation(int node, uint64_t *generation, uint64_t *run);
extern int	nodes_count(void);
extern int	node_find(LsSlice name);	/* index or -1 */
extern const char *node_name(int node);
extern NodeStatus node_status(int node);
extern const char *node_state_name(NodeState s);
extern uint64_t node_applied(int node);

/* Somebody heard that the node has applied up to seq (sessions, apply results). */
extern void node_heard_applied(int node, uint64_t seq);

/* Does a node that is online lag more than max_apply_lag?  Then nothing may be
 * decided before it has executed it. */
extern bool nodes_lagging(void);

/* The lowest seq up to which some node that counts (not dropped) has everything on
 * its disk: what it may ask for again after a crash is higher. */
extern uint64_t nodes_min_flushed(void);

/* The lowest seq that some node which counts (not dropped) has applied. */
extern uint64_t nodes_min_applied(void);

/*
 * tx is RESERVED: execute it on every online node but its origin; sets
 * tx->executing.  Then sequencer_executed() or sequencer_execute_failed().  With no
 * peer online sequencer_executed() comes at once.
 */
extern void nodes_execute(Transaction *tx);

/*
 * A large transaction that is QUEUED: what is on disk of it may be executed by the
 * online nodes already (early_apply.c).  To be called again whenever there is more;
 * when queries were taken back; and when there will be nothing to read any more.
 */
extern void nodes_begin_early(Transaction *tx);
extern void nodes_cut_early(Transaction *tx);
extern void nodes_end_early(Transaction *tx);

/*
 * tx is DURABLE: every node that executed it commits it at tx->seq; nodes in
 * catchup see it in the journal; in `ordered` mode peers execute it now.
 * sequencer_applied() when every online peer has it.
 */
extern void nodes_commit(Transaction *tx);

/* tx is ROLLED_BACK: take it back wherever it was given. */
extern void nodes_rollback(Transaction *tx);

/* The origin's backend is gone, or said that it could not commit: the origin
 * gets the decided tx by apply. */
extern void node_apply_at_origin(Transaction *tx);

/* Reserved transactions may start that could not before (a ticket is over). */
extern void nodes_look_again(void);

/*
 * Commands.  false: *why says why not (static or per call buffer).  A drop is done
 * when the journal has it: then a restart doesn't forget it.
 */
extern bool node_drop(int node, const char *reason, void (*done) (void *), void *arg);
extern bool node_attach(int node, const char **why);

/* Databases: replicated ones; add and drop run on every online node, then
 * done(arg, NULL or error). */
typedef void (*NodeDone) (void *arg, const char *error);
extern void nodes_database_add(const char *name, NodeDone done, void *arg);
extern void nodes_database_drop(const char *name, NodeDone done, void *arg);
extern const char *const *nodes_databases(int *n);

/* In session_table.c: sessions of a node that is not online any more are ended with
 * this error. */
extern void sessions_end_of_node(int node, const char *sqlstate, const char *message, const char *hint);

#endif
