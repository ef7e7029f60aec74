/*
 * link_private.h
 *	  What link.c (bytes and messages) and link_handshake.c (connecting, mutual
 *	  authentication) share.  No other file includes it.
 */
#ifndef LOCKSTEP_LINK_PRIVATE_H
#define LOCKSTEP_LINK_PRIVATE_H

#include "storage/latch.h"

#include "datatype/timestamp.h"

#include "lockstep.h"
#include "ls_link.h"
#include "monotonic.h"

/* Why the connection was lost, in the words for the client. */
typedef struct LinkWhy
{
	char		sqlstate[LS_SQLSTATE_SIZE + 1];
	char		message[512];
	char		detail[1024];
	char		hint[512];
	bool		passing;		/* it may soon be possible to connect */
} LinkWhy;

typedef struct LinkState
{
	pgsocket	sock;
	bool		ready;			/* both sides are authenticated */
	bool		proven;			/* the replicator is */
	bool		refused_for_now;	/* by the welcome */
	uint64		number;			/* of connections so far that were ready */
	WaitEventSet *set;			/* socket, latch, postmaster death */
	int			position;		/* of the socket in it */
	uint32		events;			/* that the socket is waited for */
	StringInfoData in;			/* received */
	size_t		consumed;		/* of it handed out */
	MonoTime	heard;			/* when something was received or sent last */
	bool		ended;			/* nothing more will arrive, because of ... */
	int			end_errno;		/* 0: end of file */
	StringInfoData out;			/* not sent yet */
	LinkWhy		why;
	MemoryContext context;
} LinkState;

extern LinkState ls_link;

extern void link_adopt(pgsocket sock);
extern void link_wait(uint32 events, long timeout_ms, uint32 wait_event);
extern LinkResult link_lost(const char *fmt,...) pg_attribute_printf(1, 2);

#endif							/* LOCKSTEP_LINK_PRIVATE_H */
