/*
 * apply.h
 *	  One apply connection: runs the queries of one transaction at a time in a
 *	  libpq pipeline.  Loop's thread; called by pool.c and apply_task.c.
 */
#ifndef LOCKSTEP_APPLY_H
#define LOCKSTEP_APPLY_H

#include "peer.h"

/*
 * What a connection tells apply_task.c.  A task that is committed, undone or failed is off
 * the connection already.
 */
typedef struct ApplyOps
{
	void		(*refused) (ApplyConn *c, DropCause cause, const char *error);	/* it can't be opened */
	void		(*ready) (ApplyConn *c);	/* for a task */
	void		(*lost) (ApplyConn *c, const char *error);	/* the connection, with
															 * its task */
	void		(*executed) (ApplyTask *task);
	void		(*committed) (ApplyTask *task);
	void		(*undone) (ApplyTask *task);
	void		(*failed) (ApplyTask *task, const ApplyError *error);
	void		(*unreadable) (ApplyTask *task, const char *error); /* its queries, which
																	 * are on disk */
} ApplyOps;

extern void apply_init(const ApplyOps *ops);

/* Connects and becomes an apply session; then it is ready, or refused. */
extern ApplyConn *apply_open(Pool *pool);
extern void apply_close(ApplyConn *c);	/* no callback comes any more */

extern void apply_run(ApplyConn *c, ApplyTask *task);	/* then executed, or
														 * failed */
extern void apply_go_on(ApplyConn *c);	/* there is more of an early one, or
										 * it is reserved now */
extern void apply_commit(ApplyConn *c); /* it is executed: then committed, or
										 * failed */
extern void apply_undo(ApplyConn *c);	/* it is not committing: then undone */
extern void apply_cancel(ApplyConn *c); /* it is committing: then failed, or
										 * it is too late */
extern void apply_insist(ApplyConn *c); /* the same, until it has ended */

extern Pool *apply_pool(const ApplyConn *c);
extern int	apply_backend_pid(const ApplyConn *c);
extern ApplyTask *apply_current_task(const ApplyConn *c);
extern Holder apply_holder(const ApplyConn *c); /* of the last task, also when
												 * that is gone */

extern size_t apply_position(const ApplyConn *c);	/* statements read so far */
extern bool apply_is_committing(const ApplyConn *c);	/* can only be canceled
														 * now */
extern bool apply_is_idle(const ApplyConn *c);	/* all results are in */

/* Index of the statement of its transaction that it executes, or would next; at_row:
 * which of those that it got in one call. */
extern size_t apply_current_statement(const ApplyConn *c, size_t at_row);
extern uint64_t apply_progress_us(const ApplyConn *c);	/* when the last result
														 * came */

/* In apply_settings.c: text of an array, names and values in turn; with a NUL. */
extern void apply_settings_array(Buffer *array, LsSlice settings);

extern uint64_t apply_waits_for(const ApplyConn *c);	/* goes on when the node
														 * has applied it */

/* What apply_patience.c has seen of this task. */
extern int *apply_executing_ms(ApplyConn *c);

/* What stalled_apply.c knows of it. */
typedef struct ApplyStill
{
	bool		known;			/* the rest is of an earlier look */
	int64_t		ticks;			/* CPU time used */
	int			ms;				/* it stands still since so long */
	bool		waits_within;	/* for something in its server: a synchronous
								 * standby, its turn */
} ApplyStill;

extern ApplyStill *apply_still(ApplyConn *c);

/* What lock_conflict.c knows of it. */
typedef struct ApplyBlocked
{
	uint64_t	since_us;		/* a process has blocked it */
	uint64_t	answer;			/* the last one that said so */
} ApplyBlocked;

extern ApplyBlocked *apply_blocked(ApplyConn *c);

/* Links of the pool's list of idle connections. */
extern ApplyConn *apply_next_idle(const ApplyConn *c);
extern void apply_set_next_idle(ApplyConn *c, ApplyConn *next);

#endif
