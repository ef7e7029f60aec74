/*
 * walwriter.h
 *	  How often asynchronous commits wake the WAL writer.
 */
#ifndef LOCKSTEP_WALWRITER_H
#define LOCKSTEP_WALWRITER_H

extern void walwriter_shmem_request(void);
extern void walwriter_shmem_startup(void);

/* Before an asynchronous commit: it wakes the WAL writer only if that is due. */
extern void walwriter_spare(void);

#endif							/* LOCKSTEP_WALWRITER_H */
