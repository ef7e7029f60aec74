/*
 * ddlpartition.c
 *	  Would every node put a row into the same partition, and permit the same rows in a
 *	  unique index (ddloids.c)?
 *
 * Changes name the leaf partition, so a row is where its origin put it.  Readers look for it
 * where the hash of their own node says.  The hash of an enum, or of anything else that is an
 * OID with a name, is that of the OID, which differs between nodes; so a table cannot be partitioned by
 * it.  (pg_dump has the same problem with enums.)  LIST and RANGE compare such
 * values with bounds, which each node reads for itself.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "partitioning/partdefs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "ddl.h"
#include "guc.h"
#include "keyhash.h"

static void
check_partition_key(Relation rel)
{
	PartitionKey key = RelationGetPartitionKey(rel);
	int			i;

	for (i = 0; key->strategy == PARTITION_STRATEGY_HASH && i < key->partnatts; i++)
	{
		if (!keyhash_is_portable(key->parttypid[i]) && ls_unreplicated != LS_UNREPLICATED_ALLOW)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot partition table \"%s\" by the hash of type %s on a node",
							RelationGetRelationName(rel), format_type_be(key->parttypid[i])),
					 errdetail("Values of this type are OIDs, which differ from node to node, and so would the partition of a row."),
					 errhint("Partition by LIST, or by the hash of a value's text.")));
	}
}

/* schema: of the command, when the table is named without one. */
static void
check_table(const char *schema, RangeVar *name)
{
	RangeVar   *qualified = schema != NULL && name->schemaname == NULL ?
	makeRangeVar(pstrdup(schema), name->relname, -1) : name;
	Oid			relid = RangeVarGetRelid(qualified, NoLock, true);
	char		kind = OidIsValid(relid) ? get_rel_relkind(relid) : '\0';
	Relation	rel;

	if (kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_RELATION && kind != RELKIND_MATVIEW)
		return;
	rel = table_open(relid, AccessShareLock);
	if (kind == RELKIND_PARTITIONED_TABLE)
		check_partition_key(rel);
	ddl_check_oids(rel);
	table_close(rel, AccessShareLock);
}

/* Does it make an index, perhaps, other than by CREATE INDEX? */
static bool
may_add_index(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_AddConstraint)
			return true;
	}
	return false;
}

void
ddl_check_table(PlannedStmt *pstmt)
{
	Node	   *stmt = pstmt->utilityStmt;
	CreateSchemaStmt *schema = (CreateSchemaStmt *) stmt;
	const char *name;
	ListCell   *lc;

	if (IsA(stmt, CreateStmt))
		check_table(NULL, ((CreateStmt *) stmt)->relation);
	else if (IsA(stmt, IndexStmt) && ((IndexStmt *) stmt)->unique)
		check_table(NULL, ((IndexStmt *) stmt)->relation);
	else if (IsA(stmt, AlterTableStmt) && may_add_index((AlterTableStmt *) stmt))
		check_table(NULL, ((AlterTableStmt *) stmt)->relation);
	if (!IsA(stmt, CreateSchemaStmt) || schema->schemaElts == NIL)
		return;
	name = schema->schemaname != NULL ? schema->schemaname : get_rolespec_name(schema->authrole);
	foreach(lc, schema->schemaElts)
	{
		if (IsA(lfirst(lc), CreateStmt))
			check_table(name, lfirst_node(CreateStmt, lc)->relation);
		else if (IsA(lfirst(lc), IndexStmt))
			check_table(name, lfirst_node(IndexStmt, lc)->relation);
	}
}
