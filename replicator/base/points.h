/*
 * points.h
 *	  Hand-over points: where a test may kill the replicator, or delay it.
 *
 * Each is between two steps, where a crash leaves the first without the second.  This is the
 * complete list; tests/tap/failures/471_kill_at_each_point.pl kills the replicator at each, and
 * fails if it never reaches one.  The backends' points are in extension/base/points.h.
 *
 * Without LOCKSTEP_POINTS in the replicator's environment a point costs a branch
 * that is never taken.  It names a directory; points.c says what is in there.
 */
#ifndef LOCKSTEP_POINTS_H
#define LOCKSTEP_POINTS_H

#include <stdbool.h>
#include <sys/types.h>

typedef enum Point
{
	/* a transaction, in the loop: sequencer*.c, session*.c */
	POINT_QUESTION,				/* asked, and nothing done about it */
	POINT_RESERVED,				/* its keys are its own; not given to peers */
	POINT_EXECUTED,				/* by all peers; no seq yet */
	POINT_DECIDED,				/* it has a seq; its record is in memory */
	POINT_DURABLE,				/* its record is on disk; not reported yet */
	POINT_VERDICT_GIVEN,		/* put into the backend's buffer; peers don't
								 * know */
	POINT_COMMITS_GIVEN,		/* the peers' COMMITs are in their buffers */
	POINT_ANSWERED,				/* a backend has been sent what it waited for */
	POINT_APPLIED,				/* by all; the backend is not told yet */
	POINT_ROLLED_BACK,			/* never decided; its backend is not told yet */
	POINT_LOCK_GRANTED,			/* locks requested first are its own; not told */
	POINT_CONFIRMED,			/* its backend has committed it; not noted */
	POINT_SESSION_GONE,			/* its transactions are not looked at yet */

	/* a transaction, on a node: apply*.c, apply_task.c */
	POINT_STARTED_THERE,		/* its first queries are in the buffer */
	POINT_SENT_THERE,			/* ... of libpq has gone out */
	POINT_EXECUTED_THERE,		/* all results have come; not noted */
	POINT_COMMIT_THERE,			/* COMMIT is in the buffer */
	POINT_COMMITTED_THERE,		/* it has been confirmed; not noted */
	POINT_UNDONE_THERE,			/* rolled back there, to be done again or not */
	POINT_BEGUN_EARLY,			/* executed there before it asks */

	/* the journal's threads: journal_writer.c, journal.c, journal_sync.c */
	POINT_GROUP_TAKEN,			/* records to be written; none has been */
	POINT_GROUP_WRITTEN,		/* not synced */
	POINT_GROUP_DURABLE,		/* synced; the loop does not know */
	POINT_SEGMENT_PREPARED,		/* the next one's file is there */
	POINT_SEGMENT_BEGUN,		/* nothing is in it yet */
	POINT_BODY_SYNCED,			/* of a large transaction; not decided */

	/* values handed out, and queries on their own: session_lease.c */
	POINT_LEASE_ASKED,			/* nothing has been journaled */
	POINT_LEASE_DURABLE,		/* it is; its node does not know */
	POINT_ALONE_ASKED,			/* not decided */
	POINT_ALONE_ORDERED,		/* durable; its backend does not know */

	/* nodes: attach.c, catchup.c, moves.c, membership.c */
	POINT_NODE_MOVED,			/* its state is another */
	POINT_GENERATION_TAKEN,		/* it is durable; no node has heard of it */
	POINT_NODE_CHECKED,			/* it may be attached; nothing has been done */
	POINT_TURN_OPENED,			/* it commits again; it is not noted as back */
	POINT_CATCHUP_FED,			/* given the next one of the journal */
	POINT_TOGETHER_GIVEN,		/* given several, to be committed as one */
	POINT_BARRIER,				/* has everything; not online yet */
	POINT_ONLINE,				/* it is; what is reserved has been given to
								 * it */
	POINT_DROP_DURABLE,			/* dropped by command; the command is not
								 * answered */

	/*
	 * CREATE, DROP and ALTER DATABASE RENAME: database_command.c,
	 * database_step.c
	 */
	POINT_DATABASE_PLANNED,		/* durable; no node knows */
	POINT_DATABASE_CREATED,		/* a node has it, empty */
	POINT_DATABASE_CHECKED,		/* ... with the extension */
	POINT_DATABASE_MADE,		/* ... with the cluster's identity */
	POINT_DATABASE_READY,		/* all have it, with apply connections */
	POINT_DATABASE_DECIDED,		/* it is replicated, or is not any more: that
								 * is durable */
	POINT_DATABASE_KEPT,		/* a node has its progress in another one,
								 * before it is dropped */
	POINT_DATABASE_DROPPED,		/* a node has dropped it */
	POINT_DATABASE_RENAMED,		/* a node has renamed it */
	POINT_DATABASE_CAUGHT_UP,	/* a node that catches up has done the same */

	/* a group of replicators: group.c, standby.c */
	POINT_REPLICAS_TAKEOVER,	/* it follows no more; the key is as it was */
	POINT_REPLICAS_CHOSEN,		/* the key says that it leads */
	POINT_REPLICAS_BEGUN,		/* the file "group", too; no standby knows */
	POINT_REPLICAS_REQUIRED,	/* one that is put in sync is waited for; the
								 * key is as it was */
	POINT_REPLICAS_CHANGED,		/* the key says who is in sync; the leader
								 * does not know yet */
	POINT_REPLICAS_COPIED,		/* a standby has everything, and has not noted
								 * that it is complete */
	POINT_REPLICAS_BODIES,		/* a standby has a connection for the journal,
								 * and none for bodies */
	POINT_REPLICAS_BODY_THERE,	/* a standby has all of a body that is not
								 * decided on disk; nobody knows */
	POINT_REPLICAS_BODY_NAMED	/* it is the journal's there; no record refers
								 * to it */
} Point;

extern bool points_armed;

/* Process ids: the seed of random numbers, and the process that dies, too, on "kill all" (0: none). */
extern void points_begin(const char *directory, pid_t parent);
extern void point_reached(const char *name);

#define LOCKSTEP_POINT(name) \
	do \
	{ \
		if (__builtin_expect(points_armed, 0)) \
		{ \
			(void) POINT_##name; \
			point_reached(#name); \
		} \
	} while (0)

#endif
