/*
 * ctl_repair.h
 *	  Between the parts of lockstepctl verify --repair.
 *
 *	 ctl_repair.c	how the node is taken out, held, and taken in again
 *	 ctl_repair_rows.c	rows of a table, large objects
 *	 ctl_repair_node.c	statements on the node
 *	 ctl_behind.c	a node that is not online
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
	int			leader;			/* of the snapshots, for that database */
	Snapshots	snapshots;
	PGconn	   *conn;			/* holds the target, and repairs it */
	PGconn	   *helper;			/* makes others yield */
	AskReplicator ask;
	void	   *ask_arg;
	json_t	   *done;
} Repair;

#define INDEX_LEFT "index that is invalid there now, as entering rows fails with it (mend that, then REINDEX INDEX or DROP INDEX):"

/* ---------- in ctl_repair_node.c: a query on the target, in its transaction */

extern PGresult *repair_do(Repair *r, const char *sql, int nparams, const char *const *params);
extern bool repair_run(Repair *r, const char *sql);
extern void repair_note(Repair *r, const char *kind, const char *object, long long removed, long long added);

/* ---------- in ctl_repair.c */

extern bool repair_may(Repair *r, const json_t *difference);	/* may it be repaired? */
extern bool repair_all(Repair *r);	/* what differs in the database */

/* Node NAME is out: what is said however lockstepctl ends. */
extern void repair_node_is_out(const char *name);
extern void repair_node_is_half_done(const char *name); /* attach would refuse
														 * it */
extern void repair_node_is_back(void);

/* ---------- in ctl_repair_rows.c */

extern bool repair_table(Repair *r, const char *name);
extern bool repair_large_objects(Repair *r);

#endif
