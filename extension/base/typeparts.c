/*
 * typeparts.c
 *	  The types that a type is made of.
 *
 * An array consists of its elements, a row of its attributes, a range of its bounds, and
 * each of these again of its parts.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "typeparts.h"

static bool
every_attribute(Oid composite, TypePredicate predicate)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(composite, -1);
	bool		all = true;
	int			i;

	for (i = 0; i < desc->natts && all; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			all = predicate(att->atttypid, att->attcollation);
	}
	ReleaseTupleDesc(desc);
	return all;
}

bool
typeparts_every(Oid type, Oid collation, TypePredicate predicate, bool otherwise)
{
	Oid			element = get_element_type(type);

	if (OidIsValid(element))
		return predicate(element, collation);
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			return every_attribute(type, predicate);
		case TYPTYPE_RANGE:
			return predicate(get_range_subtype(type), get_range_collation(type));
		case TYPTYPE_MULTIRANGE:
			return predicate(get_multirange_range(type), InvalidOid);
		default:
			return otherwise;
	}
}

bool
typeparts_is_reg(Oid type)
{
	switch (type)
	{
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGNAMESPACEOID:
		case REGROLEOID:
			return true;
		default:
			return false;
	}
}
