/*
 * copies.h
 *	  The leader's side of the journal's copies: it streams what it writes to the standbys, and
 *	  counts what they have on disk.
 *
 * The journal's thread publishes each group when it is written, before its own sync, and after
 * that waits for the required copies: so a commit costs the slower of both.  One thread for each
 * standby reads the journal's files up to what is published and sends it; a standby that comes
 * new gets all of them in the same way.  A required copy that has everything is sent what is
 * published by the journal's thread itself; one that is not required gets it after a while, or
 * when it is much (copies_private.h).
 *
 * group.c decides which copies are required, and tells etcd.
 */
#ifndef LOCKSTEP_COPIES_H
#define LOCKSTEP_COPIES_H

#include "group_key.h"
#include "group_state.h"
#include <stdatomic.h>

#include "journal.h"
#include "member_channel.h"

struct Sender;

/* Does this replicator lead a group?  Without one, the functions for the journal's thread are not called. */
extern bool copies_active;

/* What one standby has, for group.c and for people. */
typedef struct CopyView
{
	bool		connected;
	bool		live;			/* it has had all that was published, once */
	bool		required;
	bool		anew;			/* it had nothing that could be continued, and
								 * gets the journal from the beginning; while
								 * it is not live, it lacks what it had */
	bool		bodies;			/* its connection for bodies is there */
	int			silent_ms;		/* since its last message, or since we lead */
	uint64_t	acked;
	uint64_t	room;			/* bytes on its disk, as it has said; 0: it
								 * has not */
	uint64_t	reach;			/* a Reach, while it is asked for */
	JournalPlace at;			/* sent */
	int64_t		lag_bytes;		/* published, and not sent */
} CopyView;

/* What copies_send.c does. */
typedef struct CopiesConnections
{
	void	   *(*listen_main) (void *arg); /* accepts standbys */
	bool		(*send) (struct Sender *s); /* what is published, at once;
											 * false: its thread has to */
	void		(*hear) (struct Sender *s); /* what has come */
	void		(*release) (struct Sender *s);
} CopiesConnections;

/* Listen there for standbys; they are accepted when this one leads.  NULL, or why not (malloc'ed), or it was to stop. */
extern char *copies_listen(const char *address, const atomic_bool * stop);

/*
 * Begin to lead: accept standbys.  NULL, or why not (malloc'ed).  place: the journal's end;
 * the pointers stay; connections: copies_send.h's.
 */
extern char *copies_begin(const Config *config, const MemberKeys *keys, const GroupState *state, const GroupKey *key,
						  const Journal *journal, const CopiesConnections *connections);

/* ---------- for the journal's thread */

/* Until copies_await() this one's disk is at work: if that takes too long, another one leads. */
extern void copies_will_write(void);

/* In copies_bodies.c: a body that the next published record refers to; it is complete and on disk. */
extern void copies_add_body(uint64_t seq, const BodyRef *body);

/* Everything before that place may be sent. */
extern void copies_publish(JournalPlace end);

/* Wait until all that is published is on the disk of each required copy.  false: copies_stop(). */
extern bool copies_await(void);
extern void copies_trimmed(uint64_t first); /* in copies_bodies.c */

/* Could another one lead, whose disk has room? */
extern bool copies_room_elsewhere(void);

/* ---------- for group.c; i: the index in Config.replicators */

extern void copies_look(int i, CopyView *view);

/* For some more segments. */
extern bool copies_has_room(const CopyView *view);
extern JournalPlace copies_published(void);
extern void copies_require(int i, bool required);
extern void copies_tell_key(const GroupKey *now);	/* the standbys, for
													 * people */
extern void copies_tell_nodes(const char *text);	/* the standbys, for
													 * balancers; any thread */
extern void copies_set_enough(bool enough); /* there are min_copies */

/* Has it all that was acknowledged before it was required? */
extern bool copies_is_complete(int i);

/* All required ones have all that there was when this was called first, and there are enough. */
extern bool copies_are_ready(void);

/* Wait for a change, or so long. */
extern void copies_wait(int ms);

/* Have all required ones been heard lately? */
extern bool copies_are_heard(void);

/* Do standbys try whether they reach any node? */
extern void copies_ask_reach(bool ask);

/* A standby has met a leader of a higher epoch. */
extern bool copies_outdated(void);

/* ---------- the end */

/* Nobody listens any more: another process may. */
extern void copies_close(void);

/* copies_await() waits no more. */
extern void copies_stop(void);

/*
 * A required copy that has everything is told to take over: that one, or if it can't be or to is
 * -1, another one.  Waits for at most so long.
 */
extern void copies_hand_over(int to, int ms);

#endif
