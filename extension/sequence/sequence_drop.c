/*
 * sequence_drop.c
 *	  Which sequences are gone?  What shared memory knows of them is given back.
 *
 * Whatever drops a sequence, or a database, here or in an apply session, meets
 * object_access_hook.  What is really gone is seen before the commit, when rolled-back
 * savepoints have had their way; it is forgotten after it, when it can't come
 * back, and while the transaction still has its lock on the sequence.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "sequence.h"

typedef struct Dropped
{
	Oid			database;
	Oid			relid;			/* invalid: the whole database */
} Dropped;

static object_access_hook_type prev_object_access_hook = NULL;
static Dropped *dropped = NULL;
static int	ndropped = 0;
static int	maxdropped = 0;

static void
note(Oid database, Oid relid)
{
	if (ndropped == maxdropped)
	{
		maxdropped = Max(16, maxdropped * 2);
		dropped = dropped == NULL ? MemoryContextAlloc(TopMemoryContext, maxdropped * sizeof(Dropped)) :
			repalloc(dropped, maxdropped * sizeof(Dropped));
	}
	dropped[ndropped++] = (Dropped) {database, relid};
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subobject, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, subobject, arg);
	if (access != OAT_DROP || subobject != 0)
		return;
	if (class == RelationRelationId && seqshared_knows(MyDatabaseId, object))
		note(MyDatabaseId, object);
	else if (class == DatabaseRelationId)
		note(object, InvalidOid);
}

static bool
is_there(const Dropped *d)
{
	return OidIsValid(d->relid) ? SearchSysCacheExists1(RELOID, ObjectIdGetDatum(d->relid)) :
		SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(d->database));
}

static void
keep_gone(void)
{
	int			kept = 0;
	int			i;

	for (i = 0; i < ndropped; i++)
	{
		if (!is_there(&dropped[i]))
			dropped[kept++] = dropped[i];
	}
	ndropped = kept;
}

static void
forget(void)
{
	while (ndropped > 0)
	{
		ndropped--;
		seqshared_forget(dropped[ndropped].database, dropped[ndropped].relid);
	}
}

static void
on_xact_event(XactEvent event, void *arg)
{
	if (likely(ndropped == 0) || IsParallelWorker())
		return;
	if (event == XACT_EVENT_PRE_COMMIT)
		keep_gone();
	else if (event == XACT_EVENT_COMMIT)
		forget();
	else if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		ndropped = 0;
}

void
sequence_drop_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_access;
	RegisterXactCallback(on_xact_event, NULL);
}
