/*
 * ddldepend.c
 *	  Which tables depend on an object that is changed: a function, a type, a domain, an
 *	  operator?
 *
 * Their rows may mean something else afterwards, so the command takes X on them.
 * Dependencies are followed through pg_depend.  For a default, a constraint, a rule, a
 * trigger or a policy, which is part of a table, that table is the dependent one.
 *
 * Takes no locks.  Only DDL could change the result meanwhile; other nodes cannot run any
 * while this transaction holds the ddl lock, and the search is repeated when the lock has been granted.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "ddl.h"

/* Beyond that many the caller takes the database. */
#define MAX_OBJECTS 2000

typedef struct Search
{
	Relation	depend;
	int			nobjects;
	ObjectAddress *objects;		/* found so far; also what remains to be
								 * looked at */
	List	   *tables;
} Search;

static bool
is_known(const Search *s, Oid class, Oid object)
{
	int			i;

	for (i = 0; i < s->nobjects; i++)
	{
		if (s->objects[i].classId == class && s->objects[i].objectId == object)
			return true;
	}
	return false;
}

static void
add_object(Search *s, Oid class, Oid object)
{
	if (s->nobjects >= MAX_OBJECTS || is_known(s, class, object))
		return;
	s->objects[s->nobjects].classId = class;
	s->objects[s->nobjects].objectId = object;
	s->nobjects++;
}

/* What is a part of a table, and where its catalog says of which. */
static const struct
{
	Oid			class;
	Oid			index;
	AttrNumber	oid;
	AttrNumber	relid;
}			parts[] =

{
	{AttrDefaultRelationId, AttrDefaultOidIndexId, Anum_pg_attrdef_oid, Anum_pg_attrdef_adrelid},
	{ConstraintRelationId, ConstraintOidIndexId, Anum_pg_constraint_oid, Anum_pg_constraint_conrelid},
	{RewriteRelationId, RewriteOidIndexId, Anum_pg_rewrite_oid, Anum_pg_rewrite_ev_class},
	{TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, Anum_pg_trigger_tgrelid},
	{PolicyRelationId, PolicyOidIndexId, Anum_pg_policy_oid, Anum_pg_policy_polrelid},
	{StatisticExtRelationId, StatisticExtOidIndexId, Anum_pg_statistic_ext_oid, Anum_pg_statistic_ext_stxrelid},
};

static int
part_of_table(Oid class)
{
	int			i;

	for (i = 0; i < lengthof(parts); i++)
	{
		if (parts[i].class == class)
			return i;
	}
	return -1;
}

static Oid
oid_of_column(HeapTuple tuple, AttrNumber column, Relation catalog)
{
	bool		isnull;

	return DatumGetObjectId(heap_getattr(tuple, column, RelationGetDescr(catalog), &isnull));
}

ObjectAddress
ddl_whole_of(Oid class, Oid object)
{
	ObjectAddress whole = {class, object, 0};
	int			part = part_of_table(class);
	Relation	catalog;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (part < 0)
		return whole;
	ObjectAddressSet(whole, RelationRelationId, InvalidOid);
	catalog = table_open(class, AccessShareLock);
	ScanKeyInit(&key, parts[part].oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(catalog, parts[part].index, true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		whole.objectId = oid_of_column(tuple, parts[part].relid, catalog);
		if (class == ConstraintRelationId && !OidIsValid(whole.objectId))
			ObjectAddressSet(whole, TypeRelationId, oid_of_column(tuple, Anum_pg_constraint_contypid, catalog));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return whole;
}

/* Relations that an object depends on: the table that it is a part of is one. */
static void
add_tables_of(Search *s, const ObjectAddress *object)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object->classId));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object->objectId));
	scan = systable_beginscan(s->depend, DependDependerIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == RelationRelationId)
			add_object(s, RelationRelationId, form->refobjid);
	}
	systable_endscan(scan);
}

static void
add_dependents_of(Search *s, const ObjectAddress *object)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object->classId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object->objectId));
	scan = systable_beginscan(s->depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		add_object(s, form->classid, form->objid);
	}
	systable_endscan(scan);
}

bool
ddl_dependent_tables(Oid class, Oid object, List **relids)
{
	Search		s;
	bool		all;
	int			i;

	memset(&s, 0, sizeof(s));
	s.objects = palloc(MAX_OBJECTS * sizeof(ObjectAddress));
	s.depend = table_open(DependRelationId, AccessShareLock);
	add_object(&s, class, object);
	for (i = 0; i < s.nobjects; i++)
	{
		ObjectAddress at = s.objects[i];

		if (at.classId == RelationRelationId)
			*relids = list_append_unique_oid(*relids, at.objectId);
		else if (part_of_table(at.classId) >= 0)
			add_tables_of(&s, &at);
		add_dependents_of(&s, &at);
	}
	table_close(s.depend, AccessShareLock);
	all = s.nobjects < MAX_OBJECTS;
	pfree(s.objects);
	return all;
}
