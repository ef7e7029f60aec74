/*
 * membership_private.h
 *	  What the files of membership/ offer each other:
 *
 *	 membership.c          commands; what is done when it leaves
 *	 moves.c               states and moves
 *	 attach.c              checks when a node comes, its connections
 *	 takeover.c            has another replicator taken our place?
 *	 history.c             is what it has applied the journal's past?
 *	 dbcheck.c, dbfacts.c  are its databases what those of the others are?
 *	 catchup.c             feeding it from the journal, the barrier
 *	 unlogged_tables.c     what a crash has taken from it
 *	 control_connection.c  looking after it while it is in
 *	 probe.c               does its server live?
 *	 writers.c             draining a node, pausing writes
 *	 slow_node.c           what becomes of one that lags too far
 *	 sequence_positions.c  what it has handed out of sequences
 *	 databases.c           adding and dropping replicated databases by command of the operator
 *	 database_command.c    CREATE and DROP DATABASE on all nodes
 *	 database_step.c       ... on one
 */
#ifndef LOCKSTEP_MEMBERSHIP_PRIVATE_H
#define LOCKSTEP_MEMBERSHIP_PRIVATE_H

#include "generation.h"
#include "membership.h"
#include "peer.h"

/* ---------- in moves.c */

extern void node_move(Node *n, NodeState to);
extern void node_move_out(Node *n, const DropReason *reason);
extern void node_still_out(Node *n, const DropReason *reason);	/* for another reason */
extern void node_tell_change(void); /* who wants to know of moves, is told */

/* ---------- in sequence_positions.c: what it has handed out of sequences */

extern void sequence_positions_watch(Node *n);
extern void sequence_positions_ask(Node *n);	/* it is online: now, not only
												 * at the next poll */
extern void sequence_positions_stop(Node *n);

/* ---------- in control_connection.c: the connection that looks after a node */

extern void control_adopt(Node *n, PgClient *client, const char *database);
extern void control_move(Node *n, PgClient *client, const char *database);	/* of one that is in */
extern void control_end(Node *n);

/* Ask how far the node has come, then give it the doubtful ones that it lacks. */
extern void control_ask_doubtful(Node *n);

/* If it is connected to that database, connect to another one. */
extern void control_leave_database(Node *n, const char *database);
extern const char *control_another_database(const Node *n, const char *database);

/* ---------- in writers.c */

extern void writers_node_is_in(Node *n);	/* its control connection is
											 * there: orders are given anew,
											 * or taken back */

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
extern bool history_is_settled(void);	/* a node has gone online since our
										 * start */
extern bool history_doubts_journal(void);
extern void history_doubt_journal(const Node *n, uint64_t generation);	/* it follows one that
																		 * the journal does not
																		 * know */
extern bool history_may_go_online(Node *n); /* no node is left whose past
											 * could matter; else why n has to
											 * wait is its reason */

/* ---------- in catchup.c */

/* A database that the node should have dropped. */
struct LeftOver
{
	struct LeftOver *next;
	uint64_t	number;
	char	   *name;
};

extern void catchup_begin(Node *n, uint64_t events_from);	/* of database_event.h:
															 * before that seq they
															 * are done */
extern void catchup_end(Node *n);	/* harmless without one */
extern void catchup_left_over(Node *n, uint64_t number, const char *name);	/* a database that is to
																			 * be dropped first */
extern void catchup_feed(Node *n);	/* more from the journal, as far as there
									 * is room */
extern bool catchup_estimate(const Node *n, uint64_t *rate, uint64_t *seconds); /* false: can't say */
extern void catchup_task_added(Node *n, const Transaction *tx); /* a single one */
extern void catchup_task_gone(Node *n, const ApplyTask *task);

/* ---------- in unlogged_tables.c */

extern bool unlogged_tables_may_go_online(Node *n); /* else its reason says
													 * why not */
extern void unlogged_tables_online(Node *n);	/* it is */
extern void unlogged_tables_forget(Node *n);

/* ---------- in slow_node.c */

extern bool slow_node_may_stay(Node *n);	/* false: it lags too far, and has
											 * been dropped for it */
extern int	slow_node_drops(const Node *n); /* so often in a row, for that */
extern int	node_pause_ms(const Node *n);	/* until it is tried again */
extern void slow_node_forgive(Node *n); /* people say that it is well again */

/* ---------- in databases.c */

extern void databases_node_gone(const Node *n); /* its control connection is
												 * closed */

/* ---------- in database_command.c */

extern void database_command_node_gone(const Node *n);	/* the same */
extern bool database_command_is_making(uint64_t number);	/* it is under way */

struct DatabaseEvent;
extern bool database_event_is_durable(const struct DatabaseEvent *e);

#endif
