/*
 * sequence_private.h
 *	  Values of sequences: what the files sequence*.c share.
 *
 * On an origin a value comes from a lease (sequence_shared.c), never from the server's own
 * nextval, which knows of this node only.  The page of the sequence (last_value as users and
 * pg_dump see it) follows (sequence_page.c):
 *
 *  when a value is handed out here: to that value;
 *  in the turn of a transaction with a value of another node: to that value, if it is further;
 *  in the turn of a setval or of DDL: to exactly the position that was set.
 *
 * So when everything is applied the page is equal on all nodes, and on no node behind a value
 * that was handed out.  A sequence whose storage the current transaction has made is invisible
 * to others; PostgreSQL's own functions are used for it, and its position is forwarded at
 * commit.  If it was only altered it goes on where it was: its values come from leases of
 * this transaction's own.
 */
#ifndef LOCKSTEP_SEQUENCE_PRIVATE_H
#define LOCKSTEP_SEQUENCE_PRIVATE_H

#include "lockstep.h"
#include "sequence.h"

/* The definition, as pg_sequence has it. */
typedef struct SeqShape
{
	int64		increment;
	int64		min;
	int64		max;
	int64		cache;
	bool		cycle;
} SeqShape;

/* last_value and is_called */
typedef struct SeqPosition
{
	int64		value;
	bool		called;
} SeqPosition;

/* Values handed out: first, first + increment, ..., last. */
typedef struct SeqTaken
{
	int64		first;
	int64		last;
	uint64		count;			/* of values taken on this node; grows */
	uint64		generation;		/* of the sequence on this node: changes when
								 * it is set */
} SeqTaken;

/* Is value a behind b, in the direction of the sequence? */
static inline bool
seq_is_behind(const SeqShape *shape, int64 a, int64 b)
{
	return shape->increment > 0 ? a < b : a > b;
}

/* ---------- in sequence_page.c.  The caller has the relation open and locked. */

extern SeqPosition sequence_page_read(Relation rel);
extern void sequence_page_set(Relation rel, SeqPosition position);

/*
 * A value was handed out here.  *logged: WAL covers the values up to this one already, if
 * *logged_valid; no value beyond limit is logged ahead.
 */
extern void sequence_page_advance(Relation rel, const SeqShape *shape, int64 value, int64 limit,
								  int64 *logged, bool *logged_valid);

/* ---------- in sequence_shared.c: what this node may hand out */

extern bool sequence_shared_take(Relation rel, const SeqShape *shape, SeqTaken *taken);
extern uint64 sequence_shared_generation(Relation rel);
struct SeqEntry;
extern struct SeqEntry *sequence_shared_begin_asking(Relation rel); /* NULL: another process
																	 * did, look again */
extern void sequence_shared_end_asking(struct SeqEntry *entry);
extern void sequence_shared_named(Relation rel, const char *name, const LsKey *key);	/* by now */
extern void sequence_shared_add(Relation rel, const SeqShape *shape, uint64 generation, int64 first, uint64 count);

/* In turn. */
extern void sequence_shared_ordered(Relation rel, const SeqShape *shape, int64 value, uint64 boot, uint64 count);
extern void sequence_shared_set(Relation rel, SeqPosition position);
extern void sequence_shared_altered(Relation rel, SeqPosition position);	/* as far as another
																			 * node knew */
extern void sequence_shared_renamed(Relation rel);

/* It was dropped; relid invalid: all of the database. */
extern bool sequence_shared_knows(Oid database, Oid relid);
extern void sequence_shared_forget(Oid database, Oid relid);

/* ---------- in sequence_definition.c */

extern char *sequence_qualified_name(Relation rel);
extern void sequence_shape(Oid relid, SeqShape *shape);

/* The state before this transaction, to be unregistered; names then.  NULL: there was none, or a temporary one. */
extern Snapshot sequence_snapshot_before(void);
extern char *sequence_schema_before(Oid namespace, Snapshot before);
extern char *sequence_name_before(Oid relid, Snapshot before);
extern void sequence_shape_before(Oid relid, Snapshot before, SeqShape *shape);

/* As the cluster knows it, and its table's key: of the seq that is returned, or later. */
extern uint64 sequence_committed_name(Relation rel, char **name, LsKey *key);
extern bool sequence_is_new(Relation rel);	/* its storage is this
											 * transaction's */

/* ---------- in sequence_restart.c */

/* Its storage is this transaction's, but it goes on where it was: altered, not created nor set back. */
extern bool sequence_goes_on(Relation rel);
extern void sequence_forget_restarts(void); /* at the transaction's end */

/* ---------- in sequence_effect.c */

extern const char *sequence_direction(int64 increment, bool cycle); /* up, down or cycle */
extern char *sequence_used_extra(uint64 count, int64 increment, bool cycle);
extern void sequence_effect_query(LsQuery *query, const char *effect, const char *name,
								  SeqPosition position, const char *extra, const LsKey *key);

/* ---------- in sequence_session.c */

/* Values of this transaction, to be forwarded; by sequence_commit.c. */
typedef struct SeqUsed
{
	Oid			relid;
	int64		value;
	uint64		count;
	uint64		generation;
} SeqUsed;

extern const SeqUsed *sequence_used(int *n);
extern void sequence_forget_used(void);

/* By what stands in for PostgreSQL's functions, in this transaction. */
extern bool sequence_is_locked_by_us(Oid relid);

#endif							/* LOCKSTEP_SEQUENCE_PRIVATE_H */
