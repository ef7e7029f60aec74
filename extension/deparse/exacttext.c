/*
 * exacttext.c
 *	  Does the text of a value give the same value back?
 *
 * Values travel as text.  The text of PostgreSQL's own types is exact, and so is that of most
 * others, but this is not guaranteed: a type that rounds its output (such as the sketches
 * of tdigest) would have different values at the origin and on the other nodes.  So the
 * output of a type that is not built in is read back and compared; a value that differs is
 * refused.
 *
 * Values are the same if their images are, or else by the type's own "=".  Some types have
 * several images of one value, such as cube, or arrays with a null bitmap but no null.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "exacttext.h"
#include "relation.h"
#include "typeparts.h"

struct LsExactText
{
	Oid			type;			/* not a domain */
	Oid			collation;
	Oid			ioparam;
	FmgrInfo	input;
	FmgrInfo	equal;			/* fn_oid is invalid: there is none */
};

/* Is it made of nothing but PostgreSQL's own types? */
static bool
is_built_in(Oid type, Oid collation)
{
	check_stack_depth();
	type = getBaseType(type);
	if (type < FirstNormalObjectId || get_typtype(type) == TYPTYPE_ENUM)
		return true;
	return typeparts_every(type, collation, is_built_in, false);
}

LsExactText *
exacttext_for(Oid type)
{
	LsExactText *e;
	Oid			input;
	Oid			equal;

	type = getBaseType(type);
	if (is_built_in(type, InvalidOid))
		return NULL;
	e = palloc0(sizeof(LsExactText));
	e->type = type;
	e->collation = get_typcollation(type);
	getTypeInputInfo(type, &input, &e->ioparam);
	fmgr_info(input, &e->input);
	equal = lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
	if (OidIsValid(equal))
		fmgr_info(get_opcode(equal), &e->equal);
	return e;
}

static bool
is_equal(LsExactText *e, Datum a, Datum b)
{
	return OidIsValid(e->equal.fn_oid) &&
		DatumGetBool(FunctionCall2Coll(&e->equal, e->collation, a, b));
}

void
exacttext_check(const LsRelation *r, AttrNumber attnum, Datum value, const char *text)
{
	const LsColumn *column = &r->columns[attnum - 1];
	LsExactText *e = column->exact_text;
	Datum		again = InputFunctionCall(&e->input, unconstify(char *, text), e->ioparam, -1);

	if (datum_image_eq(value, again, column->byval, column->len) || is_equal(e, value, again))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate a value of type %s", format_type_be(e->type)),
			 errdetail("The value is of column %s of table %s. Values travel as text, and the text of this one stands for another value.",
					   column->name, r->name),
			 errhint("Keep what it is made of, or its binary form as bytea, and make the value of it where it is needed.")));
}
