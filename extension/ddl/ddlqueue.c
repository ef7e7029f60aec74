/*
 * ddlqueue.c
 *	  Before a command requests the ddl lock in the cluster: wait for the DDL of other sessions of
 *	  this node.
 *
 * The replicator would let them wait for each other just as well, but PostgreSQL would know nothing of
 * it: neither pg_locks and pg_blocking_pids(), nor log_lock_waits, nor its search for deadlocks.  So the
 * commands of a node line up for a lock of PostgreSQL's, and the first of them requests the one of the
 * cluster.  It is held until the (sub)transaction ends, as that one is.
 *
 * It is a lock on the extension's schema, with a subobject that no command of PostgreSQL locks; LsDdlLock
 * says who excludes whom.
 */
#include "postgres.h"

#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "storage/lock.h"

#include "ddl.h"
#include "mode.h"

#define DDL_QUEUE 1				/* the subobject; also in the replicator's
								 * queries */

static void
line_up(Oid database, Oid schema, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, database, NamespaceRelationId, schema, DDL_QUEUE);
	(void) LockAcquire(&tag, mode, false, false);
}

void
ddl_line_up(LsDdlLock ddl)
{
	if (ddl == LS_DDL_NONE)
		return;

	/*
	 * In this order: who waits for others of the database must not have what
	 * one of them may want next.
	 */
	line_up(MyDatabaseId, ls_schema_oid(), ddl == LS_DDL_PARALLEL ? RowExclusiveLock : ExclusiveLock);
	line_up(InvalidOid, InvalidOid, ddl == LS_DDL_CLUSTER ? ExclusiveLock : RowExclusiveLock);
}
