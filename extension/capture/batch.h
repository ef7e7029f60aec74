/*
 * batch.h
 *	  Updates and deletes that travel together.  Private to capture.c.
 */
#ifndef LOCKSTEP_BATCH_H
#define LOCKSTEP_BATCH_H

#include "relation.h"

/*
 * The query of one row that was updated (assigned: the columns that it names) or
 * deleted (NULL); all that it points to is copied.  identity: the row's, or 0 if
 * it must travel alone.
 */
extern void batch_add(LsRelation *r, const LsColumnSet *assigned, uint64 identity,
					  const LsQuery *query);
extern void batch_flush(void);
extern void batch_discard(void);

#endif							/* LOCKSTEP_BATCH_H */
