/*
 * spill.h
 *	  The part of a large transaction's queue that is on disk.  Loop's thread.
 *
 * A transaction whose queue outgrows transaction_memory goes on in a file: all
 * that it has, then a chunk whenever the part in memory has grown by one.  The
 * file is the body that the journal's record will refer to, so the data is
 * written once.  In memory stay the keys, which are bounded by
 * lockstep.max_row_keys, and a line per chunk, to find a savepoint again.
 */
#ifndef LOCKSTEP_SPILL_H
#define LOCKSTEP_SPILL_H

#include "config.h"
#include "journal_body.h"
#include "transaction.h"

typedef struct SpillChunk
{
	uint64_t	offset;
	uint64_t	first;			/* statement */
	size_t		nkeys;			/* before it */
} SpillChunk;

typedef struct Spill
{
	JournalBody *body;
	size_t		nstatements;	/* in the file */
	SpillChunk *chunks;			/* none of one that comes from the journal */
	size_t		nchunks;
	size_t		chunks_cap;
	LsKey	   *keys;			/* of these statements, in order, without
								 * names; the sequencer's until it is reserved */
	size_t		nkeys;
	size_t		keys_cap;
	uint64_t	synced;			/* size when the last sync began */
	bool		syncing;
	bool		durable;
	char	   *failure;		/* it could not be written or read: why */
	bool		disk_full;
} Spill;

/* Store what is in memory in the journal's directory; false: tx_failure(). */
extern bool tx_store(Transaction *tx, const Config *config);

/* Why it can't be stored or read back (NULL: nothing of the kind), and SQLSTATE. */
extern const char *tx_failure(const Transaction *tx, const char **sqlstate);

/* It will be refused: give back memory and disk; nothing more may be appended. */
extern void tx_discard(Transaction *tx);

/*
 * Nothing more comes: store the rest and make all of it durable; durable(tx) is
 * called when it is, or with tx_failure() set.  A reference is held until then.
 */
typedef void (*SpillDurable) (Transaction *tx);
extern void tx_seal(Transaction *tx, const Config *config, SpillDurable durable);

/* It is decided: the file is the journal's. */
extern BodyRef tx_keep_body(Transaction *tx);

/* The keys are known elsewhere now. */
extern void tx_forget_keys(Transaction *tx);

/* The statement that has key i of the list, and the key with its name. */
extern bool tx_find_key(const Transaction *tx, size_t i, Buffer *copy, LsQuery *query, LsKey *key);

/* ---------- for transaction.c */

extern Spill *spill_from_journal(const char *dir, const BodyRef *ref, const char **error);
extern void spill_free(Spill *s);

/* Cut the file before the chunk that holds statement keep, whose bytes go to
 * queries.  false: failure. */
extern bool spill_take_back(Spill *s, uint64_t keep, Buffer *queries);
extern bool spill_find_statement(const Spill *s, size_t i, Buffer *copy, LsSlice *payload);

/* ---------- in transaction.c, for spill.c */

extern void tx_forget_queries(Transaction *tx); /* in memory */

#endif
