/*
 * deparsevalue.c
 *	  The values of a row as parameters of a query, or as a line of COPY.
 *
 * They are text from the types' output functions, called between deparse_enter and
 * deparse_leave.  The text consists of characters that other nodes can read (repertoire.h), and is
 * exact; where it is not, the caller is told by r->renew to begin the row again, as the column travels in
 * binary from then on (exacttext.h).
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "compat.h"
#include "deparse.h"
#include "exacttext.h"
#include "lockstep.h"
#include "pack.h"
#include "relation.h"
#include "repertoire.h"

/* The text of a value of a type that is not a common one. */
static pg_noinline LsSlice
output_text(LsRelation *r, AttrNumber attnum, Datum value, bool stored)
{
	LsColumn   *column = &r->columns[attnum - 1];
	LsSlice		text;

	if (column->hides_texts)
		repertoire_check_inside(r, attnum, value);
	if (column->binary && !r->in_texts)
		return exacttext_binary(r, attnum, value);
	text = ls_slice_of(OutputFunctionCall(&column->output, value));
	repertoire_check_text(r, attnum, (const char *) text.data, text.len);
	if (column->exact_text != NULL && !r->in_texts &&
		!exacttext_gives_back(r, attnum, value, (const char *) text.data, stored))
		column->binary = r->in_binary = r->renew = true;
	return text;
}

/* Two digits for each byte. */
static pg_noinline void
check_bytea_size(LsRelation *r, AttrNumber attnum, Datum value)
{
	Size		size = toast_raw_datum_size(value) - VARHDRSZ;

	if (size >= MaxAllocSize / 2 - 2)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot replicate a value of type bytea with %zu bytes", size),
				 errdetail("It is in column %d of table %s; values travel as text, which has at most 1 GB.", attnum, r->name),
				 errhint("Divide it among several rows, or use a large object.")));
}

static pg_attribute_always_inline LsSlice
value_text(LsRelation *r, AttrNumber attnum, Datum value, bool stored)
{
	LsColumn   *column = &r->columns[attnum - 1];
	struct varlena *string;
	LsSlice		text;

	switch (column->output.fn_oid)
	{
		case F_TEXTOUT:
		case F_VARCHAROUT:
			string = PG_DETOAST_DATUM_PACKED(value);
			text = make_slice(VARDATA_ANY(string), VARSIZE_ANY_EXHDR(string));
			if (unlikely(!repertoire_is_plain((const char *) text.data, text.len)))
				repertoire_check_text(r, attnum, (const char *) text.data, text.len);
			return text;
		case F_BYTEAOUT:
			check_bytea_size(r, attnum, value);
			__attribute__((fallthrough));
		default:
			return column->ascii ? ls_slice_of(OutputFunctionCall(&column->output, value)) :
				output_text(r, attnum, value, stored);
	}
}

/* The commonest types don't take the way by a palloc'ed string. */
static void
append_value(LsRelation *r, AttrNumber attnum, const Datum *values, const bool *nulls,
			 bool stored, StringInfo out)
{
	LsColumn   *column = &r->columns[attnum - 1];
	Datum		value = values[attnum - 1];
	LsSlice		text;

	if (nulls[attnum - 1])
	{
		pack_param(out, NULL, 0);
		return;
	}
	switch (column->output.fn_oid)
	{
		case F_INT4OUT:
			pack_int4(out, DatumGetInt32(value));
			return;
		case F_INT8OUT:
			pack_int8(out, DatumGetInt64(value));
			return;
		default:
			text = value_text(r, attnum, value, stored);
			pack_param(out, (const char *) text.data, text.len);
			return;
	}
}

uint32
deparse_settable(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out)
{
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (column_is_settable(&r->columns[i]))
			append_value(r, i + 1, values, nulls, true, out);
	}
	return r->nsettable;
}

uint32
deparse_assigned(LsRelation *r, const LsColumnSet *set, const Datum *values,
				 const bool *nulls, StringInfo out)
{
	uint32		n = 0;
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (!column_is_settable(&r->columns[i]) || !column_set_has(set, i + 1))
			continue;
		append_value(r, i + 1, values, nulls, true, out);
		n++;
	}
	return n;
}

uint32
deparse_identity(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out)
{
	uint32		n = 0;
	int			i;

	for (i = 0; i < r->nidentity; i++)
		append_value(r, r->identity[i].attnum, values, nulls, false, out);
	if (r->nidentity > 0)
		return r->nidentity;
	for (i = 0; i < r->natts; i++)
	{
		if (!r->columns[i].live)
			continue;
		append_value(r, i + 1, values, nulls, false, out);
		n++;
	}
	return n;
}

/* Equal on all nodes, whether a session there has met such a value or not. */
void
deparse_image(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out)
{
	r->in_texts = true;
	(void) deparse_identity(r, values, nulls, out);
	r->in_texts = false;
}

/* COPY's special characters; the encoding is a server's, so bytes will do. */
static inline char *
copy_byte(char *to, char c)
{
	if (likely(c != '\\' && (unsigned char) c >= ' '))
	{
		*to++ = c;
		return to;
	}
	switch (c)
	{
		case '\\':
			break;
		case '\n':
			c = 'n';
			break;
		case '\r':
			c = 'r';
			break;
		case '\t':
			c = 't';
			break;
		default:
			*to++ = c;
			return to;
	}
	*to++ = '\\';
	*to++ = c;
	return to;
}

/* Is a byte of them below a space, or a backslash? */
static inline bool
any_special(uint64 bytes)
{
	const uint64 each = UINT64CONST(0x0101010101010101);
	uint64		backslash_is_0 = bytes ^ (each * '\\');

	return (((bytes - each * ' ') | (backslash_is_0 - each)) & ~bytes & (each * 0x80)) != 0;
}

#define LARGE (1024 * 1024)

/* An error if it would exceed the size of a buffer. */
static size_t
escaped_length(const char *data, size_t len)
{
	size_t		escaped = len;

	for (size_t i = 0; i < len; i++)
		escaped += data[i] == '\\' || (data[i] >= 0 && data[i] < ' ');
	return Min(escaped, MaxAllocSize);
}

static void
append_copy_value(const char *data, size_t len, StringInfo out)
{
	const char *end = data + len;
	char	   *to;

	/* of a large value, what it needs */
	enlargeStringInfo(out, (int) (len < LARGE ? 2 * len : escaped_length(data, len)));
	to = out->data + out->len;
	while (data < end)
	{
		const char *stop = data + Min(sizeof(uint64), (size_t) (end - data));
		uint64		bytes;

		if (stop - data == sizeof(bytes))
		{
			memcpy(&bytes, data, sizeof(bytes));
			if (likely(!any_special(bytes)))
			{
				memcpy(to, &bytes, sizeof(bytes));
				to += sizeof(bytes);
				data = stop;
				continue;
			}
		}
		while (data < stop)
			to = copy_byte(to, *data++);
	}
	out->len = to - out->data;
}

/* As append_value. */
static void
append_copy_datum(LsRelation *r, AttrNumber attnum, Datum value, StringInfo out)
{
	LsSlice		text;

	switch (r->columns[attnum - 1].output.fn_oid)
	{
		case F_INT4OUT:
			enlargeStringInfo(out, 12);
			out->len += pg_ltoa(DatumGetInt32(value), out->data + out->len);
			return;
		case F_INT8OUT:
			enlargeStringInfo(out, MAXINT8LEN + 1);
			out->len += pg_lltoa(DatumGetInt64(value), out->data + out->len);
			return;
		default:
			text = value_text(r, attnum, value, true);
			append_copy_value((const char *) text.data, text.len, out);
			return;
	}
}

void
deparse_copy_row(LsRelation *r, const Datum *values, const bool *nulls, StringInfo out)
{
	bool		first = true;
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (!column_is_settable(&r->columns[i]))
			continue;
		if (!first)
			appendStringInfoChar(out, '\t');
		first = false;
		if (nulls[i])
			appendBinaryStringInfo(out, "\\N", 2);
		else
			append_copy_datum(r, i + 1, values[i], out);
	}
	appendStringInfoChar(out, '\n');
}

void
deparse_copy_line(const LsSlice *params, StringInfo out)
{
	LsSlice		rest = *params;
	LsSlice		value;
	bool		first = true;

	while (ls_next_param(&rest, &value))
	{
		if (!first)
			appendStringInfoChar(out, '\t');
		first = false;
		if (value.data == NULL)
			appendStringInfoString(out, "\\N");
		else
			append_copy_value((const char *) value.data, value.len, out);
	}
	appendStringInfoChar(out, '\n');
}
