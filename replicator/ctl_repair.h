/*
 * ctl_repair.h
 *	  Between the parts of lockstepctl verify --repair.
 *
 *	 ctl_repair.c	how the node is taken out, held, and taken in again
 *	 ctl_repair_rows.c	rows of a table, large objects
 */
#ifndef LOCKSTEP_CTL_REPAIR_H
#define LOCKSTEP_CTL_REPAIR_H

#include "ctl_verify.h"

typedef struct Repair
{
	Verify	   *v;
	int			target;			/* node that is repaired */
	int			source;			/* node that is right */
	const json_t *differences;
	const char *database;		/* the one it is at */
	Snapshots	snapshots;
	PGconn	   *conn;			/* holds the target, and repairs it */
	PGconn	   *helper;			/* makes others yield */
	AskReplicator ask;
	void	   *ask_arg;
	json_t	   *done;
} Repair;

/* ---------- in ctl_repair.c: a query on the target, in its transaction */

extern PGresult *repair_do(Repair *r, const char *sql, int nparams, const char *const *params);
extern bool repair_run(Repair *r, const char *sql);
extern void repair_note(Repair *r, const char *kind, const char *object, long long removed, long long added);

/* ---------- in ctl_repair_rows.c */

extern bool repair_table(Repair *r, const char *name);
extern bool repair_large_objects(Repair *r);

#endif
