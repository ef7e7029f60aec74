/*
 * recentddl.h
 *	  Has this node executed DDL a moment ago?  More may be under way.
 */
#ifndef LOCKSTEP_RECENTDDL_H
#define LOCKSTEP_RECENTDDL_H

extern void recentddl_shmem_request(void);
extern void recentddl_shmem_startup(void);

extern void recentddl_note(void);	/* it begins here, or is applied */
extern bool recentddl_within(long ms);

#endif							/* LOCKSTEP_RECENTDDL_H */
