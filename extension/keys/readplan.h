/*
 * readplan.h
 *	  Which rows a plan reads, changes or locks.
 */
#ifndef LOCKSTEP_READPLAN_H
#define LOCKSTEP_READPLAN_H

#include "executor/execdesc.h"
#include "utils/relcache.h"

#include "protocol.h"

extern void readplan_before_query(QueryDesc *desc); /* before ExecutorStart */

/* INSERT ... ON CONFLICT DO UPDATE? */
extern bool readplan_is_upsert(const PlannedStmt *stmt);

/* INSERT ... ON CONFLICT DO SELECT FOR UPDATE, and the like (PostgreSQL 19). */
extern bool readplan_locks_on_conflict(const PlannedStmt *stmt);
extern int	readplan_rows_to_change(QueryDesc *desc, bool (*wanted) (Relation rel),
									LsKey *keys, int max, LsKey *tables, int *ntables);

#endif							/* LOCKSTEP_READPLAN_H */
