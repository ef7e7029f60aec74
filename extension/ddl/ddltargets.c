/*
 * ddltargets.c
 *	  Which objects does a utility command name, by its kind, and which table keys does it
 *	  need?  ddlobjects.c knows the kinds of objects.
 *
 * A command on temporary objects only stays on this node.  One on permanent objects needs X on
 * the tables whose rows or writers it may concern, or on the database when they cannot be
 * determined (DROP ... CASCADE, a function that expressions of tables use).  A command that no
 * row depends on (a new type, a comment, a grant) needs none: the ddl lock and IX on the
 * database order it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/heap.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_relation.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "capture.h"
#include "compat.h"
#include "ddl.h"
#include "ddlobjects.h"
#include "keyset.h"
#include "lockstep.h"
#include "mode.h"
#include "sequence.h"
#include "sessionsettings.h"

/* ---------- commands on tables */

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
			/* of a foreign table (PostgreSQL 18) it is not */
			if (IsA(stmt, CreateForeignTableStmt) || !ddl_like_is_written_out((TableLikeClause *) element))
				source_relation(t, ((TableLikeClause *) element)->relation);
		}
		else
			source_of_constraint(t, element);
	}
	foreach(lc, stmt->constraints)
		source_of_constraint(t, lfirst(lc));
}

/*
 * The sequences of serial and identity columns, which go, move or change with their table: their positions
 * are ordered by themselves, at any time, and would have the command rolled back that has locked them unasked.
 */
static void
owned_sequences(DdlTargets *t, Oid relid)
{
	ListCell   *lc;

	if (!OidIsValid(relid) || ddl_is_temporary(relid))
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		ddl_add_relations(t, getOwnedSequences(lfirst_oid(lc)));
}

static void
targets_of_alter_table_command(DdlTargets *t, Oid relid, AlterTableCmd *cmd)
{
	if (cmd->behavior == DROP_CASCADE)
		t->whole_database = true;
	switch (cmd->subtype)
	{
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
		case AT_ChangeOwner:
		case AT_SetLogged:
		case AT_SetUnLogged:
		case AT_SetIdentity:
		case AT_DropIdentity:
			owned_sequences(t, relid);
			break;
		case AT_DropColumn:
		case AT_AlterColumnType:
			owned_sequences(t, relid);
			__attribute__((fallthrough));
		case AT_DropConstraint:
		case AT_AlterConstraint:	/* ENFORCED (18) looks at their rows */
			if (OidIsValid(relid))
				ddl_add_fk_neighbours(t, relid, true, true);
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
		ddl_add_dependents(t, RelationRelationId, relid);
	foreach(lc, stmt->cmds)
		targets_of_alter_table_command(t, relid, lfirst_node(AlterTableCmd, lc));
}

/* With all below it. */
static bool
is_foreign(Oid relid, bool inh)
{
	ListCell   *lc;

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return false;
	foreach(lc, inh ? find_all_inheritors(relid, NoLock, NULL) : NIL)
	{
		if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_FOREIGN_TABLE)
			return false;
	}
	return true;
}

/*
 * TRUNCATE ... CASCADE reaches all tables that refer to these, and so on.  Foreign tables are emptied
 * by this node alone: see applytruncate.c.
 */
static void
targets_of_truncate(DdlTargets *t, TruncateStmt *stmt)
{
	List	   *relids = NIL;
	ListCell   *lc;

	foreach(lc, stmt->relations)
	{
		RangeVar   *rv = lfirst_node(RangeVar, lc);
		Oid			relid = RangeVarGetRelid(rv, NoLock, true);

		/* its sequences are of all nodes */
		if (!stmt->restart_seqs && is_foreign(relid, rv->inh))
		{
			t->ntemporary++;
			if (pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE) == ACLCHECK_OK)
				target_hold(t, relid);
			continue;
		}
		relid = target_relation(t, rv, true);
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
			ddl_add_relations(t, more);
			relids = list_concat_copy(relids, more);
		}
	}
	foreach(lc, stmt->restart_seqs ? relids : NIL)
	{
		List	   *sequences = getOwnedSequences(lfirst_oid(lc));
		ListCell   *sequence;

		ddl_add_relations(t, sequences);
		foreach(sequence, sequences)
			sequence_note_restart(lfirst_oid(sequence));
	}
}

static void
targets_of_lock(DdlTargets *t, LockStmt *stmt)
{
	ListCell   *lc;

	t->nowait = stmt->nowait;
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
	return ls_query_is_temporary(parse_analyze_fixedparams(raw, source, NULL, 0, NULL));
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
			if (OidIsValid(relid) && !ddl_is_temporary(relid))
				ddl_add_name(t, get_rel_namespace(relid), stmt->newname);
			break;
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			(void) target_relation(t, stmt->relation, true);
			break;
		case OBJECT_ATTRIBUTE:
			(void) target_relation(t, stmt->relation, true);
			t->whole_database = true;
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
	owned_sequences(t, target_relation(t, stmt->relation, false));
	if (OidIsValid(namespace))
		ddl_add_name(t, namespace, stmt->relation->relname);
}

/* ---------- DROP */

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
			if (type == OBJECT_TABLE && OidIsValid(relid) && !ddl_is_temporary(relid))
			{
				ddl_add_fk_neighbours(t, relid, true, false);
				owned_sequences(t, relid);
			}
			break;
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			names = list_truncate(list_copy(names), list_length(names) - 1);
			(void) target_relation(t, makeRangeVarFromNameList(names), true);
			break;
		case OBJECT_SCHEMA:
			target_schema(t, strVal(object));
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

/* Lockstep's own ones may be named. */
static void
add_counts(DdlTargets *t, const DdlTargets *named)
{
	t->ntemporary += named->ntemporary;
	t->npermanent += named->npermanent;
	t->held = list_union_oid(t->held, named->held);
}

static void
targets_of_comment(DdlTargets *t, ObjectType type, Node *object)
{
	List	   *names = IsA(object, List) ? list_copy((List *) object) : NIL;
	DdlTargets	keyless = {0};

	switch (type)
	{
		case OBJECT_COLUMN:
		case OBJECT_TABCONSTRAINT:
		case OBJECT_TRIGGER:
		case OBJECT_RULE:
		case OBJECT_POLICY:
			names = list_truncate(names, list_length(names) - 1);
			__attribute__((fallthrough));
		case OBJECT_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_SEQUENCE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_INDEX:
			(void) target_relation(&keyless, makeRangeVarFromNameList(names), false);
			add_counts(t, &keyless);
			break;
		default:
			target_object(t, type, object);
			break;
	}
}

static void
targets_of_label(DdlTargets *t, SecLabelStmt *stmt)
{
	DdlTargets	named = {0};

	targets_of_comment(&named, stmt->objtype, stmt->object);
	add_counts(t, &named);
}

/* DROP EXTENSION drops its members: elsewhere a temporary one's name may be that of another object. */
static void
targets_of_extension_contents(DdlTargets *t, AlterExtensionContentsStmt *stmt)
{
	DdlTargets	named = {0};

	targets_of_comment(&named, stmt->objtype, stmt->object);
	add_counts(t, &named);
	t->whole_database = named.npermanent > 0 || named.ntemporary == 0;
}

static void
targets_of_owner(DdlTargets *t, AlterOwnerStmt *stmt)
{
	DdlTargets	named = {0};

	target_object(&named, stmt->objectType, stmt->object);
	add_counts(t, &named);
}

static void
targets_of_depends(DdlTargets *t, AlterObjectDependsStmt *stmt)
{
	DdlTargets	named = {0};

	if (stmt->relation != NULL)
		(void) target_relation(&named, stmt->relation, false);
	else
		target_object(&named, stmt->objectType, stmt->object);
	add_counts(t, &named);
}

static void
target_of_grant(DdlTargets *t, GrantStmt *stmt, Node *object)
{
	DdlTargets	keyless = {0};

	if (stmt->targtype == ACL_TARGET_ALL_IN_SCHEMA)
	{
		target_namespace(t, LookupExplicitNamespace(strVal(object), true));
		return;
	}
	switch (stmt->objtype)
	{
		case OBJECT_TABLE:
		case OBJECT_SEQUENCE:
			(void) target_relation(&keyless, castNode(RangeVar, object), false);
			add_counts(t, &keyless);
			break;
		case OBJECT_SCHEMA:
			target_schema(t, strVal(object));
			break;
		default:
			target_object(t, stmt->objtype, object);
			break;
	}
}

static void
targets_of_grant(DdlTargets *t, GrantStmt *stmt)
{
	DdlTargets	named = {0};
	ListCell   *lc;

	if (stmt->targtype == ACL_TARGET_DEFAULTS)
		t->npermanent++;
	else
	{
		foreach(lc, stmt->objects)
			target_of_grant(&named, stmt, lfirst(lc));
	}
	add_counts(t, &named);
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

/* Its tables: LIKE a temporary one is not written out here. */
static void
targets_of_schema(DdlTargets *t, CreateSchemaStmt *stmt)
{
	ListCell   *lc;

	t->npermanent++;
	t->whole_database = stmt->schemaElts != NIL;
	foreach(lc, stmt->schemaElts)
	{
		ListCell   *element;

		if (!IsA(lfirst(lc), CreateStmt))
			continue;
		foreach(element, lfirst_node(CreateStmt, lc)->tableElts)
		{
			if (IsA(lfirst(element), TableLikeClause))
				source_relation(t, lfirst_node(TableLikeClause, element)->relation);
		}
	}
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
		case T_ReindexStmt:
			(void) target_relation(t, ((ReindexStmt *) stmt)->relation, true);
			break;
		case T_TruncateStmt:
			targets_of_truncate(t, (TruncateStmt *) stmt);
			break;
		case T_LsClusterStmt:
			(void) target_relation(t, ls_clustered_table((LsClusterStmt *) stmt), true);
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
			targets_of_comment(t, ((CommentStmt *) stmt)->objtype, ((CommentStmt *) stmt)->object);
			break;
		case T_SecLabelStmt:
			targets_of_label(t, (SecLabelStmt *) stmt);
			break;
		case T_AlterExtensionContentsStmt:
			targets_of_extension_contents(t, (AlterExtensionContentsStmt *) stmt);
			break;
		case T_GrantStmt:
			targets_of_grant(t, (GrantStmt *) stmt);
			break;
		case T_AlterOwnerStmt:
			targets_of_owner(t, (AlterOwnerStmt *) stmt);
			break;
		case T_AlterObjectDependsStmt:
			targets_of_depends(t, (AlterObjectDependsStmt *) stmt);
			break;
		case T_CreateCastStmt:
			target_of_types(t, list_make2(((CreateCastStmt *) stmt)->sourcetype, ((CreateCastStmt *) stmt)->targettype));
			break;
		case T_CreateTransformStmt:
			target_of_types(t, list_make1(((CreateTransformStmt *) stmt)->type_name));
			break;
		case T_CreateConversionStmt:
			target_new_object(t, ((CreateConversionStmt *) stmt)->conversion_name);
			break;
		case T_CreateOpClassStmt:
			target_new_object(t, ((CreateOpClassStmt *) stmt)->opclassname);
			break;
		case T_CreateOpFamilyStmt:
			target_new_object(t, ((CreateOpFamilyStmt *) stmt)->opfamilyname);
			break;
		case T_AlterOpFamilyStmt:
			target_object(t, OBJECT_OPFAMILY, (Node *) lcons(NULL, list_copy(((AlterOpFamilyStmt *) stmt)->opfamilyname)));
			t->whole_database = true;
			break;
		case T_AlterOperatorStmt:
			target_object(t, OBJECT_OPERATOR, (Node *) ((AlterOperatorStmt *) stmt)->opername);
			t->whole_database = true;
			break;
		case T_AlterTSDictionaryStmt:
			target_object(t, OBJECT_TSDICTIONARY, (Node *) ((AlterTSDictionaryStmt *) stmt)->dictname);
			t->whole_database = true;
			break;
		case T_AlterTSConfigurationStmt:
			target_object(t, OBJECT_TSCONFIGURATION, (Node *) ((AlterTSConfigurationStmt *) stmt)->cfgname);
			t->whole_database = true;
			break;
		case T_CreateSchemaStmt:
			targets_of_schema(t, (CreateSchemaStmt *) stmt);
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
			target_statistics(t, ((AlterStatsStmt *) stmt)->defnames);
			break;
		case T_AlterDefaultPrivilegesStmt:
		case T_ReassignOwnedStmt:
		case T_CreateEventTrigStmt:
		case T_AlterEventTrigStmt:
		case T_CreatePLangStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_AlterRoleSetStmt:
		case T_AlterDatabaseSetStmt:
		case T_AlterDatabaseStmt:
		case T_DropRoleStmt:
		case T_GrantRoleStmt:
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

/* Is all that it changes no matter for what a name in a statement means, and for its effect? */
static bool
keeps_names(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_RefreshMatViewStmt:
		case T_CommentStmt:
		case T_SecLabelStmt:
		case T_GrantStmt:
		case T_GrantRoleStmt:
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_IndexStmt:
		case T_ReindexStmt:
		case T_CreateStatsStmt:
		case T_AlterStatsStmt:
		case T_CreatePublicationStmt:
		case T_AlterPublicationStmt:
			return true;
		default:
			return false;
	}
}

void
ddl_targets(PlannedStmt *pstmt, const char *source, DdlTargets *targets)
{
	int			quiet = sessionsettings_begin_quiet();
	List	   *large_objects;
	ListCell   *lc;

	memset(targets, 0, sizeof(*targets));
	targets->runs_script = ls_runs_script(pstmt->utilityStmt);
	targets->keeps_names = keeps_names(pstmt->utilityStmt);
	if (largeobject_named_by(pstmt->utilityStmt, &large_objects))
	{
		targets->npermanent++;
		foreach(lc, large_objects)
			ddl_add_key(targets, keyset_large_object_key(lfirst_oid(lc)));
	}
	else
		collect(targets, pstmt, source);

	/* X on the database is X on all of its tables */
	if (targets->whole_database)
		targets->nkeys = 0;
	ddl_add_key(targets, keyset_database_key(targets->whole_database ? LS_TABLE_X : LS_TABLE_IX));
	sessionsettings_end_quiet(quiet);
}
