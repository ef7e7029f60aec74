/*
 * deparse.c
 *	  Changed rows -> queries in row form: their texts.
 *
 * A query names its table with the schema, takes every value as a parameter,
 * and finds its row by the identity: the columns of an index, compared by that
 * index's own equality, or else the image of the whole row, of which one is
 * taken.  It means the same in any session whose search_path is pg_catalog, so
 * types and operators are qualified.  Its text depends on the relation and the
 * set of columns only, is made once, and can be prepared by its receiver.
 *
 * Values are text from the types' output functions, exact and independent of
 * the session's settings: see deparse_enter.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"

#include "deparse.h"
#include "patch.h"
#include "relation.h"

/* Texts kept for different sets of updated columns of one relation. */
#define UPDATE_TEXTS_KEPT 64

/* Ends the text of a DELETE of a partition's row that does not move to another one.  Nodes of version 1.0 send none. */
#define FOR_GOOD " /* for good */"

/* Columns by which rows are sorted out before their images are compared. */
#define SORTING_OUT 2

/* ---------- settings */

static int
attributes_need(Oid composite)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(composite, -1);
	int			needs = 0;
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped)
			needs |= deparse_type_needs(att->atttypid);
	}
	ReleaseTupleDesc(desc);
	return needs;
}

int
deparse_type_needs(Oid type)
{
	Oid			element;

	type = getBaseType(type);
	element = get_element_type(type);
	if (OidIsValid(element))
		return deparse_type_needs(element);
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case NUMERICOID:
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case UUIDOID:
		case JSONOID:
		case JSONBOID:
			return 0;
		case CASHOID:
			return LS_NEEDS_LC_MONETARY;
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGTYPEOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
			return LS_NEEDS_SEARCH_PATH;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_ENUM:
			return 0;
		case TYPTYPE_COMPOSITE:
			return attributes_need(type);
		case TYPTYPE_RANGE:
			return deparse_type_needs(get_range_subtype(type));
		case TYPTYPE_MULTIRANGE:
			return deparse_type_needs(get_multirange_range(type));
		default:
			return LS_NEEDS_STYLES;
	}
}

static void
set_for_text(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * The five settings that matter for common types are plain variables, which the
 * output functions read directly: they are changed behind the GUC machinery's
 * back, as nothing but output functions runs until they are put back, and
 * because a row must not cost a GUC nest level.
 *
 * A timestamptz is written in UTC: a session's time zone may be one (SET TIME ZONE -20) whose
 * offset PostgreSQL writes and does not read.
 */
static pg_tz *
utc(void)
{
	static pg_tz * zone = NULL;

	if (unlikely(zone == NULL))
		zone = pg_tzset("GMT");
	return zone;
}

static LsTextSettings *entered = NULL;

void
deparse_enter(const LsRelation *r, LsTextSettings *saved)
{
	pg_tz	   *zone = utc();

	saved->guc_nest_level = 0;
	if (r->needs & (LS_NEEDS_LC_MONETARY | LS_NEEDS_SEARCH_PATH))
	{
		saved->guc_nest_level = NewGUCNestLevel();
		if ((r->needs & LS_NEEDS_LC_MONETARY) && strcmp(locale_monetary, "C") != 0)
			set_for_text("lc_monetary", "C");
		if (r->needs & LS_NEEDS_SEARCH_PATH)
			set_for_text("search_path", "pg_catalog");
	}

	/* nothing below can fail: leave will be called */
	entered = saved;
	saved->changed = (r->needs & LS_NEEDS_STYLES) &&
		(extra_float_digits < 1 || DateStyle != USE_ISO_DATES ||
		 IntervalStyle != INTSTYLE_POSTGRES || bytea_output != BYTEA_OUTPUT_HEX || session_timezone != zone);
	if (saved->changed)
	{
		saved->float_digits = extra_float_digits;
		saved->date_style = DateStyle;
		saved->interval_style = IntervalStyle;
		saved->bytea_style = bytea_output;
		saved->time_zone = session_timezone;
		extra_float_digits = 1;
		DateStyle = USE_ISO_DATES;
		IntervalStyle = INTSTYLE_POSTGRES;
		bytea_output = BYTEA_OUTPUT_HEX;
		session_timezone = zone;
	}
}

void
deparse_leave(const LsTextSettings *saved)
{
	if (saved->changed)
	{
		extra_float_digits = saved->float_digits;
		DateStyle = saved->date_style;
		IntervalStyle = saved->interval_style;
		bytea_output = saved->bytea_style;
		session_timezone = saved->time_zone;
	}
	if (saved->guc_nest_level > 0)
		AtEOXact_GUC(true, saved->guc_nest_level);
	entered = NULL;
}

bool
deparse_is_entered(void)
{
	return entered != NULL;
}

/*
 * xml_out leaves out the declaration, which is part of the value: <?xml version="1.0" encoding="UTF-8"?>.  It is
 * called for values within arrays and composite values, too.
 */
static PGFunction original_xml_out;

static Datum
instead_of_xml_out(PG_FUNCTION_ARGS)
{
	if (deparse_is_entered())
		PG_RETURN_CSTRING(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	return original_xml_out(fcinfo);
}

void
deparse_init(void)
{
	ls_replace_function(F_XML_OUT, instead_of_xml_out, &original_xml_out, "xml_out");
}

/* If what runs meanwhile fails, leave finds nothing to do. */
LsTextSettings *
deparse_pause(void)
{
	LsTextSettings *paused = entered;

	if (paused == NULL)
		return NULL;
	deparse_leave(paused);
	paused->changed = false;
	paused->guc_nest_level = 0;
	return paused;
}

void
deparse_go_on(const LsRelation *r, LsTextSettings *paused)
{
	if (paused != NULL)
		deparse_enter(r, paused);
}

/* ---------- texts */

static void
append_settable_names(const LsRelation *r, StringInfo text)
{
	const char *separator = "";
	int			i;

	for (i = 0; i < r->natts; i++)
	{
		if (!column_is_settable(&r->columns[i]))
			continue;
		appendStringInfo(text, "%s%s", separator, r->columns[i].name);
		separator = ", ";
	}
}

static void
start_text(LsRelation *r, StringInfo text)
{
	MemoryContext old = MemoryContextSwitchTo(r->context);

	initStringInfo(text);
	MemoryContextSwitchTo(old);
}

/*
 * A parameter.  The function is polymorphic, so it makes what the second argument is.
 */
static void
append_param(const LsColumn *column, int param, bool typed, StringInfo text)
{
	if (column->binary)
		appendStringInfo(text, "lockstep.received($%d, NULL::%s)", param, column->type);
	else if (typed)
		appendStringInfo(text, "$%d::%s", param, column->type);
	else
		appendStringInfo(text, "$%d", param);
}

/*
 * A value for a column.  One of a domain is read as its base type, and
 * converted by the query, which is where applyrow.c leaves out the domain's checks.
 */
static void
append_assigned(const LsColumn *column, int param, StringInfo text)
{
	append_param(column, param, column->domain, text);
}

const char *
deparse_insert(LsRelation *r)
{
	StringInfoData text;
	int			param = 1;
	int			i;

	if (r->insert_text != NULL)
		return r->insert_text;
	start_text(r, &text);
	appendStringInfo(&text, "INSERT INTO %s ", r->name);
	if (r->nsettable == 0)
		appendStringInfoString(&text, "DEFAULT VALUES");
	else
	{
		appendStringInfoChar(&text, '(');
		append_settable_names(r, &text);
		appendStringInfoString(&text, ") OVERRIDING SYSTEM VALUE VALUES (");
		for (i = 0; i < r->natts; i++)
		{
			if (!column_is_settable(&r->columns[i]))
				continue;
			if (param > 1)
				appendStringInfoString(&text, ", ");
			append_assigned(&r->columns[i], param++, &text);
		}
		appendStringInfoChar(&text, ')');
	}
	return r->insert_text = text.data;
}

const char *
deparse_copy(LsRelation *r)
{
	StringInfoData text;

	if (r->copy_text != NULL)
		return r->copy_text;
	start_text(r, &text);
	appendStringInfo(&text, "COPY %s (", r->name);
	append_settable_names(r, &text);
	appendStringInfoString(&text, ") FROM STDIN");
	return r->copy_text = text.data;
}

/*
 * Are rows compared as the list of their stored columns?  Values of domains stand
 * for what they are made of: a row may be older than its domain's constraints.
 * Columns that aren't stored have no value that could travel.
 */
static inline bool
row_is_written_out(const LsRelation *r)
{
	return r->has_domain || r->has_virtual;
}

/* The row that the parameters from param on make, comparable with append_x. */
static void
append_row(const LsRelation *r, int param, StringInfo text)
{
	const char *separator = "";
	int			i;

	appendStringInfoString(text, "ROW(");
	for (i = 0; i < r->natts; i++)
	{
		if (!r->columns[i].live)
			continue;
		appendStringInfoString(text, separator);
		append_param(&r->columns[i], param++, true, text);
		separator = ", ";
	}
	if (row_is_written_out(r))
		appendStringInfoString(text, ")::pg_catalog.record");
	else
		appendStringInfo(text, ")::%s", r->name);
}

/* The row of table x. */
static void
append_x(const LsRelation *r, StringInfo text)
{
	const char *separator = "";
	int			i;

	if (!row_is_written_out(r))
	{
		appendStringInfoString(text, "x.*");
		return;
	}
	appendStringInfoString(text, "ROW(");
	for (i = 0; i < r->natts; i++)
	{
		if (!r->columns[i].live)
			continue;
		appendStringInfo(text, "%sx.%s::%s", separator, r->columns[i].name, r->columns[i].type);
		separator = ", ";
	}
	appendStringInfoString(text, ")::pg_catalog.record");
}

/*
 * Most rows are another one, which is found out soonest by columns that are
 * compared as numbers.  Equal images are equal; NULL is left to the image.
 */
static void
append_sorting_out(const LsRelation *r, int param, StringInfo text)
{
	int			n = 0;
	int			i;

	for (i = 0; i < r->natts && n < SORTING_OUT; i++)
	{
		if (!r->columns[i].live)
			continue;
		if (r->columns[i].cheap)
		{
			appendStringInfo(text, "(x.%s OPERATOR(pg_catalog.=) $%d::%s) IS NOT FALSE AND ",
							 r->columns[i].name, param, r->columns[i].type);
			n++;
		}
		param++;
	}
}

/*
 * One row whose image is given; equal columns would not be enough (1.0, 1.00).
 * There are types with several images of one text, such as arrays that have a
 * bitmap of nulls and none in it.  A row that was made here may have another
 * image than its text has, so if the image isn't found the text is looked for.
 */
static void
append_where_image(const LsRelation *r, int param, StringInfo text)
{
	appendStringInfo(text, " WHERE ctid OPERATOR(pg_catalog.=) COALESCE((SELECT x.ctid FROM ONLY %s x"
					 " WHERE ", r->name);
	append_sorting_out(r, param, text);
	append_x(r, text);
	appendStringInfoString(text, " OPERATOR(pg_catalog.*=) ");
	append_row(r, param, text);
	appendStringInfo(text, " LIMIT 1), (SELECT x.ctid FROM ONLY %s x WHERE ", r->name);
	append_sorting_out(r, param, text);
	appendStringInfoChar(text, '(');
	append_x(r, text);
	appendStringInfoString(text, ")::pg_catalog.text COLLATE pg_catalog.\"C\" OPERATOR(pg_catalog.=) (");
	append_row(r, param, text);
	appendStringInfoString(text, ")::pg_catalog.text LIMIT 1))");
}

static void
append_where_identity(const LsRelation *r, int param, StringInfo text)
{
	int			i;

	if (r->nidentity == 0)
	{
		append_where_image(r, param, text);
		return;
	}
	for (i = 0; i < r->nidentity; i++)
	{
		const LsColumn *column = &r->columns[r->identity[i].attnum - 1];

		appendStringInfo(text, "%s%s %s ", i == 0 ? " WHERE " : " AND ", column->name, r->identity[i].equals);
		append_param(column, param++, true, text);
		appendStringInfoString(text, r->identity[i].collate);
	}
}

LsSlice
deparse_delete(LsRelation *r, bool for_good)
{
	LsSlice    *made = &r->delete_texts[for_good];
	StringInfoData text;

	if (made->data != NULL)
		return *made;
	start_text(r, &text);
	appendStringInfo(&text, "DELETE FROM ONLY %s", r->name);
	append_where_identity(r, 1, &text);
	if (for_good)
		appendStringInfoString(&text, FOR_GOOD);
	return *made = ls_slice_of_buffer(&text);
}

bool
deparse_is_for_good(const char *text, size_t len)
{
	const size_t mark = strlen(FOR_GOOD);

	return len > mark && memcmp(text + len - mark, FOR_GOOD, mark) == 0;
}

static char *
make_update_text(LsRelation *r, const LsColumnSet *set)
{
	StringInfoData text;
	int			param = 1;
	int			i;

	start_text(r, &text);
	appendStringInfo(&text, "UPDATE ONLY %s SET ", r->name);
	for (i = 0; i < r->natts; i++)
	{
		if (!column_is_settable(&r->columns[i]) || !column_set_has(set, i + 1))
			continue;
		appendStringInfo(&text, "%s%s = ", param == 1 ? "" : ", ", r->columns[i].name);
		append_assigned(&r->columns[i], param++, &text);
	}
	append_where_identity(r, param, &text);
	return text.data;
}

static void
forget_update_texts(LsRelation *r)
{
	while (r->update_texts != NULL)
	{
		LsUpdateText *first = r->update_texts;

		r->update_texts = first->next;
		pfree(first->changed);
		pfree(first->text);
		pfree(first);
	}
	r->nupdate_texts = 0;
}

void
deparse_renew(LsRelation *r)
{
	r->renew = false;
	r->insert_text = r->copy_text = NULL;	/* they go with the entry */
	r->delete_texts[false] = r->delete_texts[true] = make_slice(NULL, 0);
	forget_update_texts(r);

	/* neither COPY nor an array has a place for the function */
	r->batches = false;
}

/* The one used last stands first. */
const char *
deparse_update(LsRelation *r, const LsColumnSet *set)
{
	Size		size = r->nwords * sizeof(uint64);
	LsUpdateText **link;
	LsUpdateText *found;

	for (link = &r->update_texts; *link != NULL; link = &(*link)->next)
	{
		if (memcmp((*link)->changed, set->words, size) == 0)
			break;
	}
	found = *link;
	if (found != NULL)
		*link = found->next;
	else
	{
		if (r->nupdate_texts >= UPDATE_TEXTS_KEPT)
			forget_update_texts(r);
		found = MemoryContextAlloc(r->context, sizeof(LsUpdateText));
		found->changed = MemoryContextAlloc(r->context, size);
		memcpy(found->changed, set->words, size);
		found->text = make_update_text(r, set);
		r->nupdate_texts++;
	}
	found->next = r->update_texts;
	r->update_texts = found;
	return found->text;
}

/* ---------- texts for many rows at once */

/* The arrays' elements as rows u(c1, c2, ...), and how x is found by the last of them. */
static void
append_elements(const LsRelation *r, const LsColumnSet *set, const char *clause, StringInfo text)
{
	StringInfoData names;
	int			param = 1;
	int			i;

	initStringInfo(&names);
	appendStringInfo(text, " %s ROWS FROM (", clause);
	for (i = 0; i < r->natts + r->nidentity; i++)
	{
		const LsColumn *column = i < r->natts ? &r->columns[i] :
		&r->columns[r->identity[i - r->natts].attnum - 1];

		if (i < r->natts && (set == NULL || !column_is_settable(column) || !column_set_has(set, i + 1)))
			continue;
		appendStringInfo(text, "%spg_catalog.unnest($%d::%s[])", param == 1 ? "" : ", ",
						 param, column->type);
		appendStringInfo(&names, "%sc%d", param == 1 ? "" : ", ", param);
		param++;
	}
	appendStringInfo(text, ") AS u(%s)", names.data);
	param -= r->nidentity;
	for (i = 0; i < r->nidentity; i++)
		appendStringInfo(text, "%sx.%s %s u.c%d%s", i == 0 ? " WHERE " : " AND ",
						 r->columns[r->identity[i].attnum - 1].name, r->identity[i].equals, param++,
						 r->identity[i].collate);
	pfree(names.data);
}

void
deparse_many(const LsRelation *r, const LsColumnSet *set, bool for_good, StringInfo text)
{
	int			param = 1;
	int			i;

	if (set == NULL)
	{
		appendStringInfo(text, "DELETE FROM ONLY %s AS x", r->name);
		append_elements(r, NULL, "USING", text);
		if (for_good)
			appendStringInfoString(text, FOR_GOOD);
		return;
	}
	appendStringInfo(text, "UPDATE ONLY %s AS x SET ", r->name);
	for (i = 0; i < r->natts; i++)
	{
		if (column_is_settable(&r->columns[i]) && column_set_has(set, i + 1))
		{
			appendStringInfo(text, "%s%s = u.c%d", param == 1 ? "" : ", ", r->columns[i].name, param);
			param++;
		}
	}
	append_elements(r, set, "FROM", text);
}

void
deparse_delimiters(const LsRelation *r, const LsColumnSet *set, StringInfo delimiters)
{
	int			i;

	for (i = 0; set != NULL && i < r->natts; i++)
	{
		if (column_is_settable(&r->columns[i]) && column_set_has(set, i + 1))
			appendStringInfoChar(delimiters, r->columns[i].delimiter);
	}
	for (i = 0; i < r->nidentity; i++)
		appendStringInfoChar(delimiters, r->columns[r->identity[i].attnum - 1].delimiter);
}
