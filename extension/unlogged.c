/*
 * unlogged.c
 *	  UNLOGGED: on a node such tables and sequences are ordinary ones.
 *
 * PostgreSQL empties unlogged tables when their server crashes.  In a cluster
 * that would be on one node only, and what is applied there afterwards would
 * look for rows that are gone.  To empty them on all nodes then would lose what
 * no crash has touched.  An ordinary table keeps all that is promised of an
 * unlogged one, and costs WAL; as a change goes to the journal and to the other
 * nodes anyway, it is not where time is won.
 *
 * So UNLOGGED is read as if it were not there.  The same text, on the other
 * nodes, is read in the same way.  Tables that were unlogged before their
 * database was replicated stay so, and can't be changed: see heap.c.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

#include "ddl.h"

/* Make it an ordinary one; true if it wasn't. */
static bool
make_logged(RangeVar *rv)
{
	if (rv->relpersistence != RELPERSISTENCE_UNLOGGED)
		return false;
	rv->relpersistence = RELPERSISTENCE_PERMANENT;
	return true;
}

/* SET LOGGED does nothing to a table that is. */
static bool
make_set_logged(AlterTableStmt *stmt)
{
	bool		changed = false;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype != AT_SetUnLogged)
			continue;
		cmd->subtype = AT_SetLogged;
		changed = true;
	}
	return changed;
}

static bool
may_say_unlogged(Node *stmt)
{
	return IsA(stmt, CreateStmt) || IsA(stmt, CreateSeqStmt) ||
		IsA(stmt, CreateTableAsStmt) || IsA(stmt, AlterTableStmt);
}

/* Take UNLOGGED out of a command; true if there was any. */
bool
unlogged_change(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return make_logged(((CreateStmt *) stmt)->relation);
		case T_CreateSeqStmt:
			return make_logged(((CreateSeqStmt *) stmt)->sequence);
		case T_CreateTableAsStmt:
			return make_logged(((CreateTableAsStmt *) stmt)->into->rel);
		case T_AlterTableStmt:
			return make_set_logged((AlterTableStmt *) stmt);
		default:
			return false;
	}
}

/* The command to run instead; the same if it doesn't say UNLOGGED. */
PlannedStmt *
unlogged_ignore(PlannedStmt *pstmt)
{
	PlannedStmt *copy;

	if (likely(!may_say_unlogged(pstmt->utilityStmt)))
		return pstmt;
	copy = copyObject(pstmt);
	if (!unlogged_change(copy->utilityStmt))
	{
		pfree(copy);
		return pstmt;
	}
	ereport(NOTICE,
			(errmsg("UNLOGGED is ignored on a node"),
			 errdetail("A crash would empty it on that node only, so it is an ordinary table or sequence.")));
	return copy;
}
