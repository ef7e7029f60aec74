/*
 * http_standby.h
 *	  What a standby of a group of replicators answers, so that a balancer may ask any of them: the
 *	  nodes as the leader has told last, and this one's own state.
 *
 * Nodes hold writes while another replicator takes over, so balancers must not take them out then:
 * what was told is said for STANDBY_HELD_MS after the leader was heard, and a leader that is new
 * says the same of nodes that it is about to attach.  A standby without a leader is not healthy
 * some seconds before that, so that a balancer asks another one.
 */
#ifndef LOCKSTEP_HTTP_STANDBY_H
#define LOCKSTEP_HTTP_STANDBY_H

#include "http_snapshot.h"

#define STANDBY_HELD_MS 10000
#define STANDBY_HEALTHY_MS 5000

/* For snapshots_review(), on the leader. */
extern void standby_review(Health *h);

/* HTTP thread.  Never NULL; valid until the next call. */
extern const Health *standby_health(void);

/* Can it say what is true of the nodes?  why: malloc'ed, in words. */
extern bool standby_is_healthy(char **why);

/* Like Snapshot.status. */
extern json_t *standby_status(void);

#endif
