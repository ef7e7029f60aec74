/*
 * node.h
 *	  The table of nodes: what is known of each.  Belongs to the loop's thread.
 *
 * The rooms above share it: peer/ runs transactions on the nodes, waits/ asks them who
 * waits for whom, membership/ decides which of them are in.  What the lower ones need of
 * membership/ goes through MembershipOps.
 */
#ifndef LOCKSTEP_NODE_H
#define LOCKSTEP_NODE_H

#include "config.h"
#include "drop_cause.h"
#include "loop.h"
#include "pgclient.h"
#include "protocol.h"
#include "tx_ring.h"

struct Pool;
struct ApplyTask;

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

/* Resources, the operator's intervention, the system: not its data, so to repair or clone it would not help. */
static inline bool
node_trouble_is_servers(const NodeTrouble *t)
{
	return t->sqlstate[0] == '5' && (t->sqlstate[1] == '3' || t->sqlstate[1] == '7' || t->sqlstate[1] == '8');
}

typedef struct Node
{
	int			index;
	const NodeConfig *config;
	int			moves;			/* of config, when it was looked at */
	NodeState	state;
	uint64_t	state_since;	/* loop_now_us() */
	bool		administrative;
	DropCause	cause;			/* while it is dropped */
	char		reason[DROP_TEXT_SIZE];
	bool		looked_at;		/* its past is known, or it was not reached:
								 * see history.c */
	bool		heard;			/* its past is known, for good */
	int			failures;		/* in a row, after having been attached */
	int			slow_drops;		/* for its lag, never online for long between */
	bool		slow;			/* dropped for its lag, and not online since */
	uint64_t	online_since;	/* loop_now_us() */
	uint64_t	boot;
	uint8_t		server_key[LS_SERVER_KEY_SIZE]; /* see
												 * extension/node/serverkey.c */
	uint64_t	server_key_boot;	/* whose it is; 0: none, of version 1.0 */
	uint64_t	entered_boot;	/* start of its server that has followed us,
								 * 0: none: see takeover.c */
	uint64_t	generation;		/* that it follows; 0: it knows of none */
	bool		no_generations; /* SQL objects of version 1.0 */
	uint64_t	claimed_boot;	/* that of a backend who said it is of this
								 * node */
	uint64_t	impostor_boot;	/* the same, and the node was found to be
								 * another server */
	uint64_t	impostor_us;	/* loop_now_us() then */
	uint64_t	applied;
	uint64_t	flushed;		/* of these, on its disk: what it can't lose */
	bool		local_change;	/* a session has changed rows or tables there
								 * only, since it came online */
	uint64_t	own_decided;	/* the last one that came from this node; 0:
								 * none since the replicator's start */
	uint64_t	flush_lsn;		/* when its WAL is flushed up to here, ... 0 =
								 * none */
	uint64_t	flush_seq;		/* ... this has been */

	/* from a successful attach on */
	PgClient   *control;
	char		control_database[LS_MAX_NAME + 1];
	PgClient   *next_control;	/* being connected to take its place */
	char		next_control_database[LS_MAX_NAME + 1];
	Timer	   *sequence_positions_timer;
	int			sequence_positions_ordering;	/* transactions under way */
	bool		sequence_positions_failed;	/* one of them was refused */
	bool		sequence_positions_apart;	/* the next are ordered one by one */
	struct Pool *pools;			/* see peer.h */
	struct ApplyTask *tasks;	/* all of them on this node */
	uint64_t	groups;			/* of transactions that it has executed as one
								 * while online, so far */
	uint64_t	grouped;		/* transactions in these */
	uint64_t	ddl_tasks;		/* of them, those with DDL */
	uint64_t	ddl_tasks_gone; /* that there have been */
	TxRing		applying;
	uint64_t	lag_bytes;		/* of applying, see lag_of() in lag.c */
	uint64_t	round_trip_us;	/* of a heartbeat, usually; 0: none yet */
	TxRing		doubtful;		/* own ones, decided, whose backend has gone */
	bool		pinging;
	uint64_t	answers;		/* of the control connection, to pings and the
								 * like */
	uint64_t	confirmed;		/* still the leader after so many of them */
	bool		confirming;		/* that is being asked */
	int			unanswered_ms;	/* the ping is, counted by the timer */
	PgClient   *probe;			/* see probe.c; or being opened */
	bool		probe_ready;
	bool		probing;		/* its answer is under way */
	int			probe_unanswered_ms;	/* since it was asked last */
	int			probe_pause_ms; /* since it was lost */
	int			probe_reopen_ms;	/* when it is opened again */
	PgClient   *arrival;		/* a new connection, tried now and then */
	int			arrival_ms;		/* since it was begun, or ended */
	int			refused_ms;		/* no new connection was possible for */
	char		refusing[200];	/* that in words, "": it is */
	uint64_t	heard_us;		/* when its server said something last */
	uint64_t	went_on_us;		/* when an apply session had a result last */
	bool		old_objects;	/* SQL objects of version 1.0: no heartbeat() */
	bool		asking_doubtful;
	uint64_t	ping_sent_us;
	uint64_t	stalled_at;		/* applied, when it was looked at last */
	int			stalled_ms;		/* it has not moved since, and should have */
	Timer	   *ping_timer;
	Timer	   *lock_conflict_timer;
	Timer	   *early_apply_timer;	/* early tasks are looked at */
	bool		early_apply_asked;	/* the answer about them is under way */
	int			stalled_apply_ms;	/* since silent apply sessions were looked
									 * at */
	int			idle_ddl_ms;	/* since it was looked who has the ddl lock */
	bool		idle_ddl_asked; /* the answer is under way */
	int			own_ddl_ms;		/* the same of DDL that waits on its own node */
	bool		own_ddl_asked;
	uint32_t	own_ddl_holder; /* idle, when it was looked last; 0: none */
	int			own_ddl_idle_ms;	/* for so long */
	int			apply_patience_ms;	/* since it was looked at sessions that
									 * others wait for */
	bool		apply_patience_asked;	/* the answer is under way */
	char		shortage[256];	/* in words, "": none */
	char		silence[160];	/* the same, when it was asked for last */
	uint64_t	apply_patience_ended;	/* transactions rolled back for that */
	bool		stalled_apply_asked;	/* the answer about them is under way */
	struct LocalWaits *local_waits; /* as it said last; NULL: none */
	bool		local_waits_asked;	/* the answer is under way */
	bool		lock_conflict_asked;	/* the answer about blockers is under
										 * way */
	int			lock_conflict_ms;	/* growing interval */
	uint64_t	lock_conflict_answers;	/* about blockers, so far */

	/* see writers.c */
	bool		draining;
	bool		drains_readers; /* they are to be sent elsewhere, too */
	bool		drain_announced;	/* no more than that yet: nobody is
									 * refused */
	uint64_t	drain_announced_us; /* loop_now_us() */
	bool		drain_told;		/* the node has heard that it is announced */
	bool		writers_asked;	/* the answer is under way */
	bool		writers_held;	/* the node may hold writers, by our order */
	const char *writers_told;	/* the last order */
	int64_t		writers_open;	/* transactions there that write, as it said
								 * last; -1: not known */
	char		drain_trouble[200]; /* why the last drain was given up, "" */

	/* attach */
	struct Attach *attach;
	Timer	   *retry_timer;
	uint64_t	retry_at;		/* when it is due */
	NodeTrouble *trouble;		/* what it can't apply; NULL: nothing */

	/* catchup */
	struct Catchup *catchup;
	struct UnloggedTables *unlogged;	/* NULL: not asked yet */

	Deferred	pump;			/* start what may start */
} Node;

/* What membership/ does for the rooms below it. */
typedef struct MembershipOps
{
	void		(*out) (Node *n, const DropReason *reason); /* see node_out() */
	void		(*drop) (Node *n);	/* as by command */
	void		(*pump) (Node *n);	/* what may start there, does */
	void		(*pool_ready) (Node *n);	/* one more connection of a pool
											 * is */
	void		(*task_added) (Node *n, const Transaction *tx); /* to a node that
																 * catches up, by peer/ */
	void		(*task_gone) (Node *n, const struct ApplyTask *task);	/* the same */
	void		(*ask_doubtful) (Node *n);	/* which of n->doubtful has it not
											 * committed? */
} MembershipOps;

extern const MembershipOps *to_membership;

extern const Config *node_config;
extern const char *node_cluster;
extern const char *node_journal_dir;

extern void nodes_init(const Config *config, const char *cluster, const char *journal_dir, const MembershipOps *ops);
extern bool nodes_add(void);	/* one that is new in the configuration;
								 * false: there is none */

extern int	nodes_count(void);
extern Node *node_get(int index);
extern int	node_find(LsSlice name);	/* index or -1 */
extern const char *node_name(int node);
extern const char *node_state_name(NodeState s);
extern bool node_is_in(const Node *n);	/* CATCHUP or ONLINE */
extern uint64_t node_applied(int node);

/* Out of the cluster; the operator is told why, as drop_cause.c has it. */
extern void node_out(Node *n, DropCause cause, DropFacts facts);
extern void node_out_for(Node *n, const DropReason *reason);
extern void node_pump(Node *n); /* at the end of the round */
extern void nodes_look_again(void); /* the same, of all nodes: a ticket is
									 * over */

/*
 * Two patiences: a server that leaves the probe (probe.c) unanswered for
 * node_timeout hangs.  What a node has been asked for may take longer, with a slow
 * disk or a full one, also connecting to it: that has node_stall_timeout().
 */
extern int	node_stall_timeout(void);
extern void node_heard(Node *n);	/* its server has said something */

/*
 * The lowest seq that some node which counts (is in) has applied, and has on its disk
 * (what it may ask for again after a crash is higher).  Without any: `durable`, and the
 * highest that a node which is out has on its disk, as far as it has said so since the
 * replicator started.
 */
extern uint64_t nodes_min_applied(uint64_t durable);
extern uint64_t nodes_min_flushed(uint64_t durable);

/* ---------- in lag.c */

extern void lag_add(Node *n, const Transaction *tx);	/* it has to apply it */
extern void lag_remove(Node *n, const Transaction *tx); /* it has */
extern bool lag_is_too_far(const Node *n);	/* more than max_apply_lag, online */

/* Is any too far?  Then nothing may be decided before it has executed it. */
extern bool nodes_lagging(void);

#endif
