/*
 * ddlpartition.c
 *	  Would every node put a row into the same partition?
 *
 * Changes name the leaf that a row is in, so a row is where its origin put it.
 * Readers look for it where their own node's hash says.  The hash of an enum,
 * and of everything that is an OID with a name, is that of the OID, which
 * differs from node to node; so a table can't be partitioned by it.  (pg_dump
 * has the same trouble with enums.)  LIST and RANGE compare such values with
 * bounds, which are read on each node.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "partitioning/partdefs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "ddl.h"

static bool hash_differs(Oid type);

static bool
hash_of_attributes_differs(Oid composite)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(composite, -1);
	bool		differs = false;
	int			i;

	for (i = 0; i < desc->natts && !differs; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		differs = !att->attisdropped && hash_differs(att->atttypid);
	}
	ReleaseTupleDesc(desc);
	return differs;
}

static bool
hash_differs(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return hash_differs(element);
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return true;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
			return true;
		case TYPTYPE_COMPOSITE:
			return hash_of_attributes_differs(type);
		case TYPTYPE_RANGE:
			return hash_differs(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return hash_differs(get_multirange_range(type));
		default:
			return false;
	}
}

/* schema: of the command, when the table is named without one. */
static void
check_table(const char *schema, RangeVar *name)
{
	RangeVar   *qualified = schema != NULL && name->schemaname == NULL ?
	makeRangeVar(pstrdup(schema), name->relname, -1) : name;
	Oid			relid = RangeVarGetRelid(qualified, NoLock, true);
	Relation	rel;
	PartitionKey key;
	int			i;

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	rel = table_open(relid, AccessShareLock);
	key = RelationGetPartitionKey(rel);
	for (i = 0; key->strategy == PARTITION_STRATEGY_HASH && i < key->partnatts; i++)
	{
		if (hash_differs(key->parttypid[i]) && ls_unreplicated != LS_UNREPLICATED_ALLOW)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot partition table \"%s\" by the hash of type %s on a node",
							RelationGetRelationName(rel), format_type_be(key->parttypid[i])),
					 errdetail("Values of this type are OIDs, which differ from node to node, and so would the partition of a row."),
					 errhint("Partition by LIST, or by the hash of a value's text.")));
	}
	table_close(rel, AccessShareLock);
}

void
ddl_check_partition_key(PlannedStmt *pstmt)
{
	Node	   *stmt = pstmt->utilityStmt;
	CreateSchemaStmt *schema = (CreateSchemaStmt *) stmt;
	const char *name;
	ListCell   *lc;

	if (IsA(stmt, CreateStmt) && ((CreateStmt *) stmt)->partspec != NULL)
		check_table(NULL, ((CreateStmt *) stmt)->relation);
	if (!IsA(stmt, CreateSchemaStmt) || schema->schemaElts == NIL)
		return;
	name = schema->schemaname != NULL ? schema->schemaname : get_rolespec_name(schema->authrole);
	foreach(lc, schema->schemaElts)
	{
		CreateStmt *create = lfirst(lc);

		if (IsA(create, CreateStmt) && create->partspec != NULL)
			check_table(name, create->relation);
	}
}
