/*
 * patch.h
 *	  Replacing pointers in the server's read-only tables.
 */
#ifndef LOCKSTEP_PATCH_H
#define LOCKSTEP_PATCH_H

#include "fmgr.h"

/* Overwrite *slot (a pointer in a page that the server mapped read-only) with
 * value; FATAL at preload when the page can't be made writable. */
extern void ls_patch_pointer(void *slot, void *value, const char *what);

/*
 * A caller of the built-in function, by whatever way, calls instead: the table
 * of built-in functions leads there; cfunctions.c does so with compiled expressions.
 */
extern void ls_replace_function(Oid function, PGFunction instead, PGFunction *original,
								const char *name);
extern bool ls_is_replaced(const char *source); /* by its name in C */
extern bool ls_is_replaced_builtin(Oid function);

#endif							/* LOCKSTEP_PATCH_H */
