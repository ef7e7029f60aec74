/*
 * ddlunlogged.c
 *	  UNLOGGED: tables are, on all nodes; sequences are not.
 *
 * A crash empties unlogged tables on one node, which gets their rows from another one (unlogged.c).
 * A sequence's position would go back on one node only.  Sequences write hardly any WAL here, as
 * values are handed out from leases, so UNLOGGED is ignored for them, also for those of the columns of an unlogged table.
 * The other nodes read the same text in the same way.
 *
 * SET LOGGED sends all rows first: a node that lacks them would have an ordinary table without
 * rows.
 *
 * Without the SQL objects for unlogged tables there are none: refused, or ordinary.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"

#include "capture.h"
#include "ddl.h"
#include "guc.h"
#include "session.h"
#include "unlogged.h"

/* change: make it an ordinary one.  Among temporary ones it is an error. */
static bool
is_unlogged(RangeVar *rv, bool change)
{
	if (rv->relpersistence != RELPERSISTENCE_UNLOGGED ||
		(rv->schemaname != NULL && strcmp(rv->schemaname, "pg_temp") == 0))
		return false;
	if (change)
		rv->relpersistence = RELPERSISTENCE_PERMANENT;
	return true;
}

static Oid
named_by(const AlterTableStmt *stmt)
{
	return RangeVarGetRelid(stmt->relation, NoLock, true);
}

static bool
has(const AlterTableStmt *stmt, AlterTableType subtype)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == subtype)
			return true;
	}
	return false;
}

/* change: to SET LOGGED, which does nothing to what is. */
static bool
sets_unlogged(AlterTableStmt *stmt, char relkind, bool change)
{
	ListCell   *lc;

	if (!has(stmt, AT_SetUnLogged) || get_rel_relkind(named_by(stmt)) != relkind)
		return false;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (change && cmd->subtype == AT_SetUnLogged)
			cmd->subtype = AT_SetLogged;
	}
	return true;
}

static bool
says_unlogged(Node *stmt, bool change)
{
	switch (nodeTag(stmt))
	{
		case T_CreateSeqStmt:
			return is_unlogged(((CreateSeqStmt *) stmt)->sequence, change);
		case T_AlterTableStmt:
			return sets_unlogged((AlterTableStmt *) stmt, RELKIND_SEQUENCE, change);
		default:
			return false;
	}
}

/* Take UNLOGGED out of a command; true if there was any. */
bool
ddlunlogged_change(Node *stmt)
{
	return says_unlogged(stmt, true);
}

static bool
makes_table_unlogged(Node *stmt, bool change)
{
	stmt = ddl_explained(stmt);
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return is_unlogged(((CreateStmt *) stmt)->relation, change);
		case T_CreateTableAsStmt:
			return is_unlogged(((CreateTableAsStmt *) stmt)->into->rel, change);
		case T_AlterTableStmt:
			return sets_unlogged((AlterTableStmt *) stmt, RELKIND_RELATION, change) ||
				sets_unlogged((AlterTableStmt *) stmt, RELKIND_PARTITIONED_TABLE, change);
		default:
			return false;
	}
}

static bool
is_own_script(void)
{
	return creating_extension && CurrentExtensionObject == get_extension_oid("lockstep", true);
}

/*
 * The SQL objects are of a version that cannot fetch the rows of an unlogged table: where the command
 * originates it is refused, and elsewhere the table is an ordinary one.
 */
static PlannedStmt *
make_ordinary(PlannedStmt *pstmt)
{
	PlannedStmt *copy;

	if (likely(!makes_table_unlogged(pstmt->utilityStmt, false)) || (!session_applies() && !ls_replicate) ||
		unlogged_has_objects() || is_own_script())
		return pstmt;
	if (!session_applies())
		unlogged_require_objects();
	copy = copyObject(pstmt);
	(void) makes_table_unlogged(copy->utilityStmt, true);
	ereport(LOG,
			(errmsg("UNLOGGED is ignored for a table on a node whose extension lockstep is of an earlier version"),
			 errhint("Run ALTER EXTENSION lockstep UPDATE.")));
	return copy;
}

/* The command to run instead; the same if it doesn't say UNLOGGED. */
PlannedStmt *
ddlunlogged_ignore(PlannedStmt *pstmt, ProcessUtilityContext context)
{
	PlannedStmt *copy;

	pstmt = make_ordinary(pstmt);
	if (likely(!says_unlogged(pstmt->utilityStmt, false)))
		return pstmt;
	copy = copyObject(pstmt);
	(void) ddlunlogged_change(copy->utilityStmt);

	/* not for those of the columns of an unlogged table */
	ereport(context == PROCESS_UTILITY_SUBCOMMAND || session_applies() ? DEBUG1 : LOG,
			(errmsg("UNLOGGED is ignored for a sequence on a node"),
			 errdetail("A crash would set it back on that node only, so it is an ordinary one.")));
	return copy;
}

/* ---------- tables */

void
ddlunlogged_send_rows(Node *stmt)
{
	Oid			relid;

	if (!IsA(stmt, AlterTableStmt) || !has((AlterTableStmt *) stmt, AT_SetLogged))
		return;
	relid = named_by((AlterTableStmt *) stmt);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_RELATION)
		return;
	LockRelationOid(relid, AccessExclusiveLock);
	if (get_rel_persistence(relid) != RELPERSISTENCE_UNLOGGED)
		return;
	unlogged_require_objects();
	if (unlogged_is_missing(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot run ALTER TABLE ... SET LOGGED for table \"%s\" yet", get_rel_name(relid)),
				 errdetail("The server of this node has lost its rows, and they have neither been fetched from another node nor been deleted everywhere."),
				 errhint("Retry; or TRUNCATE the table, which empties it on all nodes.")));
	refill_table(relid);
}

/* PostgreSQL has made its sequences unlogged with it. */
void
ddlunlogged_ran(Node *stmt)
{
	ListCell   *lc;
	Oid			relid;

	if (!IsA(stmt, AlterTableStmt) || !has((AlterTableStmt *) stmt, AT_SetUnLogged))
		return;
	relid = named_by((AlterTableStmt *) stmt);
	if (!OidIsValid(relid) || get_rel_persistence(relid) != RELPERSISTENCE_UNLOGGED)
		return;
	CommandCounterIncrement();
	foreach(lc, getOwnedSequences(relid))
	{
		if (get_rel_persistence(lfirst_oid(lc)) == RELPERSISTENCE_UNLOGGED)
			SequenceChangePersistence(lfirst_oid(lc), RELPERSISTENCE_PERMANENT);
	}
	CommandCounterIncrement();
}
