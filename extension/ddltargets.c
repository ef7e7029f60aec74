/*
 * ddltargets.c
 *	  Which objects a utility command names: are they temporary, and which
 *	  table keys does the command need?
 *
 * A command on temporary objects only stays on this node; one on permanent
 * objects needs X on the tables whose rows or whose writers it may concern, or
 * on the database when they can't be told (DROP ... CASCADE, a function that
 * expressions of tables use).  A command that no row depends on - a new type,
 * a comment, a grant - needs none: the ddl lock and IX on the database keep it
 * in order.
 *
 * Names are resolved as the command itself will do, without locks.  What is
 * not found counts as permanent: the command will fail, or do nothing, in the
 * same way everywhere.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/heap.h"
#include "catalog/index.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_func.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "ddl.h"
#include "keyset.h"

/* ---------- keys */

static void
add_key(DdlTargets *t, LsKey key)
{
	int			i;

	for (i = 0; i < t->nkeys; i++)
	{
		if (t->keys[i].hash == key.hash)
			return;
	}
	if (t->nkeys == t->maxkeys)
	{
		t->maxkeys = Max(16, t->maxkeys * 2);
		t->keys = t->keys == NULL ? palloc(t->maxkeys * sizeof(LsKey)) :
			repalloc(t->keys, t->maxkeys * sizeof(LsKey));
	}
	t->keys[t->nkeys++] = key;
}

static void
add_name(DdlTargets *t, Oid namespace, const char *name)
{
	char	   *schema = get_namespace_name(namespace);

	if (schema != NULL)
		add_key(t, keyset_table_key(schema, name, LS_TABLE_X));
}

/* The key of a relation; an index stands for its table. */
static void
add_relation(DdlTargets *t, Oid relid)
{
	char	   *name;

	if (get_rel_relkind(relid) == RELKIND_INDEX ||
		get_rel_relkind(relid) == RELKIND_PARTITIONED_INDEX)
		relid = IndexGetRelation(relid, true);
	name = get_rel_name(relid);
	if (name != NULL)
		add_name(t, get_rel_namespace(relid), name);
}

static void
add_relations(DdlTargets *t, List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		add_relation(t, lfirst_oid(lc));
}

/* ---------- what is temporary, what is ours */

/*
 * A toast table, which is named by the OID of its table, is how a node stores
 * rows: what is done to it by name stays here, as with a temporary one.
 */
static void
count_namespace(DdlTargets *t, Oid namespace)
{
	if (OidIsValid(namespace) && (isAnyTempNamespace(namespace) || IsToastNamespace(namespace)))
		t->ntemporary++;
	else
		t->npermanent++;
	if (OidIsValid(namespace) && namespace == ls_schema_oid())
		t->ours = true;
}

static bool
is_temporary(Oid relid)
{
	return OidIsValid(relid) && (get_rel_persistence(relid) == RELPERSISTENCE_TEMP ||
								 IsToastNamespace(get_rel_namespace(relid)));
}

/* An existing relation that the command changes, InvalidOid if there is none. */
static Oid
target_relation(DdlTargets *t, RangeVar *rv, bool with_children)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);

	count_namespace(t, OidIsValid(relid) ? get_rel_namespace(relid) : InvalidOid);
	if (!OidIsValid(relid) || is_temporary(relid))
		return relid;
	add_relation(t, relid);
	if (with_children && rv->inh)
		add_relations(t, find_all_inheritors(relid, NoLock, NULL));
	return relid;
}

/* An existing relation that is needed, but not changed in itself. */
static void
source_relation(DdlTargets *t, RangeVar *rv)
{
	if (is_temporary(RangeVarGetRelid(rv, NoLock, true)))
		t->reads_temporary = true;
}

/* The same, where PostgreSQL itself refuses a temporary one. */
static void
needed_relation(DdlTargets *t, RangeVar *rv)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);

	if (OidIsValid(relid) && !is_temporary(relid))
		add_relation(t, relid);
}

/* A relation that the command creates. */
static void
target_new_relation(DdlTargets *t, RangeVar *rv)
{
	Oid			namespace;

	if (rv->relpersistence == RELPERSISTENCE_TEMP)
	{
		t->ntemporary++;
		return;
	}
	namespace = RangeVarGetCreationNamespace(rv);
	count_namespace(t, namespace);
	add_name(t, namespace, rv->relname);
}

/* A function, type ... that the command creates. */
static void
target_new_object(DdlTargets *t, List *names)
{
	char	   *name;

	count_namespace(t, QualifiedNameGetCreationNamespace(names, &name));
}

/* Of a temporary table, an array of it, a domain over them. */
static bool
type_is_temporary(Oid type)
{
	Oid			base = OidIsValid(type) ? getBaseType(type) : InvalidOid;
	Oid			element = get_element_type(base);
	Oid			relid = get_typ_typrelid(OidIsValid(element) ? element : base);

	return OidIsValid(relid) && isAnyTempNamespace(get_rel_namespace(relid));
}

static void
target_type(DdlTargets *t, TypeName *name)
{
	Oid			type = LookupTypeNameOid(NULL, name, true);
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

	if (!HeapTupleIsValid(tuple))
	{
		count_namespace(t, InvalidOid);
		return;
	}
	if (type_is_temporary(type))
		t->ntemporary++;
	else
		count_namespace(t, ((Form_pg_type) GETSTRUCT(tuple))->typnamespace);
	ReleaseSysCache(tuple);
}

/* A domain over rows of a temporary table goes with it, as a function does. */
static void
target_new_domain(DdlTargets *t, CreateDomainStmt *stmt)
{
	if (type_is_temporary(LookupTypeNameOid(NULL, stmt->typeName, true)))
		t->ntemporary++;
	else
		target_new_object(t, stmt->domainname);
}

/*
 * A function that takes or returns rows of a temporary table goes with that
 * table, at the end of the session at the latest.  No other node can have it.
 */
static bool
function_is_temporary(Oid function)
{
	Oid		   *types;
	char	  **names;
	char	   *modes;
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		found;
	int			n;

	if (!HeapTupleIsValid(tuple))
		return false;
	found = type_is_temporary(((Form_pg_proc) GETSTRUCT(tuple))->prorettype);
	n = get_func_arg_info(tuple, &types, &names, &modes);
	while (n-- > 0)
		found |= type_is_temporary(types[n]);
	ReleaseSysCache(tuple);
	return found;
}

static void
target_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function)
{
	Oid			oid = LookupFuncWithArgs(type, function, true);

	if (OidIsValid(oid) && function_is_temporary(oid))
		t->ntemporary++;
	else
		count_namespace(t, OidIsValid(oid) ? get_func_namespace(oid) : InvalidOid);
}

static void
target_new_function(DdlTargets *t, CreateFunctionStmt *stmt)
{
	bool		temporary = stmt->returnType != NULL &&
	type_is_temporary(LookupTypeNameOid(NULL, stmt->returnType, true));
	ListCell   *lc;

	foreach(lc, stmt->parameters)
		temporary |= type_is_temporary(LookupTypeNameOid(NULL, lfirst_node(FunctionParameter, lc)->argType, true));
	if (temporary)
		t->ntemporary++;
	else
		target_new_object(t, stmt->funcname);
}

static bool
is_function(ObjectType type)
{
	return type == OBJECT_FUNCTION || type == OBJECT_PROCEDURE ||
		type == OBJECT_ROUTINE || type == OBJECT_AGGREGATE;
}

/* ---------- what depends on an object that changes */

static void
add_dependents(DdlTargets *t, Oid class, Oid object)
{
	List	   *relids = NIL;
	ListCell   *lc;

	if (!OidIsValid(object))
		return;
	if (!ddl_dependent_tables(class, object, &relids))
		t->whole_database = true;
	foreach(lc, relids)
	{
		if (!is_temporary(lfirst_oid(lc)))
			add_relation(t, lfirst_oid(lc));
	}
}

static void
changed_type(DdlTargets *t, TypeName *name)
{
	target_type(t, name);
	add_dependents(t, TypeRelationId, LookupTypeNameOid(NULL, name, true));
}

static void
changed_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function)
{
	target_function(t, type, function);
	add_dependents(t, ProcedureRelationId, LookupFuncWithArgs(type, function, true));
}

/* CREATE OR REPLACE: all functions of the name, whatever their arguments. */
static void
replaced_functions(DdlTargets *t, List *names)
{
	FuncCandidateList c;

	for (c = FuncnameGetCandidates(names, -1, NIL, false, false, false, true); c != NULL; c = c->next)
		add_dependents(t, ProcedureRelationId, c->oid);
}

/* Named by a list of identifiers, of a kind that we don't look up. */
static void
target_name(DdlTargets *t, List *names)
{
	if (list_length(names) > 1 && IsA(linitial(names), String))
		count_namespace(t, LookupExplicitNamespace(strVal(linitial(names)), true));
	else
		count_namespace(t, InvalidOid);
}

/* Something that is no relation. */
static void
target_object(DdlTargets *t, ObjectType type, Node *object)
{
	if (object != NULL && is_function(type))
		target_function(t, type, castNode(ObjectWithArgs, object));
	else if (object != NULL && IsA(object, List))
		target_name(t, (List *) object);
	else
		t->npermanent++;
}

static void
target_schema(DdlTargets *t, const char *name)
{
	count_namespace(t, get_namespace_oid(name, true));
}

/* ---------- foreign keys */

/* The tables at the other end of a table's foreign keys. */
static void
add_fk_neighbours(DdlTargets *t, Oid relid, bool parents, bool children)
{
	Relation	constraints = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(constraints, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint c = (Form_pg_constraint) GETSTRUCT(tuple);

		if (c->contype != CONSTRAINT_FOREIGN)
			continue;
		if (parents && c->conrelid == relid)
			add_relation(t, c->confrelid);
		if (children && c->confrelid == relid)
			add_relation(t, c->conrelid);
	}
	systable_endscan(scan);
	table_close(constraints, AccessShareLock);
}

static void
source_of_constraint(DdlTargets *t, Node *node)
{
	Constraint *constraint = (Constraint *) node;

	if (IsA(node, Constraint) && constraint->contype == CONSTR_FOREIGN)
		needed_relation(t, constraint->pktable);
}

static void
sources_of_column(DdlTargets *t, ColumnDef *column)
{
	ListCell   *lc;

	foreach(lc, column->constraints)
		source_of_constraint(t, lfirst(lc));
}

/* ---------- commands on tables */

static void
targets_of_create(DdlTargets *t, CreateStmt *stmt)
{
	ListCell   *lc;

	target_new_relation(t, stmt->relation);
	foreach(lc, stmt->inhRelations)
		needed_relation(t, lfirst_node(RangeVar, lc));
	foreach(lc, stmt->tableElts)
	{
		Node	   *element = lfirst(lc);

		if (IsA(element, ColumnDef))
			sources_of_column(t, (ColumnDef *) element);
		else if (IsA(element, TableLikeClause))
		{
			if (!ddl_like_is_written_out((TableLikeClause *) element))
				source_relation(t, ((TableLikeClause *) element)->relation);
		}
		else
			source_of_constraint(t, element);
	}
	foreach(lc, stmt->constraints)
		source_of_constraint(t, lfirst(lc));
}

static void
targets_of_alter_table_command(DdlTargets *t, Oid relid, AlterTableCmd *cmd)
{
	if (cmd->behavior == DROP_CASCADE)
		t->whole_database = true;
	switch (cmd->subtype)
	{
		case AT_SetLogged:
			if (OidIsValid(relid) && get_rel_persistence(relid) == RELPERSISTENCE_UNLOGGED)
				t->makes_logged = true;
			break;
		case AT_AddColumn:
			sources_of_column(t, castNode(ColumnDef, cmd->def));
			break;
		case AT_AddConstraint:
			source_of_constraint(t, cmd->def);
			break;
		case AT_AttachPartition:
		case AT_DetachPartition:
			needed_relation(t, castNode(PartitionCmd, cmd->def)->name);
			break;
		case AT_AddInherit:
		case AT_DropInherit:
			needed_relation(t, castNode(RangeVar, cmd->def));
			break;
		case AT_DropColumn:
		case AT_DropConstraint:
		case AT_AlterColumnType:
			if (OidIsValid(relid))
				add_fk_neighbours(t, relid, true, true);
			break;
		default:
			break;
	}
}

static void
targets_of_alter_table(DdlTargets *t, AlterTableStmt *stmt)
{
	Oid			relid;
	ListCell   *lc;

	relid = target_relation(t, stmt->relation, true);
	if (stmt->objtype == OBJECT_TYPE)
		add_dependents(t, RelationRelationId, relid);
	foreach(lc, stmt->cmds)
		targets_of_alter_table_command(t, relid, lfirst_node(AlterTableCmd, lc));
}

/* TRUNCATE ... CASCADE reaches all tables that refer to these, and so on. */
static void
targets_of_truncate(DdlTargets *t, TruncateStmt *stmt)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = target_relation(t, rv, true);

		if (!OidIsValid(relid))
			continue;
		relids = list_concat_unique_oid(relids, rv->inh ?
										find_all_inheritors(relid, NoLock, NULL) :
										list_make1_oid(relid));
	}
	t->separable = true;
	if (stmt->behavior == DROP_CASCADE)
	{
		List	   *more = relids;

		while (more != NIL)
		{
			more = list_difference_oid(heap_truncate_find_FKs(relids), relids);
			add_relations(t, more);
			relids = list_concat_copy(relids, more);
		}
	}
	if (stmt->restart_seqs)
		foreach(lc, relids)
			add_relations(t, getOwnedSequences(lfirst_oid(lc)));
}

static void
targets_of_lock(DdlTargets *t, LockStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		Oid			relid = target_relation(t, lfirst_node(RangeVar, lc), true);

		/* it locks the tables that the view reads, wherever they are */
		if (OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_VIEW)
			t->whole_database = true;
	}
}

static bool
view_reads_temporary(ViewStmt *stmt, PlannedStmt *pstmt, const char *source)
{
	RawStmt    *raw;

	if (!OidIsValid(LookupExplicitNamespace("pg_temp", true)))
		return false;			/* there are none in this session */
	raw = makeNode(RawStmt);
	raw->stmt = copyObject(stmt->query);
	raw->stmt_location = pstmt->stmt_location;
	raw->stmt_len = pstmt->stmt_len;
	return isQueryUsingTempRelation(parse_analyze_fixedparams(raw, source, NULL, 0, NULL));
}

/* A view that reads a temporary table is made temporary by the command. */
static void
targets_of_view(DdlTargets *t, ViewStmt *stmt, PlannedStmt *pstmt, const char *source)
{
	if (view_reads_temporary(stmt, pstmt, source))
		t->ntemporary++;
	else
		target_new_relation(t, stmt->view);
}

static void
targets_of_rename(DdlTargets *t, RenameStmt *stmt)
{
	Oid			relid;

	switch (stmt->renameType)
	{
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
			relid = target_relation(t, stmt->relation, false);
			if (OidIsValid(relid) && !is_temporary(relid))
				add_name(t, get_rel_namespace(relid), stmt->newname);
			break;
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			(void) target_relation(t, stmt->relation, true);
			break;
		case OBJECT_SCHEMA:
			target_schema(t, stmt->subname);
			t->whole_database = true;
			break;
		case OBJECT_ROLE:
			t->npermanent++;
			break;
		default:
			target_object(t, stmt->renameType, stmt->object);
			t->whole_database = true;
			break;
	}
}

static void
targets_of_set_schema(DdlTargets *t, AlterObjectSchemaStmt *stmt)
{
	Oid			namespace = get_namespace_oid(stmt->newschema, true);

	if (OidIsValid(namespace) && namespace == ls_schema_oid())
		t->ours = true;
	if (stmt->relation == NULL)
	{
		target_object(t, stmt->objectType, stmt->object);
		t->whole_database = true;
		return;
	}
	(void) target_relation(t, stmt->relation, false);
	if (OidIsValid(namespace))
		add_name(t, namespace, stmt->relation->relname);
}

/* ---------- DROP */

static Oid
namespace_of_statistics(List *names)
{
	HeapTuple	tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(get_statistics_object_oid(names, true)));
	Oid			namespace;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	namespace = ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxnamespace;
	ReleaseSysCache(tuple);
	return namespace;
}

static void
target_of_drop(DdlTargets *t, ObjectType type, Node *object)
{
	List	   *names = IsA(object, List) ? (List *) object : NIL;
	Oid			relid;

	switch (type)
	{
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
			relid = target_relation(t, makeRangeVarFromNameList(names), true);
			if (type == OBJECT_TABLE && OidIsValid(relid) && !is_temporary(relid))
				add_fk_neighbours(t, relid, true, false);
			break;
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			names = list_truncate(list_copy(names), list_length(names) - 1);
			(void) target_relation(t, makeRangeVarFromNameList(names), true);
			break;
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			target_type(t, castNode(TypeName, object));
			break;
		case OBJECT_SCHEMA:
			target_schema(t, strVal(object));
			break;
		case OBJECT_STATISTIC_EXT:
			count_namespace(t, namespace_of_statistics(names));
			break;
		default:
			target_object(t, type, object);
			break;
	}
}

static Oid
owner_of_lockstep(void)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(extensions, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		if (ddl_is_lockstep(NameStr(form->extname)))
			owner = form->extowner;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return owner;
}

/* Who owns lockstep would drop it. */
static void
targets_of_drop_owned(DdlTargets *t, DropOwnedStmt *stmt)
{
	Oid			owner = owner_of_lockstep();
	ListCell   *lc;

	foreach(lc, stmt->roles)
	{
		if (get_rolespec_oid(lfirst_node(RoleSpec, lc), true) == owner)
			t->ours = true;
	}
	t->npermanent++;
	t->whole_database = true;
}

/* Without CASCADE no row can depend on what is dropped, but a table's own. */
static void
targets_of_drop(DdlTargets *t, DropStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->objects)
		target_of_drop(t, stmt->removeType, lfirst(lc));
	if (stmt->behavior == DROP_CASCADE)
		t->whole_database = true;
	t->separable = ddl_drops_relations(stmt);
}

/* ---------- commands that no row depends on */

static void
targets_of_comment(DdlTargets *t, CommentStmt *stmt)
{
	List	   *names = IsA(stmt->object, List) ? list_copy((List *) stmt->object) : NIL;
	DdlTargets	keyless = {0};

	switch (stmt->objtype)
	{
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			names = list_truncate(names, list_length(names) - 1);
			/* FALLTHROUGH */
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
			(void) target_relation(&keyless, makeRangeVarFromNameList(names), false);
			t->ntemporary += keyless.ntemporary;
			t->npermanent += keyless.npermanent;
			break;
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			target_type(t, castNode(TypeName, stmt->object));
			break;
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
		case OBJECT_AGGREGATE:
			target_function(t, stmt->objtype, castNode(ObjectWithArgs, stmt->object));
			break;
		default:
			t->npermanent++;
			break;
	}
}

static void
targets_of_grant(DdlTargets *t, GrantStmt *stmt)
{
	ListCell   *lc;

	if (stmt->targtype != ACL_TARGET_OBJECT ||
		(stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_SEQUENCE))
	{
		t->npermanent++;
		return;
	}
	foreach(lc, stmt->objects)
	{
		if (is_temporary(RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true)))
			t->ntemporary++;
		else
			t->npermanent++;
	}
}

static void
targets_of_statistics(DdlTargets *t, CreateStatsStmt *stmt)
{
	Node	   *relation = linitial(stmt->relations);

	if (IsA(relation, RangeVar))
		(void) target_relation(t, (RangeVar *) relation, false);
	else
		t->npermanent++;
}

/* ---------- all */

static void
collect(DdlTargets *t, PlannedStmt *pstmt, const char *source)
{
	Node	   *stmt = pstmt->utilityStmt;

	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			targets_of_create(t, (CreateStmt *) stmt);
			break;
		case T_AlterTableStmt:
			targets_of_alter_table(t, (AlterTableStmt *) stmt);
			break;
		case T_CreateForeignTableStmt:
			targets_of_create(t, &((CreateForeignTableStmt *) stmt)->base);
			break;
		case T_CreateTableAsStmt:
			target_new_relation(t, ((CreateTableAsStmt *) stmt)->into->rel);
			break;
		case T_RefreshMatViewStmt:
			(void) target_relation(t, ((RefreshMatViewStmt *) stmt)->relation, false);
			break;
		case T_IndexStmt:
			(void) target_relation(t, ((IndexStmt *) stmt)->relation, true);
			break;
		case T_TruncateStmt:
			targets_of_truncate(t, (TruncateStmt *) stmt);
			break;
		case T_ClusterStmt:
			(void) target_relation(t, ((ClusterStmt *) stmt)->relation, true);
			break;
		case T_LockStmt:
			targets_of_lock(t, (LockStmt *) stmt);
			break;
		case T_ViewStmt:
			targets_of_view(t, (ViewStmt *) stmt, pstmt, source);
			break;
		case T_RuleStmt:
			(void) target_relation(t, ((RuleStmt *) stmt)->relation, false);
			break;
		case T_CreateTrigStmt:
			(void) target_relation(t, ((CreateTrigStmt *) stmt)->relation, true);
			if (((CreateTrigStmt *) stmt)->constrrel != NULL)
				needed_relation(t, ((CreateTrigStmt *) stmt)->constrrel);
			break;
		case T_CreatePolicyStmt:
			(void) target_relation(t, ((CreatePolicyStmt *) stmt)->table, false);
			break;
		case T_AlterPolicyStmt:
			(void) target_relation(t, ((AlterPolicyStmt *) stmt)->table, false);
			break;
		case T_CreateSeqStmt:
			target_new_relation(t, ((CreateSeqStmt *) stmt)->sequence);
			break;
		case T_AlterSeqStmt:
			(void) target_relation(t, ((AlterSeqStmt *) stmt)->sequence, false);
			break;
		case T_CompositeTypeStmt:
			target_new_relation(t, ((CompositeTypeStmt *) stmt)->typevar);
			break;
		case T_CreateStatsStmt:
			targets_of_statistics(t, (CreateStatsStmt *) stmt);
			break;
		case T_RenameStmt:
			targets_of_rename(t, (RenameStmt *) stmt);
			break;
		case T_AlterObjectSchemaStmt:
			targets_of_set_schema(t, (AlterObjectSchemaStmt *) stmt);
			break;
		case T_DropStmt:
			targets_of_drop(t, (DropStmt *) stmt);
			break;
		case T_DropOwnedStmt:
			targets_of_drop_owned(t, (DropOwnedStmt *) stmt);
			break;
		case T_CommentStmt:
			targets_of_comment(t, (CommentStmt *) stmt);
			break;
		case T_GrantStmt:
			targets_of_grant(t, (GrantStmt *) stmt);
			break;
		case T_CreateSchemaStmt:
			t->npermanent++;
			t->whole_database = ((CreateSchemaStmt *) stmt)->schemaElts != NIL;
			break;
		case T_CreateEnumStmt:
			target_new_object(t, ((CreateEnumStmt *) stmt)->typeName);
			break;
		case T_CreateRangeStmt:
			target_new_object(t, ((CreateRangeStmt *) stmt)->typeName);
			break;
		case T_CreateDomainStmt:
			target_new_domain(t, (CreateDomainStmt *) stmt);
			break;
		case T_DefineStmt:
			target_new_object(t, ((DefineStmt *) stmt)->defnames);
			t->whole_database = ((DefineStmt *) stmt)->replace;
			break;
		case T_CreateFunctionStmt:
			target_new_function(t, (CreateFunctionStmt *) stmt);
			if (((CreateFunctionStmt *) stmt)->replace)
				replaced_functions(t, ((CreateFunctionStmt *) stmt)->funcname);
			break;
		case T_AlterFunctionStmt:
			changed_function(t, ((AlterFunctionStmt *) stmt)->objtype,
							 ((AlterFunctionStmt *) stmt)->func);
			break;
		case T_AlterEnumStmt:
			/* a new label is in no row yet; a renamed one may be on its way */
			if (((AlterEnumStmt *) stmt)->oldVal != NULL)
				changed_type(t, makeTypeNameFromNameList(((AlterEnumStmt *) stmt)->typeName));
			else
				target_type(t, makeTypeNameFromNameList(((AlterEnumStmt *) stmt)->typeName));
			break;
		case T_AlterDomainStmt:
			changed_type(t, makeTypeNameFromNameList(((AlterDomainStmt *) stmt)->typeName));
			break;
		case T_AlterTypeStmt:
			changed_type(t, makeTypeNameFromNameList(((AlterTypeStmt *) stmt)->typeName));
			break;
		case T_AlterStatsStmt:
		case T_AlterOwnerStmt:
		case T_AlterObjectDependsStmt:
		case T_AlterDefaultPrivilegesStmt:
		case T_ReassignOwnedStmt:
		case T_CreateEventTrigStmt:
		case T_AlterEventTrigStmt:
		case T_CreatePLangStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_AlterRoleSetStmt:
		case T_AlterDatabaseSetStmt:
		case T_DropRoleStmt:
		case T_GrantRoleStmt:
		case T_CreateCastStmt:
		case T_CreateConversionStmt:
		case T_CreateTransformStmt:
		case T_CreateOpClassStmt:
		case T_CreateOpFamilyStmt:
		case T_SecLabelStmt:
		case T_CreateAmStmt:
		case T_CreateFdwStmt:
		case T_AlterFdwStmt:
		case T_CreateForeignServerStmt:
		case T_AlterForeignServerStmt:
		case T_CreateUserMappingStmt:
		case T_AlterUserMappingStmt:
		case T_DropUserMappingStmt:
		case T_CreatePublicationStmt:
		case T_AlterPublicationStmt:
			t->npermanent++;
			break;
		default:
			t->npermanent++;
			t->whole_database = true;
			break;
	}
}

void
ddl_targets(PlannedStmt *pstmt, const char *source, DdlTargets *targets)
{
	int			quiet = settings_begin_quiet();
	List	   *large_objects;
	ListCell   *lc;

	memset(targets, 0, sizeof(*targets));
	if (largeobject_named_by(pstmt->utilityStmt, &large_objects))
	{
		targets->npermanent++;
		foreach(lc, large_objects)
			add_key(targets, keyset_large_object_key(lfirst_oid(lc)));
	}
	else
		collect(targets, pstmt, source);

	/* X on the database is X on all of its tables */
	if (targets->whole_database)
		targets->nkeys = 0;
	add_key(targets, keyset_database_key(targets->whole_database ? LS_TABLE_X : LS_TABLE_IX));
	settings_end_quiet(quiet);
}
