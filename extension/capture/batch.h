/*
 * batch.h
 *	  Updates and deletes that travel together.  Private to capture.c.
 */
#ifndef LOCKSTEP_BATCH_H
#define LOCKSTEP_BATCH_H

#include "keyset.h"
#include "relation.h"

/* A row's query while it is made: its parameters and keys at the end of what is there. */
typedef struct LsBatchQuery
{
	StringInfo	params;
	LsKeyBuffer *keys;
	LsSlice		text;			/* as long as the relation's entry */
	uint32		nparams;
	uint64		identity;		/* the row's; 0: it must travel alone */
} LsBatchQuery;

/* A row of that relation is next: where its query is made.  What is not added is forgotten. */
extern void batch_begin(const LsRelation *r, LsSlice settings, LsBatchQuery *query);

/* It has been made: the row was updated (assigned: the columns that it names) or deleted (NULL). */
extern void batch_add(LsRelation *r, const LsColumnSet *assigned, const LsBatchQuery *query);
extern void batch_flush(void);
extern void batch_discard(void);

#endif							/* LOCKSTEP_BATCH_H */
