/*
 * points.h
 *	  Hand-over points: where a test may end a backend or hold it up.
 *
 * A crash at a point leaves the step before it without the step after it.  This list is
 * complete; tests/tap/failures/471_kill_at_each_point.pl kills a backend at each point, and
 * fails if no backend reaches it.  The replicator's points are in
 * replicator/base/points.h.
 *
 * A point costs one look at a pointer that is NULL unless another preloaded module sets
 * the rendezvous variable "lockstep_point" (tests/fault).  No caller holds an LWLock or
 * spinlock.
 */
#ifndef LOCKSTEP_EXTENSION_POINTS_H
#define LOCKSTEP_EXTENSION_POINTS_H

typedef enum LsPoint
{
	/* a transaction: xact.c, verdict.c, commit.c, aftercommit.c */
	LS_POINT_CAPTURED,			/* a query is in the queue */
	LS_POINT_STREAMED,			/* a part of the queue was sent */
	LS_POINT_LOCK_ASKED,		/* not granted */
	LS_POINT_LOCK_GRANTED,		/* the command that needs it has not run */
	LS_POINT_ASKING,			/* the question is ready, and not sent */
	LS_POINT_ASKED,				/* the question is sent */
	LS_POINT_WITHDRAWN,			/* the wish not to commit is sent */
	LS_POINT_VERDICT,			/* committed by the cluster, nothing done here */
	LS_POINT_CLAIMED,			/* its turn is claimed */
	LS_POINT_PROGRESS,			/* written */
	LS_POINT_TURN,				/* has come; no commit record */
	LS_POINT_COMMITTED,			/* commit record, perhaps not on disk; turn
								 * not passed */
	LS_POINT_PASSED,			/* the turn; locks not released */
	LS_POINT_FLUSHING,			/* locks released, WAL perhaps not on disk */
	LS_POINT_FLUSHED,			/* the client is not told yet */
	LS_POINT_ROLLING_BACK,		/* locks not released */
	LS_POINT_CONFIRMING,		/* the session ends; its last commit is not
								 * told */

	/* apply sessions: applyrow.c, commit.c */
	LS_POINT_APPLY_EXECUTING,	/* a query; the transaction has more of them */
	LS_POINT_APPLY_CLAIMED,		/* the turn, of one or of several as one */
	LS_POINT_APPLY_TURN,		/* has come; no commit record */
	LS_POINT_APPLY_COMMITTED,	/* the turn is not passed */
	LS_POINT_APPLY_PASSED,		/* the replicator is not told */

	/* values, and queries on their own: request.c */
	LS_POINT_LEASE_ASKED,
	LS_POINT_LEASED,			/* nothing has been handed out of it */
	LS_POINT_ALONE_ASKED,
	LS_POINT_ALONE_ORDERED,		/* not applied here yet */

	/* values that nobody has replicated: sequence_shared.c */
	LS_POINT_POSITIONS_READ,	/* the replicator is not told */

	/* the node: link_handshake.c, generation.c, turn.c */
	LS_POINT_LINKED,			/* to the replicator; nothing said */
	LS_POINT_GENERATION_RAISED, /* older ones are refused; it is not stored */
	LS_POINT_TURN_OPENING,		/* it does not commit yet */
	LS_POINT_TURN_OPENED		/* the replicator is not told */
} LsPoint;

typedef void (*LsPointHook) (const char *name);

extern LsPointHook *ls_point_hook;	/* in points.c */

#define LS_POINT(name) \
	do \
	{ \
		if (unlikely(*ls_point_hook != NULL)) \
		{ \
			(void) LS_POINT_##name; \
			(*ls_point_hook) (#name); \
		} \
	} while (0)

#endif							/* LOCKSTEP_EXTENSION_POINTS_H */
