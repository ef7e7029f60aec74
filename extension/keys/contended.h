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

/*
 * Of a table's rows that a statement has named, so many are contended.  Is the table contended as a
 * whole, so that its other rows should be requested, too?
 */
extern bool contended_table(uint64 table, int named, int rows);

#endif							/* LOCKSTEP_CONTENDED_H */
