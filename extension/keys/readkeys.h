/*
 * readkeys.h
 *	  What readplan.c tells readkeys.c of what a SERIALIZABLE transaction reads.
 */
#ifndef LOCKSTEP_READKEYS_H
#define LOCKSTEP_READKEYS_H

#include "relation.h"

/* Does it matter what is read now? */
extern bool readkeys_count(void);

/* Its rows, of whatever names, and not more than the table's existence. */
extern void readkeys_rows_of(const LsRelation *r);
extern void readkeys_whole(const LsRelation *r);
extern void readkeys_row(LsRelation *r, Datum *values, bool *nulls);

typedef struct LsReadMark
{
	int			len;
	uint32		nkeys;
} LsReadMark;

/* Returns where the row's own key is, behind those of its table. */
extern LsReadMark readkeys_row_locked(Relation rel, TupleTableSlot *slot, LockTupleMode mode);
extern void readkeys_table(Relation rel);	/* before it is read without a
											 * plan */

/*
 * Before the question: the keys as queries, to be forwarded.  They point to
 * this file's buffers.  Returns their number.
 */
#define READKEYS_MAX_QUERIES 2
extern int	readkeys_queries(LsQuery *queries);
extern LsReadMark readkeys_mark(void);	/* at the start of a subtransaction */
extern void readkeys_cut(LsReadMark mark);	/* when it aborts */
extern void readkeys_at_subxact_start(int level);
extern void readkeys_at_xact_end(void);

#endif							/* LOCKSTEP_READKEYS_H */
