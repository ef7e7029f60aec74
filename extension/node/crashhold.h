/*
 * crashhold.h
 *	  Readers wait, after a crash of this server, for the commits that it has forgotten.
 */
#ifndef LOCKSTEP_CRASHHOLD_H
#define LOCKSTEP_CRASHHOLD_H

extern void crashhold_shmem_request(void);
extern void crashhold_shmem_startup(void);

/* The replicator's first word, or a later one: the cluster has decided up to seq. */
extern void crashhold_heartbeat(uint64 seq);

/* Has it, since its server crashed last, got back everything that it may have forgotten? */
extern bool crashhold_is_recovered(void);

/* True: the statement has waited, and needs a newer snapshot.  ERROR 57P03 if it would
 * have to wait for longer than lockstep.recovery_wait. */
extern bool crashhold_wait(void);

#endif							/* LOCKSTEP_CRASHHOLD_H */
