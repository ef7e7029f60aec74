/*
 * ddlcheck.c
 *	  Does a utility command have the same result on every node?
 *
 * A forwarded command runs on each node separately.  These results would differ:
 *
 *  - values computed for existing rows (a new column with a volatile default, serial, USING
 *    with random()), because their physical order differs, because OIDs differ
 *    (USING o::regclass::text), or because a function is not built in.  The rows of such
 *    tables travel (utility.c);
 *  - values computed for the catalogs: partition bounds;
 *  - tables in an access method whose rows are not captured.
 *
 * The latter two are refused.  Called when the locks are granted, so that the tables cannot change any
 * more.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/heapam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "ddl.h"
#include "guc.h"
#include "relation.h"
#include "sessionsettings.h"
#include "storedexpression.h"

static void
refuse(const char *what, const char *detail, const char *hint)
{
	if (ls_unreplicated == LS_UNREPLICATED_ALLOW)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate %s", what),
			 errdetail_internal("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* ---------- expressions */

/*
 * Volatile, or stable and dependent on session or server.  The transaction's
 * time is the same on all nodes (sessionsettings.c), the statement's is not.  What a
 * function that isn't built in depends on can't be told.  trusted: one that is
 * IMMUTABLE by declaration is believed to be, but for settings, which travel.
 */
static bool
function_varies(Oid function, void *trusted)
{
	switch (function)
	{
		case F_AGE_XID:
		case F_TXID_CURRENT:
		case F_TXID_CURRENT_IF_ASSIGNED:
		case F_TXID_CURRENT_SNAPSHOT:
		case F_PG_CURRENT_XACT_ID:
		case F_PG_CURRENT_XACT_ID_IF_ASSIGNED:
		case F_PG_CURRENT_SNAPSHOT:
		case F_PG_BACKEND_PID:
		case F_STATEMENT_TIMESTAMP:
		case F_ROW_SECURITY_ACTIVE_TEXT:
		case F_VERSION:
		case F_INET_CLIENT_ADDR:
		case F_INET_CLIENT_PORT:
		case F_INET_SERVER_ADDR:
		case F_INET_SERVER_PORT:
		case F_PG_POSTMASTER_START_TIME:
		case F_PG_CONF_LOAD_TIME:
		case F_CURRENT_SETTING_TEXT:
		case F_CURRENT_SETTING_TEXT_BOOL:
		case F_SESSION_USER:
			return true;
		default:
			if (function >= FirstNormalObjectId)
				return trusted == NULL || func_volatile(function) != PROVOLATILE_IMMUTABLE;
			return func_volatile(function) == PROVOLATILE_VOLATILE;
	}
}

static bool
varies_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, NextValueExpr))
		return true;
	if (IsA(node, SQLValueFunction))
	{
		/* the transaction's time travels, and so do names but one */
		return ((SQLValueFunction *) node)->op == SVFOP_SESSION_USER;
	}
	if (check_functions_in_node(node, function_varies, context))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, varies_walker, context, 0);
	return expression_tree_walker(node, varies_walker, context);
}

static bool
expression_varies(Node *expression)
{
	return varies_walker(expression, NULL) || storedexpression_has_oids(expression);
}

/* As a value of that type: an OID is read as a name of this node's, or a name as an OID. */
static bool
value_varies(Node *expression, Oid type)
{
	Oid			from = exprType(expression);

	return expression_varies(expression) ||
		(from != type && from != UNKNOWNOID &&
		 (storedexpression_type_has_oids(from) || storedexpression_type_has_oids(type)));
}

/* ---------- rows that are there */

/* Those of the hierarchy. */
static List *
hierarchy_with_rows(Oid relid)
{
	List	   *result = NIL;
	ListCell   *lc;

	LockRelationOid(relid, AccessExclusiveLock);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return NIL;
	foreach(lc, find_all_inheritors(relid, AccessExclusiveLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION && relation_has_rows(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/* Tables OF the type, which ALTER TYPE ... CASCADE changes. */
static List *
typed_tables(Oid type)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *result = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->reloftype == type)
			result = lappend_oid(result, form->oid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return result;
}

/*
 * The tables that the command changes and that have rows.  Locked as the command itself will
 * lock them, so that none can get its first row meanwhile.  A role that may not run
 * the command locks nothing: it will fail.
 */
static List *
tables_with_rows(Oid relid)
{
	List	   *result = NIL;
	ListCell   *lc;

	if (!ls_owns_relation(relid, GetUserId()))
		return NIL;
	if (get_rel_relkind(relid) != RELKIND_COMPOSITE_TYPE)
		return hierarchy_with_rows(relid);
	foreach(lc, typed_tables(get_rel_type_id(relid)))
		result = list_concat_unique_oid(result, hierarchy_with_rows(lfirst_oid(lc)));
	return result;
}

/* ---------- ALTER TABLE */

static bool
is_serial(const TypeName *type)
{
	static const char *const names[] = {
		"smallserial", "serial2", "serial", "serial4", "bigserial", "serial8"
	};
	int			i;

	if (list_length(type->names) != 1 || type->pct_type)
		return false;
	for (i = 0; i < lengthof(names); i++)
	{
		if (strcmp(strVal(linitial(type->names)), names[i]) == 0)
			return true;
	}
	return false;
}

static bool
type_default_varies(const TypeName *name)
{
	Oid			type = LookupTypeNameOid(NULL, name, true);
	Node	   *value = OidIsValid(type) ? get_typdefault(type) : NULL;

	return value != NULL && expression_varies(value);
}

/* Is it a column that the other parts of the command leave alone? */
static bool
column_is_there(AlterTableStmt *stmt, Oid relid, const char *name)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->name != NULL && strcmp(cmd->name, name) == 0)
			return false;
	}
	return get_attnum(relid, name) != InvalidAttrNumber;
}

typedef struct NamedColumns
{
	AlterTableStmt *stmt;
	Oid			relid;
} NamedColumns;

static bool
names_other_column(Node *node, void *context)
{
	NamedColumns *named = context;

	if (node == NULL)
		return false;
	if (IsA(node, ColumnRef))
	{
		Node	   *last = llast(((ColumnRef *) node)->fields);

		return !IsA(last, String) || !column_is_there(named->stmt, named->relid, strVal(last));
	}
	return raw_expression_tree_walker(node, names_other_column, context);
}

/*
 * Of a generated column.  What names columns that the same command makes or changes
 * is not looked at: its rows travel.
 */
static bool
generated_varies(AlterTableStmt *stmt, Oid relid, Node *raw, Oid type, const char *source)
{
	NamedColumns named = {stmt, relid};
	Relation	rel;
	ParseState *pstate;
	bool		varies;

	if (names_other_column(raw, &named))
		return true;
	rel = relation_open(relid, AccessShareLock);
	pstate = make_parsestate(NULL);
	pstate->p_sourcetext = source;
	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
					 false, true, true);
	varies = value_varies(transformExpr(pstate, copyObject(raw), EXPR_KIND_GENERATED_COLUMN), type);
	free_parsestate(pstate);
	relation_close(rel, AccessShareLock);
	return varies;
}

static bool
new_column_varies(AlterTableStmt *stmt, Oid relid, ColumnDef *column, const char *source)
{
	bool		has_default = column->raw_default != NULL;
	Oid			type;
	ListCell   *lc;

	if (is_serial(column->typeName))
		return true;
	type = LookupTypeNameOid(NULL, column->typeName, true);
	if (!OidIsValid(type))
		return false;			/* the command will say so */
	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_IDENTITY)
			return true;
		if (constraint->contype == CONSTR_GENERATED)
			return ls_is_stored(constraint) && generated_varies(stmt, relid, constraint->raw_expr, type, source);
		if (constraint->contype == CONSTR_DEFAULT)
		{
			ParseState *pstate = make_parsestate(NULL);

			has_default = true;
			pstate->p_sourcetext = source;
			if (value_varies(transformExpr(pstate, copyObject(constraint->raw_expr), EXPR_KIND_COLUMN_DEFAULT), type))
				return true;
		}
	}
	return !has_default && type_default_varies(column->typeName);
}

/* USING, or the cast that stands for it. */
static bool
conversion_varies(Relation rel, AlterTableCmd *cmd, const char *source)
{
	ColumnDef  *definition = castNode(ColumnDef, cmd->def);
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), cmd->name);
	Oid			to = LookupTypeNameOid(NULL, definition->typeName, true);
	Oid			from;
	Oid			function;

	if (!OidIsValid(to))
		return false;			/* the command will say so */
	if (definition->raw_default != NULL)
	{
		ParseState *pstate = make_parsestate(NULL);

		pstate->p_sourcetext = source;
		addNSItemToQuery(pstate,
						 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
						 false, true, true);
		return value_varies(transformExpr(pstate, copyObject(definition->raw_default), EXPR_KIND_ALTER_COL_TRANSFORM), to);
	}
	if (attnum <= 0)
		return false;
	from = TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atttypid;
	if (from != to && (storedexpression_type_has_oids(from) || storedexpression_type_has_oids(to)))
		return true;
	return find_coercion_pathway(to, from, COERCION_ASSIGNMENT, &function) == COERCION_PATH_FUNC &&
		function_varies(function, NULL);
}

static bool
new_type_varies(Oid relid, AlterTableCmd *cmd, const char *source)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		varies = conversion_varies(rel, cmd, source);

	relation_close(rel, AccessShareLock);
	return varies;
}

/* Another name for the heap is as good.  NULL: none is named, or DEFAULT. */
static void
check_access_method(const char *name)
{
	HeapTuple	tuple = SearchSysCache1(AMNAME, CStringGetDatum(name != NULL ? name : default_table_access_method));
	bool		heap = true;

	if (HeapTupleIsValid(tuple))	/* else the command will fail */
	{
		Form_pg_am	am = (Form_pg_am) GETSTRUCT(tuple);

		heap = am->amtype != AMTYPE_TABLE ||
			GetTableAmRoutine(am->amhandler) == GetHeapamTableAmRoutine();
		ReleaseSysCache(tuple);
	}
	if (!heap)
		refuse("a table with another access method than heap",
			   psprintf("Changes of rows in access method \"%s\" cannot be captured.", name), NULL);
}

static bool
bound_varies(List *datums, const char *source)
{
	ListCell   *lc;

	foreach(lc, datums)
	{
		ParseState *pstate;
		Node	   *bound;
		bool		trusted = true;
		bool		varies;

		if (IsA(lfirst(lc), PartitionRangeDatum) || IsA(lfirst(lc), ColumnRef))
			continue;			/* MINVALUE, MAXVALUE */
		pstate = make_parsestate(NULL);
		pstate->p_sourcetext = source;
		bound = transformExpr(pstate, copyObject(lfirst(lc)), EXPR_KIND_PARTITION_BOUND);
		varies = varies_walker(bound, &trusted) || storedexpression_has_oids(bound);
		free_parsestate(pstate);
		if (varies)
			return true;
	}
	return false;
}

/* Bounds are computed when the command runs. */
static void
check_bound(PartitionBoundSpec *bound, const char *source)
{
	if (bound == NULL)
		return;
	if (bound_varies(bound->listdatums, source) ||
		bound_varies(bound->lowerdatums, source) ||
		bound_varies(bound->upperdatums, source))
		refuse("a partition bound that differs from node to node",
			   "A volatile function in a partition bound, or the OID of an object, may have another value on another node.",
			   "Write the value.");
}

static List *
check_alter_table(AlterTableStmt *stmt, const char *source)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	bool		varies = false;
	ListCell   *lc;

	if (!OidIsValid(relid))
		return NIL;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		switch (cmd->subtype)
		{
			case AT_AddColumn:
				varies |= new_column_varies(stmt, relid, castNode(ColumnDef, cmd->def), source);
				break;
			case AT_AlterColumnType:
				varies |= new_type_varies(relid, cmd, source);
				break;
#if LS_CAN_SET_EXPRESSION
			case AT_SetExpression:
				varies |= generated_varies(stmt, relid, cmd->def, get_atttype(relid, get_attnum(relid, cmd->name)), source);
				break;
#endif
			case AT_AttachPartition:
				check_bound(castNode(PartitionCmd, cmd->def)->bound, source);
				break;
			case AT_SetAccessMethod:
				check_access_method(cmd->name);
				break;
			default:
				break;
		}
	}
	return varies ? tables_with_rows(relid) : NIL;
}

/* ---------- all */

static void
check_create(CreateStmt *stmt, const char *source)
{
	check_bound(stmt->partbound, source);
	/* that of a partitioned table is (from 17 on) that of its partitions */
	if (stmt->partspec == NULL || stmt->accessMethod != NULL)
		check_access_method(stmt->accessMethod);
}

static List *
check(PlannedStmt *pstmt, const char *source)
{
	Node	   *stmt = pstmt->utilityStmt;
	ListCell   *lc;

	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			check_create((CreateStmt *) stmt, source);
			return NIL;
		case T_CreateSchemaStmt:
			foreach(lc, ((CreateSchemaStmt *) stmt)->schemaElts)
			{
				if (IsA(lfirst(lc), CreateStmt))
					check_create(lfirst_node(CreateStmt, lc), source);
			}
			return NIL;
		case T_CreateTableAsStmt:
			{
				IntoClause *into = ((CreateTableAsStmt *) stmt)->into;

				check_access_method(into->accessMethod);
				return NIL;
			}
		case T_AlterTableStmt:
			return check_alter_table((AlterTableStmt *) stmt, source);
		default:
			return NIL;
	}
}

List *
ddl_check_repeatable(PlannedStmt *pstmt, const char *source)
{
	int			quiet = sessionsettings_begin_quiet();
	List	   *tables = check(pstmt, source);

	sessionsettings_end_quiet(quiet);
	return tables;
}

/* ---------- what it depends on */

/* Its schema, or that of the table or the domain that it is a part of; InvalidOid: it has none. */
static Oid
schema_of(Oid class, Oid object)
{
	ObjectAddress address = ddl_whole_of(class, object);

	return OidIsValid(address.objectId) && is_objectclass_supported(address.classId) ?
		get_object_namespace(&address) : InvalidOid;
}

static bool
is_temporary(Oid class, Oid object)
{
	Oid			schema = schema_of(class, object);

	return (OidIsValid(schema) && isAnyTempNamespace(schema)) ||
		(class == TypeRelationId && OidIsValid(ddl_temporary_table_of_type(object))) ||
		(class == ProcedureRelationId && OidIsValid(ddl_temporary_table_of_function(object)));
}

static bool
is_permanent(Oid class, Oid object)
{
	Oid			schema = schema_of(class, object);

	return OidIsValid(schema) && !isAnyTempNamespace(schema);
}

/*
 * A name in the command may mean a temporary table or its type here and
 * something else on another node, and the end of this session would drop the
 * permanent object that depends on it.  Dependencies are few; those that the command has
 * made are looked at, and only in a session with temporary objects.
 */
void
ddl_check_dependencies(CommandId since)
{
	Relation	depend;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(LookupExplicitNamespace("pg_temp", true)))
		return;
	CommandCounterIncrement();
	depend = table_open(DependRelationId, AccessShareLock);
	scan = systable_beginscan(depend, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
			HeapTupleHeaderGetCmin(tuple->t_data) >= since &&
			is_temporary(form->refclassid, form->refobjid) && is_permanent(form->classid, form->objid))
			refuse("a permanent object that depends on a temporary one",
				   "Temporary objects exist in this session only.",
				   "Name the schema of the permanent object that is meant.");
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}
