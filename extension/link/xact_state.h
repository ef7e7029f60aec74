/*
 * xact_state.h
 *	  The current transaction as the replicator knows it.  Written by xact.c,
 *	  xact_messages.c and lockrequest.c, and by verdict.c and commit.c when it ends; read
 *	  by outcome.c, conflictreport.c and others.
 */
#ifndef LOCKSTEP_XACT_STATE_H
#define LOCKSTEP_XACT_STATE_H

#include "xact.h"

typedef struct XactState
{
	bool		writes;			/* it has a number, and the link was found
								 * good */
	uint64		xcount;			/* its number, see xact_new_number() */
	uint64		since;			/* this node had applied up to here when it
								 * got its number */
	bool		told;			/* the replicator knows it, and has not ended
								 * it by a verdict */
	uint64		told_by;		/* link_number() then */
	bool		ended;			/* the replicator rolled it back before it was
								 * asked; a savepoint may have survived that
								 * here */
	char		ended_why[512];
	bool		drains_later;	/* the socket may not have taken all that was
								 * sent */
	uint64		nstatements;	/* in the queue, sent or not */
	StringInfoData queue;		/* encoded messages not sent yet */
	uint64		appended;		/* bytes that ever went into the queue */
	uint64		sent;			/* bytes of these that left it */
	StringInfoData kept;		/* the first queries, for lockstep.forwarded */
	uint64		nkept;			/* queries in it */
	bool		may_fail_elsewhere; /* so other nodes execute it before it is
									 * decided */
	bool		may_be_refused; /* is not only of rows that no node refuses,
								 * see certainrows.c */
	int64		nrows;			/* changed */
	uint64		locks_asked;
	uint64		locks_granted;	/* of these, the first */
	JournalPosition apply_position; /* apply session: commits there, seq 0 =
									 * none */
} XactState;

extern XactState ls_xact;

extern void xact_check_not_ended(void);
extern bool xact_told_elsewhere(void);	/* by a connection that is gone */

/* ---------- the queue, for messages that are not queries (lockrequest.c) */

extern uint8_t *xact_queue_room(size_t size);	/* at its end */
extern void xact_queue_added(size_t size);
extern void xact_stream(void);	/* send all of it; waits for the socket, and
								 * ERROR if the link is lost, if neither is
								 * postponed */

#endif							/* LOCKSTEP_XACT_STATE_H */
