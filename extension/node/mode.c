/*
 * mode.c
 *	  Does this session capture, apply, or neither?
 *
 * ls_mode() is called for every changed row, so the answer is cached.  It changes with
 * lockstep.replicate, when the session becomes the replicator's, and when the extension is
 * created in or dropped from this database.  PostgreSQL has no invalidation for
 * pg_extension; the table lockstep.progress is watched instead and, while it does not exist,
 * every new schema or relation.
 *
 * A transaction that creates the extension is not replicated: the extension is created on
 * each node separately.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "guc.h"
#include "mode.h"
#include "session.h"

/* What is known of the extension in this database. */
static struct
{
	bool		known;			/* the rest is valid */
	bool		newborn;		/* created by this very transaction */
	Oid			schema;			/* InvalidOid: not there */
	Oid			progress;
}			extension;

static bool mode_known = false;
static LsMode mode_cached;

/* The transaction has been in a mode that captures and in one that does not. */
static bool kept_here = false;

/* The transaction has changed rows or tables here that are replicated otherwise. */
static bool local_change = false;

static void
extension_forget(void)
{
	extension.known = false;
	mode_known = false;
}

void
mode_on_relcache_invalidation(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == extension.progress)
		extension_forget();
}

void
mode_on_syscache_invalidation(Datum arg, int cacheid, uint32 hashvalue)
{
	if (hashvalue == 0 || !OidIsValid(extension.progress))
		extension_forget();
}

/*
 * Created in the current transaction?  That has it locked then; others must not wait here
 * behind a command that rewrites lockstep.progress, as that may wait for what they would do.
 */
static bool
relation_is_newborn(Oid relid)
{
	LOCKTAG		tag;
	Relation	rel;
	bool		newborn;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	if (!ls_lock_is_held(&tag, AccessExclusiveLock))
		return false;
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return false;
	newborn = rel->rd_createSubid != InvalidSubTransactionId;
	relation_close(rel, AccessShareLock);
	return newborn;
}

/*
 * Look the extension up.  "known" is set before looking: an invalidation that
 * arrives meanwhile unsets it.
 */
static void
extension_lookup(void)
{
	Oid			schema = InvalidOid;
	Oid			progress = InvalidOid;

	extension.known = true;
	if (OidIsValid(get_extension_oid("lockstep", true)))
	{
		schema = get_namespace_oid("lockstep", true);
		if (OidIsValid(schema))
			progress = get_relname_relid("progress", schema);
	}
	extension.schema = OidIsValid(progress) ? schema : InvalidOid;
	extension.progress = progress;
	extension.newborn = OidIsValid(progress) && relation_is_newborn(progress);
}

static void
extension_refresh(void)
{
	/* a server that is not a node has no invalidation callbacks */
	if (extension.known && ls_is_node())
		return;
	if (IsTransactionState() && OidIsValid(MyDatabaseId))
		extension_lookup();
}

Oid
ls_schema_oid(void)
{
	extension_refresh();
	return extension.schema;
}

Oid
ls_progress_relid(void)
{
	extension_refresh();
	return extension.progress;
}

/*
 * Sessions that never originate anything, whatever they do.  A walsender that
 * has a database is not among them: it takes SQL like any other session.
 */
static bool
process_never_replicates(void)
{
	return !IsUnderPostmaster || IsBinaryUpgrade || IsParallelWorker() ||
		MyBackendType == B_AUTOVAC_WORKER || MyBackendType == B_AUTOVAC_LAUNCHER ||
		!OidIsValid(MyDatabaseId);
}

static LsMode
mode_compute(void)
{
	if (!ls_is_node() || process_never_replicates())
		return LS_MODE_OFF;
	if (session_applies())
		return LS_MODE_APPLY;
	if (!ls_replicate)
		return LS_MODE_OFF;
	extension_refresh();
	if (!extension.known)
		mode_known = false;		/* ask again, inside a transaction */
	if (!OidIsValid(extension.progress) || extension.newborn)
		return LS_MODE_OFF;
	return LS_MODE_ORIGIN;
}

LsMode
ls_mode(void)
{
	/* an extension's script: the other nodes run it by themselves */
	if (unlikely(creating_extension) && utility_is_replayed())
		return LS_MODE_OFF;
	if (unlikely(!mode_known))
	{
		/* an invalidation during the look-up must not be lost */
		mode_known = true;
		mode_cached = mode_compute();
	}
	return mode_cached;
}

void
mode_begin_apply(bool to_repair)
{
	session_note_apply(to_repair);
	mode_known = false;
}

void
mode_at_xact_end(void)
{
	kept_here = false;
	local_change = false;
	if (extension.newborn)
		extension_forget();
}

void
mode_note_kept_here(void)
{
	kept_here |= IsTransactionState();
}

bool
mode_keeps_here(void)
{
	return kept_here;
}

void
mode_note_local_change(void)
{
	if (ls_is_node() && !ls_replicate && !process_never_replicates() && OidIsValid(ls_progress_relid()) &&
		!extension.newborn)
		local_change = true;
}

bool
mode_has_local_change(void)
{
	return local_change;
}

/*
 * A session that begins with lockstep.replicate off is the replicator's, or that of an operator who mends
 * a node: what a login trigger writes in it would stay on this node.
 */
void
mode_on_replicate_changed(bool newval)
{
	mode_known = false;
	mode_note_kept_here();
	if (!newval)
		ls_skip_login_triggers();
}
