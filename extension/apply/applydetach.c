/*
 * applydetach.c
 *	  In an apply session: a step of a DETACH PARTITION CONCURRENTLY that another
 *	  node runs.  detachsteps.c says what the steps are.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "apply.h"
#include "compat.h"
#include "ddl.h"
#include "lockstep.h"
#include "rights.h"

LS_FUNCTION(lockstep_apply_detach);

static void
make_pending(Relation parent, RangeVar *name, const char *constraint)
{
	Relation	partition = table_openrv(name, ShareUpdateExclusiveLock);

	detachsteps_mark(parent, partition);
	if (constraint[0] != '\0')
		(void) detachsteps_keep_bounds(parent, partition, constraint);
	table_close(partition, NoLock);
}

static void
wait_for_users(Relation parent)
{
	applywait_lockers(RelationGetRelid(parent), AccessExclusiveLock);
}

static void
finish(Relation parent, RangeVar *name)
{
	Oid			partition = RangeVarGetRelid(name, AccessExclusiveLock, false);

	detachsteps_finish(RelationGetRelid(parent), partition);
}

static void
run_step(const char *step, Relation parent, RangeVar *partition, const char *constraint)
{
	if (strcmp(step, "pending") == 0)
		make_pending(parent, partition, constraint);
	else if (strcmp(step, "wait") == 0)
		wait_for_users(parent);
	else if (strcmp(step, "detach") == 0)
		finish(parent, partition);
	else if (strcmp(step, "finalize") == 0)
	{
		wait_for_users(parent);
		finish(parent, partition);
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown step \"%s\"", step)));
}

/*
 * Whose functions may be called is the table's owner, with no more rights than
 * that; but who may not use the partition's schema doesn't find it.  Then it is
 * the role that gave the command, as for any other.
 */
static Oid
user_for(Relation parent, const RangeVar *partition)
{
	Oid			owner = rights_owner_of(RelationGetRelid(parent));

	return ls_may_use_schema(get_namespace_oid(partition->schemaname, false), owner) ? owner : GetUserId();
}

/* (step, schema, table, schema and name of the partition, name of the check or ''). */
Datum
lockstep_apply_detach(PG_FUNCTION_ARGS)
{
	char	   *step = text_to_cstring(PG_GETARG_TEXT_PP(0));
	RangeVar   *table = makeRangeVar(text_to_cstring(PG_GETARG_TEXT_PP(1)),
									 text_to_cstring(PG_GETARG_TEXT_PP(2)), -1);
	RangeVar   *partition = makeRangeVar(text_to_cstring(PG_GETARG_TEXT_PP(3)),
										 text_to_cstring(PG_GETARG_TEXT_PP(4)), -1);
	char	   *constraint = text_to_cstring(PG_GETARG_TEXT_PP(5));
	LsRights	saved;
	Relation	parent;

	apply_check_call("apply_detach");
	parent = table_openrv(table, strcmp(step, "wait") == 0 ? AccessShareLock : ShareUpdateExclusiveLock);
	rights_lower(user_for(parent, partition), true, &saved);
	run_step(step, parent, partition, constraint);
	rights_restore(&saved);
	table_close(parent, NoLock);
	PG_RETURN_VOID();
}
