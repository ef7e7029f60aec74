/*
 * xact_private.h
 *	  The current transaction as xact.c (its queue), those that end it (commit.c,
 *	  verdict.c, interrupts.c, aftercommit.c, retry.c) and those that ask about it
 *	  (outcome.c, conflictreport.c) see it.  Nobody else includes it.
 */
#ifndef LOCKSTEP_XACT_PRIVATE_H
#define LOCKSTEP_XACT_PRIVATE_H

#include "lockstep.h"

typedef struct XactState
{
	bool		writes;			/* it has a number, and the link was found
								 * good */
	uint64		xcount;			/* its number, see next_xcount() */
	uint64		since;			/* this node had applied up to here when it
								 * got its number */
	bool		told;			/* the replicator knows something of it, and
								 * has not ended it by a verdict */
	uint64		told_by;		/* link_number() then */
	bool		ended;			/* the replicator rolled it back before it was
								 * asked; a savepoint may have survived that
								 * here */
	uint64		nstatements;	/* in the queue, sent or not */
	StringInfoData queue;		/* encoded messages not sent yet */
	uint64		appended;		/* bytes that ever went into the queue */
	uint64		sent;			/* bytes of these that left it */
	StringInfoData kept;		/* the first queries, for lockstep.forwarded */
	uint64		nkept;			/* queries in it */
	bool		may_fail_elsewhere; /* so other nodes execute it before it is
									 * decided */
	uint64		locks_asked;
	uint64		locks_granted;	/* of these, the first */
	Place		apply_place;	/* apply session: commits there, seq 0 = none */
} XactState;

extern XactState ls_xact;

extern void xact_check_not_ended(void);
extern bool xact_told_elsewhere(void);	/* by a connection that is gone */

/* ---------- in commit.c */

extern void commit_before(void);	/* PRE_COMMIT: may fail */
extern void commit_done(void);	/* COMMIT */
extern void commit_failed(void);	/* ABORT */

/* ---------- in verdict.c */

/* The place of the transaction, committed by the cluster; or does not return. */
extern Place verdict_ask(void);
extern void verdict_begin_doubt(void);	/* it may be committed elsewhere;
										 * before the locks go */
LS_NORETURN extern void verdict_report_outdated(void);
extern void verdict_committed(uint64 seq);
extern void verdict_abandon(void);	/* let the replicator forget a transaction
									 * that it has heard of */

/* ---------- in interrupts.c */

extern bool interrupts_wants_out(void);
extern void interrupts_absorb(void);	/* those that others wait for, and
										 * that can't fail */
extern void interrupts_arm_timeout(void);	/* statement_timeout, once more */
extern bool interrupts_disarm_timeout(void);	/* true: it came */
extern bool interrupts_timed_out(void);
extern void interrupts_forget_timeout(void);

/* ---------- in aftercommit.c */

extern void aftercommit_init(void);
extern void aftercommit_flush(void);	/* as the session wishes now */
extern void aftercommit_wait_applied(uint64 xcount);
extern void aftercommit_forget(void);

/* ---------- in retry.c: after a conflict was lost */

extern void retry_note(const LsVerdict *verdict);
extern void retry_wait(void);	/* rolled back, locks released: until a retry
								 * can succeed */

#endif							/* LOCKSTEP_XACT_PRIVATE_H */
