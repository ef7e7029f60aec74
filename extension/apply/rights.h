/*
 * rights.h
 *	  What the files of apply sessions (apply*.c) need of rights.c.
 */
#ifndef LOCKSTEP_RIGHTS_H
#define LOCKSTEP_RIGHTS_H

#include "nodes/nodes.h"
#include "optimizer/planner.h"

#include "compat.h"

typedef struct LsRights
{
	Oid			user;
	int			context;
	int			guc_level;
} LsRights;

/* In an apply session. */
extern Oid	rights_for_rows(Oid owner);
extern Oid	rights_for_command(const Node *command);

extern Oid	rights_owner_of(Oid relid); /* of an open table */

extern void rights_lower(Oid user, bool restricted, LsRights *saved);
extern void rights_restore(const LsRights *saved);

/* Planning, with the rights of the owner where the query is the replicator's (hooks.c). */
extern PlannedStmt *rights_plan(planner_hook_type next, Query *query, const char *source,
								int options, ParamListInfo params LS_EXPLAIN_PARAM);
extern void rights_read_params(bool on);	/* of a changed row, while another
											 * query runs */
extern void rights_replace_functions(void);

#endif							/* LOCKSTEP_RIGHTS_H */
