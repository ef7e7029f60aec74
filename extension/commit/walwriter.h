/*
 * walwriter.h
 *	  How often asynchronous commits wake the WAL writer.
 */
#ifndef LOCKSTEP_WALWRITER_H
#define LOCKSTEP_WALWRITER_H

extern void walwriter_shmem_request(void);
extern void walwriter_shmem_startup(void);

/* By who has the turn, before its asynchronous commit: that wakes the WAL writer only if it is due. */
extern void walwriter_spare(void);

#endif							/* LOCKSTEP_WALWRITER_H */
