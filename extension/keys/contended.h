/*
 * contended.h
 *	  Rows that several nodes have wanted at the same time lately.
 */
#ifndef LOCKSTEP_CONTENDED_H
#define LOCKSTEP_CONTENDED_H

#include "protocol.h"

extern void contended_shmem_request(void);
extern void contended_shmem_startup(void);

/* The list of a verdict: these rows are contended from now on, for LS_CONTENDED_MS. */
extern void contended_note(LsSlice hashes);

extern bool contended_any(void);	/* cheap */
extern bool contended_has(uint64 hash); /* of the row's key */

#endif							/* LOCKSTEP_CONTENDED_H */
