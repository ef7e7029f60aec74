/*
 * sequencer_private.h
 *	  What sequencer.c (the order), sequencer_keys.c (keys of a transaction),
 *	  sequencer_lose.c (who won) and sequencer_restart.c (state from the journal)
 *	  share.
 */
#ifndef LOCKSTEP_SEQUENCER_PRIVATE_H
#define LOCKSTEP_SEQUENCER_PRIVATE_H

#include "certify.h"
#include "conflicts.h"
#include "decided.h"
#include "sequencer.h"

/* ---------- in sequencer_keys.c */

/* Keys of all queries; valid until the next call. */
typedef struct KeyList
{
	const LsKey *keys;
	size_t		n;
	bool		whole_table;	/* a table is locked or read as a whole */
	bool		ddl;			/* of a record: a query changes the catalogs */
} KeyList;

extern KeyList keys_of(const Transaction *tx);

/* Take the next query off the front of a row of 'Q' messages. */
extern bool next_query(LsSlice *rest, LsQuery *query);

/* The same of a record; false: its body can't be read, *error says why. */
struct JournalRecord;
extern bool keys_of_record(const struct JournalRecord *r, const char *dir, KeyList *list, const char **error);

/* ---------- in sequencer_lose.c */

/* Who was decided, for the details of conflicts. */
extern void winners_remember(uint64_t seq, uint32_t origin, uint32_t pid);

/* list: of the loser; winner: of CONFLICT_RESERVED, or NULL. */
extern void lose_by_key(const Transaction *loser, const KeyList *list, const Certificate *c,
						const Transaction *winner, LosingWords *w);
extern void lose_by_circle(const Transaction *loser, const Certifier *certifier, LosingWords *w);

/* ---------- in sequencer_leases.c */

extern void leases_replay(const struct JournalRecord *r, const char *dir);	/* at the start */
extern bool leases_decided(const Transaction *tx);	/* true: it had an effect */
extern void leases_forget_gone(uint64_t applied);
extern void leases_forget_database(LsSlice database);
extern struct LeaseTable *leases_copy(void);	/* for the journal's thread */

/* ---------- in sequencer_restart.c */

/* Certifier, metadata, identities and chain from the journal's end. */
extern Certifier *certifier_from_journal(const Config *config, struct Journal *journal, const char *journal_dir,
										 Decided *decided, uint64_t *chain);

#endif
