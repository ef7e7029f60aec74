/*
 * copies_private.h
 *	  What copies.c (what is published, and who has it) and copies_send.c (a thread for each
 *	  standby, which sends it) share.
 */
#ifndef LOCKSTEP_COPIES_PRIVATE_H
#define LOCKSTEP_COPIES_PRIVATE_H

#include <pthread.h>

#include "copies.h"

typedef struct Copy
{
	CopyView	view;			/* but for silent_ms */
	int64_t		heard_ms;
	uint64_t	required_from;	/* what was acknowledged before */
	uint64_t	connection;		/* the number of its connection; 0: none */
	int			event_fd;
	bool		deaf;			/* event_fd has been signalled, and not read */
	bool		handed_over;	/* it has been told to take over */
} Copy;

typedef struct Body
{
	uint64_t	index;			/* with which it was published */
	uint64_t	seq;
	uint64_t	id;
	uint64_t	size;
	uint32_t	sent;			/* to these copies, a bit each */
} Body;

/* Everything of it is covered by copies_lock. */
typedef struct CopiesShared
{
	uint64_t	index;			/* of what is published */
	uint64_t	acknowledged;
	JournalPlace end;
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
	Copy		copies[CONFIG_MAX_REPLICATORS];
	Body	   *bodies;
	size_t		nbodies;
	size_t		bodies_cap;
} CopiesShared;

/* Set once, before the threads start. */
typedef struct CopiesSetup
{
	const Config *config;
	const MemberKeys *keys;
	GroupState	state;
	GroupKey	key;			/* of the beginning: cluster and epoch count */
	int			listen_fd;
} CopiesSetup;

extern pthread_mutex_t copies_lock;
extern pthread_cond_t copies_changed;	/* for the journal's thread */
extern pthread_cond_t copies_noticed;	/* for group.c; by CLOCK_MONOTONIC */
extern CopiesShared copies_shared;
extern CopiesSetup copies_setup;

extern int64_t copies_now_ms(void);

#endif
