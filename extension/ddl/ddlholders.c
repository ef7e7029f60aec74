/*
 * ddlholders.c
 *	  Before a command requests its locks in the cluster: wait for those who have its tables open
 *	  on this node.
 *
 * PostgreSQL would wait for them when it executes the command, that is, when the command has the
 * locks of the cluster.  A report that reads the table for an hour would then keep all DDL of all
 * nodes waiting for an hour, and the writers of the table.  So they are waited for first, as CREATE
 * INDEX CONCURRENTLY does: for the transactions that have such a lock now, without a place in the
 * lock's queue, in which others would wait behind us.  Who opens the table later is waited for by
 * PostgreSQL.  Apply sessions are not waited for: the cluster decides who of both comes first.
 *
 * Modes are those in which PostgreSQL locks the tables (AlterTableGetLockLevel() and the like).  What is not listed
 * here takes no lock that meets readers or writers, or on new objects only.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "ddl.h"
#include "lockconflict.h"

static bool
has(PGPROC *const *procs, int n, const PGPROC *proc)
{
	while (n > 0 && procs[n - 1] != proc)
		n--;
	return n > 0;
}

/*
 * VACUUM and CREATE INDEX CONCURRENTLY have their lock from one transaction to the next: so those
 * who were waited for are looked for again.
 */
static void
wait_for_relation(Oid relid, LOCKMODE mode)
{
	PGPROC	  **waited_for = NULL;
	int			nwaited_for = 0;
	LOCKTAG		tag;
	bool		again;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	do
	{
		int			n;
		VirtualTransactionId *lockers = GetLockConflicts(&tag, mode, &n);
		PGPROC	  **now = palloc((n + 1) * sizeof(PGPROC *));
		int			nnow = 0;

		again = false;
		for (int i = 0; i < n; i++)
		{
			PGPROC	   *proc = ls_proc_of(lockers[i]);

			if (lockconflict_is_apply(proc) || (waited_for != NULL && !has(waited_for, nwaited_for, proc)))
				continue;
			(void) VirtualXactLock(lockers[i], true);
			again |= proc != NULL;
			now[nnow++] = proc;
		}
		waited_for = now;
		nwaited_for = nnow;
	} while (again);
}

static void
wait_for(RangeVar *rv, LOCKMODE mode, bool with_children)
{
	Oid			relid = rv != NULL ? RangeVarGetRelid(rv, NoLock, true) : InvalidOid;
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	Oid			table;
	ListCell   *lc;

	if (kind == '\0')
		return;
	table = kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX ? IndexGetRelation(relid, true) : InvalidOid;
	if (OidIsValid(table))
		wait_for_relation(table, mode);
	foreach(lc, with_children ? find_all_inheritors(relid, NoLock, NULL) : list_make1_oid(relid))
		wait_for_relation(lfirst_oid(lc), mode);
}

/* Tables that foreign keys refer to. */
static void
wait_for_referenced(List *constraints)
{
	ListCell   *lc;

	foreach(lc, constraints)
	{
		Node	   *node = lfirst(lc);

		if (IsA(node, ColumnDef))
			wait_for_referenced(((ColumnDef *) node)->constraints);
		else if (IsA(node, Constraint) && ((Constraint *) node)->contype == CONSTR_FOREIGN)
			wait_for(((Constraint *) node)->pktable, ShareRowExclusiveLock, false);
	}
}

static void
wait_for_alter_table(AlterTableStmt *stmt)
{
	ListCell   *lc;

	wait_for(stmt->relation, AlterTableGetLockLevel(stmt->cmds), stmt->relation->inh);
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AttachPartition || cmd->subtype == AT_DetachPartition)
			wait_for(castNode(PartitionCmd, cmd->def)->name, AccessExclusiveLock, true);
		else if (cmd->def != NULL)
			wait_for_referenced(list_make1(cmd->def));
	}
}

static void
wait_for_drop(DropStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		List	   *names;

		switch (stmt->removeType)
		{
			case OBJECT_TABLE:
			case OBJECT_INDEX:
			case OBJECT_SEQUENCE:
			case OBJECT_VIEW:
			case OBJECT_MATVIEW:
			case OBJECT_FOREIGN_TABLE:
				names = lfirst_node(List, lc);
				break;
			case OBJECT_TRIGGER:
			case OBJECT_RULE:
			case OBJECT_POLICY:
				names = list_copy(lfirst_node(List, lc));
				names = list_truncate(names, list_length(names) - 1);
				break;
			default:
				return;
		}
		wait_for(makeRangeVarFromNameList(names), AccessExclusiveLock, true);
	}
}

static void
wait_for_each(List *relations, LOCKMODE mode)
{
	ListCell   *lc;

	foreach(lc, relations)
		wait_for(lfirst_node(RangeVar, lc), mode, lfirst_node(RangeVar, lc)->inh);
}

void
ddl_wait_for_holders(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_AlterTableStmt:
			wait_for_alter_table((AlterTableStmt *) stmt);
			break;
		case T_CreateStmt:
			wait_for_referenced(((CreateStmt *) stmt)->tableElts);
			wait_for_referenced(((CreateStmt *) stmt)->constraints);
			break;
		case T_DropStmt:
			wait_for_drop((DropStmt *) stmt);
			break;
		case T_TruncateStmt:
			wait_for_each(((TruncateStmt *) stmt)->relations, AccessExclusiveLock);
			break;
		case T_RenameStmt:
			if (((RenameStmt *) stmt)->renameType != OBJECT_INDEX)
				wait_for(((RenameStmt *) stmt)->relation, AccessExclusiveLock, true);
			break;
		case T_AlterObjectSchemaStmt:
			wait_for(((AlterObjectSchemaStmt *) stmt)->relation, AccessExclusiveLock, false);
			break;
		case T_IndexStmt:
			wait_for(((IndexStmt *) stmt)->relation, ShareLock, true);
			break;
		case T_CreateTrigStmt:
			wait_for(((CreateTrigStmt *) stmt)->relation, ShareRowExclusiveLock, false);
			break;
		case T_RuleStmt:
			wait_for(((RuleStmt *) stmt)->relation, AccessExclusiveLock, false);
			break;
		case T_CreatePolicyStmt:
			wait_for(((CreatePolicyStmt *) stmt)->table, AccessExclusiveLock, false);
			break;
		case T_AlterPolicyStmt:
			wait_for(((AlterPolicyStmt *) stmt)->table, AccessExclusiveLock, false);
			break;
		case T_AlterSeqStmt:
			wait_for(((AlterSeqStmt *) stmt)->sequence, ShareRowExclusiveLock, false);
			break;
		case T_ViewStmt:
			if (((ViewStmt *) stmt)->replace)
				wait_for(((ViewStmt *) stmt)->view, AccessExclusiveLock, false);
			break;
		case T_RefreshMatViewStmt:
			wait_for(((RefreshMatViewStmt *) stmt)->relation,
					 ((RefreshMatViewStmt *) stmt)->concurrent ? ExclusiveLock : AccessExclusiveLock, false);
			break;
		case T_LsClusterStmt:
			wait_for(ls_clustered_table((LsClusterStmt *) stmt), AccessExclusiveLock, true);
			break;
		case T_LockStmt:
			if (!((LockStmt *) stmt)->nowait)
				wait_for_each(((LockStmt *) stmt)->relations, ((LockStmt *) stmt)->mode);
			break;
		default:
			break;
	}
}
