/*
 * metadata.h
 *	  What the journal says of the cluster besides transactions: which databases
 *	  are replicated, and what each held when it began to be (its fingerprint).
 *	  Belongs to the loop's thread.
 */
#ifndef LOCKSTEP_METADATA_H
#define LOCKSTEP_METADATA_H

#include "buffer.h"
#include "journal.h"

/* A record that was read, or is about to be written, counts from now on. */
extern void metadata_apply(RecordType type, uint64_t seq, LsSlice text);

extern const char *const *metadata_databases(int *n);
extern uint64_t metadata_database_moves(void);	/* how often one has left that
												 * list, or has another name:
												 * places in it are others
												 * then */
extern bool metadata_has_database(const char *name);
extern bool metadata_has_any(void); /* it was ever said which databases there
									 * are */

/* The number that CREATE DATABASE gave it; 0: it came by lockstepctl database add. */
extern uint64_t metadata_database_number(const char *name);
extern const char *metadata_name_of(uint64_t number);	/* NULL: none that is
														 * replicated has it */

/* The last seq when a database of that name was dropped, 0 = never: what is not
 * newer belongs to another database than the one that has the name now. */
extern uint64_t metadata_dropped_at(const char *name);

/* What the database held at its first attach; NULL: nothing recorded yet. */
extern const char *metadata_fingerprint(const char *database);

/* Dropped by command, and not attached since. */
extern bool metadata_node_is_out(const char *name);

/* Text of a RECORD_FINGERPRINT (malloc'ed). */
extern char *metadata_fingerprint_text(const char *database, const char *fingerprint);

/*
 * Generations of replicators: the highest, 0 = none.  Is one this journal's own, as
 * far as is known (only the last ones are)?
 */
#define GENERATION_TEXT_SIZE 40
extern uint64_t metadata_generation(void);
extern bool metadata_knows_generation(uint64_t number, uint64_t run);
extern void metadata_generation_text(char text[GENERATION_TEXT_SIZE], uint64_t number, uint64_t run);

/* Append records of all that counts now; for journal_set_metadata(). */
extern void metadata_encode(uint64_t seq, Buffer *bytes);

/* Append one. */
extern void metadata_encode_record(Buffer *bytes, RecordType type, uint64_t seq, LsSlice text);

#endif
