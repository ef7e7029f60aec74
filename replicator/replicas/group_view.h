/*
 * group_view.h
 *	  What people are told of the group of replicators: who leads, who has what, and what is wrong.
 *
 * The thread of group.c tells; any thread asks.
 */
#ifndef LOCKSTEP_GROUP_VIEW_H
#define LOCKSTEP_GROUP_VIEW_H

#include <jansson.h>

#include "config.h"
#include "group_key.h"

/* The configuration stays. */
extern void group_view_begin(const Config *config);

/* What this replicator does; role is static: "standby", "taking over", "leader". */
extern void group_view_role(const char *role);

/* As etcd has the key, or as the leader says. */
extern void group_view_key(const GroupKey *key);

/* Logged once, until it is another one; NULL: it has passed. */
extern void group_view_trouble(const char *text);

/* Nothing is acknowledged before more standbys are there. */
extern void group_view_writers_wait(bool wait);

/* What the leader says of the nodes: a text of http_standby.c. */
extern void group_view_nodes(const char *text);

/* The last of these, malloc'ed; NULL: none.  *ms: since the leader that was followed was heard last. */
extern char *group_view_last_nodes(int64_t *ms);

/* A standby: does it follow the leader?  why: malloc'ed, who leads, or what is wrong. */
extern bool group_view_follows(char **why);

/* How many are in sync, and is that one? */
extern bool group_view_has(const char *name);

/*
 * For lockstepctl replicators and status: name, role, leads, leader, epoch, copies, min_copies, in_sync (names), writers_wait, trouble, and
 * members (name, address, in_sync, state; on the leader: silent_ms, segment, offset and lag_bytes of what has been sent,
 * free_bytes of its disk).
 */
extern json_t *group_view_json(void);

#endif
