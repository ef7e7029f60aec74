/*
 * hooks.h
 *	  Installing lockstep in the server: see hooks.c.
 */
#ifndef LOCKSTEP_HOOKS_H
#define LOCKSTEP_HOOKS_H

/* In the postmaster, while it preloads libraries. */
extern void hooks_install_shmem(void);	/* on every server */
extern void hooks_install(void);	/* on a node */

#endif							/* LOCKSTEP_HOOKS_H */
