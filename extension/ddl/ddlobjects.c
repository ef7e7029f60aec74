/*
 * ddlobjects.c
 *	  One object that a utility command names: is it temporary, does it belong to lockstep,
 *	  and which keys stand for it and for what depends on it?
 *
 * Names are resolved as the command itself does it, without locks.  A missing object
 * counts as permanent: the command fails, or does nothing, in the same way on every node.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "ddl.h"
#include "ddlobjects.h"
#include "keyset.h"
#include "lockstep.h"
#include "pendingdetach.h"
#include "mode.h"

/* ---------- keys */

void
ddl_add_key(DdlTargets *t, LsKey key)
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

void
ddl_add_name(DdlTargets *t, Oid namespace, const char *name)
{
	char	   *schema = get_namespace_name(namespace);

	if (schema != NULL)
		ddl_add_key(t, keyset_table_key(schema, name, LS_TABLE_X));
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
		ddl_add_name(t, get_rel_namespace(relid), name);
}

void
ddl_add_relations(DdlTargets *t, List *relids)
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
void
target_namespace(DdlTargets *t, Oid namespace)
{
	if (OidIsValid(namespace) && (isAnyTempNamespace(namespace) || IsToastNamespace(namespace)))
		t->ntemporary++;
	else
		t->npermanent++;
	if (OidIsValid(namespace) && namespace == ls_schema_oid())
		t->ours = true;
}

static void
target_temporary(DdlTargets *t, Oid relid)
{
	t->ntemporary++;
	target_hold(t, relid);
}

/* That of another session, which only its schema's name leads to, is held by nobody here. */
void
target_hold(DdlTargets *t, Oid relid)
{
	Oid			namespace = get_rel_namespace(relid);

	if (isTempNamespace(namespace) || !isAnyTempNamespace(namespace))
		t->held = list_append_unique_oid(t->held, relid);
}

bool
ddl_is_temporary(Oid relid)
{
	return OidIsValid(relid) && (get_rel_persistence(relid) == RELPERSISTENCE_TEMP ||
								 IsToastNamespace(get_rel_namespace(relid)));
}

/* An existing relation that the command changes, InvalidOid if there is none. */
Oid
target_relation(DdlTargets *t, RangeVar *rv, bool with_children)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);

	target_namespace(t, OidIsValid(relid) ? get_rel_namespace(relid) : InvalidOid);
	if (OidIsValid(relid) && isTempNamespace(get_rel_namespace(relid)))
		target_hold(t, relid);
	if (!OidIsValid(relid) || ddl_is_temporary(relid))
		return relid;
	add_relation(t, relid);
	if (with_children && rv->inh)
	{
		ddl_add_relations(t, find_all_inheritors(relid, NoLock, NULL));
		ddl_add_relations(t, pendingdetach_below(relid));
	}
	return relid;
}

/* An existing relation that is needed, but not changed in itself. */
void
source_relation(DdlTargets *t, RangeVar *rv)
{
	if (ddl_is_temporary(RangeVarGetRelid(rv, NoLock, true)))
		t->reads_temporary = true;
}

/* The table of a type that is written as that of its column (t.a%TYPE). */
static void
source_of_type(DdlTargets *t, TypeName *name)
{
	int			n = name != NULL && name->pct_type ? list_length(name->names) - 1 : 0;

	/* of others the command will say that they are improper */
	if (n >= 1 && n <= 3)
		source_relation(t, makeRangeVarFromNameList(list_truncate(list_copy(name->names), n)));
}

/* The same, where PostgreSQL itself refuses a temporary one. */
void
needed_relation(DdlTargets *t, RangeVar *rv)
{
	Oid			relid = RangeVarGetRelid(rv, NoLock, true);

	if (OidIsValid(relid) && !ddl_is_temporary(relid))
		add_relation(t, relid);
}

/* A relation that the command creates. */
void
target_new_relation(DdlTargets *t, RangeVar *rv)
{
	Oid			namespace;

	if (rv->relpersistence == RELPERSISTENCE_TEMP)
	{
		t->ntemporary++;
		return;
	}
	namespace = RangeVarGetCreationNamespace(rv);
	target_namespace(t, namespace);
	ddl_add_name(t, namespace, rv->relname);
}

/* A function, type ... that the command creates. */
void
target_new_object(DdlTargets *t, List *names)
{
	char	   *name;

	target_namespace(t, QualifiedNameGetCreationNamespace(names, &name));
}

/* Of a temporary table, an array of it, a domain over them. */
Oid
ddl_temporary_table_of_type(Oid type)
{
	Oid			base = OidIsValid(type) ? getBaseType(type) : InvalidOid;
	Oid			element = get_element_type(base);
	Oid			relid = get_typ_typrelid(OidIsValid(element) ? element : base);

	return OidIsValid(relid) && isAnyTempNamespace(get_rel_namespace(relid)) ? relid : InvalidOid;
}

void
target_type(DdlTargets *t, TypeName *name)
{
	Oid			type = LookupTypeNameOid(NULL, name, true);
	Oid			table = ddl_temporary_table_of_type(type);
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));

	if (!HeapTupleIsValid(tuple))
	{
		target_namespace(t, InvalidOid);
		return;
	}
	if (OidIsValid(table))
		target_temporary(t, table);
	else
		target_namespace(t, ((Form_pg_type) GETSTRUCT(tuple))->typnamespace);
	ReleaseSysCache(tuple);
}

/* A domain over rows of a temporary table goes with it, as a function does. */
void
target_new_domain(DdlTargets *t, CreateDomainStmt *stmt)
{
	Oid			table = ddl_temporary_table_of_type(LookupTypeNameOid(NULL, stmt->typeName, true));

	if (OidIsValid(table))
		target_temporary(t, table);
	else
		target_new_object(t, stmt->domainname);
}

/*
 * A function that takes or returns rows of a temporary table goes with that
 * table, at the end of the session at the latest.  No other node can have it.
 */
Oid
ddl_temporary_table_of_function(Oid function)
{
	Oid		   *types;
	char	  **names;
	char	   *modes;
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			table;
	int			n;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	table = ddl_temporary_table_of_type(((Form_pg_proc) GETSTRUCT(tuple))->prorettype);
	n = get_func_arg_info(tuple, &types, &names, &modes);
	while (!OidIsValid(table) && n-- > 0)
		table = ddl_temporary_table_of_type(types[n]);
	ReleaseSysCache(tuple);
	return table;
}

/* True: there is a type among them that no other node has, or has by that name. */
static bool
target_temporary_of(DdlTargets *t, List *types)
{
	ListCell   *lc;

	foreach(lc, types)
	{
		DdlTargets	named = {0};

		if (lfirst(lc) != NULL && IsA(lfirst(lc), TypeName))
			target_type(&named, lfirst_node(TypeName, lc));
		if (named.ntemporary == 0)
			continue;
		t->ntemporary++;
		t->held = list_union_oid(t->held, named.held);
		return true;
	}
	return false;
}

/*
 * DROP ... IF EXISTS of one that is not there by temporary types does nothing; on the other nodes
 * these names may mean permanent types, for which there is one.
 */
void
target_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function)
{
	Oid			oid = LookupFuncWithArgs(type, function, true);
	Oid			table = ddl_temporary_table_of_function(oid);
	ListCell   *lc;

	foreach(lc, function->objargs)
	{
		if (lfirst(lc) != NULL)
			source_of_type(t, lfirst_node(TypeName, lc));
	}
	if (OidIsValid(table))
		target_temporary(t, table);
	else if (OidIsValid(oid) || !target_temporary_of(t, function->objargs))
		target_namespace(t, OidIsValid(oid) ? get_func_namespace(oid) : InvalidOid);
}

void
target_new_function(DdlTargets *t, CreateFunctionStmt *stmt)
{
	Oid			table = stmt->returnType == NULL ? InvalidOid :
	ddl_temporary_table_of_type(LookupTypeNameOid(NULL, stmt->returnType, true));
	ListCell   *lc;

	source_of_type(t, stmt->returnType);
	foreach(lc, stmt->parameters)
	{
		TypeName   *type = lfirst_node(FunctionParameter, lc)->argType;

		source_of_type(t, type);
		if (!OidIsValid(table))
			table = ddl_temporary_table_of_type(LookupTypeNameOid(NULL, type, true));
	}
	if (OidIsValid(table))
		target_temporary(t, table);
	else
		target_new_object(t, stmt->funcname);
}

/* ---------- what depends on an object that changes */

void
ddl_add_dependents(DdlTargets *t, Oid class, Oid object)
{
	List	   *relids = NIL;
	ListCell   *lc;

	if (!OidIsValid(object))
		return;
	if (!ddl_dependent_tables(class, object, &relids))
		t->whole_database = true;
	foreach(lc, relids)
	{
		if (!ddl_is_temporary(lfirst_oid(lc)))
			add_relation(t, lfirst_oid(lc));
	}
}

void
changed_type(DdlTargets *t, TypeName *name)
{
	target_type(t, name);
	ddl_add_dependents(t, TypeRelationId, LookupTypeNameOid(NULL, name, true));
}

void
changed_function(DdlTargets *t, ObjectType type, ObjectWithArgs *function)
{
	target_function(t, type, function);
	ddl_add_dependents(t, ProcedureRelationId, LookupFuncWithArgs(type, function, true));
}

/* CREATE OR REPLACE: all functions of the name, whatever their arguments. */
void
replaced_functions(DdlTargets *t, List *names)
{
	FuncCandidateList c;

	for (c = ls_functions_named(names); c != NULL; c = c->next)
		ddl_add_dependents(t, ProcedureRelationId, c->oid);
}

/* Named by a list of identifiers, of a kind that we don't look up. */
static void
target_name(DdlTargets *t, List *names)
{
	if (list_length(names) > 1 && IsA(linitial(names), String))
		target_namespace(t, LookupExplicitNamespace(strVal(linitial(names)), true));
	else
		target_namespace(t, InvalidOid);
}

/* What is known by types: it goes with a temporary one. */
void
target_of_types(DdlTargets *t, List *types)
{
	if (!target_temporary_of(t, types))
		t->npermanent++;
}

/* A list of a domain and the name of its constraint, or, of RENAME, the domain's name only. */
static void
target_domain(DdlTargets *t, Node *object)
{
	if (IsA(object, List) && IsA(linitial((List *) object), TypeName))
		object = linitial((List *) object);
	target_type(t, IsA(object, List) ? makeTypeNameFromNameList((List *) object) : castNode(TypeName, object));
}

static void
target_operator(DdlTargets *t, ObjectWithArgs *operator)
{
	if (!target_temporary_of(t, operator->objargs))
		target_name(t, operator->objname);
}

/* They may be in any schema; those of a temporary table go with it. */
void
target_statistics(DdlTargets *t, List *names)
{
	HeapTuple	tuple = SearchSysCache1(STATEXTOID, ObjectIdGetDatum(get_statistics_object_oid(names, true)));

	if (!HeapTupleIsValid(tuple))
	{
		target_name(t, names);
		return;
	}
	if (ddl_is_temporary(((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxrelid))
		target_temporary(t, ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxrelid);
	else
		target_namespace(t, ((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxnamespace);
	ReleaseSysCache(tuple);
}

/* Something that is no relation. */
void
target_object(DdlTargets *t, ObjectType type, Node *object)
{
	if (object == NULL)
	{
		t->npermanent++;
		return;
	}
	switch (type)
	{
		case OBJECT_FUNCTION:
		case OBJECT_PROCEDURE:
		case OBJECT_ROUTINE:
		case OBJECT_AGGREGATE:
			target_function(t, type, castNode(ObjectWithArgs, object));
			break;
		case OBJECT_OPERATOR:
			target_operator(t, castNode(ObjectWithArgs, object));
			break;
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
		case OBJECT_DOMCONSTRAINT:
			target_domain(t, object);
			break;
		case OBJECT_CAST:
		case OBJECT_TRANSFORM:
			target_of_types(t, (List *) object);
			break;
		case OBJECT_OPCLASS:
		case OBJECT_OPFAMILY:
			/* the access method comes first */
			target_name(t, list_copy_tail((List *) object, 1));
			break;
		case OBJECT_STATISTIC_EXT:
			target_statistics(t, (List *) object);
			break;
		default:
			if (IsA(object, List))
				target_name(t, (List *) object);
			else
				t->npermanent++;
			break;
	}
}

void
target_schema(DdlTargets *t, const char *name)
{
	target_namespace(t, get_namespace_oid(name, true));
}

/* ---------- foreign keys */

/* The tables at the other end of a table's foreign keys. */
void
ddl_add_fk_neighbours(DdlTargets *t, Oid relid, bool parents, bool children)
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
