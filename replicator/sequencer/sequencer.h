/*
 * sequencer.h
 *	  The only place that orders: reserve, execute, decide, journal, verdict.
 *	  Belongs to the loop's thread; the journal thread sees only encoded records.
 */
#ifndef LOCKSTEP_SEQUENCER_H
#define LOCKSTEP_SEQUENCER_H

#include "config.h"
#include "node.h"
#include "transaction.h"

struct Journal;

/* What peer/ does for the sequencer. */
typedef struct PeerOps
{
	/*
	 * tx is RESERVED: execute it on every online node but its origin; sets
	 * tx->executing.  Then sequencer_executed() or
	 * sequencer_execute_failed().  With no peer online sequencer_executed()
	 * comes at once.
	 */
	void		(*execute) (Transaction *tx);

	/*
	 * tx is DURABLE: every node that executed it commits it at tx->seq; nodes
	 * in catchup see it in the journal; in `ordered` mode peers execute it
	 * now.  sequencer_applied() when every online peer has it.
	 */
	void		(*commit) (Transaction *tx);

	/* tx is ROLLED_BACK: roll it back on every node that began it. */
	void		(*roll_back) (Transaction *tx);

	/*
	 * The origin's backend is gone, or has reported that it could not commit:
	 * the origin gets the decided tx by apply.
	 */
	void		(*apply_at_origin) (Transaction *tx);
} PeerOps;

/* What session/ does for the rooms below it. */
typedef struct SessionOps
{
	/* Answers to a transaction's backend. */
	void		(*verdict) (Transaction *tx, const LsVerdict *verdict);
	void		(*granted) (Transaction *tx, uint64_t seq);
	void		(*applied) (Transaction *tx);

	/*
	 * The transaction of that backend that may hold locks there; NULL if
	 * none.
	 */
	Transaction *(*transaction) (int node, uint32_t pid);

	/*
	 * The lowest S among the keys of open transactions; UINT64_MAX without
	 * any.
	 */
	uint64_t	(*oldest_seen) (void);

	/* Has any session of the node a transaction that has not ended there? */
	bool		(*busy) (int node);

	/*
	 * The outcome of an earlier transaction, which began when its node had
	 * applied `since`; *seq: if it is decided.
	 */
	LsPastOutcome (*past) (const LsIdentity *id, uint64_t since, uint64_t *seq);

	/*
	 * Is its backend, of that start of its server, connected?  Then it reads
	 * its verdict itself.
	 */
	bool		(*connected) (const LsIdentity *id);

	/* Sessions of a node or database that has left end with this error. */
	void		(*end_of_node) (int node, const char *sqlstate, const char *message, const char *hint);
	void		(*end_of_database) (const char *database, const char *sqlstate, const char *message,
									const char *hint);
} SessionOps;

extern const SessionOps *to_sessions;	/* as handed to sequencer_init() */

/* Opens nothing: the journal is open; rebuilds the certifier from its end. */
extern void sequencer_init(const Config *config, struct Journal *journal, const char *journal_dir,
						   const PeerOps *peers, const SessionOps *sessions);
extern void sequencer_stop(void);	/* journal thread ends after what was
									 * queued */

/* For commit_wait = certified: see sequencer_proven.c. */
extern void sequencer_node_came_online(Node *n);

/* It has applied all up to that one: what was held for that gets its seqs. */
extern void sequencer_node_applied(int node, uint64_t seq);

/* A session of that node asks for something: the next round is not later for others than for a node that is late. */
extern void sequencer_node_waits(uint32_t node);

/* A question of that node shows that the turn of its backends has passed that seq. */
extern void sequencer_turn_passed(uint32_t origin, uint64_t seq);

/*
 * DROP DATABASE, ALTER DATABASE RENAME: no transaction whose commands name a database is decided from
 * the call with true to that with false.  Is one reserved?
 */
extern void sequencer_databases_change(bool change);
extern bool sequencer_databases_are_named(void);

/* From now on they get no transaction without a session; NULL: that is over.  The names have to stay. */
extern void sequencer_databases_close(const char *name, const char *new_name);
extern bool sequencer_database_closes(const char *name);

/* Is any transaction in that database still to be decided? */
extern bool sequencer_any_undecided(const char *database);

/* A session of n is about to commit a change of this database on n only: n may refuse what others send. */
extern void sequencer_local_change(Node *n, const char *database);
extern void sequencer_refused_decided(const Transaction *tx, int node);

/* From sessions. */
extern void sequencer_ask(Transaction *tx); /* TX_QUEUED, complete */
extern bool sequencer_withdraw(Transaction *tx);	/* false: already decided */
extern void sequencer_unlock(Transaction *tx, uint64_t keep);	/* what the first `keep`
																 * calls of
																 * sequencer_lock asked
																 * for stays */
extern void sequencer_lock(Transaction *tx, const LsLock *lock);	/* session_granted() or
																	 * session_verdict()
																	 * later */
extern void sequencer_gone(Transaction *tx);	/* the session ended: forget
												 * it if not decided */
extern void sequencer_refuse(Transaction *tx, const char *sqlstate, const char *message,
							 const char *hint); /* if asked for and not
												 * decided: its session ends */

/*
 * A transaction of one query (a whole 'Q' message) that belongs to no session:
 * setval, and what the nodes report of their sequences.  done(arg, seq, NULL)
 * when it is durable, done(arg, 0, error) if it never will be; once.
 */
typedef void (*SingleQueryDone) (void *arg, uint64_t seq, const LsErrorFields *error);
extern void sequencer_single_query(const LsIdentity *id, LsSlice database, uint32_t origin,
								   const uint8_t *queries, size_t len, SingleQueryDone done, void *arg);

/* Values of a sequence for a node: leased() when the lease is in the journal. */
typedef void (*LeaseDone) (void *arg, const LsLeased *leased);
extern void sequencer_lease(const char *node, LsSlice database, const LsLease *request,
							LeaseDone leased, void *arg);

/* Everything that is leased in a database. */
typedef void (*LeasedThing) (void *arg, LsSlice name, int64_t value, LsSlice keys);
extern void sequencer_leased(LsSlice database, LeasedThing each, void *arg);

/* It may have forgotten values that it has handed out. */
extern void sequencer_node_restarted(const char *node);

/* A node that has applied seq has leases up to value, from any replicator. */
extern void sequencer_lease_reported(LsSlice database, LsSlice name, uint64_t seq,
									 int64_t value, int64_t increment, LsSlice keys);

/* From nodes. */
extern void sequencer_executed(Transaction *tx);	/* every node in
													 * tx->executing has */
extern void sequencer_execute_failed(Transaction *tx, int node, const LsErrorFields *error);
extern void sequencer_applied(Transaction *tx);

/* Does its backend wait for an answer, and may it be rolled back? */
extern bool sequencer_is_question(const Transaction *tx);

/* It loses to a transaction of a higher rank; conflict: complete but for the loser. */
struct Conflict;
extern void sequencer_refuse_blocker(Transaction *tx, struct Conflict *conflict);

/* A transaction has lost that row (hash of its key, 0: not known) to another node's. */
extern void sequencer_row_fought(uint64_t row);

/* Every transaction that is reserved and not decided, in ticket order; NULL at
 * the end (a node that goes online executes them too). */
extern Transaction *sequencer_reserved(Transaction *previous);

/* The same for those decided whose record is not durable yet, in seq order. */
extern Transaction *sequencer_undurable(Transaction *previous);

/*
 * Has any transaction waited here since before then?  When was the last lock granted that a
 * transaction had waited for?
 */
extern bool sequencer_any_waits_since(uint64_t before_us);
extern uint64_t sequencer_granted_us(void);

/*
 * Adds the waits of transactions here to the graph, for waits.c; the party in the graph that is
 * this transaction.
 */
struct WaitGraph;
extern void sequencer_add_waits(struct WaitGraph *g);
extern uint32_t sequencer_party(struct WaitGraph *g, Transaction *tx);

/* Has any transaction waited that long for the same thing? */
extern bool sequencer_is_stalled(int patience_ms);

/* It waits in a cycle, which detail describes, for that winner: it is rolled back. */
extern void sequencer_refuse_deadlock(Transaction *tx, const char *detail, const char *winner_node, uint32_t winner_pid);

/* The open transaction of a backend, NULL if none (blockers). */
extern Transaction *sequencer_find(int node, uint32_t pid);

/* Its seq, if it was decided and is among those remembered, else 0; the lowest
 * seq remembered. */
extern uint64_t sequencer_find_decided(const LsIdentity *id);
extern uint64_t sequencer_decided_first(void);

/* Node and process of the transaction with that seq, if remembered (the last 65536). */
extern bool sequencer_winner(uint64_t seq, const char **node, uint32_t *pid);

extern uint64_t sequencer_last_decided(void);
extern uint64_t sequencer_last_durable(void);
extern bool sequencer_has_decided(void);	/* anything, since the start */
extern uint64_t sequencer_last_ddl(void);	/* decided since the start */

/* Metadata records: queued behind what is decided; done on the loop when durable. */
extern void sequencer_journal_metadata(int record_type, const char *text, void (*done) (void *), void *arg);

/*
 * Calls done when this replicator has made sure that it still leads: at once if it is the only
 * one, else when the required copies have answered.  What was decided by anybody before this call,
 * sequencer_last_durable() includes then.
 */
extern void sequencer_confirm(void (*done) (void *), void *arg);

typedef struct SequencerStats
{
	uint64_t	committed;
	uint64_t	conflicts;
	uint64_t	peer_errors;
	uint64_t	withdrawn;
	uint64_t	reserved_now;
	uint64_t	certifier_keys;
	uint64_t	journal_first;
	uint64_t	journal_syncs;
	const char *journal_failing;	/* NULL, or why nothing can be decided */
} SequencerStats;

extern SequencerStats sequencer_stats(void);

/*
 * Open transactions of that node which have the ddl lock, and do not wait here, while
 * transactions of other nodes wait for it; waiting: one of those.
 */
typedef void (*DdlHolder) (void *arg, Transaction *holder, const Transaction *waiting);
extern void sequencer_ddl_holders(int node, DdlHolder found, void *arg);

#endif
