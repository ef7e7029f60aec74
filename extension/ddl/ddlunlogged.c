/*
 * ddlunlogged.c
 *	  UNLOGGED is ignored: on a node such tables and sequences are ordinary ones.
 *
 * PostgreSQL empties unlogged tables when their server crashes.  In a cluster that would
 * happen on one node only, where later changes would not find their rows.  Emptying them on
 * all nodes would lose data that no crash has touched.  An ordinary table keeps all promises of
 * an unlogged one, and costs WAL; since changes go to the journal and to other nodes
 * anyway, little time would be saved.
 *
 * The other nodes read the same text in the same way.  Tables that were unlogged before
 * their database was replicated stay so, and cannot be changed: see heap.c.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

#include "ddl.h"
#include "session.h"

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

/* change: to SET LOGGED, which does nothing to a table that is. */
static bool
has_set_unlogged(AlterTableStmt *stmt, bool change)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype != AT_SetUnLogged)
			continue;
		if (change)
			cmd->subtype = AT_SetLogged;
		found = true;
	}
	return found;
}

static bool
says_unlogged(Node *stmt, bool change)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return is_unlogged(((CreateStmt *) stmt)->relation, change);
		case T_CreateSeqStmt:
			return is_unlogged(((CreateSeqStmt *) stmt)->sequence, change);
		case T_CreateTableAsStmt:
			return is_unlogged(((CreateTableAsStmt *) stmt)->into->rel, change);
		case T_AlterTableStmt:
			return has_set_unlogged((AlterTableStmt *) stmt, change);
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

/* The command to run instead; the same if it doesn't say UNLOGGED. */
PlannedStmt *
ddlunlogged_ignore(PlannedStmt *pstmt)
{
	PlannedStmt *copy;

	if (likely(!says_unlogged(pstmt->utilityStmt, false)))
		return pstmt;
	copy = copyObject(pstmt);
	(void) ddlunlogged_change(copy->utilityStmt);

	/* for the log: a client that asked for less has got more */
	ereport(session_applies() ? DEBUG1 : LOG,
			(errmsg("UNLOGGED is ignored on a node"),
			 errdetail("A crash would empty it on that node only, so it is an ordinary table or sequence.")));
	return copy;
}
