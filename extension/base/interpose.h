/*
 * interpose.h
 *	  Modules that call functions of the server directly, not through fmgr: their calls
 *	  are led to a replacement.
 */
#ifndef LOCKSTEP_INTERPOSE_H
#define LOCKSTEP_INTERPOSE_H

extern void interpose_replace(void *original, void *instead, const char *name); /* _PG_init */
extern void interpose_new_modules(void);	/* at modules loaded since */

#endif							/* LOCKSTEP_INTERPOSE_H */
