/*
 * copies_bodies.h
 *	  The leader: bodies of large transactions, and who has them.
 *
 * A body is sent while it arrives, by a connection of its own (bodies_send.c), to a file that
 * counts for nothing ("part"); so when its transaction is decided, there is nothing left to send
 * but its name.
 */
#ifndef LOCKSTEP_COPIES_BODIES_H
#define LOCKSTEP_COPIES_BODIES_H

#include "copies_private.h"

/* Before copies_begin(): the journal's, and from now on those that arrive.  The loop's thread. */
extern void copies_bodies_begin(const Journal *journal);

/* ---------- with the lock; i: the copy */

/* What a new connection has: these ids need not be sent, and those that are not the journal's are to be deleted. */
extern void copies_bodies_connected(int i, const json_t *ids);

/* Parts that it had are gone, or will be. */
extern void copies_bodies_disconnected(int i);

/* Is one missing there, of those published up to that index? */
extern bool copies_bodies_missing(int i, uint64_t index);

/* The next one of these that is there, and has not got its name. */
extern bool copies_bodies_name(int i, uint64_t index, Body *body);

/*
 * The next ids that it is to delete: no record refers to them any more, when it has deleted the
 * segments before `first`.  How many: at most max.
 */
extern size_t copies_bodies_to_delete(int i, uint64_t first, uint64_t *ids, size_t max);

/* Its disk has so much, as it says. */
extern void copies_bodies_room(int i, uint64_t room);

/* ---------- for bodies_send.c, with the lock */

typedef enum BodyTask
{
	BODY_TASK_NONE,
	BODY_TASK_PIECE,			/* send what is behind sent[i] */
	BODY_TASK_END,				/* all of it has been sent */
	BODY_TASK_DROP				/* it is gone, or has no room */
} BodyTask;

/* after: the id that was sent last: open ones take turns. */
extern BodyTask copies_bodies_next(int i, uint64_t after, Body *body);

/* n bytes behind sent[i] of *body have been read; false: they are not valid any more. */
extern bool copies_bodies_sent(int i, const Body *body, size_t n);
extern void copies_bodies_ended(int i, uint64_t id);

/* Its file is not there; false: it should be. */
extern bool copies_bodies_lost(int i, uint64_t id);

/* false: it is not to be dropped. */
extern bool copies_bodies_dropped(int i, uint64_t id);

/* All of it is on that copy's disk. */
extern void copies_bodies_there(int i, uint64_t id);

#endif
