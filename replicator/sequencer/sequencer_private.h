/*
 * sequencer_private.h
 *	  What the files sequencer*.c share.
 */
#ifndef LOCKSTEP_SEQUENCER_PRIVATE_H
#define LOCKSTEP_SEQUENCER_PRIVATE_H

#include "certify.h"
#include "conflict_log.h"
#include "decided.h"
#include "loop.h"
#include "sequencer.h"

/* A transaction is in one list at most. */
typedef struct TxList
{
	Transaction *first;
	Transaction *last;
} TxList;

static inline void
list_add(TxList *list, Transaction *tx)
{
	tx->prev = list->last;
	tx->next = NULL;
	*(list->last != NULL ? &list->last->next : &list->first) = tx;
	list->last = tx;
}

static inline void
list_remove(TxList *list, Transaction *tx)
{
	*(tx->prev != NULL ? &tx->prev->next : &list->first) = tx->next;
	*(tx->next != NULL ? &tx->next->prev : &list->last) = tx->prev;
	tx->prev = tx->next = NULL;
}

/* ---------- in sequencer_undecided.c */

extern const PeerOps *to_peers;

/* Transactions that wait for the same lock. */
typedef struct TxWaiters
{
	Transaction *first;
	Transaction *last;
} TxWaiters;

typedef struct Undecided
{
	Certifier  *certifier;
	TxList		lock_waiters;
	TxList		held[CONFIG_MAX_NODES]; /* HELD, by origin */
	uint64_t	nheld;			/* all of them */
	TxList		waiting;
	TxList		reserved;
	uint64_t	nreserved;
	uint64_t	reserved_steps; /* index_step */
	TxWaiters	retries;		/* WAITING, to be reserved now if possible */
	TxWaiters	decisions;		/* RESERVED, and may be decided now, as they
								 * could not when they had been executed */
	Deferred	look_again;
} Undecided;

extern Undecided undecided;

/*
 * It waits at its reservation for that lock; undecided_note_wait(): the same, for finding stalls
 * (waits_since_us).
 */
extern void undecided_wait_for(Transaction *tx, uint64_t lock_ticket);
extern void undecided_note_wait(Transaction *tx, uint64_t lock_ticket);
extern void undecided_stop_waiting(Transaction *tx);
extern void undecided_retry_later(Transaction *tx);

/* HELD or WAITING: it is in that list no more; the sequencer's reference stays.  Else false. */
extern bool undecided_leave(Transaction *tx);

/* The lock was released, wholly or in part; or it waits for more than before. */
extern void undecided_lock_changed(uint64_t lock_ticket);
extern void undecided_give_back_locks(Transaction *tx);

/* It is executed, and what it waited for has come. */
extern void undecided_decide_later(Transaction *tx);

/* Those have to be decided or gone before it. */
extern void undecided_await_tickets(Transaction *tx, const uint64_t *tickets, size_t n);

extern void undecided_add_reserved(Transaction *tx);
extern Transaction *undecided_find_reserved(uint64_t ticket);

/* It is decided, or rolled back. */
extern void undecided_unreserve(Transaction *tx);
extern void undecided_ticket_over(const Transaction *over);

/* Never decided; verdict may be NULL.  Drops the sequencer's reference. */
extern void roll_back(Transaction *tx, LsVerdict *verdict);

struct SingleQuery
{
	SingleQueryDone done;
	void	   *arg;
};

/* The requester of a single query gets its answer, once. */
extern void notify_requester(Transaction *tx, const LsErrorFields *error);

/* ---------- in sequencer_runs.c */

/* reserve: called for each that is held, when the time has come; ends TX_HELD. */
extern void runs_start(void (*reserve) (Transaction *tx));

/* A question has come: should it be held, if it would be decided at once?  runs_hold(): it is. */
extern bool runs_should_hold(const Transaction *tx);
extern void runs_hold(Transaction *tx);

/* Those that are held, of that origin or all, are reserved now, before what does not wait for them. */
extern void runs_release(uint32_t origin);
extern void runs_release_all(void);

/* ---------- in sequencer_late.c */

/* Since when this node has what others have decided and it has not applied, if that is longer than usual; else 0. */
extern uint64_t late_us(const Node *n);

/* How late it was on average when it asked; to be called each time.  With what it has decided itself, too? */
extern uint64_t late_on_average_us(int node, bool with_own);

/* A backend of that node is told that it is to commit with that seq. */
extern void late_told(uint32_t origin, uint64_t seq);

/* ---------- in sequencer_pace.c */

/* A question has come; a node has applied something; somebody is in a hurry. */
extern void pace_asked(const Transaction *tx);
extern void pace_applied(void);
extern void pace_stop(void);

/* ---------- in sequencer_seqs.c */

extern Decided *seqs_start(uint64_t last);
extern void seqs_next(Transaction *tx); /* it gets its seq, behind all others */
extern void seqs_durable(Transaction *tx);

/* ---------- in sequencer_order.c */

/* After the journal was opened: the certifier as its end has it. */
extern Certifier *order_start(const Config *config, struct Journal *journal, const char *journal_dir);
extern void order_journal(Transaction *tx); /* it exists, if the record
											 * reaches the journal */
extern void order_stats(SequencerStats *stats);

/* ---------- in sequencer_keys.c */

/* Keys of all queries; valid until the next call. */
typedef struct KeyList
{
	const LsKey *keys;
	size_t		n;
	bool		whole_table;	/* a table is locked or read as a whole */
	bool		ddl;			/* a query changes the catalogs */
	bool		index_step;		/* a query is one of CREATE or DROP INDEX
								 * CONCURRENTLY */
} KeyList;

extern KeyList keys_of(const Transaction *tx);

/* That of the database, which every transaction has beside those of its tables. */
extern bool is_database_key(const LsKey *k);

/*
 * Take the next query from the front of a sequence of 'Q' messages, which were checked on
 * arrival (ls_take_query).
 */
extern bool next_query(LsSlice *rest, LsQuery *query);

/*
 * The same of a record; false: its body can't be read, *error says why.  each() gets the
 * queries of a body, which is read only once.
 */
struct JournalRecord;
typedef void (*BodyQuery) (LsSlice database, uint64_t seq, const LsQuery *query);
extern bool keys_of_record(const struct JournalRecord *r, const char *dir, BodyQuery each, KeyList *list,
						   const char **error);

/* ---------- in sequencer_proven.c */

/* Have all online nodes been able to change the tables that it changes? */
extern bool proven_has(const KeyList *list);
extern uint64_t proven_epoch(void);
extern void proven_note(const Transaction *tx); /* they have executed it */
extern void proven_forget(bool ddl);
extern bool proven_nodes_go_first(void);

/* ---------- in sequencer_conflict.c */

/* Remember which transaction was decided, for the details of conflicts. */
extern void winners_remember(uint64_t seq, uint32_t origin, uint32_t pid);

/* list: the keys of the loser; winner: with CONFLICT_RESERVED, else NULL. */
extern void describe_key_conflict(const Transaction *loser, const KeyList *list, const Certificate *c,
								  const Transaction *winner, ConflictDetail *w);

/* The lowest-ranking transaction of the cycle that it closes. */
extern Transaction *deadlock_victim(Transaction *closes, const Certifier *certifier);
extern void describe_sequence_conflict(const LsKey *key, uint64_t seq, ConflictDetail *w);
extern void describe_deadlock(const Transaction *loser, const Transaction *closes, const Certifier *certifier,
							  ConflictDetail *w);

/* ---------- in sequencer_refuse.c: it is rolled back, and its session told why */

extern void refuse(Transaction *tx, const char *sqlstate, const char *message, const char *detail, const char *hint);

/*
 * tx has closed a cycle: the transaction of it that should lose does.  False: it was another
 * one.
 */
extern bool refuse_deadlock(Transaction *tx, const Certifier *certifier);
extern void refuse_step(Transaction *step, const Transaction *waiting);

/* False: it may be decided now, for all that is known of its sequences. */
extern bool refused_for_sequence(Transaction *tx);

/* winner: with CONFLICT_RESERVED, else NULL. */
extern void refuse_conflict(Transaction *tx, const KeyList *list, const Certificate *c, const Transaction *winner);

/* Its queries could not be stored: false if they could. */
extern bool refused_for_failure(Transaction *tx);

extern void refusals_stats(SequencerStats *stats);

/* ---------- in sequencer_leases.c */

/* At the start; false: its body can't be read, *error says why. */
extern bool leases_replay(const struct JournalRecord *r, const char *dir, const char **error);
extern void leases_replay_query(LsSlice database, uint64_t seq, const LsQuery *query);
extern bool leases_decided(const Transaction *tx);	/* true: it had an effect */
extern bool leases_outdated(const Transaction *tx, LsKey *key, uint64_t *seq);	/* see lease_outdated() */
extern void leases_forget_gone(uint64_t applied);
extern void leases_forget_database(LsSlice database);
extern void leases_database_event(LsSlice text);
extern struct LeaseTable *leases_copy(void);	/* for the journal's thread */

/* ---------- in sequencer_restart.c */

/* Certifier, metadata, identities and chain from the journal's end. */
extern Certifier *certifier_from_journal(const Config *config, struct Journal *journal, const char *journal_dir,
										 Decided *decided, uint64_t *chain);

#endif
