/*
 * sequencer_private.h
 *	  What the files sequencer*.c share.
 */
#ifndef LOCKSTEP_SEQUENCER_PRIVATE_H
#define LOCKSTEP_SEQUENCER_PRIVATE_H

#include "certify.h"
#include "conflict_log.h"
#include "decided.h"
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

/* ---------- in sequencer.c */

extern const PeerOps *to_peers;

/* Never decided; verdict may be NULL.  Drops the sequencer's reference. */
extern void roll_back(Transaction *tx, LsVerdict *verdict);

/* The requester of a single query gets its answer, once. */
extern void notify_requester(Transaction *tx, const LsErrorFields *error);

/* Those that wait for a lock asked first; at their reservation. */
extern const TxList *sequencer_lock_waiters(void);
extern const TxList *sequencer_waiting(void);
extern Certifier *sequencer_certifier(void);

/* ---------- in sequencer_order.c */

/* After the journal was opened: the certifier as its end has it. */
extern Certifier *order_start(const Config *config, struct Journal *journal, const char *journal_dir);
extern void order_next(Transaction *tx);	/* it gets its seq */
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

/* Take the next query off the front of a row of 'Q' messages that were looked at when
 * they came in (ls_take_query). */
extern bool next_query(LsSlice *rest, LsQuery *query);

/*
 * The same of a record; false: its body can't be read, *error says why.  If it has
 * one, this stands for leases_replay(), too: it is read only once.
 */
struct JournalRecord;
extern bool keys_of_record(const struct JournalRecord *r, const char *dir, KeyList *list, const char **error);

/* ---------- in sequencer_conflict.c */

/* Who was decided, for the details of conflicts. */
extern void winners_remember(uint64_t seq, uint32_t origin, uint32_t pid);

/* list: of the loser; winner: of CONFLICT_RESERVED, or NULL. */
extern void describe_key_conflict(const Transaction *loser, const KeyList *list, const Certificate *c,
								  const Transaction *winner, ConflictDetail *w);

/* Who of the cycle that it closes ranks lowest. */
extern Transaction *deadlock_victim(Transaction *closes, const Certifier *certifier);
extern void describe_deadlock(const Transaction *loser, const Transaction *closes, const Certifier *certifier,
							  ConflictDetail *w);

/* ---------- in sequencer_refuse.c: it is rolled back, and its session told why */

extern void refuse(Transaction *tx, const char *sqlstate, const char *message, const char *detail, const char *hint);

/* Of a cycle that tx has closed, who should lose does.  False: it was another one. */
extern bool refuse_deadlock(Transaction *tx, const Certifier *certifier);
extern void refuse_step(Transaction *step, const Transaction *waiting);

/* winner: of CONFLICT_RESERVED, or NULL. */
extern void refuse_conflict(Transaction *tx, const KeyList *list, const Certificate *c, const Transaction *winner);

/* Its queries could not be stored: false if they could. */
extern bool refused_for_failure(Transaction *tx);

extern void refusals_stats(SequencerStats *stats);

/* ---------- in sequencer_leases.c */

/* At the start; false: its body can't be read, *error says why. */
extern bool leases_replay(const struct JournalRecord *r, const char *dir, const char **error);
extern void leases_replay_query(LsSlice database, uint64_t seq, const LsQuery *query);
extern bool leases_decided(const Transaction *tx);	/* true: it had an effect */
extern void leases_forget_gone(uint64_t applied);
extern void leases_forget_database(LsSlice database);
extern struct LeaseTable *leases_copy(void);	/* for the journal's thread */

/* ---------- in sequencer_restart.c */

/* Certifier, metadata, identities and chain from the journal's end. */
extern Certifier *certifier_from_journal(const Config *config, struct Journal *journal, const char *journal_dir,
										 Decided *decided, uint64_t *chain);

#endif
