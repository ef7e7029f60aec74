/*
 * certainrows.h
 *	  Rows that no other node can refuse for what they are: see certainrows.c.
 */
#ifndef LOCKSTEP_CERTAINROWS_H
#define LOCKSTEP_CERTAINROWS_H

#include "executor/tuptable.h"
#include "utils/rel.h"

#include "relation.h"

/*
 * r is the entry of rel.  is_new: the row is inserted.  slot: the new version of the row, or NULL
 * if it is deleted.
 */
extern bool certainrows_has(LsRelation *r, Relation rel, bool is_new, TupleTableSlot *slot);

#endif							/* LOCKSTEP_CERTAINROWS_H */
