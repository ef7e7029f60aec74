/*
 * priority.h
 *	  CPU priority of sessions: lockstep.scheduling_priority.
 */
#ifndef LOCKSTEP_PRIORITY_H
#define LOCKSTEP_PRIORITY_H

#include "nodes/plannodes.h"
#include "utils/guc.h"

#include "lockstep.h"

#define LS_NO_PRIORITY 100		/* no nice value, which is at most 19 */

typedef enum LsPriorityKind
{
	LS_PRIORITY_CLIENT,
	LS_PRIORITY_WORKER,			/* a parallel worker of a client's */
	LS_PRIORITY_APPLY,
	LS_PRIORITY_REPLICATOR		/* began with lockstep.replicate off */
} LsPriorityKind;

typedef struct LsPriority
{
	int			pid;
	LsPriorityKind kind;
	int			asked;			/* this and the rest may be LS_NO_PRIORITY */
	int			nice;			/* that the operating system has */
	int			autogroup;		/* nice value of its scheduling group */
} LsPriority;

extern void priority_shmem_request(void);
extern void priority_shmem_startup(void);

/* The hooks of the settings (guc.h). */
extern bool priority_check(int newval, GucSource source);
extern void priority_assign(int newval);
extern void priority_assign_apply(int newval);

/* This session begins with lockstep.replicate off: what users and configuration give is not for it. */
extern void priority_leave_out(void);

/* Before each query, and before each utility command. */
extern void priority_before_query(void);
extern void priority_before_utility(const PlannedStmt *pstmt);

/* This session is the replicator's, and applies from now on. */
extern void priority_begin_apply(void);

/* The i-th process of the server that may have a priority; false: there is none. */
extern bool priority_of(int i, LsPriority *priority);
extern int	priority_count(void);

#endif							/* LOCKSTEP_PRIORITY_H */
