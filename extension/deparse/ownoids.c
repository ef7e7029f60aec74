/*
 * ownoids.c
 *	  OIDs of types in the binary form of a value.
 *
 * The form that array_send and record_send make contains the OID of the type of the elements, or of
 * each column, and array_recv and record_recv want their own.  Such a type may have another OID on
 * each node.  So whoever reads the form puts its own there, all the way down: elements, columns and bounds of
 * ranges are of types that have such forms again.  As the type is the same on both, so is what it is made of, in
 * the same order.
 *
 *	 array		ndim, flags, OID, (size, lower bound) * ndim, then each element
 *	 row		number of columns, then for each: OID, the value
 *	 range		a byte of flags, then the bounds that there are
 *	 multirange	number of ranges, then each
 *
 * Each of them is a length (-1: null) and its bytes.  Numbers are in network byte order.
 *
 * A form that ends too early or is no such form is left to the receive function, which reports it.  In the form of the
 * regclass family (regclass_send) the OID is the value, so they have none that means the same elsewhere.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "ownoids.h"
#include "typeparts.h"

typedef struct Bytes
{
	char	   *at;
	char	   *end;
} Bytes;

/* ---------- is there one? */

static bool
has_functions(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Form_pg_type form;
	bool		has;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_type) GETSTRUCT(tuple);
	has = form->typtype != TYPTYPE_PSEUDO && OidIsValid(form->typsend) && OidIsValid(form->typreceive);
	ReleaseSysCache(tuple);
	return has;
}

static bool
part_has_form(Oid type, Oid collation)
{
	check_stack_depth();
	type = getBaseType(type);
	return has_functions(type) && !typeparts_is_reg(type) && typeparts_every(type, collation, part_has_form, true);
}

bool
ownoids_has_form(Oid type)
{
	return part_has_form(type, InvalidOid);
}

/* ---------- reading */

static bool
get_int32(Bytes *b, int32 *n)
{
	uint32		raw;

	if (b->end - b->at < (ptrdiff_t) sizeof(raw))
		return false;
	memcpy(&raw, b->at, sizeof(raw));
	b->at += sizeof(raw);
	*n = (int32) pg_ntoh32(raw);
	return true;
}

static bool
put_oid(Bytes *b, Oid oid)
{
	uint32		raw = pg_hton32(oid);

	if (b->end - b->at < (ptrdiff_t) sizeof(raw))
		return false;
	memcpy(b->at, &raw, sizeof(raw));
	b->at += sizeof(raw);
	return true;
}

/* A length and as many bytes: a value of that type. */
static bool
put_in_value(Bytes *b, Oid type)
{
	int32		len;

	if (!get_int32(b, &len) || len > b->end - b->at)
		return false;
	if (len > 0)
	{
		ownoids_put(type, b->at, len);
		b->at += len;
	}
	return true;
}

/* ---------- each kind */

static void
put_in_array(Oid element, Bytes b)
{
	int32		ndim;
	int32		flags;

	if (!get_int32(&b, &ndim) || !get_int32(&b, &flags) || !put_oid(&b, element) ||
		ndim < 0 || ndim > MAXDIM || b.end - b.at < ndim * 2 * (ptrdiff_t) sizeof(int32))
		return;
	b.at += ndim * 2 * sizeof(int32);
	while (put_in_value(&b, element))
		continue;
}

static void
put_in_row(Oid type, Bytes b)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	int32		ncolumns;
	bool		good = get_int32(&b, &ncolumns);
	int			i;

	for (i = 0; i < desc->natts && good; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			good = put_oid(&b, att->atttypid) && put_in_value(&b, att->atttypid);
	}
	ReleaseTupleDesc(desc);
}

static void
put_in_range(Oid subtype, Bytes b)
{
	if (b.at < b.end)
		b.at++;
	while (put_in_value(&b, subtype))
		continue;
}

static void
put_in_multirange(Oid range, Bytes b)
{
	int32		nranges;

	if (!get_int32(&b, &nranges))
		return;
	while (put_in_value(&b, range))
		continue;
}

void
ownoids_put(Oid type, char *bytes, int len)
{
	Bytes		b = {.at = bytes,.end = bytes + len};
	Oid			element;

	check_stack_depth();
	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
	{
		put_in_array(element, b);
		return;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_COMPOSITE:
			put_in_row(type, b);
			break;
		case TYPTYPE_RANGE:
			put_in_range(get_range_subtype(type), b);
			break;
		case TYPTYPE_MULTIRANGE:
			put_in_multirange(get_multirange_range(type), b);
			break;
		default:
			break;
	}
}
