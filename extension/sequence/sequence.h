/*
 * sequence.h
 *	  Values of sequences.  Private to the files sequence*.c.
 *
 * On an origin a value is handed out from a lease (sequence_shared.c), never by
 * the server's own nextval, which knows of this node only.  The sequence's own
 * page, last_value as people and pg_dump see it, follows (sequence_page.c):
 *
 *	 as soon as a value is handed out here, to that value;
 *	 in the turn of a transaction that carries the value of another node, to that
 *	 one if it is further;
 *	 in the turn of a setval or of DDL, to exactly what it says.
 *
 * So when everything is applied it is equal on all nodes, and nowhere below a
 * value that was handed out.  A sequence whose storage this transaction has made
 * is nobody else's: PostgreSQL's own functions do, and at commit the result
 * travels.
 */
#ifndef LOCKSTEP_SEQUENCE_H
#define LOCKSTEP_SEQUENCE_H

#include "lockstep.h"

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

extern SeqPosition seqpage_read(Relation rel);
extern void seqpage_set(Relation rel, SeqPosition position);

/*
 * A value was handed out here.  *logged: up to where WAL says so already, if
 * *logged_valid; no further than limit is logged ahead.
 */
extern void seqpage_advance(Relation rel, const SeqShape *shape, int64 value, int64 limit,
							int64 *logged, bool *logged_valid);

/* ---------- in sequence_shared.c: what this node may hand out */

extern bool seqshared_take(Relation rel, const SeqShape *shape, SeqTaken *taken);
extern uint64 seqshared_generation(Relation rel);
struct SeqEntry;
extern struct SeqEntry *seqshared_begin_asking(Relation rel);	/* NULL: another process
																 * did, look again */
extern void seqshared_end_asking(struct SeqEntry *entry);
extern void seqshared_add(Relation rel, const SeqShape *shape, uint64 generation, int64 first, uint64 count);

/* In turn. */
extern void seqshared_ordered(Relation rel, const SeqShape *shape, int64 value, uint64 boot, uint64 count);
extern void seqshared_set(Relation rel, SeqPosition position);
extern void seqshared_renamed(Relation rel);

/* Dropped for good; relid invalid: all of the database. */
extern bool seqshared_knows(Oid database, Oid relid);
extern void seqshared_forget(Oid database, Oid relid);

/* ---------- in sequence_session.c */

extern char *sequence_qualified_name(Relation rel);
extern void sequence_shape(Oid relid, SeqShape *shape);
extern bool sequence_is_new(Relation rel);	/* its storage is this
											 * transaction's */

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

/* ---------- in sequence_commit.c */

extern void sequence_effect_query(LsQuery *query, const char *effect, const char *name,
								  SeqPosition position, const char *extra, const LsKey *key);

#endif							/* LOCKSTEP_SEQUENCE_H */
