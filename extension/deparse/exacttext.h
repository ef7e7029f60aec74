/*
 * exacttext.h
 *	  Does a value's text give the same value back, or its binary form?  Private to relation.c,
 *	  deparsevalue.c and received.c.
 */
#ifndef LOCKSTEP_EXACTTEXT_H
#define LOCKSTEP_EXACTTEXT_H

#include "fmgr.h"

#include "relation.h"

/* What is needed to find out, in the current memory context; NULL: it does. */
extern LsExactText *exacttext_for(Oid type);

/*
 * False: it is to travel in binary.  If another node would read that, too, differently, a value that is to
 * be stored is refused.
 */
extern bool exacttext_gives_back(const LsRelation *r, AttrNumber attnum, Datum value, const char *text, bool stored);

/* The binary form, as the text of a bytea.  Refused if it would be another value elsewhere. */
extern LsSlice exacttext_binary(const LsRelation *r, AttrNumber attnum, Datum value);

/* ---------- for both directions */

extern int	exacttext_enter_encoding(void);
extern void exacttext_leave_encoding(int was);
extern Datum exacttext_receive(FmgrInfo *receive, Oid ioparam, Oid type, const bytea * bytes);

#endif							/* LOCKSTEP_EXACTTEXT_H */
