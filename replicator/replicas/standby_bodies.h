/*
 * standby_bodies.h
 *	  A standby's side of bodies of large transactions that arrive at the leader: a connection and
 *	  a thread of its own, so that neither the journal nor its acknowledgements wait for them.
 */
#ifndef LOCKSTEP_STANDBY_BODIES_H
#define LOCKSTEP_STANDBY_BODIES_H

#include "member_channel.h"

typedef struct StandbyBodies StandbyBodies;

/* Connect to replicator `leader`, beside the connection that has begun with that nonce.  The pointers stay. */
extern StandbyBodies *standby_bodies_begin(const Config *config, const MemberKeys *keys, int leader, const char *nonce);

/* Has the disk failed?  Why. */
extern bool standby_bodies_failed(StandbyBodies *b, char why[300]);

/* It is on disk here, complete, as a part; the caller gives it its name. */
extern bool standby_bodies_take(StandbyBodies *b, uint64_t id, uint64_t size);

/* Nothing is begun from then on; what the disk is at work with it may finish.  Frees it. */
extern void standby_bodies_end(StandbyBodies *b);

#endif
