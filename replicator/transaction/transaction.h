/*
 * transaction.h
 *	  A transaction in the replicator: its queue of queries, its state, and the
 *	  one function that moves it.  Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_TRANSACTION_H
#define LOCKSTEP_TRANSACTION_H

#include "buffer.h"
#include "protocol.h"

struct Session;
struct Spill;

/*
 * The origin of what belongs to no node: of a node that is not configured any
 * more, or made by the replicator itself.  It is executed on every node, and
 * ordered against the transactions of each.
 */
#define ORIGIN_NONE 63

typedef enum TxState
{
	TX_QUEUED,					/* statements arrive; nothing ordered yet */
	TX_HELD,					/* asked; its node is to catch up first, for
								 * some ms: see sequencer_runs.c */
	TX_WAITING,					/* asked; a lock requested first by another
								 * node is in the way */
	TX_RESERVED,				/* has a ticket, holds its keys; executing on
								 * peers */
	TX_DECIDED,					/* has a seq; its journal record is being made
								 * durable */
	TX_DURABLE,					/* verdict sent; peers commit it in seq order */
	TX_DONE,					/* applied by every online node */
	TX_ROLLED_BACK				/* never decided: nothing of it remains
								 * anywhere */
} TxState;

typedef enum TxTogether
{
	TOGETHER_UNKNOWN,			/* nobody has asked yet */
	TOGETHER_YES,
	TOGETHER_NO
} TxTogether;

typedef struct Transaction
{
	TxState		state;
	int			refs;			/* session, sequencer, each node's use of it */
	struct Session *session;	/* NULL once the session is gone */
	uint32_t	origin;			/* index of the node it came from */
	char	   *node;			/* identity: copies, owned */
	char	   *database;
	const char *role;			/* who logged in at its origin, see
								 * role_names.h; NULL: not known */
	uint64_t	table;			/* key of one that it changes, from RESERVED
								 * on; 0: not known */
	uint64_t	boot;
	uint32_t	pid;
	uint64_t	xcount;
	Buffer		queries;		/* 'Q' messages one after the other; of a
								 * large one, those behind what is in spill */
	size_t	   *offsets;		/* of each statement in queries */
	size_t		nstatements;	/* all of them */
	size_t		offsets_cap;
	size_t		accounted;		/* of queries, in the sum of all transactions */
	struct RoleUse *use;		/* of the role that it is charged to; NULL:
								 * none */
	struct
	{
		uint64_t	memory;
		uint64_t	size;
	}			charged;
	struct Spill *spill;		/* what is on disk, see spill.h; NULL: nothing */
	size_t		first_ddl;		/* first statement that changes catalogs,
								 * SIZE_MAX = none */
	LsCommitWait wait;
	bool		certain;		/* commit_wait = certified, and nothing in it
								 * that a node with the same data refuses */
	uint64_t	proof;			/* RESERVED: proven_epoch() then */
	uint64_t	took_ms;		/* on its origin, until it asked; 0: not long */
	bool		waited_for;		/* by others there, when it asked */
	uint64_t	ticket;			/* 0 before RESERVED */
	uint64_t	lock_ticket;	/* of locks requested first, 0 = none */
	uint64_t	seq;			/* 0 before DECIDED */
	uint64_t	chain;			/* of the journal, with it (journal.h) */
	struct Transaction **members;	/* several, executed as one: see
									 * tx_together */
	size_t		nmembers;		/* 0: it is one */
	TxTogether	together;		/* see tx_may_be_together */
	uint64_t	depends_on;		/* highest seq a node must have applied before
								 * it */
	uint64_t   *after_tickets;	/* same-origin reserved ones to be decided or
								 * gone first, ascending */
	size_t		nafter_tickets;
	struct Awaited *awaited;	/* for each of them that there was, of
								 * sequencer_undecided.c; malloc'ed */
	size_t		nawaited;
	LsSlice		contended;		/* for its verdict (LsVerdict); malloc'ed */
	uint64_t	executing;		/* bit per node: must execute it before it is
								 * decided */
	uint64_t	applying;		/* bit per node: was given it and has not
								 * applied it */
	bool		index_step;		/* RESERVED, and of a command that yields to
								 * one that waits for its table: see
								 * sequencer.c */
	bool		awaits_lock;	/* QUEUED, and a lock requested first is not
								 * granted yet */
	bool		has_waited;		/* for a lock requested first, and got it */
	uint64_t	waits_for;		/* lock, or ticket, that it was seen to wait
								 * for last ... */
	uint64_t	waits_since_us; /* ... since then */
	uint64_t	since_us;		/* it has its state, or waits for a lock,
								 * since (loop_now_us) */
	int			idle_ms;		/* has the ddl lock and does nothing, see
								 * idle_ddl.c */
	uint64_t	idle_looked_us; /* when it was looked at for that */
	char	   *asked_for;		/* name of a key of the locks asked last, for
								 * people; NULL: none */
	struct SingleQuery *alone;	/* has no session: who waits for its order,
								 * see sequencer.h; owned by the sequencer */
	Buffer		effects;		/* of queries, again, those with
								 * LS_REASON_SEQUENCE */
	uint64_t	first_effect;	/* index of the first of them */
	uint64_t	oldest_seen;	/* lowest S of its keys so far, UINT64_MAX =
								 * none */
	struct ApplyTask *tasks;	/* on nodes that were given it, see
								 * apply_queue.h */
	uint64_t	not_early;		/* bit per node: not before it is reserved */
	struct TxWaiters *waits_in; /* WAITING: list of those that wait for the
								 * same, of sequencer_undecided.c; RESERVED:
								 * of those to be decided */
	struct Transaction *prev_waits;
	struct Transaction *next_waits;
	struct Transaction *next_reserved;	/* RESERVED: same bucket of tickets */
	struct Transaction *prev;	/* list of the owner of the state */
	struct Transaction *next;
} Transaction;

extern Transaction *tx_create(const LsIdentity *id, LsSlice database, uint32_t origin);

/* Until it is decided or rolled back what it takes is its role's. */
extern void tx_charge(Transaction *tx, const char *role);
extern Transaction *tx_ref(Transaction *tx);
extern void tx_unref(Transaction *tx);
extern const char *tx_state_name(TxState s);
extern uint64_t tx_left_us(TxState state);	/* when one left that state last */
extern void tx_move(Transaction *tx, TxState to);	/* the table of legal
													 * moves is in
													 * transaction.c */

/* A whole 'Q' message, checked, and whether it is DDL. */
extern void tx_append(Transaction *tx, const uint8_t *message, size_t len, bool ddl);

/* Before tx_append of a query with LS_REASON_SEQUENCE: it is kept once more. */
extern void tx_keep_effect(Transaction *tx, const uint8_t *message, size_t len);
extern bool tx_rollback_to(Transaction *tx, uint64_t keep); /* false: keep >
															 * nstatements, or
															 * tx_failure() */
extern bool tx_has_ddl(const Transaction *tx);
extern uint64_t tx_bytes(const Transaction *tx);	/* of its queries, on disk
													 * too */
extern size_t tx_memory(const Transaction *tx); /* of its queries */
extern size_t tx_memory_of_all(void);

/*
 * Its statements in order.  A slice is valid until the next call for this
 * cursor, and as long as the transaction doesn't change.  false: none is left, or,
 * with *error set (static), it can't be read.
 */
typedef struct TxCursor
{
	size_t		next;			/* index of the statement that comes next */
	size_t		member;			/* of several as one: that has the next, */
	size_t		before;			/* and statements of those before it */
	uint64_t	offset;			/* in the file */
	Buffer		chunk;
} TxCursor;

extern void tx_cursor_start(TxCursor *c);	/* at the first one; needs no
											 * initialisation but zeros once */
extern bool tx_next(TxCursor *c, const Transaction *tx, LsSlice *payload, const char **error);
extern void tx_cursor_free(TxCursor *c);

/* The i-th one, into *copy if it is on disk.  false: it can't be had. */
extern bool tx_find_statement(const Transaction *tx, size_t i, Buffer *copy, LsSlice *payload);

/*
 * Several decided transactions for a node to execute as one: at most TX_TOGETHER,
 * of one database, their seqs without a gap.  The result refers to their queries, has the
 * last one's seq, and depends on what the members do that is not among them.
 * The members are referred to, for when that fails.
 */
extern Transaction *tx_together(Transaction *const *members, size_t n);
extern uint64_t tx_first_seq(const Transaction *tx);	/* its own, if it is one */

/* Which member has the i-th statement, *i: which of its own (tx itself, if it is
 * one). */
extern const Transaction *tx_member_at(const Transaction *tx, size_t *i);

/* Is it nothing but changes of rows, and not large?  Then it may be one of several. */
extern bool tx_may_be_together(Transaction *tx);

#define TX_TOGETHER 64
#define TX_TOGETHER_BYTES (256 * 1024)	/* tx_memory() of all of them; one
										 * alone may have more */

/* A decided transaction as the journal in dir has it (catchup): state TX_DURABLE.
 * NULL: *error says why (static). */
struct JournalRecord;
extern Transaction *tx_from_record(const struct JournalRecord *r, uint32_t origin,
								   const char *dir, const char **error);

#endif
