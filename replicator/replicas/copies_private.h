/*
 * copies_private.h
 *	  What copies.c (what is published, and who has it) and copies_send.c (a thread for each
 *	  standby, which sends it) share.
 */
#ifndef LOCKSTEP_COPIES_PRIVATE_H
#define LOCKSTEP_COPIES_PRIVATE_H

#include <pthread.h>

#include "copies.h"

/*
 * What a sender, the thread of a standby's connection, does when it has nothing to do.  So a
 * commit costs no change of threads here: its journal's thread sends the record itself, syncs,
 * and hears the acknowledgement itself; and a copy that nobody waits for gets many records at
 * once.
 */
#define COPIES_REST_MS MEMBER_ALIVE_MS
#define COPIES_REST_BYTES MEMBER_DATA_MAX	/* with so much it does not rest */

typedef enum SenderState
{
	SENDER_AWAKE,				/* it looks whether there is something to do,
								 * before it sleeps */
	SENDER_WAITS,				/* for the standby, and its event */
	SENDER_LENDS,				/* for its event: the journal's thread uses
								 * the connection */
	SENDER_RESTS				/* for its event, or a while: its copy is not
								 * required */
} SenderState;

typedef struct Sender
{
	/* set once */
	int			i;				/* of the copy */
	uint64_t	connection;
	MemberChannel *channel;
	int			event_fd;

	/* covered by copies_lock */
	int			refs;			/* the last one frees it */
	SenderState state;

	/*
	 * covered by lock, and so is the channel; lock is taken before
	 * copies_lock
	 */
	pthread_mutex_t lock;
	JournalPlace at;
	uint64_t	synced;			/* the last index for which it was told to
								 * sync */
	int64_t		synced_ms;
	uint64_t	first;			/* that it was told */
	int			fd;				/* of segment `at.segment`, or -1 */
	uint64_t	key_version;	/* that it was told */
	uint64_t	nodes_version;
	bool		asks_nodes;		/* it wants to know of the nodes */
	int64_t		sent_ms;
	bool		handed_over;
	bool		hear;			/* something may have come; its thread's */
	const char *why;			/* it ends, if the connection does not say */
	uint64_t	held_index;		/* what it sends next, as a body was missing
								 * for it; 0: all there is */
	JournalPlace held_end;
} Sender;

/* The connection by which a standby gets bodies (bodies_send.c), beside that of its Sender. */
typedef struct BodySender
{
	int			event_fd;
	bool		told;			/* something is new; covered by copies_lock */
} BodySender;

typedef struct Copy
{
	CopyView	view;			/* but for silent_ms */
	int64_t		heard_ms;
	uint64_t	required_from;	/* what was acknowledged before */
	uint64_t	connection;		/* the number of its connection; 0: none */
	Sender	   *sender;			/* of that connection */
	char		nonce[MEMBER_NONCE_HEX];	/* by which the one for bodies
											 * names that connection */
	BodySender *bodies;			/* NULL: it is not there */
	int64_t		bodies_since_ms;	/* it is, or is not */
	bool		bodies_lost;	/* it was there */
	int64_t		room_ms;		/* when it said what room it has, now and then */
	uint64_t	bodies_sent;	/* bytes, since then */
	uint64_t	bodies_sent_before; /* ... and between that and the time
									 * before */
	uint64_t	bodies_checked; /* it has all of so many decided ones; 0: it
								 * may have not */
	bool		to_name;		/* it may have to be told that some are the
								 * journal's */
	bool		to_delete;		/* ... that some are to be deleted */
	bool		handed_over;	/* it has been told to take over */
	int64_t		segment_bytes;	/* CopiesShared.bytes where the segment of
								 * view.at begins */
} Copy;

/* See copies_bodies.c.  A bit for each copy. */
typedef enum BodyState
{
	BODY_ARRIVES,
	BODY_SEALED,
	BODY_DECIDED,
	BODY_TRIMMED,
	BODY_GONE
} BodyState;

typedef struct Body
{
	BodyState	state;
	uint64_t	index;			/* with which it was published; 0: before we
								 * led */
	uint64_t	seq;
	uint64_t	id;
	uint64_t	size;			/* of what is valid of the file */
	uint32_t	cuts;			/* how often what was valid no longer was */
	uint64_t	sent[CONFIG_MAX_REPLICATORS];	/* bytes */
	uint32_t	ended;			/* has been told that this is all */
	uint32_t	there;			/* has all of it on disk */
	uint32_t	refused;		/* has no room for it until it is decided */
	uint32_t	named;			/* has been told that it is the journal's: has
								 * a file of that name */
} Body;

/* Everything of it is covered by copies_lock. */
typedef struct CopiesShared
{
	uint64_t	changes;		/* of what a sender has to look at */
	bool		waited_for;		/* the journal's thread has published, and
								 * waits, or soon will */
	bool		waiting;		/* it waits; await_fd wakes it up */
	int			await_fd;
	uint64_t	index;			/* of what is published */
	uint64_t	acknowledged;
	JournalPlace end;
	int64_t		bytes;			/* published since leading began */
	uint64_t	first;
	uint64_t	ready_at;		/* index when leading began */
	int64_t		unsynced_ms;	/* the leader's own disk has been at work
								 * since then; 0: it is not */
	bool		enough;
	bool		stop;
	int			successor;		/* is told to take over; -1: none */
	bool		outdated;
	bool		ask_reach;
	int			connected_now;
	uint64_t	connections;
	char	   *key_text;		/* as it is now, for the standbys */
	uint64_t	key_version;
	char	   *nodes_text;		/* what the standbys are told of the nodes */
	uint64_t	nodes_version;	/* 0: nothing yet */
	Copy		copies[CONFIG_MAX_REPLICATORS];
	uint64_t	body_index;		/* of the last body */
	uint64_t	bodies_decided; /* ever, and one more: never 0 */
	Body	   *bodies;
	size_t		nbodies;
	size_t		bodies_cap;
	int			bodies_fd;		/* wakes the loop up, if ... */
	bool		bodies_awaited; /* ... it waits for copies of bodies */
} CopiesShared;

/* Set once, before the threads start. */
typedef struct CopiesSetup
{
	const Config *config;
	const MemberKeys *keys;
	GroupState	state;
	GroupKey	key;			/* of the beginning: cluster and epoch count */
	int			listen_fd;
	CopiesConnections connections;
} CopiesSetup;

/* No thread holds it while it sends, reads files or waits, but for the condition. */
extern pthread_mutex_t copies_lock;
extern pthread_cond_t copies_noticed;	/* for group.c; by CLOCK_MONOTONIC */
extern CopiesShared copies_shared;
extern CopiesSetup copies_setup;

/* With the lock: */
extern void copies_wake(Sender *s);
extern void copies_tell_journal(void);	/* what it waits for has changed */
extern void copies_tell_bodies(void);	/* who has which, and who is required */
extern void copies_wake_bodies(int i);

#endif
