/*
 * exacttext.h
 *	  Does a value's text give the same value back?  Private to relation.c and
 *	  deparsevalue.c.
 */
#ifndef LOCKSTEP_EXACTTEXT_H
#define LOCKSTEP_EXACTTEXT_H

#include "relation.h"

/* What is needed to find out, in the current memory context; NULL: it does. */
extern LsExactText *exacttext_for(Oid type);

/* Refuse a column's value which another node would read differently. */
extern void exacttext_check(const LsRelation *r, AttrNumber attnum, Datum value, const char *text);

#endif							/* LOCKSTEP_EXACTTEXT_H */
