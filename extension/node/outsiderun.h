/*
 * outsiderun.h
 *	  Has this server run without lockstep since it was a node last, or was its WAL reset?
 */
#ifndef LOCKSTEP_OUTSIDERUN_H
#define LOCKSTEP_OUTSIDERUN_H

extern void outsiderun_init(void);	/* _PG_init, of a node */
extern void outsiderun_shmem_request(void);
extern void outsiderun_shmem_startup(void);

/* What the postmaster says tells that its processes start anew, or that it ends. */
extern void outsiderun_note_message(const ErrorData *edata);

/* Why it may hold changes of which no other node knows, or lack some (palloc'ed); NULL: neither. */
extern char *outsiderun_reason(void);

/* They are settled: it is what the others are. */
extern void outsiderun_clear(void);

/* Before anything is written here as a node. */
extern void outsiderun_begin(void);

#endif
