/*
 * applytruncate.c
 *	  TRUNCATE where it is applied: triggers are silent, foreign tables are left out.
 *
 * The rows of a foreign table are elsewhere, in one place for all nodes: the node of the command has
 * emptied it.  A node that comes to the command later, perhaps by hours, would empty it again.
 * What is below a foreign table, beside or above it is emptied.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/sequence.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "apply.h"
#include "compat.h"

/* The tables that it names, and those below; locked as TRUNCATE will lock them. */
static List *
named_tables(TruncateStmt *stmt, bool missing_ok)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = RangeVarGetRelid(rv, AccessExclusiveLock, missing_ok);

		if (!OidIsValid(relid))
			continue;
		relids = list_append_unique_oid(relids, relid);
		if (rv->inh)
			relids = list_concat_unique_oid(relids, find_all_inheritors(relid, AccessExclusiveLock, NULL));
	}
	return relids;
}

static bool
is_foreign(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE;
}

static void
disable_triggers_of(Oid relid, DisableTriggers disable)
{
	Relation	rel = table_open(relid, NoLock);

	disable(rel->trigdesc);
	table_close(rel, NoLock);
}

/*
 * Take the locks that TRUNCATE will take, and disable the triggers of all that
 * it will empty.  True: foreign tables are among them.
 */
bool
applytruncate_prepare(TruncateStmt *stmt, DisableTriggers disable)
{
	List	   *relids = named_tables(stmt, true);	/* TRUNCATE itself will
													 * complain */
	List	   *more;
	bool		foreign = false;
	ListCell   *lc;

	if (stmt->behavior == DROP_CASCADE)
	{
		while ((more = heap_truncate_find_FKs(relids)) != NIL)
		{
			foreach(lc, more)
				LockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
			relids = list_concat_unique_oid(relids, more);
		}
	}
	foreach(lc, relids)
	{
		disable_triggers_of(lfirst_oid(lc), disable);
		foreign |= is_foreign(lfirst_oid(lc));
	}
	return foreign;
}

static void
restart_sequences_of(Oid relid)
{
	ListCell   *lc;

	foreach(lc, getOwnedSequences(relid))
		ResetSequence(lfirst_oid(lc));
}

/* As ExecuteTruncate() does it; the node of the command has checked what that checks. */
void
applytruncate_run(TruncateStmt *stmt)
{
	List	   *rels = NIL;
	List	   *relids = NIL;
	List	   *logged = NIL;
	ListCell   *lc;

	foreach(lc, named_tables(stmt, false))
	{
		Relation	rel;

		if (is_foreign(lfirst_oid(lc)))
		{
			if (stmt->restart_seqs)
				restart_sequences_of(lfirst_oid(lc));
			continue;
		}
		rel = table_open(lfirst_oid(lc), NoLock);
		if (RELATION_IS_OTHER_TEMP(rel))
		{
			table_close(rel, NoLock);
			continue;
		}
		CheckTableNotInUse(rel, "TRUNCATE");
		rels = lappend(rels, rel);
		relids = lappend_oid(relids, RelationGetRelid(rel));
		if (RelationIsLogicallyLogged(rel))
			logged = lappend_oid(logged, RelationGetRelid(rel));
	}
	ls_truncate(rels, relids, logged, stmt->behavior, stmt->restart_seqs);
	foreach(lc, rels)
		table_close(lfirst(lc), NoLock);
}
