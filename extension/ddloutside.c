/*
 * ddloutside.c
 *	  Commands that PostgreSQL runs outside of a transaction block, and that are
 *	  made plain ones here: ALTER TABLE ... DETACH PARTITION ... CONCURRENTLY, and
 *	  those CREATE INDEX and DROP INDEX CONCURRENTLY that ddlconcurrent.c leaves.
 *
 * Each of them is a series of transactions, and a crash, or one that fails,
 * leaves it half done: an invalid index, a partition that is half detached.
 * On several nodes these would be different halves.  So on a node such a
 * command is run as the plain one, CREATE INDEX, DROP INDEX or DETACH PARTITION:
 * one transaction, which is committed by all nodes or by none.  The price is
 * that writers of that table wait until it is done everywhere.  What PostgreSQL
 * asks of the command still holds, with its own errors: not inside a transaction
 * block, no CASCADE, no partitioned index.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "compat.h"
#include "ddl.h"
#include "tokens.h"

/* Where in text the word CONCURRENTLY stands; the last one, or the first. */
static int
find_keyword(const char *text, bool last)
{
	Tokens		tokens;
	int			found = -1;

	tokens_begin(&tokens, text);
	while (tokens_next(&tokens))
	{
		if (token_is(&tokens, "concurrently") && (last || found < 0))
			found = tokens.at;
	}
	tokens_end(&tokens);
	return found;
}

/* The source with blanks in place of the word; all else stays where it is. */
static char *
without_keyword(const char *source, const PlannedStmt *pstmt, bool last)
{
	int			start = Max(pstmt->stmt_location, 0);
	int			len = pstmt->stmt_len > 0 ? pstmt->stmt_len : (int) strlen(source) - start;
	char	   *statement = pnstrdup(source + start, len);
	int			quiet = settings_begin_quiet();
	int			at = find_keyword(statement, last);
	char	   *copy = pstrdup(source);

	settings_end_quiet(quiet);
	pfree(statement);
	if (at >= 0)
		memset(copy + start + at, ' ', strlen("CONCURRENTLY"));
	return copy;
}

/* ---------- the three commands */

static void
check_index(IndexStmt *stmt)
{
	if (get_rel_relkind(RangeVarGetRelid(stmt->relation, NoLock, true)) == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot create index on partitioned table \"%s\" concurrently",
						stmt->relation->relname)));
}

static void
check_drop(DropStmt *stmt)
{
	RangeVar   *name;
	Oid			index;

	if (list_length(stmt->objects) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DROP INDEX CONCURRENTLY does not support dropping multiple objects")));
	if (stmt->behavior == DROP_CASCADE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DROP INDEX CONCURRENTLY does not support CASCADE")));
	name = makeRangeVarFromNameList(linitial_node(List, stmt->objects));
	index = RangeVarGetRelid(name, NoLock, true);

	/* of a temporary table PostgreSQL itself runs the plain command */
	if (OidIsValid(index) && get_rel_relkind(index) == RELKIND_PARTITIONED_INDEX &&
		get_rel_persistence(index) != RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot drop partitioned index \"%s\" concurrently", name->relname)));
}

static PartitionCmd *
concurrent_detach(Node *node)
{
	AlterTableStmt *stmt = (AlterTableStmt *) node;
	AlterTableCmd *cmd;

	if (!IsA(node, AlterTableStmt) || list_length(stmt->cmds) != 1)
		return NULL;
	cmd = linitial_node(AlterTableCmd, stmt->cmds);
	if (cmd->subtype != AT_DetachPartition || !castNode(PartitionCmd, cmd->def)->concurrent)
		return NULL;
	return castNode(PartitionCmd, cmd->def);
}

/* As PostgreSQL does, after it has checked that the table is the user's. */
static void
check_detach(AlterTableStmt *stmt)
{
	Oid			parent = RangeVarGetRelid(stmt->relation, NoLock, true);

	if (get_rel_relkind(parent) == RELKIND_PARTITIONED_TABLE &&
		ls_owns_relation(parent, GetUserId()) && OidIsValid(get_default_partition_oid(parent)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot detach partitions concurrently when a default partition exists")));
}

/* NULL if the partition's other constraints say it, or if it is one by hash,
 * which would name its parent by OID. */
static char *
bounds_as_check(Relation parent, Relation partition)
{
	List	   *bounds;

	if (get_partition_strategy(RelationGetPartitionKey(parent)) == PARTITION_STRATEGY_HASH)
		return NULL;
	bounds = (List *) eval_const_expressions(NULL, (Node *) RelationGetPartitionQual(partition));
	if (PartConstraintImpliedByRelConstraint(partition, bounds))
		return NULL;
	return psprintf("ALTER TABLE %s ADD CHECK (%s)",
					quote_qualified_identifier(get_namespace_name(RelationGetNamespace(partition)),
											   RelationGetRelationName(partition)),
					TextDatumGetCString(DirectFunctionCall1(pg_get_partition_constraintdef,
															ObjectIdGetDatum(RelationGetRelid(partition)))));
}

/*
 * A partition that was detached CONCURRENTLY keeps its bounds, as a CHECK
 * constraint.  This is the command to run after the plain DETACH, or NULL;
 * called before it, when the cluster's locks are held.  Locks the tables as
 * the command will, unless that will fail.
 */
char *
ddl_keep_bounds(AlterTableStmt *stmt)
{
	AlterTableCmd *cmd = linitial_node(AlterTableCmd, stmt->cmds);
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	Relation	parent = NULL;
	Relation	partition = NULL;
	char	   *command = NULL;

	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE && ls_owns_relation(relid, GetUserId()))
		parent = try_relation_open(relid, AccessExclusiveLock);
	if (parent == NULL)
		return NULL;
	relid = RangeVarGetRelid(castNode(PartitionCmd, cmd->def)->name, NoLock, true);
	if (get_rel_relispartition(relid))
		partition = try_relation_open(relid, AccessExclusiveLock);
	if (partition != NULL)
	{
		command = bounds_as_check(parent, partition);
		relation_close(partition, NoLock);
	}
	relation_close(parent, NoLock);
	return command;
}

const char *
ddl_outside_name(Node *stmt)
{
	if (IsA(stmt, IndexStmt) && ((IndexStmt *) stmt)->concurrent)
		return "CREATE INDEX CONCURRENTLY";
	if (IsA(stmt, DropStmt) && ((DropStmt *) stmt)->concurrent)
		return "DROP INDEX CONCURRENTLY";
	return concurrent_detach(stmt) != NULL ? "ALTER TABLE ... DETACH CONCURRENTLY" : NULL;
}

bool
ddl_make_plain(PlannedStmt **pstmt, const char **source, bool is_top_level)
{
	Node	   *stmt = (*pstmt)->utilityStmt;
	const char *name = ddl_outside_name(stmt);
	bool		index = IsA(stmt, IndexStmt);
	bool		drop = IsA(stmt, DropStmt);
	bool		detach = !index && !drop;

	if (name == NULL)
		return false;
	PreventInTransactionBlock(is_top_level, name);
	if (index)
		check_index((IndexStmt *) stmt);
	if (drop)
		check_drop((DropStmt *) stmt);
	if (detach)
		check_detach((AlterTableStmt *) stmt);

	*source = without_keyword(*source, *pstmt, detach);
	*pstmt = copyObject(*pstmt);
	stmt = (*pstmt)->utilityStmt;
	if (index)
		((IndexStmt *) stmt)->concurrent = false;
	else if (drop)
		((DropStmt *) stmt)->concurrent = false;
	else
		concurrent_detach(stmt)->concurrent = false;
	return true;
}
