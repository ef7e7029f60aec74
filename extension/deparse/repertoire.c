/*
 * repertoire.c
 *	  Are the characters of a value valid in the database's encoding?
 *
 * The server accepts only valid text from clients.  But C code, or a cast WITHOUT FUNCTION
 * from bytea, can make texts with NUL bytes or bytes that are invalid in the encoding.
 * Another node could not read them, a parameter cannot even contain a NUL, and
 * PostgreSQL would not restore them from a dump.  They are refused when they are captured.
 *
 * Plain ASCII is recognized where the bytes are copied anyway.  The output of a type
 * that contains texts (an array, a row) omits what follows a NUL byte; such
 * values are checked before their output.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#include "lockstep.h"
#include "relation.h"
#include "repertoire.h"
#include "typeparts.h"

/* ---------- saying no */

/* r is NULL: it is no value of a row. */
static void
refuse(const LsRelation *r, AttrNumber attnum, const char *at, size_t len)
{
	StringInfoData bytes;
	size_t		shown = Min((size_t) pg_encoding_mblen(GetDatabaseEncoding(), at), len);

	initStringInfo(&bytes);
	for (size_t i = 0; i < shown; i++)
		appendStringInfo(&bytes, "%s0x%02x", i > 0 ? " " : "", (unsigned char) at[i]);
	ereport(ERROR,
			(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
			 errmsg("invalid byte sequence for encoding \"%s\": %s", GetDatabaseEncodingName(), bytes.data),
			 r == NULL ? errdetail("The other nodes could not read it.") :
			 errdetail("The value is of column %s of table %s. The other nodes could not read it, nor could a server that a dump is restored to.",
					   r->columns[attnum - 1].name, r->name),
			 errhint("Keep arbitrary bytes in columns of type bytea.")));
}

void
repertoire_check_text(const LsRelation *r, AttrNumber attnum, const char *text, size_t len)
{
	size_t		valid = pg_encoding_verifymbstr(GetDatabaseEncoding(), text, (int) len);

	if (valid < len)
		refuse(r, attnum, text + valid, len - valid);
}

static void
check_slice(LsSlice text)
{
	if (!repertoire_is_plain((const char *) text.data, text.len))
		repertoire_check_text(NULL, InvalidAttrNumber, (const char *) text.data, text.len);
}

void
repertoire_check_query(const LsQuery *query)
{
	LsSlice		rest = query->params;
	LsSlice		value;

	check_slice(query->text);
	while (ls_next_param(&rest, &value))
		check_slice(value);
}

/* ---------- texts within values */

/* Those of which relation.c has the bytes put out as they are. */
static bool
is_common_text(Oid type)
{
	return type == TEXTOID || type == VARCHAROID || type == BPCHAROID || type == JSONOID || type == XMLOID;
}

/* Also by another name, as citext. */
static bool
is_text(Oid type)
{
	return is_common_text(type) || (type >= FirstNormalObjectId && IsBinaryCoercible(type, TEXTOID));
}

static bool
has_no_texts(Oid type, Oid collation)
{
	type = getBaseType(type);
	return !is_text(type) && typeparts_every(type, collation, has_no_texts, true);
}

bool
repertoire_hides_texts(Oid type)
{
	return !is_common_text(getBaseType(type)) && !has_no_texts(type, InvalidOid);
}

static void check_value(const LsRelation *r, AttrNumber attnum, Oid type, Datum value);

static void
check_elements(const LsRelation *r, AttrNumber attnum, Oid element, ArrayType *array)
{
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	get_typlenbyvalalign(element, &len, &byval, &align);
	deconstruct_array(array, element, len, byval, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			check_value(r, attnum, element, values[i]);
	}
}

static void
check_attributes(const LsRelation *r, AttrNumber attnum, HeapTupleHeader row)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(HeapTupleHeaderGetTypeId(row), HeapTupleHeaderGetTypMod(row));
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row),.t_data = row};
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *nulls = palloc(desc->natts * sizeof(bool));

	heap_deform_tuple(&tuple, desc, values, nulls);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!nulls[i] && !att->attisdropped && !has_no_texts(att->atttypid, att->attcollation))
			check_value(r, attnum, att->atttypid, values[i]);
	}
	ReleaseTupleDesc(desc);
}

static void
check_bounds(const LsRelation *r, AttrNumber attnum, TypeCacheEntry *type, RangeType *range)
{
	RangeBound	bounds[2];
	bool		empty;

	range_deserialize(type, range, &bounds[0], &bounds[1], &empty);
	for (int i = 0; i < 2 && !empty; i++)
	{
		if (!bounds[i].infinite)
			check_value(r, attnum, type->rngelemtype->type_id, bounds[i].val);
	}
}

static void
check_ranges(const LsRelation *r, AttrNumber attnum, TypeCacheEntry *type, MultirangeType *ranges)
{
	RangeType **each;
	int32		n;

	multirange_deserialize(type->rngtype, ranges, &n, &each);
	for (int32 i = 0; i < n; i++)
		check_bounds(r, attnum, type->rngtype, each[i]);
}

/* Of a type that is a text, or has some in it. */
static void
check_value(const LsRelation *r, AttrNumber attnum, Oid type, Datum value)
{
	type = getBaseType(type);
	if (is_text(type))
	{
		struct varlena *text = PG_DETOAST_DATUM_PACKED(value);

		if (!repertoire_is_plain(VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text)))
			repertoire_check_text(r, attnum, VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text));
	}
	else if (OidIsValid(get_element_type(type)))
		check_elements(r, attnum, get_element_type(type), DatumGetArrayTypeP(value));
	else if (get_typtype(type) == TYPTYPE_COMPOSITE)
		check_attributes(r, attnum, DatumGetHeapTupleHeader(value));
	else if (get_typtype(type) == TYPTYPE_RANGE)
		check_bounds(r, attnum, lookup_type_cache(type, TYPECACHE_RANGE_INFO), DatumGetRangeTypeP(value));
	else
		check_ranges(r, attnum, lookup_type_cache(type, TYPECACHE_MULTIRANGE_INFO), DatumGetMultirangeTypeP(value));
}

void
repertoire_check_inside(const LsRelation *r, AttrNumber attnum, Datum value)
{
	check_value(r, attnum, TupleDescAttr(r->desc, attnum - 1)->atttypid, value);
}
