/*
 * membership.h
 *	  Which nodes are in: attached, caught up, online, dropped.  Belongs to the loop's
 *	  thread.
 */
#ifndef LOCKSTEP_MEMBERSHIP_H
#define LOCKSTEP_MEMBERSHIP_H

#include "node.h"

typedef struct NodeStatus
{
	const char *name;
	NodeState	state;
	int64_t		state_ms;		/* that it has been in it */
	const char *reason;			/* why it is in this state, "" */
	DropCause	cause;			/* while it is dropped */
	uint64_t	applied;
	uint64_t	flushed;		/* as far as is known */
	uint64_t	lag_bytes;		/* decided and not applied, while it is online */
	bool		administrative; /* dropped by command: stays so until attach */
	int			connections;
	uint64_t	boot;
	uint64_t	groups;			/* of transactions executed as one, while
								 * online */
	uint64_t	grouped;		/* transactions in these */
	int			slow_drops;		/* in a row, for its lag: see slow_node.c */
	uint64_t	apply_patience_ended;	/* transactions: see apply_patience.c */
	int64_t		retry_ms;		/* until it is tried again; -1: it isn't */
	int64_t		silent_ms;		/* since its server said something; -1: it is
								 * not in */
	int			waiting;		/* transactions that wait for it */
	uint64_t	rate;			/* CATCHUP: transactions a second, 0: not
								 * known */
	int64_t		seconds_left;	/* CATCHUP: -1: not known */
	const NodeTrouble *trouble; /* NULL: none */
	bool		draining;		/* takes no new writers */
	bool		drains_readers; /* nor readers: balancers are told */
	bool		drain_announced;	/* balancers are told, nobody is refused
									 * yet */
	bool		drain_told;		/* the node knows that one is announced */
	bool		writers_held;	/* it may still refuse them, although it is
								 * not drained any more */
	int64_t		writers_open;	/* transactions, while it is drained or writes
								 * are paused; -1: not known */
} NodeStatus;

extern void membership_init(const Config *config, const char *cluster, const char *journal_dir);

/* The journal may be an old copy: no node goes online before all were heard. */
extern void nodes_doubt_journal(void);
extern void membership_start(void); /* take a generation, then begin
									 * connecting */
extern void membership_reload(void);	/* nodes were added to the
										 * configuration, or taken out */

/*
 * A backend says it is of that node, which is online with another boot id: then
 * the server has restarted, and the node is dropped.  false: it was looked
 * into before, and it is another server with the node's name.
 */
extern bool node_claimed(int node, uint64_t boot);

/* By which backends of its server prove that they are; empty if it is of version 1.0. */
extern LsSlice node_server_key(int node);

/* Heartbeats come every second.  The reason says so. */
#define NODE_SILENT_MS 1500

extern NodeStatus node_status(int node);

/* What an operator can do about it: DROP_TEXT_SIZE bytes.  false: nothing is wrong. */
extern bool node_hint(const NodeStatus *s, char *hint);

/* Called at the end of the round in which a node's state has changed. */
extern void membership_tell_moves(void (*moved) (void *), void *arg);

/*
 * Commands.  false: *why says why not (static or per call buffer).  A drop is done
 * when the journal has it: then a restart doesn't forget it.
 */
extern bool node_drop(int node, void (*done) (void *), void *arg);
extern bool node_attach(int node, const char **why);

/*
 * New writers are refused there, and the node is dropped by command when those that have begun have
 * ended.  false: *why says why not.  node_resume() ends that before the node is dropped; false: it
 * was not being drained.  node_drain_trouble(): why the last drain was given up, "".
 * announce: balancers and new sessions are told, and nobody is refused until it is called without.
 */
extern bool node_drain(int node, bool readers, bool announce, const char **why);
extern bool node_resume(int node);
extern const char *node_drain_trouble(int node);

/*
 * Transactions that begin to write wait, on all nodes, for that time at most, while those that have begun
 * go on.
 */
extern void writers_pause(int ms);
extern void writers_resume(void);
extern int64_t writers_paused_ms(void); /* left; -1: they are not */

/* Databases: replicated ones; add and drop run on every online node, then
 * done(arg, NULL or error). */
typedef void (*NodeDone) (void *arg, const char *error);
extern void nodes_database_add(const char *name, NodeDone done, void *arg);
extern void nodes_database_drop(const char *name, NodeDone done, void *arg);

#endif
