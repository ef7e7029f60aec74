/*
 * membership.c
 *	  A database that belongs to a cluster stays in it until an administrator removes it.
 *
 * Without the extension's objects a database would be an ordinary one: its sessions would write,
 * no other node would get the changes, and nothing would fail.  So these objects cannot be dropped while the
 * table lockstep.cluster has a row: not by DROP EXTENSION, DROP OWNED or DROP SCHEMA ...
 * CASCADE, given by a client, a function or an event trigger, with lockstep.replicate off
 * or on.  All of them call object_access_hook.  Only ALTER EXTENSION ... UPDATE may drop them.
 *
 * A database is removed by the replicator (lockstepctl database drop), which deletes that row
 * first, or by lockstep.leave_cluster(), on a server that the replicator no longer knows.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "cluster.h"
#include "ddl.h"
#include "guc.h"
#include "lockconflict.h"
#include "lockstep.h"
#include "mode.h"

LS_FUNCTION(lockstep_leave_cluster);

static bool
is_lockstep(Oid extension)
{
	char	   *name = OidIsValid(extension) ? get_extension_name(extension) : NULL;

	return name != NULL && ddl_is_lockstep(name);
}

static bool
is_ours(Oid class, Oid object)
{
	switch (class)
	{
		case ExtensionRelationId:
			return is_lockstep(object);
		case NamespaceRelationId:
			return object == ls_schema_oid();
		case RelationRelationId:
			return OidIsValid(ls_schema_oid()) && get_rel_namespace(object) == ls_schema_oid();
		case ProcedureRelationId:
			return OidIsValid(ls_schema_oid()) && get_func_namespace(object) == ls_schema_oid();
		default:
			return false;
	}
}

/* Made by VACUUM FULL or CLUSTER, and swapped with the table that stays. */
static bool
is_rewritten_from(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		rewritten = HeapTupleIsValid(tuple) && OidIsValid(((Form_pg_class) GETSTRUCT(tuple))->relrewrite);

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return rewritten;
}

/* Old files of what stays; REINDEX CONCURRENTLY drops the index that it has replaced. */
static bool
was_replaced(Oid class, Oid object, void *arg)
{
	ObjectAccessDrop *drop = arg;

	if (class != RelationRelationId || drop == NULL)
		return false;
	return (drop->dropflags & PERFORM_DELETION_CONCURRENT_LOCK) != 0 ||
		((drop->dropflags & PERFORM_DELETION_INTERNAL) != 0 && is_rewritten_from(object));
}

static void
refuse_if_member(void)
{
	char	   *cluster = cluster_identity();
	char	   *database;

	if (cluster[0] == '\0')
		return;
	database = get_database_name(MyDatabaseId);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot drop the extension lockstep in a database that belongs to a cluster"),
			 errdetail("What is written to database \"%s\" on node \"%s\" would not reach the other nodes of cluster %s any more.",
					   database, ls_node_name, cluster),
			 errhint("lockstepctl database drop %s ends the replication of the database on all nodes. On a server that has left its cluster, call lockstep.leave_cluster() first.",
					 database)));
}

void
membership_on_object_access(ObjectAccessType access, Oid class, Oid object, void *arg)
{
	if (access != OAT_DROP || !is_ours(class, object) || was_replaced(class, object, arg))
		return;
	if (creating_extension && is_lockstep(CurrentExtensionObject))
		return;					/* ALTER EXTENSION ... UPDATE */
	refuse_if_member();
}

/* The node forgets its cluster, in this database. */
Datum
lockstep_leave_cluster(PG_FUNCTION_ARGS)
{
	int			pid = lockconflict_apply_session_in(MyDatabaseId);

	if (pid != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("database \"%s\" is being replicated", get_database_name(MyDatabaseId)),
				 errdetail("The session of process %d applies what the other nodes change.", pid),
				 errhint("Use lockstepctl database drop, for all nodes, or lockstepctl drop, for node \"%s\", and then call it again.",
						 ls_node_name)));
	cluster_forget_identity();
	PG_RETURN_VOID();
}
