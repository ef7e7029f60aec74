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

#endif							/* LOCKSTEP_READKEYS_H */
