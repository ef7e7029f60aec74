/*
 * unlogged.h
 *	  Which unlogged tables of this database have lost their rows in a crash?
 */
#ifndef LOCKSTEP_UNLOGGED_H
#define LOCKSTEP_UNLOGGED_H

#include "catalog/objectaccess.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

extern void unlogged_shmem_request(void);
extern void unlogged_shmem_startup(void);

/* The replicator has come: has PostgreSQL emptied the tables since it came last? */
extern void unlogged_note_reset(void);

static inline bool
unlogged_is(Relation rel)
{
	return rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED;
}

/*
 * Has the extension in this database the SQL objects for them?  Those of version 1.0 have not: until
 * ALTER EXTENSION lockstep UPDATE unlogged tables are neither made nor changed here.
 */
extern bool unlogged_has_objects(void);
extern void unlogged_require_objects(void);

/* What it should contain is not here.  For unlogged tables only. */
extern bool unlogged_is_missing(Oid relid);

/* In an apply session: its rows are not for this node, as it lacks it or has it already. */
extern bool unlogged_is_skipped(Oid relid);

/*
 * In an apply session: its rows come for nodes that have lost them, and this one has not.  That may be
 * a table that is not unlogged here, as it was made by a journal of an earlier version.
 */
extern bool unlogged_is_refilled_elsewhere(Oid relid);

/* This transaction makes it what it is on the other nodes. */
extern void unlogged_found(Oid relid);
extern void unlogged_found_all(void);

extern void unlogged_on_object_access(ObjectAccessType access, Oid class, Oid object, int subobject);

/* After a TRUNCATE of this transaction, in any session. */
struct TruncateStmt;
extern void unlogged_truncated(struct TruncateStmt *stmt);

/* Those that are missing in this database. */
extern List *unlogged_missing(void);

/* All of this database, by OID. */
extern List *unlogged_all(void);

/*
 * In an apply session: all rows of the table follow, up to the end.  A node that has them leaves
 * them out.
 */
extern void unlogged_begin_refill(Oid relid);
extern void unlogged_end_refill(void);

/* Readers wait as after a crash until the replicator says that nothing more will come. */
extern bool unlogged_is_awaited(void);
extern void unlogged_settled(void);

/* A transaction, or one within it, has aborted, and its files are about to be deleted. */
extern void unlogged_at_abort(void);

extern void unlogged_on_relcache_invalidation(Datum arg, Oid relid);

#endif							/* LOCKSTEP_UNLOGGED_H */
