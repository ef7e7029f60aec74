/*
 * generation.h
 *	  Which replicator may order on this node.
 */
#ifndef LOCKSTEP_GENERATION_H
#define LOCKSTEP_GENERATION_H

typedef struct Generation
{
	uint64		number;			/* 0: of an earlier version, or none yet */
	uint64		run;			/* random, of one process */
} Generation;

extern void generation_shmem_request(void);
extern void generation_shmem_startup(void);

/* ---------- sessions of the replicator; ERROR LS005: another has taken its place */

/* The replicator of this session is of that generation.  Stored durably before it returns. */
extern void generation_enter(Generation generation);

/* This session applies from now on.  ERROR unless it has entered the current generation. */
extern void generation_begin_apply(void);
extern void generation_require(void);
extern void generation_check(void); /* only if it has entered one */

/* The number of the generation that this session has entered; 0: none. */
extern uint64 generation_of_session(void);

extern void generation_heartbeat(void);

/* Since the last heartbeat, which only a node gets that is online or about to be; -1: there was none. */
extern int64 generation_silent_ms(void);

/* The same; before the first one since a replicator first entered its generation; -1: none has since the server's start. */
extern int64 generation_unheard_ms(void);

/* The current one; *served_ms: since the last heartbeat, -1: there was none. */
extern Generation generation_known(int64 *served_ms);

/* ---------- a backend's link to the replicator */

/* False: that is not the generation that the node follows. */
extern bool generation_begin_link(Generation generation);

/* The link is lost, but what that generation has decided still counts for this backend. */
extern void generation_outlast_link(uint64 number);
extern bool generation_link_is_outdated(void);
extern uint64 generation_of_link(void);

#endif							/* LOCKSTEP_GENERATION_H */
