/*
 * ddlcheck.c
 *	  Does a utility command have the same result on every node?
 *
 * A forwarded command runs on each node by itself.  What would differ:
 *	 - values that it computes for rows that are there (a new column with a
 *	   volatile default, serial, USING with random()): their order is physical,
 *	   their time another;
 *	 - values that it computes for the catalogs: partition bounds, literals
 *	   like 'today';
 *	 - tables in an access method of which the rows are not captured.
 * Such commands are refused.  Called when the locks are granted: the tables
 * can't change any more.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "ddl.h"

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
 * Volatile, or stable and dependent on time, session or server.  What a stable
 * function that isn't built in depends on can't be told.
 */
static bool
function_varies(Oid function, void *context)
{
	switch (function)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_AGE_TIMESTAMP:
		case F_AGE_TIMESTAMPTZ:
		case F_AGE_XID:
		case F_TXID_CURRENT:
		case F_TXID_CURRENT_IF_ASSIGNED:
		case F_TXID_CURRENT_SNAPSHOT:
		case F_PG_CURRENT_XACT_ID:
		case F_PG_CURRENT_XACT_ID_IF_ASSIGNED:
		case F_PG_CURRENT_SNAPSHOT:
		case F_PG_BACKEND_PID:
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
				return func_volatile(function) != PROVOLATILE_IMMUTABLE;
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
		SQLValueFunctionOp op = ((SQLValueFunction *) node)->op;

		/* the first ones tell the time, the others names that travel but one */
		return op <= SVFOP_LOCALTIMESTAMP_N || op == SVFOP_SESSION_USER;
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
	return varies_walker(expression, NULL);
}

/* ---------- rows that are there */

static bool
relation_has_rows(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	bool		found = false;

	if (rel->rd_rel->relkind == RELKIND_RELATION)
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
		TupleTableSlot *slot = table_slot_create(rel, NULL);

		found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
		ExecDropSingleTupleTableSlot(slot);
		table_endscan(scan);
		UnregisterSnapshot(snapshot);
	}
	table_close(rel, AccessShareLock);
	return found;
}

static bool
any_has_rows(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		if (relation_has_rows(lfirst_oid(lc)))
			return true;
	}
	return false;
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

static bool
new_column_varies(ColumnDef *column, const char *source)
{
	bool		has_default = column->raw_default != NULL;
	ListCell   *lc;

	if (is_serial(column->typeName))
		return true;
	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_IDENTITY)
			return true;
		if (constraint->contype == CONSTR_DEFAULT)
		{
			ParseState *pstate = make_parsestate(NULL);

			has_default = true;
			pstate->p_sourcetext = source;
			if (expression_varies(transformExpr(pstate, copyObject(constraint->raw_expr),
												EXPR_KIND_COLUMN_DEFAULT)))
				return true;
		}
	}
	return !has_default && type_default_varies(column->typeName);
}

static void
check_new_column(Oid relid, ColumnDef *column, const char *source)
{
	if (!new_column_varies(column, source) || !any_has_rows(relid))
		return;
	refuse("a new column with values that differ from node to node",
		   psprintf("Column \"%s\" would be filled by a volatile or time-dependent expression, or by a sequence.",
					column->colname),
		   "Add the column without a default, set the default afterwards, and fill it with UPDATE.");
}

/* USING, or the cast that stands for it. */
static bool
conversion_varies(Relation rel, AlterTableCmd *cmd, const char *source)
{
	ColumnDef  *definition = castNode(ColumnDef, cmd->def);
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), cmd->name);
	Oid			function;

	if (definition->raw_default != NULL)
	{
		ParseState *pstate = make_parsestate(NULL);

		pstate->p_sourcetext = source;
		addNSItemToQuery(pstate,
						 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
						 false, true, true);
		return expression_varies(transformExpr(pstate, copyObject(definition->raw_default),
											   EXPR_KIND_ALTER_COL_TRANSFORM));
	}
	return attnum != InvalidAttrNumber &&
		find_coercion_pathway(LookupTypeNameOid(NULL, definition->typeName, true),
							  TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atttypid,
							  COERCION_ASSIGNMENT, &function) == COERCION_PATH_FUNC &&
		function_varies(function, NULL);
}

static void
check_new_type(Oid relid, AlterTableCmd *cmd, const char *source)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		varies = rel->rd_rel->relkind != RELKIND_COMPOSITE_TYPE &&
	conversion_varies(rel, cmd, source);

	relation_close(rel, AccessShareLock);
	if (varies && any_has_rows(relid))
		refuse("a conversion of a column that differs from node to node",
			   psprintf("Column \"%s\" would be converted by a volatile or time-dependent expression.",
						cmd->name),
			   "Use an expression that depends on the row only.");
}

static void
check_access_method(const char *name)
{
	if (strcmp(name, "heap") != 0)
		refuse("a table with another access method than heap",
			   psprintf("Changes of rows in access method \"%s\" can't be captured.", name), NULL);
}

static bool
raw_computes_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncCall) || IsA(node, SQLValueFunction) || IsA(node, SubLink))
		return true;
	return raw_expression_tree_walker(node, raw_computes_walker, context);
}

/* Bounds are computed when the command runs. */
static void
check_bound(PartitionBoundSpec *bound)
{
	if (bound == NULL)
		return;
	if (raw_computes_walker((Node *) bound->listdatums, NULL) ||
		raw_computes_walker((Node *) bound->lowerdatums, NULL) ||
		raw_computes_walker((Node *) bound->upperdatums, NULL))
		refuse("a partition bound that is computed",
			   "A function in a partition bound may have another value on another node.",
			   "Write the value.");
}

static void
check_alter_table(AlterTableStmt *stmt, const char *source)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	ListCell   *lc;

	if (!OidIsValid(relid))
		return;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		switch (cmd->subtype)
		{
			case AT_AddColumn:
				check_new_column(relid, castNode(ColumnDef, cmd->def), source);
				break;
			case AT_AlterColumnType:
				check_new_type(relid, cmd, source);
				break;
			case AT_AttachPartition:
				check_bound(castNode(PartitionCmd, cmd->def)->bound);
				break;
			case AT_SetAccessMethod:
				check_access_method(cmd->name);
				break;
			default:
				break;
		}
	}
}

/* ---------- all */

static void
check_time_literals(const char *text)
{
	if (ddl_text_has_time_literal(text))
		refuse("a command with a literal like 'now', 'today' or 'tomorrow'",
			   "Its value is the time at which the command is read, which differs from node to node.",
			   "Write the value, or use now() or CURRENT_DATE where it is meant to be evaluated later.");
}

static void
check_create(CreateStmt *stmt)
{
	check_bound(stmt->partbound);
	if (stmt->partspec == NULL)
		check_access_method(stmt->accessMethod != NULL ? stmt->accessMethod :
							default_table_access_method);
}

void
ddl_check_repeatable(PlannedStmt *pstmt, const char *source, const char *text)
{
	Node	   *stmt = pstmt->utilityStmt;
	ListCell   *lc;

	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			check_create((CreateStmt *) stmt);
			check_time_literals(text);
			break;
		case T_CreateSchemaStmt:
			foreach(lc, ((CreateSchemaStmt *) stmt)->schemaElts)
			{
				if (IsA(lfirst(lc), CreateStmt))
					check_create(lfirst_node(CreateStmt, lc));
			}
			check_time_literals(text);
			break;
		case T_CreateTableAsStmt:
			{
				IntoClause *into = ((CreateTableAsStmt *) stmt)->into;

				check_access_method(into->accessMethod != NULL ? into->accessMethod :
									default_table_access_method);
				break;
			}
		case T_AlterTableStmt:
			check_alter_table((AlterTableStmt *) stmt, source);
			check_time_literals(text);
			break;
		case T_CreateFunctionStmt:
			if (((CreateFunctionStmt *) stmt)->sql_body != NULL)
				check_time_literals(text);
			break;
		case T_ViewStmt:
		case T_RuleStmt:
		case T_CreatePolicyStmt:
		case T_AlterPolicyStmt:
		case T_CreateTrigStmt:
		case T_IndexStmt:
		case T_CreateDomainStmt:
		case T_AlterDomainStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
			check_time_literals(text);
			break;
		default:
			break;
	}
}

/* ---------- what it depends on */

/* In a schema of temporary objects?  Only of kinds that have a schema. */
static bool
object_is_temporary(Oid class, Oid object, bool *has_schema)
{
	Oid			namespace;

	switch (class)
	{
		case RelationRelationId:
			namespace = get_rel_namespace(object);
			break;
		case TypeRelationId:
			{
				HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(object));

				namespace = InvalidOid;
				if (HeapTupleIsValid(tuple))
				{
					namespace = ((Form_pg_type) GETSTRUCT(tuple))->typnamespace;
					ReleaseSysCache(tuple);
				}
				break;
			}
		case ProcedureRelationId:
			namespace = get_func_namespace(object);
			break;
		default:
			namespace = InvalidOid;
			break;
	}
	*has_schema = OidIsValid(namespace);
	return *has_schema && isAnyTempNamespace(namespace);
}

/*
 * A name in the command may mean a temporary table or its type here and
 * something else on another node, and the end of this session would drop the
 * permanent object that depends on it.  Dependencies are few; those made by
 * this transaction are looked at, and only in a session with temporary objects.
 */
void
ddl_check_dependencies(void)
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
		bool		has_schema;

		if (TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
			object_is_temporary(form->refclassid, form->refobjid, &has_schema) &&
			!object_is_temporary(form->classid, form->objid, &has_schema) && has_schema)
			refuse("a permanent object that depends on a temporary one",
				   "Temporary objects exist in this session only.",
				   "Name the schema of the permanent object that is meant.");
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}
