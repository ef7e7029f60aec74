/*
 * applyimage.h
 *	  A row of a table without an identity, found by what it consists of.
 */
#ifndef LOCKSTEP_APPLYIMAGE_H
#define LOCKSTEP_APPLYIMAGE_H

#include "executor/tuptable.h"
#include "utils/relcache.h"

/* Values of all columns that are there, in the types of the columns. */
typedef struct RowImage
{
	int			n;
	AttrNumber *attnums;
	Datum	   *values;
	bool	   *nulls;
} RowImage;

/*
 * A row of a heap that the active snapshot sees, with exactly these values (record_image_eq()), in a slot of table_slot_create().
 * False: there is none.  The caller's memory context may get values that were out of line.
 */
extern bool applyimage_find(Relation rel, const RowImage *image, TupleTableSlot *slot);

/* The row at that place, which may be behind the last one of the block, if the active snapshot sees one there. */
extern bool applyimage_fetch(Relation rel, BlockNumber block, OffsetNumber offset, TupleTableSlot *slot);

#endif							/* LOCKSTEP_APPLYIMAGE_H */
