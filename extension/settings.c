/*
 * settings.c
 *	  The settings that the meaning of a forwarded statement depends on.
 *
 * They travel with the statement, all of them, as another node's defaults may
 * be others.  search_path goes as the schemas that it means now, without those
 * of temporary objects: no forwarded statement may find any.  The time of the
 * transaction is among them, so that now() and literals like 'today' mean the
 * same everywhere.  The role comes last, as it may lack the right to set the
 * others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "lockstep.h"

static const char *const names[] = {
	"array_nulls",
	"backslash_quote",
	"bytea_output",
	"createrole_self_grant",
	"DateStyle",
	"default_table_access_method",
	"default_tablespace",
	"default_text_search_config",
	"default_toast_compression",
	"extra_float_digits",
	"IntervalStyle",
	"lc_monetary",
	"lc_numeric",
	"lc_time",
	"standard_conforming_strings",
	"TimeZone",
	"timezone_abbreviations",
	"transform_null_equals",
	"xmlbinary",
	"xmloption",
};

static void
append_setting(StringInfo out, const char *name, const char *value)
{
	appendBinaryStringInfo(out, name, strlen(name) + 1);
	appendBinaryStringInfo(out, value, strlen(value) + 1);
}

static char *
search_path_without_temporary(void)
{
	StringInfoData path;
	ListCell   *lc;

	initStringInfo(&path);
	foreach(lc, fetch_search_path(false))
	{
		char	   *schema = get_namespace_name(lfirst_oid(lc));

		if (schema == NULL || isAnyTempNamespace(lfirst_oid(lc)))
			continue;
		appendStringInfo(&path, "%s%s", path.len > 0 ? ", " : "", quote_identifier(schema));
	}
	return path.data;
}

void
settings_append(StringInfo out)
{
	int			i;

	for (i = 0; i < lengthof(names); i++)
	{
		const char *value = GetConfigOption(names[i], true, false);

		if (value != NULL)
			append_setting(out, names[i], value);
	}
	append_setting(out, "search_path", search_path_without_temporary());

	/*
	 * they were checked here, where temporary tables of this session are
	 * known
	 */
	append_setting(out, "check_function_bodies", "off");
	append_setting(out, LS_SETTING_TIME, psprintf(INT64_FORMAT, GetCurrentTransactionStartTimestamp()));
	append_setting(out, "role", GetUserNameFromId(GetUserId(), false));
}
