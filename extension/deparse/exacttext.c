/*
 * exacttext.c
 *	  Does the text of a value give the same value back?  Does its binary form?
 *
 * Values travel as text.  The text of PostgreSQL's own types is exact, and so is that of most
 * others, but this is not guaranteed: a type that rounds its output (such as the sketches
 * of tdigest) would have different values at the origin and on the other nodes.  So the
 * output of a type that is not built in is read back and compared.  A value that differs travels in the
 * binary form of the type's send function, if the receive function makes the same of that; if it has none, or they
 * do not match either, it is refused.
 *
 * Values are the same if their images are, or else by the type's own "=".  Some types have
 * several images of one value, such as cube, or arrays with a null bitmap but no null.
 *
 * The binary form of arrays and composite types contains OIDs of types, which differ from node to node; the
 * receiver puts in its own (ownoids.c).  Send and receive functions convert texts to and from the client's encoding, for which
 * the database's is put here, as it is there.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "exacttext.h"
#include "mode.h"
#include "ownoids.h"
#include "relation.h"
#include "typeparts.h"

struct LsExactText
{
	Oid			type;			/* not a domain */
	Oid			collation;
	Oid			ioparam;
	FmgrInfo	input;
	FmgrInfo	equal;			/* fn_oid is invalid: there is none */
	FmgrInfo	send;			/* the same */
	FmgrInfo	receive;
	Oid			receive_ioparam;
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

static void
find_binary_form(LsExactText *e)
{
	Oid			function;
	bool		is_varlena;

	if (!ownoids_has_form(e->type))
		return;
	getTypeBinaryOutputInfo(e->type, &function, &is_varlena);
	fmgr_info(function, &e->send);
	getTypeBinaryInputInfo(e->type, &function, &e->receive_ioparam);
	fmgr_info(function, &e->receive);
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
	find_binary_form(e);
	return e;
}

static bool
is_equal(LsExactText *e, Datum a, Datum b)
{
	return OidIsValid(e->equal.fn_oid) &&
		DatumGetBool(FunctionCall2Coll(&e->equal, e->collation, a, b));
}

static bool
is_same(LsExactText *e, Datum a, Datum b, bool byval, int16 len)
{
	return datum_image_eq(a, b, byval, len) || is_equal(e, a, b);
}

static bytea *
send(LsExactText *e, Datum value)
{
	int			encoding = exacttext_enter_encoding();
	bytea	   *bytes = NULL;

	PG_TRY();
	{
		bytes = SendFunctionCall(&e->send, value);
	}
	PG_FINALLY();
	{
		exacttext_leave_encoding(encoding);
	}
	PG_END_TRY();
	return bytes;
}

static bool
binary_gives_back(LsExactText *e, const LsColumn *column, Datum value, const bytea * bytes)
{
	Datum		again = exacttext_receive(&e->receive, e->receive_ioparam, InvalidOid, bytes);

	return is_same(e, value, again, column->byval, column->len);
}

/* Not in SQL objects of version 1.0, which other nodes then have, too. */
static bool
can_be_received(void)
{
	Oid			types[2] = {BYTEAOID, ANYELEMENTOID};

	return SearchSysCacheExists3(PROCNAMEARGSNSP, CStringGetDatum("received"),
								 PointerGetDatum(buildoidvector(types, 2)), ObjectIdGetDatum(ls_schema_oid()));
}

static void
refuse(const LsRelation *r, const LsColumn *column, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replicate a value of type %s", format_type_be(column->exact_text->type)),
			 errdetail("The value is of column %s of table %s. %s", column->name, r->name, why),
			 errhint("Keep what it is made of, or its binary form as bytea, and make the value of it where it is needed.")));
}

LsSlice
exacttext_binary(const LsRelation *r, AttrNumber attnum, Datum value)
{
	const LsColumn *column = &r->columns[attnum - 1];
	bytea	   *bytes = send(column->exact_text, value);
	size_t		len = VARSIZE_ANY_EXHDR(bytes);
	char	   *text = palloc(2 * len + 3);

	/* also if it is only to be found: it would not be */
	if (!binary_gives_back(column->exact_text, column, value, bytes))
		refuse(r, column, "The values of this column travel in binary form since there was one in this session whose text stands for another value; so does the binary form of this one.");
	text[0] = '\\';
	text[1] = 'x';
	text[2 + hex_encode(VARDATA_ANY(bytes), len, text + 2)] = '\0';
	return ls_slice_of(text);
}

bool
exacttext_gives_back(const LsRelation *r, AttrNumber attnum, Datum value, const char *text, bool stored)
{
	const LsColumn *column = &r->columns[attnum - 1];
	LsExactText *e = column->exact_text;
	Datum		again = InputFunctionCall(&e->input, unconstify(char *, text), e->ioparam, -1);

	if (is_same(e, value, again, column->byval, column->len))
		return true;
	if (OidIsValid(e->send.fn_oid) && can_be_received() && binary_gives_back(e, column, value, send(e, value)))
		return false;
	if (!stored)
		return true;			/* by its text it may be found */
	refuse(r, column, "Values travel as text, and the text of this one stands for another value; so does its binary form, or the type has none that other nodes can read.");
	return false;				/* not reached */
}

/* ---------- the binary form, as it is read */

/* For what send and receive functions do with texts.  Returns what was before. */
int
exacttext_enter_encoding(void)
{
	int			was = pg_get_client_encoding();

	(void) SetClientEncoding(GetDatabaseEncoding());
	return was;
}

void
exacttext_leave_encoding(int was)
{
	(void) SetClientEncoding(was);
}

/* type: from another node, whose OIDs are in it; else InvalidOid. */
Datum
exacttext_receive(FmgrInfo *receive, Oid ioparam, Oid type, const bytea * bytes)
{
	int			encoding = exacttext_enter_encoding();
	StringInfoData buffer;
	Datum		value = (Datum) 0;

	initStringInfo(&buffer);
	appendBinaryStringInfo(&buffer, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	if (OidIsValid(type))
		ownoids_put(type, buffer.data, buffer.len);
	PG_TRY();
	{
		value = ReceiveFunctionCall(receive, &buffer, ioparam, -1);
	}
	PG_FINALLY();
	{
		exacttext_leave_encoding(encoding);
	}
	PG_END_TRY();
	if (buffer.cursor != buffer.len)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("incorrect binary data format of a value")));
	return value;
}
