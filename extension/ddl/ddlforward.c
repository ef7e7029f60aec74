/*
 * ddlforward.c
 *	  Forwarding a utility command: requesting the locks of its tables, and the query for the
 *	  other nodes.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "storage/lmgr.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "capture.h"
#include "ddl.h"
#include "keyset.h"
#include "lockrequest.h"
#include "lockstep.h"
#include "pack.h"
#include "recentddl.h"
#include "sessionsettings.h"
#include "xact.h"

/* How often a command's tables may change while it waits for their locks. */
#define MAX_LOOKS 10

/* ---------- what stays on this node */

/* The temporary ones as a reader does; foreign ones as TRUNCATE will, so that two of them don't wait for each other.  False: not now. */
static bool
hold(const DdlTargets *targets)
{
	ListCell   *lc;

	foreach(lc, targets->held)
	{
		Oid			relid = lfirst_oid(lc);
		LOCKMODE	mode = isTempNamespace(get_rel_namespace(relid)) ? AccessShareLock : AccessExclusiveLock;

		if (!targets->nowait)
			LockRelationOid(relid, mode);
		else if (!ConditionalLockRelationOid(relid, mode))
			return false;
	}
	return true;
}

/*
 * DROP of another session's temporary table, and DROP OWNED or DROP EXTENSION that reach it, can come between: the
 * name would then mean a permanent table, which would be changed on this node alone.
 */
void
ddl_find_and_hold(DdlFindTargets find, void *arg, DdlTargets *targets)
{
	List	   *held = NIL;

	for (;;)
	{
		uint64		before = SharedInvalidMessageCounter;

		find(arg, targets);
		if (!hold(targets) ||	/* the command will say so */
			SharedInvalidMessageCounter == before || list_difference_oid(targets->held, held) == NIL)
			return;
		held = list_copy(targets->held);
	}
}

/* ---------- asking first */

static bool
has_been_asked(const DdlTargets *asked, const LsKey *key)
{
	int			i;

	for (i = 0; i < asked->nkeys; i++)
	{
		if (asked->keys[i].hash == key->hash && asked->keys[i].mode == key->mode)
			return true;
	}
	return false;
}

static bool
all_asked(const DdlTargets *asked, const DdlTargets *now)
{
	int			i;

	for (i = 0; i < now->nkeys; i++)
	{
		if (!has_been_asked(asked, &now->keys[i]))
			return false;
	}
	return true;
}

void
ddl_ask_first(const char *name, DdlFindTargets find, void *arg, DdlTargets *targets, LsDdlLock ddl)
{
	DdlTargets	asked;
	int			looks = 0;

	ddl_line_up(ddl);
	do
	{
		if (looks++ == MAX_LOOKS)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not lock the tables of %s", name),
					 errdetail("They were changed again and again on other nodes."),
					 errhint("The transaction might succeed if retried.")));
		asked = *targets;
		/* find() may write its keys over them */
		asked.keys = palloc(asked.nkeys * sizeof(LsKey));
		memcpy(asked.keys, targets->keys, asked.nkeys * sizeof(LsKey));
		lockrequest_tables(asked.keys, asked.nkeys, ddl, asked.nowait);
		AcceptInvalidationMessages();
		find(arg, targets);
	} while (!all_asked(&asked, targets));
}

/* ---------- forwarding */

void
ddl_forward(const char *text, const char *const *params, int nparams, const DdlTargets *targets,
			bool catalogs)
{
	LsQuery		query = {.form = LS_FORM_STATEMENT,.reason = LS_REASON_UTILITY,.rows = -1};
	StringInfoData settings;
	StringInfoData packed;
	StringInfoData keys;
	bool		names_change = catalogs && !targets->keeps_names;
	int			i;

	initStringInfo(&settings);
	sessionsettings_append(&settings);
	if (targets->runs_script)
		sessionsettings_append_reset_path(&settings);
	initStringInfo(&packed);
	for (i = 0; i < nparams; i++)
		pack_param(&packed, params[i], strlen(params[i]));
	initStringInfo(&keys);
	for (i = 0; i < targets->nkeys; i++)
		pack_key(&keys, &targets->keys[i]);
	if (names_change)
	{
		LsKey		names = keyset_names_key(LS_TABLE_IX);

		recentddl_note();
		pack_key(&keys, &names);
	}
	query.text = ls_slice_of(text);
	query.settings = ls_slice_of_buffer(&settings);
	query.nparams = nparams;
	query.params = ls_slice_of_buffer(&packed);
	query.nkeys = targets->nkeys + (names_change ? 1 : 0);
	query.keys = ls_slice_of_buffer(&keys);
	query.ddl = catalogs;
	capture_flush();
	xact_forward(&query);
	pfree(settings.data);
	pfree(packed.data);
	pfree(keys.data);
}
