/*
 * sequence_drop.c
 *	  Sequences that were dropped: shared memory forgets them.
 *
 * object_access_hook reports each drop of a sequence or a database, in any session.  Before the
 * commit, when savepoints have been rolled back or not, it is checked what is really
 * gone.  It is forgotten after the commit, while the transaction still holds its lock on the
 * sequence.
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

#include "growing.h"
#include "sequence_private.h"

typedef struct Dropped
{
	Oid			database;
	Oid			relid;			/* invalid: the whole database */
} Dropped;

static Dropped *dropped = NULL;
static int	ndropped = 0;
static int	maxdropped = 0;

static void
note(Oid database, Oid relid)
{
	dropped = ls_with_room(dropped, ndropped, &maxdropped, sizeof(Dropped));
	dropped[ndropped++] = (Dropped) {database, relid};
}

void
sequence_drop_on_object_access(ObjectAccessType access, Oid class, Oid object, int subobject)
{
	if (access != OAT_DROP || subobject != 0)
		return;
	if (class == RelationRelationId && sequence_shared_knows(MyDatabaseId, object))
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
		sequence_shared_forget(dropped[ndropped].database, dropped[ndropped].relid);
	}
}

void
sequence_drop_on_xact(XactEvent event)
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
